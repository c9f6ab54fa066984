"""Every claim of the documents has a place and a command; the short commands are carried out."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from claims_page import NONE, PAGE, TAKES, Claim, PageError, cases_of, read
from documents import ROOT, carry_out, headings

from tcpf_lab import cli

CLAIMS, REASONS = read(PAGE.read_text(encoding="utf-8"))
LINES = [claim for claim in CLAIMS if not claim.place_in_code]
#: Words of ``lab`` that are modules of the checkout with a command line of their own.
MODULES = {
    "bench": "benchmarks",
    **{word: word for word in ("stress", "fuzz", "accuracy", "faults")},
}
#: A program keeps none of root's rights this way; others have none to begin with.
AS_ANYBODY = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
)


def verb(word: str) -> Any:
    """Give the command line behind a word of ``lab``."""
    if word not in MODULES:
        return cli.load(word)
    app = typer.Typer()
    app.command()(importlib.import_module(f"{MODULES[word]}.__main__").main)
    return typer.main.get_command(app)


def is_tcpf_lab(claim: Claim) -> bool:
    return not claim.place_in_code and claim.words[0] in cli.VERBS


def named_test(claim: Claim) -> tuple[Path, str]:
    """Give file and name of the test that a row names; those of ``test-vm`` need no file."""
    words = claim.words
    if words[0] == "test-vm":
        option, name = words[1:]
        files = [path for path in (ROOT / "tests/vm").glob("test_*.py") if name in cases_of(path)]
        assert len(files) == 1, f"{claim}: no test, or several"
        path = files[0]
    else:
        file, option, name = words[1:]
        path = ROOT / file
    assert option == "-k", claim
    return path, name


def test_every_document_has_claims_or_a_reason_to_have_none() -> None:
    documents = {"README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))}
    claimed = {claim.document for claim in CLAIMS}
    assert claimed | set(REASONS) == documents
    assert not claimed & set(REASONS)


@pytest.mark.parametrize("document", dict.fromkeys(claim.document for claim in CLAIMS))
def test_every_place_exists(document: str) -> None:
    known = headings((ROOT / document).read_text(encoding="utf-8"))
    assert [
        f"{claim}: no heading {claim.heading!r}"
        for claim in CLAIMS
        if claim.document == document and claim.heading not in known
    ] == []


def test_every_row_is_written_once_and_says_how_long_it_takes() -> None:
    rows = [(claim.document, claim.text) for claim in CLAIMS]
    assert [row for row in dict.fromkeys(rows) if rows.count(row) > 1] == []
    assert [str(claim) for claim in CLAIMS if claim.takes not in TAKES] == []


def test_every_place_in_the_code_has_what_it_is_named_for() -> None:
    for claim in CLAIMS:
        if claim.place_in_code:
            file, text = claim.place_in_code
            assert text in (ROOT / file).read_text(encoding="utf-8"), claim


def test_every_test_that_is_named_is_one_that_ci_runs() -> None:
    """Only what `./lab test-vm` runs is not: then it is named by that word."""
    named = [claim for claim in LINES if claim.words[0] in ("test", "test-vm")]
    assert named
    for claim in named:
        path, name = named_test(claim)
        assert re.fullmatch(r"test_\w+\.py", path.name), claim
        assert (ROOT / "tests") in path.parents, claim
        assert name in cases_of(path), f"{claim}: {path.name} has no {name}"
        assert cases_of(path)[name] is (claim.words[0] == "test"), claim
        assert claim.seen.startswith("passes"), claim


def test_every_other_command_is_one_that_there_is() -> None:
    """Its words are read as the command line reads them, and files that it names are there."""
    for claim in LINES:
        word, *rest = claim.words
        if word in ("test", "test-vm"):
            continue
        command = verb(word)
        while rest and rest[0] in getattr(command, "commands", ()):
            command = command.commands[rest.pop(0)]
        try:
            command.make_context(word, list(rest))
        except Exception as error:
            raise AssertionError(f"{claim}: {error!r}") from error
        for file in re.findall(r"\S+\.yaml", shlex.join(rest)):
            assert (ROOT / "experiments" / file).exists(), claim


@pytest.mark.uml
def test_short_lines_show_what_they_are_said_to_show(
    uml: object, tmp_path: Path, recorded: Path
) -> None:
    """All in their order, in one directory, each once; nothing has any of root's rights."""
    if AS_ANYBODY:
        assert shutil.which("setpriv"), "util-linux brings it"
    for name, at in {"some-capture": "S", "in": "R1-in", "out": "R1-out"}.items():
        (tmp_path / f"{name}.pcap").symlink_to(recorded / "pcap" / f"{at}.pcap.zst")
    before = ["env", "COLUMNS=200", *AS_ANYBODY]
    done: dict[str, tuple[int, str]] = {}
    failures = []
    for claim in CLAIMS:
        if claim.takes != "seconds" or not is_tcpf_lab(claim):
            continue
        line = shlex.join(claim.words)
        if line not in done:
            result = carry_out(claim.words, tmp_path, before)
            done[line] = (result.returncode, result.stdout + result.stderr)
        status, said = done[line]
        lacking = [text for text in claim.outputs if text not in said]
        if status != claim.status or lacking or not claim.outputs:
            failures.append(f"{claim}\nstatus {status}, without {lacking}:\n{said}")
    assert not failures, "\n\n".join(failures)
    assert len(done) > 10


HEADER = "| Claim | Stands under | Shown by | Takes | What must be seen |\n|---|---|---|---|---|\n"


def test_a_row_that_is_laid_out_otherwise_is_refused() -> None:
    good = "## README.md\n\n" + HEADER + "| a | b | `./lab doctor` | seconds | `c` |\n"
    (claim,), none = read(good)
    assert (claim.document, claim.words, claim.outputs) == ("README.md", ["doctor"], ["c"])
    assert none == {}
    for wrong in (" a |", "| a | b | `./lab doctor` | seconds | |", "| a | b | c | d | e | f |"):
        with pytest.raises(PageError, match=r"claims\.md:6"):
            read(good + "|" + wrong.lstrip("|") + "\n")
    (claim, again), _ = read(good + "| a2 | b | ./lab doctor | seconds | c |\n")
    with pytest.raises(PageError, match="neither one command"):
        _ = again.words


def test_a_document_without_claims_has_its_reason() -> None:
    _, reasons = read(f"## {NONE}\n\n| Document | Why |\n|---|---|\n| docs/x.md | words |\n")
    assert reasons == {"docs/x.md": "words"}


def test_a_test_that_ci_does_not_run_is_known_as_such(tmp_path: Path) -> None:
    text = "@pytest.mark.vm_long\ndef test_a():\n    pass\n\ndef test_b():\n    pass\n"
    path = tmp_path / "test_marked.py"
    path.write_text(text)
    assert cases_of(path) == {"test_a": False, "test_b": True}
    whole = tmp_path / "test_whole.py"
    whole.write_text("pytestmark = [pytest.mark.vm_long]\n" + text)
    assert cases_of(whole) == {"test_a": False, "test_b": False}

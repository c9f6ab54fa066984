"""What the documents show works: every experiment, every command, every link."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tcpf_lab.calibration.target import cells_of
from tcpf_lab.cli.reference import commands as reference
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.calibrated import read_subject
from tcpf_lab.spec.load import load_any, parse
from tcpf_lab.spec.sweep import expand
from tools.site import stage as site
from tools.site.__main__ import foreign

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    path for depth in ("*", "*/*", "docs/*/*") for path in sorted(ROOT.glob(f"{depth}.md"))
]
TOUR = "".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/get-started.md"))
GUIDE = (ROOT / "docs" / "queues.md").read_text(encoding="utf-8")
CALIBRATE = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
#: Words of the script `lab` itself; all others are tcpf-lab's.
OF_THE_SCRIPT = ("setup", "test", "check", "bench", "docs", "notebooks")
#: Nothing needs root: a program keeps none of its rights this way; others have none anyway.
DROP = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
AS_ANYBODY = DROP if os.geteuid() == 0 else []


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands_of(text: str) -> list[list[str]]:
    """Give the words of every line of the shell that a document shows."""
    shown = [block.replace("\\\n", " ") for block in blocks("sh", text)]
    lines = [line for block in shown for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command]


def carry_out(words: list[str], directory: Path) -> None:
    """Carry a line of ``tcpf-lab`` out in a directory, without any of root's rights."""
    line = [*AS_ANYBODY, sys.executable, "-m", "tcpf_lab", *words]
    result = subprocess.run(line, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, f"{shlex.join(words)}\n{result.stderr}"


def calibration_example(directory: Path) -> Path:
    """Write the three files of the example; give the one that is calibrated."""
    experiment, search = blocks("yaml", CALIBRATE)
    (published,) = blocks("csv", CALIBRATE)
    (directory / "old_table.yaml").write_text(experiment)
    (directory / "published.csv").write_text(published)
    (directory / "search.yaml").write_text(search)
    return directory / "search.yaml"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_files_that_a_document_names_exist(path):
    text = path.read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) + site.PICTURE.findall(text)
    named = [path.parent / target for target in linked]
    if path.name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        files = re.findall(r"`((?:tcpf_lab|kernel|docs|experiments|tests|tools)/[\w./-]+)`", text)
        assert files
        named += [ROOT / name for name in files]
    assert [str(target) for target in named if not target.exists()] == []


def test_every_experiment_of_the_tour_can_be_planned():
    shown = blocks("yaml", TOUR)
    assert shown
    for text in shown:
        for run in expand(parse(text, "get-started.md")):
            assert compose(run).phases


def test_lab_knows_its_own_words_in_the_tour():
    usage = subprocess.run(["./lab", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    words = {command[1] for command in commands_of(TOUR)}.intersection(OF_THE_SCRIPT)
    assert "test" in words
    for word in words:
        assert re.search(rf"^  {word} ", usage.stdout, flags=re.MULTILINE)


@pytest.mark.uml
def test_every_command_of_the_tour_works_in_its_order(uml, lab, tmp_path):
    """smoke.yaml is run, its captures stored for what follows; of all other runs a plan is made."""
    commands = [command for command in commands_of(TOUR) if command[1] not in OF_THE_SCRIPT]
    carry_out(["run", "smoke.yaml", "--keep-pcaps"], tmp_path)
    (tmp_path / "results" / "reference").symlink_to(ROOT / "results" / "reference")
    for script, *words in commands:
        assert script == "./lab"
        if words[0] == "run":
            words.append("--dry-run")
        status, _, complaints = lab(*(word.replace("/tmp/", f"{tmp_path}/") for word in words))
        assert status == 0, f"{shlex.join(words)}\n{complaints}"
    done = {command[1] for command in commands}
    assert {"run", "plan", "status", "report", "plot", "analyze", "device", "doctor"} <= done


def test_the_reference_of_commands_is_what_the_verbs_say():
    """`python -m tcpf_lab.cli.reference` writes it."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == reference()


def test_commands_that_the_guide_shows_of_its_plan_are_in_it():
    text, _ = blocks("yaml", GUIDE)
    plan = str(compose(expand(parse(text, "my_aqm.yaml"), {"case": "Mine"})[0]))
    shown = re.findall(r"^    (R1   tc .*)$", GUIDE, flags=re.MULTILINE)
    assert shown
    assert [line for line in shown if line not in plan] == []


def test_kinds_of_queues_that_the_guide_shows_are_cases_of_its_file():
    text, more = blocks("yaml", GUIDE)
    cases = "".join(f"  {line}\n" for line in more.splitlines())
    start, _, rest = text.partition("cases:\n")
    _, _, matrix = rest.partition("matrix:")
    made = parse(f"{start}cases:\n{cases}matrix:{matrix}", "kinds.yaml")
    assert [case.queue.may_mark for case in made.cases.values()] == [True] * 3


@pytest.mark.uml
@pytest.mark.full
def test_the_guide_goes_from_a_queue_to_a_report(uml, tmp_path):
    text, _ = blocks("yaml", GUIDE)
    (tmp_path / "my_aqm.yaml").write_text(text)
    for command in commands_of(GUIDE):
        carry_out(command[1:], tmp_path)
    report = (tmp_path / "results" / "my_aqm" / "uml" / "table.md").read_text()
    for case in ("Mine", "FQ-CoDel", "TailDrop"):
        assert case in report
    assert "invalid" not in report


def test_every_cell_of_the_calibration_that_a_document_shows_was_published(tmp_path):
    path = calibration_example(tmp_path)
    subject = read_subject(load_any(path), path)
    (experiment,) = subject.experiments
    names = cells_of(subject, subject.experiments).names
    assert [name.case for name in names] == list(experiment.cases)


@pytest.mark.uml
@pytest.mark.full
def test_the_calibration_that_a_document_shows_goes_from_three_files_to_a_report(uml, tmp_path):
    calibration_example(tmp_path)
    for command in commands_of(CALIBRATE):
        carry_out(command[1:], tmp_path)
    root = tmp_path / "results" / "search" / "calibration"
    told = read_json(root / "calibration.json")
    assert told["validity"]["left_out"] == []
    verdicts = {one["name"]: one["verdict"] for one in told["unknowns"]}
    assert verdicts["packet size"] == "pinned down" != verdicts["minimum RTO"]
    assert told["best"]["values"]["packet size"] == "576 B"


def test_the_site_has_every_document_and_what_it_links_to(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "STAGE", tmp_path)
    monkeypatch.setattr(site, "DOCS", tmp_path / "docs")
    site.stage(complete=False)
    listed = (tmp_path / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "reference").glob("*.md"):
        assert f'"docs/reference/{path.name}"' in listed
    for path in (tmp_path / "docs").rglob("*.md"):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        missing = [each for each in site.targets(text) if not (path.parent / each).exists()]
        assert missing == [], path


def test_a_request_to_another_host_is_found(tmp_path):
    page = tmp_path / "index.html"
    page.write_text('<a href="https://a.example">x</a><script src="https://b.example/x.js">')
    assert [line.partition(": ")[2] for line in foreign(tmp_path)] == [
        'src="https://b.example/x.js'
    ]

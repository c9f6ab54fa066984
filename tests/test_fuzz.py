"""Inputs that once made trouble; what is fuzzed by whom."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from typer.testing import CliRunner

from tcpf_lab.base.errors import LabError, TraceError
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run import runner
from tcpf_lab.run.campaign import rebuild
from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.packet import read_capture
from tools.fuzz import __main__ as fuzz
from tools.fuzz import run_subject, text_seeds, text_target
from tools.fuzz.text_mutate import mutate

CORPUS = sorted((Path(__file__).parent / "trace" / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_once_made_trouble_ends_in_an_answer_or_one_message(path: Path) -> None:
    for options in (Options(), Options(profile="rfc6298", at="sender"), Options(at="receiver")):
        with suppress(TraceError):
            found = analyse(path, options=options)
            assert read_capture(path, accept_truncated=True).records == found.capture.records
            assert found.flows["counts"].sum() == found.events.size


def test_findings_in_captures_are_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    def run(command: list[str], _limit_s: float) -> CompletedProcess[str]:
        called.append(command)
        told: dict[str, Any] = {"inputs": 7, "findings": 1}
        return CompletedProcess(command, 1, json.dumps(told) + "\n", "finding-1-0.pcap: panicked")

    monkeypatch.setattr(fuzz, "_run", run)
    app = fuzz.typer.Typer()
    app.command()(fuzz.main)
    words = ["0.5", "--target", "captures", "--output", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    (command,) = called
    assert command[:2] == ["cargo", "run"]
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["captures"]["inputs"] == 7
    assert "finding-1-0.pcap: panicked" in verdict["problems"][0]


# Fuzzing of specs, inventories and records of runs: what it is made of, a short round.


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("seeds")
    return {
        target: {path.name: path.read_bytes() for path in fuzz.make_seeds(target, folder / target)}
        for target in text_target.TARGETS
    }


@pytest.mark.parametrize("target", text_target.TARGETS)
def test_a_short_round_of_mutations_finds_nothing(
    target: str, seeds: dict[str, dict[str, bytes]]
) -> None:
    work, known = text_target.subject(target), sorted(seeds[target].values(), key=len)
    for seed in range(40):
        data = known[seed % len(known)]
        assert isinstance(work(mutate(data, seed)), str)


@pytest.mark.parametrize("target", text_target.OF_RUNS)
def test_what_once_made_trouble_makes_none(target: str) -> None:
    work = text_target.subject(target)
    kept = list(text_seeds.kept(target))
    assert kept
    for _, data in kept:
        assert work(data) != "no such file"


def damaged(name: str, content: bytes, tmp_path: Path) -> RunFiles:
    base = run_subject.bases()["counted"].root
    files = RunFiles(tmp_path / "run")
    for path in base.rglob("*"):
        if path.is_file():
            place = files.root / path.relative_to(base)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    (files.root / name).write_bytes(content)
    return files


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("manifest.json", b"[" * 100_000, "not JSON"),
        ("manifest.json", b"{}", "not a manifest of format"),
        ("stats/senders-S.jsonl", b'{"event": "sample"}\n', "contradict each other: KeyError"),
        ("stats/senders-S.jsonl", b"\xff\n", "contradict each other: UnicodeDecodeError"),
        ("stats/source-EF.jsonl", b"3\n", "contradict each other: TypeError"),
        ("stats/epoch.json", b'{"epoch_ns": 1e400}', "contradict each other: OverflowError"),
    ],
)
def test_damaged_records_end_in_a_message_that_names_the_run(
    name: str, content: bytes, says: str, tmp_path: Path
) -> None:
    files = damaged(name, content, tmp_path)
    with pytest.raises(LabError, match=says) as caught:
        runner.analyse(files)
    assert str(files.root) in str(caught.value)
    (outcome,) = rebuild([files])
    assert isinstance(outcome, LabError)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"flows": 3', b'"flows": 1000000000000'),
        (b'"flows": 3', b'"flows": "3"'),
        (b'"window_s": [\n  1.0,', b'"window_s": [\n  1e300,'),
    ],
)
def test_a_manifest_of_more_than_a_run_can_have_is_refused_before_it_takes_memory(
    old: bytes, new: bytes, tmp_path: Path
) -> None:
    whole = run_subject.bases()["counted"].manifest.read_bytes()
    assert old in whole
    files = damaged("manifest.json", whole.replace(old, new, 1), tmp_path)
    with pytest.raises(TraceError, match=r"flows must be|window_s must be"):
        runner.analyse(files)


def test_a_user_beyond_all_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    content = bytearray((run_subject.bases()["counted"].stats / "users-S.bin").read_bytes())
    content[32 + 32 : 32 + 36] = (2**32 - 1).to_bytes(4, "little")
    files = damaged("stats/users-S.bin", bytes(content), tmp_path)
    with pytest.raises(TraceError, match="transfers of more than 10000 users"):
        runner.analyse(files)

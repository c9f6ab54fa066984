"""Inputs that once made trouble; what is fuzzed by whom."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from typer.testing import CliRunner

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.packet import read_capture
from tools.fuzz import __main__ as fuzz

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

"""`tcpf-lab report` of an experiment of a paper, on runs of the fake testbed or made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_maker import make_runs
from run_tree import write

from tcpf_lab.results.layout import ExperimentFiles, read_json, write_json
from tcpf_lab.run import runner
from tcpf_lab.run.runner import RunState, State
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.fake import FakeTestbed

Lab = Callable[..., tuple[int, str, str]]


def test_the_report_has_the_papers_page_that_says_what_is_missing(
    lab: Lab, fake: FakeTestbed, spec: Path, tmp_path: Path
) -> None:
    lines = [line for line in spec.read_text().splitlines() if not line.startswith("reference:")]
    at = next(place for place, line in enumerate(lines) if line.startswith("name:"))
    lines.insert(at + 1, 'reference: {paper: "001"}')
    paper = tmp_path / "paper.yaml"
    paper.write_text("\n".join(lines) + "\n")
    make_runs(tmp_path / "results", fake, load(paper))
    status, said, error = lab("report", paper, "--testbed", "fake", "--format", "md,csv")
    assert (status, error) == (0, "")
    directory = tmp_path / "results" / load(paper).name / "fake"
    text = (directory / "ef.md").read_text()
    assert "30 not decidable" in text
    assert "Runs that are missing are made by `tcpf-lab run paper.yaml --testbed fake`." in text
    assert (directory / "ef-claims.csv").exists()
    assert "ef.md" in said


BUFFERS = """
name: small
reference: {paper: "003"}
topology:
  dumbbell: {access: 100 Mbit, bottleneck: 100 Mbit, delay: 75 ms, mtu: 1500 B, pairs: 2}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 1 s, warmup: 10 s, duration: 30 s}
cases:
  TailDrop: {queue: {kind: bfifo, limit: 1 MB}}
matrix: {case: all, flows: [100, 200, 300], queue.limit: [40 kB, 200 kB], seed: 1..2}
"""
MADE = {
    **dict.fromkeys(("tcpf_lab", "git_commit", "testbed_identity"), "0123456789ab"),
    "testbed": "fake",
    "clock": "virtual",
    "facts": {},
}


def made_up(results: Path, experiment: Experiment) -> None:
    """Write runs of users, of which one failed a check."""
    files = ExperimentFiles(results, experiment.name, "fake")
    for run in expand(experiment):
        use = 0.5 + 1e-6 * run.case.queue.limit + 1e-4 * run.flows + 1e-3 * run.seed
        speeds = {size: {"mean_bits_per_s": 1e6 * use} for size in ("100kB", "500kB", "1000kB")}
        found: dict[str, Any] = {"metrics": {"utilisation": use}, "analysis": "0"}
        found["users"] = {"throughput_by_size": speeds}
        if run.id.endswith("flows300-seed2") and run.case.queue.limit == 200_000:
            found["validity"] = {"valid": False, "reasons": ["a user was late"], "checks": []}
        write(files, run, found, experiment.name)
        manifest = read_json(files.run(run.id).manifest)
        write_json(files.run(run.id).manifest, {**manifest, **MADE, "seed": run.seed})


def test_a_page_is_in_the_report_and_in_what_is_kept(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(BUFFERS)
    made_up(tmp_path / "results", load(path))
    monkeypatch.setattr(runner, "examine", lambda *_: RunState(State.COMPLETE))
    words = ("--testbed", "fake", "--format", "html", "--reference", "kept", "--json")
    status, said, error = lab("report", path, *words)
    assert (status, error) == (0, "")
    figure = "kept/figures/fig-buffers-2.png"
    root = "results/small/fake"
    assert {"kept/buffers.md", "kept/buffers-claims.csv", figure, f"{root}/report.html"} <= set(
        json.loads(said)["written"]
    )
    assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    kept = (tmp_path / "kept/buffers.md").read_text()
    assert "| buffers-2-grows | 003, 4.1, Figure 2: Use grows with the buffer" in kept
    assert "flows300, seed 2 (invalid: a user was late)." in kept
    page = (tmp_path / root / "report.html").read_text()
    assert "buffers-2-grows: 003, 4.1, Figure 2: Use grows with the buffer" in page
    assert "Not decidable: at a scaled size packets do not shrink" in page
    assert "flows300, seed 2 (invalid: a user was late)." in page
    assert "Use of the link. N = 100: 0.552 at 40 kB, 0.712 at 200 kB" in page
    assert (tmp_path / "kept/small.pdf").read_bytes().startswith(b"%PDF")

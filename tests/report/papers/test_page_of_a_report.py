"""`tcpf-lab report` of an experiment of a paper, on runs of the fake testbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from run_maker import make_runs

from tcpf_lab.spec.load import load
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

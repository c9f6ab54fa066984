"""The report on a calibration, by the command line: from its outcome, in every format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome_maker import NAMES, outcome, write_outcome

from tcpf_lab.calibration.outcome import claims, part_of
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.claims.judge import Check, Claim
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import read_json

SPEC = """\
name: lost_testbed
fit: [configA, configB]
test: [configC, configD]
tolerance: {timeouts: 10 %, loss_percent: 10 %, goodput_bytes_per_s: 10 %, goodput_cov: 10 %}
unknowns:
"""
#: Of few unknowns, which take less time to draw.
FEW = outcome(unknowns=3)


def written(folder: Path, data: dict[str, Any]) -> Path:
    """Write an outcome and its calibration; there is no run and no point. Give its directory."""
    names = enumerate(NAMES[: len(data["unknowns"])])
    lines = (f"  {json.dumps(n)}: {{set: tcp.key_{k}, levels: [1, 2]}}\n" for k, n in names)
    (folder / "lost.yaml").write_text(SPEC + "".join(lines))
    return write_outcome(folder / "results" / "lost_testbed" / "calibration", data).parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return written(tmp_path, FEW)


@pytest.fixture
def report(lab, tmp_path: Path, root: Path):
    def call(*words):
        return lab("report", tmp_path / "lost.yaml", *words)

    return call


def test_a_report_needs_nothing_but_the_outcome(report, root):
    written(root.parents[2], outcome(unknowns=13))  # one more than a page of profiles has
    status, _, complaints = report("--format", "html,md,csv,figures")
    assert status == 0, complaints
    files = [path for path in root.rglob("*.*") if path.is_file()]
    assert all(path.stat().st_size for path in files)
    names = {str(path.relative_to(root)) for path in files}
    assert {"calibration.md", "report.html", "calibration-claims.csv"} <= names
    assert {"figures/profiles-1.pdf", "figures/profiles-2.svg", "figures/influence.png"} <= names
    for text in ((root / "calibration.md").read_text(), (root / "report.html").read_text()):
        assert "A fit is not a reproduction" in text
        assert "limit of tail drop as a multiple of RED" in text
        assert "changed since" not in text
        assert "by now" not in text


def test_the_same_outcome_gives_the_same_bytes(report, root):
    report("--format", "pdf,html,md")
    names = ("report.pdf", "report.html", "calibration.md")
    once = {name: (root / name).read_bytes() for name in names}
    assert once["report.pdf"].startswith(b"%PDF")
    assert report("--format", "pdf,html,md")[0] == 0
    assert {name: (root / name).read_bytes() for name in names} == once


def test_usual_formats_are_those_of_other_reports(report, root):
    status, said, _ = report("--json")
    assert status == 0
    names = {Path(path).name for path in json.loads(said)["written"]}
    assert {"calibration.md", "calibration-cells.csv", "report.pdf", "influence.svg"} <= names
    assert "calibration-claims.csv" not in names


def test_what_an_earlier_version_did_not_write_is_said(report, root):
    data = outcome(unknowns=3)
    for key in ("table", "experiments", "validity"):
        del data[key]
    for one in data["settings"]:
        for key in ("mean", "half", "tcp", "conditions"):
            del one[key]
    write_outcome(root, data, cost=False)
    (root / "cost.json").unlink()
    status, _, complaints = report("--format", "pdf,md")
    assert status == 0, complaints
    text = (root / "calibration.md").read_text()
    assert "lacks the table of all cells, the conditions of the experiments, which runs" in text
    assert "--only-report" in text
    assert "cost.json is missing" in text


def test_what_has_changed_since_is_said(report, root, tmp_path):
    path = tmp_path / "lost.yaml"
    path.write_text(
        path.read_text().replace("goodput_cov: 10 %", "goodput_cov: 20 %")
        + "  new: {set: tcp.x, levels: [1, 2]}\n"
    )
    (root / "points.csv").write_text("id,round\n00000000,0\nabcdefab,1\n")
    report("--format", "md")
    text = (root / "calibration.md").read_text()
    assert "lost.yaml has other unknowns by now than this outcome" in text
    assert "lost.yaml has other tolerances by now than this outcome" in text
    assert "1 points of points.csv are not part of this outcome" in text


def test_what_is_kept_has_the_outcome_itself(report, root, tmp_path):
    kept = tmp_path / "kept"
    status, _, complaints = report("--format", "md", "--reference", kept)
    assert status == 0, complaints
    assert read_json(kept / "calibration.json.zst") == read_json(root / "calibration.json")
    names = {str(path.relative_to(kept)) for path in kept.rglob("*.*")}
    assert {"cost.json", "calibration.md", "lost_testbed.pdf", "lost_testbed.html"} <= names
    assert {"calibration-cells.csv", "figures/profiles.png"} <= names
    page = (kept / "lost_testbed.html").read_text()
    assert "tcpf-lab report lost.yaml --reference kept" in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "pdf,flent"), "a calibration is not written as flent"),
        (("--only", "case=NoMark+RED"), "--only: chooses among the runs of an experiment"),
        (("--seeds", "2"), "--seeds: chooses among"),
        (("--include-invalid",), "--include-invalid: chooses among"),
    ],
)
def test_what_a_calibration_does_not_have_is_refused(report, words, said):
    status, _, complaints = report(*words)
    assert status == 2
    assert said in complaints


def test_without_an_outcome_it_says_how_to_get_one(report, root):
    shutil.rmtree(root)
    status, _, complaints = report()
    assert status == 2
    assert "has no outcome yet" in complaints
    assert "tcpf-lab calibrate lost.yaml" in complaints


# Which numbers a published claim reads: those that a calibration was fitted to, or others.


def claim(*configs: str) -> Claim:
    """Give a claim on the first case of configurations, a check for each."""

    def check(config: str) -> Check:
        cell = CellKey(config, 100, "NoMark+RED")
        return Check(config, lambda look: look(cell, "timeouts"), low=0)

    return Claim("x", (), "s", tuple(map(check, configs)))


@pytest.mark.parametrize(
    ("configs", "fit", "part"),
    [
        ("A", "AB", "fit"),
        ("AB", "AB", "fit"),
        ("AC", "AB", "both"),
        ("CD", "AB", "test"),
        ("CD", "", "test"),
        ("ABCD", "ABCD", "fit"),
    ],
)
def test_a_claim_is_of_the_part_whose_cells_it_reads(configs: str, fit: str, part: str) -> None:
    assert part_of(claim(*configs), fit) == part


def test_every_published_claim_is_of_a_part() -> None:
    with np.errstate(all="raise"):  # 0 / 0 of a table is no news here
        parts = {one.id: part_of(one, ("A", "B")) for one in CLAIMS}
    assert {*parts.values()} == {"fit", "both", "test"}
    named = [parts[one.id] for one in CLAIMS if one.statement.startswith("C: ")]
    assert named
    assert set(named) == {"test"}


def measured(config: str) -> CellResult:
    """Give the runs of a published cell, two of them and the same."""
    metrics = {metric: Estimate((10.0, 10.0), 10.0, 0.0, None) for metric in METRICS}
    cell = Cell(config, "NoMark+RED", 100, ("x-seed1", "x-seed2"), published=True)
    return CellResult(cell, 2, 2, 2, metrics, ())


def test_claims_have_their_part_and_their_verdict_under_each_setting() -> None:
    results = {"x": [measured("A")], "y": [measured("A"), measured("C")]}
    found = {one["id"]: one for one in claims(results, fit=("A", "B"))}
    assert set(found) == {one.id for one in CLAIMS}
    assert all(set(one["verdicts"]) == {"x", "y"} for one in found.values())
    assert found["thesis-4.3-all-metrics"]["part"] == "test"
    assert "under" not in found["thesis-4.3-all-metrics"]
    assert {one["part"] for one in claims(results)} == {None}, "not known without `fit`"

"""The files of a page: what it says, what it is made of, and what it says of what is missing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tcpf_lab.report.claims.judge import Measured, PaperCheck, PaperClaim, Source
from tcpf_lab.report.claims.page import Claims, Drawing, Page, Point, Table, Text, pictures, write
from tcpf_lab.report.plots.canvas import sheet
from tcpf_lab.report.section import SUFFIXES
from tcpf_lab.results.layout import ExperimentFiles


def build() -> Figure:
    figure = sheet()
    figure.add_subplot().plot([1, 2], [3, 4])
    return figure


POINTS = (Point("Reno", 1.0, (0.25, 0.75)), Point("SACK", 1.0, (0.5,)))
CLAIM = PaperClaim(
    "ef-1",
    (Source("001", "3.1", "the loss is large"),),
    "loss at least 0.3",
    (
        PaperCheck("loss", Measured((0.4, 0.41, 0.42)), low=0.3),
        PaperCheck("with SACK", Measured((), ("SACK, 1 flow",)), low=0.3),
    ),
)
PAGE = Page(
    "ef",
    "Paper <b>",
    (
        Text("Every number is a mean.", "What it is"),
        Table("runs", ("tcp", "runs"), (("Reno", "3"),), "Runs."),
        Drawing("fig-ef-2a", "Figure 2(a)", "Loss.", POINTS, build, ("SACK at 2 ms",)),
        Drawing("fig-ef-3", "Figure 3", "Loss.", (), build, ("any run",)),
        Claims((CLAIM,), "tcpf-lab run ef.yaml"),
    ),
)


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path, "ef", "uml")


def test_the_page_says_what_was_made_and_what_not(files: ExperimentFiles) -> None:
    ((path, text),) = write(PAGE, files.root, ("md",), {})
    assert path == files.root / "ef.md"
    assert isinstance(text, str)
    assert "# Paper \\<b>" in text
    assert "![fig-ef-2a](figures/fig-ef-2a.png)" in text
    assert "Not all of it was measured: SACK at 2 ms." in text
    assert "fig-ef-3" not in text
    assert "Not made: any run." in text
    assert "Runs that are missing are made by `tcpf-lab run ef.yaml`." in text
    block = text[text.index("<!-- claims ef -->") : text.index("<!-- end of claims -->")]
    assert "| 1 of 1 checks hold, 1 not measured " in block
    assert "| loss: 0.41 ± 0.02 (3 seeds) " in block
    assert "| with SACK: missing: SACK, 1 flow " in block


def test_what_the_figures_and_sentences_are_made_of(files: ExperimentFiles) -> None:
    found = {path.name: str(text) for path, text in write(PAGE, files.root, ("csv",), {})}
    assert list(found) == ["ef.csv", "ef-runs.csv", "ef-claims.csv"]
    rows = list(csv.DictReader(found["ef.csv"].splitlines()))
    assert [(r["figure"], r["series"], r["mean"], r["seeds"]) for r in rows] == [
        ("fig-ef-2a", "Reno", "0.5", "2"),
        ("fig-ef-2a", "SACK", "0.5", "1"),
    ]
    assert rows[0]["values"] == "0.25 0.75"
    said = list(csv.DictReader(found["ef-claims.csv"].splitlines()))
    assert [row["check_verdict"] for row in said] == ["holds", "not decidable"]
    assert {row["verdict"] for row in said} == {"not decidable"}
    assert said[1]["missing"] == "SACK, 1 flow"


def test_figures_are_three_files_each_and_the_same_bytes_again(files: ExperimentFiles) -> None:
    once, again = (
        dict(write(PAGE, files.root, ("figures",), pictures([PAGE], SUFFIXES))) for _ in range(2)
    )
    names = [path.name for path in once]
    assert names == ["fig-ef-2a.png", "fig-ef-2a.pdf", "fig-ef-2a.svg"]
    assert once == again


def test_for_a_report_to_read_alone_figures_are_drawn_once_as_svg() -> None:
    found = pictures([PAGE], ("svg",))
    assert list(found) == ["fig-ef-2a"]
    assert list(found["fig-ef-2a"]) == ["svg"]
    assert pictures([PAGE], ()) == {}

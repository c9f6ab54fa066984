from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError
from tcpf_lab.report import document
from tcpf_lab.report.document import write_report
from tcpf_lab.report.section import Cell, Source
from tcpf_lab.results.layout import ExperimentFiles

FIGURES = [
    f"figures/fig-configA-{name}.{suffix}"
    for name in ("timeouts",)
    for suffix in ("png", "pdf", "svg")
]


def contents(root: Path) -> dict[str, bytes]:
    paths = [*root.glob("table.*"), *root.glob("figures/*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one of the four figures: a font takes most of the time that each of them takes."""
    monkeypatch.setattr(document, "DRAWN", ("timeouts",))


@pytest.mark.usefixtures("one_figure")
def test_a_report_has_the_same_bytes_again(
    files: ExperimentFiles, source: Source, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    report = write_report(files, [source], "Configuration A")
    names = [str(path.relative_to(files.root)) for path in report.written]
    assert names == ["table.md", "table.csv", *FIGURES]
    assert report.left_out == ()
    first = contents(files.root)
    assert set(first) == set(names), "temporary files are left behind"
    write_report(files, [source], "Configuration A")
    assert contents(files.root) == first


@pytest.mark.usefixtures("one_figure")
def test_a_report_with_gaps_lists_the_runs_left_out(
    files: ExperimentFiles, source: Source, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1)
    write_run("NoMark+RED", 100, 2, reasons=("drops differ",))
    gaps = replace(source, cells=cells[:1], stale={cells[0].runs[2]: "kernel"})
    report = write_report(files, [gaps], "A")
    assert [(problem.run[-5:], problem.state) for problem in report.left_out] == [
        ("seed2", "invalid"),
        ("seed3", "missing"),
    ]
    text = files.table("md").read_text(encoding="utf-8")
    assert "- nomark+red-flows100-seed2: invalid: drops differ" in text
    assert "nan" not in text.lower().split()


def test_nothing_usable_is_an_error_that_says_what_to_type(
    files: ExperimentFiles, source: Source, cells: list[Cell]
) -> None:
    with pytest.raises(LabError, match=r"no usable run among 12 \(12 missing\)") as caught:
        write_report(files, [source], "A", again="tcpf-lab run configA.yaml")
    assert caught.value.hint == "`tcpf-lab run configA.yaml`"
    assert not files.root.exists()


@pytest.mark.parametrize("testbed", ["uml", "lab"])
def test_only_invalid_runs_are_an_error_that_offers_to_include_them(
    files: ExperimentFiles,
    source: Source,
    cells: list[Cell],
    write_run: Callable[..., None],
    testbed: str,
) -> None:
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed, reasons=("drops differ",))
    there = replace(files, testbed=testbed)
    with pytest.raises(LabError, match=r"3 invalid\); the first: .*drops differ") as caught:
        write_report(there, [replace(source, cells=cells[:1])], "A")
    assert "--include-invalid" in caught.value.hint
    assert ("--force" in caught.value.hint) is (testbed != "uml"), "virtual time repeats itself"


def test_runs_without_metrics_are_an_error_that_names_analyze(
    files: ExperimentFiles, source: Source, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed)
        files.run(cells[0].runs[seed - 1]).metrics.unlink()
    with pytest.raises(LabError, match="3 unreadable") as caught:
        write_report(files, [replace(source, cells=cells[:1])], "A")
    assert "tcpf-lab analyze" in caught.value.hint


def test_no_cells_are_an_error(files: ExperimentFiles, source: Source) -> None:
    with pytest.raises(LabError, match="no run was asked for"):
        write_report(files, [replace(source, cells=[])], "A")


def test_a_report_that_cannot_be_written_says_where(
    files: ExperimentFiles, source: Source, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1)
    (files.root / "figures").write_text("in the way")
    with pytest.raises(LabError, match="is a file, not a directory") as caught:
        write_report(files, [source], "A")
    assert caught.value.where == str(files.root / "figures")

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError
from tcpf_lab.report import document
from tcpf_lab.report.compare.factors import factors, rank_correlation
from tcpf_lab.report.document import write_report
from tcpf_lab.report.section import Cell, CellResult, Estimate, Section, Source
from tcpf_lab.report.style import METRICS
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
    with pytest.raises(LabError, match="no run was requested"):
        write_report(files, [replace(source, cells=[])], "A")


def test_a_report_that_cannot_be_written_says_where(
    files: ExperimentFiles, source: Source, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1)
    (files.root / "figures").write_text("in the way")
    with pytest.raises(LabError, match="is a file, not a directory") as caught:
        write_report(files, [source], "A")
    assert caught.value.where == str(files.root / "figures")


# One factor at a time: the rows, what is shared, the order of the cases.

CASES = ("TCPF+FRIO", "TB+RIO", "NoMark+RED")
FILES = ExperimentFiles(Path("results"), "sensitivity", "uml")


def result(case: str, value: float | None, config: str = "A") -> CellResult:
    values = () if value is None else (value,)
    metrics = {name: Estimate(values, value, None, None) for name in METRICS}
    return CellResult(Cell(config, case, 100, ()), 1, 1, 1, metrics, ())


def section(values: dict[str, float | None], factor: str = "", level: str = "") -> Section:
    results = tuple(result(case, value) for case, value in values.items())
    cells = [result.cell for result in results]
    return Section(Source(FILES, cells, "A", "60 s", factor=factor, level=level), results)


SECTIONS = [
    section(dict(zip(CASES, (10.0, 20.0, 30.0), strict=True))),
    section(dict(zip(CASES, (30.0, 20.0, 10.0), strict=True)), "minimum RTO", "1 s"),
    section({"TB+RIO": 40.0}, "token bucket", "continuous"),
    section({"TB+RIO": None}, "token bucket", "none"),
]


def rows(text: str, metric: str) -> list[list[str]]:
    part = text.split(f"## {METRICS[metric].title}, 100 flows\n\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()]


@pytest.fixture
def documents() -> dict[str, str]:
    return {path.name: str(text) for path, text in factors(FILES, SECTIONS, "What moves")}


def test_a_row_is_a_level_and_the_published_values_stand_above(documents: dict[str, str]) -> None:
    found = rows(documents["table.md"], "timeouts")
    assert found[0] == ["factor", "level", *CASES, "tau"]
    assert found[2] == ["published", "", "41", "911", "1322", ""]
    assert found[3] == ["as it stands", "", "10.0", "20.0", "30.0", "1.00"]
    assert found[4] == ["minimum RTO", "1 s", "30.0", "20.0", "10.0", "−1.00"]


def test_cases_that_a_level_does_not_touch_are_those_as_it_stands(
    documents: dict[str, str],
) -> None:
    found = rows(documents["table.md"], "timeouts")
    assert found[5] == ["token bucket", "continuous", '"', "40.0", '"', "0.33"]
    assert found[6] == ["", "none", '"', "–", '"', "1.00"], "a factor is named once"


def test_every_metric_of_the_tables_has_a_table(documents: dict[str, str]) -> None:
    for metric in METRICS:
        assert len(rows(documents["table.md"], metric)) >= 6


def test_programs_get_the_levels_own_runs_only(documents: dict[str, str]) -> None:
    found = list(csv.DictReader(io.StringIO(documents["table.csv"])))
    assert [(row["factor"], row["level"], row["case"]) for row in found[3:]] == [
        *(("minimum RTO", "1 s", case) for case in CASES),
        ("token bucket", "continuous", "TB+RIO"),
        ("token bucket", "none", "TB+RIO"),
    ]
    assert found[-2]["timeouts_mean"] == "40"


@pytest.mark.parametrize(
    ("values", "tau"),
    [
        ((1.0, 2.0, 3.0), 1.0),
        ((3.0, 2.0, 1.0), -1.0),
        ((1.0, 3.0, 2.0), 1 / 3),
        ((1.0, None, 2.0), 1.0),
        ((1.0, None, None), None),
        ((2.0, 2.0, 2.0), None),
    ],
)
def test_rank_correlation_is_kendalls_with_the_published_values(
    values: tuple[float | None, ...], tau: float | None
) -> None:
    found = [result(case, value) for case, value in zip(CASES, values, strict=True)]
    assert rank_correlation(found, "timeouts") == (None if tau is None else pytest.approx(tau))


def test_goodput_was_published_in_the_reverse_order() -> None:
    found = [result(case, value) for case, value in zip(CASES, (3.0, 2.0, 1.0), strict=True)]
    assert rank_correlation(found, "goodput_bytes_per_s") == pytest.approx(1.0)


def test_cases_that_nobody_published_have_no_order() -> None:
    assert rank_correlation([result("Mine", 1.0), result("Yours", 2.0)], "timeouts") is None
    own = [result(case, 1.0 + place, "mine") for place, case in enumerate(CASES)]
    assert rank_correlation(own, "timeouts") is None

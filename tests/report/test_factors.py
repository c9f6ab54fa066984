"""One factor at a time: the rows, what is shared, the order of the cases."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tcpf_lab.report.compare.factors import factors, rank_correlation
from tcpf_lab.report.section import Cell, CellResult, Estimate, Section, Source
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import ExperimentFiles

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

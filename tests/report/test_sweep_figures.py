"""Which figures a sweep has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from table_builder import cell_result, without_runs

from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.document import draw_sweep, figures, sweep_figures
from tcpf_lab.report.section import CellResult, Section, Source
from tcpf_lab.report.style import DISTINCT
from tcpf_lab.results.layout import ExperimentFiles

FILES = ExperimentFiles(Path("results"), "configA", "uml")


def cell(flows: int = 100, **settings: str) -> CellResult:
    return at(cell_result(CellKey("A", flows, "TB+RIO"), {}, (1, 2)), settings)


def at(found: CellResult, settings: dict[str, str]) -> CellResult:
    return replace(found, cell=replace(found.cell, settings=tuple(settings.items())))


def section(*results: CellResult) -> Section:
    return Section(Source(FILES, [one.cell for one in results], "A", "60 s"), results)


def test_one_axis_has_a_figure_per_metric() -> None:
    found = sweep_figures(section(cell(max="1 kB"), cell(max="2 kB"), cell()))
    assert [figure.name for figure in found] == [
        f"fig-configA-{slug}" for slug in ("timeouts", "loss", "goodput", "cov")
    ]
    assert {(figure.key, figure.flows) for figure in found} == {("max", 100)}


def test_each_number_of_flows_has_figures_of_its_own() -> None:
    found = sweep_figures(section(*(cell(n, max=size) for n in (100, 50) for size in "12")))
    assert len({figure.name for figure in found}) == len(found) == 8
    assert found[0].name == "fig-configA-timeouts-flows50"


def test_several_axes_one_value_none_and_no_runs_have_no_figure() -> None:
    two = section(cell(max="1 kB", sack="true"), cell(max="2 kB", sack="true"))
    empty = section(at(without_runs(CellKey("A", 100, "TB+RIO")), {"max": "1 kB"}))
    for one in (two, empty, section(cell()), section(cell(max="1 kB"))):
        assert sweep_figures(one) == ()
        assert list(draw_sweep(FILES, one)) == []


def test_cases_at_one_value_each_have_no_figure() -> None:
    one, other = cell(max="1 kB"), cell(max="2 kB")
    assert sweep_figures(section(one, replace(other, cell=replace(other.cell, case="B")))) == ()


def test_more_cases_than_can_be_told_apart_have_no_figure() -> None:
    def of_cases(count: int) -> Section:
        cells = [cell(max=size) for size in "12"]
        names = [f"case {number}" for number in range(count)]
        return section(
            *(replace(one, cell=replace(one.cell, case=name)) for name in names for one in cells)
        )

    assert sweep_figures(of_cases(DISTINCT))
    assert sweep_figures(of_cases(DISTINCT + 1)) == ()


def test_a_sweep_has_no_bars() -> None:
    assert list(figures(FILES, section(cell(max="1 kB"), cell()), "timeouts", "name")) == []

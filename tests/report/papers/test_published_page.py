"""The page that a report on published configurations opens with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from run_tree import write
from subject_builder import member
from table_builder import cell_result, known, table

from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.papers.thesis.page import build, other_testbeds, points_of, scatter_of
from tcpf_lab.report.claims.page import Drawing, Page, Table, for_terminal, markdown
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.section import CellResult, Section
from tcpf_lab.report.style import DRAWN, METRICS, house_style
from tcpf_lab.run import runner
from tcpf_lab.run.runner import RunState, State
from tcpf_lab.run.selection import RunRequest, choose

MARKED = ("TCPF+FRIO", "TCPF+RIO")


def page(
    results: Sequence[CellResult], others: Mapping[str, Sequence[CellResult]], needed: str = ""
) -> Page:
    return build(compare(results, resamples=100), results, others, needed)


def conclusions(made: Page) -> tuple[Table, dict[str, tuple[str, ...]]]:
    found = [block for block in made.blocks if isinstance(block, Table)][-1]
    return found, {row[0]: row[1:] for row in found.rows}


def swapped(cell: CellKey, metric: str, _: int) -> float:
    """The marked cases have the numbers of RED, and RED has theirs."""
    case = {"NoMark+RED": MARKED[0], MARKED[0]: "NoMark+RED", MARKED[1]: "NoMark+RED"}
    return known(replace(cell, case=case.get(cell.case, cell.case)))[metric]


def one_wrong(cell: CellKey, metric: str, _: int) -> float:
    """In one block RED has no more timeouts than the marked cases."""
    wrong = (cell.config, cell.flows, cell.case, metric) == ("A", 50, "NoMark+RED", "timeouts")
    return known(replace(cell, case=MARKED[0]) if wrong else cell)[metric]


def test_conclusions_have_a_column_for_each_testbed_that_was_measured() -> None:
    made = page(table(), {"full duplex": table(one_wrong), "today's TCP": table(swapped)})
    columns, rows = conclusions(made)
    names = ("this report", "full duplex", "today's TCP")
    assert columns.headings == ("conclusion of the thesis", "published tables", *names)
    assert rows["The results scale to any number of flows."] == (
        "holds in all 16",
        "holds in all 16",
        "holds in 15 of 16",
        "reversed in 16 of 16",
    )
    halved = rows["Loss is halved across all instances of the implementation."]
    assert halved[0] == "holds in 11 of 16"
    *_, told = made.texts
    assert told == (
        "Of the thesis' 9 conclusions (section 4.5), on these runs: 7 hold, 2 do not hold "
        "everywhere; with full duplex: 3 hold, 6 do not hold everywhere; with today's TCP: 9 "
        "reversed."
    )


def test_without_other_testbeds_the_command_is_told_that_measures_them() -> None:
    columns, _ = conclusions(page(table(), {}, "tcpf-lab run full_duplex.yaml"))
    assert columns.headings[2:] == ("this report",)
    assert columns.caption.endswith("today's TCP: tcpf-lab run full_duplex.yaml")
    assert "full_duplex" not in conclusions(page(table(), {}))[0].caption


def test_few_seeds_and_missing_cells_decide_nothing() -> None:
    some = [cell for cell in PUBLISHED_CELLS if cell.config == "A"]
    made = page(table(seeds=(1, 2), cells=some), {"full duplex": table()})
    _, rows = conclusions(made)
    assert rows["Loss is halved."][1:] == (
        "holds in 4 of 4 by few seeds, 12 not measured",
        "holds in 4 of 4, 12 not measured",  # of the cells that the report is of
    )
    _, rows = conclusions(page(table(seeds=(1, 2)), {}))
    assert rows["Loss is halved."][1] == "holds in 16 of 16 by few seeds"


def test_what_noise_hides_and_what_was_not_measured_is_no_refutation() -> None:
    def noisy(cell: CellKey, metric: str, seed: int) -> float:
        wild = (cell.flows, cell.case, metric) == (50, "TB+RIO", "loss_percent")
        return known(cell)[metric] * (seed % 2 * 2 if wild else 1)

    without = [cell for cell in PUBLISHED_CELLS if cell.case != MARKED[1]]
    made = page(table(noisy, cells=without), {})
    _, rows = conclusions(made)
    assert rows["Loss is halved."][1] == "holds in 12 of 16, 4 within noise"
    assert rows["The improvements need no classification of flows in the core."][1] == (
        "not measured"
    )
    assert "undecided" in made.texts[-1]


def level(config: str, name: str, values: Callable[..., float] | None = None) -> Section:
    section = member(config, values).section
    return replace(section, source=replace(section.source, factor="testbed", level=name))


def test_levels_are_grouped_by_the_testbed_that_they_name() -> None:
    sections = [
        member("A").section,
        *(level(c, f"full duplex in {c}") for c in "AB"),
        level("A", "today's TCP in A"),
        level("A", "1 s"),
        level("A", "full duplex in B"),
    ]
    found = other_testbeds(sections)
    assert {name: len(results) for name, results in found.items()} == {
        "full duplex": 28,
        "today's TCP": 14,
    }


def test_the_picture_has_every_cell_in_each_of_four_panels() -> None:
    points = points_of(table())
    assert [sum(p.panel == METRICS[m].word for p in points) for m in DRAWN] == [56] * 4
    with house_style():
        panels = scatter_of(table()).draw(points).axes
    assert len(panels) == 4
    for axes in panels:
        marked = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        assert len(marked) == 56
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlim() == axes.get_ylim()


def test_no_timeouts_have_a_place_and_no_loss_has_none() -> None:
    cell = PUBLISHED_CELLS[0]
    none = cell_result(cell, {m: [0.0, 0.0] for m in DRAWN}, (1, 2))
    (point,) = points_of([none])
    assert (point.panel, point.x, point.values) == ("timeouts", known(cell)["timeouts"] + 3, (3, 3))


@pytest.mark.parametrize("results", [table(), table(cells=PUBLISHED_CELLS[:1])])
def test_texts_and_tables_are_in_markdown_and_on_a_terminal(results: list[CellResult]) -> None:
    made = page(results, {})
    text = markdown(made)
    assert "## Are the tables reproduced?" in text
    assert "![fig-published](figures/fig-published.png)" in text
    assert len(list(for_terminal(made))) == 4
    (drawing,) = (block for block in made.blocks if isinstance(block, Drawing))
    assert drawing.caption.startswith(f"{len(results)} cells")


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write one run of every cell of some experiments of full_duplex.yaml."""
    monkeypatch.setattr(runner, "examine", lambda *_: RunState(State.COMPLETE))

    def write_all(*names: str) -> None:
        asked = RunRequest("full_duplex.yaml", "fake", tmp_path / "results", ("seed=1",))
        for part in choose(asked).parts:
            if part.experiment.name in names:
                for run in part.runs:
                    key = CellKey(part.level.config, run.flows, run.case_name)
                    write(part.files, run, {"metrics": known(key)}, key.config)

    return write_all


def test_a_report_finds_the_other_testbeds_in_its_results(
    lab: Callable[..., tuple[int, str, str]], measured: Callable[..., None], tmp_path: Path
) -> None:
    measured("configA")
    words = ("--testbed", "fake", "--seeds", "1", "--format", "md")

    def reported(spec: str, name: str) -> str:
        status, said, error = lab("report", spec, *words)
        assert status == 0, error
        assert said.startswith("Are the tables reproduced?")
        return (tmp_path / f"results/{name}/fake/published.md").read_text()

    text = reported("configA.yaml", "configA")
    assert "today's TCP: tcpf-lab run full_duplex.yaml --testbed fake --seeds 1" in text
    assert "| this report" in text
    measured("full_duplex-testbed-full-duplex-in-a")
    text = reported("configA.yaml", "configA")
    assert "| full duplex" in text
    assert "run full_duplex.yaml" not in text
    measured("full_duplex-testbed-today-s-tcp-in-a")
    assert "| today's TCP" in reported("configA.yaml", "configA")
    assert "| today's TCP" in reported("full_duplex.yaml", "full_duplex")

"""Effects of what varies, in a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from subject_builder import member, subject
from table_builder import known, table, without_runs

from tcpf_lab.report.claims.page import Page
from tcpf_lab.report.compare.sensitivity import sensitivity
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.contents.answers import (
    answer,
    details,
    effects_in_words,
    effects_part,
    question,
)
from tcpf_lab.report.contents.model import bar_marks, mark_id
from tcpf_lab.report.contents.parameters import parameter_tables
from tcpf_lab.report.contents.results import result_parts, summary
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.figure import bar_chart
from tcpf_lab.report.pages.html import Pictures

SEEDS = (1, 2, 3, 4)
CELLS = [cell for cell in PUBLISHED_CELLS if cell.config == "A" and cell.flows == 100]


def noisy(cell: CellKey, metric: str, seed: int, shift: int = 0) -> float:
    return known(cell)[metric] * (1 + 0.01 * ((seed + shift + len(cell.case)) % 3))


def level(
    name: str,
    factor: float,
    shift: int,
    seeds: Sequence[int] = SEEDS,
    cells: Sequence[CellKey] = CELLS,
) -> Member:
    """The experiment with its loss changed by a factor, and nothing else but noise."""

    def changed(cell: CellKey, metric: str, seed: int) -> float:
        return noisy(cell, metric, seed, shift) * (factor if metric == "loss_percent" else 1)

    made = member("A", changed, seeds, cells)
    settings = (f"traffic.socket_buffer={name}",)
    source = replace(made.section.source, factor="buffer", level=name, settings=settings)
    return replace(made, section=replace(made.section, source=source))


@pytest.fixture(scope="module")
def varied() -> Subject:
    members = (member("A", noisy, SEEDS, CELLS), level("2 MB", 3.0, 1), level("4 MB", 1.0, 2))
    plain = subject(members[0])
    found = sensitivity([each.section for each in members])
    return replace(plain, members=members, sensitivity=found, comparison=None)


def test_the_question_names_what_varies(varied: Subject) -> None:
    assert question(varied) == "How much do the results of configuration A depend on buffer?"
    many = replace(varied.sensitivity.factors[0], name="x")  # type: ignore[union-attr]
    found = replace(varied.sensitivity, factors=(many,) * 9)  # type: ignore[type-var]
    assert "depend on 9 choices, each varied alone?" in question(replace(varied, sensitivity=found))


def test_the_answer_says_what_moves_a_metric_and_what_nothing_moves(varied: Subject) -> None:
    shown = answer(varied)
    assert shown.verdict == ""
    assert shown.lines[0].startswith("Loss depends most on buffer: with 2 MB it is 3.004 times")
    assert shown.lines[1] == "No effect beyond noise on timeouts per flow-minute, goodput or CoV."
    assert varied.sensitivity is not None
    said = effects_in_words(varied.sensitivity)
    assert said[0] == (
        "The strongest effect on loss is that of buffer: with 2 MB it is 3.004 times (95 % "
        "interval 2.981 to 3.028) what it is as it stands, in the geometric mean of "
        "7 cells with 4 pairs of runs in each; 1 of 1 changes it beyond noise."
    )
    assert said[1] == (
        "No parameter varied here changes timeouts per flow-minute, goodput or CoV beyond noise."
    )
    (tau,) = details(varied)
    assert tau.startswith("Kendall's tau of the cases' timeouts with the published order is 1")


def test_levels_open_without_a_figure_of_one_configuration(varied: Subject) -> None:
    opening = Page("chapter", "Chapter", (), opening=True)
    front = summary(replace(varied, pages=(opening,)))
    assert front is not None
    assert front.tables
    assert front.figures == ()


def test_one_seed_is_not_said_to_show_that_nothing_moves(varied: Subject) -> None:
    members = (member("A", noisy, (1,), CELLS), level("2 MB", 3.0, 1, (1,)))
    found = sensitivity([each.section for each in members])
    (said,) = effects_in_words(found)
    assert said == (
        "Effects on timeouts per flow-minute, loss, goodput or CoV are undecided: each side of a "
        "comparison needs two common seeds."
    )


def test_an_effect_that_leads_to_nothing_is_told_as_a_difference() -> None:
    members = (member("A", noisy, SEEDS, CELLS[:1]), level("2 MB", 0.0, 0, SEEDS, CELLS[:1]))
    said, *_ = effects_in_words(sensitivity([each.section for each in members]))
    assert said.startswith(
        "The strongest effect on loss is that of buffer: with 2 MB it differs by −4.0"
    )
    assert "% from what it is as it stands, in one cell with 4 pairs of runs" in said


def test_levels_with_axes_have_a_column_for_every_setting(varied: Subject) -> None:
    plain, *_ = varied.members

    def swept(factor: str, *sizes: str) -> Member:
        results = tuple(
            replace(one, cell=replace(one.cell, settings=(("queue.max", size),)))
            for size in sizes
            for one in plain.section.results[:1]
        )
        source = replace(plain.section.source, factor=factor, level="l" * bool(factor))
        return replace(plain, section=replace(plain.section, source=source, results=results))

    about = replace(varied, members=(plain, swept("f", "1 kB", "2 kB")))
    loss = result_parts(about)[-1].tables[1]
    assert [c.heading for c in loss.columns][-3:-1] == [
        *("TCPF+FRIO, queue.max=1 kB", "TCPF+FRIO, queue.max=2 kB"),
    ]


def test_a_metric_has_a_table_with_the_factors_by_rank(varied: Subject) -> None:
    assert varied.sensitivity is not None
    part = effects_part(varied.sensitivity)
    assert [table.name for table in part.tables][-1] == "effects-cov"
    assert part.paragraphs[0].endswith(".")
    (row,) = next(table for table in part.tables if table.name == "effects-loss").groups[0].rows
    texts = [entry.text for entry in row]
    assert [*texts[:3], *texts[6:]] == ["1", "buffer", "2 MB", "7", "4", "moves it"]
    assert row[4].value == pytest.approx(3, rel=0.02)


def test_levels_have_a_row_each_in_parameters_and_results(varied: Subject) -> None:
    levels = parameter_tables(varied)[-1]
    rows = [[entry.text for entry in row] for row in levels.groups[0].rows]
    assert rows == [
        ["buffer", "2 MB", "traffic.socket_buffer=2 MB"],
        ["buffer", "4 MB", "traffic.socket_buffer=4 MB"],
    ]
    part = result_parts(varied)[-1]
    assert len(part.tables) == 4
    loss = part.tables[1]
    assert [group.heading for group in loss.groups] == ["as it stands", "buffer"]
    assert loss.groups[0].rows[0][0].text == "unchanged"
    plain, changed = (group.rows[0][1].value for group in loss.groups)
    assert plain is not None
    assert changed == pytest.approx(3 * plain, rel=0.02)
    assert loss.groups[0].rows[0][-1].text == "1.00", "the published order"


# Tooltips of the bar charts: a text per cell, an id in the picture for each of them.

MARKED = [cell for cell in PUBLISHED_CELLS if cell.config == "A"]


def test_a_bar_says_its_case_its_number_how_sure_it_is_and_the_published_value() -> None:
    results = table(lambda cell, metric, seed: 1000 + seed, cells=MARKED[:1], seeds=(1, 2, 3))
    (text,) = bar_marks(results, "timeouts")
    case, flows = MARKED[0].case, MARKED[0].flows
    published = results[0].metrics["timeouts"].published
    assert text.splitlines() == [
        f"{case}, {flows} flows",
        "timeouts: 1002 ± 2, 95 % confidence interval, n\u00a0=\u00a03",
        f"published: {published:g}",
    ]


def test_every_mark_finds_its_place_in_the_picture_and_a_cell_without_runs_too() -> None:
    results = [*table(cells=MARKED[:3]), without_runs(MARKED[3])]
    svg = bar_chart(results, "timeouts", "Configuration A", "60 s", ("svg",))["svg"].decode()
    marks = bar_marks(results, "timeouts")
    assert [f'id="{mark_id(place)}"' in svg for place in range(4)] == [True] * 4
    page = str(Pictures().inline(svg, "Bar chart", marks))
    assert page.count("data-tip=") == 4
    flows = [re.search(r"(\d+) flows", tip)[1] for tip in re.findall('data-tip="[^"]*"', page)]
    assert flows == sorted(flows, key=int), "they stand there from left to right"
    assert "style" not in page
    assert "TCPF+FRIO, " in page


def test_a_case_whose_name_is_markup_stays_text_in_the_picture() -> None:
    (result,) = table(cells=MARKED[:1])
    name = "<script>steal()</script>--&gt;$x$\"'"
    hostile = replace(result, cell=replace(result.cell, case=name))
    svg = bar_chart([hostile], "timeouts", name, name, ("svg",))["svg"].decode()
    page = str(Pictures().inline(svg, name, bar_marks([hostile], "timeouts")))
    assert "<script" not in page
    assert "&lt;script&gt;steal()" in page

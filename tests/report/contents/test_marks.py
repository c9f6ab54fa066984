"""Tooltips of the bar charts: a text per cell, an id in the picture for each of them."""

from __future__ import annotations

import re
from dataclasses import replace

from table_builder import table, without_runs

from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS
from tcpf_lab.report.contents.model import bar_marks, mark_id
from tcpf_lab.report.figure import bar_chart
from tcpf_lab.report.pages.html import Pictures

CELLS = [cell for cell in PUBLISHED_CELLS if cell.config == "A"]


def test_a_bar_says_its_case_its_number_how_sure_it_is_and_the_published_value() -> None:
    results = table(lambda cell, metric, seed: 1000 + seed, cells=CELLS[:1], seeds=(1, 2, 3))
    (text,) = bar_marks(results, "timeouts")
    case, flows = CELLS[0].case, CELLS[0].flows
    published = results[0].metrics["timeouts"].published
    assert text.splitlines() == [
        f"{case}, {flows} flows",
        "timeouts: 1002 ± 2, 95 % confidence interval, n\u00a0=\u00a03",
        f"published: {published:g}",
    ]


def test_every_mark_finds_its_place_in_the_picture_and_a_cell_without_runs_too() -> None:
    results = [*table(cells=CELLS[:3]), without_runs(CELLS[3])]
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
    (result,) = table(cells=CELLS[:1])
    name = "<script>steal()</script>--&gt;$x$\"'"
    hostile = replace(result, cell=replace(result.cell, case=name))
    svg = bar_chart([hostile], "timeouts", name, name, ("svg",))["svg"].decode()
    page = str(Pictures().inline(svg, name, bar_marks([hostile], "timeouts")))
    assert "<script" not in page
    assert "&lt;script&gt;steal()" in page

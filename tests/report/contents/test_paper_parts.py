"""A page on a paper says in the report what it says by itself."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from tcpf_lab.report.claims.judge import Measured, PaperCheck, PaperClaim, Source
from tcpf_lab.report.claims.page import Claims, Drawing, Page, Point, Table, Text
from tcpf_lab.report.contents.papers import page_parts
from tcpf_lab.report.plots.canvas import sheet


def build() -> Figure:
    return sheet()


POINTS = (
    *(Point("Reno", x, values) for x, values in ((4.0, (0.2,)), (1.0, (0.25, 0.75)))),
    Point("no EF", math.nan, (0.001, 0.0028)),
)
CLAIMS = (
    PaperClaim("ef-1", (Source("001", "3.1", "It is large."),), "at least 0.3", (
        PaperCheck("loss", Measured((0.4, 0.41, 0.42)), low=0.3),
        PaperCheck("SACK", Measured((), ("SACK, 1 flow",)), low=0.3),
    ), note="A note."),
    PaperClaim("ef-2", (Source("001", "3.2", "It is small."),), "below 2", (
        PaperCheck("loss", Measured((0.4, 0.5)), high=2.0),
    )),
)  # fmt: skip
PAGE = Page(
    "ef",
    "Paper 001",
    (
        Text("Every number is a mean."),
        Table(
            "runs",
            ("tcp", "loss", "nearer"),
            (("Reno", "1532 ± <1", "Reno"), ("SACK", "–", "–"), ("x", "−0.5", "1 of 2")),
            "Runs.",
        ),
        Text("", "Figures"),
        Drawing("fig-ef-2a", "Figure 2(a)", "Loss.", POINTS, build, ("SACK at 2 ms",)),
        Drawing("fig-ef-3", "Figure 3", "Loss.", (), build, ("any run",)),
        Claims(CLAIMS, "tcpf-lab run ef.yaml"),
    ),
)


def test_a_heading_begins_a_part() -> None:
    first, second = page_parts([PAGE])
    assert (first.name, first.heading) == ("paper-ef-1", "Paper 001")
    assert first.paragraphs == ("Every number is a mean.",)
    assert (second.name, second.heading) == ("paper-ef-2", "Paper 001: Figures")


def test_columns_of_numbers_are_sorted_and_aligned_as_numbers() -> None:
    first, _ = page_parts([PAGE])
    (table,) = first.tables
    assert [column.kind for column in table.columns] == ["text", "estimate", "text"]
    ((reno, sack, last),) = (group.rows for group in table.groups)
    assert (reno[1].text, reno[1].half, reno[1].value) == ("1532", "<1", 1532.0)
    assert (sack[1].text, sack[1].value) == ("–", None)
    assert last[1].value == -0.5


def test_a_figure_without_points_is_named_and_what_is_missing_told() -> None:
    _, second = page_parts([PAGE])
    (figure,) = second.figures
    assert figure.name == "fig-ef-2a"
    assert figure.caption == "Figure 2(a). Loss. Not all of it was measured: SACK at 2 ms."
    assert second.paragraphs[0] == "Figure 3. Not made: any run."


def alternative(drawing: Drawing) -> str:
    (part,) = page_parts([Page("x", "X", (drawing,))])
    return part.figures[0].alternative


def test_a_sentence_has_its_note_and_a_row_for_each_of_several_checks() -> None:
    _, second = page_parts([PAGE])
    (table,) = second.tables
    assert [group.heading for group in table.groups] == [
        "ef-1: 001, 3.1: It is large.",
        "ef-2: 001, 3.2: It is small.",
    ]
    first, other = ([[e.text for e in row] for row in group.rows] for group in table.groups)
    assert [row[0] for row in first] == ["at least 0.3 A note.", "loss", "SACK"]
    assert [row[2] for row in first] == ["not decidable", "(holds)", "(not decidable)"]
    assert first[0][1] == "1 of 1 checks hold, 1 not measured (asked for: all)"
    assert first[1][1] == "0.41 ± 0.02 (3 seeds) (asked for: at least 0.3)"
    assert other == [["below 2", "loss: 0.45 ± 0.64 (2 seeds) (asked for: at most 2)", "holds"]]
    assert second.commands == (("tcpf-lab run ef.yaml",),)

"""Question and answer: every number in them is worked out from the runs."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from subject_builder import member, subject
from table_builder import cell_result, known, without_runs

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.judge import Source
from tcpf_lab.report.claims.page import Claims, Drawing, Drawn, Page, Point, Table, Text
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.contents.answers import answer, details, question
from tcpf_lab.report.contents.papers import page_parts
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.plots.canvas import sheet
from tcpf_lab.report.section import Estimate, Section


def summarised(about: Subject) -> str:
    return "\n".join(details(about)).replace("\u00a0", " ")


def answered(about: Subject) -> str:
    found = answer(about)
    assert len(found.lines) <= 3
    return "\n".join((found.verdict, *found.lines)).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def perfect() -> Subject:
    """Every published number, measured again exactly."""
    return subject(*map(member, "ABCD"))


def test_the_question_names_the_configurations(perfect: Subject) -> None:
    several = "Are the published results of configurations A, B, C and D reproduced?"
    assert question(perfect) == several
    assert (
        question(subject(member("B"))) == "Are the published results of configuration B reproduced?"
    )
    own = replace(perfect, question="Does the marker help?")
    assert question(own) == "Does the marker help?"


def test_the_answer_counts_the_claims_and_the_pairs_in_the_published_order(
    perfect: Subject,
) -> None:
    assert perfect.comparison is not None
    verdicts = [str(claim.ours.verdict) for claim in perfect.comparison.claims]
    holding, refuted = (verdicts.count(word) for word in ("holds", "refuted"))
    verdict, claims, order, *_ = answered(perfect).splitlines()
    assert verdict == "Partly", "the published tables refute some claims too"
    assert claims.startswith(f"Of {holding + refuted} decided claims, {holding} hold")
    assert order.startswith("100 % of the pairs of cases")


def test_the_order_alone_decides_where_no_claim_is_decided() -> None:
    def reverse(cell: CellKey, metric: str, _: int) -> float:
        return 1e4 / (1 + known(cell)[metric])

    cells = [cell for cell in PUBLISHED_CELLS if cell.config == "A"][:3]
    assert answered(subject(member("A", cells=cells))).startswith("Partly\nNo claim is decided")
    other = subject(member("A", reverse, cells=cells))
    assert answered(other).splitlines()[0] == "No"
    assert "0 % of the pairs" in answered(other)


def test_published_numbers_measured_again_are_reported_as_such(perfect: Subject) -> None:
    text = summarised(perfect)
    assert "All 56 published cells were measured in 336 of 336 runs requested" in text


def test_verdicts_are_counted_from_the_comparison(perfect: Subject) -> None:
    assert perfect.comparison is not None
    verdicts = [str(claim.ours.verdict) for claim in perfect.comparison.claims]
    found = re.search(
        r"Of the papers' (\d+) claims, (\d+) hold .*?, (\d+) are refuted", summarised(perfect)
    )
    assert found is not None
    expected = [len(verdicts), verdicts.count("holds"), verdicts.count("refuted")]
    assert [int(number) for number in found.groups()] == expected


def test_as_many_checks_hold_as_in_the_tables_that_were_measured_again(perfect: Subject) -> None:
    found = re.search(r"measured, (\d+) are as claimed here and (\d+) in", summarised(perfect))
    assert found is not None
    ours, known = map(int, found.groups())
    assert ours == known > 1000


def test_a_gain_in_timeouts_is_measured_and_published(perfect: Subject) -> None:
    block = CellKey("A", 100, "TCPF+FRIO"), CellKey("A", 100, "TB+RIO")
    ours, theirs = (known(cell)["timeouts"] for cell in block)
    assert f"{theirs / ours:.3g}" == "22.2"
    part = subject(member("A", cells=[c for c in PUBLISHED_CELLS if c.flows == 100]))
    assert (
        "TB+RIO has 22.2 times the timeouts of TCPF+FRIO (one configuration and number of flows; "
        "published: 22.2)." in summarised(part)
    )
    doubled = subject(
        member(
            "A",
            lambda cell, metric, _: known(cell)[metric] * (1 + (cell.case == "TB+RIO")),
            cells=[cell for cell in PUBLISHED_CELLS if cell.flows == 100],
        )
    )
    assert "TB+RIO has 44.4 times the timeouts" in summarised(doubled)


def test_what_was_not_measured_is_not_counted() -> None:
    some = subject(member("A", cells=PUBLISHED_CELLS[:3]))
    assert "3 of the 56 published cells were measured in 18 of 18 runs" in summarised(some)
    assert "No claim of the papers can be decided" in summarised(some)


CELLS = {
    "Good": {
        "timeouts": (3, 4, 5),
        "loss_percent": (1.0, 1.1, 1.2),
        "goodput_cov": (0.1, 0.1, 0.1),
    },
    "Bad": {"timeouts": (90, 91, 92), "loss_percent": (1.1, 1.1, 1.1), "goodput_cov": (0.1,) * 3},
}


def own_subject(*names: str, runs: bool = True) -> Subject:
    """An experiment that nobody published."""
    keys = [CellKey("mine", 10, name) for name in names]
    values = [{**CELLS[name], "goodput_bytes_per_s": (100.0, 110.0, 120.0)} for name in names]
    results = [
        cell_result(key, value, (1, 2, 3)) if runs else without_runs(key)
        for key, value in zip(keys, values, strict=True)
    ]
    results = [replace(r, cell=replace(r.cell, published=False)) for r in results]
    plain = member("A")
    source = replace(plain.section.source, cells=[r.cell for r in results], title="Mine")
    made = Member(
        plain.experiment.model_copy(update={"name": "mine"}), Section(source, tuple(results))
    )
    return Subject("Mine", (made,), False, None, None, ())


def test_an_experiment_of_ones_own_is_asked_for_its_best_case() -> None:
    assert question(own_subject("Good", "Bad")) == "Which of Good and Bad serves 10 flows best?"
    assert question(own_subject("Good")) == "What do 10 flows get with Good?"
    assert answered(own_subject("Good", "Bad")) == (
        "\nGood: lowest loss (1.10 %) and fewest timeouts.\n"
        "The lead over the next case is within noise in loss."
    )
    assert not details(own_subject("Good", "Bad"))


def test_an_unpublished_experiment_stands_beside_a_published_one() -> None:
    mine = own_subject("Good", "Bad").members[0]
    about = subject(member("A"))
    text = summarised(replace(about, members=(*about.members, mine)))
    assert "mine: Good: lowest loss (1.10 %) and fewest timeouts." in text
    assert "14 of the 56 published cells were measured in 84 of 84 runs requested" in text


def test_a_difference_within_the_intervals_is_called_noise() -> None:
    noisy = own_subject("Good", "Bad")
    changed = with_losses(noisy, (1.0, 1.1, 1.2), (1.3, 1.1, 1.2))
    assert "within noise in loss." in answered(changed)


def test_a_difference_that_every_seed_has_is_no_noise_though_the_intervals_overlap() -> None:
    text = answered(with_losses(own_subject("Good", "Bad"), (1.0, 1.1, 1.2), (1.05, 1.15, 1.24)))
    assert text.endswith("Every lead over the next case is beyond noise.")


def with_losses(about: Subject, *losses: tuple[float, ...]) -> Subject:
    """The same with these losses in percent, seed by seed, in its cases."""
    (only,) = about.members
    results = []
    for result, values in zip(only.section.results, losses, strict=True):
        estimate = Estimate(values, *mean_ci(values), None)
        results.append(replace(result, metrics={**result.metrics, "loss_percent": estimate}))
    changed = replace(only, section=replace(only.section, results=tuple(results)))
    return replace(about, members=(changed,))


def test_a_single_case_has_its_numbers_in_the_answer() -> None:
    assert answered(own_subject("Good")).startswith(
        "\nGood: timeouts 4.0 ± 2.5, loss 1.10 ± 0.25 %"
    )
    assert not details(own_subject("Good"))


# A page on a paper says in the report what it says by itself.


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
        Drawing("fig-ef-2a", "Figure 2(a)", "Loss.", POINTS, Drawn(build), ("SACK at 2 ms",)),
        Drawing("fig-ef-3", "Figure 3", "Loss.", (), Drawn(build), ("any run",)),
        Claims(CLAIMS, "tcpf-lab run ef.yaml"),
    ),
)


def test_a_heading_begins_a_part() -> None:
    first, second, _ = page_parts([PAGE])
    assert (first.name, first.heading) == ("paper-ef-1", "Paper 001")
    assert first.paragraphs == ("Every number is a mean.",)
    assert (second.name, second.heading) == ("paper-ef-2", "Figures")
    _, second, *_ = page_parts([PAGE, replace(PAGE, name="x", title="X")])
    assert second.heading == "Paper 001: Figures"


def test_columns_of_numbers_are_sorted_and_aligned_as_numbers() -> None:
    first, *_ = page_parts([PAGE])
    (table,) = first.tables
    assert [column.kind for column in table.columns] == ["text", "estimate", "text"]
    ((reno, sack, last),) = (group.rows for group in table.groups)
    assert (reno[1].text, reno[1].half, reno[1].value) == ("1532", "<1", 1532.0)
    assert (sack[1].text, sack[1].value) == ("–", None)
    assert last[1].value == -0.5


def test_a_figure_without_points_is_named_and_what_is_missing_told() -> None:
    _, second, _ = page_parts([PAGE])
    (figure,) = second.figures
    assert figure.name == "fig-ef-2a"
    assert figure.caption == "Figure 2(a). Loss. Not all of it was measured: SACK at 2 ms."
    assert second.paragraphs[0] == "Figure 3. Not made: any run."


def alternative(drawing: Drawing) -> str:
    (part,) = page_parts([Page("x", "X", (drawing,))])
    return part.figures[0].alternative


def test_a_sentence_has_its_note_and_a_row_for_each_of_several_checks() -> None:
    _, second, checks = page_parts([PAGE])
    (claims,), (table,) = second.tables, checks.tables
    assert checks.detail
    assert [[entry.text for entry in row] for row in claims.groups[0].rows] == [
        [
            "It is large. (3.1; ef-1)",
            "SACK: missing: SACK, 1 flow; claimed: at least 0.3",
            "not decidable (1 of 1 checks, 1 not measured)",
        ],
        ["It is small. (3.2; ef-2)", "loss: 0.45 ± 0.64 (2 seeds); claimed: at most 2", "holds"],
    ]
    assert [group.heading for group in table.groups] == [
        "It is large. (3.1; ef-1)",
        "It is small. (3.2; ef-2)",
    ]
    first, other = ([[e.text for e in row] for row in group.rows] for group in table.groups)
    assert [row[0] for row in first] == ["at least 0.3 A note.", "loss", "SACK"]
    assert [row[2] for row in first] == ["not decidable", "(holds)", "(not decidable)"]
    assert first[0][1] == "1 of 1 checks hold, 1 not measured (claimed: all)"
    assert first[1][1] == "0.41 ± 0.02 (3 seeds) (claimed: at least 0.3)"
    assert other == [["below 2", "loss: 0.45 ± 0.64 (2 seeds) (claimed: at most 2)", "holds"]]
    assert second.commands == (("tcpf-lab run ef.yaml",),)

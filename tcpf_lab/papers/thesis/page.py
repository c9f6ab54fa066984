"""The page that a report on published configurations opens with: tables, picture, conclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.claims.judge import ClaimResult, Judgement, Verdict, judge
from tcpf_lab.report.claims.page import Drawing, Page, Point, Table, Text
from tcpf_lab.report.claims.published import CONFIGS, FLOWS
from tcpf_lab.report.compare.published import ADDED, APART, FACTOR, Agreement, Comparison
from tcpf_lab.report.compare.scoreboard import agreement_table, metric_word
from tcpf_lab.report.compare.statistics import key_of, measured_sample, published_sample
from tcpf_lab.report.contents.model import listed
from tcpf_lab.report.section import CellResult, Section
from tcpf_lab.report.style import CASES, DRAWN, METRICS
from tcpf_lab.report.table import fixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tcpf_lab.report.plots.canvas import Entry


#: The thesis' own conclusions.
SECTION_4_5 = tuple(claim for claim in CLAIMS if claim.id.startswith("thesis-4.5-"))
_MARKERS = {"A": "o", "B": "s", "C": "^", "D": "D"}
#: Size of a marker by the number of flows.
_SIZES = {100: 6.0, 50: 3.6}
#: Shapes and sizes are of every case.
_ANY = next(iter(CASES))
_INK = "#111111"


@dataclass(frozen=True)
class Scatter:
    """Measured over published: which cell each point is of, and those that the legend names.

    ``cells`` has configuration and number of flows for each point; ``used`` case, configuration and
    flows of every cell that was measured.
    """

    cells: tuple[tuple[str, int], ...]
    used: tuple[tuple[str, str, int], ...]

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return f"where {point.x:g} was published"

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw a panel for each metric; within ``house_style``."""
        from tcpf_lab.report.plots.canvas import legend, sheet

        figure = sheet(height=7.2)
        for axes, metric in zip(figure.subplots(2, 2).flat, DRAWN, strict=True):
            found = zip(points, self.cells, strict=True)
            own = [both for both in found if both[0].panel == METRICS[metric].word]
            _frame(axes, metric, [point for point, _ in own])
            for point, (config, flows) in own:
                _draw(axes, point, config, flows)
        legend(figure, list(_entries(self.used)))
        return figure


def points_of(results: Sequence[CellResult]) -> tuple[Point, ...]:
    """Give what is drawn: a panel per metric, a series per case, published values along x."""
    return tuple(point for metric in DRAWN for _, point in _points(results, metric))


def scatter_of(results: Sequence[CellResult]) -> Scatter:
    """Give what the points of `points_of` are of."""
    drawn = [result.cell for metric in DRAWN for result, _ in _points(results, metric)]
    used = [result.cell for result in results if result.used]
    return Scatter(
        tuple((cell.config, cell.flows) for cell in drawn),
        tuple((cell.case, cell.config, cell.flows) for cell in used),
    )


def _points(results: Sequence[CellResult], metric: str) -> Iterator[tuple[CellResult, Point]]:
    """Yield the points of a panel with their cells; a logarithmic axis has no place for 0."""
    added = ADDED if metric == DRAWN[0] else 0
    for result in results:
        estimate = result.metrics[metric]
        mean, known = estimate.mean, estimate.published
        if mean is not None and known is not None and min(mean, known) + added > 0:
            values = tuple(value + added for value in estimate.values)
            yield result, Point(result.cell.case, known + added, values, METRICS[metric].word)


def _frame(axes: Axes, metric: str, points: Sequence[Point]) -> None:
    """Prepare a panel: equal axes around all points, the diagonal and the band."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    style = METRICS[metric]
    places = [x for point in points for x in (point.x, mean_ci(point.values)[0])] or [1.0]
    ends = min(places) / 1.25, max(places) * 1.25
    added = f" + {ADDED}" if metric == DRAWN[0] else ""
    axes.set_title(style.heading + added, fontweight="bold", fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
    axes.set(xlabel="published", ylabel="measured")
    few = ends[1] / ends[0] > 30
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="both", which="major", bottom=True, labelsize=8)
    axes.grid(True, axis="both")
    axes.fill_between(
        ends,
        [end / FACTOR for end in ends],
        [end * FACTOR for end in ends],
        color="#e4e4e4",
        linewidth=0,
        zorder=0,
    )
    axes.plot(ends, ends, color=_INK, linewidth=0.9, zorder=1)


def _draw(axes: Axes, point: Point, config: str, flows: int) -> None:
    mean, half = mean_ci(point.values)
    if half is not None:
        low = max(mean - half, axes.get_ylim()[0])
        axes.plot([point.x] * 2, [low, mean + half], color="#777777", linewidth=0.7, zorder=2)
    look = _look(point.series, _MARKERS[config], _SIZES[flows])
    axes.plot([point.x], [mean], zorder=3, **look)


def _look(case: str, marker: str, size: float) -> dict[str, Any]:
    from tcpf_lab.report.plots.canvas import marker_look

    return {**marker_look(replace(CASES[case], marker=marker), size), "markeredgewidth": 0.6}


def _entries(used: Sequence[tuple[str, str, int]]) -> Iterator[Entry]:
    """Yield the legend: colours, then shapes, then sizes, of what is there."""
    from matplotlib.lines import Line2D

    from tcpf_lab.report.plots.canvas import Entry

    cases, configs, counts = (set(found) for found in zip(*used, strict=True))
    grey = {"markerfacecolor": "#ffffff"}
    for case in (case for case in CASES if case in cases):
        yield Entry(case, Line2D([], [], **_look(case, "s", 7)))
    for config in (config for config in _MARKERS if config in configs):
        look = _look(_ANY, _MARKERS[config], _SIZES[100])
        yield Entry(f"configuration {config}", Line2D([], [], **{**look, **grey}))
    for flows in (flows for flows in FLOWS if flows in counts):
        look = _look(_ANY, "o", _SIZES[flows])
        yield Entry(f"{flows} flows", Line2D([], [], **{**look, **grey}))


#: Columns of conclusions by the testbed's name: the cells that were measured on it.
Testbeds = Mapping[str, Sequence[CellResult]]

_REVERSED, _OPEN = "reversed", "undecided"
#: Verdicts on a conclusion, and how they are counted.
_COUNTED = {
    Verdict.HOLDS: "hold",
    Verdict.REFUTED: "do not hold everywhere",
    _REVERSED: _REVERSED,
    _OPEN: _OPEN,
}


def other_testbeds(sections: Sequence[Section]) -> Testbeds:
    """Group levels called ``<testbed> in <configuration>`` by testbed, those with a used run."""
    found: dict[str, list[CellResult]] = {}
    for section in sections:
        name, _, config = section.source.level.rpartition(" in ")
        if name and config == section.config and config in CONFIGS and section.usable:
            found.setdefault(name, []).extend(section.results)
    return found


def build(
    comparison: Comparison, results: Sequence[CellResult], others: Testbeds, needed: str = ""
) -> Page:
    """Give the page.

    Parameters
    ----------
    comparison : Comparison
        With the published tables.
    results : sequence of CellResult
        Its agreement and claims.
    others : mapping of str to sequence of CellResult
        The same cells on other testbeds.
    needed : str
        The command that measures them, where they are not there.
    """
    ids = {claim.id for claim in SECTION_4_5}
    testbeds = {"this report": [claim for claim in comparison.claims if claim.id in ids]}
    keys = {key_of(result) for result in results}
    for name, measured in others.items():
        own = [result for result in measured if key_of(result) in keys]
        sample = measured_sample(own, comparison.seed, comparison.resamples)
        known = published_sample()
        testbeds[name] = [judge(claim, known, sample) for claim in SECTION_4_5]
    return Page(
        "published",
        "Measured against published",
        (
            Text(
                " ".join(_agreement_sentences(comparison.agreement)), "Are the tables reproduced?"
            ),
            agreement_table(comparison.agreement),
            _drawing(results),
            Text(_conclusions_sentence(testbeds), "Are the thesis' conclusions right?"),
            _conclusions(testbeds, needed),
        ),
        opening=True,
    )


def _agreement_sentences(rows: Sequence[Agreement]) -> Iterator[str]:
    """Say how near the last row is, which is over everything."""
    *_, whole = rows
    near = whole.near
    if near.value is not None:
        ends = near.interval and f" (95 % interval {near.interval[0]:g} to {near.interval[1]:g})"
        yield (
            f"Timeouts of {near.value:g} of {near.of} cells are within a factor of {FACTOR:g}, or "
            f"{APART}, of the published{ends or ''}."
        )
    errors = [
        f"{metric_word(m.metric)} {fixed(m.value, 2)}" for m in whole.errors if m.value is not None
    ]
    yield (
        f"Root mean square of ln(measured / published): {', '.join(errors)}; a factor of 1.5 is "
        "0.41."
    )
    taus = [
        f"{fixed(m.value, 2)} in {metric_word(m.metric)}" for m in whole.taus if m.value is not None
    ]
    if taus:
        yield (
            "Minimum of Kendall's tau between the measured and the published order of the cases: "
            f"{listed(taus)}."
        )


def _drawing(results: Sequence[CellResult]) -> Drawing:
    points = points_of(results)
    cells = max(Counter(point.panel for point in points).values(), default=0)
    return Drawing(
        "fig-published",
        "Measured against published",
        f"{cells} cells in each panel: on the diagonal both are equal, in the band within a factor "
        f"of {FACTOR:g}. Whiskers are 95 % intervals (Student's t). {ADDED} is added to timeouts, "
        "as logarithmic axes have no 0.",
        points,
        scatter_of(results),
    )


def _reversed(claim: ClaimResult) -> int:
    """Count the comparisons that are beyond noise the other way round: all are gains, below 1."""
    spreads = [finding.ours.interval for finding in claim.findings]
    return sum(spread is not None and spread[1] < 1 for spread in spreads)


def _verdict(claim: ClaimResult) -> str:
    """Give a key of ``_COUNTED``: ``reversed`` if most comparisons are, not one alone."""
    found = claim.ours.verdict
    if found is Verdict.REFUTED and 2 * _reversed(claim) > claim.ours.measured:
        return _REVERSED
    return found if found in _COUNTED else _OPEN


def _in_words(claim: ClaimResult) -> str:
    """Give ``holds in 27 of 32, 3 within noise``; of few seeds by their means."""
    ours, verdict = claim.ours, _verdict(claim)
    verdicts = Counter(finding.ours.verdict for finding in claim.findings)
    if verdict == _REVERSED:
        return f"reversed in {replace(ours, holding=_reversed(claim))}"
    if verdict == _OPEN and verdicts[Verdict.FEW]:
        checks = next(one.checks for one in SECTION_4_5 if one.id == claim.id)
        values = [finding.ours.value for finding in claim.findings]
        near = sum(v is not None and c.contains(v) for c, v in zip(checks, values, strict=True))
        return f"holds in {replace(ours, holding=near).counted('by few seeds')}"
    noise = verdicts[Verdict.NOISE]
    return _holds_in(ours) + (f", {noise} within noise" if noise else "")


def _holds_in(one: Judgement) -> str:
    if not one.measured:
        return "not measured"
    return f"holds in all {one.checks}" if one.holding == one.checks else f"holds in {one}"


def _conclusions_sentence(testbeds: Mapping[str, Sequence[ClaimResult]]) -> str:
    parts = []
    for name, claims in testbeds.items():
        counts = Counter(map(_verdict, claims))
        verdicts = ", ".join(f"{counts[v]} {word}" for v, word in _COUNTED.items() if counts[v])
        where = "on these runs" if name == "this report" else f"with {name}"
        parts.append(f"{where}: {verdicts}")
    return f"Of the thesis' {len(SECTION_4_5)} conclusions (section 4.5), {'; '.join(parts)}."


def _conclusions(testbeds: Mapping[str, Sequence[ClaimResult]], needed: str) -> Table:
    first, *_ = testbeds.values()
    rows = [
        (
            own.sources[0].sentence,
            _holds_in(own.published),
            *(_in_words(claims[at]) for claims in testbeds.values()),
        )
        for at, own in enumerate(first)
    ]
    lacking = f" Columns with a full-duplex link and with today's TCP: {needed}" if needed else ""
    return Table(
        "conclusions",
        ("conclusion of the thesis", "published tables", *testbeds),
        tuple(rows),
        "Each conclusion covers several comparisons of two cells; counted are those in which it "
        "holds beyond noise. Reversed: most comparisons contradict it beyond noise. By few seeds: "
        "only means are counted." + lacking,
        left=2 + len(testbeds),
    )

"""A against B: the same cells and seeds with and without a change, and a verdict on each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.compare.parting import Parting, event_table, parting_table
from tcpf_lab.report.compare.published import LeftOut
from tcpf_lab.report.compare.scoreboard import left_out_lines, number_text
from tcpf_lab.report.compare.statistics import CONFIDENCE, Interval
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.style import METRICS, OTHER_METRICS
from tcpf_lab.report.table import NOTHING, Column, Entry, Group, Table, rows_of

#: ``open``: a single seed, whose difference has no interval.
Verdict = Literal["differs", "open", "within noise", "equal"]
#: The first of them that one comparison has is the verdict on all.
VERDICTS: tuple[Verdict, ...] = ("differs", "open", "within noise", "equal")
#: Power at which the smallest difference is given that so many seeds show.
POWER = 0.8
#: Name of the mean over all cells, beside theirs.
ALL = "all cells"


@dataclass(frozen=True)
class Difference:
    """One metric of one cell on both sides, over the seeds that both have.

    ``difference`` is the mean of B minus A, ``interval`` its 95 % interval (Student's t over the
    pairs), ``detectable`` the smallest difference that so many seeds show, ``p`` that of the paired
    t test after Holm's correction for all comparisons. ``differences`` are those of ``seeds``.
    """

    cell: str
    metric: str
    seeds: tuple[int, ...]
    first: float
    second: float
    difference: float
    interval: Interval | None
    detectable: float | None
    p: float | None
    verdict: Verdict
    differences: tuple[float, ...]


@dataclass(frozen=True)
class MetricVerdict:
    """A metric over all cells, and those in which it differs."""

    metric: str
    verdict: Verdict
    differing: tuple[str, ...]


@dataclass(frozen=True)
class Against:
    """What ``tcpf-lab compare`` reports of A and B.

    ``sides`` are the settings of each, ``conditions`` those of their runs; ``margin`` is relative
    to A's mean. ``missing`` are cells without a seed that is usable on both sides, ``unchanged``
    those that no setting of a side touches, ``left_out`` counts unused runs of each side.
    ``partings`` has the captures of each pair that has them on both sides, ``uncaptured`` why
    others have not.
    """

    sides: tuple[str, str]
    conditions: tuple[str, str]
    margin: float | None
    verdict: Verdict
    metrics: tuple[MetricVerdict, ...]
    differences: tuple[Difference, ...]
    missing: tuple[str, ...]
    unchanged: tuple[str, ...]
    left_out: tuple[tuple[LeftOut, ...], tuple[LeftOut, ...]]
    partings: tuple[Parting, ...] = ()
    uncaptured: tuple[str, ...] = ()

    @property
    def seeds(self) -> int | None:
        """The number of seeds of all comparisons, None where they differ."""
        numbers = {len(one.seeds) for one in self.differences}
        return numbers.pop() if len(numbers) == 1 else None

    @property
    def note(self) -> str:
        """Say how the verdicts were reached."""
        pairs = f"{self.seeds} seeds" if self.seeds else "seeds"
        tests = sum(one.p is not None for one in self.differences)
        bound = f"; equal: within {100 * self.margin:g} % of A's mean" if self.margin else ""
        return (
            f"B minus A over pairs of {pairs}, with 95 % intervals. differs: p < 0.05 in a paired "
            f"t test with Holm's correction for {tests} comparisons{bound}. shown from: the "
            f"difference that so many seeds show with a probability of {100 * POWER:.0f} % "
            "(one comparison alone)."
        )


#: The numbers of A and of B of one cell and metric, by seed.
Numbers = Mapping[int, float]
Sample = tuple[str, str, Numbers, Numbers]


def differences(samples: Iterable[Sample], margin: float | None = None) -> tuple[Difference, ...]:
    r"""Judge paired numbers, and the mean over all cells of each metric that several have.

    The p values are multiplied as Holm's step-down method does: the m - k of them that are not
    smaller than the k smallest are significant at :math:`\alpha` only if the smallest of them is
    at most :math:`\alpha / (m - k)`.

    Parameters
    ----------
    samples : iterable of Sample
        Cell, metric, numbers of A and of B by seed; those without a common seed are left out.
    margin : float, optional
        Of equivalence, relative to A's mean: the whole interval must lie within.

    References
    ----------
    S. Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    paired = [one for one in map(_common, samples) if one[2]]
    every = [*paired, *_over_cells(paired)]
    alone = [_difference(*one, margin) for one in every]
    tested = sorted((one.p, place) for place, one in enumerate(alone) if one.p is not None)
    adjusted, reached = {}, 0.0
    for rank, (p, place) in enumerate(tested):
        reached = max(reached, min(1.0, p * (len(tested) - rank)))
        adjusted[place] = reached
    return tuple(_judged(one, adjusted.get(place)) for place, one in enumerate(alone))


def _common(sample: Sample) -> Sample:
    cell, metric, first, second = sample
    seeds = sorted(first.keys() & second.keys())
    return cell, metric, {s: first[s] for s in seeds}, {s: second[s] for s in seeds}


def _over_cells(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Yield the mean over cells of each metric, by the seeds that all of them have."""
    for metric in dict.fromkeys(name for _, name, _, _ in samples):
        own = [one for one in samples if one[1] == metric]
        seeds = sorted(set.intersection(*(set(first) for _, _, first, _ in own)))
        if len(own) > 1 and seeds:
            first, second = (
                {seed: float(np.mean([one[side][seed] for one in own])) for seed in seeds}
                for side in (2, 3)
            )
            yield ALL, metric, first, second


def _difference(
    cell: str, metric: str, first: Numbers, second: Numbers, margin: float | None
) -> Difference:
    """Compare one metric of one cell; the p value is that of this test alone."""
    seeds = tuple(sorted(first))
    changes = tuple(second[seed] - first[seed] for seed in seeds)
    one, other = (float(np.mean([side[seed] for seed in seeds])) for side in (first, second))
    mean, half = mean_ci(changes)
    spread = None if half is None else (mean - half, mean + half)
    verdict: Verdict = "open" if spread is None else "within noise"
    if not any(changes) or (spread and _within(spread, margin, one)):
        verdict = "equal"
    return Difference(
        *(cell, metric, seeds, one, other, mean, spread),
        detectable(changes),
        _p_value(changes),
        verdict,
        changes,
    )


def _within(spread: Interval, margin: float | None, mean: float) -> bool:
    return margin is not None and max(map(abs, spread)) <= margin * abs(mean)


def _judged(one: Difference, p: float | None) -> Difference:
    differs = one.verdict == "within noise" and p is not None and p < 1 - CONFIDENCE
    return replace(one, p=p, verdict="differs" if differs else one.verdict)


def _p_value(changes: Sequence[float]) -> float | None:
    """Give the p value of the paired t test; None for one pair."""
    n = len(changes)
    if n < 2:
        return None
    mean, deviation = float(np.mean(changes)), float(np.std(changes, ddof=1))
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    from scipy.special import stdtr  # here and below: the command line starts without scipy

    return float(2 * stdtr(n - 1, -abs(mean) / (deviation / math.sqrt(n))))


def detectable(changes: Sequence[float]) -> float | None:
    r"""Give the smallest difference that a paired t test shows at 5 % with 80 % power.

    .. math:: \delta = \lambda s / \sqrt n, \quad
       P(T_{n-1}(\lambda) \le t_{n-1,\,0.975}) = 0.2

    with the standard deviation s of the paired differences and Student's t with noncentrality
    :math:`\lambda`; the other tail, where the sign is wrong, is negligible.

    Parameters
    ----------
    changes : sequence of float
        One per seed.

    Returns
    -------
    float or None
        None for fewer than two seeds; 0 if the differences do not vary.

    References
    ----------
    J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, 1988, chapter 2.

    Examples
    --------
    Five pairs show 1.68 standard deviations, which is Cohen's table for a paired test:

    >>> round(detectable([-2.0, -1.0, 0.0, 1.0, 2.0]) / 1.5811388, 2)
    1.68
    """
    n = len(changes)
    if n < 2:
        return None
    from scipy.special import nctdtrinc, stdtrit

    limit = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    shift = float(nctdtrinc(n - 1, 1 - POWER, limit))
    return shift * float(np.std(changes, ddof=1)) / math.sqrt(n)


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Give the verdict on all: that of the comparison that is least equal."""
    found = set(verdicts)
    return next((one for one in VERDICTS if one in found), "open")


def by_metric(found: Sequence[Difference]) -> tuple[MetricVerdict, ...]:
    """Give a verdict on each metric, and the cells in which it differs."""
    return tuple(
        MetricVerdict(
            metric,
            overall(one.verdict for one in own),
            tuple(one.cell for one in own if one.verdict == "differs"),
        )
        for metric in dict.fromkeys(one.metric for one in found)
        for own in [[one for one in found if one.metric == metric]]
    )


_COLOURS: dict[Verdict, str] = {
    "equal": "green",
    "within noise": "green",
    "differs": "red",
    "open": "yellow",
}


def heading(metric: str) -> str:
    """Give a metric's words with its unit; of one that no table has its path."""
    style = METRICS.get(metric) or OTHER_METRICS.get(metric)
    word = style.word if style else metric
    unit = style.unit if style else LAYOUTS["runs"].units.get(metric, "")
    return f"{word} ({unit})" if unit else word


def difference_table(found: Against) -> Table:
    """Give all comparisons, metric by metric."""
    groups, several = [], found.seeds is None
    for metric in dict.fromkeys(one.metric for one in found.differences):
        own = [one for one in found.differences if one.metric == metric]
        groups.append(Group(heading(metric), rows_of(difference_row(one, several) for one in own)))
    numbers = ("A", "B", "B minus A", "shown from", "p", *("seeds",) * several)
    return Table(
        name="differences",
        caption="A and B, cell by cell",
        columns=(
            Column("cell", fit="whole"),
            *(Column(name, "number") for name in numbers),
            Column("verdict", fit="whole"),
        ),
        groups=tuple(groups),
        note=found.note,
        close=True,
    )


def difference_row(one: Difference, seeds: bool) -> tuple[str | Entry, ...]:
    """Give the entries of a comparison, with its number of ``seeds`` if that differs."""
    half = "" if one.interval is None else number_text((one.interval[1] - one.interval[0]) / 2)
    return (
        *(one.cell, number_text(one.first), number_text(one.second)),
        Entry(number_text(one.difference), half=half),
        *(number_text(one.detectable), p_text(one.p), *((str(len(one.seeds)),) if seeds else ())),
        Entry(one.verdict, style=_COLOURS[one.verdict]),
    )


def p_text(p: float | None) -> str:
    """Write a p value."""
    return NOTHING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def verdict_line(one: MetricVerdict) -> str:
    """Give ``timeouts: differs in TB+RIO, NoMark+RED``."""
    where = f" in {', '.join(one.differing)}" if one.differing else ""
    return f"{heading(one.metric)}: {one.verdict}{where}"


def against_lines(found: Against, full: bool = False) -> Iterator[RenderableType]:
    """Give what a terminal shows: sides, comparisons, verdicts, what is left out, packets."""
    for name, side, text in zip("AB", found.sides, found.conditions, strict=True):
        yield Text.assemble((f"{name}: {side}", "bold"), f"; {text}")
    yield difference_table(found)
    yield Text.assemble("verdict: ", (found.verdict, f"bold {_COLOURS[found.verdict]}"))
    for one in found.metrics:
        yield Text(f"  {verdict_line(one)}", style=_COLOURS[one.verdict])
    yield from (Text(line, style="yellow") for line in remarks(found))
    if found.partings:
        yield parting_table(found.partings)
    shown = [one for one in found.partings if one.events]
    for parting in shown if full else shown[:1]:
        yield event_table(parting)


def remarks(found: Against) -> Iterator[str]:
    """Yield a line for everything that is not part of the comparison, and why."""
    yield from found.missing
    for name, rows in zip("AB", found.left_out, strict=True):
        yield from (f"{name}: {line.plain}" for line in left_out_lines(rows))
    if found.unchanged:
        yield f"the same runs on both sides: {', '.join(found.unchanged)}"
    if any(one.verdict == "open" for one in found.differences):
        yield "one common seed shows no spread: add seeds, as with --set matrix.seed=1..5"
    yield from found.uncaptured

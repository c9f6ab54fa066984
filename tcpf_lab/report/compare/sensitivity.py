"""Which parameter moves which metric: effects of levels and axes, ranked by what is sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tcpf_lab.errors import LabError
from tcpf_lab.report.compare.bootstrap import CONFIDENCE, CellKey, Interval
from tcpf_lab.report.compare.contrast import Contrast, Terms, contrast
from tcpf_lab.report.compare.published import LeftOut, left_out
from tcpf_lab.report.compare.studies import Study, design, studies
from tcpf_lab.report.section import Section
from tcpf_lab.report.style import METRICS

#: What is looked at. Timeouts per flow-minute stand for their number: the ratio is the same, and
#: it stays one if the duration is among what varies.
LOOKED_AT = ("timeouts_per_flow_minute", "loss_percent", "goodput_bytes_per_s", "goodput_cov")
#: Whether an effect is beyond noise; ``open`` where there is no interval to tell by.
Verdict = Literal["moves", "noise", "open"]


@dataclass(frozen=True)
class Effect:
    """What one level of a factor does to one metric, in one cell or in the mean of all it touches.

    ``ratio`` is the mean at ``level`` over that at ``against`` (over several cells the geometric
    mean of the ratios), ``interval`` its 95 % interval; ``difference`` and the half width
    ``difference_ci`` are in the metric's unit. ``kind`` is ``line`` where a straight line through
    the logarithms is meant, from the least value of an axis to the greatest. ``cell`` is None and
    ``cells`` counts where several are averaged; ``pairs`` are the seeds compared.
    """

    kind: Literal["level", "line"]
    factor: str
    level: str
    against: str
    metric: str
    cell: CellKey | None
    cells: int
    pairs: int
    ratio: float | None
    interval: Interval | None
    difference: float | None
    difference_ci: float | None
    verdict: Verdict
    note: str


@dataclass(frozen=True)
class Ranked:
    """A factor's place for one metric: its strongest level and, of numbers, the straight line."""

    rank: int
    factor: str
    effect: Effect
    line: Effect | None


@dataclass(frozen=True)
class Ranking:
    """The factors by what they do to one metric, overall (``cell`` is None) or in one cell."""

    metric: str
    cell: CellKey | None
    factors: tuple[Ranked, ...]


@dataclass(frozen=True)
class Factor:
    """What was varied: a collection's factor or an axis, and its levels but the reference."""

    name: str
    kind: Literal["factor", "axis"]
    against: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Sensitivity:
    """Everything that ``tcpf-lab compare --sensitivity`` says.

    ``rankings`` has one for each metric overall, then one for each metric and cell; ``effects``
    every level's, in the order of the factors.
    """

    design: tuple[str, ...]
    conditions: tuple[str, ...]
    factors: tuple[Factor, ...]
    rankings: tuple[Ranking, ...]
    effects: tuple[Effect, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


def sensitivity(sections: Sequence[Section], status: str = "") -> Sensitivity:
    """Rank the factors of a collection, or the axes of matrices, by what they do to each metric.

    Parameters
    ----------
    sections : sequence of Section
        The experiments as they stand and at every level; or experiments with axes.
    status : str
        The command line that says what runs there are.

    Returns
    -------
    Sensitivity
        A factor's rank is that of its strongest level: the one whose interval stays farthest from
        no effect. The interval is not made wider for having been chosen; ``notes`` counts them.

    Raises
    ------
    LabError
        If nothing varies, or nothing that does has a usable run to compare with.
    """
    found = studies(sections)
    effects = tuple(effect for study in found for effect in _effects(study))
    if not effects:
        raise _nothing(sections, status)
    results = [result for section in sections for result in section.results]
    return Sensitivity(
        design=tuple(design(found, sections)),
        conditions=tuple(dict.fromkeys(s.source.conditions for s in sections if s.usable)),
        factors=tuple(Factor(s.name, s.kind, s.reference, tuple(s.levels[1:])) for s in found),
        rankings=tuple(_rankings(effects)),
        effects=effects,
        left_out=tuple(left_out(results)),
        notes=tuple(_notes(found, effects)),
    )


def _nothing(sections: Sequence[Section], status: str) -> LabError:
    if any(section.source.factor or section.swept for section in sections):
        return LabError(
            "no level has a usable run of a seed that what it is compared with has too",
            hint=f"`{status}` tells what is there" if status else "",
        )
    return LabError(
        "nothing varies: there is no axis in a matrix and no factor in a collection",
        hint="`--set queue.max=100kB..300kB:50kB` makes an axis; docs/sweeps.md has more",
    )


def _effects(study: Study) -> Iterator[Effect]:
    """Yield the effects of every level and of the straight line, overall and then in each cell."""
    places = study.places or {}
    ends = sorted(places, key=lambda level: places[level])
    for metric in LOOKED_AT:
        for level in study.levels[1:]:
            terms = {cell: study.effect_terms(cell, level) for cell in study.cells}
            blank = _blank("level", study.name, level, study.reference, metric)
            yield from _of_cells(blank, terms)
        if ends:
            terms = {cell: study.line_terms(cell) for cell in study.cells}
            yield from _of_cells(_blank("line", study.name, ends[-1], ends[0], metric), terms)


def _blank(
    kind: Literal["level", "line"], factor: str, level: str, against: str, metric: str
) -> Effect:
    return Effect(
        kind, factor, level, against, metric, None, 0, 0, None, None, None, None, "open", ""
    )


def _of_cells(blank: Effect, terms: dict[CellKey, Terms]) -> Iterator[Effect]:
    own = {cell: (some, contrast(some, blank.metric)) for cell, some in terms.items() if some}
    if not own:
        return
    yield _overall(blank, list(own.values()))
    for cell, (_, one) in own.items():
        yield replace(_filled(blank, one), cell=cell, cells=1)


def _overall(blank: Effect, own: Sequence[tuple[Terms, Contrast]]) -> Effect:
    """Average over cells: the differences of all, the ratios of those that have one."""
    every = contrast(_mean([terms for terms, _ in own]), blank.metric)
    with_ratio = [terms for terms, one in own if one.log_ratio is not None]
    if not with_ratio or len(with_ratio) == len(own):
        return replace(_filled(blank, every), cells=len(own))
    ratios = contrast(_mean(with_ratio), blank.metric)
    missing = len(own) - len(with_ratio)
    note = f"{missing} of {len(own)} cells have a mean of 0: not in the ratio"
    effect = _filled(blank, ratios)
    return replace(
        effect,
        cells=len(with_ratio),
        difference=every.difference,
        difference_ci=every.difference_ci,
        note=note,
    )


def _mean(several: Sequence[Terms]) -> Terms:
    return [(weight / len(several), result) for terms in several for weight, result in terms]


def _filled(blank: Effect, one: Contrast) -> Effect:
    verdicts: dict[bool | None, Verdict] = {None: "open", True: "moves", False: "noise"}
    return replace(
        blank,
        pairs=one.pairs,
        ratio=one.ratio,
        interval=one.interval,
        difference=one.difference,
        difference_ci=one.difference_ci,
        verdict=verdicts[one.beyond_noise],
        note=one.note,
    )


def strength(effect: Effect) -> tuple[float, float]:
    """Give what effects are ranked by: how far the interval stays from 1, then the ratio itself.

    Both as logarithms, so that a half is as strong as a double, and nothing is as strong as what
    leads to 0 or from it beyond noise.
    """
    moves = effect.verdict == "moves"
    if effect.ratio is None:
        return (math.inf if moves else 0.0), 0.0
    low, high = map(math.log, effect.interval or (1.0, 1.0))
    return (max(low, -high) if moves else 0.0), abs(math.log(effect.ratio))


def _rankings(effects: Sequence[Effect]) -> Iterator[Ranking]:
    cells = dict.fromkeys(effect.cell for effect in effects)
    for cell in cells:
        for metric in LOOKED_AT:
            own = [e for e in effects if e.cell == cell and e.metric == metric]
            yield Ranking(metric, cell, tuple(_ranked(own)))


def _ranked(effects: Sequence[Effect]) -> Iterator[Ranked]:
    names = dict.fromkeys(effect.factor for effect in effects)
    levels = {
        name: [e for e in effects if e.factor == name and e.kind == "level"] for name in names
    }
    lines = {e.factor: e for e in effects if e.kind == "line"}
    best = [max(own, key=strength) for own in levels.values() if own]
    for rank, effect in enumerate(sorted(best, key=strength, reverse=True), 1):
        yield Ranked(rank, effect.factor, effect, lines.get(effect.factor))


def _notes(found: Iterable[Study], effects: Sequence[Effect]) -> Iterator[str]:
    judged = [e for e in effects if e.verdict != "open" and e.kind == "level" and e.cell is None]
    if judged:
        moving = sum(effect.verdict == "moves" for effect in judged)
        yield (
            f"{moving} of {len(judged)} overall effects are beyond noise; about "
            f"{(1 - CONFIDENCE) * len(judged):.1f} would be by chance if nothing had any"
        )
    if any(effect.verdict == "open" and effect.pairs == 1 for effect in effects):
        yield "one pair of runs: no interval, and noise is not seen"
    elif any(effect.pairs == 2 for effect in effects):
        yield "two pairs of runs: Student's t for one degree of freedom makes intervals very wide"
    if sum(study.kind == "axis" for study in found) > 1:
        yield "what axes do together (interactions) is in the means and is not told apart"
    for metric in LOOKED_AT:
        zeros = [e for e in effects if e.metric == metric and e.pairs and e.ratio is None]
        cells = ", ".join(dict.fromkeys(str(effect.cell) for effect in zeros if effect.cell))
        if cells:
            word = METRICS[metric].word
            yield f"{word}: no ratio where a mean is 0: {cells}"

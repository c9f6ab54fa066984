"""Which parameter moves which metric: effects of levels and axes, ranked by what is sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.compare.factors import DEFAULT
from tcpf_lab.report.compare.published import LeftOut, left_out
from tcpf_lab.report.compare.scoreboard import left_out_lines
from tcpf_lab.report.compare.statistics import (
    CONFIDENCE,
    CellKey,
    Contrast,
    Interval,
    Terms,
    contrast,
    slope_weights,
)
from tcpf_lab.report.contents.model import sentences
from tcpf_lab.report.export.tidy import base_numbers
from tcpf_lab.report.section import CellResult, Section, as_it_stands
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING, Column, Entry, Line, Table, ratios, table_of

#: A straight line through fewer values says no more than their difference.
_FEWEST_OF_A_LINE = 3
_Settings = tuple[tuple[str, str], ...]


@dataclass
class Study:
    """One factor: its levels in order, the first of them what the others are compared with.

    ``cells`` has for each case (with its configuration and number of flows) what is the same but
    for this factor, by the values of the other axes, and in it the results by level.
    """

    name: str
    kind: Literal["factor", "axis"]
    levels: list[str]
    cells: dict[CellKey, dict[_Settings, dict[str, CellResult]]] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The level that the others are compared with."""
        return self.levels[0]

    def add(self, cell: CellKey, others: _Settings, level: str, result: CellResult) -> None:
        """Put a result where it belongs; one without a used run tells nothing."""
        if level not in self.levels:
            self.levels.append(level)
        if result.used:
            self.cells.setdefault(cell, {}).setdefault(others, {})[level] = result

    def effect_terms(self, cell: CellKey, level: str) -> Terms:
        """Give the contrast of a level with the reference, empty if either has no runs."""
        return self._terms(cell, {level: 1.0, self.reference: -1.0})

    def line_terms(self, cell: CellKey) -> Terms:
        """Give the contrast that is the rise of a straight line over the range; or nothing."""
        places = self.places
        if places is None or len(places) < _FEWEST_OF_A_LINE:
            return ()
        weights = slope_weights(list(places.values()))
        return self._terms(cell, dict(zip(places, weights, strict=True)))

    def _terms(self, cell: CellKey, weights: Mapping[str, float]) -> Terms:
        """Spread weights evenly over what has every level that they are for."""
        have = [
            found for found in self.cells.get(cell, {}).values() if all(w in found for w in weights)
        ]
        return [
            (weight / len(have), found[level])
            for found in have
            for level, weight in weights.items()
        ]

    @property
    def places(self) -> dict[str, float] | None:
        """The levels as numbers in one base unit; None if one of them is a word."""
        numbers = base_numbers(self.name, self.levels) if self.kind == "axis" else None
        return numbers if numbers and len(set(numbers.values())) > 1 else None


def studies(sections: Sequence[Section]) -> list[Study]:
    """Give everything that was varied, the factors of a collection before the axes.

    Parameters
    ----------
    sections : sequence of Section
        A level is compared with the experiment as it stands of its own configuration, or with the
        first there is. An axis that only a level has is part of the level.
    """
    found: dict[tuple[str, str], Study] = {}
    for section in sections:
        default = as_it_stands(section, sections) if section.source.factor else None
        if default is not None:
            name = section.source.factor
            study = found.setdefault(("factor", name), Study(name, "factor", [DEFAULT]))
            _add_level(study, section, default)
    for section in sections:
        default = as_it_stands(section, sections) if section.source.factor else section
        varied = _keys(default) if default else set()
        for result in section.results:
            for key, level in result.cell.settings:
                if key not in varied:
                    continue
                study = found.setdefault(("axis", key), Study(key, "axis", []))
                others = tuple(one for one in result.cell.settings if one[0] != key)
                study.add(_cell_key(section, result), others, level, result)
    return [study for study in found.values() if len(study.levels) > 1]


def _add_level(study: Study, section: Section, default: Section) -> None:
    known = {
        (result.cell.flows, result.cell.case, result.cell.settings): result
        for result in default.results
    }
    varied = _keys(default)
    for result in section.results:
        shared = tuple(one for one in result.cell.settings if one[0] in varied)
        own = [f"{key}={value}" for key, value in result.cell.settings if key not in varied]
        reference = known.get((result.cell.flows, result.cell.case, shared))
        if reference is not None:
            cell = _cell_key(default, result)
            study.add(cell, shared, DEFAULT, reference)
            study.add(cell, shared, ", ".join([section.source.level, *own]), result)


def _keys(section: Section) -> set[str]:
    """Give the keys that the section's matrix varies."""
    return {key for result in section.results for key, _ in result.cell.settings}


def _cell_key(section: Section, result: CellResult) -> CellKey:
    """Name a cell by its configuration; in a level of a factor, by the level's own name."""
    name = section.source.files.experiment if section.source.factor else section.config
    return CellKey(name, result.cell.flows, result.cell.case)


def design(found: Iterable[Study], sections: Sequence[Section]) -> list[str]:
    """Say in sentences how the factors were varied and what is compared with what."""
    every = list(found)
    factors = [study for study in every if study.kind == "factor"]
    axes = [study for study in every if study.kind == "axis"]
    used = [result.used for section in sections for result in section.results if result.used]
    return sentences(
        "design",
        factors=len(factors),
        levels=sum(len(study.levels) - 1 for study in factors),
        axes=[(study.name, len(study.levels)) for study in axes],
        reference=axes[0].reference if axes else "",
        least=min(used, default=0),
        most=max(used, default=0),
    )


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
            "no level has a usable run with a seed of its reference",
            hint=f"`{status}` lists the runs" if status else "",
        )
    return LabError(
        "nothing varies: there is no axis in a matrix and no factor in a collection",
        hint="`--set queue.max=100kB..300kB:50kB` makes an axis; docs/experiments.md has more",
    )


def _effects(study: Study) -> Iterator[Effect]:
    """Yield the effects of every level and of the straight line, overall and then in each cell."""
    places = study.places or {}
    ends = sorted(places, key=lambda level: places[level])
    for metric in LOOKED_AT:
        for level in study.levels[1:]:
            terms = {cell: study.effect_terms(cell, level) for cell in study.cells}
            yield from _of_cells(("level", study.name, level, study.reference, metric), terms)
        if ends:
            terms = {cell: study.line_terms(cell) for cell in study.cells}
            yield from _of_cells(("line", study.name, ends[-1], ends[0], metric), terms)


#: What an effect is of: its kind, factor, level, what that is compared with, and the metric.
_Named = tuple[Literal["level", "line"], str, str, str, str]
_VERDICTS: dict[bool | None, Verdict] = {None: "open", True: "moves", False: "noise"}


def _of_cells(named: _Named, terms: dict[CellKey, Terms]) -> Iterator[Effect]:
    own = {cell: (some, contrast(some, named[-1])) for cell, some in terms.items() if some}
    if own:
        yield _overall(named, list(own.values()))
        yield from (_effect(named, one, 1, cell) for cell, (_, one) in own.items())


def _overall(named: _Named, own: Sequence[tuple[Terms, Contrast]]) -> Effect:
    """Average over cells: the differences of all, the ratios of those that have one."""
    every = contrast(_mean([terms for terms, _ in own]), named[-1])
    with_ratio = [terms for terms, one in own if one.log_ratio is not None]
    if not with_ratio or len(with_ratio) == len(own):
        return _effect(named, every, len(own))
    missing = len(own) - len(with_ratio)
    note = f"{missing} of {len(own)} cells have a mean of 0: not in the ratio"
    effect = _effect(named, contrast(_mean(with_ratio), named[-1]), len(with_ratio))
    return replace(
        effect, difference=every.difference, difference_ci=every.difference_ci, note=note
    )


def _mean(several: Sequence[Terms]) -> Terms:
    return [(weight / len(several), result) for terms in several for weight, result in terms]


def _effect(named: _Named, one: Contrast, cells: int, cell: CellKey | None = None) -> Effect:
    return Effect(
        *named,
        cell=cell,
        cells=cells,
        pairs=one.pairs,
        ratio=one.ratio,
        interval=one.interval,
        difference=one.difference,
        difference_ci=one.difference_ci,
        verdict=_VERDICTS[one.beyond_noise],
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


def _notes(found: Iterable[Study], effects: Sequence[Effect]) -> list[str]:
    judged = [e for e in effects if e.verdict != "open" and e.kind == "level" and e.cell is None]
    zeros = [(METRICS[metric].word, _without_ratio(effects, metric)) for metric in LOOKED_AT]
    return sentences(
        "sensitivity_notes",
        judged=len(judged),
        moving=sum(effect.verdict == "moves" for effect in judged),
        chance=1 - CONFIDENCE,
        alone=any(effect.verdict == "open" and effect.pairs == 1 for effect in effects),
        two=any(effect.pairs == 2 for effect in effects),
        axes=sum(study.kind == "axis" for study in found),
        zeros=[(word, cells) for word, cells in zeros if cells],
    )


def _without_ratio(effects: Iterable[Effect], metric: str) -> str:
    """Name the cells in which a mean of the metric is 0."""
    zeros = [e for e in effects if e.metric == metric and e.pairs and e.ratio is None]
    return ", ".join(dict.fromkeys(str(effect.cell) for effect in zeros if effect.cell))


_COLUMNS = {
    "timeouts_per_flow_minute": "timeouts\nper min",
    "loss_percent": "loss",
    "goodput_bytes_per_s": "goodput",
    "goodput_cov": "CoV",
}
_FACTOR = (Column("factor", fit="folded"), Column("level", fit="folded"))
#: Stands behind a ratio that is beyond noise, for those who see no colours.
_MOVES = "*"
_STYLES = {"moves": "bold", "noise": "dim", "open": ""}


def ranked_effects(found: Sensitivity, full: bool = False) -> Iterator[RenderableType]:
    """Give what a terminal shows, part by part.

    Parameters
    ----------
    found : Sensitivity
        What to show.
    full : bool
        Show of every cell all factors, not only the strongest.

    Yields
    ------
    rich renderable
        The design, an overview, the ranking for each metric overall and in the cells, notes.
    """
    for number, sentence in enumerate(found.design):
        yield Text.assemble(("" if number else "Design: ", "bold"), sentence)
    for text in found.conditions:
        yield Text.assemble(("Conditions: ", "bold"), text)
    overall = [ranking for ranking in found.rankings if ranking.cell is None]
    yield overview(overall)
    for ranking in overall:
        yield ranking_table(ranking)
        cells = [one for one in found.rankings if one.cell and one.metric == ranking.metric]
        if len(cells) > 1:
            yield cell_table(cells, full)
    yield from left_out_lines(found.left_out)
    for note in found.notes:
        yield Text(note, style="yellow")


def _numbers(*headings: str) -> tuple[Column, ...]:
    return tuple(Column(heading, "number", fit="whole") for heading in headings)


def overview(rankings: Sequence[Ranking]) -> Table:
    """Give a row per factor and a column per metric: the ratio at the factor's strongest level."""
    found: dict[str, dict[str, Effect]] = {}
    for ranking in rankings:
        for ranked in ranking.factors:
            found.setdefault(ranked.factor, {})[ranking.metric] = ranked.effect
    ordered = sorted(found.items(), key=lambda row: _strongest(row[1]), reverse=True)
    return table_of(
        "overview",
        "Effects",
        (_FACTOR[0], *_numbers(*(_COLUMNS[metric] for metric in LOOKED_AT))),
        ((factor, *(_ratio(own.get(metric)) for metric in LOOKED_AT)) for factor, own in ordered),
        "ratio at the strongest level, mean over the cells; * beyond noise (95 %)",
        close=True,
    )


def _strongest(effects: dict[str, Effect]) -> tuple[float, float]:
    return max(map(strength, effects.values()))


def ranking_table(ranking: Ranking) -> Table:
    """Give the factors by what they do to one metric, overall."""
    lines = any(ranked.line for ranked in ranking.factors)
    note = "; range: a straight line's end over its start" if lines else ""
    numbers = ("ratio", "95 % interval", *["range"] * lines, "cells", "pairs")
    rows: Iterator[Line] = (
        (
            str(row.rank),
            row.factor,
            row.effect.level,
            _ratio(row.effect),
            interval_text(row.effect) or NOTHING,
            *[_ratio(row.line)] * lines,
            str(row.effect.cells),
            str(row.effect.pairs),
        )
        for row in ranking.factors
    )
    return table_of(
        f"ranking-{METRICS[ranking.metric].slug}",
        METRICS[ranking.metric].title,
        (Column("", "number"), *_FACTOR, *_numbers(*numbers)),
        rows,
        f"ratio of means with its 95 % interval; * beyond noise{note}",
        close=True,
    )


def cell_table(rankings: Sequence[Ranking], full: bool) -> Table:
    """Give for every cell the factor that moves one metric most, or all of them."""
    style = METRICS[rankings[0].metric]
    what = "what moves it in each cell" if full else "what moves it most in each cell"
    rows = (
        ("" if index or ranking.cell is None else str(ranking.cell), *_cell_row(ranked))
        for ranking in rankings
        for index, ranked in enumerate(ranking.factors if full else ranking.factors[:1])
    )
    columns = (Column("cell", fit="folded"), *_FACTOR, *_numbers("ratio", "95 % interval"))
    title = f"{style.word}: {what}"
    return table_of(f"cells-{style.slug}", title, columns, rows, "* beyond noise", close=True)


def _cell_row(ranked: Ranked) -> tuple[str | Entry, ...]:
    effect = ranked.effect
    if effect.ratio is None and effect.verdict != "moves":
        return NOTHING, Entry(effect.note, style="dim"), NOTHING, NOTHING
    return ranked.factor, effect.level, _ratio(effect), interval_text(effect) or NOTHING


def _ratio(effect: Effect | None) -> Entry:
    if effect is None:
        return Entry(NOTHING + " ", style="dim")
    mark = _MOVES if effect.verdict == "moves" else " "
    style = "dim" if effect.ratio is None else _STYLES[effect.verdict]
    return Entry(ratio_text(effect) + mark, style=style)


def ratio_text(effect: Effect) -> str:
    """Give the ratio, with as many decimals as its interval needs."""
    return NOTHING if effect.ratio is None else ratios(effect.ratio, *(effect.interval or ()))[0]


def interval_text(effect: Effect) -> str:
    """Give both ends of the ratio's interval, or nothing."""
    if effect.ratio is None or effect.interval is None:
        return ""
    _, low, high = ratios(effect.ratio, *effect.interval)
    return f"{low} to {high}"

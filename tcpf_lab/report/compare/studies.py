"""What was varied: the factors of a collection and the axes of a matrix, with their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.compare.bootstrap import CellKey
from tcpf_lab.report.compare.contrast import Terms, slope_weights
from tcpf_lab.report.export.axes import base_value
from tcpf_lab.report.factors import DEFAULT
from tcpf_lab.report.section import Section, as_it_stands

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
        values = {level: base_value(level) for level in self.levels}
        units = {unit for _, unit in values.values()}
        numbers = {k: value for k, (value, _) in values.items() if isinstance(value, float)}
        whole = self.kind == "axis" and len(units) == 1 and len(numbers) == len(values)
        return numbers if whole and len(set(numbers.values())) > 1 else None


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


def design(found: Iterable[Study], sections: Sequence[Section]) -> Iterator[str]:
    """Say in sentences how the factors were varied and what is compared with what."""
    every = list(found)
    factors = [study for study in every if study.kind == "factor"]
    axes = [study for study in every if study.kind == "axis"]
    if factors:
        levels = sum(len(study.levels) - 1 for study in factors)
        yield (
            f"one factor at a time: {levels} level{'s' * (levels > 1)} of {len(factors)} "
            f"factor{'s' * (len(factors) > 1)}, each against the experiment as it stands"
        )
    if axes:
        sizes = ", ".join(f"{study.name} ({len(study.levels)} values)" for study in axes)
        against = "each value against the first of its axis"
        if len(axes) == 1:
            yield f"one axis: {sizes}; {against}, {axes[0].reference}"
        else:
            yield f"full factorial: {sizes}; {against}, as the mean over the others' values"
    used = {r.used for section in sections for r in section.results if r.used}
    if used:
        least, most = min(used), max(used)
        seeds = f"{most} seed{'s' * (most > 1)}" if least == most else f"{least} to {most} seeds"
        yield f"{seeds} per cell; runs of the same seed are compared with each other"

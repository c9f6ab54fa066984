"""Harm: what the flows of a group cost the others, by cells with the group and without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcpf_lab.metrics.definitions import harm
from tcpf_lab.report.section import Cell

#: What harm is measured by, as in the table `groups`: where it is in ``metrics.json``, and whether
#: more of it is better.
MEASURES: Mapping[str, tuple[str, bool]] = {
    "throughput_bytes_per_s": ("throughput_bytes_per_s", True),
    "queueing_delay_p50_s": ("queueing_delay_s.p50", False),
    "queueing_delay_p95_s": ("queueing_delay_s.p95", False),
    "loss_percent": ("loss_percent", False),
}
_FLOWS = re.compile(r"traffic\.groups\.(\w+)\.flows")
#: Groups of ``metrics.json`` by the seed of a run.
Runs = Mapping[int, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Harm:
    """Harm of one group on another in a cell, by the seed of its runs.

    Attributes
    ----------
    of, on : str
        The group that is there or not, and the group that is harmed.
    by_seed : mapping of str to mapping
        For each of `MEASURES` the harm of each seed that both cells have, where it is defined.
    """

    cell: Cell
    of: str
    on: str
    by_seed: Mapping[str, Mapping[int, float]]


def harms(cells: Sequence[tuple[Cell, Runs]]) -> Iterator[Harm]:
    """Yield every harm that the cells of one experiment show.

    A cell is held against the cell that differs in the flows of one group alone, which are 0 there.
    """
    known = {(cell.case, cell.settings): runs for cell, runs in cells}
    for cell, runs in cells:
        for key, value in cell.settings:
            name = _FLOWS.fullmatch(key)
            if name is None or value == "0":
                continue
            without = tuple((k, "0" if k == key else v) for k, v in cell.settings)
            if solo := known.get((cell.case, without)):
                yield from _on_each(cell, name[1], solo, runs)


def _on_each(cell: Cell, of: str, solo: Runs, shared: Runs) -> Iterator[Harm]:
    """Yield the harm of a group on each other group that has flows in both cells."""
    seeds = sorted(solo.keys() & shared.keys())
    for place, group in enumerate(shared[seeds[0]] if seeds else ()):
        if group["name"] == of or not group["flows"]:
            continue
        sides = {seed: (solo[seed][place], shared[seed][place]) for seed in seeds}
        found = {measure: _by_seed(sides, *where) for measure, where in MEASURES.items()}
        yield Harm(cell, of, str(group["name"]), found)


def _by_seed(
    sides: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]], path: str, more: bool
) -> dict[int, float]:
    found = {}
    for seed, (solo, shared) in sides.items():
        before, after = _number(solo, path), _number(shared, path)
        if before is not None and after is not None:
            value = harm(before, after, more_is_better=more)
            if value is not None:
                found[seed] = value
    return found


def _number(group: Mapping[str, Any], path: str) -> float | None:
    found: Any = group
    for key in path.split("."):
        found = found[key]
    return None if found is None else float(found)

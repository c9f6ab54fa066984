"""Cells of one configuration under either recovery, and which is nearer to the published table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tcpf_lab.reference.published import published
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.papers.cell_runs import CellRuns, Numbers, cells_of
from tcpf_lab.report.papers.claim import Measured, paired

#: The two recoveries: how a file, and how a reader calls them.
READINGS = {"newreno": "NewReno", "reno": "Reno of 1990"}
#: Said where an interval holds both, and where a number is missing.
NOISE, UNKNOWN = "within noise", "–"
_ROUNDING = 1e-12  # of logarithms: what it leaves of equal distances


@dataclass(frozen=True, order=True)
class Place:
    """A cell of the published tables."""

    config: str
    flows: int
    case: str

    def known(self, metric: str) -> float | None:
        """Give the published number of a metric."""
        return (published(self.config, self.case, self.flows) or {}).get(metric)


@dataclass(frozen=True, eq=False)
class Readings:
    """The cells of configurations without SACK, by recovery and place."""

    cells: dict[tuple[str, Place], CellRuns] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Place, ...]:
        """Every published place of which there is a cell, in the order of the experiments."""
        found = dict.fromkeys(place for _, place in self.cells)
        return tuple(place for place in found if place.known("timeouts") is not None)

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Configurations and numbers of flows, in order."""
        return tuple(dict.fromkeys((place.config, place.flows) for place in self.places))

    def number(self, reading: str, place: Place, metric: str) -> Numbers:
        """Give a metric of a cell, empty where it was not run."""
        cell = self.cells.get((reading, place))
        return cell.number(f"metrics.{metric}") if cell else Numbers({})

    def gain(self, reading: str, first: Place, second: Place, metric: str) -> Numbers:
        """Give the second's number over the first's, seed by seed."""
        return self.number(reading, second, metric).per(self.number(reading, first, metric))


def readings_of(members: Iterable[Member]) -> Readings:
    """Sort the cells of experiments without SACK that are a published configuration."""
    found = Readings()
    for member in members:
        config, tcp = member.experiment.config, member.experiment.tcp
        if config is None or tcp.sack:
            continue
        for cell in cells_of(member.section):
            place = Place(config, cell.flows, cell.case)
            found.cells.setdefault((tcp.recovery or "newreno", place), cell)
    return found


def nearer(sides: Sequence[Numbers], known: float | None) -> str:
    r"""Say which of two numbers is nearer to a published one.

    The distance is that of logarithms, :math:`|\ln(x / y)|`; it is compared seed by seed, and
    decided where the 95 % interval of the difference does not hold 0. One seed decides by itself.
    """
    if known is None or known <= 0:
        return UNKNOWN
    positive = [{s: v for s, v in one.items() if v > 0} for one in sides]
    difference = paired(lambda a, b: abs(math.log(a / known)) - abs(math.log(b / known)), *positive)
    return _decided(difference)


def _decided(difference: Measured) -> str:
    mean, half = difference.mean, difference.half
    if mean is None:
        return UNKNOWN
    if abs(mean) < _ROUNDING or (half is not None and abs(mean) <= half):
        return NOISE
    return READINGS["reno" if mean > 0 else "newreno"]

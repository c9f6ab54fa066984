"""The page on both readings of Reno: every cell beside the published one, gains, what is nearer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcpf_lab.papers.figures import BarPanel, bars
from tcpf_lab.report.claims.page import (
    FRIO,
    RED,
    RIO,
    TB,
    Block,
    CellRuns,
    Claims,
    Drawing,
    Numbers,
    Page,
    Table,
    Text,
    cells_of,
    ratio,
    ratio_of,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired
from tcpf_lab.report.claims.published import published
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.style import DRAWN, METRICS
from tcpf_lab.report.table import NOTHING

_PAPER = Words(Path(__file__).with_name("tcpf.toml"))

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
    decided where the 95 % interval of the difference does not include 0. A single seed decides.
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


#: Compared by ratio only: the length of the published runs is unknown.
_BY_RATIO = "timeouts"
#: Gains: of the first over the second.
_GAINS = ((FRIO, TB), (RIO, TB), (FRIO, RED))


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on B and D with both recoveries; None unless one is the Reno of 1990."""
    if not any(member.experiment.tcp.recovery == "reno" for member in members):
        return None
    found = readings_of(members)
    return Page("reno", "NewReno and the Reno of 1990", tuple(_blocks(found, command)))


def _blocks(found: Readings, command: str) -> Iterator[Block]:
    cells, gains = cell_rows(found), gain_rows(found)
    compared = [row for row in cells if row[3] != METRICS[_BY_RATIO].heading]
    counts = _counted(compared, "numbers of cells"), _counted(gains, "gains")
    yield Text(" ".join((_PAPER.texts["reno"], *counts)))
    yield Table(
        "cells",
        ("config", "flows", "case", "metric", "published", *READINGS.values(), "nearer"),
        tuple(cells),
        "Every cell: means over seeds and half widths of 95 % intervals. Nearer: smaller "
        "|ln(measured / published)|, seed by seed; timeouts are not compared.",
        left=4,
    )
    yield Table(
        "gains",
        ("config", "flows", "metric", "gain", "published", *READINGS.values(), "nearer"),
        tuple(gains),
        "Gains: a case's number over the new marker's, so more than 1 is in favour of the latter.",
        left=4,
    )
    yield Table(
        "change",
        ("config", "flows", "case", *(METRICS[name].heading for name in DRAWN)),
        tuple(_changes(found)),
        "The Reno of 1990 over NewReno, seed by seed.",
        left=3,
    )
    for metric in ("timeouts", "loss_percent"):
        yield _figure(found, metric)
    yield Text("", "Claims on the published tables")
    yield Claims(claims(found), command)


def cell_rows(found: Readings) -> list[tuple[str, ...]]:
    """Give a row per cell and metric: published, both readings, and which is nearer."""
    rows = []
    for place in found.places:
        for name in DRAWN:
            known = place.known(name)
            sides = [found.number(reading, place, name) for reading in READINGS]
            digits = METRICS[name].places(known or 0)
            rows.append(
                (
                    *(place.config, str(place.flows), place.case, METRICS[name].heading),
                    NOTHING if known is None else f"{known:g}",
                    *(side.printed(digits) for side in sides),
                    NOTHING if name == _BY_RATIO else nearer(sides, known),
                )
            )
    return rows


def gain_rows(found: Readings) -> list[tuple[str, ...]]:
    """Give a row per block and gain in timeouts and loss: published, both readings, nearer."""
    rows = []
    for config, flows in found.blocks:
        for name in ("timeouts", "loss_percent"):
            for scheme, other in _GAINS:
                first, second = Place(config, flows, scheme), Place(config, flows, other)
                above, below = second.known(name), first.known(name)
                known = ratio(above, below) if above is not None and below is not None else None
                sides = [found.gain(reading, first, second, name) for reading in READINGS]
                rows.append(
                    (
                        *(config, str(flows), METRICS[name].heading, f"{other} / {scheme}"),
                        NOTHING if known is None else f"{known:.1f}",
                        *(side.printed(1) for side in sides),
                        nearer(sides, known),
                    )
                )
    return rows


def _changes(found: Readings) -> Iterator[tuple[str, ...]]:
    for place in found.places:
        sides = (
            found.number("reno", place, name).per(found.number("newreno", place, name))
            for name in DRAWN
        )
        yield (
            *(place.config, str(place.flows), place.case),
            *(side.printed(2) for side in sides),
        )


def _counted(rows: Sequence[tuple[str, ...]], what: str) -> str:
    """Count in a sentence which reading is nearer."""
    verdicts = Counter(row[-1] for row in rows)
    counts = ", ".join(f"{verdicts[name]} with {name}" for name in READINGS.values())
    rest = f"{verdicts[NOISE]} are within noise, {verdicts[UNKNOWN]} undecidable"
    return f"Of {len(rows)} {what} nearer to the published: {counts}; {rest}."


def _figure(found: Readings, metric: str) -> Drawing:
    configs = tuple(dict.fromkeys(config for config, _ in found.blocks))
    parts = [_panel(found, config, metric) for config in configs]
    title = f"{METRICS[metric].title} with both readings of Reno"
    sides = "NewReno and the Reno of 1990"
    if metric != _BY_RATIO:
        sides = f"published, {sides}"
    return bars(
        f"fig-reno-{METRICS[metric].slug}",
        title,
        f"{METRICS[metric].title} in configurations {' and '.join(configs)}: {sides}.",
        parts,
        (title, f"{sides}; measured: means, 95 % intervals"),
        " flows, ",
    )


def _panel(found: Readings, config: str, metric: str) -> BarPanel:
    values = {}
    for place in found.places:
        if place.config != config:
            continue
        known = place.known(metric)
        published = Numbers({} if known is None else {0: known})
        if metric != _BY_RATIO:
            values[place.case, f"{place.flows}\npublished"] = published
        for reading, label in READINGS.items():
            values[place.case, f"{place.flows}\n{label}"] = found.number(reading, place, metric)
    groups = tuple(dict.fromkeys(group for _, group in values))
    return BarPanel(f"{config}: {METRICS[metric].heading}", groups, values)


def claims(found: Readings) -> tuple[PaperClaim, ...]:
    """Give the tenfold gain in timeouts, once for either reading."""
    return tuple(
        _PAPER.each(
            f"reno-gain-{reading}",
            (
                (f"{config}, {flows} flows", _timeouts(found, reading, config, flows))
                for config, flows in found.blocks
            ),
        )
        for reading in READINGS
        if found.blocks
    )


def _timeouts(found: Readings, reading: str, config: str, flows: int) -> Measured:
    return ratio_of(
        {
            f"{case}, {config}, {flows} flows, {READINGS[reading]}": found.number(
                reading, Place(config, flows, case), "timeouts"
            )
            for case in (TB, FRIO)
        }
    )

"""The page on RIO: model, paper and testbed side by side, causes of drops, readings of RIO.

``claims.toml`` has the words of what the paper says of its simulations, and of what is asked of the
testbed beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from tcpf_lab.papers.rio.measured import (
    CAUSES,
    CLASSES,
    MODEL_READING,
    SCENARIOS,
    RioCell,
    answer,
    queue_of,
    queue_over_time,
    rio_cells,
)
from tcpf_lab.papers.rio.router import ACCESS_S, QUANTITIES, rio_table
from tcpf_lab.report.claims.page import (
    Block,
    Claims,
    Numbers,
    Page,
    PaperRun,
    Table,
    Text,
    cells_of,
    ratio,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.table import NOTHING
from tcpf_lab.spec.queue import Rio

_PAPER = Words(Path(__file__).with_name("claims.toml"))
Cells = Mapping[str, RioCell]


def claims(cells: Cells) -> tuple[PaperClaim, ...]:
    """Judge the cells of the model's own reading, by scenario."""
    none = _number(cells, "non_overlapped", "p_in")
    return (
        _PAPER.each("rio-T", (_against(cells, name, "T") for name in SCENARIOS)),
        _PAPER.each("rio-q", (_against(cells, name, "q") for name in SCENARIOS)),
        _PAPER.each("rio-model", (_model(cells, name) for name in SCENARIOS)),
        _PAPER.each("rio-no-in-loss", [(f"{_words('non_overlapped')}: p_in", none)]),
        _PAPER.each("rio-order", (_order(cells, *order) for order in _ORDERS)),
        _PAPER.judged("rio-swings", _lengths(cells)),
    )


#: A quantity, the scenario in which it is greater, and that in which it is less.
_ORDERS = (
    ("q", "partially_overlapped", "fully_overlapped"),
    ("q", "fully_overlapped", "non_overlapped"),
    ("p_in", "fully_overlapped", "partially_overlapped"),
    ("p_out", "non_overlapped", "partially_overlapped"),
    ("p_out", "partially_overlapped", "fully_overlapped"),
)


def _lengths(cells: Cells) -> tuple[Measured, ...]:
    """Give the longest queue of Figure 5, its shortest mean over a bin, and its mean; packets."""
    cell = cells.get("fully_overlapped")
    missing = () if cell else ("fully overlapped has no run",)
    most = cell.runs.number("metrics.backlog_max_bytes") if cell else Numbers({})
    size = cell.packet if cell else 1.0
    least = cell.runs.each(lambda run: queue_of(run).least) if cell else Numbers({})
    return (
        paired(lambda backlog: backlog / size, most, missing=missing),
        paired(lambda backlog: backlog / size, least, missing=missing),
        paired(float, _of(cells, "fully_overlapped", "q"), missing=missing),
    )


def _of(cells: Cells, scenario: str, quantity: str) -> Numbers:
    cell = cells.get(scenario)
    return cell.quantity(quantity) if cell else Numbers({})


def _missing(cells: Cells, scenarios: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{_words(name)} has no run" for name in scenarios if name not in cells)


def _number(
    cells: Cells, scenario: str, quantity: str, of: Callable[[float], float] = float
) -> Measured:
    """Give what a function makes of a quantity of a scenario, seed by seed."""
    return paired(of, _of(cells, scenario, quantity), missing=_missing(cells, [scenario]))


def _against(cells: Cells, scenario: str, quantity: str) -> tuple[str, Measured]:
    printed = rio_table(scenario).simulated[quantity]
    measured = _number(cells, scenario, quantity, lambda value: value / printed)
    return f"{_words(scenario)}: {_symbol(quantity)}, testbed over simulation", measured


def _model(cells: Cells, scenario: str) -> tuple[str, Measured]:
    model = answer(scenario, ACCESS_S).values["T"]
    measured = _number(cells, scenario, "T", lambda value: ratio(model, value))
    return f"{_words(scenario)}: T, model over testbed", measured


def _order(cells: Cells, quantity: str, above: str, below: str) -> tuple[str, Measured]:
    measured = paired(
        ratio,
        _of(cells, above, quantity),
        _of(cells, below, quantity),
        missing=_missing(cells, [above, below]),
    )
    return f"{_symbol(quantity)}, {_words(above)} over {_words(below)}", measured


def _symbol(quantity: str) -> str:
    return "mean queue" if quantity == "q" else quantity


def _words(scenario: str) -> str:
    return scenario.replace("_", " ")


#: Bounds of the ranges of length whose shares are shown, packets; the last one is open.
RANGES = (0, 5, 20, 60, 90)
#: Between a length at which the queue counts as short, and one at which it counts as long.
SHORT, LONG = 20.0, 40.0


def time_shares(cell: RioCell) -> tuple[Numbers, ...]:
    """Give the share of the measured window in each of ``RANGES``, for each run."""
    return tuple(
        cell.runs.each(partial(_share, packet=cell.packet, at=at)) for at in range(len(RANGES))
    )


def _share(run: PaperRun, packet: float, at: int) -> float | None:
    length = queue_of(run).mean / packet
    if not length.size:
        return None
    high = RANGES[at + 1] if at + 1 < len(RANGES) else np.inf
    return float(np.mean((length >= RANGES[at]) & (length < high)))


def period(run: PaperRun, packet: float) -> float | None:
    """Give the mean time between two rises of the queue, s; None for fewer than two rises.

    A rise is complete at ``LONG`` packets, and the next begins below ``SHORT``: what happens in
    between does not count.
    """
    queue = queue_of(run)
    rises, low = [], False
    for time, length in zip(queue.time_s, queue.mean / packet, strict=True):
        if length < SHORT:
            low = True
        elif length >= LONG and low:
            rises.append(time)
            low = False
    return float(rises[-1] - rises[0]) / (len(rises) - 1) if len(rises) > 1 else None


def swings_table(own: dict[str, RioCell]) -> Table:
    """Give the table of shares, model and testbed below each other."""
    rows: list[tuple[str, ...]] = []
    for scenario in SCENARIOS:
        words, occupancy = scenario.replace("_", " "), answer(scenario, ACCESS_S).occupancy
        bounds = (*RANGES, len(occupancy))
        shares = [sum(occupancy[a:b]) for a, b in pairwise(bounds)]
        rows.append((words, "model", *(f"{share:.3f}" for share in shares), ""))
        cell = own.get(scenario)
        if cell is not None:
            found = (numbers.printed(3) for numbers in time_shares(cell))
            between = cell.runs.each(partial(period, packet=cell.packet))
            rows.append((words, "testbed", *found, between.printed(2)))
    ranges = [f"{a} to {b}" for a, b in pairwise(RANGES)]
    caption = _PAPER.texts["swings"].format(short=SHORT, long=LONG)
    columns = ("scenario", "side", *ranges, f"from {RANGES[-1]}", "between rises (s)")
    return Table("swings", columns, tuple(rows), caption, left=2)


#: Decimals of a quantity, and what it is called.
_DECIMALS = {"T": 1, "T_in": 1, "p_in": 6, "p_out": 6, "q": 2}
_NAMES = {
    "T": "T (packets/s)",
    "T_in": "T_in (packets/s)",
    "p_in": "p_in",
    "p_out": "p_out",
    "q": "mean queue (packets)",
}
#: What a reading's distance from the simulation is made of; p_in is as low as 0.000001 there.
_COMPARED = ("T", "T_in", "p_out", "q")


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on the experiments of RR-4469; None where none of them has RIO."""
    cases = [case for one in members for case in one.experiment.cases.values()]
    if not any(isinstance(case.queue, Rio) for case in cases):
        return None
    cells = [cell for one in members for cell in rio_cells(cells_of(one.section))]
    own: dict[str, RioCell] = {}
    for cell in cells:
        if cell.reading == MODEL_READING:
            own.setdefault(cell.scenario, cell)
    blocks: tuple[Block, ...] = (
        Text("", "Model, paper, testbed"),
        _sides(own),
        Text("", "Why packets were dropped"),
        _causes(own),
        swings_table(own),
        queue_over_time(own.get("fully_overlapped")),
        *_readings(cells),
        Text("", "Claims of the report, and targets for the testbed"),
        Claims(claims(own), command),
    )
    return Page("rio", "RIO routers on Linux (Malouch and Liu, RR-4469)", blocks)


def _sides(own: dict[str, RioCell]) -> Table:
    rows = []
    for scenario in SCENARIOS:
        plain, longer = answer(scenario), answer(scenario, ACCESS_S)
        printed = rio_table(scenario)
        for name in QUANTITIES:
            digits = _DECIMALS[name]
            sides = (plain.values[name], longer.values[name], printed.analytical[name])
            measured = own[scenario].quantity(name) if scenario in own else Numbers({})
            simulated = printed.simulated[name]
            rows.append(
                (
                    *(_words(scenario), _NAMES[name]),
                    *(f"{value:.{digits}f}" for value in (*sides, simulated)),
                    measured.printed(digits),
                    _over(measured.mean, simulated),
                )
            )
    return Table(
        name="sides",
        columns=(
            *("scenario", "quantity", "model", f"model +{1e3 * ACCESS_S:g} ms"),
            *("paper, analytical", "paper, NS-2", "testbed", "testbed over NS-2"),
        ),
        rows=tuple(rows),
        caption=_PAPER.texts["sides"].format(extra=1e3 * ACCESS_S, reading=MODEL_READING),
        left=2,
    )


def _over(value: float | None, other: float) -> str:
    return NOTHING if value is None else f"{value / other:.3f}"


def _causes(own: dict[str, RioCell]) -> Table:
    rows = []
    for scenario in SCENARIOS:
        model = answer(scenario, ACCESS_S).causes
        for side in CLASSES:
            for cause in CAUSES:
                predicted = model.get((side, cause))
                cell = own.get(scenario)
                measured = cell.cause(side, cause) if cell else Numbers({})
                rows.append(
                    (
                        *(_words(scenario), side.upper(), _CAUSE_WORDS[cause]),
                        NOTHING if predicted is None else f"{predicted:.6f}",
                        measured.printed(6),
                    )
                )
    columns = ("scenario", "class", "cause", "model", "testbed")
    return Table("causes", columns, tuple(rows), _PAPER.texts["causes"], left=3)


_CAUSE_WORDS = {"early": "early", "forced": "forced", "pdrop": "no room"}


def _readings(cells: Sequence[RioCell]) -> Iterator[Block]:
    by_reading: dict[str, list[RioCell]] = {}
    for cell in cells:
        by_reading.setdefault(cell.reading, []).append(cell)
    if set(by_reading) <= {MODEL_READING}:
        return
    distances = {reading: _distance(own) for reading, own in by_reading.items()}
    ranked = sorted(by_reading, key=lambda reading: distances[reading])
    rows = [
        (
            *(reading, _words(cell.scenario)),
            *(cell.quantity(name).printed(_DECIMALS[name]) for name in QUANTITIES),
            f"{100 * distances[reading]:.1f}",
        )
        for reading in ranked
        for cell in sorted(by_reading[reading], key=lambda one: SCENARIOS.index(one.scenario))
    ]
    columns = ("reading", "scenario", *(_NAMES[name] for name in QUANTITIES), "distance (%)")
    alone = max(len(cell.runs.runs) for cell in cells) == 1
    noise = " Each number is of one run, so readings near each other may change places." * alone
    yield Text(f"Nearest to the simulation: {ranked[0]}.{noise}", "Readings of RIO")
    yield Table("readings", columns, tuple(rows), _PAPER.texts["readings"], left=2)


def _distance(cells: Sequence[RioCell]) -> float:
    """Mean relative deviation from the simulation; infinite without a number to compare."""
    found = []
    for cell in cells:
        printed = rio_table(cell.scenario)
        for name in _COMPARED:
            mean = cell.quantity(name).mean
            if mean is not None:
                found.append(abs(mean / printed.simulated[name] - 1))
    return sum(found) / len(found) if found else math.inf

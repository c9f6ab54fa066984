"""What the paper says of its simulations, and what is asked of the testbed beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from tcpf_lab.papers.rio.measured import SCENARIOS, RioCell, answer, queue_of
from tcpf_lab.papers.rio.router import ACCESS_S
from tcpf_lab.report.claims.page import Numbers, PaperRun, Table, ratio
from tcpf_lab.report.claims.paper import PaperCheck, PaperClaim, paired
from tcpf_lab.report.claims.published import published_rio

#: How near the testbed's throughput and queue should come to the simulation's, and the model's
#: throughput to the testbed's ("less than 5 % error").
THROUGHPUT, QUEUE, MODEL = 0.02, 0.15, 0.05
#: A loss of IN packets that is none: the simulation's is 1e-6, in half an hour.
NONE = 1e-4
#: Figure 5: the least and the greatest length that count as empty and full, packets; the range of
#: the mean.
EMPTY, FULL, BETWEEN = 5.0, 95.0, (20.0, 100.0)

Cells = Mapping[str, RioCell]


def claims(cells: Cells) -> tuple[PaperClaim, ...]:
    """Judge the cells of the model's own reading, by scenario."""
    return (*_targets(cells), *_sentences(cells), *_lengths(cells))


def _targets(cells: Cells) -> Iterator[PaperClaim]:
    yield PaperClaim(
        "rio-T",
        "004",
        "4, Tables 1 to 3",
        "The simulation's throughput T, here with a real TCP and queue.",
        "T of the testbed over T of the simulation is within 2 % of 1 in each scenario.",
        tuple(_against(cells, name, "T", THROUGHPUT) for name in SCENARIOS),
    )
    yield PaperClaim(
        "rio-q",
        "004",
        "4, Tables 1 to 3",
        "The simulation's mean queue, here with a real TCP and queue.",
        "The mean queue of the testbed over that of the simulation is within 15 % of 1 in each "
        "scenario.",
        tuple(_against(cells, name, "q_mean", QUEUE) for name in SCENARIOS),
    )


def _sentences(cells: Cells) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="004")
    yield say(
        id="rio-model",
        section="4.1",
        sentence="The relative error of the model's throughput is below 5 %.",
        statement="T of the corrected model, its RTTs 16 ms longer as those of the testbed are, "
        "over T of the testbed is within 5 % of 1 in each scenario.",
        checks=tuple(
            _check(cells, name, "T", f"{_words(name)}: T, model over testbed", MODEL)
            for name in SCENARIOS
        ),
    )
    yield say(
        id="rio-no-in-loss",
        section="4.2, Table 2",
        sentence="Where OUT is dropped before IN, hardly an IN packet is lost.",
        statement="p_in of the non-overlapped scenario is at most 0.0001.",
        checks=(_level(cells, "non_overlapped", "p_in", NONE),),
    )
    orders = (
        ("q_mean", "partially_overlapped", "fully_overlapped"),
        ("q_mean", "fully_overlapped", "non_overlapped"),
        ("p_in", "fully_overlapped", "partially_overlapped"),
        ("p_out", "non_overlapped", "partially_overlapped"),
        ("p_out", "partially_overlapped", "fully_overlapped"),
    )
    yield say(
        id="rio-order",
        section="4, Tables 1 to 3",
        sentence="The scenarios' order in queue, in losses of IN and in losses of OUT.",
        statement="Queue: partially above fully above non-overlapped; p_in: fully above "
        "partially; p_out: non-overlapped above partially above fully. Each ratio is above 1.",
        checks=tuple(_order(cells, *order) for order in orders),
    )


def _lengths(cells: Cells) -> Iterator[PaperClaim]:
    cell = cells.get("fully_overlapped")
    missing = () if cell else ("fully overlapped has no run",)
    most = cell.runs.number("metrics.backlog_max_bytes") if cell else Numbers({})
    size = cell.packet if cell else 1.0
    full = paired(lambda backlog: backlog / size, most, missing=missing)
    mean = paired(lambda value: value, _of(cells, "fully_overlapped", "q_mean"), missing=missing)
    yield PaperClaim(
        "rio-swings",
        "004",
        "4.1, Figure 5",
        "The queue swings from 0 to 100 although its mean lies between the thresholds.",
        "Fully overlapped: the longest queue is at least 95 packets, the shortest mean over 0.1 s "
        "at most 5, the mean from 20 to 100.",
        (
            PaperCheck("longest queue", full, low=FULL, unit="packets", decimals=1),
            PaperCheck(
                "shortest mean over 0.1 s",
                paired(lambda value: value / size, _least(cell), missing=missing),
                high=EMPTY,
                unit="packets",
                decimals=1,
            ),
            PaperCheck("mean queue", mean, *BETWEEN, unit="packets", decimals=1),
        ),
    )


def _least(cell: RioCell | None) -> Numbers:
    """Shortest mean of the queue over a bin in the measured window, bytes."""
    from tcpf_lab.papers.rio.measured import queue_of

    return cell.runs.each(lambda run: queue_of(run).least) if cell else Numbers({})


def _of(cells: Cells, scenario: str, quantity: str) -> Numbers:
    cell = cells.get(scenario)
    return cell.quantity(quantity) if cell else Numbers({})


def _missing(cells: Cells, scenarios: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{_words(name)} has no run" for name in scenarios if name not in cells)


def _against(cells: Cells, scenario: str, quantity: str, near: float) -> PaperCheck:
    printed = published_rio(scenario)[quantity].simulation
    measured = paired(
        lambda value: value / printed,
        _of(cells, scenario, quantity),
        missing=_missing(cells, [scenario]),
    )
    label = f"{_words(scenario)}: {_SYMBOLS[quantity]}, testbed over simulation"
    return PaperCheck(label, measured, 1 - near, 1 + near, decimals=3)


def _check(cells: Cells, scenario: str, quantity: str, label: str, near: float) -> PaperCheck:
    model = answer(scenario, ACCESS_S).values[quantity]
    measured = paired(
        lambda value: ratio(model, value),
        _of(cells, scenario, quantity),
        missing=_missing(cells, [scenario]),
    )
    return PaperCheck(label, measured, 1 - near, 1 + near, decimals=3)


def _level(cells: Cells, scenario: str, quantity: str, high: float) -> PaperCheck:
    measured = paired(
        lambda value: value, _of(cells, scenario, quantity), missing=_missing(cells, [scenario])
    )
    label = f"{_words(scenario)}: {_SYMBOLS[quantity]}"
    return PaperCheck(label, measured, high=high, decimals=6)


def _order(cells: Cells, quantity: str, above: str, below: str) -> PaperCheck:
    measured = paired(
        ratio,
        _of(cells, above, quantity),
        _of(cells, below, quantity),
        missing=_missing(cells, [above, below]),
    )
    label = f"{_SYMBOLS[quantity]}, {_words(above)} over {_words(below)}"
    return PaperCheck(label, measured, low=1, strict=True)


def _words(scenario: str) -> str:
    return scenario.replace("_", " ")


_SYMBOLS = {"T": "T", "T_in": "T_in", "p_in": "p_in", "p_out": "p_out", "q_mean": "mean queue"}


#: Bounds of the ranges of length whose shares are told, packets; the last one is open.
RANGES = (0, 5, 20, 60, 90)
#: Between a length at which the queue counts as short, and one at which it counts as long.
SHORT, LONG = 20.0, 40.0
_CAPTION = (
    "Share of the time that the queue is so many packets long, and how long it takes from one rise "
    f"to the next (from below {SHORT:g} to {LONG:g} packets and above). The testbed's shares are "
    "of means over 0.1 s, which are spread less than the length itself; the model's are its "
    "stationary distribution, with 16 ms added to each RTT. In the model flows halve independently "
    "of each other, so the queue is mostly between the ends. Shares at both ends above the "
    "model's, and rises at regular "
    "distances, are flows that halve and grow together: such a queue fills up, which drops more "
    "packets than the model has, and then runs empty, which costs throughput."
)


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
    told = [f"{a} to {b}" for a, b in pairwise(RANGES)]
    columns = ("scenario", "side", *told, f"from {RANGES[-1]}", "between rises (s)")
    return Table("swings", columns, tuple(rows), _CAPTION, left=2)

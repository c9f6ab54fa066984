"""How the queue spends its time: in the model's distribution, or swinging between its ends."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from tcpf_lab.models.rio_scenario import ACCESS_S
from tcpf_lab.report.papers.cell_runs import Numbers, PaperRun
from tcpf_lab.report.papers.page import Table
from tcpf_lab.report.papers.rio.figures import queue_of
from tcpf_lab.report.papers.rio.measured import SCENARIOS, RioCell
from tcpf_lab.report.papers.rio.model import answer

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

"""The page on RIO: model, paper and testbed side by side, causes of drops, readings of RIO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tcpf_lab.papers.rio.claims import claims, swings_table
from tcpf_lab.papers.rio.measured import (
    CAUSES,
    CLASSES,
    MODEL_READING,
    SCENARIOS,
    RioCell,
    answer,
    queue_over_time,
    rio_cells,
)
from tcpf_lab.papers.rio.router import ACCESS_S
from tcpf_lab.report.claims.page import Block, Claims, Numbers, Page, Table, Text, cells_of
from tcpf_lab.report.claims.published import QUANTITIES, published_rio
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.table import NOTHING
from tcpf_lab.spec.queue.rio import Rio

#: Decimals of a quantity, and what it is called.
_DECIMALS = {"T": 1, "T_in": 1, "p_in": 6, "p_out": 6, "q_mean": 2}
_NAMES = {
    "T": "T (packets/s)",
    "T_in": "T_in (packets/s)",
    "p_in": "p_in",
    "p_out": "p_out",
    "q_mean": "mean queue (packets)",
}
#: What a reading's distance from the simulation is made of; p_in is as low as 0.000001 there.
_COMPARED = ("T", "T_in", "p_out", "q_mean")
_SIDES = (
    "T counts what came to the queue, lost packets included, of all flows; T_in those that were "
    "IN. The model is the corrected one with the paper's delays, and with {extra:g} ms added to "
    "each RTT (two access links of 1 Mbit/s), which gives the paper's tables. The simulation is "
    "NS-2, 30 minutes. The testbed is Linux with the rio qdisc in the model's reading: {reading}. "
    "Its numbers are means over seeds and half widths of 95 % intervals."
)
_CAUSES = (
    "Drops by cause, as shares of the packets of a class that came: early ones are at random "
    "between the thresholds, forced ones at the maximum or above, the last for want of room. The "
    "testbed's are counters of the queue over the whole run, warm-up included. The model has 16 ms "
    "added to each RTT, as the testbed has."
)
_READINGS = (
    "Other readings of what the paper leaves open. The distance is the mean of the relative "
    "deviations of T, T_in, p_out and the mean queue from the simulation, over the scenarios "
    "that were run."
)


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on the experiments of paper 004; None where none of them has RIO."""
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
        Text("", "What the paper says, and what is asked of the testbed"),
        Claims(claims(own), command),
    )
    return Page("rio", "RIO routers (paper 004) on Linux", blocks)


def _sides(own: dict[str, RioCell]) -> Table:
    rows = []
    for scenario in SCENARIOS:
        plain, longer = answer(scenario), answer(scenario, ACCESS_S)
        printed = published_rio(scenario)
        for name in QUANTITIES:
            digits = _DECIMALS[name]
            sides = (plain.values[name], longer.values[name], printed[name].analytical)
            ours = own[scenario].quantity(name) if scenario in own else Numbers({})
            simulated = printed[name].simulation
            rows.append(
                (
                    *(_words(scenario), _NAMES[name]),
                    *(f"{value:.{digits}f}" for value in (*sides, simulated)),
                    ours.printed(digits),
                    _over(ours.mean, simulated),
                )
            )
    return Table(
        name="sides",
        columns=(
            *("scenario", "quantity", "model", f"model +{1e3 * ACCESS_S:g} ms"),
            *("paper, analytical", "paper, NS-2", "testbed", "testbed over NS-2"),
        ),
        rows=tuple(rows),
        caption=_SIDES.format(extra=1e3 * ACCESS_S, reading=MODEL_READING),
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
                said = model.get((side, cause))
                cell = own.get(scenario)
                ours = cell.cause(side, cause) if cell else Numbers({})
                rows.append(
                    (
                        *(_words(scenario), side.upper(), _CAUSE_WORDS[cause]),
                        NOTHING if said is None else f"{said:.6f}",
                        ours.printed(6),
                    )
                )
    columns = ("scenario", "class", "cause", "model", "testbed")
    return Table("causes", columns, tuple(rows), _CAUSES, left=3)


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
    yield Table("readings", columns, tuple(rows), _READINGS, left=2)


def _distance(cells: Sequence[RioCell]) -> float:
    """Mean relative deviation from the simulation; infinite without a number to compare."""
    found = []
    for cell in cells:
        printed = published_rio(cell.scenario)
        for name in _COMPARED:
            mean = cell.quantity(name).mean
            if mean is not None:
                found.append(abs(mean / printed[name].simulation - 1))
    return sum(found) / len(found) if found else math.inf


def _words(scenario: str) -> str:
    return scenario.replace("_", " ")

"""What the paper says of its simulations, and what is asked of the testbed beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from tcpf_lab.models.rio_scenario import ACCESS_S
from tcpf_lab.reference.published_rio import published_rio
from tcpf_lab.report.papers.cell_runs import Numbers, ratio
from tcpf_lab.report.papers.claim import PaperCheck, PaperClaim, paired
from tcpf_lab.report.papers.rio.measured import SCENARIOS, RioCell
from tcpf_lab.report.papers.rio.model import answer

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
    from tcpf_lab.report.papers.rio.figures import queue_of

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

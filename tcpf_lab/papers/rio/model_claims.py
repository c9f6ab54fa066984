"""A sentence of RR-4469 on its model, and the numbers of the model that bear it out or not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tcpf_lab.papers.rio import model_figures
from tcpf_lab.papers.rio.router import settings_for
from tcpf_lab.report.claims.judge import Bounded, Judgement, Verdict, judgement_on, verdict_on
from tcpf_lab.report.claims.published import rio_tables


@dataclass(frozen=True)
class ModelCheck(Bounded):
    """One number of the model that must lie in a range; ``unit`` is printed behind it."""

    label: str
    value: float
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    unit: str = ""
    decimals: int = 2

    @property
    def verdict(self) -> Verdict:
        """The number alone decides: a solution has no noise."""
        return verdict_on(self, self.value, None)

    @property
    def range(self) -> str:
        """The bounds in words."""
        return self.in_words(self.unit)

    @property
    def number(self) -> str:
        """The number as a table has it."""
        return f"{self.value:.{self.decimals}f} {self.unit}".rstrip()


@dataclass(frozen=True)
class ModelClaim:
    """A sentence of the report: where, what it says, and the numbers that must bear it out."""

    id: str
    place: str
    sentence: str
    checks: tuple[ModelCheck, ...]

    @property
    def judgement(self) -> Judgement:
        """The verdict: all checks must hold."""
        return judgement_on([check.verdict for check in self.checks], True)


def of_settings() -> Iterator[ModelClaim]:
    """Yield the sentences of sections 5.2 and 5.3: the queue, and the loss of IN."""
    yield from _queue_over_probabilities()
    yield from _queue_over_minima()
    yield _least_probability()
    yield _longest_queue()
    yield _bounds()
    yield _tail_drop()


def _queue_over_probabilities() -> Iterator[ModelClaim]:
    queue = model_figures.over_probabilities().q
    yield ModelClaim(
        "rio-7",
        "5.2, Figure 8",
        "the mean queue is longest without random drops of IN, and falls with either probability",
        (
            ModelCheck(
                "greatest step over in_probability",
                float(np.diff(queue, axis=0).max()),
                high=0,
                strict=True,
                unit="packets",
                decimals=4,
            ),
            ModelCheck(
                "greatest step over out_probability",
                float(np.diff(queue, axis=1).max()),
                high=0,
                strict=True,
                unit="packets",
                decimals=4,
            ),
        ),
    )
    small = queue[: model_figures.IN_PROBABILITIES.index(0.1) + 1]
    over_out, over_in = float(np.ptp(small[0])), float(np.ptp(small[:, 0]))
    yield ModelClaim(
        "rio-8",
        "5.2, Figure 8",
        "out_probability controls the queue more than in_probability (up to 0.1) does",
        (
            ModelCheck(
                "range over one per range over the other", over_out / over_in, 1, strict=True
            ),
        ),
    )


def _queue_over_minima() -> Iterator[ModelClaim]:
    for number, p in enumerate(model_figures.TWO_PROBABILITIES, 9):
        values = model_figures.over_minima(p).q
        flat = float(np.ptp(values, axis=1).max() / np.ptp(values, axis=0).max())
        gain = float((values[:, -1] - values[:, :-1].max(axis=1)).min())
        yield ModelClaim(
            f"rio-{number}",
            "5.2, Figure 9",
            f"the queue hardly depends on in_min and is longest where it is in_max "
            f"(out_probability {p:g})",
            (
                ModelCheck("range over in_min per range over out_min", flat, high=1 / 3),
                ModelCheck(
                    "queue at in_min = in_max, more than elsewhere",
                    gain,
                    low=0,
                    unit="packets",
                    decimals=4,
                ),
            ),
        )


def _least_probability() -> ModelClaim:
    without = replace(model_figures.base(), in_probability=0.0)
    edge = settings_for(without, "p_in", model_figures.LIMITS[0], "out_probability").edge
    losses = model_figures.over_probabilities().p_in
    return ModelClaim(
        "rio-11",
        "5.3, Figure 10",
        "in_probability 0 does not suffice for a loss of 0.6 %: out_probability must be 2.49 %",
        (
            ModelCheck(
                "loss with in_probability 0, at most",
                100 * float(losses[0].max()),
                low=0.6,
                strict=True,
                unit="%",
            ),
            ModelCheck(
                "least out_probability", 100 * (edge or math.nan), 2.48, 2.50, unit="%", decimals=3
            ),
        ),
    )


def _longest_queue() -> ModelClaim:
    first, second = model_figures.boundary(model_figures.LIMITS[0])
    queues = [
        float(
            np.interp(
                np.log(p),
                np.log(model_figures.OUT_PROBABILITIES),
                model_figures.over_probabilities().q[
                    model_figures.IN_PROBABILITIES.index(float(one))
                ],
            )
        )
        for one, p in zip(first, second, strict=True)
    ]
    return ModelClaim(
        "rio-12",
        "5.3, Figures 10 and 11",
        "of the settings that just keep a limit, the queue is longest with in_probability 0",
        (
            ModelCheck(
                "queue there, more than elsewhere on the line",
                queues[0] - max(queues[1:]),
                low=0,
                strict=True,
                unit="packets",
            ),
        ),
    )


def _bounds() -> ModelClaim:
    losses = model_figures.over_probabilities().p_in
    limit = 100 * model_figures.LIMITS[0]
    return ModelClaim(
        "rio-13",
        "5.3, Figure 12",
        "the loss of IN has bounds, and a limit of 0.6 % lies between them: it takes settings that "
        "are right",
        (
            ModelCheck("lower bound", 100 * float(losses.min()), high=limit, unit="%", decimals=4),
            ModelCheck("upper bound", 100 * float(losses.max()), low=limit, unit="%", decimals=3),
        ),
    )


def _tail_drop() -> ModelClaim:
    gains = [
        float((values.p_in[:, :-1].min(axis=1) - values.p_in[:, -1]).min())
        for values in map(model_figures.over_minima, model_figures.TWO_PROBABILITIES)
    ]
    return ModelClaim(
        "rio-14",
        "5.3, Figure 13",
        "IN is lost least where in_min is in_max: tail drop",
        tuple(
            ModelCheck(
                f"loss there, less than elsewhere (out_probability {p:g})",
                100 * gain,
                low=0,
                unit="%",
                decimals=6,
            )
            for p, gain in zip(model_figures.TWO_PROBABILITIES, gains, strict=True)
        ),
    )


#: Columns of Tables 1 to 3.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q")


def claims() -> tuple[ModelClaim, ...]:
    """Give every sentence with its numbers; some seconds of solving."""
    return (*_of_tables(), *_of_throughput(), *of_settings())


def _of_tables() -> Iterator[ModelClaim]:
    errors = {
        number: {
            name: abs(getattr(model_figures.solved(table.case), name) / table.simulated[name] - 1)
            for name in QUANTITIES
        }
        for number, table in rio_tables().items()
    }
    yield ModelClaim(
        "rio-1",
        "4.1, Tables 1 to 3",
        "the relative error of the throughput is less than 5 %",
        tuple(
            ModelCheck(f"T, Table {n}", 100 * one["T"], high=5, strict=True, unit="%")
            for n, one in errors.items()
        ),
    )
    near = sum(error < 0.05 for one in errors.values() for error in one.values())
    yield ModelClaim(
        "rio-2",
        "abstract",
        "the error is less than 5 % in most cases",
        (ModelCheck("numbers of 15 within 5 %", near, low=8, decimals=0),),
    )
    low = [
        float(model_figures.solved(name).occupancy[:20].sum())
        for name in (model_figures.FULL, model_figures.PART)
    ]
    yield ModelClaim(
        "rio-3",
        "4.1, Figure 5",
        "the mean queue is between the thresholds, yet the queue swings below the minimum",
        (
            ModelCheck(
                "mean queue", model_figures.solved(model_figures.FULL).q, 20, 100, unit="packets"
            ),
            ModelCheck("time below out_min, Table 1", 100 * low[0], low=5, unit="%"),
            ModelCheck("time below out_min, Table 3", 100 * low[1], low=5, unit="%"),
        ),
    )


def _of_throughput() -> Iterator[ModelClaim]:
    few, many = (
        model_figures.with_long_flows(p).per_flow.throughput[-len(model_figures.LONG_DELAYS) :]
        for p in (0.06, 1.0)
    )
    yield ModelClaim(
        "rio-4",
        "5.1, Figure 6",
        "with out_probability 0.06 none of the five long flows gets its reserved rate",
        (
            ModelCheck(
                *("the fastest of the five", float(max(few))),
                high=model_figures.RESERVED,
                strict=True,
                unit="packets/s",
            ),
        ),
    )
    yield ModelClaim(
        "rio-5",
        "5.1, Figure 6",
        "with out_probability 1 four of them get it",
        (
            ModelCheck(
                "the fourth", float(sorted(many)[1]), low=model_figures.RESERVED, unit="packets/s"
            ),
        ),
    )
    yield _gains_and_losses()


def _gains_and_losses() -> ModelClaim:
    every = [model_figures.with_long_flows(p).per_flow.throughput for p in (0.06, 1.0)]
    change = every[1] - every[0]
    return ModelClaim(
        "rio-6",
        "5.1, Figure 7",
        "as out_probability rises, flows with short round trips lose and long ones gain",
        (
            ModelCheck("change at 100 ms", float(change[0]), high=0, strict=True, unit="packets/s"),
            ModelCheck("change at 800 ms", float(change[-1]), low=0, strict=True, unit="packets/s"),
        ),
    )

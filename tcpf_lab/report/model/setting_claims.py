"""What RR-4469 says of RIO's settings: the mean queue, and the loss of IN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tcpf_lab.models.rio_target import settings_for
from tcpf_lab.report.model import scans
from tcpf_lab.report.model.claim import ModelCheck, ModelClaim


def of_settings() -> Iterator[ModelClaim]:
    """Yield the sentences of sections 5.2 and 5.3: the queue, and the loss of IN."""
    yield from _queue_over_probabilities()
    yield from _queue_over_minima()
    yield _least_probability()
    yield _longest_queue()
    yield _bounds()
    yield _tail_drop()


def _queue_over_probabilities() -> Iterator[ModelClaim]:
    queue = scans.over_probabilities().q
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
    small = queue[: scans.IN_PROBABILITIES.index(0.1) + 1]
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
    for number, p in enumerate(scans.TWO_PROBABILITIES, 9):
        values = scans.over_minima(p).q
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
    without = replace(scans.base(), in_probability=0.0)
    edge = settings_for(without, "p_in", scans.LIMITS[0], "out_probability").edge
    losses = scans.over_probabilities().p_in
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
    first, second = scans.boundary(scans.LIMITS[0])
    queues = [
        float(
            np.interp(
                np.log(p),
                np.log(scans.OUT_PROBABILITIES),
                scans.over_probabilities().q[scans.IN_PROBABILITIES.index(float(one))],
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
    losses = scans.over_probabilities().p_in
    limit = 100 * scans.LIMITS[0]
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
        for values in map(scans.over_minima, scans.TWO_PROBABILITIES)
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
            for p, gain in zip(scans.TWO_PROBABILITIES, gains, strict=True)
        ),
    )

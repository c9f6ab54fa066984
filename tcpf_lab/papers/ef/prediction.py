"""Figure 10 of paper 001: how far the PFTK formula is from what flows had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tcpf_lab.papers.ef.figures import name_of, runs_behind
from tcpf_lab.papers.ef.study import Study, Tcp
from tcpf_lab.papers.figures import Frame, draw
from tcpf_lab.report.claims.page import Drawing, Numbers, Point
from tcpf_lab.report.claims.paper import Measured, PaperCheck, PaperClaim, paired

#: "Off by at least 10 %", and the share of flows of which the paper says so.
OFF, MOST = 0.1, 0.8
#: Formula and observation of each reading, by its words; the first is the paper's.
READINGS = {
    "full formula, goodput": ("full", "goodput_packets_per_s"),
    "full formula, packets sent": ("full", "sent_packets_per_s"),
    "approximate formula, goodput": ("approximate", "goodput_packets_per_s"),
    "approximate formula, packets sent": ("approximate", "sent_packets_per_s"),
}
_PLACES = tuple(np.round(np.arange(0.0, 1.0001, 0.02), 9))
_NOTHING = "runs with captures, which tell a flow's RTT and timer"


@dataclass(frozen=True)
class Errors:
    """Relative errors of a reading, |predicted - observed| / observed, by seed over all runs."""

    by_seed: Mapping[int, tuple[float, ...]]

    def below(self, bound: float) -> Numbers:
        """Give the share of flows with less than some error, by seed."""
        return Numbers(
            {seed: sum(e < bound for e in own) / len(own) for seed, own in self.by_seed.items()}
        )


def errors_of(study: Study, reading: str, tcp: Tcp | None = None) -> Errors:
    """Collect the errors of all flows that had a loss, of one TCP or of all."""
    formula, observed = READINGS[reading]
    found: dict[int, list[float]] = {}
    for setting in study.every:
        for run in setting.cell.runs if tcp in (None, setting.conditions.tcp) else ():
            for row in run.found.get("pftk") or ():
                error = _error(row, formula, observed)
                if error is not None:
                    found.setdefault(run.seed, []).append(error)
    return Errors({seed: tuple(own) for seed, own in found.items()})


def _error(row: Mapping[str, Any], formula: str, observed: str) -> float | None:
    predicted, seen = row.get(formula), row.get(observed)
    if predicted is None or not seen:
        return None
    return abs(float(predicted) - float(seen)) / float(seen)


def prediction_figure(study: Study) -> Drawing:
    """Give Figure 10: the distribution of the error over flows, for each reading."""
    points = tuple(_points(study))
    title = "error of the PFTK formula"
    frame = Frame(
        title="Error of the PFTK formula",
        subtitle=f"Figure 10 of paper 001; every flow of runs with captures; {runs_behind(points)}",
        x="Relative error, |predicted - observed| / observed",
        y="Share of flows with at most that error",
        top=1.02,
        mark=OFF,
        steps="post",
    )
    return Drawing(
        name=name_of("10"),
        title=f"Figure 10 of paper 001: {title}",
        caption="Formula held against the goodput and against the packets that a flow sent, as the "
        "paper does not say which. Dashed: 10 %.",
        points=points,
        build=partial(draw, points, frame),
        missing=() if points else (_NOTHING,),
        axis=frame.y,
        place=lambda point: f"at an error of {point.x:g}",
    )


def _points(study: Study) -> Iterator[Point]:
    for reading in READINGS:
        errors = errors_of(study, reading)
        for place in _PLACES:
            # At the place itself, as a distribution counts.
            shares = errors.below(float(np.nextafter(place, 2)))
            if shares:
                yield Point(reading, float(place), shares.values_by_seed)


def prediction_claims(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentence on the formula, by its first reading, and by any other."""
    first, *others = READINGS
    say = partial(PaperClaim, document="001", section="5, Figure 10")
    yield say(
        id="ef-10",
        sentence="80 % of the predictions of PFTK were off the observed throughput by at least "
        "10 %.",
        statement=f"The share of flows of which the {first} is off by at least {100 * OFF:g} % "
        f"is at least {MOST:g}.",
        checks=(_off(study, first, tcp),),
    )
    yield say(
        id="ef-10-readings",
        sentence="The same by the formula's other readings.",
        statement=f"The same share is at least {MOST:g} in every other reading.",
        checks=tuple(_off(study, reading, tcp) for reading in others),
    )


def _off(study: Study, reading: str, tcp: Tcp) -> PaperCheck:
    shares = errors_of(study, reading, tcp).below(OFF)
    measured = (
        paired(lambda below: 1 - below, shares)
        if shares
        else Measured((), (f"{_NOTHING}, of {tcp}",))
    )
    return PaperCheck(reading, measured, low=MOST)

"""The model's answers for the three scenarios, as the page puts them beside the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tcpf_lab.models.rio_fixed_point import Solution, solve
from tcpf_lab.models.rio_scenario import Scenario, paper_scenarios


@dataclass(frozen=True)
class Answer:
    """The model's quantities, by the names of ``published_rio.QUANTITIES``, and why packets go.

    ``causes`` has the probability that a packet of a class is dropped at random, and that it is
    because the queue is at the class' maximum, by ``(class, cause)``; ``occupancy`` the probability
    of every length of the queue.
    """

    values: Mapping[str, float]
    causes: Mapping[tuple[str, str], float]
    occupancy: tuple[float, ...]


@cache
def answer(scenario: str, extra_rtt: float = 0.0) -> Answer:
    """Solve the model for a scenario of the paper with so much added to every RTT, seconds."""
    asked = replace(paper_scenarios()[scenario], extra_rtt=extra_rtt)
    found = solve(asked)
    values = {
        "T": found.T,
        "T_in": found.T_in,
        "p_in": found.p_in,
        "p_out": found.p_out,
        "q_mean": found.q,
    }
    return Answer(values, _causes(asked, found), tuple(map(float, found.occupancy)))


def _causes(asked: Scenario, found: Solution) -> dict[tuple[str, str], float]:
    """Divide the losses by where the queue was: Poisson arrivals see its distribution."""
    causes = {}
    for side, curve, most in (
        ("in", asked.drop_in(), asked.in_max),
        ("out", asked.drop_out(), asked.out_max),
    ):
        lost = curve * found.occupancy
        causes[side, "early"] = float(np.sum(lost[:most]))
        causes[side, "forced"] = float(np.sum(lost[most:]))
    return causes

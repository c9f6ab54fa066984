"""Solutions of the RIO model over its settings: what the figures of RR-4469, section 5, show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.models.rio_fixed_point import Solution, solve
from tcpf_lab.models.rio_scenario import Scenario, paper_scenarios

#: float64.
Array = NDArray[np.float64]
#: Names of the scenarios of Tables 1 to 3.
FULL, NONE, PART = paper_scenarios()
#: Round-trip times of the flows that Figures 6 and 7 add, seconds.
LONG_DELAYS = (0.4, 0.5, 0.6, 0.7, 0.8)
#: Rate that every flow has reserved, packets/s.
RESERVED = 40.0
#: Limits of the loss of IN packets; the first is that of Figure 10.
LIMITS = (0.006, 0.001, 0.003, 0.009, 0.012)
#: Probabilities of IN and of OUT that are combined.
IN_PROBABILITIES = (0.0, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
OUT_PROBABILITIES = tuple(float(p) for p in np.geomspace(1e-3, 1.0, 31))
#: Lower thresholds that are combined, packets, and the probabilities of OUT they are shown for.
IN_MINIMA = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
OUT_MINIMA = (0, 20, 40, 60, 80)
TWO_PROBABILITIES = (0.06, 0.5)


@dataclass(frozen=True, eq=False)
class Surface:
    """Loss of IN packets and mean queue; float64, a row per value of the first setting."""

    p_in: Array
    q: Array


def base() -> Scenario:
    """Give the fully overlapped case, which section 5 starts from."""
    return paper_scenarios()[FULL]


@cache
def solved(name: str, extra_rtt: float = 0.0, printed: bool = False) -> Solution:
    """Solve a scenario of Tables 1 to 3, by its name."""
    return solve(replace(paper_scenarios()[name], extra_rtt=extra_rtt), printed=printed)


@cache
def with_long_flows(out_probability: float) -> Solution:
    """Solve the case with five more flows of long round trips (Figures 6 and 7)."""
    delay = base().delay + LONG_DELAYS
    return solve(replace(base(), delay=delay, out_probability=out_probability))


@cache
def over_probabilities() -> Surface:
    """Solve for every pair of probabilities (Figures 8 and 10 to 12): rows of IN."""
    return _surface(
        [
            [replace(base(), in_probability=one, out_probability=two) for two in OUT_PROBABILITIES]
            for one in IN_PROBABILITIES
        ]
    )


@cache
def over_minima(out_probability: float) -> Surface:
    """Solve for every pair of lower thresholds (Figures 9 and 13): rows of OUT."""
    scenario = replace(base(), out_probability=out_probability)
    return _surface(
        [[replace(scenario, in_min=one, out_min=two) for one in IN_MINIMA] for two in OUT_MINIMA]
    )


def _surface(scenarios: list[list[Scenario]]) -> Surface:
    found = [[solve(one) for one in row] for row in scenarios]
    return Surface(
        np.array([[one.p_in for one in row] for row in found]),
        np.array([[one.q for one in row] for row in found]),
    )


def boundary(limit: float) -> tuple[Array, Array]:
    """Give the line on which the loss of IN packets is at a limit (Figures 10 and 11).

    Returns
    -------
    tuple of ndarray
        Probabilities of IN, and the least one of OUT that keeps the limit with each; only where
        there is one. Between the probabilities that were solved for it is interpolated.
    """
    rows = over_probabilities().p_in
    found = [
        (one, float(np.exp(np.interp(-limit, -row, np.log(OUT_PROBABILITIES)))))
        for one, row in zip(IN_PROBABILITIES, rows, strict=True)
        if row[-1] <= limit <= row[0]
    ]
    first, second = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return first, second

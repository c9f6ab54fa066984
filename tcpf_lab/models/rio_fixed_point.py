"""Throughput, losses and queue of TCP flows over a RIO router: the fixed point of both halves.

N. Malouch and Z. Liu, "Performance Evaluation of RIO Routers", INRIA RR-4469, 2002.  Three of its
formulas are not taken as printed: the power in equation 3 (`rio_router.router`) and two of the
period after a timeout (`rio_flows.period_with_full_bucket`); ``printed=True`` takes them so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, root

from tcpf_lab.errors import LabError
from tcpf_lab.models.rio_flows import RAREST, PerFlow, flows
from tcpf_lab.models.rio_router import Router, router
from tcpf_lab.models.rio_scenario import Array, Scenario

#: Where the search starts, one after the other: load over capacity, and the share of IN in it.
_STARTS = ((0.99, 0.63), *((load, share) for load in (0.9, 1.0, 1.1) for share in (0.3, 0.7, 0.97)))
#: Of the load, relatively, and of the share.
_TOLERANCE = 1e-9
#: Loads that are tried, relative to the capacity.
_LIGHTEST, _HEAVIEST = 1e-9, 1e9


class NoSolutionError(LabError):
    """The model has no fixed point for a scenario."""

    exit_status = 2


@dataclass(frozen=True, eq=False)
class Solution:
    """State at which the flows make the load that makes their losses.

    Attributes
    ----------
    T, T_in : float
        Load of all flows, and of their IN packets, packets/s; lost packets included.
    p_in, p_out : float
        Probability that an IN, an OUT packet is lost.
    q : float
        Mean queue length, packets.
    per_flow : PerFlow
        What each flow does.
    occupancy : ndarray of float64, shape (in_max + 1,)
        Probability of every queue length.
    """

    T: float
    T_in: float
    p_in: float
    p_out: float
    q: float
    per_flow: PerFlow
    occupancy: Array


@dataclass(frozen=True)
class _Model:
    """Both halves of the model; loads are relative to the capacity."""

    scenario: Scenario
    printed: bool

    def state(self, load: float, share: float) -> tuple[Router, PerFlow]:
        total = load * self.scenario.capacity
        queue = router(self.scenario, total, share * total, printed=self.printed)
        made = flows(self.scenario, queue.p_in, queue.p_out, queue.q, printed=self.printed)
        return queue, made

    def answer(self, load: float, share: float) -> tuple[float, float]:
        """Give the load and the share of IN packets that the flows make under a load."""
        made = self.state(load, share)[1]
        total = float(np.sum(made.throughput))
        return total / self.scenario.capacity, float(np.sum(made.throughput_in)) / total


def solve(scenario: Scenario, *, printed: bool = False) -> Solution:
    """Find the fixed point (section 3.3).

    Two numbers decide everything, the load and its IN part.  Powell's hybrid method finds them from
    one of several starts, the first of them near a full router.  Where it arrives from none, the
    load is bracketed for a share of IN, and then the share.  Deep queues whose thresholds are far
    apart can have two states; the one nearer to the first start is given.

    Parameters
    ----------
    scenario : Scenario
        What is asked.
    printed : bool
        Take the formulas as the paper prints them.

    Returns
    -------
    Solution
        Consistent to nine digits.

    Raises
    ------
    NoSolutionError
        If no load is consistent: the flows cannot fill the router, or the search did not arrive.
    """
    model = _Model(scenario, printed)
    directly = (_directly(model, *start) for start in _STARTS)
    load, share = next((found for found in directly if found), None) or _bracketed(model)
    queue, made = model.state(load, share)
    if queue.p_out <= RAREST and queue.p_in <= RAREST:
        raise _too_large(scenario)
    total = float(np.sum(made.throughput))
    return Solution(
        T=total,
        T_in=float(np.sum(made.throughput_in)),
        p_in=queue.p_in,
        p_out=queue.p_out,
        q=queue.q,
        per_flow=made,
        occupancy=queue.occupancy,
    )


def _directly(model: _Model, load: float, share: float) -> tuple[float, float] | None:
    """Find load and share from a start, None if that does not lead to a solution."""

    def missed(point: Array) -> Array:
        load = min(max(float(point[0]), _LIGHTEST), _HEAVIEST)
        share = min(max(float(point[1]) / load, 0.0), 1.0)
        made, own = model.answer(load, share)
        return np.array([made - point[0], made * own - point[1]])

    with np.errstate(all="ignore"):  # on the way, where it may be anywhere
        found = root(missed, np.array([load, load * share]), tol=1e-13)
    load, load_in = (float(value) for value in found.x)
    if not _LIGHTEST < load < _HEAVIEST or not 0 <= load_in <= load * (1 + _TOLERANCE):
        return None
    share = min(load_in / load, 1.0)
    return (load, share) if _consistent(model, load, share) else None


def _consistent(model: _Model, load: float, share: float) -> bool:
    made, own = model.answer(load, share)
    return abs(made / load - 1) <= _TOLERANCE and abs(own - share) <= _TOLERANCE


def _bracketed(model: _Model) -> tuple[float, float]:
    """Find load and share by halving intervals."""

    def load_for(share: float) -> float:
        def missed(logarithm: float) -> float:
            load = float(np.exp(logarithm))
            return float(np.log(model.answer(load, share)[0])) - logarithm

        return float(np.exp(_crossing(missed, np.log(_LIGHTEST), np.log(_HEAVIEST), model)))

    def missed(share: float) -> float:
        return model.answer(load_for(share), share)[1] - share

    if missed(1.0) >= -_TOLERANCE:  # no flow has OUT packets
        return load_for(1.0), 1.0
    share = _crossing(missed, 0.0, 1.0, model)
    load = load_for(share)
    if not _consistent(model, load, share):
        raise _not_found()
    return load, share


def _crossing(missed: Callable[[float], float], low: float, high: float, model: _Model) -> float:
    if missed(low) < 0 or missed(high) > 0:
        raise _too_large(model.scenario)
    return float(brentq(missed, low, high, xtol=1e-14, rtol=1e-14, maxiter=300))


def _not_found() -> NoSolutionError:
    return NoSolutionError(
        "no solution found: the queue jumps between two states",
        where="in_max",
        hint="a smaller in_max, or out_max nearer to it",
    )


def _too_large(scenario: Scenario) -> NoSolutionError:
    count = f"{scenario.flows} flow" + "s" * (scenario.flows != 1)
    return NoSolutionError(
        f"no solution: {count} cannot fill {scenario.capacity:g} packets/s, so nothing is lost and "
        "windows grow without end",
        where="capacity",
        hint="a smaller capacity, or more flows",
    )

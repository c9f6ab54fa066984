"""The router's half of the RIO model: a birth-death queue that drops by its length.

N. Malouch and Z. Liu, INRIA RR-4469, 2002, section 3.2.  Poisson arrivals, exponential service.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcpf_lab.models.rio_scenario import Array, Scenario


@dataclass(frozen=True, eq=False)
class Router:
    """State of the router.

    Attributes
    ----------
    p_in, p_out : float
        Probability that an IN, an OUT packet is dropped.
    q : float
        Mean queue length, packets.
    occupancy : ndarray of float64, shape (in_max + 1,)
        Probability of every queue length.
    """

    p_in: float
    p_out: float
    q: float
    occupancy: Array


def router(scenario: Scenario, total: float, total_in: float, *, printed: bool = False) -> Router:
    r"""Work out the queue under a load (equations 3, 4 and 6).

    .. math:: \pi(i) = \pi(0) (T/C)^i \prod_{j=0}^{i-1} [1 - p(j)]

    Arrivals that are taken in make a queue of j packets grow at the rate :math:`T (1 - p(j))`, and
    it shrinks at the rate C, from which the power i follows; the paper prints i - 1.

    Parameters
    ----------
    scenario : Scenario
        Capacity and drop curves.
    total, total_in : float
        Load of all packets and of IN packets, packets/s; ``0 < total``, ``total_in <= total``.
    printed : bool
        Whether the power is the printed one.

    Returns
    -------
    Router
        Drop probabilities and queue.
    """
    drop_in, drop_out = scenario.drop_in(), scenario.drop_out()
    share = total_in / total
    drop = share * drop_in + (1 - share) * drop_out
    load = np.log(total / scenario.capacity)
    with np.errstate(divide="ignore"):  # where all is dropped, the queue is never longer
        growth = load + np.log1p(-np.minimum(drop[:-1], 1.0))
    logarithm = np.concatenate(([0.0], np.cumsum(growth)))
    if printed:
        logarithm[1:] -= load
    weight = np.exp(logarithm - np.max(logarithm))
    occupancy = weight / np.sum(weight)
    return Router(
        p_in=float(occupancy @ drop_in),
        p_out=float(occupancy @ drop_out),
        q=float(occupancy @ np.arange(occupancy.size)),
        occupancy=occupancy,
    )

"""Three rules for the size of a router's buffer, as the study of buffers (003) names them.

All sizes are bytes, rates bits/s, times seconds, unless a name says packets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def effective_rtt(rtts: Sequence[float]) -> float:
    r"""Give one round-trip time for flows of different ones: their harmonic mean, seconds.

    .. math:: T = \left( \frac 1 n \sum_i \frac 1 {T_i} \right)^{-1}

    A flow's rate is its window over its RTT, so it is the inverses that add up (Dhamdhere and
    Dovrolis 2006, section 2).

    Raises
    ------
    ValueError
        If there are none, or one is not above 0.

    Examples
    --------
    >>> round(effective_rtt([0.03, 0.15]), 6)
    0.05
    """
    times = np.asarray(rtts, np.float64)
    if times.size == 0 or not np.all(times > 0):
        raise ValueError("an effective RTT needs round-trip times above 0")
    return float(times.size / np.sum(1 / times))


def bandwidth_delay_product(rate: float, rtt: float) -> float:
    """Give B = C T, what most routers of the time had (paper 003, section 2).

    Examples
    --------
    >>> bandwidth_delay_product(1e9, 0.075)
    9375000.0
    """
    _positive(rate=rate, rtt=rtt)
    return rate * rtt / 8


def long_flows_rule(rate: float, rtt: float, flows: float) -> float:
    r"""Give :math:`B = C T / \sqrt N` for N long-lived flows (Appenzeller et al. 2004).

    Examples
    --------
    >>> long_flows_rule(1e9, 0.075, 900)
    312500.0
    """
    _positive(flows=flows)
    return bandwidth_delay_product(rate, rtt) / math.sqrt(flows)


def small_buffer_packets(largest_window: float, load: float = 0.8, share: float = 0.9) -> float:
    r"""Give the small-buffer rule's size, packets (Enachescu et al. 2006, Theorem 1).

    .. math:: B \ge \log_{1/\rho} \frac{W_{max}^2}{2 (1 - \theta)}

    Parameters
    ----------
    largest_window : float
        The flows' largest window W, packets.
    load : float
        Share rho of the capacity that is offered, between 0 and 1.
    share : float
        Share theta of that load which is to be carried, between 0 and 1.

    Raises
    ------
    ValueError
        If one is out of its range.

    Examples
    --------
    >>> round(small_buffer_packets(64), 1)
    44.5
    """
    _positive(largest_window=largest_window)
    if not 0 < load < 1 or not 0 < share < 1:
        raise ValueError("load and share must lie between 0 and 1")
    return math.log(largest_window**2 / (2 * (1 - share))) / -math.log(load)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0")

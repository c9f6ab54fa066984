"""The flows' half of the RIO model: TCP with a token bucket between losses.

N. Malouch and Z. Liu, INRIA RR-4469, 2002, sections 3.1, 3.2 (equations 8, 9) and annex.  The
window grows from W/2 to W by a packet per round trip, one packet of the period is lost, and the
bucket gives rho tokens per round trip.  How much of the period is IN depends on the window:

======================  ==========================================  =====================
the bucket              IN packets of the period                    equation 10
======================  ==========================================  =====================
never runs empty        all, 3 W^2 / 8                              third case
is full, then empty     W rho - W^2 / 8 + sigma - rho^2 / 2         second case
never overflows         rho W / 2                                   first case
======================  ==========================================  =====================

The paper tells the cases by thresholds of rho.  Here they are told by the window at which one
passes into the next, which is the same thing and also holds where OUT is lost less than IN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.models.pftk import backoff
from tcpf_lab.models.rio_scenario import Array, Scenario

#: Losses are at least so rare, and never rarer: without any, windows would be infinite.
RAREST = 1e-12


@dataclass(frozen=True, eq=False)
class PerFlow:
    """What each flow does; float64, one value for each flow.

    Attributes
    ----------
    rtt : ndarray
        Round-trip time with queueing, seconds.
    throughput, throughput_in : ndarray
        All packets and IN packets, packets/s.
    window : ndarray
        Window at which a loss ends its growth, packets.
    timeout_share : ndarray
        Probability that a loss is detected by a timeout.
    """

    rtt: Array
    throughput: Array
    throughput_in: Array
    window: Array
    timeout_share: Array


@dataclass(frozen=True, eq=False)
class Period:
    """Growth of the window from one loss to the next: packets; one value for each flow."""

    window: Array
    sent_in: Array
    sent_out: Array


def flows(
    scenario: Scenario, p_in: float, p_out: float, q: float, *, printed: bool = False
) -> PerFlow:
    """Give the throughput of each flow (equations 1, 2, 8 and 9).

    Parameters
    ----------
    scenario : Scenario
        Delays and buckets.
    p_in, p_out : float
        Probability that an IN, an OUT packet is lost.
    q : float
        Mean queue length, packets.
    printed : bool
        Whether a period after a timeout is taken as printed: with W^2 for the square of its own
        window, and as any other period where its first case does not hold.

    Returns
    -------
    PerFlow
        Of all flows.
    """
    p_in, p_out = (min(max(p, RAREST), 1 - RAREST) for p in (p_in, p_out))
    rtt = np.asarray(scenario.delay) + scenario.extra_rtt + (q + 1) / scenario.capacity
    rho = np.asarray(scenario.token_rate) * rtt
    sigma = np.broadcast_to(np.asarray(scenario.bucket, dtype=np.float64), rho.shape)
    with np.errstate(divide="ignore", invalid="ignore"):  # in cases that are not chosen
        after_loss = period(rho, sigma, p_in, p_out)
        after_timeout = period_with_full_bucket(rho, sigma, p_in, p_out)
        if printed:
            after_timeout = _as_printed(after_timeout, after_loss, rho, sigma)
    by_timeout = np.minimum(1.0, 3 / after_loss.window)
    waiting = (rtt + scenario.rto_margin) * backoff(np.asarray(p_in)) / (1 - p_in)
    windows = (1 - by_timeout) * after_loss.window + by_timeout * after_timeout.window
    seconds = windows / 2 * rtt + by_timeout * waiting
    again = by_timeout / (1 - p_in)  # sent in a timeout period, so slowly that it is IN
    sent_in, sent_out = (
        (1 - by_timeout) * one + by_timeout * other
        for one, other in (
            (after_loss.sent_in, after_timeout.sent_in),
            (after_loss.sent_out, after_timeout.sent_out),
        )
    )
    return PerFlow(
        rtt=rtt,
        throughput=(sent_in + sent_out + again) / seconds,
        throughput_in=(sent_in + again) / seconds,
        window=after_loss.window,
        timeout_share=by_timeout,
    )


def period(rho: Array, sigma: Array, p_in: float, p_out: float) -> Period:
    """Give the period that follows a triple duplicate (equation 10, S_in and S_out).

    Parameters
    ----------
    rho : ndarray
        Tokens per round trip of each flow.
    sigma : ndarray
        Tokens that its bucket holds.
    p_in, p_out : float
        Probabilities of loss, between 0 and 1.

    Returns
    -------
    Period
        In which one packet is lost: ``p_in sent_in + p_out sent_out == 1``.
    """
    reserve = np.sqrt(2 * sigma)
    overflows = rho > 3 * reserve  # there is a second case
    last_all_in = np.where(overflows, rho + reserve, 4 * rho / 3)
    last_full = 2 * (rho - reserve)
    own = _never_empty(p_in)
    full = _full_then_empty(rho, sigma, p_in, p_out)
    empty = _root(3 * p_out / 8, -rho * (p_out - p_in) / 2, np.ones_like(rho))
    starts_full = _loss_between(last_full, rho, sigma, p_in, p_out) >= 1
    return _chosen(
        (own <= last_all_in, overflows & starts_full),
        (own, full, empty),
        rho,
        sigma,
        rho * empty / 2,
    )


def period_with_full_bucket(rho: Array, sigma: Array, p_in: float, p_out: float) -> Period:
    """Give the period that follows a timeout, during which the bucket filled (equation 11).

    Arguments and result are those of `period`.  The first case is the bucket that is used from the
    start; the paper leaves open which cases hold "elsewhere": the second and third of equation 10,
    with this period's own window, continue it without a jump.
    """
    delta = p_out - p_in
    reserve = np.sqrt(2 * sigma)
    waits = rho > reserve  # the window may begin below rho and yet outgrow the bucket
    at_once = (rho / 2 + np.sqrt(rho**2 / 4 + 1.5 * sigma)) / 0.75
    last_all_in = np.where(waits, rho + reserve, at_once)
    own = _never_empty(p_in)
    full = _full_then_empty(rho, sigma, p_in, p_out)
    empty = _root(3 * p_out / 8, -rho * delta / 2, 1 + sigma * delta)
    starts_full = _loss_between(2 * rho, rho, sigma, p_in, p_out) >= 1
    return _chosen(
        (own <= last_all_in, waits & starts_full),
        (own, full, empty),
        rho,
        sigma,
        rho * empty / 2 + sigma,
    )


def _chosen(
    cases: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    windows: tuple[float, Array, Array],
    rho: Array,
    sigma: Array,
    tokens: Array,
) -> Period:
    """Put the three cases together; `tokens` are the IN packets of the third one."""
    window = np.where(cases[0], windows[0], np.where(cases[1], windows[1], windows[2]))
    every = 3 * window**2 / 8
    full = -(window**2) / 8 + rho * window + sigma - rho**2 / 2
    sent_in = np.where(cases[0], every, np.where(cases[1], full, tokens))
    return Period(window, sent_in, every - sent_in)


def _never_empty(p_in: float) -> float:
    """Window of a period without OUT packets: the third case of equation 10."""
    return float(np.sqrt(8 / (3 * p_in)))


def _full_then_empty(rho: Array, sigma: Array, p_in: float, p_out: float) -> Array:
    """Window of a period that begins with a full bucket: the second case of equation 10."""
    delta = p_out - p_in
    constant = 1 + delta * (sigma - rho**2 / 2)
    return _root((4 * p_out - p_in) / 8, -rho * delta, constant)


def _loss_between(window: Array, rho: Array, sigma: Array, p_in: float, p_out: float) -> Array:
    """Packets lost in a period of the second case that ends at this window."""
    sent_in = -(window**2) / 8 + rho * window + sigma - rho**2 / 2
    return p_in * sent_in + p_out * (3 * window**2 / 8 - sent_in)


def _root(a: float, b: Array, c: Array) -> Array:
    """Solve a w^2 + b w = c for the larger root, without cancellation where `a` is near 0."""
    distance = np.sqrt(b**2 + 4 * a * c)
    return np.where(b > 0, 2 * c / (b + distance), (distance - b) / (2 * a))


def _as_printed(full: Period, usual: Period, rho: Array, sigma: Array) -> Period:
    """Give the period after a timeout as the annex prints it."""
    first = np.isclose(full.sent_in, rho * full.window / 2 + sigma, rtol=1e-12)
    out = 3 * usual.window**2 / 8 - rho * full.window / 2 - sigma
    return Period(
        np.where(first, full.window, usual.window),
        np.where(first, full.sent_in, usual.sent_in),
        np.where(first, out, usual.sent_out),
    )

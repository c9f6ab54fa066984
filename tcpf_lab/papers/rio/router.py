"""Throughput, losses and queue of TCP flows over a RIO router: the fixed point of both halves.

N. Malouch and Z. Liu, "Performance Evaluation of RIO Routers", INRIA RR-4469, 2002.  Three of its
formulas are not taken as printed: the power in equation 3 (`router`) and two of the
period after a timeout (`period_with_full_bucket`); ``printed=True`` takes them so.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, root

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.pftk import backoff

#: float64.
Array = NDArray[np.float64]
#: The longest queue that is worked out, packets.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Scenario:
    """Long-lived TCP flows, each with a token bucket, over one router with RIO.

    Attributes
    ----------
    delay : tuple of float
        Round-trip time of each flow without queueing, seconds.
    capacity : float
        Of the router, packets/s.
    token_rate : float or tuple of float
        Tokens, a packet each, that a flow's bucket gets per second.
    bucket : float or tuple of float
        Tokens that a flow's bucket holds.
    in_min, in_max : int
        Queue lengths, packets, above which IN packets are dropped at random, and from which all
        are.
    in_probability : float
        Probability of a drop just below ``in_max``.
    out_min, out_max, out_probability : int, int, float
        The same for OUT packets.
    rto_margin : float
        What a retransmission timeout is longer than the round-trip time (alpha of equation 9), s.
    extra_rtt : float
        Added to the round-trip time of every flow, seconds: what the path takes besides ``delay``.

    Raises
    ------
    RequestError
        If a value is out of range, or the thresholds are in the wrong order.
    """

    delay: tuple[float, ...]
    capacity: float
    token_rate: float | tuple[float, ...]
    bucket: float | tuple[float, ...]
    in_min: int
    in_max: int
    in_probability: float
    out_min: int
    out_max: int
    out_probability: float
    rto_margin: float = 1.0
    extra_rtt: float = 0.0

    def __post_init__(self) -> None:
        for name, wrong in self._problems():
            raise RequestError(wrong, where=name)

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Yield the names of wrong values, and what is allowed."""
        flows = len(self.delay)
        if not flows:
            yield "delay", "at least one flow is needed"
        for name, values in asdict(self).items():
            if not np.all(np.isfinite(values)) or np.any(np.asarray(values) < 0):
                yield name, f"{values} is not allowed; write a number that is not negative"
        for name in ("token_rate", "bucket"):
            if np.size(getattr(self, name)) not in (1, flows):
                yield name, f"one value, or one for each of the {flows} flows"
        if self.capacity <= 0:
            yield "capacity", "it must be greater than 0 packets/s"
        if min(self.delay) + self.extra_rtt <= 0:
            yield "delay", "a round trip takes some time; give a delay or extra_rtt above 0 s"
        for side in ("in", "out"):
            yield from self._wrong_thresholds(side)
        if self.out_max > self.in_max:
            yield "out_max", f"must not be more than in_max, which is {self.in_max} packets"

    def _wrong_thresholds(self, side: str) -> Iterator[tuple[str, str]]:
        least, most = getattr(self, f"{side}_min"), getattr(self, f"{side}_max")
        for name, length in ((f"{side}_min", least), (f"{side}_max", most)):
            if length != int(length):
                yield name, f"{length} is not a whole number of packets"
        if not 1 <= most <= LONGEST:
            yield f"{side}_max", f"must be from 1 to {LONGEST} packets"
        if least > most:
            yield f"{side}_min", f"must not be more than {side}_max, which is {most} packets"
        if getattr(self, f"{side}_probability") > 1:
            yield f"{side}_probability", "a probability is from 0 to 1"

    @property
    def flows(self) -> int:
        """Their number."""
        return len(self.delay)

    def drop_in(self) -> Array:
        """Give the probability of dropping an IN packet at queue lengths 0 to ``in_max``."""
        return drop_curve(self.in_min, self.in_max, self.in_probability, self.in_max)

    def drop_out(self) -> Array:
        """Give the probability of dropping an OUT packet at queue lengths 0 to ``in_max``."""
        return drop_curve(self.out_min, self.out_max, self.out_probability, self.in_max)


def drop_curve(least: int, most: int, probability: float, until: int) -> Array:
    """Give RIO's drop probability of one class at every queue length (section 2).

    Parameters
    ----------
    least, most : int
        Thresholds, packets.
    probability : float
        Just below `most`.
    until : int
        The last length, packets.

    Returns
    -------
    ndarray of float64, shape (until + 1,)
        0 up to `least`, 1 from `most` on, linear between them.

    Examples
    --------
    >>> drop_curve(1, 3, 0.5, 4).tolist()
    [0.0, 0.0, 0.25, 1.0, 1.0]
    """
    length = np.arange(until + 1, dtype=np.float64)
    slope = probability / max(most - least, 1)
    return np.where(length >= most, 1.0, slope * np.maximum(length - least, 0))


def spread(first: float, last: float, count: int) -> tuple[float, ...]:
    """Give `count` values at equal distances, both ends included.

    Examples
    --------
    >>> spread(0.1, 0.3, 3)
    (0.1, 0.2, 0.3)
    """
    return tuple(float(value) for value in np.round(np.linspace(first, last, count), 12))


#: The setting of the paper's section 4: 48 Mbit/s in packets of 1000 bytes, 100 flows.
_SECTION_4 = {
    "delay": spread(0.100, 0.298, 100),
    "capacity": 6000.0,
    "token_rate": 40.0,
    "bucket": 20.0,
    "in_max": 100,
    "in_probability": 0.01,
    "out_min": 20,
    "out_probability": 0.06,
}


#: What every round trip of Tables 1 to 3 seems to take more than section 4 says, seconds: 1000
#: bytes on two access links of 1 Mbit/s. With it the model meets the tables
#: (`docs/reference/rio-model.md`).
ACCESS_S = 0.016


def paper_scenarios() -> dict[str, Scenario]:
    """Give the scenarios of the paper's Tables 1 to 3, in their order, by name."""
    thresholds: Sequence[tuple[str, int, int]] = (
        ("fully_overlapped", 20, 100),
        ("non_overlapped", 60, 60),
        ("partially_overlapped", 60, 100),
    )
    return {
        name: Scenario(**_SECTION_4, in_min=in_min, out_max=out_max)  # type: ignore[arg-type]
        for name, in_min, out_max in thresholds
    }


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
        # The last bit of the sum of the occupancy must not make a probability of more than 1.
        p_in=min(float(occupancy @ drop_in), 1.0),
        p_out=min(float(occupancy @ drop_out), 1.0),
        q=float(occupancy @ np.arange(occupancy.size)),
        occupancy=occupancy,
    )


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


#: What may be limited, and what Tables 1 to 3 have in their order: attributes of a `Solution`.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q")
#: What may be varied.
PROBABILITIES = ("in_probability", "out_probability")
THRESHOLDS = ("in_min", "in_max", "out_min", "out_max")
#: Settings that are looked at before the ends of a range are narrowed down.
_LOOKS = 41
#: The queue's greatest length may be varied up to this multiple of itself.
_LONGER = 10
_RELATIVE = 1e-9


@dataclass(frozen=True)
class Range:
    """Settings from ``low`` to ``high``, both included."""

    low: float
    high: float


@dataclass(frozen=True)
class Answer:
    """Where the limit is kept.

    Attributes
    ----------
    tried : Range
        Settings that were looked at.
    kept : tuple of Range
        Those of them that keep the limit, ascending; empty if none does.
    least : (float, float)
        Setting at which the quantity is smallest, and the quantity there.
    edge : float or None
        The setting that just keeps the limit; None if all or none do.  The lowest, if there are
        several.
    """

    tried: Range
    kept: tuple[Range, ...]
    least: tuple[float, float]
    edge: float | None


def settings_for(scenario: Scenario, quantity: str, limit: float, vary: str) -> Answer:
    """Find the settings that keep a quantity at or below a limit.

    Parameters
    ----------
    scenario : Scenario
        All other settings.
    quantity : str
        Of ``QUANTITIES``.
    limit : float
        In the quantity's unit: packets/s, a probability, packets.
    vary : str
        The setting, of ``PROBABILITIES`` or ``THRESHOLDS``.

    Returns
    -------
    Answer
        Ends of ranges to nine digits, thresholds to a packet.  A range that lies between two
        neighbours of the 41 settings that are looked at first is not seen.

    Raises
    ------
    RequestError
        If there is no such quantity or setting.
    NoSolutionError
        If the model has no solution for a setting.
    """
    if quantity not in QUANTITIES:
        raise RequestError(f"no quantity; one of {', '.join(QUANTITIES)}", where=quantity)
    if vary not in (*PROBABILITIES, *THRESHOLDS):
        allowed = ", ".join((*PROBABILITIES, *THRESHOLDS))
        raise RequestError(f"cannot be varied; one of {allowed}", where=vary)

    def excess(setting: float) -> float:
        value = int(setting) if vary in THRESHOLDS else setting
        return float(getattr(solve(replace(scenario, **{vary: value})), quantity)) - limit  # type: ignore[arg-type]

    tried = _settings(scenario, vary)
    found = [excess(setting) for setting in tried]
    narrow = _narrowed_to_packets if vary in THRESHOLDS else _narrowed
    kept = tuple(_ranges(tried, found, lambda low, high: narrow(excess, low, high)))
    smallest = int(np.argmin(found))
    ends = [end for one in kept for end in (one.low, one.high) if end not in (tried[0], tried[-1])]
    return Answer(
        tried=Range(tried[0], tried[-1]),
        kept=kept,
        least=(tried[smallest], found[smallest] + limit),
        edge=min(ends, default=None),
    )


def _settings(scenario: Scenario, vary: str) -> list[float]:
    """Give the settings to look at, ascending: all that leave the scenario in order."""
    if vary in PROBABILITIES:  # small ones matter most
        return [0.0, *(float(p) for p in np.geomspace(1e-4, 1.0, _LOOKS - 1))]
    low, high = {
        "in_min": (0, scenario.in_max),
        "in_max": (max(scenario.in_min, scenario.out_max, 1), _LONGER * scenario.in_max),
        "out_min": (0, scenario.out_max),
        "out_max": (max(scenario.out_min, 1), scenario.in_max),
    }[vary]
    return sorted({float(round(value)) for value in np.linspace(low, high, _LOOKS)})


def _ranges(
    tried: list[float], found: list[float], narrowed: Callable[[float, float], tuple[float, float]]
) -> list[Range]:
    """Put neighbours that keep the limit together, and narrow down where they begin and end."""
    ranges: list[Range] = []
    low: float | None = tried[0] if found[0] <= 0 else None
    for (before, one), (after, other) in zip(
        zip(tried, found, strict=True), zip(tried[1:], found[1:], strict=True), strict=False
    ):
        if one > 0 >= other:
            low = narrowed(before, after)[1]
        elif one <= 0 < other and low is not None:
            ranges.append(Range(low, narrowed(before, after)[0]))
            low = None
    if low is not None:
        ranges.append(Range(low, tried[-1]))
    return ranges


def _narrowed(excess: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Give the setting between two at which the limit is just reached."""
    edge = float(brentq(excess, low, high, rtol=_RELATIVE))
    return edge, edge


def _narrowed_to_packets(
    excess: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Give the two neighbouring whole settings between which the limit is passed."""
    keeps = excess(low) <= 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (excess(middle) <= 0) is keeps else (low, middle)
    return low, high


@dataclass(frozen=True)
class RioTable:
    """One of Tables 1 to 3 on the RIO model (INRIA RR-4469).

    ``analytical`` and ``simulated`` hold a number for each of ``QUANTITIES``; ``case`` is the
    scenario's name.
    """

    case: str
    analytical: dict[str, float]
    simulated: dict[str, float]


@cache
def rio_tables() -> dict[int, RioTable]:
    """Give the printed tables on the RIO model, by their number."""
    tables: dict[int, RioTable] = {}
    with Path(__file__).with_name("tables.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            table = tables.setdefault(int(row["table"]), RioTable(row["case"], {}, {}))
            quantity = row["quantity"].removesuffix("_mean")
            table.analytical[quantity] = float(row["analytical"])
            table.simulated[quantity] = float(row["simulation"])
    return tables


def rio_table(scenario: str) -> RioTable:
    """Give a printed table by its scenario, ``fully_overlapped``."""
    return next(table for table in rio_tables().values() if table.case == scenario)

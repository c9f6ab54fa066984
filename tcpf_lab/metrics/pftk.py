"""The PFTK formula for each flow of a run, beside what the flow had (paper 001, Figure 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.captured import CapturedRecord, gained_bytes
from tcpf_lab.metrics.from_counters import Extra
from tcpf_lab.metrics.record import Record
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.analysis import FAST, RTO
from tcpf_lab.trace.follow import Followed, follow

#: float64, of the shape to which the arguments broadcast.
Array = NDArray[np.float64]
#: `full` or `approximate`.
Formula = Callable[..., Array]


def full(
    p: ArrayLike, rtt: ArrayLike, t0: ArrayLike, b: ArrayLike = 1, wm: ArrayLike | None = None
) -> Array:
    """Give the packets sent per second, by the full formula.

    Parameters
    ----------
    p : array_like
        Loss indications (triple duplicates and timeout episodes) over packets sent, 0 to 1.
    rtt : array_like
        Round-trip time, seconds.
    t0 : array_like
        Mean length of the first timeout of an episode, seconds.
    b : array_like
        Packets that one ACK acknowledges: 1, or 2 with delayed ACKs.
    wm : array_like, optional
        Maximum window, packets; None where only losses limit the window.

    Returns
    -------
    ndarray of float64
        Packets/s, of the shape to which the arguments broadcast.  Without losses ``wm / rtt``, or
        infinite without ``wm``.

    Raises
    ------
    RequestError
        If a value is out of range.
    """
    p_, rtt_, t0_, b_, wm_ = _checked(p, rtt, t0, b, wm)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = unlimited_window(p_, b_)
        limited = mean >= wm_
        window = np.where(limited, wm_, mean)
        rounds = np.where(limited, b_ * wm_ / 8 + (1 - p_) / (p_ * wm_) + 2, b_ * mean / 2 + 1)
        by_timeout = timeout_share(p_, window)
        # Both sides of the fraction times p (1 - p), which keeps them finite at p = 1.
        sent = (1 - p_) ** 2 + p_ * (1 - p_) * window + p_ * by_timeout
        seconds = p_ * (1 - p_) * rtt_ * rounds + p_ * by_timeout * t0_ * backoff(p_)
        rate = sent / seconds
    return np.asarray(np.where(p_ == 0, wm_ / rtt_, rate))[()]


def approximate(
    p: ArrayLike, rtt: ArrayLike, t0: ArrayLike, b: ArrayLike = 1, wm: ArrayLike | None = None
) -> Array:
    """Give the packets sent per second, by the approximate formula; arguments as of `full`.

    Raises
    ------
    RequestError
        If a value is out of range.
    """
    p_, rtt_, t0_, b_, wm_ = _checked(p, rtt, t0, b, wm)
    chance = np.minimum(1.0, 3 * np.sqrt(3 * b_ * p_ / 8))
    with np.errstate(divide="ignore"):
        rate = 1 / (rtt_ * np.sqrt(2 * b_ * p_ / 3) + t0_ * chance * p_ * (1 + 32 * p_**2))
    return np.asarray(np.minimum(wm_ / rtt_, rate))[()]


def unlimited_window(p: Array, b: Array) -> Array:
    """Give the mean window at the end of a period between two losses, packets (13 there)."""
    least = (2 + b) / (3 * b)
    return np.asarray(least + np.sqrt(8 * (1 - p) / (3 * b * p) + least**2))


def timeout_share(p: Array, window: Array) -> Array:
    """Give the probability that a loss in a window of so many packets ends in a timeout (24)."""
    survive = np.log1p(-p)
    lost_of_3 = -np.expm1(3 * survive)
    rest = 1 + (1 - p) ** 3 * -np.expm1((window - 3) * survive)
    share = lost_of_3 * rest / -np.expm1(window * survive)
    return np.asarray(np.where(window <= 3, 1.0, np.minimum(1.0, share)))


def backoff(p: Array) -> Array:
    """Give the length of a timeout episode over its first timeout, times 1 - p: f(p) of (28).

    The timer doubles up to 64 times its first value.
    """
    return np.asarray(1 + p + 2 * p**2 + 4 * p**3 + 8 * p**4 + 16 * p**5 + 32 * p**6)


def _checked(
    p: ArrayLike, rtt: ArrayLike, t0: ArrayLike, b: ArrayLike, wm: ArrayLike | None
) -> tuple[Array, ...]:
    given = {"p": p, "rtt": rtt, "t0": t0, "b": b, "wm": np.inf if wm is None else wm}
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
    # NaN, a value that is not known, gives NaN.
    if np.any((arrays["p"] < 0) | (arrays["p"] > 1)):
        raise RequestError("a probability of loss is from 0 to 1", where="p")
    least = {"rtt": "seconds", "t0": "seconds", "b": "packets", "wm": "packets"}
    for name, unit in least.items():
        if np.any(arrays[name] <= 0):
            raise RequestError(f"it must be greater than 0 {unit}", where=name)
    return tuple(np.broadcast_arrays(*arrays.values()))


@dataclass(frozen=True)
class Observed:
    """What the formula needs to know of a flow in a window.

    Attributes
    ----------
    sent : int
        Data packets sent, including retransmissions.
    triple_duplicates : int
        Recoveries that duplicate ACKs began.
    timeout_episodes : int
        Timeout sequences; each counts once.
    rtt_s : float or None
        Mean of the samples that the sender took, seconds.
    t0_s : float or None
        Mean length of the first timeouts of episodes, seconds; of the timer, where there was none.
    """

    sent: int
    triple_duplicates: int
    timeout_episodes: int
    rtt_s: float | None
    t0_s: float | None

    @property
    def p(self) -> float | None:
        """Loss indications per packet sent."""
        losses = self.triple_duplicates + self.timeout_episodes
        return losses / self.sent if self.sent else None


def pftk_error(_files: RunFiles, run: Record) -> Extra:
    """Give section ``pftk``, a row per flow, of runs of paper 001 or with background.

    Parameters
    ----------
    run : Record
        Without captures nothing is known of RTT and timer: the section is not there.

    Returns
    -------
    Extra
        A row has ``flow``, ``p``, ``rtt_s``, ``t0_s``, ``full`` and ``approximate`` (the
        predictions, packets/s, with ``b`` = 1: the receivers acknowledge every packet),
        ``sent_packets_per_s`` and ``goodput_packets_per_s`` (in packets of the flow's maximum
        payload); predictions are None for a flow without a loss in the window.
    """
    wanted = run.expect.get("background") or run.expect.get("pftk")
    if not wanted or not isinstance(run, CapturedRecord):
        return Extra()
    rows = [_row(run, flow) for flow in range(run.count) if int(run.row[flow]) >= 0]
    return Extra(sections={"pftk": rows})


def observe(followed: Followed, start_ns: int, end_ns: int) -> Observed:
    """Read off a flow what the formula needs, in a window with its start and without its end."""
    within = (followed.time_ns >= start_ns) & (followed.time_ns < end_ns)
    data = followed.forward & (followed.end > followed.start) & (followed.start > 0)
    first = (followed.kind == RTO) & (followed.backoff == 0) & within
    samples = followed.rtt_ns[within & (followed.rtt_ns >= 0)]
    # The timer that expires is the one that the packet before it left behind.
    before = np.flatnonzero(first) - 1
    timers = followed.rto_ns[before] if before.size else followed.rto_ns[within]
    return Observed(
        sent=int(np.sum(data & within)),
        triple_duplicates=int(np.sum((followed.kind == FAST) & within)),
        timeout_episodes=int(np.sum(first)),
        rtt_s=float(np.mean(samples)) / 1e9 if samples.size else None,
        t0_s=float(np.mean(timers)) / 1e9 if timers.size else None,
    )


def _row(run: CapturedRecord, flow: int) -> dict[str, Any]:
    start, end = run.window_ns
    row, seconds = int(run.row[flow]), run.seconds
    packets = run.captures["sender"].packets
    seen = observe(follow(packets, run.flows, row, run.options), start, end)
    largest = int(np.max(packets["payload"][run.flows.split(row)[0]], initial=0))
    predicted: dict[str, float | None] = {"full": None, "approximate": None}
    if seen.p and seen.rtt_s and seen.t0_s:
        arguments = (min(seen.p, 1.0), seen.rtt_s, seen.t0_s)
        predicted = {"full": float(full(*arguments)), "approximate": float(approximate(*arguments))}
    return {
        "flow": flow,
        "p": seen.p,
        "rtt_s": seen.rtt_s,
        "t0_s": seen.t0_s,
        **predicted,
        "sent_packets_per_s": seen.sent / seconds,
        "goodput_packets_per_s": gained_bytes(run, flow) / largest / seconds if largest else 0.0,
    }

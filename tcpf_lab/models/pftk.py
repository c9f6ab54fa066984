"""Throughput of a bulk TCP flow from its losses: Padhye, Firoiu, Towsley, Kurose (PFTK).

J. Padhye et al., "Modeling TCP Reno Performance: A Simple Model and Its Empirical Validation",
IEEE/ACM ToN 8(2), 2000.  `full` is its equation (32), `approximate` its equation (33).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.errors import RequestError

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
        Greatest window, packets; None where nothing but losses limits the window.

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

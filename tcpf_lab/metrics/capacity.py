"""What a link can carry over time: at one rate, by a schedule of rates, or by a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.spec.changing import OPPORTUNITY_BITS, opportunities
from tcpf_lab.trace.passage import Transit, settling

#: A packet that waits longer is taken for lost, s, however long an outage is.
_LONGEST_STAY_S = 60


def bits(place: dict[str, Any], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the bits of frames that a link can carry from time 0 to each instant.

    Parameters
    ----------
    place : dict
        ``expect.bottleneck`` of a manifest: ``rate_bits_per_s``, and ``rates`` or ``trace`` if it
        changes.
    seconds : ndarray of float
        Instants after the epoch, from 0.
    """
    if "rates" in place:
        times, rates = np.asarray(place["rates"], np.float64).T
        before = np.concatenate(([0.0], np.cumsum(np.diff(times) * rates[:-1])))
        seconds = np.maximum(seconds, 0)
        step = np.searchsorted(times, seconds, side="right") - 1
        return np.asarray(before[step] + (seconds - times[step]) * rates[step])
    if "trace" in place:
        given = np.cumsum(opportunities(place["trace"])) * float(OPPORTUNITY_BITS)
        # A float's millisecond may lie just below the whole number that it is meant to be.
        rounds, at = np.divmod(np.floor(seconds * 1000 + 1e-6).astype(np.int64), given.size)
        return np.asarray(rounds * given[-1] + given[at])
    return seconds * float(place["rate_bits_per_s"])


def mean_rate(place: dict[str, Any], window: tuple[float, float]) -> float:
    """Give the mean rate between two instants, bit/s; 0 in an outage."""
    if not changes(place):
        return float(place["rate_bits_per_s"])
    begin, end = bits(place, np.asarray(window))
    return float(end - begin) / (window[1] - window[0])


def changes(place: dict[str, Any]) -> bool:
    """Tell whether the rate of a link changes."""
    return "rates" in place or "trace" in place


def longest_drain_s(place: dict[str, Any], size: float) -> float:
    """Give the longest time that the link takes for so many bytes, seconds; a minute at most."""
    if not changes(place):
        return 8 * size / float(place["rate_bits_per_s"])
    span = place["rates"][-1][0] if "rates" in place else len(place["trace"]) / 1000
    grid = np.arange(0, span + _LONGEST_STAY_S, 0.001)
    carried = bits(place, grid)
    begins = grid <= span
    ends = np.searchsorted(carried, carried[begins] + 8 * size)
    stay = np.max(ends - np.arange(ends.size)) / 1000
    return float(min(stay, _LONGEST_STAY_S))


def last_drained_s(place: dict[str, Any], size: float, end: float) -> float:
    """Give the latest instant from which the link carries so many bytes before another, seconds.

    Both count from the epoch; a minute earlier at most.
    """
    if not changes(place):
        return end - 8 * size / float(place["rate_bits_per_s"])
    grid = np.arange(max(0.0, end - _LONGEST_STAY_S), end, 0.001)
    at_end = bits(place, np.asarray([end]))[0]
    early = np.flatnonzero(at_end - bits(place, grid) >= 8 * size)
    return float(grid[early[-1]]) if early.size else max(0.0, end - _LONGEST_STAY_S)


def drain_s(
    place: dict[str, Any], seconds: NDArray[np.float64], size: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Give how long the link takes for so many bytes from each instant on, seconds.

    NaN for what takes longer than a minute.
    """
    if not changes(place):
        return 8 * size / float(place["rate_bits_per_s"])
    grid = np.arange(0, seconds.max(initial=0) + _LONGEST_STAY_S, 0.001)
    carried, wanted = bits(place, grid), bits(place, seconds) + 8 * size
    ends = np.interp(wanted, carried, grid, right=np.nan)
    return np.where(size > 0, np.maximum(ends - seconds, 0), 0)


def backlogged_share(place: dict[str, Any], transit: Transit, epoch_ns: int) -> tuple[float, int]:
    """Give what share of the capacity was used while packets waited, and by how many packets.

    The first bytes of a busy period are left out, as the link may send them at once; of a trace
    what one opportunity more or less in each period explains.

    Returns
    -------
    tuple of (float, int)
        1 for a link that sends whenever a packet waits; NaN without such packets.
    """
    left = np.flatnonzero(~transit.lost)
    left = left[np.argsort(transit.departure_ns[left], kind="stable")]
    departure, arrival = transit.departure_ns[left], transit.arrival_ns[left]
    waited = arrival[1:] < departure[:-1]
    size = np.where(waited, transit.wire_length[left][1:], 0)
    total = np.cumsum(size)
    begin = np.maximum.accumulate(np.where(waited, 0, total))
    settled = waited & (total - begin > settling(transit))
    carried = bits(place, (departure - epoch_ns) / 1e9)
    sent, room = float(np.sum(size[settled])), float(np.sum(np.diff(carried)[settled])) / 8
    if "trace" in place:
        periods = np.unique(begin[settled]).size
        slack = periods * OPPORTUNITY_BITS / 8
        sent = room + float(np.sign(sent - room)) * max(0.0, abs(sent - room) - slack)
    return (sent / room if room else float("nan")), int(np.sum(settled))

"""Goodput, fairness, loss, timeouts, queue length and delay, utilisation: one definition each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def acknowledged_at(time_ns: ArrayLike, acked: ArrayLike, instant_ns: int) -> int:
    """Payload bytes of one flow that were acknowledged by an instant.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        Times of the flow's acknowledgements at the sender, in order.
    acked : array_like, shape (n,)
        Payload bytes acknowledged after each (`tcpf_lab.trace.follow.Recovery.acked`).
    instant_ns : int
        On the clock of `time_ns`.

    Returns
    -------
    int
        Bytes; 0 before the first acknowledgement.

    Raises
    ------
    ValueError
        If the arrays differ in length.

    Examples
    --------
    >>> acknowledged_at([10, 20, 30], [960, 1920, 2880], 25)
    1920
    >>> acknowledged_at([10, 20, 30], [960, 1920, 2880], 9)
    0
    """
    times, total = np.asarray(time_ns, np.int64), np.asarray(acked, np.int64)
    if times.shape != total.shape:
        raise ValueError("one time is needed for each acknowledgement")
    before = int(np.searchsorted(times, instant_ns, side="right"))
    return int(total[before - 1]) if before else 0


def goodput(
    acked_start: ArrayLike, acked_end: ArrayLike, start_ns: ArrayLike, end_ns: ArrayLike
) -> NDArray[np.float64]:
    """Goodput of each flow over its window.

    .. math:: g_i = (una_i(t_1) - una_i(t_0)) / (t_1 - t_0)

    Parameters
    ----------
    acked_start, acked_end : array_like, shape (flows,)
        Payload bytes acknowledged at the window's start and end (SYN and FIN not counted).
    start_ns, end_ns : array_like, shape (flows,) or scalar
        The window.

    Returns
    -------
    ndarray, shape (flows,)
        Bytes per second.

    Raises
    ------
    ValueError
        A window that is empty, or a count that falls.

    Examples
    --------
    96 000 bytes more after 60 s:

    >>> goodput([4000], [100000], 0, 60_000_000_000).tolist()
    [1600.0]
    """
    gained = np.asarray(acked_end, np.int64) - np.asarray(acked_start, np.int64)
    duration = np.asarray(end_ns, np.int64) - np.asarray(start_ns, np.int64)
    if np.any(duration <= 0):
        raise ValueError("the window's end is not after its start: goodput is undefined")
    if np.any(gained < 0):
        raise ValueError("acknowledged bytes fell within the window")
    return np.asarray(gained * 1e9 / duration, np.float64)


def mean_goodput(values: ArrayLike) -> float:
    """Arithmetic mean over all flows, including flows without goodput.

    Parameters
    ----------
    values : array_like, shape (flows,)
        Goodputs.

    Returns
    -------
    float
        In their unit.

    Raises
    ------
    ValueError
        If there are no flows.

    Examples
    --------
    >>> mean_goodput([0.0, 1500.0, 3000.0])
    1500.0
    """
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError("no flows: mean goodput is undefined")
    return float(np.mean(array))


def _values(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError("no flows: fairness is undefined")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError("shares must be finite and not negative")
    return array


def coefficient_of_variation(values: ArrayLike) -> float:
    r"""Standard deviation over mean, both of the whole population (ddof = 0).

    .. math:: CoV = \frac{\sqrt{\frac{1}{n} \sum (x_i - \bar x)^2}}{\bar x}

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow; flows that got nothing are included as 0.

    Returns
    -------
    float
        Without unit.

    Raises
    ------
    ValueError
        No flows, or a mean of 0.

    Examples
    --------
    Mean 4, deviations -2, 0, 2: sqrt(8/3) / 4.

    >>> round(coefficient_of_variation([2, 4, 6]), 6)
    0.408248
    """
    array = _values(values)
    mean = float(np.mean(array))
    if mean == 0:
        raise ValueError("every share is 0: the coefficient of variation is undefined")
    return float(np.std(array)) / mean


def harm(solo: float, shared: float, *, more_is_better: bool) -> float | None:
    r"""How much worse a flow fares beside others than alone: 0 not at all, 1 completely.

    .. math:: h = \frac{x - y}{x} \text{ if more is better, else } \frac{y - x}{y}

    Parameters
    ----------
    solo, shared : float
        x alone and y beside the others, such as throughput (more is better), delay or loss.
    more_is_better : bool
        Which of the two it is.

    Returns
    -------
    float or None
        Negative where it fares better beside them; 0 where both are 0; None where the divisor
        alone is 0.

    References
    ----------
    R. Ware, M. K. Mukerjee, S. Seshan, J. Sherry, "Beyond Jain's fairness index: setting the bar
    for the deployment of congestion control algorithms", HotNets 2019.

    Examples
    --------
    >>> harm(10.0, 4.0, more_is_better=True), harm(20.0, 80.0, more_is_better=False)
    (0.6, 0.75)
    """
    better, worse = (solo, shared) if more_is_better else (shared, solo)
    if better == worse:
        return 0.0
    return (better - worse) / better if better else None


def jain_index(values: ArrayLike) -> float:
    r"""Jain's fairness index, from 1/n (one flow has all) to 1 (all equal).

    .. math:: F = \frac{(\sum x_i)^2}{n \sum x_i^2} = \frac{1}{1 + CoV^2}

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow.

    Returns
    -------
    float
        Without unit.

    Raises
    ------
    ValueError
        No flows, or every share 0.

    References
    ----------
    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.

    Examples
    --------
    Sum 12, squares 4 + 16 + 36 = 56: 144 / (3 * 56).

    >>> round(jain_index([2, 4, 6]), 6)
    0.857143
    """
    array = _values(values)
    largest = float(np.max(array))
    if largest == 0:
        raise ValueError("every share is 0: the fairness index is undefined")
    scaled = array / largest  # squares of very small or large shares would leave the range
    return float(np.sum(scaled) ** 2 / (scaled.size * np.sum(scaled**2)))


def min_max_ratio(values: ArrayLike) -> float:
    """Smallest share over the largest.

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        No flows, or every share 0.

    Examples
    --------
    >>> min_max_ratio([2, 4, 8])
    0.25
    """
    array = _values(values)
    if np.max(array) == 0:
        raise ValueError("every share is 0: the ratio of smallest to largest is undefined")
    return float(np.min(array) / np.max(array))


def loss_fraction(size: ArrayLike, lost: ArrayLike) -> float:
    r"""Share of packets or bytes lost in a queue.

    .. math:: p = \sum_{lost} s_i / \sum_{entered} s_i

    Parameters
    ----------
    size : array_like, shape (n,)
        Weight of each packet: its IP length for byte loss, 1 for packet loss.
    lost : array_like of bool, shape (n,)
        Whether it was dropped.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If nothing entered.

    Examples
    --------
    40 of 4040 bytes:

    >>> round(loss_fraction([1000, 1000, 40, 1000, 1000], [False, False, True, False, False]), 6)
    0.009901
    """
    weight, gone = np.asarray(size, np.int64), np.asarray(lost, np.bool_)
    if weight.shape != gone.shape:
        raise ValueError("one loss mark is needed for each packet")
    total = int(np.sum(weight))
    if total <= 0:
        raise ValueError("nothing entered the queue: its loss is undefined")
    return int(np.sum(weight[gone])) / total


def run_lengths(lost: ArrayLike, flow: ArrayLike | None = None) -> NDArray[np.int64]:
    """Lengths of the runs of lost packets.

    Parameters
    ----------
    lost : array_like of bool, shape (n,)
        Whether each packet was lost, in the order of arrival.
    flow : array_like of int, shape (n,), optional
        Flow of each packet; then the packets of each flow make runs of their own.

    Returns
    -------
    int64, shape (runs,)
        In the order in which they begin, flow after flow.

    Examples
    --------
    >>> run_lengths([True, False, True, True]).tolist()
    [1, 2]

    Two flows that lose two packets each, one of them in a row:

    >>> run_lengths([True, True, False, True, True], [7, 8, 7, 8, 7]).tolist()
    [1, 1, 2]
    """
    gone = np.asarray(lost, np.bool_)
    if flow is None:
        apart = np.zeros(gone.size, np.bool_)
    else:
        order = np.argsort(np.asarray(flow), kind="stable")
        gone, sorted_flow = gone[order], np.asarray(flow)[order]
        apart = np.concatenate([[False], sorted_flow[1:] != sorted_flow[:-1]])[: gone.size]
    before = np.concatenate([[False], gone[:-1]])[: gone.size]
    begins = np.flatnonzero(gone & (~before | apart))
    total = np.concatenate([[0], np.cumsum(gone)])
    counted = total[begins]
    lengths: NDArray[np.int64] = np.diff(counted, append=total[-1]).astype(np.int64)
    return lengths


def tally(lengths: NDArray[np.int64]) -> dict[str, int]:
    """Count the runs of each length; the lengths are words, as JSON wants them.

    Examples
    --------
    >>> tally(np.array([1, 3, 1]))
    {'1': 2, '3': 1}
    """
    found: tuple[Any, Any] = np.unique(lengths, return_counts=True)
    return {str(int(length)): int(count) for length, count in zip(*found, strict=True)}


def mean_run(lengths: NDArray[np.int64]) -> float | None:
    """Mean length of the runs, None without any.

    In Gilbert's model of loss with two states it is 1 / P(the packet after a lost one arrives)
    (Gilbert: Capacity of a Burst-Noise Channel, BSTJ 39, 1960).
    """
    return float(np.mean(lengths)) if lengths.size else None


def count_between(time_ns: ArrayLike, start_ns: int, end_ns: int) -> int:
    """Events in a window that includes its start and excludes its end.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        Times of the events.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    int
        Their number.

    Raises
    ------
    ValueError
        If the window ends before it starts.

    Examples
    --------
    >>> count_between([5, 10, 15, 20], 10, 20)
    2
    """
    if end_ns < start_ns:
        raise ValueError("the window ends before it starts")
    times = np.asarray(time_ns, np.int64)
    return int(np.sum((times >= start_ns) & (times < end_ns)))


def episodes(backoff: ArrayLike) -> int:
    """Timeout sequences: RTO expirations without an ACK of new data in between, as PFTK counts.

    Parameters
    ----------
    backoff : array_like, shape (n,)
        For each timeout, the number of earlier ones in its sequence.

    Returns
    -------
    int
        Number of sequences.

    References
    ----------
    J. Padhye, V. Firoiu, D. Towsley, J. Kurose, SIGCOMM 1998, section 2.2.

    Examples
    --------
    Two sequences, of three timeouts and of one.

    >>> episodes([0, 1, 2, 0])
    2
    """
    return int(np.sum(np.asarray(backoff) == 0))


def per_flow_minute(timeouts: int, flows: int, seconds: float) -> float:
    """Timeouts per flow and minute, comparable between runs of different length.

    Parameters
    ----------
    timeouts : int
        Of all flows.
    flows : int
        Their number.
    seconds : float
        Length of the window.

    Returns
    -------
    float
        1/min.

    Raises
    ------
    ValueError
        If there are no flows or no time.

    Examples
    --------
    >>> per_flow_minute(600, 100, 30.0)
    12.0
    """
    if flows <= 0 or seconds <= 0:
        raise ValueError("without flows or without time there is no rate of timeouts")
    return timeouts * 60.0 / (flows * seconds)


def _within(
    time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps of the queue inside a window, the first at its start."""
    times, sizes = np.asarray(time_ns, np.int64), np.asarray(size, np.int64)
    if end_ns <= start_ns:
        raise ValueError("the window's end is not after its start")
    first = int(np.searchsorted(times, start_ns, side="right"))
    last = int(np.searchsorted(times, end_ns, side="left"))
    before = sizes[first - 1 : first] if first else np.zeros(1, np.int64)
    inside = slice(first, last)
    return np.concatenate([[start_ns], times[inside]]), np.concatenate([before, sizes[inside]])


def mean_backlog(time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int) -> float:
    """Time average of a queue's length.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        When the length changed, in order.
    size : array_like, shape (n,)
        Length from then on; 0 before the first change.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    float
        In the unit of `size`.

    Raises
    ------
    ValueError
        If the window is empty.

    Examples
    --------
    0 for one second, 3000 for one second, 1000 for two:

    >>> mean_backlog([1_000_000_000, 2_000_000_000], [3000, 1000], 0, 4_000_000_000)
    1250.0
    """
    times, sizes = _within(time_ns, size, start_ns, end_ns)
    held = np.diff(times, append=end_ns)
    return float(np.sum(held * sizes.astype(np.float64)) / (end_ns - start_ns))


def largest_backlog(time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int) -> int:
    """Maximum queue length in a window.

    Parameters
    ----------
    time_ns, size : array_like, shape (n,)
        As for `mean_backlog`.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    int
        In the unit of `size`.

    Raises
    ------
    ValueError
        If the window is empty.

    Examples
    --------
    >>> largest_backlog([10, 20, 30], [3000, 1000, 2000], 15, 40)
    3000
    """
    return int(np.max(_within(time_ns, size, start_ns, end_ns)[1]))


def delays(arrival_ns: ArrayLike, departure_ns: ArrayLike) -> NDArray[np.float64]:
    """Queueing delay of each packet in seconds, without dropped ones (departure < 0).

    Parameters
    ----------
    arrival_ns, departure_ns : array_like, shape (n,)
        By one clock.

    Returns
    -------
    ndarray, shape (packets that left,)
        Seconds.

    Examples
    --------
    >>> delays([0, 0, 1_000_000], [2_000_000, -1, 2_500_000]).tolist()
    [0.002, 0.0015]
    """
    came, left = np.asarray(arrival_ns, np.int64), np.asarray(departure_ns, np.int64)
    through = left >= 0
    return np.asarray((left[through] - came[through]) / 1e9, np.float64)


def percentile(values: ArrayLike, percent: float) -> float:
    """Smallest value that at least `percent` per cent of all values do not exceed.

    Parameters
    ----------
    values : array_like, shape (n,)
        In any order.
    percent : float
        Above 0, at most 100.

    Returns
    -------
    float
        One of the values (no interpolation).

    Raises
    ------
    ValueError
        If there are no values, or `percent` is out of range.

    Examples
    --------
    >>> percentile([0.4, 0.1, 0.3, 0.2], 75)
    0.3
    """
    array = np.asarray(values, np.float64)
    if array.size == 0 or not 0 < percent <= 100:
        raise ValueError("a percentile needs values and a percentage above 0, at most 100")
    return float(np.percentile(array, percent, method="inverted_cdf"))


def utilisation(frame_bytes: int, rate_bits_per_s: float, seconds: float) -> float:
    """Link utilisation.

    .. math:: u = 8 B / (C t)

    Parameters
    ----------
    frame_bytes : int
        Bytes that left, counted as the link's shaper counts them (with the Ethernet header).
    rate_bits_per_s : float
        Capacity.
    seconds : float
        Time.

    Returns
    -------
    float
        1 for a full link; a little more is possible over a short time, through the shaper's burst.

    Raises
    ------
    ValueError
        If capacity or time is not positive.

    Examples
    --------
    >>> utilisation(1_250_000, 10e6, 2.0)
    0.5
    """
    if rate_bits_per_s <= 0 or seconds <= 0:
        raise ValueError("without capacity or without time utilisation is undefined")
    return 8.0 * frame_bytes / (rate_bits_per_s * seconds)

"""Groups of flows: what each gets, what its packets wait, and how the groups share the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.capacity import mean_rate
from tcpf_lab.metrics.captured import CapturedRecord, Way, as_queued, flow_row, gained_bytes
from tcpf_lab.metrics.definitions import acknowledged_at, jain_index, percentile, utilisation
from tcpf_lab.metrics.from_counters import Extra, or_none
from tcpf_lab.metrics.in_force import CheckResult, accurate_ends
from tcpf_lab.metrics.queue_counters import marks_match
from tcpf_lab.metrics.record import Record, read_finished, root_drops
from tcpf_lab.metrics.series import acked_in_bins, read_arrays, write_arrays
from tcpf_lab.metrics.validity import Test, apply
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.packet import Packets
from tcpf_lab.trace.passage import MarkArray, Transit

#: Percentiles of delays.
PERCENTILES = (50, 95, 99)
#: Bin of the series, s.
BIN_S = 0.1
_BIN_NS = 100_000_000
#: Flows share the link fairly from the first second on in which Jain's index is so large.
FAIR, FAIR_S = 0.95, 1.0
#: Values of a distribution of delays that are stored: a thousandth of the packets apart.
QUANTILES = 1001
#: The bits of ECN, and what they are where a queue has marked (RFC 3168, section 5).
_ECN, _CE = 3, 3
#: TCP's flag ECN-Echo.
_ECE = 0x40
#: IP's number of TCP.
_TCP = 6


@dataclass(frozen=True)
class _Group:
    """A group, its flows' numbers, and which of its data packets are in what entered and left.

    Attributes
    ----------
    active_ns : tuple of (int, int)
        From when to when it is active, by the run's clock: `_active`.
    took_s : list of float
        Completion times of its flows that have sent their volume.
    """

    expect: dict[str, Any]
    way: Way
    rows: list[dict[str, Any]]
    ports: tuple[int, int]
    active_ns: tuple[int, int]
    took_s: list[float]

    @property
    def name(self) -> str:
        return str(self.expect["name"])

    def sent(self, marks: MarkArray) -> NDArray[np.bool_]:
        """Whether each packet before or behind the queue of its direction is data of the group."""
        ends = self.way.ends
        own = self._has(ends["sport"]) & (ends["protocol"] == _TCP)
        return np.asarray(own[marks["flow"]] & (marks["payload"] > 0), np.bool_)

    def answers(self, packets: Packets) -> NDArray[np.bool_]:
        """Whether each packet answers the group's data."""
        return self._has(packets["dport"])

    def _has(self, port: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray((port >= self.ports[0]) & (port < self.ports[1]), np.bool_)


def groups(files: RunFiles, run: Record) -> Extra:
    """Give the sections ``groups``, ``queues`` and ``changes``, and write ``groups.npz``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without groups.
    """
    if not isinstance(run, CapturedRecord) or not run.ways:
        return Extra()
    ways = {way.name: way for way in run.ways}
    finished = read_finished(files)
    found = [_group(run, ways, wanted, finished) for wanted in run.expect["groups"]]
    acked = acked_in_bins(run, _edges(run))
    series = _series(run, found, ways, acked)
    write_arrays(files.groups, {f.name: getattr(series, f.name) for f in fields(series)})
    checks = _opposite(ways["down"]) if "down" in ways else {}
    return Extra(
        sections={
            "groups": [_numbers(run, group, found) for group in found],
            "queues": [_queue(run, way) for way in ways.values()],
            "changes": _changes(run, found, acked),
        },
        checks=apply(checks, files, run),
    )


def _group(
    run: CapturedRecord,
    ways: dict[str, Way],
    wanted: dict[str, Any],
    finished: Mapping[int, tuple[float, float]],
) -> _Group:
    first, count = int(wanted["first"]), int(wanted["flows"])
    flows = range(first, first + count)
    rows = [flow_row(run, flow, gained_bytes(run, flow)) for flow in flows]
    port = int(run.expect["source_port"]) + first
    done = [finished[flow] for flow in flows if flow in finished]
    return _Group(
        wanted,
        ways[wanted["direction"]],
        rows,
        (port, port + count),
        _active(run, wanted, done),
        [end - start for start, end in done],
    )


def _active(
    run: CapturedRecord, wanted: dict[str, Any], done: Sequence[tuple[float, float]]
) -> tuple[int, int]:
    """Give from when to when a group is active, ns.

    From the last start of its flows to their end: its ``stop``, when the last of them has sent its
    ``volume``, or the end of the window. Throughput, share, Jain's index and ``fair_after_s`` are
    of this time alone.  A group of no flows is never active.
    """
    if not wanted["flows"]:
        return 0, 0
    ends = [run.window_ns[1]]
    if wanted["stop_s"] is not None:
        ends.append(run.at_sender(wanted, wanted["stop_s"]))
    if len(done) == wanted["flows"]:
        ends.append(run.at_sender(wanted, max(end for _, end in done)))
    return run.at_sender(wanted, wanted["last_start_s"]), min(ends)


def _acknowledged(run: CapturedRecord, group: _Group, since: int, until: int) -> list[int]:
    """Payload bytes of each flow acknowledged between two instants, by the capture."""
    packets, found = run.captures["sender"].packets, []
    for row in (int(run.row[one["flow"]]) for one in group.rows):
        back = run.flows.split(row)[1] if row >= 0 else np.empty(0, np.int64)
        came, acked = packets["time_ns"][back], run.recovery.acked[back]
        first, last = (acknowledged_at(came, acked, at) for at in (since, until))
        found.append(last - first)
    return found


def _numbers(run: CapturedRecord, group: _Group, found: Sequence[_Group]) -> dict[str, Any]:
    """One group's numbers in the window; None where one is undefined."""
    way, (start, end) = group.way, run.window_ns
    since, until = max(start, group.active_ns[0]), min(end, group.active_ns[1])
    active = max(0, until - since) / 1e9
    gained = {
        other.name: _acknowledged(run, other, since, until)
        for other in found
        if other.way is way and active
    }
    shares = gained.get(group.name, [])
    total = sum(map(sum, gained.values()))
    own = group.sent(way.entered)
    judged = own & run.judged(way.transit)
    transit = way.transit
    size, lost = transit.ip_length[judged], transit.lost[judged]
    loss = or_none(definitions.loss_fraction, size, lost)
    marks = _ce(way.left, group.sent(way.left), run) - _ce(way.entered, own, run)
    back = run.captures["sender"].packets
    accurate = any(group.expect["sender"] == sender for sender, *_ in accurate_ends(run))
    echoes = group.answers(back) & (back["flags"] & _ECE > 0) & (back["flags"] & 2 == 0)
    return {
        **{key: group.expect[key] for key in ("name", "direction", "flows")},
        "active_s": active,
        "throughput_bytes_per_s": sum(shares) / active if active else None,
        "share": sum(shares) / total if total else None,
        "goodput_jain": or_none(jain_index, shares),
        "timeouts": sum(row["timeouts"] for row in group.rows),
        "retransmissions": sum(row["retransmissions"] for row in group.rows),
        "events": dict(sum((Counter(row["events"]) for row in group.rows), Counter())),
        "loss_percent": None if loss is None else 100 * loss,
        "ce_packets": marks,
        "ece_acks": None if accurate else int(np.sum(echoes & _within(run, back["time_ns"]))),
        "queueing_delay_s": _delays(way, judged),
        **_completion(group),
    }


def _completion(group: _Group) -> dict[str, Any]:
    """Flows of the whole run that have sent their volume, and in what time; None without one."""
    if group.expect["volume_bytes"] is None:
        return {"finished": None, "completion_s": None}
    took = np.array(group.took_s)
    times = {f"p{at}": or_none(percentile, took, at) for at in (50, 95)}
    longest = float(np.max(took)) if took.size else None
    return {"finished": took.size, "completion_s": {**times, "max": longest}}


def _within(run: CapturedRecord, time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    start, end = run.window_ns
    return np.asarray((time_ns >= start) & (time_ns < end), np.bool_)


def _ce(packets: MarkArray, own: NDArray[np.bool_], run: CapturedRecord) -> int:
    """Packets of those in the window that carry Congestion Experienced."""
    marked = own & (packets["tos"] & _ECN == _CE) & _within(run, packets["time_ns"])
    return int(np.sum(marked))


def _stays(way: Way, judged: NDArray[np.bool_]) -> NDArray[np.float64]:
    return definitions.delays(way.transit.arrival_ns[judged], way.transit.departure_ns[judged])


def _delays(way: Way, judged: NDArray[np.bool_]) -> dict[str, float | None]:
    """Mean and percentiles of what packets stayed in the queue, s."""
    stay = _stays(way, judged)
    return {
        "mean": float(np.mean(stay)) if stay.size else None,
        **{f"p{at}": or_none(percentile, stay, at) for at in PERCENTILES},
        "max": float(np.max(stay)) if stay.size else None,
    }


def _queue(run: CapturedRecord, way: Way) -> dict[str, Any]:
    """One direction's queue in the window: everything that passed it, acknowledgements too."""
    place, transit, judged = way.expect["bottleneck"], way.transit, run.judged(way.transit)
    gone = transit.wire_length[_within(run, transit.departure_ns)]
    loss = or_none(definitions.loss_fraction, transit.ip_length[judged], transit.lost[judged])
    every = np.ones(way.entered.size, np.bool_), np.ones(way.left.size, np.bool_)
    return {
        "direction": way.name,
        "device": place["device"],
        "utilisation": or_none(
            utilisation, int(np.sum(gone)), mean_rate(place, run.window_s), run.seconds
        ),
        "loss_percent": None if loss is None else 100 * loss,
        "ce_packets": _ce(way.left, every[1], run) - _ce(way.entered, every[0], run),
        "queueing_delay_s": _delays(way, judged),
    }


def _opposite(way: Way) -> dict[str, Test]:
    """Give the checks of the queue in the opposite direction."""
    wanted, transit = way.expect["qdisc"], way.transit
    entered = as_queued(wanted, transit.arrival_ns, transit.record)
    came = transit.tos[entered & ~transit.lost]
    left = way.left["tos"][as_queued(wanted, way.left["time_ns"], way.left["record"])]
    loss: dict[str, Test] = {"opposite_loss_matches_qdisc": lambda f, _: _loss_matches(f, way)}
    marks: dict[str, Test] = {
        "opposite_marks_match_qdisc": lambda f, _: marks_match(f, wanted, came, left),
    }
    return loss | marks if "counters" in wanted else loss


def _loss_matches(files: RunFiles, way: Way) -> CheckResult:
    """Over the whole run the captures miss exactly the packets that the queue dropped."""
    transit = way.transit
    queued = as_queued(way.expect["qdisc"], transit.arrival_ns, transit.record)
    seen = int(np.sum(queued & transit.lost))
    counted = root_drops(files, way.expect["bottleneck"]["device"])
    return seen == counted, f"captures {seen}, qdisc {counted}"


def fair_from(acked: ArrayLike, first: int, last: int) -> float | None:
    """Seconds from a change until flows share the link fairly.

    Until the end of the first second in which Jain's index of the flows' bytes is `FAIR` or more.

    Parameters
    ----------
    acked : array_like, shape (flows, n)
        Bytes of each flow that is active, in bins of `BIN_S`.
    first, last : int
        Bin of the change; bin that follows the last one that counts.

    Returns
    -------
    float or None
        None if they never do.

    Examples
    --------
    The second flow has nothing for 2 s, then as much as the first:

    >>> import numpy as np
    >>> shares = np.full((2, 50), 100)
    >>> shares[1, :20] = 0
    >>> fair_from(shares, 0, 50)
    2.7
    """
    bins = round(FAIR_S / BIN_S)
    total = np.cumsum(np.asarray(acked, np.float64), axis=1)
    total = np.concatenate([np.zeros((total.shape[0], 1)), total], axis=1)
    for end in range(first + bins, last + 1):
        got = total[:, end] - total[:, end - bins]
        if np.any(got > 0) and jain_index(got) >= FAIR:
            return round((end - first) * BIN_S, 9)
    return None


def _changes(
    run: CapturedRecord, found: Sequence[_Group], acked: NDArray[np.uint32]
) -> list[dict[str, Any]]:
    """Groups that begin or end beside others, and the time until all that are active share fairly.

    Flows of one direction are compared; groups that limit what they send are left out.  What joins
    or leaves is the file's word and the same in all runs of a cell; a join is over with the last
    start of the group's flows.
    """
    greedy = [group for group in found if group.expect["greedy"] and group.rows]
    changes = [
        (planned, word, at, group)
        for group in greedy
        for word, planned, at in _ends(run, group)
        if _shared_by(greedy, group, word, planned) > 1
    ]
    result = []
    for _, word, at, changed in sorted(changes, key=lambda change: change[0]):
        together = [group for group in greedy if group.way is changed.way]
        later = [time for group in together for time in _instants(run, group) if time > at]
        until = (min([*later, run.window_ns[1]]) - run.epoch_ns) / 1e9
        active = [
            row["flow"]
            for group in together
            for row in group.rows
            if group.active_ns[0] <= at < group.active_ns[1]
        ]
        time = (at - run.epoch_ns) / 1e9
        first = ceil(round(time / BIN_S, 6))
        wait = fair_from(acked[active], first, floor(round(until / BIN_S, 6)))
        if wait is not None:
            wait = round(wait + first * BIN_S - time, 9)
        result.append(
            {"group": changed.name, "change": word, "time_s": time}
            | {"fair_after_s": wait if len(active) > 1 else None}
        )
    return result


def _ends(run: CapturedRecord, group: _Group) -> Iterator[tuple[str, float, int]]:
    """Yield a group's join and leave: the word, the planned time, s, and the instant, ns."""
    yield "join", float(group.expect["start_s"]), group.active_ns[0]
    if (stop := group.expect["stop_s"]) is not None and group.active_ns[1] < run.window_ns[1]:
        yield "leave", float(stop), group.active_ns[1]


def _shared_by(greedy: Sequence[_Group], group: _Group, word: str, at: float) -> int:
    """Count the flows that share after a planned change; 0 for a join where there was none."""
    joins, count = word == "join", 0
    for other in greedy:
        start, stop = other.expect["start_s"], other.expect["stop_s"]
        there = start < at if joins else start <= at
        if other is not group and other.way is group.way and there and (stop is None or at < stop):
            count += len(other.rows)
    return count + len(group.rows) * joins if count else 0


def _instants(run: CapturedRecord, group: _Group) -> tuple[int, ...]:
    """When what is active may change by a group: while its flows start, and when they end."""
    return run.at_sender(group.expect, group.expect["first_start_s"]), *group.active_ns


def _edges(run: CapturedRecord) -> NDArray[np.int64]:
    """Bounds of the bins, from the epoch to the end of the window."""
    bins = -(-(run.window_ns[1] - run.epoch_ns) // _BIN_NS)
    return np.asarray(run.epoch_ns + _BIN_NS * np.arange(bins + 1), np.int64)


@dataclass(frozen=True)
class GroupSeries:
    """What is in ``groups.npz``: the first bin begins at the run's epoch.

    Attributes
    ----------
    bin_s : float64, shape ()
        Length of a bin.
    window_s : float64, shape (2,)
        The measured window, seconds after the epoch.
    acked_bytes : uint32, shape (flows, n)
        Payload bytes newly acknowledged, by the capture at the sender.
    delay_mean_s, delay_max_s : float32, shape (directions, n)
        What packets that came in a bin stayed in the queue of a direction, ``up`` first; NaN
        without packets.
    delay_quantiles_s : float32, shape (groups, QUANTILES)
        Quantiles of the queueing delay of a group's data packets in the window; NaN without any.
    """

    bin_s: NDArray[np.float64]
    window_s: NDArray[np.float64]
    acked_bytes: NDArray[np.uint32]
    delay_mean_s: NDArray[np.float32]
    delay_max_s: NDArray[np.float32]
    delay_quantiles_s: NDArray[np.float32]

    @property
    def time_s(self) -> NDArray[np.float64]:
        """Middle of each bin, shape (n,)."""
        return np.asarray((np.arange(self.acked_bytes.shape[1]) + 0.5) * self.bin_s, np.float64)


def _series(
    run: CapturedRecord,
    found: Sequence[_Group],
    ways: Mapping[str, Way],
    acked: NDArray[np.uint32],
) -> GroupSeries:
    delays = [_delays_in_bins(way.transit, _edges(run)) for way in ways.values()]
    return GroupSeries(
        bin_s=np.array(BIN_S),
        window_s=np.array(run.window_s),
        acked_bytes=acked,
        delay_mean_s=np.stack([mean for mean, _ in delays]),
        delay_max_s=np.stack([largest for _, largest in delays]),
        delay_quantiles_s=np.stack([_quantiles(run, group) for group in found]),
    )


def _delays_in_bins(
    transit: Transit, edges: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Give mean and maximum stay of the packets that came in each bin, s; NaN without any."""
    through, bins = ~transit.lost, edges.size - 1
    came = transit.arrival_ns[through]
    stay = (transit.departure_ns[through] - came) / 1e9
    at = np.searchsorted(edges, came, side="right") - 1
    inside = (at >= 0) & (at < bins)
    at, stay = at[inside], stay[inside]
    number, total = np.bincount(at, minlength=bins), np.bincount(at, stay, bins)
    largest = np.full(bins, -np.inf)
    np.maximum.at(largest, at, stay)
    mean = np.divide(total, number, out=np.full(bins, np.nan), where=number > 0)
    return mean.astype(np.float32), np.where(number > 0, largest, np.nan).astype(np.float32)


def _quantiles(run: CapturedRecord, group: _Group) -> NDArray[np.float32]:
    stay = _stays(group.way, group.sent(group.way.entered) & run.judged(group.way.transit))
    if not stay.size:
        return np.full(QUANTILES, np.nan, np.float32)
    wanted = np.linspace(0, 1, QUANTILES)
    return np.quantile(stay, wanted, method="inverted_cdf").astype(np.float32)


def read_groups(files: RunFiles) -> GroupSeries:
    """Read ``groups.npz``.

    Raises
    ------
    TraceError
        If the run has no groups, or the file is damaged or of another layout.
    """
    return GroupSeries(**read_arrays(files, files.groups, [f.name for f in fields(GroupSeries)]))

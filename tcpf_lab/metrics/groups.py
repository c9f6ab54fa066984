"""Groups of flows: what each gets, what its packets wait, and how the groups share the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.capacity import mean_rate
from tcpf_lab.metrics.captured import CapturedRecord, Way, flow_row, gained_bytes
from tcpf_lab.metrics.definitions import jain_index, percentile, utilisation
from tcpf_lab.metrics.from_counters import Extra, or_none
from tcpf_lab.metrics.in_force import CheckResult
from tcpf_lab.metrics.queue_counters import marks_match
from tcpf_lab.metrics.record import Record, root_drops
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
    """A group, its flows' numbers, and which of its data packets are in what entered and left."""

    expect: dict[str, Any]
    way: Way
    rows: list[dict[str, Any]]
    ports: tuple[int, int]

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
    found = [_group(run, ways, wanted) for wanted in run.expect["groups"]]
    acked = acked_in_bins(run, _edges(run))
    series = _series(run, found, ways, acked)
    write_arrays(files.groups, {f.name: getattr(series, f.name) for f in fields(series)})
    checks = _opposite(ways["down"]) if "down" in ways else {}
    return Extra(
        sections={
            "groups": [_numbers(run, group, _share(run, group, found, acked)) for group in found],
            "queues": [_queue(run, way) for way in ways.values()],
            "changes": _changes(run, found, acked),
        },
        checks=apply(checks, files, run),
    )


def _group(run: CapturedRecord, ways: dict[str, Way], wanted: dict[str, Any]) -> _Group:
    first, flows = int(wanted["first"]), int(wanted["flows"])
    rows = [flow_row(run, flow, gained_bytes(run, flow)) for flow in range(first, first + flows)]
    port = int(run.expect["source_port"]) + first
    return _Group(wanted, ways[wanted["direction"]], rows, (port, port + flows))


def _active(run: CapturedRecord, group: _Group) -> tuple[float, float]:
    """Give from when to when the group is active in the window, seconds after the epoch."""
    start, end = ((at - run.epoch_ns) / 1e9 for at in run.window_ns)
    stop = group.expect["stop_s"]
    return max(start, float(group.expect["start_s"])), end if stop is None else min(end, stop)


def _share(
    run: CapturedRecord, group: _Group, found: Sequence[_Group], acked: NDArray[np.uint32]
) -> float | None:
    """Give the group's share of the bytes of its direction while it is active."""
    start, stop = (round(at / BIN_S) for at in _active(run, group))
    rows = {
        other.name: acked[[row["flow"] for row in other.rows], start:stop].sum(dtype=np.int64)
        for other in found
        if other.way is group.way and other.rows
    }
    total = int(sum(rows.values()))
    return int(rows.get(group.name, 0)) / total if total else None


def _numbers(run: CapturedRecord, group: _Group, share: float | None) -> dict[str, Any]:
    """One group's numbers in the window; None where one is undefined."""
    way, (start, stop) = group.way, _active(run, group)
    gained = sum(row["goodput_bytes_per_s"] for row in group.rows) * run.seconds
    own = group.sent(way.entered)
    judged = own & run.judged(way.transit)
    transit = way.transit
    size, lost = transit.ip_length[judged], transit.lost[judged]
    loss = or_none(definitions.loss_fraction, size, lost)
    marks = _ce(way.left, group.sent(way.left), run) - _ce(way.entered, own, run)
    back = run.captures["sender"].packets
    echoes = group.answers(back) & (back["flags"] & _ECE > 0) & (back["flags"] & 2 == 0)
    shares = [row["goodput_bytes_per_s"] for row in group.rows]
    return {
        **{key: group.expect[key] for key in ("name", "direction", "flows")},
        "active_s": max(0.0, stop - start),
        "throughput_bytes_per_s": gained / (stop - start) if stop > start else None,
        "share": share,
        "goodput_jain": or_none(jain_index, shares),
        "timeouts": sum(row["timeouts"] for row in group.rows),
        "retransmissions": sum(row["retransmissions"] for row in group.rows),
        "events": dict(sum((Counter(row["events"]) for row in group.rows), Counter())),
        "loss_percent": None if loss is None else 100 * loss,
        "ce_packets": marks,
        "ece_acks": int(np.sum(echoes & _within(run, back["time_ns"]))),
        "queueing_delay_s": _delays(way, judged),
    }


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
    wanted, came = way.expect["qdisc"], way.transit.tos[~way.transit.lost]
    loss: dict[str, Test] = {"opposite_loss_matches_qdisc": lambda f, _: _loss_matches(f, way)}
    marks: dict[str, Test] = {
        "opposite_marks_match_qdisc": lambda f, _: marks_match(f, wanted, came, way.left["tos"]),
    }
    return loss | marks if "counters" in wanted else loss


def _loss_matches(files: RunFiles, way: Way) -> CheckResult:
    """Over the whole run the captures miss exactly the packets that the queue dropped."""
    seen = int(np.sum(way.transit.lost))
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

    Flows of one direction are compared; groups that limit what they send are left out.
    """
    found = [group for group in found if group.expect["greedy"]]
    if not found:
        return []
    begin = min(float(group.expect["start_s"]) for group in found)
    end = (run.window_ns[1] - run.epoch_ns) / 1e9
    changes = [
        (float(at), word, group)
        for group in found
        for word, at in (("join", group.expect["start_s"]), ("leave", group.expect["stop_s"]))
        if at is not None and begin < at < end and group.rows
    ]
    times = [*sorted({at for at, _, _ in changes}), end]
    result = []
    for at, word, changed in sorted(changes, key=lambda change: change[0]):
        until = next(later for later in times if later > at)
        active = [
            row["flow"]
            for group in found
            for row in group.rows
            if group.way is changed.way and _is_active(group, at)
        ]
        wait = fair_from(acked[active], round(at / BIN_S), round(until / BIN_S))
        result.append(
            {"group": changed.name, "change": word, "time_s": at}
            | {"fair_after_s": wait if len(active) > 1 else None}
        )
    return result


def _is_active(group: _Group, at: float) -> bool:
    stop = group.expect["stop_s"]
    return bool(group.expect["start_s"] <= at and (stop is None or at < stop))


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
        window_s=np.array([(at - run.epoch_ns) / 1e9 for at in run.window_ns]),
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

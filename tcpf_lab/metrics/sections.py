"""What only some runs have: half-duplex wires, several bottlenecks, background, users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.metrics.agreement import WRAPS
from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.counters import (
    TIMES,
    Station,
    interfaces,
    node_of,
    onwards,
    queue_window,
    ring_of,
    source_counts,
    sources,
    station,
    window_counters,
    window_qdiscs,
)
from tcpf_lab.metrics.definitions import goodput, mean_goodput, percentile, utilisation
from tcpf_lab.metrics.from_counters import Extra, or_none, per_minute
from tcpf_lab.metrics.in_force import CheckResult, verdict
from tcpf_lab.metrics.record import Record, UnreadableError, qdiscs
from tcpf_lab.metrics.series import write_arrays
from tcpf_lab.metrics.transfers import (
    FAILED,
    FINISHED,
    THINKING,
    UNDERWAY,
    UNTOLD,
    in_window,
    read_transfers,
    users_finished,
)
from tcpf_lab.metrics.validity import acked_by_kernel, apply
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.graph import LARGEST

#: Of IEEE 802.3: preamble and delimiter in bits; checksum and shortest frame in bytes.
_PREAMBLE, _FCS, _SHORTEST = 64, 4, 64
#: The shortest frame that ``ip`` counts: an Ethernet header.
_HEADER = 14


def wires(files: RunFiles, run: Record) -> Extra:
    """Give the section ``wires`` of a run with half-duplex links.

    Each wire has the shares of the measured window in which it carried frames that arrived
    (``busy``), collisions (``contention``) and neither (``idle``), and the whole run's
    ``collisions``, ``deferred`` and ``excessive`` of its two stations, in the order of ``devices``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without such links.
    """
    if "wires" not in run.expect:
        return Extra()
    sections = {"wires": [_wire(files, wire["devices"]) for wire in run.expect["wires"]]}
    tests = {"wires_in_force": _in_force, "wires_add_up": _add_up}
    return Extra(sections=sections, checks=apply(tests, files, run))


def _wire(files: RunFiles, devices: list[str]) -> dict[str, Any]:
    """Describe one wire; what cannot be read is None, and a check fails."""
    try:
        ends = [station(files, device) for device in devices]
        start, end = (station(files, devices[0], f"-window-{at}") for at in ("start", "end"))
    except UnreadableError:
        return {"devices": devices}
    length = end.age_ns - start.age_ns
    return {
        "devices": devices,
        **{name: (end.counts[name] - start.counts[name]) / length for name in TIMES},
        **{key: [e.counts[key] for e in ends] for key in ("collisions", "deferred", "excessive")},
    }


def _in_force(files: RunFiles, run: Record) -> CheckResult:
    """Each link must be a wire of the requested rate, and its stations have the requested rings."""
    problems = []
    for wire in run.expect["wires"]:
        for device in wire["devices"]:
            found = station(files, device)
            requested = {name: wire[name] for name in ("rate_bits_per_s", "ring")}
            problems += [
                f"{device}: {name} is {getattr(found, name)}, not {wanted}"
                for name, wanted in requested.items()
                if getattr(found, name) != wanted
            ]
    return verdict(problems, f"{len(run.expect['wires'])} half-duplex links")


def _add_up(files: RunFiles, run: Record) -> CheckResult:
    """What a station has sent must have arrived, and taken the time that its bits take."""
    problems = []
    for wire in run.expect["wires"]:
        near, far = (station(files, device) for device in wire["devices"])
        both = " and ".join(wire["devices"])
        if near.sent != far.received or far.sent != near.received:
            problems.append(f"{both}: not all that one sent the other received")
        busy = near.counts["busy"]
        low, high = (
            sum(_on_wire(end, padding) for end in (near, far)) for padding in (False, True)
        )
        if not low <= busy <= high:
            problems.append(f"{both}: busy for {busy} ns, but the frames take {low} to {high} ns")
    return verdict(problems, "all that was sent has arrived, in the time that frames take")


def _on_wire(end: Station, padding: bool) -> int:
    """Time that a station's frames take, ns: at least, or if as many are padded as can be."""
    packets, size = end.sent
    size = max(size + _FCS * packets, _SHORTEST * packets)
    more = (_SHORTEST - _FCS - _HEADER) * packets if padding else 0
    return (packets * _PREAMBLE + 8 * (size + more)) * 10**9 // end.rate_bits_per_s


#: A shaper may send so much more than its rate within a window: its burst at the beginning.
_RATE_TOLERANCE = 0.005
#: The longest frame of a ring, bytes.
_FRAME = 1514
#: Packets that the captures and the counters may see on different sides of an end of the window.
_EDGE_PACKETS = 2


def parking_lot(files: RunFiles, run: Record) -> Extra:
    """Give the sections ``bottlenecks`` and ``cross`` of a run with cross traffic.

    Every bottleneck has its utilisation, packets dropped and their share in per
    cent, from its counters at the window's ends. Cross traffic has, for each bottleneck in the same
    order, mean goodput in bytes/s and timeouts of all its flows, from their TCP_INFO.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without cross traffic.
    """
    if "cross" not in run.expect:
        return Extra()
    bottlenecks = [_bottleneck(files, run, one) for one in run.expect["bottlenecks"]]
    cross = [_cross(run, one) for one in run.expect["cross"]]
    tests = {
        **({"window_counters": window_counters} if run.was_captured else {}),
        "window_matches_captures": _matches_captures,
        "no_bottleneck_too_fast": _not_too_fast,
    }
    return Extra(
        sections={"bottlenecks": bottlenecks, "cross": cross}, checks=apply(tests, files, run)
    )


def _bottleneck(files: RunFiles, run: Record, wanted: dict[str, Any]) -> dict[str, Any]:
    """One bottleneck's window; numbers are None where its counters cannot be read."""
    try:
        window = queue_window(files, wanted["device"])
    except UnreadableError:  # reported by `window_counters`
        nothing = dict.fromkeys(("utilisation", "packets_dropped", "packet_loss_percent"))
        return {"node": wanted["node"], **nothing}
    rate = float(wanted["rate_bits_per_s"])
    # Segments leave, but packets of several are dropped.
    whole = wanted["qdisc"].get("whole")
    share = 100 * window.drops / window.arrivals if window.arrivals > 0 and not whole else None
    return {
        "node": wanted["node"],
        "utilisation": utilisation(window.bytes, rate, run.seconds),
        "packets_dropped": window.drops,
        "packet_loss_percent": share,
    }


def _cross(run: Record, wanted: dict[str, Any]) -> dict[str, Any]:
    """The flows across one bottleneck; None where they left no TCP_INFO, or it has no count."""
    first = int(wanted["first"]) - run.count
    own = slice(first, first + int(wanted["flows"]))
    ends = list(
        zip(*(run.cross_samples.get(label, [])[own] for label in ("start", "end")), strict=True)
    )
    if not ends:
        return {"node": wanted["node"], "goodput_bytes_per_s": None, "timeouts": None}
    acked, times = (
        np.array([[read(sample) for sample in pair] for pair in ends], np.int64)
        for read in (acked_by_kernel, lambda sample: int(sample["time_ns"]))
    )
    expiries = [
        (int(end["total_rto"]) - int(start.get("total_rto", 0))) % WRAPS
        for start, end in ends
        if "total_rto" in end
    ]
    return {
        "node": wanted["node"],
        "goodput_bytes_per_s": mean_goodput(goodput(*acked.T, *times.T)),
        "timeouts": sum(expiries) if len(expiries) == len(ends) else None,
    }


def _matches_captures(files: RunFiles, run: Record) -> CheckResult:
    """At the bottleneck with the captures both must have seen the same packets leave."""
    if not isinstance(run, CapturedRecord):
        return None, "no captures"
    start, end = run.window_ns
    left = run.transit.departure_ns
    seen = int(np.sum((left >= start) & (left < end)))
    device = run.expect["bottleneck"]["device"]
    counted = queue_window(files, device).packets
    edge = _EDGE_PACKETS + ring_of(run.expect, device)
    if run.expect["qdisc"].get("whole"):
        edge += 2 * LARGEST // int(run.expect["segments"]["mtu"])
    return abs(seen - counted) <= edge, f"captures {seen}, counters {counted}"


def _not_too_fast(files: RunFiles, run: Record) -> CheckResult:
    """No bottleneck may have sent more than its rate lets through, and its ring holds."""
    problems = []
    for one in run.expect["bottlenecks"]:
        share = _bottleneck(files, run, one)["utilisation"]
        held = ring_of(run.expect, one["device"]) * _FRAME
        rate = float(one["rate_bits_per_s"])
        most = 1 + _RATE_TOLERANCE + utilisation(held, rate, run.seconds)
        if share is not None and share > most:
            problems.append(f"{one['device']}: {share:.3f} of its rate")
    return verdict(problems, f"{len(run.expect['bottlenecks'])} bottlenecks")


#: A burst may be so late, ns: in virtual time no more than reading the clock takes.
LATE_NS, LATE_REAL_NS = 10_000, 2_000_000
#: Parent of the queue for everything that does not go first.
_BEST_EFFORT = "2:2"


def background(files: RunFiles, run: Record) -> Extra:
    """Give the numbers of a run whose case has background, and the checks of it.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        ``background``: for each source packets and bytes (IP) due within the window and their
        share of the bottleneck.  ``tcp_share``: share that TCP's frames took.
        ``tcp_utilisation``: that by what the sources were to leave (paper 001, section 2.3), and
        ``tcp_utilisation_of_rest``: by what they left, which differs where bursts are few.
        ``utilisation`` is of all packets, and ``packet_loss_percent`` without captures of TCP's,
        None where the queue's counters do not separate them.
    """
    if not run.expect.get("background"):
        return Extra()
    rate = float(run.expect["bottleneck"]["rate_bits_per_s"])
    share, used = (
        None if gone is None else or_none(utilisation, gone, rate, run.seconds)
        for gone in (_readable(_tcp_bytes, files, run), _readable(_all_bytes, files, run))
    )
    sent = {name: _sent(files, run, name) for name in sources(run)}
    metrics: dict[str, float | int | None] = {
        "tcp_share": share,
        "tcp_utilisation": _of_rest(share, [s["share"] for s in sources(run).values()]),
        "tcp_utilisation_of_rest": _of_rest(share, [s["share"] for s in sent.values()]),
        "utilisation": used,
    }
    if not run.was_captured:
        metrics["packet_loss_percent"] = _readable(_packet_loss, files, run)
    checks = {"background_sent": background_sent}
    if run.was_captured:
        checks["window_counters"] = window_counters
    return Extra(metrics, {"background": sent}, apply(checks, files, run))


def _of_rest(share: float | None, taken: Sequence[float | int | None]) -> float | None:
    """Give a share of the bottleneck as one of what others leave; None where that is not known."""
    known = [part for part in taken if part is not None]
    if share is None or len(known) < len(taken) or sum(known) >= 1:
        return None
    return share / (1 - sum(known))


def background_sent(files: RunFiles, run: Record) -> CheckResult:
    """What was due must have been sent, on time, and must have reached the bottleneck's router."""
    problems: list[str] = []
    latest, total = 0, 0
    for name, source in sources(run).items():
        end = source_counts(files, source)["end"]
        due, late = int(end["packets"]), int(end["late_ns"])
        latest, total = max(latest, late), total + due
        if int(end["errors"]):
            problems.append(f"{name}: {end['errors']} packets not sent: {end.get('error')}")
        (root,) = (q for q in qdiscs(files, source["device"]) if q.get("root"))
        if int(root["drops"]) or int(root["packets"]) != due:
            counts = f"{due} due, {root['packets']} sent, {root['drops']} dropped"
            problems.append(f"{name}: {counts} on {source['device']}")
        if late > (LATE_REAL_NS if run.real_time else LATE_NS):
            problems.append(f"{name}: a burst was {late / 1e6:.3f} ms late")
        if not run.real_time:
            came = interfaces(files, f"dev-{node_of(source['into'])}.txt")[source["into"]]
            if came["rx_packets"] != due:
                problems.append(f"{name}: {came['rx_packets']} of {due} came to {source['into']}")
    return verdict(problems, f"{total} packets, none lost or later than {latest} ns")


def _readable(number: Any, files: RunFiles, run: Record) -> Any:
    """Give a number, None where its source is missing: a check fails."""
    try:
        return number(files, run)
    except (UnreadableError, KeyError, ValueError):
        return None


def _sent(files: RunFiles, run: Record, name: str) -> dict[str, float | int | None]:
    """Give what was due of a source within the window."""
    source = sources(run)[name]
    try:
        counts = source_counts(files, source)
        packets = int(counts["end-sample"]["packets"]) - int(counts["start-sample"]["packets"])
    except (UnreadableError, KeyError, ValueError):
        return {"packets": None, "bytes": None, "share": None}
    rate = float(run.expect["bottleneck"]["rate_bits_per_s"])
    share = or_none(utilisation, packets * int(source["frame"]), rate, run.seconds)
    return {"packets": packets, "bytes": packets * int(source["packet"]), "share": share}


def _tcp_bytes(files: RunFiles, run: Record) -> int:
    """Bytes of the frames that left the bottleneck in the window and went on."""
    behind = run.expect["background"]["behind"]
    start, end = (
        onwards(interfaces(files, f"dev-window-{label}-{node_of(behind)}.txt"), behind, "tx_bytes")
        for label in ("start", "end")
    )
    return end - start


def _all_bytes(files: RunFiles, run: Record) -> int:
    """Bytes of all frames that left the bottleneck in the window."""
    return queue_window(files, run.expect["bottleneck"]["device"]).bytes


def _packet_loss(files: RunFiles, run: Record) -> float | None:
    """Loss of TCP's packets, percent, where all of the background has a queue of its own."""
    device = run.expect["bottleneck"]["device"]
    if not all(source["first"] for source in sources(run).values()):
        return None
    start, end = (
        next(q for q in window_qdiscs(files, device, label) if q.get("parent") == _BEST_EFFORT)
        for label in ("start", "end")
    )
    left, dropped, waiting = (
        int(end[key]) - int(start[key]) for key in ("packets", "drops", "qlen")
    )
    came = left + dropped + waiting
    return 100 * dropped / came if came else None


#: Sizes for which throughput is given, bytes, and how far from one a transfer may be.
SIZES = {"100kB": 100_000, "500kB": 500_000, "1000kB": 1_000_000}
SIZE_TOLERANCE = 0.2
_KEPT = ("user", "number", "size", "acked", "start_ns", "end_ns", "retransmissions", "timeouts")


def users(files: RunFiles, run: Record) -> Extra:
    """Work out the numbers of a run's users, and write ``transfers.npz``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty if the run has no users.
    """
    requested = run.expect.get("users")
    if requested is None:
        return Extra()
    checks = apply({"users_finished": users_finished}, files, run)
    try:
        transfers = read_transfers(files, requested, run.clocks)
    except UnreadableError:  # the check fails
        return Extra(checks=checks)
    _write(files, transfers)
    done = in_window(transfers, run)
    return Extra(
        metrics=_metrics(run, done),
        sections={"users": {**_described(done), **_others(transfers)}},
        checks=checks,
    )


def throughput(size: ArrayLike, start_ns: ArrayLike, end_ns: ArrayLike) -> NDArray[np.float64]:
    """Throughput of each transfer, from its SYN to the peer's FIN.

    .. math:: 8 X / (t_{FIN} - t_{SYN})

    Parameters
    ----------
    size : array_like, shape (n,)
        Bytes.
    start_ns, end_ns : array_like, shape (n,)
        When the connection was begun, and when the peer's FIN had come.

    Returns
    -------
    ndarray, shape (n,)
        bit/s.

    Raises
    ------
    ValueError
        If a transfer took no time.

    Examples
    --------
    >>> throughput([100_000], [1_000_000_000], [1_500_000_000]).tolist()
    [1600000.0]
    """
    took = np.asarray(end_ns, np.int64) - np.asarray(start_ns, np.int64)
    if np.any(took <= 0):
        raise ValueError("a transfer that took no time has no throughput")
    return np.asarray(8e9 * np.asarray(size, np.float64) / took, np.float64)


def near(size: ArrayLike, wanted: float) -> NDArray[np.bool_]:
    """Tell which sizes are within 20 per cent of one, both ends included.

    Examples
    --------
    >>> near([79_999, 80_000, 120_000, 120_001], 100_000).tolist()
    [False, True, True, False]
    """
    off = np.abs(np.asarray(size, np.float64) - wanted)
    return np.asarray(off <= SIZE_TOLERANCE * wanted, np.bool_)


def _metrics(run: Record, done: NDArray[Any]) -> dict[str, float | int | None]:
    """What takes the place of the flows' numbers; what users got differs by what they drew."""
    known = not np.any(done["timeouts"] == UNTOLD)
    expiries = int(np.sum(done["timeouts"], dtype=np.int64)) if known else None
    payload = np.bincount(done["user"], done["size"], run.count) / run.seconds
    return {
        "timeouts": expiries,
        "timeouts_per_flow_minute": per_minute(run, expiries),
        "syn_timeouts": None,  # in the above: TCP_INFO counts them together
        "retransmissions": int(np.sum(done["retransmissions"], dtype=np.int64)),
        "goodput_bytes_per_s": or_none(mean_goodput, payload),
    }


def _described(done: NDArray[Any]) -> dict[str, Any]:
    """Numbers of the transfers that ended in the window."""
    took = (done["end_ns"] - done["start_ns"]) / 1e9
    speed = throughput(done["size"], done["start_ns"], done["end_ns"])
    return {
        "transfers": int(done.size),
        "bytes": int(np.sum(done["size"])),
        "mean_size": float(np.mean(done["size"])) if done.size else None,
        "completion_s": {
            "mean": float(np.mean(took)) if done.size else None,
            **{f"p{at}": or_none(percentile, took, at) for at in (50, 95, 99)},
        },
        "throughput_by_size": {
            name: _mean_of(speed[near(done["size"], size)]) for name, size in SIZES.items()
        },
    }


def _mean_of(speed: NDArray[np.float64]) -> dict[str, float | int | None]:
    mean = float(np.mean(speed)) if speed.size else None
    return {"mean_bits_per_s": mean, "n": int(speed.size)}


def _others(transfers: NDArray[Any]) -> dict[str, int]:
    """Transfers of the whole run that did not end well, or not before its end."""
    return {
        name: int(np.sum(transfers["state"] == state))
        for name, state in (("failed", FAILED), ("unfinished", UNDERWAY))
    }


def _write(files: RunFiles, transfers: NDArray[Any]) -> None:
    """Write every transfer that was begun, finished or not."""
    begun = transfers[transfers["state"] != THINKING]
    columns = {name: np.ascontiguousarray(begun[name]) for name in _KEPT}
    write_arrays(files.transfers, {**columns, "finished": begun["state"] == FINISHED})

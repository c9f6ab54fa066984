"""Background: what its sources sent, and what it left of the bottleneck to TCP.

What passes the bottleneck goes on to the receivers if it is TCP's, and ends behind it if it is the
background's.  So the interfaces of the router behind the bottleneck tell the two apart, whatever
the queue in front of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcpf_lab.metrics.counters import (
    interfaces,
    node_of,
    onwards,
    queue_window,
    source_counts,
    sources,
    window_counters,
    window_qdiscs,
)
from tcpf_lab.metrics.definitions import utilisation
from tcpf_lab.metrics.from_counters import Extra, or_none
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record, UnreadableError, qdiscs
from tcpf_lab.metrics.validity import apply
from tcpf_lab.results.layout import RunFiles

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
        None where the queue's counters do not tell them apart.
    """
    if not run.expect.get("background"):
        return Extra()
    rate = float(run.expect["bottleneck"]["rate_bits_per_s"])
    seconds = (run.window_ns[1] - run.window_ns[0]) / 1e9
    share, used = (
        None if gone is None else or_none(utilisation, gone, rate, seconds)
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


def background_sent(files: RunFiles, run: Record) -> Finding:
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
            said = f"{due} due, {root['packets']} sent, {root['drops']} dropped"
            problems.append(f"{name}: {said} on {source['device']}")
        if late > (LATE_REAL_NS if run.real_time else LATE_NS):
            problems.append(f"{name}: a burst was {late / 1e6:.3f} ms late")
        if not run.real_time:
            came = interfaces(files, f"dev-{node_of(source['into'])}.txt")[source["into"]]
            if came["rx_packets"] != due:
                problems.append(f"{name}: {came['rx_packets']} of {due} came to {source['into']}")
    return verdict(problems, f"{total} packets, none lost or later than {latest} ns")


def _readable(number: Any, files: RunFiles, run: Record) -> Any:
    """Give a number, None where what it comes from is not there: a check says so."""
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
    seconds = (run.window_ns[1] - run.window_ns[0]) / 1e9
    share = or_none(utilisation, packets * int(source["frame"]), rate, seconds)
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

"""Whether a run measured what it was meant to measure.

Each check reads what the testbed recorded and compares it with the plan.  A file that is missing
is a check that failed, with its name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcpf_lab.metrics import in_force
from tcpf_lab.metrics.agreement import timeouts_match
from tcpf_lab.metrics.capacity import backlogged_share, changes
from tcpf_lab.metrics.captured import CapturedRecord, as_queued, flows_match, is_possible_gain
from tcpf_lab.metrics.counters import background_drops, given_up, ring_of, sources, window_counters
from tcpf_lab.metrics.in_force import CheckResult, differences, verdict
from tcpf_lab.metrics.record import (
    EPOCH_FILE,
    Record,
    UnreadableError,
    action,
    link_drops,
    qdiscs,
    root_drops,
    stats_json,
    text_of,
)
from tcpf_lab.metrics.transfers import users_connected
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import UNKNOWN
from tcpf_lab.trace.passage import backlogged_rate

#: tc counts time in 64 ns and cuts what it shows to whole microseconds.
_TIME_STEP_S = 1e-6
#: How far the lost packets may be from their expected number: no chance deviates so much.
_DEVIATIONS = 6.0


def impairments_in_force(files: RunFiles, run: Record) -> CheckResult:
    """Every impaired device has the requested ``netem``, and all its losses are netem's."""
    wanted = run.expect.get("impaired_devices")
    if not wanted:
        return None, "nothing is impaired"
    problems, lost = [], 0
    for device, requested in wanted.items():
        found = qdiscs(files, device)
        roots = [q for q in found if q.get("root") and q["kind"] == "netem"]
        if not roots:
            problems.append(f"{device} has no netem")
            continue
        below = sum(int(q["drops"]) for q in found if not q.get("root"))
        below += link_drops(files, device) - given_up(files, run, device)
        lost += int(roots[0]["drops"])
        problems += _options(device, roots[0].get("options", {}), requested["options"])
        problems += [f"{device}: {below} lost behind netem"] if below else []
        # netem counts a packet twice that it has to take back; the queue behind it does not.
        passed = min(int(q["packets"]) for q in found)
        problems += _share(device, int(roots[0]["drops"]), passed, requested)
    return verdict(problems, f"{len(wanted)} devices, {lost} packets lost by netem")


def _options(device: str, found: dict[str, Any], requested: dict[str, Any]) -> Iterator[str]:
    for name, values in requested.items():
        shown = dict(found.get(name) or {})
        if name == "delay":
            shown |= {key: value for key, value in values.items() if _same_time(shown, key, value)}
        yield from differences(f"{device}: netem {name}", shown, values)


def _same_time(shown: dict[str, Any], key: str, requested: float) -> bool:
    return key in shown and abs(float(shown[key]) - requested) <= 1.01 * _TIME_STEP_S


def _share(device: str, lost: int, passed: int, requested: dict[str, Any]) -> Iterator[str]:
    """Compare the lost packets with their expected number.

    Losses in bursts of mean length b vary as if there were 2 b - 1 times fewer trials.  netem does
    not count a packet that it both loses and duplicates as lost.
    """
    loss, trials = float(requested["loss"]), passed + lost
    spread = math.sqrt(trials * loss * (1 - loss) * (2 * float(requested["loss_burst"]) - 1))
    most = trials * loss + _DEVIATIONS * spread
    lowest = float(requested.get("loss_lowest", loss))
    least = trials * lowest * (1 - float(requested["duplicate"])) - _DEVIATIONS * spread
    if not least <= lost <= most:
        yield f"{device}: {lost} of {trials} packets lost, requested share {loss:g}"


#: A node's clock must be known this well throughout: 0.03 % of a window of a minute.  Delays are
#: differences of one clock and do not depend on it.
CLOCK_TOLERANCE_NS = 20_000_000
#: An exchange with a node during the run may be so far off the straight line, beyond what its own
#: round trip and the line's ends leave open.  A clock left to itself bends by microseconds in the
#: minutes of a run; one that is slewed by 500 ppm comes so far in 10 s.
STRAY_TOLERANCE_NS = 5_000_000
#: A clock that strays more is being set: Linux corrects rates by 500 parts in a million at most.
DRIFT_TOLERANCE_PPM = 500.0
#: Programs may start, and samples be read, this late; start times are spread over seconds.
LATENESS_TOLERANCE_S = 0.25
_VIRTUAL: CheckResult = (None, "virtual time: one clock")


def clocks_agree(files: RunFiles, run: Record) -> CheckResult:
    """The clocks are known well enough, and ran at a steady rate between the measurements.

    ``stats/clock.json`` has the two measurements and, between them, single exchanges every few
    seconds: a clock that was slewed or set there and back is found by those only.
    """
    if not run.real_time:
        return _VIRTUAL
    nodes = stats_json(files, EPOCH_FILE).get("nodes") or {}
    measured = stats_json(files, "clock.json")
    if not nodes:
        return False, f"stats/{EPOCH_FILE} has no clock of any node"
    problems = []
    for node, clock in nodes.items():
        strayed = _strayed_ns(clock, measured.get(node, ()), run.epoch_ns)
        problems += [f"{node}: {text}" for text in _clock_problems(clock, strayed)]
    worst = max(int(clock["uncertainty_ns"]) for clock in nodes.values())
    fastest = max(abs(float(clock["drift_ppm"])) for clock in nodes.values())
    good = f"{len(nodes)} clocks, known to {worst / 1e6:.2f} ms, drift up to {fastest:.1f} ppm"
    return verdict(problems, good)


def _strayed_ns(
    clock: Mapping[str, Any], measured: Iterable[Mapping[str, Any]], epoch_ns: int
) -> float | None:
    """How far measured offsets are from the straight line, beyond what both leave open."""
    off = [
        abs(one["offset_ns"] - clock["offset_ns"] - 1e-6 * clock["drift_ppm"] * passed)
        - one["round_trip_ns"] / 2
        - clock["uncertainty_ns"]
        for one in measured
        for passed in (one["at_ns"] - epoch_ns,)
    ]
    return max(0.0, *off) if off else None


def _clock_problems(clock: Mapping[str, Any], strayed: float | None) -> Iterator[str]:
    """Yield what is wrong with a node's clock."""
    limit = f"{CLOCK_TOLERANCE_NS / 1e6:g} ms"
    if clock["uncertainty_ns"] > CLOCK_TOLERANCE_NS:
        yield f"known to {clock['uncertainty_ns'] / 1e6:.1f} ms only, limit {limit}"
    if abs(clock["drift_ppm"]) > DRIFT_TOLERANCE_PPM:
        yield f"drifts by {clock['drift_ppm']:.0f} ppm, limit {DRIFT_TOLERANCE_PPM:g} ppm"
    if strayed is None:
        yield "stats/clock.json has no measurement of it"
    elif strayed > STRAY_TOLERANCE_NS:
        allowed = f"limit {STRAY_TOLERANCE_NS / 1e6:g} ms"
        yield f"{strayed / 1e6:.1f} ms off a steady drift, {allowed}"


def started_on_time(files: RunFiles, run: Record) -> CheckResult:
    """Programs started, and samples were read, at the planned times."""
    if not run.real_time:
        return _VIRTUAL
    late = {str(name): float(s) for name, s in stats_json(files, "lateness.json").items()}
    late |= _samples_late(run)
    problems = [
        f"{name}: {seconds:.3f} s late"
        for name, seconds in sorted(late.items(), key=lambda item: -abs(item[1]))
        if abs(seconds) > LATENESS_TOLERANCE_S
    ]
    more = f"; {len(problems) - 3} more of {len(late)}" if len(problems) > 3 else ""
    listed = "; ".join(problems[:3]) + f"{more}; limit {LATENESS_TOLERANCE_S:g} s"
    if problems:
        return False, listed
    worst = max(late.values(), default=0.0)
    return True, f"{len(late)} instants, at most {1e3 * worst:.1f} ms late"


def _samples_late(run: Record) -> dict[str, float]:
    """The latest reading of TCP_INFO at either end of the window, s."""
    found = {}
    for label, wanted in zip(("start", "end"), run.window_ns, strict=True):
        late = [run.epoch_ns + int(row["time_ns"]) - wanted for row in run.samples.get(label, ())]
        if late:
            found[f"TCP_INFO at the window's {label}"] = max(late, key=abs) / 1e9
    return found


#: Departures of a backlogged queue may be this far from the configured rate.
RATE_TOLERANCE = 0.01
#: At most this share of retransmissions may remain unexplained.
UNKNOWN_TOLERANCE = 0.01
#: Why a queue with drop precedences drops, as its counters are called.
_CAUSES = ("early", "forced", "strike", "pdrop")


@dataclass(frozen=True)
class Check:
    """One check: ``ok`` is None if it does not apply to the run; ``detail`` has the reason."""

    name: str
    ok: bool | None
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Give it as ``metrics.json`` holds it."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


def _captures_complete(files: RunFiles, run: CapturedRecord) -> CheckResult:
    """Tcpdump dropped no packet, and its files are complete."""
    problems, total = [], 0
    for role, point in run.expect["captures"].items():
        name = f"tcpdump-{point}.log"
        text = text_of(files, files.log, name)
        dropped = re.search(r"(\d+) packets? dropped by kernel", text)
        captured = re.search(r"(\d+) packets? captured", text)
        capture = run.captures[role]
        total += capture.records
        if not dropped or not captured:
            problems.append(f"log/{name} has no summary: tcpdump did not exit normally")
        elif int(dropped[1]):
            problems.append(f"{point}: the kernel dropped {dropped[1]} packets")
        elif int(captured[1]) != capture.records:
            problems.append(f"{point}: {captured[1]} captured, {capture.records} in the file")
        if capture.truncated:
            problems.append(f"{point}: {capture.truncated}")
    return verdict(problems, f"{total} packets, none dropped")


def _no_unplanned_loss(files: RunFiles, run: Record) -> CheckResult:
    """Only the bottleneck and impaired devices lose packets."""
    problems = []
    for device in run.expect["lossless_devices"]:
        queue = root_drops(files, device)
        link = link_drops(files, device) - given_up(files, run, device)
        if queue or link:
            problems.append(f"{device}: {queue} dropped by its queue, {link} by its interface")
    return verdict(problems, f"{len(run.expect['lossless_devices'])} devices, no drops")


def _loss_matches_qdisc(files: RunFiles, run: CapturedRecord) -> CheckResult:
    """Over the whole run the captures miss exactly the packets that the queue counts as dropped.

    They also miss frames that a shared wire dropped after 16 collisions, IN or OUT. Background is
    in none of the captures, and its drops are not counted by IN and OUT.
    """
    device = run.expect["bottleneck"]["device"]
    gone = given_up(files, run, device)
    background = background_drops(files, run)
    dropped = {"": root_drops(files, device) - background + gone} | _by_class(files, run)
    inside = run.transit.tos >> 2 == run.expect["qdisc"].get("options", {}).get("in", -1)
    every = as_queued(run.expect["qdisc"], run.transit.arrival_ns, run.transit.record)
    which = {"": every, "in ": every & inside, "out ": every & ~inside}
    parts, good = [], run.transit.unmatched == 0
    for side, counted in dropped.items():
        seen = int(np.sum(run.transit.lost & which[side]))
        rest = " with background" if side and background else ""
        parts.append(f"{side}captures {seen}, qdisc {counted}{rest}")
        minimum, most = (0 if rest else counted), counted + (gone if side else 0)
        good = good and minimum <= seen <= most
    if gone:
        parts.append(f"{gone} dropped after 16 collisions")
    return good, ", ".join([*parts, f"left without entering {run.transit.unmatched}"])


def _by_class(files: RunFiles, run: Record) -> dict[str, int]:
    """Drops by drop precedence, where the queue under test counts them so."""
    wanted = run.expect["qdisc"]
    found = in_force.under_test(files, wanted["device"], wanted["kind"]) or {}
    return {
        f"{side} ": sum(int(counted.get(cause, 0)) for cause in _CAUSES)
        for side in ("in", "out")
        if isinstance(counted := found.get(side), dict)
    }


def _marks_match_marker(files: RunFiles, run: CapturedRecord) -> CheckResult:
    """As many packets of either code point reach the bottleneck as the marker counts."""
    wanted = run.expect.get("marker")
    if wanted is None:
        return None, "nothing is marked"
    dscp, problems = run.transit.tos >> 2, []
    counted: Counter[str] = Counter()
    for node in (wanted["node"], *_cross_markers(run)):
        found = action(files, node, wanted["kind"], wanted["index"])
        if found is None:
            return False, f"{node} has no action {wanted['kind']} {wanted['index']}"
        counted += Counter(
            {side: int(found["xstats"][f"{side}_packets"]) for side in ("in", "out")}
        )
    for side in ("in", "out"):
        seen = int(np.sum(dscp == wanted["options"][side]))
        problems += (
            [] if seen == counted[side] else [f"{side}: captures {seen}, marker {counted[side]}"]
        )
    return verdict(problems, f"{dscp.size} packets")


def _cross_markers(run: Record) -> list[str]:
    """Nodes that mark the cross traffic of the bottleneck with the captures."""
    node = run.expect["bottleneck"].get("node")
    return [cross["marker"] for cross in run.expect.get("cross", ()) if cross["node"] == node]


def _bottleneck_rate(_: RunFiles, run: CapturedRecord) -> CheckResult:
    """While packets wait, they leave at the configured rate."""
    if sources(run):
        return (
            None,
            "the captures do not show the background that leaves between the flows' packets",
        )
    place = run.expect["bottleneck"]
    if ring_of(run.expect, place["device"]):
        return None, "the bottleneck is half duplex: see wires_add_up"
    if changes(place):
        share, packets = backlogged_share(place, run.transit, run.epoch_ns)
        if not packets:
            return None, "the bottleneck was never backlogged"
        detail = f"{share:.4f} of what the link gave, over {packets} packets"
        return abs(share - 1) <= RATE_TOLERANCE, detail
    wanted = float(place["rate_bits_per_s"])
    measured = backlogged_rate(run.transit)
    if measured is None:
        return None, "the bottleneck was never backlogged"
    rate, packets = measured
    error = rate / wanted - 1
    detail = f"{rate:.0f} bit/s over {packets} packets, configured {wanted:.0f} ({error:+.3%})"
    return abs(error) <= RATE_TOLERANCE, detail


def _all_connected(files: RunFiles, run: Record) -> CheckResult:
    """Every flow of the plan, and every connection of a user, is established."""
    if "users" in run.expect:
        return users_connected(files, run)
    cross = run.cross_samples.get("end", [])
    if run.samples:
        ends = [*run.samples["end"], *cross]
        missing = [row["flow"] for row in ends if not row["connected"]]
    elif isinstance(run, CapturedRecord):
        missing = [flow for flow in range(run.count) if run.row[flow] < 0]
    else:
        return None, "no TCP_INFO of any flow"
    if missing:
        names = ", ".join(str(flow) for flow in missing[:10])
        return False, f"{len(missing)} of {run.count + len(cross)} flows never connected: {names}"
    return True, f"{run.count + len(cross)} flows"


#: States of a connection whose FIN is acknowledged, and of one that is over.
_FIN_WAIT2, _CLOSED = 5, (6, 7)


def acked_by_kernel(sample: dict[str, Any]) -> int:
    """Payload bytes acknowledged according to TCP_INFO, which counts the SYN as a byte.

    It counts the FIN too, once that is acknowledged; a receiver sends nothing but its own.
    """
    state = sample.get("tcp_state")
    ended = state == _FIN_WAIT2 or (state in _CLOSED and sample.get("bytes_received", 0) > 0)
    return max(int(sample.get("bytes_acked", 0)) - 1 - ended, 0)


def _goodput_matches(_: RunFiles, run: CapturedRecord, gained: list[int]) -> CheckResult:
    """Acknowledged payload agrees between capture and TCP_INFO for each flow."""
    if not run.samples:
        return None, f"generator {run.expect.get('generator')} gives no TCP_INFO"
    kernel = [
        acked_by_kernel(end) - acked_by_kernel(start)
        for start, end in zip(run.samples["start"], run.samples["end"], strict=True)
    ]
    wrong = [
        (flow, seen, counted)
        for flow, (seen, counted) in enumerate(zip(gained, kernel, strict=True))
        if seen != counted and not is_possible_gain(run, flow, counted)
    ]
    if wrong:
        flow, seen, counted = wrong[0]
        return False, f"{len(wrong)} flows differ; flow {flow}: capture {seen}, TCP_INFO {counted}"
    return True, f"{run.count} flows, {sum(gained)} bytes"


def _retransmissions_explained(_: RunFiles, run: CapturedRecord) -> CheckResult:
    """The classifier names the cause of nearly all retransmissions."""
    total = int(np.sum(run.recovery.kind > 0))
    unknown = int(np.sum(run.recovery.kind == UNKNOWN))
    return unknown <= UNKNOWN_TOLERANCE * total, f"{unknown} of {total} unexplained"


def check_captured(
    files: RunFiles, run: CapturedRecord, gained: list[int], truth: dict[str, Any]
) -> list[Check]:
    """Apply every check to a run with captures.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    run : CapturedRecord
        What was read from it.
    gained : list of int
        Payload bytes acknowledged within the window according to the capture, per flow.
    truth : dict
        The kernel's count of timeouts beside the capture's.

    Returns
    -------
    list of Check
        In a fixed order; the run is valid if none has ``ok`` False.
    """
    tests: dict[str, Test] = {
        **_switched_on(run),
        **_IN_FORCE,
        **_ecn(run, lambda f, _: in_force.ecn_in_use(f, run, run.transit.tos)),
        **_feedback(run),
        "captures_complete": lambda f, _: _captures_complete(f, run),
        "no_unplanned_loss": _no_unplanned_loss,
        "impairments_in_force": impairments_in_force,
        "marks_match_marker": lambda f, _: _marks_match_marker(f, run),
        "loss_matches_qdisc": lambda f, _: _loss_matches_qdisc(f, run),
        "bottleneck_rate": lambda f, _: _bottleneck_rate(f, run),
        "all_connected": _all_connected,
        "goodput_matches_tcp_info": lambda f, _: _goodput_matches(f, run, gained),
        "flows_match_iperf3": lambda f, _: flows_match(f, run),
        "retransmissions_explained": lambda f, _: _retransmissions_explained(f, run),
        "timeouts_match_kernel": lambda f, _: timeouts_match(f, run, truth),
        **_ON_TIME,
    }
    return apply(tests, files, run)


def check_counted(files: RunFiles, run: Record) -> list[Check]:
    """Apply every check to a run without captures: those that need packets are omitted."""
    tests: dict[str, Test] = {
        **_switched_on(run),
        **_IN_FORCE,
        **_ecn(run, lambda f, _: in_force.ecn_in_use(f, run, None)),
        **_feedback(run),
        "no_unplanned_loss": _no_unplanned_loss,
        "impairments_in_force": impairments_in_force,
        "window_counters": window_counters,
        "all_connected": _all_connected,
        **_ON_TIME,
    }
    return apply(tests, files, run)


Test = Callable[[RunFiles, Record], CheckResult]
_IN_FORCE: dict[str, Test] = {
    "offloads_off": in_force.offloads_off,
    "qdisc_in_force": in_force.qdisc_in_force,
    "marker_in_force": in_force.marker_in_force,
    "sysctls_in_force": in_force.sysctls_in_force,
    "routes_in_force": in_force.routes_in_force,
}
_ON_TIME: dict[str, Test] = {"clocks_agree": clocks_agree, "started_on_time": started_on_time}


def _switched_on(run: Record) -> dict[str, Test]:
    """Give the check of offloads that the experiment switches on; nothing of another."""
    return {"offloads_on": in_force.offloads_on} if "offloads_on" in run.expect else {}


def _ecn(run: Record, test: Test) -> dict[str, Test]:
    """Give the check of a queue that the experiment configures to mark; nothing of another."""
    return {"ecn_in_use": test} if run.expect["qdisc"].get("marks") else {}


def _feedback(run: Record) -> dict[str, Test]:
    """Give the check of accurate ECN; nothing where no sender uses it."""
    found = in_force.accurate_ends(run)
    return {"feedback_matches": in_force.feedback_matches} if found else {}


def apply(tests: Mapping[str, Test], files: RunFiles, run: Record) -> list[Check]:
    """Apply checks by name, in their order; what cannot be read is a check that failed."""
    return [_apply(name, test, files, run) for name, test in tests.items()]


def _apply(name: str, test: Test, files: RunFiles, run: Record) -> Check:
    try:
        ok, detail = test(files, run)
    except UnreadableError as error:
        return Check(name, False, str(error))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        return Check(name, False, f"unexpected content: {type(error).__name__} {error}")
    return Check(name, ok, detail)

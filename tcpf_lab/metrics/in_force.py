"""Whether requested settings were in force: offloads, queue, marker, TCP parameters, routes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics.record import Record, action, kernel_counters, qdiscs, stats_json, text_of
from tcpf_lab.results.layout import RunFiles

#: tc prints probabilities from 32-bit fractions, of which small ones have few digits.
_OPTION_TOLERANCE, _SHARE_GRAIN = 1e-4, 2.0**-32
#: What a kernel received that was ECN-capable, of ``IpExt``.
_ECN_CAPABLE = ("InECT0Pkts", "InECT1Pkts", "InCEPkts")
_ECN_KEY = "net.ipv4.tcp_ecn"
#: A SYN and two RSTs of a flow.
_LAST = 3
CheckResult = tuple[bool | None, str]


def verdict(problems: list[str], good: str) -> CheckResult:
    """Give the verdict of a check that lists problems."""
    return not problems, "; ".join(problems) or good


def offloads_off(files: RunFiles, run: Record) -> CheckResult:
    """No device joins or splits segments, but those that are to."""
    return _offloads(files, run.expect["offloads_off"], "off")


def offloads_on(files: RunFiles, run: Record) -> CheckResult:
    """The devices that are to join and split segments do."""
    return _offloads(files, run.expect["offloads_on"], "on")


def _offloads(files: RunFiles, wanted: dict[str, Any], wanted_state: str) -> CheckResult:
    problems = []
    for device in wanted["devices"]:
        lines = text_of(files, files.stats, f"offload-{device}.txt").splitlines()
        states = {key.strip(): value.split() for key, _, value in (x.partition(":") for x in lines)}
        problems += [
            f"{device}: {feature} is {' '.join(state) or 'not reported'}"
            for feature in wanted["features"]
            if (state := states.get(feature, []))[:1] != [wanted_state]
        ]
    return verdict(
        problems, f"{len(wanted['features'])} features, {len(wanted['devices'])} devices"
    )


def _differs(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
        return bool(value != wanted)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    return abs(value - wanted) > max(_OPTION_TOLERANCE * abs(wanted), _SHARE_GRAIN)


def qdisc_in_force(files: RunFiles, run: Record) -> CheckResult:
    """The kernel reports the requested queue, and the queues inside it."""
    bottlenecks = run.expect.get("bottlenecks") or [{"qdisc": run.expect["qdisc"]}]
    bottlenecks = [*bottlenecks, *([run.expect["opposite"]] if "opposite" in run.expect else [])]
    return _together([_one_qdisc(files, one["qdisc"]) for one in bottlenecks])


def _one_qdisc(files: RunFiles, wanted: dict[str, Any]) -> CheckResult:
    device, kind = wanted["device"], wanted["kind"]
    found = under_test(files, device, kind)
    if found is None:
        return False, f"{device} has no {kind}"
    requested = wanted.get("options", {})
    shown = found | found.get("options", {})  # cake shows its memory limit beside its options
    problems = differences(f"{device}: {kind}", shown, requested)
    inside = {q.get("handle"): q for q in qdiscs(files, device)}
    for handle, child in wanted.get("children", {}).items():
        own = inside.get(handle, {})
        if own.get("kind") != child["kind"]:
            problems.append(f"{device}: {kind} has no {child['kind']} {handle}")
            continue
        what = f"{device}: {child['kind']} {handle}"
        problems += differences(what, own.get("options", {}), child["options"])
    return verdict(problems, f"{kind} on {device} with {len(requested)} options")


def under_test(files: RunFiles, device: str, kind: str) -> dict[str, Any] | None:
    """Give what the kernel reported of the queue under test; its shaper may be of the same kind."""
    found = [q for q in qdiscs(files, device) if q["kind"] == kind]
    below = [q for q in found if not q.get("root")]
    return next(iter(below or found), None)


def _together(findings: list[CheckResult]) -> CheckResult:
    """Give the verdict on several places with the same request."""
    bad = [detail for ok, detail in findings if not ok]
    return not bad, "; ".join(bad or [detail for _, detail in findings])


def ecn_in_use(files: RunFiles, run: Record, tos: NDArray[np.uint8] | None) -> CheckResult:
    """Where the queue is configured to mark, packets are ECN-capable.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.
    tos : uint8, shape (n,), optional
        Type of service of each packet that entered the bottleneck; without captures the counters
        of the ends count what came through it.
    """
    device = run.expect["qdisc"]["device"]
    if tos is None:
        counted = [kernel_counters(files, node, "IpExt") for node in run.expect["sysctl"]]
        capable = sum(found[name] for found in counted for name in _ECN_CAPABLE)
        where = "the ends received"
    else:
        capable, where = int(np.count_nonzero(tos & 3)), f"entered {device}"
    if capable:
        return True, f"{capable} ECN-capable packets {where}"
    return False, (
        f"{device} is configured to mark, but no ECN-capable packet {where}: no connection "
        "negotiated ECN, and the queue dropped instead; set tcp.ecn: classic"
    )


def accurate_ends(run: Record) -> list[tuple[str, str, int]]:
    """Give each sender that uses accurate ECN, with its receiver and the number of flows."""
    groups = run.expect.get("groups", ())
    ends = [(one["sender"], one["receiver"], int(one["flows"])) for one in groups]
    known = run.expect["sysctl"]
    ends = ends or [("S", "D", run.count)]
    return [one for one in ends if known.get(one[0], {}).get(_ECN_KEY) == "3"]


def feedback_matches(files: RunFiles, run: Record) -> CheckResult:
    """What a sender learnt by accurate ECN is what its receiver counted: packets with CE.

    Of the whole run.  The difference is at most the packets of which the sender has not learnt that
    they arrived: data, of which the kernel counts the SYN as delivered too, and two RSTs.
    """
    problems, seen = [], 0
    for sender, receiver, flows in accurate_ends(run):
        sent, came = (
            kernel_counters(files, *where) for where in ((sender, "TcpExt"), (receiver, "IpExt"))
        )
        learnt, marked = sent["TCPDeliveredCE"], came["InCEPkts"]
        last = max(0, sent["TCPOrigDataSent"] - sent["TCPDelivered"]) + _LAST * flows
        seen += learnt
        if not marked - last <= learnt <= marked:
            problems.append(
                f"{sender} learnt of {learnt} packets with CE, {receiver} received {marked}, of "
                f"which {last} at most came last"
            )
    return verdict(problems, f"{seen} packets with CE fed back")


def marker_in_force(files: RunFiles, run: Record) -> CheckResult:
    """The marking router reports the requested marker, in both directions."""
    if run.expect.get("marker") is None:
        return None, "nothing is marked"
    markers = run.expect.get("markers") or [run.expect["marker"]]
    return _together([_one_marker(files, wanted) for wanted in markers])


def _one_marker(files: RunFiles, wanted: dict[str, Any]) -> CheckResult:
    node, kind = wanted["node"], wanted["kind"]
    found = action(files, node, kind, wanted["index"])
    if found is None:
        return False, f"{node} has no action {kind} {wanted['index']}"
    requested = {"bind": wanted["bind"], **wanted["options"]}
    problems = differences(f"{node}: {kind}", found, requested)
    return verdict(problems, f"{kind} at {node} with {len(requested)} options")


def differences(what: str, found: dict[str, Any], requested: dict[str, Any]) -> list[str]:
    """Name every option that is not as requested."""
    return [
        f"{what} {key} is {found.get(key, 'not reported')}, requested {value}"
        for key, value in requested.items()
        if _differs(found.get(key), value)
    ]


def sysctls_in_force(files: RunFiles, run: Record) -> CheckResult:
    """Every setting of the TCP profile is read back."""
    problems, checked = [], 0
    for node, settings in run.expect["sysctl"].items():
        lines = text_of(files, files.stats, f"sysctl-{node}.txt").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        found = {key.strip(): " ".join(value.split()) for key, _, value in pairs}
        for key, value in settings.items():
            checked += 1
            if found.get(key) != " ".join(str(value).split()):
                problems.append(f"{node}: {key} is {found.get(key, 'not reported')}, not {value}")
    return verdict(problems, f"{checked} settings")


def routes_in_force(files: RunFiles, run: Record) -> CheckResult:
    """Every route through a gateway has the requested initial window and minimum RTO.

    A sender reaches its receiver through one: without any, nothing was checked.
    """
    problems, checked = [], 0
    requested: dict[str, Any] = {}
    for key in ("routes", "receiver_routes", "probe_routes"):
        requested |= run.expect.get(key) or {}
    for node, wanted in requested.items():
        own = [route for route in stats_json(files, f"route-{node}.json") if "gateway" in route]
        problems += [] if own else [f"{node} has no route through a gateway"]
        for route in own:
            found = {
                key: value for each in route.get("metrics") or () for key, value in each.items()
            }
            problems += differences(f"{node}: route to {route['dst']}", found, wanted)
        checked += len(own)
    return verdict(problems, f"{checked} routes")

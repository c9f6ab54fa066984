"""What must hold of any run on the hosts of the guests, however busy the machine is."""

from __future__ import annotations

import json
from typing import Any

from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES, guest_of, host_name

#: Checks of a verdict that only runs against real clocks have.
OF_REAL_CLOCKS = {"clocks_agree", "started_on_time"}
#: Checks that hold on a machine that is short of processor time, too: what was set, and what was
#: lost.  The others may fail there: emulated guests are then late, the queue under test is empty
#: though there are packets, these wait elsewhere, timers expire later than the kernel's rules say,
#: by which retransmissions are told apart, and some come after iperf3 has looked for the last time.
HOLD_ALWAYS = {
    *("offloads_off", "qdisc_in_force", "marker_in_force", "sysctls_in_force", "routes_in_force"),
    *("all_connected", "loss_matches_qdisc"),
}
#: Clocks of one guest are one clock; and the guests were set to whole seconds, s.
SAME_S, SET_S = 0.02, 4.0


def check_whole(files: RunFiles, generator: str = "iperf3") -> dict[str, Any]:
    """Check a run's directory; return its metrics."""
    manifest, metrics = read_json(files.manifest), read_json(files.metrics)
    assert manifest["clock"] == "real"
    assert manifest["expect"]["generator"] == generator
    _check_files(files, manifest)
    if generator == "iperf3":
        _check_reports(files, manifest)
    _check_requests(files)
    _check_clocks(files)
    _check_verdict(metrics)
    return metrics


def failing(metrics: dict[str, Any]) -> set[str]:
    """Name the checks that a run has failed."""
    return {check["name"] for check in metrics["validity"]["checks"] if check["ok"] is False}


def _check_files(files: RunFiles, manifest: dict[str, Any]) -> None:
    wanted = {f"stats/{name}.json" for name in ("epoch", "clock", "lateness", "hosts", "route-S")}
    wanted |= {f"stats/qdisc-{role}.json" for role in ROLES}
    wanted |= {f"stats/{name}-{role}.txt" for name in ("dev", "dev-before") for role in ROLES}
    wanted |= {"log/requests.jsonl", "run.yaml", "plan.txt"}
    assert {name for name in wanted if not (files.root / name).is_file()} == set()
    hosts = read_json(files.stats / "hosts.json")
    assert {name: facts["roles"] for name, facts in hosts.items()} == {
        host_name(role): [role] for role in ROLES
    }


def _check_reports(files: RunFiles, manifest: dict[str, Any]) -> None:
    flows = manifest["flows"]
    assert len(read_json(files.stats / "lateness.json")) >= flows
    for flow in range(flows):
        assert (files.log / f"iperf3-server-{flow}.log").is_file()
        assert read_json(files.stats / f"iperf3-{flow}.json")["end"]["sum_sent"]["bytes"] > 0


def _check_requests(files: RunFiles) -> None:
    """Every request was answered, none refused, and every host was asked to end."""
    requests = [json.loads(line) for line in (files.log / "requests.jsonl").open()]
    assert [request for request in requests if "error" in request] == []
    ended = [request["host"] for request in requests if request["do"] == "end"]
    assert sorted(ended) == sorted(map(host_name, ROLES))


def _check_clocks(files: RunFiles) -> None:
    """The clocks are seen as the guests have them: one ahead, and faster."""
    nodes = read_json(files.stats / "epoch.json")["nodes"]
    assert sorted(nodes) == sorted(ROLES)
    offset = {role: nodes[role]["offset_ns"] / 1e9 for role in ROLES}
    for guest in GUESTS:
        first = guest.roles[0]
        for role in guest.roles:
            known = (nodes[role]["uncertainty_ns"] + nodes[first]["uncertainty_ns"]) / 1e9
            assert abs(offset[role] - offset[first]) < SAME_S + known
    ahead = GUESTS[1].ahead_s - GUESTS[0].ahead_s
    assert abs(offset[GUESTS[1].roles[0]] - offset[GUESTS[0].roles[0]] - ahead) < SET_S
    samples = read_json(files.stats / "clock.json")
    for role, wrong in drifts(files).items():
        span = samples[role][-1]["at_ns"] - samples[role][0]["at_ns"]
        assert abs(wrong) < 1e6 * 2 * nodes[role]["uncertainty_ns"] / span


def drifts(files: RunFiles) -> dict[str, float]:
    """Give by how much each role's clock was seen to be faster than it was set, ppm."""
    nodes = read_json(files.stats / "epoch.json")["nodes"]
    return {role: nodes[role]["drift_ppm"] - guest_of(role).faster_ppm for role in ROLES}


def _check_verdict(metrics: dict[str, Any]) -> None:
    checks = {check["name"]: check for check in metrics["validity"]["checks"]}
    assert set(checks) >= OF_REAL_CLOCKS
    assert checks["loss_matches_qdisc"]["ok"] is True, checks["loss_matches_qdisc"]["detail"]
    assert not failing(metrics) & HOLD_ALWAYS, metrics["validity"]["reasons"]

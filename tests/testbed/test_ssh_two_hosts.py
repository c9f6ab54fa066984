"""Experiments on two hosts that real sshds make of this machine, joined by two cables.

The machine's kernel need not have the queues of an experiment, so its phase of queues is left out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import real_sshd

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import Sysctl
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.run import SshTestbed
from tcpf_lab.testbed.uml import guest

pytestmark = pytest.mark.full
ROLES = {
    "ends": {"roles": ["S", "D"], "interfaces": {"S-R0": "eth1", "D-R2": "eth2"}},
    "routers": {"roles": ["R0", "R1", "R2"], "interfaces": {"R0-S": "eth1", "R2-D": "eth2"}},
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if reason := real_sshd.why_not(namespaces=True):
        pytest.skip(reason)
    with contextlib.ExitStack() as running:
        found = {
            name: running.enter_context(real_sshd.host(tmp_path_factory.mktemp(name)))
            for name in ROLES
        }
        for interface in ("eth1", "eth2"):
            real_sshd.cable(found["ends"], interface, found["routers"], interface)
            for server in found.values():
                server.inside("ip", "link", "set", interface, "up")
        found["ends"].inside("ip", "link", "set", "eth1", "mtu", "1400")
        _await_carriers(found.values())
        yield found


def _await_carriers(servers) -> None:
    """Wait until the kernel has noticed that cables are plugged in."""
    deadline = time.monotonic() + 10
    looks = [(server, name) for server in servers for name in ("eth1", "eth2")]
    while not all("state UP" in s.inside("ip", "link", "show", name) for s, name in looks):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def bed(hosts, tmp_path, monkeypatch) -> SshTestbed:
    monkeypatch.setenv("HOME", str(tmp_path))
    known = "".join(server.known_hosts.read_text() for server in hosts.values())
    (tmp_path / "known_hosts").write_text(known)
    (tmp_path / "config").write_text(
        "".join(
            f"Host {name}\n  HostName {server.address}\n  Port {server.port}\n"
            f"  User root\n  IdentityFile {server.identity}\n"
            for name, server in hosts.items()
        )
    )
    words = {
        "name": "two",
        "hosts": {name: {**ROLES[name], "control": "control"} for name in hosts},
        "ssh": {
            "config": str(tmp_path / "config"),
            "known_hosts": str(tmp_path / "known_hosts"),
        },
        "state_directory": "/run/tcpf-lab",
    }
    return SshTestbed(Inventory.model_validate(words))


@pytest.fixture
def untouched(hosts):
    """Return a function that fails unless the hosts are as they were before the test."""
    for server in hosts.values():
        server.inside("mkdir", "-p", "/run/tcpf-lab")
    _await_carriers(hosts.values())
    before = {name: server.settled_snapshot() for name, server in hosts.items()}

    def check(patience: float = 10.0) -> None:
        deadline = time.monotonic() + patience
        while any(hosts[name].snapshot() != before[name] for name in hosts):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        for name, server in hosts.items():
            assert server.snapshot() == before[name]
            assert server.inside("sh", "-c", "ls /run/tcpf-lab/runs 2>/dev/null || true") == ""

    return check


@pytest.fixture
def run(tmp_path):
    files = RunFiles(tmp_path / "run.partial")
    files.create()
    return files


#: Phases that a test without captures leaves out.
CAPTURES = {"captures", "end of the captures"}


def plan(recorded, flows, *settings, captures=True) -> Plan:
    words = ["traffic.generator=iperf3", f"matrix.flows=[{flows}]", *settings]
    experiment = apply_overrides(load(recorded / "experiment.yaml"), words)
    whole = compose(expand(experiment)[0])
    left_out = {"rates, delays and queues"} | (set() if captures else CAPTURES)
    # What belongs to the whole kernel is this machine's: it stays as it is.
    phases = (
        replace(phase, steps=tuple(s for s in phase.steps if s != _of_the_kernel(s)))
        for phase in whole.phases
        if phase.name not in left_out
    )
    return replace(whole, phases=tuple(phase for phase in phases if phase.steps))


def _of_the_kernel(step):
    return step if isinstance(step, Sysctl) and step.node is None else None


SHORT = ("traffic.start_spread=0.2 s", "traffic.warmup=0.5 s", "traffic.duration=1 s")
#: Changes more of an interface than IPv4 does.
IPV6 = ("traffic.ip=6", "topology.chain.mtu=1500 B")


def test_run_leaves_results_and_nothing_else(bed, recorded, run, untouched):
    a_plan = plan(recorded, 2, *SHORT, *IPV6)
    assert bed.check(a_plan) == ()
    bed.execute(a_plan, run, seed=1)
    for flow in range(2):
        client = read_json(run.stats / f"iperf3-{flow}.json")
        assert client["end"]["sum_received"]["bytes"] > 100_000
        assert client["start"]["connected"][0]["local_port"] == 20000 + flow
    for point in ("S", "R1-in", "R1-out"):
        assert run.capture(point).stat().st_size > 10_000
    assert "S-R0" in (run.stats / "dev-S.txt").read_text()
    facts = bed.facts(a_plan)["hosts"]
    assert facts["ends"]["uname"]["release"] == os.uname().release
    untouched()


def test_one_clock_is_seen_as_one(bed, recorded, run):
    bed.execute(plan(recorded, 1, *SHORT, captures=False), run, seed=1)
    epoch = read_json(run.stats / "epoch.json")
    for node in epoch["nodes"].values():
        assert abs(node["offset_ns"]) <= node["uncertainty_ns"] + 1000
        assert node["uncertainty_ns"] < 20_000_000
    lateness = read_json(run.stats / "lateness.json")
    assert set(lateness) >= {"client-0"}
    assert 0 <= lateness["client-0"] < 1


def test_connection_cut_while_traffic_flows(bed, hosts, recorded, run, untouched):
    a_plan = plan(recorded, 2, "traffic.warmup=5 s", "traffic.duration=60 s", captures=False)

    def cut() -> None:
        deadline = time.monotonic() + 60
        while "iperf3 --client" not in _processes(hosts["ends"]) and time.monotonic() < deadline:
            time.sleep(0.1)
        for line in _processes(hosts["routers"]).splitlines():
            if "sshd" in line and "sshd -D" not in line:
                hosts["routers"].inside("kill", "-9", line.split()[0])

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(TestbedError) as caught:
        bed.execute(a_plan, run, seed=1)
    cutter.join()
    assert caught.value.where == "host routers"
    assert "connection broke" in caught.value.message
    assert "routers does not answer; it undoes all changes when the connection times out" in str(
        caught.value
    )
    untouched(180.0)


def test_interrupt_undoes_everything_before_it_returns(
    bed, hosts, recorded, run, untouched, monkeypatch
):
    monkeypatch.setattr(
        guest, "_should_stop", lambda: "iperf3 --client" in _processes(hosts["ends"])
    )
    a_plan = plan(recorded, 2, "traffic.warmup=5 s", "traffic.duration=60 s", captures=False)
    with pytest.raises(KeyboardInterrupt):
        bed.execute(a_plan, run, seed=1)
    untouched()


def _processes(server) -> str:
    return server.inside("ps", "-e", "-o", "pid=,args=")


def test_a_hundred_flows_of_iperf3(bed, recorded, run, untouched):
    """A hundred servers are awaited, a hundred clients start on time, and all of them finish."""
    bed.execute(plan(recorded, 100, *SHORT, captures=False), run, seed=1)
    clients = [read_json(run.stats / f"iperf3-{flow}.json") for flow in range(100)]
    assert all("error" not in client for client in clients)
    assert all(client["end"]["sum_sent"]["bytes"] > 0 for client in clients)
    lateness = read_json(run.stats / "lateness.json")
    assert len([name for name in lateness if name.startswith("client-")]) == 100
    untouched()


def test_killed_controller_is_noticed(bed, hosts, recorded, run, untouched):
    a_plan = plan(recorded, 1, "traffic.warmup=5 s", "traffic.duration=60 s", captures=False)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            bed.execute(a_plan, run, seed=1)
        os._exit(1)
    deadline = time.monotonic() + 60
    while "iperf3 --client" not in _processes(hosts["ends"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    untouched(180.0)

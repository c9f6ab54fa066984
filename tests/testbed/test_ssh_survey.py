"""What the doctor asks hosts, and what it does to them while it tries their cables."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeHost, FakeNetwork, LocalProcess
from host_facts import facts

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import Command, Phase, Start
from tcpf_lab.spec.load import apply_overrides, find, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory, load_inventory
from tcpf_lab.testbed.ssh import run
from tcpf_lab.testbed.ssh import survey as ssh_survey
from tcpf_lab.testbed.ssh.clock import Sample
from tcpf_lab.testbed.ssh.doctor import diagnose
from tcpf_lab.testbed.ssh.steps import needs
from tcpf_lab.testbed.ssh.survey import Survey, clock_of, survey

NEEDS = needs(load(find("smoke")))
TEXT = """\
name: lab
hosts:
  left: {control: eth0, roles: [S, R0], interfaces: {R0-R1: eth1}}
  right: {control: eth0, roles: [R1, R2, D], interfaces: {R1-R0: eth1}}
state_directory: %s
"""


class Cable:
    """What is plugged in between the interfaces, and how fast it is."""

    def __init__(self) -> None:
        self.plugged = True
        self.speed = "1000Mb/s"
        self.largest = 1500
        self.addresses: dict[str, str] = {}  #: of a device's peer


class AskedAgent(FakeAgent):
    """Tells facts, and answers the commands of a trial."""

    def _done(self, request: dict[str, Any]) -> Any:
        if request["do"] == "facts":
            return self.host.facts
        if request["do"] == "run":
            return {"output": self._output(request["node"], request["argv"])}
        if request["do"] == "ping":
            return self._ping(request["address"], request["size"])
        return super()._done(request)

    def _ping(self, address: str, size: int) -> float | None:
        """Let a packet be lost that is too large, or that nobody has the address of."""
        cable = self.host.cable
        return 0.00025 if size <= cable.largest and address in cable.addresses else None

    def _output(self, device: str, argv: list[str]) -> str:
        cable = self.host.cable
        if argv[:2] == ["ip", "address"]:
            cable.addresses[argv[3].partition("/")[0]] = device
        elif argv[:2] == ["ip", "-j"]:
            return json.dumps([{"flags": ["UP", *(["LOWER_UP"] if cable.plugged else [])]}])
        elif argv[0] == "ethtool":
            return f"\tSpeed: {cable.speed}\n\tDuplex: Full\n"
        return ""


class AskedHost(FakeHost):
    """A host with facts, whose interface leads to the other's unless the cable says otherwise."""

    def __init__(self, inventory: Inventory, name: str, cable: Cable) -> None:
        super().__init__(name, boot_id=f"kernel of {name}")
        self.facts = facts(inventory, name)
        self.cable = cable

    def start(self, argv: Any, silence: float | None = None) -> Any:
        if "serve" in argv:
            self.agent = AskedAgent(self, Path(argv[-1]) / self.name)
            return self.agent
        return super().start(argv, silence)


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    path = tmp_path / "lab.yaml"
    path.write_text(TEXT % tmp_path)
    return load_inventory(path)


@pytest.fixture
def cable() -> Cable:
    return Cable()


@pytest.fixture
def network(inventory: Inventory, cable: Cable) -> FakeNetwork:
    return FakeNetwork(*(AskedHost(inventory, name, cable) for name in inventory.hosts))


def faults(inventory: Inventory, found: Survey) -> list[tuple[str, str]]:
    return [(c.name, c.detail) for c in diagnose(inventory, NEEDS, found) if not c.ok]


def test_good_hosts_are_asked_tried_and_left_as_they_were(inventory, network):
    found = survey(inventory, NEEDS, network)
    assert faults(inventory, found) == []
    assert found.tried["R0", "R1"].rate == 10**9
    assert found.tried["R1", "R0"].reached == {("R0", "R1"): pytest.approx(0.00025)}
    for name in inventory.hosts:
        assert network[name].closed
        kinds = [request["do"] for request in network[name].requests if request["do"] != "clock"]
        assert kinds[:4] == ["facts", "begin", "node", "nic"]
        assert kinds[-1] == "end"
    assert network["left"].done("nic")[0]["interface"] == "eth1"
    tokens = {network[name].done("begin")[0]["token"] for name in inventory.hosts}
    assert len(tokens) == 1
    assert tokens.pop().startswith("doctor-")


def test_only_data_interfaces_are_touched_and_only_in_namespaces(inventory, network):
    survey(inventory, NEEDS, network)
    for name in inventory.hosts:
        for request in network[name].requests:
            if request["do"] in ("node", "nic", "run", "pass"):
                assert request["node"] in ("R0-R1", "R1-R0")
        assert {request["interface"] for request in network[name].done("nic")} == {"eth1"}


def test_a_cable_without_carrier_a_slow_one_and_one_for_small_packets_are_found(
    inventory, network, cable, monkeypatch
):
    monkeypatch.setattr("tcpf_lab.testbed.ssh.survey.CARRIER_S", 0.0)
    cable.plugged = False
    assert faults(inventory, survey(inventory, NEEDS, network)) == [
        ("link R0-R1", "no carrier at left eth1 (R0-R1), right eth1 (R1-R0)")
    ]
    cable.plugged, cable.speed = True, "10Mb/s"
    assert faults(inventory, survey(inventory, NEEDS, network)) == [
        ("link R0-R1", "10 Mbit/s, not 100 Mbit/s")
    ]
    cable.speed, cable.largest = "Unknown!", 900
    assert faults(inventory, survey(inventory, NEEDS, network)) == [
        ("link R0-R1", "packets of 1000 B do not pass, smaller packets do")
    ]


def test_a_cable_that_leads_nowhere_is_found(inventory, network, cable):
    cable.largest = 0
    assert faults(inventory, survey(inventory, NEEDS, network)) == [
        ("link R0-R1", "no packet from left eth1 (R0-R1) arrives at right eth1 (R1-R0)")
    ]


def test_a_host_that_cannot_send_at_all_says_so_in_one_line(inventory, network):
    said = {"message": "no packet can be sent: PermissionError: [Errno 1] no"}
    for name in inventory.hosts:
        network[name].faults.append(lambda asked: said if asked["do"] == "ping" else None)
    assert faults(inventory, survey(inventory, NEEDS, network)) == [
        ("links", "all 2 hosts: not tested: no packet can be sent: PermissionError: [Errno 1] no")
    ]


def test_queues_that_no_list_names_are_tried(inventory, network):
    known = network["right"].facts["modules_here"]
    known.update(sch_red="missing", sch_netem="missing")
    lacking = {"message": "tc", "command": ["tc"], "status": 2, "output": "unknown qdisc"}
    network["right"].faults.append(lambda r: lacking if "netem" in (r.get("argv") or ()) else None)
    found = survey(inventory, NEEDS, network)
    assert faults(inventory, found) == [("queues", "right: the kernel lacks sch_netem")]
    tried = [r for r in network["right"].done("run") if r["argv"][0] == "tc"]
    assert {r["argv"][4] for r in tried} == {"lo"}
    assert {r["node"] for r in tried} == {"doctor-sch_red", "doctor-sch_netem"}


def test_a_host_that_is_not_reached_keeps_none_of_the_others_from_being_asked(inventory, network):
    network["right"].unreachable = TestbedError("accepts none of the keys", hint="ssh-add")
    found = survey(inventory, NEEDS, network)
    assert faults(inventory, found) == [("login", "right: accepts none of the keys")]
    assert list(found.seen) == ["left"]
    assert network["left"].closed


def test_an_agent_that_dies_meanwhile_is_a_fault_of_its_host(inventory, network):
    network["right"].dies_at["facts"] = 3
    network["right"].last_words = "Segmentation fault"
    ((check, detail),) = faults(inventory, survey(inventory, NEEDS, network))
    assert check == "agent"
    assert detail.startswith("right: `the agent` ended with status 3")
    assert "Segmentation fault" in detail


@pytest.mark.parametrize("moment", ["run", "nic"])
def test_a_host_that_is_lost_late_keeps_what_was_found(inventory, network, moment):
    network["right"].dies_at[moment] = 3
    network["right"].facts["tools"]["tcpdump"] = None
    found = survey(inventory, NEEDS, network)
    told = faults(inventory, found)
    assert ("programs", "right: missing: tcpdump") in told
    assert [name for name, _ in told].count("links") == 1
    assert list(found.seen) == ["left", "right"]
    assert found.seen["right"].clock is not None
    assert found.seen["left"].clock.drift_ppm is None


def test_a_host_that_is_lost_while_its_queues_are_tried_keeps_no_other(inventory, network):
    network["right"].facts["modules_here"].update(sch_red="missing")
    network["right"].dies_at["node"] = 3
    found = survey(inventory, NEEDS, network)
    assert set(found.untried) == {"right"}
    assert ("R0", "R1") in found.tried


def test_ping_that_cannot_be_run_is_no_lost_packet(inventory, network):
    def broken(request: dict[str, Any]) -> dict[str, Any] | None:
        said = "no packet can be sent: cannot run"
        return {"message": said} if request["do"] == "ping" else None

    network["left"].faults.insert(0, broken)
    found = survey(inventory, NEEDS, network)
    assert found.untried["left"].message == "no packet can be sent: cannot run"


def test_interfaces_that_something_is_wrong_with_are_not_touched(inventory, network):
    network["left"].facts["drivers"]["eth1"]["NetworkManager"] = "managed"
    network["right"].facts["unfinished"] = [{"token": "a-run", "alive": True, "pid": 7}]
    found = survey(inventory, NEEDS, network)
    assert found.tried == {}
    assert [name for name, _ in faults(inventory, found)] == [
        "leftovers",
        "network services",
        "links",
    ]
    for name in inventory.hosts:
        assert network[name].done("nic") == []


def test_what_cannot_be_undone_after_the_trial_is_told(inventory, network):
    network["left"].left = ["interface eth1: File exists"]
    found = survey(inventory, NEEDS, network)
    assert faults(inventory, found) == [
        ("undone", "host left: not undone: interface eth1: File exists")
    ]


def test_what_no_later_attempt_can_undo_is_not_left_to_one(inventory, network):
    network["left"].lost = ["interface eth1: it is gone"]
    checks = diagnose(inventory, NEEDS, survey(inventory, NEEDS, network))
    (check,) = [check for check in checks if not check.ok]
    assert "undo by hand: interface eth1" in check.detail
    assert "tcpf-lab clean" not in check.fix


def test_a_command_that_fails_in_a_trial_names_host_and_command(inventory, network):
    def refused(request: dict[str, Any]) -> dict[str, Any] | None:
        message = "Device or resource busy"
        return {"message": message} if request["do"] == "nic" else None

    network["left"].faults.append(refused)
    found = survey(inventory, NEEDS, network)
    assert faults(inventory, found) == [
        ("links", "left: not tested: `nic R0-R1`: Device or resource busy")
    ]


def test_a_drift_is_told_if_it_was_measured_long_enough():
    def at(seconds: float, offset_ns: int, round_trip_ns: int = 100_000) -> tuple[Sample, ...]:
        return (Sample(int(seconds * 1e9), offset_ns, round_trip_ns, 0),)

    assert clock_of(at(0, 5), at(10, 400_005)).drift_ppm == pytest.approx(40)
    assert clock_of(at(0, 5), at(0.5, 20_005)).drift_ppm is None
    assert clock_of(at(0, 5), ()).drift_ppm is None
    assert clock_of(at(0, 5), ()).uncertainty_ns == 50_000


def test_the_verb_shows_what_is_wrong_and_ends_in_a_status(lab, inventory, network, monkeypatch):
    monkeypatch.setattr(ssh_survey, "survey", lambda *words: survey(*words, network))
    place = Path("testbeds/lab.yaml")
    place.parent.mkdir()
    Path("lab.yaml").rename(place)
    status, said, _ = lab("doctor", "--testbed", "lab", "--json")
    assert (status, {check["ok"] for check in json.loads(said)}) == (0, {True})
    network["right"].facts["tools"]["tcpdump"] = None
    status, said, _ = lab("doctor", "smoke", "--testbed", "lab")
    assert status == 1
    (line,) = [line for line in said.splitlines() if line.startswith("FAULT")]
    assert line.split() == (
        ["FAULT", "programs", "right:", "missing:", "tcpdump", "apt-get", "install", "tcpdump"]
    )


# What is seen of a host before a run, by a script that changes nothing on it.


def two_hosts(control="lo", interfaces=None):
    roles = {"ends": ["S", "D"], "routers": ["R0", "R1", "R2"]}
    links = {"ends": ("S-R0", "D-R2"), "routers": ("R0-S", "R2-D")}
    names = interfaces or ("no-such-a", "no-such-b")
    hosts = {
        host: {
            "control": control,
            "roles": roles[host],
            "interfaces": dict(zip(links[host], names, strict=True)),
        }
        for host in roles
    }
    return Inventory.model_validate({"name": "two", "hosts": hosts})


@pytest.fixture
def plan(recorded_experiment):
    return compose(expand(recorded_experiment)[0])


def found(two_hosts, plan, client=""):
    host = FakeHost("ends")
    host.client_address = client
    return list(run.problems(host, two_hosts, plan))


def test_missing_interfaces_are_named(plan):
    first, second = found(two_hosts(), plan)
    assert "no interface no-such-a" in first
    assert "tcpf-lab clean --testbed two" in second


def test_host_with_another_kernel_than_the_experiment_needs_is_refused(plan):
    own = ".".join(platform.release().split(".")[:2])
    assert len(found(two_hosts(), replace(plan, kernel=own))) == 2
    (told, *_) = found(two_hosts(), replace(plan, kernel="2.2"))
    assert told.startswith(f"ends: it runs Linux {platform.release()}, the experiment needs 2.2")


def test_interface_that_carries_the_way_to_us_is_refused(plan):
    told = found(two_hosts("eth9", ("lo", "no-such")), plan, client="127.0.0.1")
    assert told[0].startswith("ends: the inventory uses lo for data")


BRIDGE = ("ip", "link", "add", "br7", "type", "bridge")


class ApartHost(FakeHost):
    """One whose programs find a network of their own, made by a script."""

    MAKE = """
ip link add br7 type bridge
ip link add data0 type veth peer name near
ip link add data1 type veth peer name far
ip link add name v7 link data1 type macvlan
ip link set data0 master br7 up
ip link set data1 up
ip address add 10.99.0.9/24 dev data0
ip route add 10.98.0.0/16 dev data0
ip neighbour add 10.99.0.2 lladdr 02:12:00:00:00:09 dev data0 nud permanent
"""

    def start(self, argv, silence=None):
        made = f'{{ {self.MAKE} }} >&2; "$@"'
        return LocalProcess(["unshare", "-n", "sh", "-c", made, "sh", *argv])


def test_configured_interface_is_refused_in_the_words_of_the_agent(plan):
    if subprocess.run(["unshare", "-n", *BRIDGE], check=False).returncode:
        pytest.skip("needs root, and a kernel with bridges")
    apart = two_hosts("eth9", ("data0", "data1"))
    network = FakeNetwork(ApartHost("ends"), ApartHost("routers"))
    told = run.SshTestbed(apart, connect=network).check(plan)
    assert (
        "ends: interface data0 is configured, which a run would remove: it is part of br7 "
        "(`ip link set dev data0 nomaster`), has addresses: 10.99.0.9/24 "
        "(`ip address flush dev data0`), has a route to 10.98.0.0/16 "
        "(`ip route delete 10.98.0.0/16 dev data0`), has permanent neighbours "
        "(`ip neighbour flush nud permanent dev data0`)"
    ) in told
    assert (
        "ends: interface data1 is configured, which a run would remove: it carries v7 "
        "(`ip link delete dev v7`)"
    ) in told
    assert not any(host.requests for host in network.hosts.values())  # no agent is started


def test_programs_are_those_of_the_hosts_own_roles(plan):
    assert "tcpdump" in run.probed_programs(plan, ("S",))
    assert "tcpdump" not in run.probed_programs(plan, ("R2",))
    assert "ethtool" in run.probed_programs(plan, ("R2",))


def test_missing_program_is_named(plan):
    steps = (Command("S", ("no-such-program",)), Start("D", "x", ("{programs}/mine",)))
    told = found(two_hosts(), type(plan)((Phase("x", steps),), {}, (0.0, 1.0), ()))
    assert [line for line in told if "interface" not in line] == [
        "ends: no no-such-program (tcpf-lab doctor --testbed two names its package)"
    ]


def test_parameter_that_only_our_kernel_has_is_named_with_a_way_out(recorded_experiment):
    asked = apply_overrides(recorded_experiment, ["tcp.sack=false", "tcp.recovery=reno"])
    plan = compose(expand(asked)[0])
    assert run.parameters(plan, ("S",)) == ("net.ipv4.tcp_reno_recovery",)
    assert run.parameters(plan, ("R0",)) == ()
    assert [line for line in found(two_hosts(), plan) if "interface" not in line] == [
        "ends: its kernel has no net.ipv4.tcp_reno_recovery (only the virtual-time kernel has it; "
        "use `tcp.recovery: newreno` on hosts)"
    ]

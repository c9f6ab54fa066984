"""What is seen of a host before a run, by a script that changes nothing on it."""

from __future__ import annotations

import subprocess

import pytest
from fake_agent import FakeHost, FakeNetwork, LocalProcess

from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import Command, Phase, Start
from tcpf_lab.spec.load import apply_overrides
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import run


def inventory(control="lo", interfaces=None):
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


def found(inventory, plan, client=""):
    host = FakeHost("ends")
    host.client_address = client
    return list(run.problems(host, inventory, plan))


def test_missing_interfaces_are_named(plan):
    first, second = found(inventory(), plan)
    assert "no interface no-such-a" in first
    assert "tcpf-lab clean --testbed two" in second


def test_interface_that_carries_the_way_to_us_is_refused(plan):
    told = found(inventory("eth9", ("lo", "no-such")), plan, client="127.0.0.1")
    assert told[0].startswith("ends: lo is to carry data, but the host is reached by it")


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
    apart = inventory("eth9", ("data0", "data1"))
    network = FakeNetwork(ApartHost("ends"), ApartHost("routers"))
    told = run.SshTestbed(apart, connect=network).check(plan)
    assert (
        "ends: interface data0 is configured, which would be lost: it is part of br7 "
        "(`ip link set dev data0 nomaster`), has addresses: 10.99.0.9/24 "
        "(`ip address flush dev data0`), has a route to 10.98.0.0/16 "
        "(`ip route delete 10.98.0.0/16 dev data0`), has permanent neighbours "
        "(`ip neighbour flush nud permanent dev data0`)"
    ) in told
    assert (
        "ends: interface data1 is configured, which would be lost: it carries v7 "
        "(`ip link delete dev v7`)"
    ) in told
    assert not any(host.requests for host in network.hosts.values())  # no agent is started


def test_programs_are_those_of_the_hosts_own_roles(plan):
    assert "tcpdump" in run.probed_programs(plan, ("S",))
    assert "tcpdump" not in run.probed_programs(plan, ("R2",))
    assert "ethtool" in run.probed_programs(plan, ("R2",))


def test_missing_program_is_named(plan):
    steps = (Command("S", ("no-such-program",)), Start("D", "x", ("{programs}/mine",)))
    told = found(inventory(), type(plan)((Phase("x", steps),), {}, (0.0, 1.0), ()))
    assert [line for line in told if "interface" not in line] == [
        "ends: no no-such-program (tcpf-lab doctor --testbed two names its package)"
    ]


def test_parameter_that_only_our_kernel_has_is_named_with_a_way_out(recorded_experiment):
    asked = apply_overrides(recorded_experiment, ["tcp.sack=false", "tcp.recovery=reno"])
    plan = compose(expand(asked)[0])
    assert run.parameters(plan, ("S",)) == ("net.ipv4.tcp_reno_recovery",)
    assert run.parameters(plan, ("R0",)) == ()
    assert [line for line in found(inventory(), plan) if "interface" not in line] == [
        "ends: its kernel has no net.ipv4.tcp_reno_recovery (only the virtual-time kernel has it; "
        "`tcp.recovery: newreno` runs here)"
    ]

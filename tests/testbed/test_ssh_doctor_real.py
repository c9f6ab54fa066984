"""The doctor and the cleaning on a real host: sshd, agent, interfaces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tcpf_lab.spec.load import find, load
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.doctor import diagnose
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.ssh.session import Remainder, Session, clean
from tcpf_lab.testbed.ssh.steps import needs
from tcpf_lab.testbed.ssh.survey import survey

pytestmark = pytest.mark.full

NEEDS = needs(load(find("smoke")))
#: Ends agents and those that watch over them, of which a host in a test has no others.
KILL = """
all=$(ps -e -o pid=,args= | sed -n 's/^ *\\([0-9]*\\) .*[.]pyz serve .*/\\1/p')
kill -STOP $all
kill -KILL $all
"""
LOOP = {"S-R0": "d0", "R0-S": "d1"}


@pytest.fixture
def inventory(ssh) -> Inventory:
    """Return the inventory of the host, which has a cable from one interface to another."""
    return with_interfaces(ssh.inventory, LOOP)


def with_interfaces(inventory: Inventory, interfaces: dict[str, str]) -> Inventory:
    data = inventory.model_dump(mode="json", exclude_none=True)
    data["hosts"]["alpha"]["interfaces"] = interfaces
    data["hosts"]["alpha"]["roles"] = tuple(data["hosts"]["alpha"]["roles"])
    return Inventory.model_validate(data)


@pytest.fixture
def host(inventory: Inventory) -> Iterator[Host]:
    with contextlib.closing(Host(inventory, "alpha")) as host:
        done(host, "ip link add d0 mtu 1400 type veth peer name d1 mtu 1300")
        done(host, "ip link add br7 type bridge")
        yield host
        done(host, "ip link delete d0; ip link delete br7")


def done(host: Host, script: str) -> str:
    reply = run(host, ("sh", "-c", script))
    assert reply.status == 0, reply.errors
    return reply.text


def network(host: Host) -> str:
    return done(host, "ip -d link; ip address; ip route; ip netns; ethtool -k d0")


def found_wrong(inventory: Inventory) -> dict[str, str]:
    """Give what is wrong, but not with this machine's kernel, which may lack queues and headers."""
    checks = diagnose(inventory, NEEDS, survey(inventory, NEEDS))
    wrong = [check for check in checks if not check.ok and check.name not in ("queues", "modules")]
    assert all(check.cure for check in wrong)
    return {check.name: check.detail for check in wrong}


def test_a_good_host_is_as_before_when_its_cable_has_been_tried(inventory, host):
    before = network(host)
    found = survey(inventory, NEEDS)
    assert set(found.tried) == {("S", "R0"), ("R0", "S")}
    assert found.tried["S", "R0"].reached.keys() == {("R0", "S")}
    assert found.tried["S", "R0"].full_size
    checks = {check.name: check for check in diagnose(inventory, NEEDS, found)}
    assert checks["link S-R0"].ok, checks["link S-R0"]
    assert checks["control"].detail.endswith("carries the connection from here")
    assert network(host) == before


def test_five_planted_faults_are_found_at_once(inventory, host):
    done(host, "ip link set d0 master br7")
    data = inventory.model_dump(mode="json", exclude_none=True)
    data["hosts"]["alpha"].update(
        control="eth9",
        roles=tuple(data["hosts"]["alpha"]["roles"]),
        interfaces={**LOOP, "R2-D": "d7", "D-R2": "d8"},
    )
    data["links"] = {"rate": "1 Mbit"}
    faulty = Inventory.model_validate(data)
    leave_behind(faulty)
    wrong = found_wrong(faulty)
    assert wrong["leftovers"] == "not undone: a-run"
    assert wrong["control"].startswith("no interface 'eth9'")
    assert wrong["interfaces"] == "no interface 'd8' for D-R2: a run may have it"
    assert wrong["links"] == "not tried: something else is in the way"
    assert wrong["for smoke"].endswith("its cable 1 Mbit/s")
    assert [each.state for each in clean(faulty)] == ["undone"]
    assert "leftovers" not in found_wrong(faulty)


def leave_behind(inventory: Inventory) -> None:
    """Begin a run, and kill its agent and the process that watches over it."""
    session = Session(inventory, "a-run", Host, lambda *_: None)
    session.open()
    session.begin({})
    with contextlib.closing(Host(inventory, "alpha")) as host:
        done(host, KILL)
    session.hosts["alpha"].close()


def test_a_killed_run_is_listed_and_undone_by_hand(inventory, host):
    before = network(host)
    leave_behind(inventory)
    (listed,) = clean(inventory, dry_run=True)
    assert (listed.host, listed.run, listed.state) == ("alpha", "a-run", "to undo")
    (undone,) = clean(inventory)
    assert undone == Remainder("alpha", "a-run", listed.changes, "undone")
    assert clean(inventory) == ()
    assert network(host) == before

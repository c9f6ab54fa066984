"""The doctor and the cleaning on a real host: sshd, agent, interfaces."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tcpf_lab.spec.load import find, load
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.agent import network as agent_network
from tcpf_lab.testbed.ssh.agent.network import checksum, echo, ping
from tcpf_lab.testbed.ssh.agent.system import Cancelled
from tcpf_lab.testbed.ssh.doctor import diagnose
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.ssh.session import Remainder, Session, clean
from tcpf_lab.testbed.ssh.steps import needs
from tcpf_lab.testbed.ssh.survey import survey

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
    assert all(check.fix for check in wrong)
    return {check.name: check.detail for check in wrong}


@pytest.mark.full
def test_a_good_host_is_as_before_when_its_cable_has_been_tried(inventory, host):
    before = network(host)
    found = survey(inventory, NEEDS)
    assert set(found.tried) == {("S", "R0"), ("R0", "S")}
    assert found.tried["S", "R0"].reached.keys() == {("R0", "S")}
    assert found.tried["S", "R0"].full_size
    checks = {check.name: check for check in diagnose(inventory, NEEDS, found)}
    assert checks["link S-R0"].ok, checks["link S-R0"]
    assert checks["control"].detail.endswith("carries the control connection")
    assert network(host) == before


@pytest.mark.full
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
    assert wrong["interfaces"] == "no interface 'd8' for D-R2: a run may hold it"
    assert wrong["links"] == "not tested: other faults come first"
    assert wrong["for smoke"].endswith("its cable carries 1 Mbit/s")
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


@pytest.mark.full
def test_a_killed_run_is_listed_and_undone_by_hand(inventory, host):
    before = network(host)
    leave_behind(inventory)
    (listed,) = clean(inventory, dry_run=True)
    assert (listed.host, listed.run, listed.state) == ("alpha", "a-run", "to undo")
    (undone,) = clean(inventory)
    assert undone == Remainder("alpha", "a-run", listed.changes, "undone")
    assert clean(inventory) == ()
    assert network(host) == before


# The echo that the doctor lets hosts send, by their agents.

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="sending ICMP takes root")


@pytest.mark.parametrize("size", [84, 85, 1000, 1001])
def test_a_request_has_its_size_and_a_right_checksum(size):
    packet = echo(4711, 3, size)
    assert len(packet) == size - 20
    kind, code, _, identity, number = struct.unpack_from("!BBHHH", packet)
    assert (kind, code, identity, number) == (8, 0, 4711, 3)
    assert checksum(packet + bytes(len(packet) % 2)) == 0


@AS_ROOT
def test_this_machine_answers_itself_and_nobody_answers_for_a_lost_packet(monkeypatch):
    found = ping("127.0.0.1", 1000, 2, threading.Event())
    assert found is not None
    assert 0 < found < 1
    monkeypatch.setattr(agent_network, "REPLY_S", 0.2)
    assert ping("127.0.0.1", 70_000, 1, threading.Event()) is None  # larger than any packet
    monkeypatch.setattr(socket.socket, "sendto", lambda *_: 0)
    assert ping("127.0.0.1", 84, 1, threading.Event()) is None
    ended = threading.Event()
    ended.set()
    with pytest.raises(Cancelled):
        ping("127.0.0.1", 84, 1, ended)

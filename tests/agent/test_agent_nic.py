"""Interfaces of a host: which are refused, and what of them is restored."""

from __future__ import annotations

import subprocess

import pytest
from private_host import STATE, Host, Talk, needs_root

pytestmark = pytest.mark.full

NIC = {"node": "S", "device": "S-R0", "mac": "02:00:00:00:00:01", "mtu": 1000}


@pytest.fixture(scope="module")
def host():
    """Return a host of this module's own: its tests change what the host is."""
    needs_root()
    host = Host()
    yield host
    host.close()


@pytest.fixture
def changed(host):
    """Return a function that changes the host before a run; the test changes it back."""

    def change(text):
        said = host.run("sh", "-ec", text)
        host.before = host.settled_snapshot()
        return said

    return change


@pytest.fixture
def taking(host):
    """Return a function that asks for an interface, and gives the error if there is one."""

    def take(interface, env=()):
        talk = Talk(host, env=env)
        talk.ask("begin", token="run-1", owner=True, plugins=None)
        talk.ask("node", node="S")
        reply = talk.reply(talk.send("nic", interface=interface, **NIC))
        assert talk.ask("end")["left"] == []
        talk.close()
        host.settled()
        host.assert_same()
        return None if reply["ok"] else reply["error"]["message"]

    return take


@pytest.mark.parametrize(
    ("make", "unmake", "interface", "message"),
    [
        ("true", "true", "eth7", "Cannot find device 'eth7'"),
        ("true", "true", "lo", "is the loopback interface"),
        (
            "ip link add link eth2 name v7 type macvlan",
            "ip link delete v7",
            "eth2",
            "carries v7 (`ip link delete dev v7`)",
        ),
        (
            "ip link add br7 type bridge; ip link set eth2 master br7",
            "ip link delete br7",
            "eth2",
            "is part of br7 (`ip link set dev eth2 nomaster`)",
        ),
        (
            "tc qdisc add dev eth2 root handle 7: tbf rate 1mbit burst 9000 limit 9000",
            "tc qdisc delete dev eth2 root",
            "eth2",
            "has a queueing discipline (tbf)",
        ),
        (
            "tc qdisc add dev eth2 clsact",
            "tc qdisc delete dev eth2 clsact",
            "eth2",
            "has a queueing discipline (clsact)",
        ),
        (
            "ip nexthop add id 7 via 192.0.2.7 dev eth0; ip route add 10.77.0.0/16 nhid 7",
            "ip route delete 10.77.0.0/16; ip nexthop delete id 7",
            "eth0",
            "has a route to 10.77.0.0/16 (`ip route delete 10.77.0.0/16 dev eth0`)",
        ),
        (
            "ip link set eth2 up; ip address add 10.99.0.9/24 dev eth2; ip address add fd00:7::1/64"
            " dev eth2; ip route add 10.98.0.0/16 via 10.99.0.2; "
            "ip route add fd00:98::/48 via fd00:7::2 table 7",
            "ip address flush dev eth2; ip link set eth2 down",
            "eth2",
            "interface eth2 is configured, which a run would remove: it has addresses: "
            "10.99.0.9/24, fd00:7::1/64 (`ip address flush dev eth2`), has a route to 10.98.0.0/16 "
            "(`ip route delete 10.98.0.0/16 dev eth2`), has a route to fd00:98::/48 "
            "(`ip -6 route delete fd00:98::/48 table 7 dev eth2`)",
        ),
        (
            "ip link set eth2 up; ip route add 10.98.0.0/16 nexthop dev eth2 nexthop dev eth0",
            "ip route delete 10.98.0.0/16; ip link set eth2 down",
            "eth2",
            "has a route to 10.98.0.0/16 (`ip route delete 10.98.0.0/16`)",
        ),
        (
            "ip link set eth2 up; "
            "ip neighbour add 10.99.0.2 lladdr 02:12:00:00:00:09 dev eth2 nud permanent",
            "ip neighbour flush nud permanent dev eth2; ip link set eth2 down",
            "eth2",
            "has permanent neighbours (`ip neighbour flush nud permanent dev eth2`)",
        ),
    ],
)
def test_interface_that_would_not_come_back_as_it_was_is_refused(
    host, changed, taking, make, unmake, interface, message
):
    try:
        changed(make)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel cannot `{make}`: {error}")
    try:
        assert message in taking(interface)
    finally:
        host.run("sh", "-c", unmake)


@pytest.mark.parametrize(
    ("connection", "interface", "refused"),
    [
        ("192.0.2.2 50000 192.0.2.1 22", "eth0", True),  # the way to the client, and the server's
        ("192.0.2.2 50000 10.0.0.1 22", "eth0", True),  # the way to the client
        ("10.88.0.1 50000 198.51.100.7 22", "eth0", False),
        ("10.88.0.1 50000 192.0.2.1 22", "eth4", True),  # by the default route
        ("192.0.2.2 50000 192.0.2.1 22", "eth1", False),
    ],
)
def test_interface_of_the_control_connection_is_refused(
    host, changed, taking, connection, interface, refused
):
    changed("true")
    said = taking(interface, env={"SSH_CONNECTION": connection}.items())
    assert ("carries the control connection" in str(said)) == refused, said


#: What is made of eth2 before a run, and how it is made what it was.
STATES = {
    "flags": (
        "ip link set eth2 promisc on allmulticast on arp off",
        "ip link set eth2 promisc off allmulticast off arp on",
    ),
    "sizes": (
        "ip link set eth2 mtu 9000 txqueuelen 3 group 5",
        "ip link set eth2 mtu 1500 txqueuelen 1000 group 0",
    ),
    "gso": (
        "ip link set eth2 gso_max_size 20000 gso_max_segs 7 gro_max_size 30000",
        "ip link set eth2 gso_max_size 65536 gso_max_segs 65535 gro_max_size 65536",
    ),
    "broadcast": (
        "ip link set eth2 broadcast ff:ff:ff:ff:ff:fe",
        "ip link set eth2 broadcast ff:ff:ff:ff:ff:ff",
    ),
    "offloads": (
        "ethtool -K eth2 tx off sg off gro on rxvlan off",
        "ethtool -K eth2 tx on sg on gro off rxvlan on",
    ),
    "up without address": (
        "ip link set eth2 addrgenmode none up",
        "ip link set eth2 addrgenmode eui64 down",
    ),
    "down with a queue": ("ip link set eth2 up; ip link set eth2 down", "true"),
    "too small for IPv6": ("ip link set eth2 mtu 1200", "ip link set eth2 mtu 1500"),
    "parameters": (
        "sysctl -w net.ipv6.conf.eth2.disable_ipv6=1 net.ipv4.conf.eth2.arp_ignore=2",
        "sysctl -w net.ipv6.conf.eth2.disable_ipv6=0 net.ipv4.conf.eth2.arp_ignore=0",
    ),
    "alias": ("ip link set eth2 alias 'to the switch'", "ip link set eth2 alias ''"),
    "up with the kernel's own address": ("ip link set eth2 up", "ip link set eth2 down"),
}


@pytest.mark.parametrize(("make", "unmake"), STATES.values(), ids=STATES)
def test_all_of_an_interface_is_restored(host, changed, taking, make, unmake):
    changed(make)
    try:
        assert taking("eth2") is None
    finally:
        host.run("sh", "-c", unmake)


def test_index_is_restored_even_if_it_was_taken_in_the_node(host, changed):
    changed("true")
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    talk.ask("node", node="S")
    talk.ask("node", node="D")
    index = host.sh("cat /sys/class/net/eth1/ifindex").strip()
    for number in range(int(index)):  # every index of a node's beginning
        ends = [{"node": n, "device": f"{n}{number}", "mac": f"02:00:00:00:{k}{number}:01"}
                for k, n in enumerate("SD", 1)]  # fmt: skip
        talk.ask("veth", ends=ends, mtu=1000)
    talk.ask("nic", interface="eth1", **NIC)
    taken = host.sh(f"ip -n tcpf-S -o link | grep '^{index}:'")
    assert "S-R0" not in taken
    assert talk.ask("end")["left"] == []
    talk.close()
    host.settled()
    host.assert_same()


def test_interface_that_vanishes_meanwhile_is_left(host):
    host.sh("ip link add name gone type veth peer name far")
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    talk.ask("node", node="S")
    talk.ask("nic", interface="gone", **NIC)
    host.sh("ip link delete far")
    left = talk.ask("end")["left"]
    assert left == ["interface gone is neither on the host nor in node S"]
    talk.close()
    host.settled()
    assert not host.path(f"{STATE}/runs").exists()  # there is nothing to be tried again


def test_node_with_an_interface_that_cannot_be_moved_is_kept(host, changed):
    """Both names are taken on the host: the interface stays where it is, and with it the node."""
    changed("true")
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    talk.ask("node", node="S")
    talk.ask("nic", interface="eth2", **NIC)
    host.sh("ip link add name eth2 type veth peer name S-R0")
    left = talk.ask("end")["left"]
    assert len(left) == 2
    assert left[0].startswith("interface eth2, now S-R0 of its node: File exists")
    assert left[1] == "node S, which still holds an interface of the host"
    assert "tcpf-S" in host.sh("ip netns list")  # and to look into it is to be killed with it
    host.sh("ip link delete eth2")
    talk.close()
    host.settled(40)
    host.assert_same()

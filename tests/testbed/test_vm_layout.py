"""Roles, interfaces and wires of the guests, and the files by which others learn of them."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tcpf_lab.testbed.inventory import load_inventory
from tcpf_lab.testbed.vm import layout
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES, WIRES, End

PORTS = {role: 40000 + number for number, role in enumerate(ROLES)}
ENDS, ROUTERS = GUESTS


def test_every_role_is_in_one_guest() -> None:
    assert Counter(role for guest in GUESTS for role in guest.roles) == Counter(ROLES)


def test_wires_join_neighbours_along_the_path() -> None:
    joined = [f"{a.role}-{b.role}" for a, b in WIRES]
    assert joined == ["S-R0", "R0-R1", "R1-R2", "R2-D"]
    assert [f"{a.role}-{b.role}" for a, b in layout.crossing()] == ["S-R0", "R2-D"]


@pytest.mark.parametrize(
    ("role", "peer", "interface"),
    [
        ("S", "R0", "data0"),
        ("R0", "S", "data0"),
        ("R0", "R1", "data1"),
        ("R1", "R0", "data0"),
        ("R1", "R2", "data1"),
        ("R2", "R1", "data0"),
        ("R2", "D", "data1"),
        ("D", "R2", "data0"),
    ],
)
def test_data0_is_towards_the_sender(role: str, peer: str, interface: str) -> None:
    assert End(role, peer).interface == interface


def test_no_two_interfaces_have_one_address() -> None:
    addresses = [end.mac for wire in WIRES for end in wire]
    addresses += [layout.mac(role, 0) for role in ROLES]
    assert len(set(addresses)) == len(addresses) == 13
    # Locally administered, of one host.
    assert all(int(address[:2], 16) & 3 == 2 for address in addresses)


def test_guests_are_told_all_of_their_interfaces() -> None:
    assert layout.setup(ENDS).splitlines() == [
        "faster 0",
        "card 52:54:00:1a:00:00 S control",
        "card 52:54:00:1a:04:00 D control",
        "card 52:54:00:1a:00:01 S data0",
        "card 52:54:00:1a:04:01 D data0",
    ]
    lines = layout.setup(ROUTERS).splitlines()
    assert lines[0] == "faster 40"
    assert lines[-2:] == [
        "wire R0 data1 52:54:00:1a:01:02 R1 data0 52:54:00:1a:02:01",
        "wire R1 data1 52:54:00:1a:02:02 R2 data0 52:54:00:1a:03:01",
    ]
    assert sum(line.startswith("card ") for line in lines) == 5


def test_every_role_is_started_in_namespaces_of_its_own() -> None:
    lines = [line for line in layout.inittab(ROUTERS).splitlines() if "/role " in line]
    assert [line.rpartition("/role ")[2] for line in lines] == [
        "R0 vm-R0",
        "R1 vm-R1",
        "R2 vm-R2",
    ]
    assert all(" unshare -n -m -u " in line for line in lines)


def test_inventory_is_one_that_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(layout.inventory(PORTS, "6.12.1"))
    found = load_inventory(path)
    assert found.name == "vm"
    assert found.roles == ROLES
    assert {found.hosts[found.host_of(role)].port for role in ROLES} == set(PORTS.values())
    assert found.interface("R1", "R2") == "data1"
    assert [pair for pair in _pairs() if found.shares_kernel(*pair)] == [("R0", "R1"), ("R1", "R2")]
    assert all(found.interface(*pair) and found.interface(*pair[::-1]) for pair in _pairs())
    assert found.ssh.identity == str(tmp_path / "keys/identity")
    assert found.ssh.known_hosts == str(tmp_path / "known_hosts")


def _pairs() -> list[tuple[str, str]]:
    return [(a.role, b.role) for a, b in WIRES]


def test_ssh_reads_the_configuration_as_it_is_meant(tmp_path: Path) -> None:
    place = tmp_path / "a b"  # a cache may be anywhere
    place.mkdir()
    (place / "config").write_text(layout.ssh_config(PORTS, place))
    reply = subprocess.run(
        ["ssh", "-F", str(place / "config"), "-G", "vm-R1"],
        capture_output=True,
        text=True,
        check=True,
    )
    read = dict(line.split(" ", 1) for line in reply.stdout.splitlines())
    assert (read["hostname"], read["port"], read["user"]) == ("127.0.0.1", "40002", "root")
    assert read["identityfile"] == str(place / "keys/identity")
    assert read["stricthostkeychecking"] == "true"
    assert str(place / "known_hosts") in read["userknownhostsfile"]


def test_known_hosts_names_ports() -> None:
    keys = {role: f"ssh-ed25519 key-of-{role}" for role in ROLES}
    lines = layout.known_hosts(PORTS, keys).splitlines()
    assert len(lines) == 5
    assert re.fullmatch(r"\[127\.0\.0\.1\]:40004 ssh-ed25519 key-of-D", lines[-1])

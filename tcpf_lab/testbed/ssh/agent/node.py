"""Nodes: namespaces that are made for a run, pairs of interfaces within them, and their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tcpf_lab.testbed.ssh.agent import modules, namespaces, netlink, system
from tcpf_lab.testbed.ssh.agent.errors import AgentError, Left

_DIAG = Path("/sys/module/tcp_diag")


def make(node: str) -> None:
    """Make the namespace ``node``.

    Raises
    ------
    AgentError
        If it cannot be made.
    """
    system.checked(["ip", "netns", "add", namespaces.name(node)])


def join(ends: Sequence[Mapping[str, Any]], mtu: int, wire: Mapping[str, int] | None) -> None:
    """Put one end of a veth pair into each of two nodes, or a station of a half-duplex wire.

    Parameters
    ----------
    ends : sequence of two mappings
        The ``node``, ``device`` and ``mac`` of each; of the second, the process number of the
        ``agent`` that has its node, unless it is this one.
    mtu : int
        Bytes.
    wire : mapping, optional
        Its ``rate`` in Mbit/s, its ``seed``, and the ``ring`` of either station.

    Raises
    ------
    AgentError
        If it cannot be made.
    """
    near, far = (["name", e["device"], "address", e["mac"], "mtu", str(mtu)] for e in ends)
    here, there = (namespaces.name(e["node"]) for e in ends)
    if agent := ends[1].get("agent"):  # its mounts are other ones
        there = f"/proc/{agent}/root{namespaces.place(ends[1]['node'])}"
    add = ["link", "add"]
    if wire is None:
        peer = ["type", "veth", "peer", *far, "netns", there]
        system.checked(["ip", *add, *near, "netns", here, *peer])
        return
    own = ["rate", f"{wire['rate']}mbit", "seed", str(wire["seed"])]
    kind, first = ["type", "csma", "ring", str(wire["ring"])], ["link", ends[0]["device"]]
    system.checked(["ip", "-n", here, *add, *near, *kind, *own])
    system.checked(["ip", "-n", here, *add, *first, *far, "netns", there, *kind])


def part(ends: Sequence[Mapping[str, str]]) -> None:
    """Delete both ends of a link; of a veth pair, the second goes with the first.

    Raises
    ------
    Left
        If an end is still there after that.
    """
    for end in ends:
        node, device = end["node"], end["device"]
        if has(node, device):
            system.run(["ip", "-n", namespaces.name(node), "link", "delete", "dev", device])
            if has(node, device):
                raise Left(f"interface {device} of node {node}")


def has(node: str, device: str) -> bool:
    """Say whether an interface is in a node."""
    place = namespaces.place(node)
    if not namespaces.is_one(place):
        return False
    return namespaces.inside(place, lambda: netlink.find(device)) is not None


def hurry(node: str) -> None:
    """Let connections without a process end soon: each keeps the namespace until it has ended."""

    def change() -> None:
        with suppress(AgentError):
            system.write("net.ipv4.tcp_orphan_retries", "1")

    place = namespaces.place(node)
    if namespaces.is_one(place):
        namespaces.inside(place, change)


def delete(node: str) -> None:
    """Delete a namespace, all processes of which have been ended.

    What it holds is taken out of the kernel first: the namespace itself goes only when there is no
    connection that waits for a last acknowledgement, and until then modules are in use.

    Raises
    ------
    Left
        If it is still there after that.
    """
    if not namespaces.exists(node):
        return
    if namespaces.is_one(namespaces.place(node)):
        _empty(node)
    said = system.run(["ip", "netns", "delete", namespaces.name(node)])
    if namespaces.exists(node):
        raise Left(f"node {node}: {said.errors.strip()}")


def _empty(node: str) -> None:
    place, name = namespaces.place(node), namespaces.name(node)
    loaded = modules.loaded()
    devices = [link.name for link in namespaces.inside(place, netlink.every_link)]
    lines = [f"qdisc delete dev {device} {at}" for device in devices for at in ("clsact", "root")]
    actions = [module[len("act_") :] for module in loaded if module.startswith("act_")]
    lines += [f"actions flush action {kind}" for kind in actions]
    text = "".join(f"{line}\n" for line in lines)
    system.run(["tc", "-n", name, "-force", "-batch", "-"], text=text)
    if "tcp_diag" in loaded or _DIAG.exists():  # else `ss` would load it, and nobody unload it
        with suppress(AgentError):  # there may be no `ss`: connections end by themselves
            system.run(["ss", "-N", name, "-K", "state", "connected"])

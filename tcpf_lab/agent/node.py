"""Nodes: namespaces that are made for a run, pairs of interfaces within them, and their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcpf_lab.agent import commands, links, modules, namespaces
from tcpf_lab.agent.errors import AgentError, Left


def make(node: str) -> None:
    """Make the namespace ``node``.

    Raises
    ------
    AgentError
        If it cannot be made.
    """
    commands.checked(["ip", "netns", "add", namespaces.name(node)])


def join(ends: Sequence[Mapping[str, str]], mtu: int) -> None:
    """Put one end of a veth pair into each of two nodes.

    Raises
    ------
    AgentError
        If it cannot be made.
    """
    near, far = (
        [
            "name",
            e["device"],
            "address",
            e["mac"],
            "mtu",
            str(mtu),
            "netns",
            namespaces.name(e["node"]),
        ]
        for e in ends
    )
    commands.checked(["ip", "link", "add", *near, "type", "veth", "peer", *far])


def part(ends: Sequence[Mapping[str, str]]) -> None:
    """Delete a veth pair, by the end that is found.

    Raises
    ------
    Left
        If an end is still there after that.
    """
    for end in ends:
        node, device = end["node"], end["device"]
        if has(node, device):
            commands.run(["ip", "-n", namespaces.name(node), "link", "delete", "dev", device])
            if has(node, device):
                raise Left(f"interface {device} of node {node}")


def has(node: str, device: str) -> bool:
    """Say whether an interface is in a node."""
    place = namespaces.place(node)
    if not namespaces.is_one(place):
        return False
    return namespaces.inside(place, lambda: links.find(device)) is not None


def delete(node: str, actions: Sequence[str]) -> None:
    """Delete a namespace, all processes of which have been ended.

    What it holds is taken out of the kernel first: the namespace itself goes only when there is no
    connection that waits for a last acknowledgement, and until then modules are in use.

    Parameters
    ----------
    node : str
        The namespace.
    actions : sequence of str
        Kinds of ``tc`` actions that may be there by themselves.

    Raises
    ------
    Left
        If it is still there after that.
    """
    if not namespaces.exists(node):
        return
    if namespaces.is_one(namespaces.place(node)):
        _empty(node, actions)
    said = commands.run(["ip", "netns", "delete", namespaces.name(node)])
    if namespaces.exists(node):
        raise Left(f"node {node}: {said.errors.strip()}")


def _empty(node: str, actions: Sequence[str]) -> None:
    place = namespaces.place(node)
    names = [link.name for link in namespaces.inside(place, links.every)]
    lines = [
        ["qdisc", "delete", "dev", name, where] for name in names for where in ("clsact", "root")
    ]
    lines += [["actions", "flush", "action", kind] for kind in actions]
    text = "".join(" ".join(line) + "\n" for line in lines)
    commands.run(["tc", "-n", namespaces.name(node), "-force", "-batch", "-"], text=text)
    try:
        commands.run(["ss", "-N", namespaces.name(node), "-K", "state", "connected"])
    except AgentError:  # no `ss`: connections end by themselves
        return


def actions_since(before: Sequence[str]) -> list[str]:
    """Give the kinds of actions whose modules have been loaded since."""
    new = [name for name in modules.loaded() if name not in before]
    return [name[len("act_") :] for name in new if name.startswith("act_")]


def remove_directory() -> None:
    """Remove the directory of named namespaces, which ``ip`` has made and mounted on itself.

    A namespace that somebody else has made meanwhile keeps it.
    """
    if not namespaces.NAMED.exists() or any(namespaces.NAMED.iterdir()):
        return
    commands.run(["umount", str(namespaces.NAMED)])
    try:
        namespaces.NAMED.rmdir()
    except OSError:
        return

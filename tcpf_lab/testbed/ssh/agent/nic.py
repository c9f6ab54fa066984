"""A host's interface: described, moved into a node, and given back as it was."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tcpf_lab.testbed.ssh.agent import namespaces, netlink, system
from tcpf_lab.testbed.ssh.agent.errors import AgentError, Left, Lost
from tcpf_lab.testbed.ssh.agent.netlink import Link

_LINE = re.compile(r"(\t?)([\w-]+): (on|off)(.*)")


def show(device: str) -> str:
    """Give what is in force, in the words of ``ethtool -k``.

    Raises
    ------
    AgentError
        If there is no ``ethtool``, or the device is not there.
    """
    return system.checked(["ethtool", "-k", device]).output


def wanted(device: str) -> dict[str, bool]:
    """Give the features that can be set, as somebody wants them, even if they are not in force."""
    return parse(show(device))


def parse(text: str) -> dict[str, bool]:
    """Read the features that can be set from what ``ethtool -k`` said.

    A heading such as ``tx-checksumming`` stands for those that are indented below it, and is left
    out if there are any.
    """
    found: dict[str, bool] = {}
    heading = ""
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        indent, name, state, more = match.groups()
        if indent:
            found.pop(heading, None)
        else:
            heading = name
        if "[fixed]" not in more:
            asked = re.search(r"\[requested (on|off)\]", more)
            found[name] = (asked[1] if asked else state) == "on"
    return found


def restore(device: str, before: dict[str, bool]) -> None:
    """Set all features that differ from ``before``.

    Raises
    ------
    AgentError
        If the driver refuses.
    """
    now = wanted(device)
    words = _words({name: on for name, on in before.items() if now.get(name, on) != on})
    if words:
        system.checked(["ethtool", "-K", device, *words])


def switch_off(device: str, features: Sequence[str]) -> str:
    """Switch features off, and give what is in force then.

    Raises
    ------
    AgentError
        If the driver refuses.
    """
    now = show(device)
    on = [name for name in features if not re.search(rf"^{re.escape(name)}: off", now, re.M)]
    if not on:
        return now
    system.checked(["ethtool", "-K", device, *_words(dict.fromkeys(on, False))])
    return show(device)


def _words(states: dict[str, bool]) -> list[str]:
    return [word for name, on in states.items() for word in (name, "on" if on else "off")]


#: Written down of an interface before it is moved.
State = dict[str, Any]


def describe(link: Link) -> State:
    """Describe all that is given back, such that it can be written as JSON.

    Raises
    ------
    AgentError
        If its offloads cannot be read.
    """
    return {
        "interface": link.name,
        "index": link.index,
        "settings": link.settings,
        "offloads": wanted(link.name),
        "sysctls": system.of_device(link.name),
        "layer3": netlink.record(link.index),
    }


def take(link: Link, node: str, device: str, mac: str, mtu: int) -> None:
    """Move an interface of the host into a node, as ``device``; it is down then.

    Raises
    ------
    AgentError
        If the kernel refuses.
    """
    place = namespaces.place(node)
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        netlink.move(link, handle, device)
        namespaces.inside(place, lambda: _dress(device, mac, mtu))
    except OSError as error:
        text = f"interface {link.name} cannot become {device} of node {node}: {error.strerror}"
        raise AgentError(text) from None
    finally:
        os.close(handle)


def _dress(device: str, mac: str, mtu: int) -> None:
    moved = netlink.find(device)
    if moved is None:
        raise AgentError(f"{device} is not where it was moved to")
    netlink.change(moved.index, (netlink.ADDRESS, netlink.mac(mac)))
    netlink.change(moved.index, (netlink.MTU, struct.pack("=I", mtu)))


def give_back(state: State, node: str, device: str, others: Collection[str]) -> None:
    """Bring an interface back to the calling process's namespace, and make it what it was.

    Parameters
    ----------
    state : dict
        From `describe`.
    node, device : str
        Where it has been moved to, or should have been.
    others : collection of str
        Names of the node's other interfaces.

    Raises
    ------
    Left
        Saying what could not be restored.
    Lost
        If the interface is nowhere.
    """
    place = namespaces.place(node)
    if namespaces.is_one(place):
        namespaces.inside(place, lambda: _send_back(state, device, others))
    link = _identify(state, device)
    if link is None:
        raise Lost(f"interface {state['interface']} is neither here nor in node {node}")
    _restore(state, link)


def _send_back(state: State, device: str, others: Collection[str]) -> None:
    """Move the interface out of the node, in whose namespace this is called, if it is there."""
    name = state["interface"]
    link = netlink.find(device) or (None if name in others else netlink.find(name))
    if link is None:
        return
    netlink.set_up(link.index, False)
    _restore_settings(state["settings"], link)
    host = os.open(namespaces.OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _move(link, host, name, state["index"])
    except OSError as error:
        raise Left(f"interface {name}, now {device} of its node: {error.strerror}") from None
    finally:
        os.close(host)


def _move(link: Link, host: int, name: str, index: int) -> None:
    """Move it back under its old name and index, or under another index if that is taken."""
    try:
        netlink.move(link, host, name, index)
    except OSError:
        if netlink.find(link.name) is None:  # moved all the same, but under another name
            return
        netlink.move(link, host, name)


def _identify(state: State, device: str) -> Link | None:
    """Find the interface on the host, and not another one that has been given its name meanwhile.

    It came back under the name that it had in the node if its own was taken.  Its index is the same
    unless the kernel is older than 5.13, its address has been restored before it was moved.
    """
    address = state["settings"]["attributes"].get(str(netlink.ADDRESS))
    for name in (state["interface"], device):
        link = netlink.find(name)
        if link and state["index"] == link.index:
            return link
        if link and address == link.settings["attributes"].get(str(netlink.ADDRESS)):
            return link
    return None


def _restore(state: State, link: Link) -> None:
    """Make an interface of the host what it was; what is so already is not touched."""
    name, before = state["interface"], state["settings"]
    if link.name != name:
        _rename(link, name)
    _restore_settings(before, link)
    system.restore_device(name, state["sysctls"])
    try:
        restore(name, state["offloads"])
    except AgentError as error:
        raise Left(f"offloads of interface {name}: {error.output or error.message}") from None
    _restore_flags(before, link)
    up = bool(before["flags"] & netlink.UP)
    problems = netlink.restore(state["layer3"], state["index"], link.index, up)
    if problems:
        raise Left(f"interface {name}: {'; '.join(problems)}")
    _verify(name, before)


def _rename(link: Link, name: str) -> None:
    try:
        netlink.set_up(link.index, False)
        netlink.change(link.index, (netlink.NAME, name.encode() + b"\0"))
    except OSError as error:
        raise Left(f"interface {link.name}, once {name}: {error.strerror}") from None


def _restore_settings(before: Mapping[str, Any], link: Link) -> None:
    """Set one attribute after the other: a driver that refuses one may take the next."""
    now = link.settings["attributes"]
    for kind, value in before["attributes"].items():
        if now.get(kind) != value:
            try:
                netlink.change(link.index, (int(kind), bytes.fromhex(value)))
            except OSError:  # noticed when all is compared
                continue


def _restore_flags(before: Mapping[str, Any], link: Link) -> None:
    mask = netlink.UP | netlink.SETTABLE
    if before["queued"] and not before["flags"] & netlink.UP and not link.settings["queued"]:
        netlink.set_up(link.index, True)  # once up, it keeps a queue when it is down
    now = next((other for other in netlink.every_link() if other.index == link.index), link)
    if now.flags & mask != before["flags"]:
        try:
            netlink.change(link.index, flags=before["flags"], mask=mask)
        except OSError as error:
            raise Left(f"interface {link.name} cannot be switched on: {error.strerror}") from None


def _verify(name: str, before: Mapping[str, Any]) -> None:
    link = netlink.find(name)
    now: Mapping[str, Any] = link.settings if link else {"flags": 0, "attributes": {}}
    if now["flags"] != before["flags"]:
        raise Left(f"interface {name}: flags {now['flags']:#x} instead of {before['flags']:#x}")
    for kind, value in before["attributes"].items():
        if now["attributes"].get(kind) != value:
            raise Left(f"interface {name}: attribute {kind} was {value}")

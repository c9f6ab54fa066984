"""Nodes, the links between them, and the host's interfaces: made, moved, given back as they were.

``ip -j`` reads the state of interfaces and ``ip`` changes it.  Only moving one back uses a netlink
message of our own: ``ip`` cannot restore an interface's index.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tcpf_lab.testbed.ssh.agent import modules, namespaces, system
from tcpf_lab.testbed.ssh.agent.system import AgentError, Cancelled, Left, Lost

#: An interface, address or route as ``ip -j -d`` reports it.
Entry = Mapping[str, Any]
#: Entries of the commands of `SHOWN`.
Shown = Mapping[str, Sequence[Entry]]
#: State of an interface that is recorded before it is moved.
State = dict[str, Any]

#: Kind of configuration -> the commands of ``ip -j`` that show it.
SHOWN = {
    "links": ("-d link show",),
    "addresses": ("address show",),
    "routes": ("-4 route show table all", "-6 route show table all"),
    "neighbours": ("neighbour show nud permanent",),
}
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


def tag(below: Mapping[str, Any], node: str, device: str, mac: str, mtu: int) -> None:
    """Make a VLAN in a node.

    Parameters
    ----------
    below : mapping
        The ``node`` and ``device`` that it is of, and its ``number``.
    node, device, mac : str
        Of the VLAN.
    mtu : int
        Bytes.

    Raises
    ------
    AgentError
        If it cannot be made.
    """
    own = ["link", below["device"], "name", device, "address", mac, "mtu", str(mtu)]
    there = ["netns", namespaces.name(node), "type", "vlan", "id", str(below["number"])]
    system.checked(["ip", "-n", namespaces.name(below["node"]), "link", "add", *own, *there])


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
    """Return whether an interface is in a node."""
    place = namespaces.place(node)
    return namespaces.is_one(place) and device in namespaces.inside(place, _devices)


def _devices() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


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

    Its contents are removed first: the namespace lasts as long as a connection waits for a last
    acknowledgement, and until then modules are in use.

    Raises
    ------
    Left
        If it still exists afterwards.
    """
    if not namespaces.exists(node):
        return
    if namespaces.is_one(namespaces.place(node)):
        _empty(node)
    result = system.run(["ip", "netns", "delete", namespaces.name(node)])
    if namespaces.exists(node):
        raise Left(f"node {node}: {result.errors.strip()}")


def _empty(node: str) -> None:
    place, name = namespaces.place(node), namespaces.name(node)
    loaded = modules.loaded()
    devices = namespaces.inside(place, _devices)
    lines = [f"qdisc delete dev {device} {at}" for device in devices for at in ("clsact", "root")]
    actions = [module[len("act_") :] for module in loaded if module.startswith("act_")]
    lines += [f"actions flush action {kind}" for kind in actions]
    text = "".join(f"{line}\n" for line in lines)
    system.run(["tc", "-n", name, "-force", "-batch", "-"], text=text)
    if "tcp_diag" in loaded or _DIAG.exists():  # else `ss` would load it for good
        with suppress(AgentError):  # there may be no `ss`: connections end by themselves
            system.run(["ss", "-N", name, "-K", "state", "connected"])


def batch(
    program: str, node: str, lines: Sequence[Sequence[str]], cancel: threading.Event | None = None
) -> None:
    """Run commands of ``ip`` or ``tc`` in one process.

    Raises
    ------
    AgentError
        Naming the command that failed.
    """
    if program not in ("ip", "tc"):
        raise AgentError(f"'{program}' has no batches; allowed: ip, tc")
    text = "".join(" ".join(map(_quoted, line)) + "\n" for line in lines)
    argv = [program, "-n", namespaces.name(node), "-batch", "-"]
    result = system.run(argv, text=text, cancel=cancel)
    if result.status == 0:
        return
    failed = re.search(r"Command failed -:(\d+)", result.errors)
    number = int(failed[1]) if failed else int(len(lines) == 1)
    if 1 <= number <= len(lines):
        command = [program, *lines[number - 1]]
        message = f"command {number} of {len(lines)} failed in node {node}"
    else:  # it was killed, could not enter the node, or `tc` does not name the line
        command = argv
        message = f"a batch of {len(lines)} commands {system.ending(result.status)} in node {node}"
    text = re.sub(r"Command failed -:\d+\n?", "", result.errors)
    raise AgentError(message, command, result.status, text or result.output)


def _quoted(word: str) -> str:
    """Write a word such that the batch reader of iproute2 takes it as one.

    A ``#`` begins a comment there, quoted or not.
    """
    if "\n" in word or "#" in word or ('"' in word and "'" in word):
        raise AgentError(
            f"not a word of a batch: {word!r}; it may hold no newline, no '#', and "
            "one kind of quotes only"
        )
    if word and not re.search(r"[\s\"'\\]", word):
        return word
    quote = "'" if '"' in word else '"'
    return f"{quote}{word}{quote}"


def find(name: str) -> Entry | None:
    """Find an interface by name, not by one of its other names."""
    result = system.run(["ip", "-j", "-d", "link", "show", "dev", name])
    found = system.parsed(result.output) if result.status == 0 else []
    return next((link for link in found if link["ifname"] == name), None)


def refuse(link: Entry) -> None:
    """Refuse an interface that cannot be moved and given back as it was.

    Raises
    ------
    AgentError
        Naming what prevents it, and the commands that remove that.
    """
    name = link["ifname"]
    if "LOOPBACK" in link["flags"]:
        raise AgentError(f"interface {name} is the loopback interface")
    if problem := would_be_lost(name, shown(system.report)):
        raise AgentError(problem)
    if "xdp" in link:
        raise AgentError(
            f"interface {name} has an XDP program, which a run would remove: "
            f"`ip link set dev {name} xdp off`"
        )
    # The kernel's own queues have no handle.
    queues = system.report(["tc", "-j", "qdisc", "show", "dev", name])
    kinds = [queue["kind"] for queue in queues if queue.get("handle", "0:") != "0:"]
    if kinds:
        raise AgentError(
            f"interface {name} has a queueing discipline ({', '.join(kinds)}), which a run would "
            f"remove: `tc qdisc delete dev {name} root`"
        )


def shown(report: Callable[[list[str]], list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Collect the input of `configured` by a function that returns the entries of a command."""
    return {
        key: [entry for words in commands for entry in report(["ip", "-j", *words.split()])]
        for key, commands in SHOWN.items()
    }


def would_be_lost(name: str, shown: Shown) -> str:
    """Return the configuration of an interface that a run would remove; empty if there is none."""
    found = [f"{what} (`{command}`)" for what, command in configured(name, shown)]
    listed = ", ".join(found)
    return f"interface {name} is configured, which a run would remove: it {listed}" if found else ""


def configured(name: str, shown: Shown) -> Iterator[tuple[str, str]]:
    """Yield the configuration that a run would not restore, each with the command to remove it.

    Parameters
    ----------
    name : str
        The interface.
    shown : mapping of str to sequence of mappings
        What the commands of `SHOWN` report.
    """
    for link in shown.get("links", ()):
        master = link.get("master")
        if link["ifname"] == name and master:
            yield f"is part of {master}", f"ip link set dev {name} nomaster"
        veth = link.get("linkinfo", {}).get("info_kind") == "veth"  # whose peer is not below it
        if master == name or (link.get("link") == name and not veth):
            yield f"carries {link['ifname']}", f"ip link delete dev {link['ifname']}"
    addresses = (each for each in shown.get("addresses", ()) if each.get("ifname") == name)
    infos = [info for each in addresses for info in each["addr_info"]]
    own = [f"{i['local']}/{i['prefixlen']}" for i in infos if i["scope"] != "link"]
    if own:
        yield f"has addresses: {', '.join(own)}", f"ip address flush dev {name}"
    for route in shown.get("routes", ()):
        hops = {hop.get("dev") for hop in (route, *route.get("nexthops", ()))}
        if name in hops and route.get("protocol") not in ("kernel", "ra", "redirect"):
            table = f" table {route['table']}" if "table" in route else ""
            family = " -6" if "pref" in route else ""
            target = f"{route['dst']}{table}" + (f" dev {name}" if "dev" in route else "")
            yield f"has a route to {route['dst']}", f"ip{family} route delete {target}"
    if any(neighbour.get("dev") == name for neighbour in shown.get("neighbours", ())):
        yield "has permanent neighbours", f"ip neighbour flush nud permanent dev {name}"


#: What ``ip -j link`` reports of an interface and is restored -> the word of ``ip link set`` for
#: it, in this order: the sizes for IPv4 follow the general ones.
_RESTORED = {
    **{key: key for key in ("address", "broadcast", "mtu")},
    "txqlen": "txqueuelen",
    "group": "group",
    **{key: key for key in ("gso_max_segs", "gso_max_size", "gro_max_size")},
    **{key: key for key in ("gso_ipv4_max_size", "gro_ipv4_max_size")},
}


def _settings(link: Entry) -> dict[str, str]:
    """Give what is restored, in the words of ``ip link set``."""
    shown = {"txqlen": 0, **link}  # which tells no length of none
    flags = link["flags"]
    states = {
        "promisc": "PROMISC" in flags,
        "allmulticast": "ALLMULTI" in flags,
        "multicast": "MULTICAST" in flags,
        "arp": "NOARP" not in flags,
    }
    values = {word: str(shown[key]) for key, word in _RESTORED.items() if key in shown}
    return {**values, **{word: "on" if on else "off" for word, on in states.items()}}


def describe(link: Entry) -> State:
    """Describe all that is given back, such that it can be written as JSON.

    Raises
    ------
    AgentError
        If its offloads cannot be read.
    """
    name = link["ifname"]
    return {
        "interface": name,
        "index": link["ifindex"],
        "settings": _settings(link),
        "up": "UP" in link["flags"],
        "queued": link.get("qdisc") != "noop",
        "offloads": offloads(_shown(name)),
        "sysctls": system.of_device(name),
    }


def take(interface: str, node: str, device: str, mac: str, mtu: int) -> None:
    """Move an interface of the host into a node, as ``device``; it is down then.

    It is moved and renamed in one go: the kernel takes the new name at once where the old one is in
    use there, so two interfaces never meet under one name, and nobody there sees it under a name
    that it will not keep.

    Raises
    ------
    AgentError
        If the kernel refuses.
    """
    name = namespaces.name(node)
    try:
        _set(interface, "down")
        _set(interface, "netns", name, "name", device)
        there = ["ip", "-n", name, "link", "set", "dev", device]
        system.checked([*there, "address", mac, "mtu", str(mtu)])
    except AgentError as error:
        text = f"cannot move interface {interface} to node {node} as {device}: {error.reason}"
        raise AgentError(text) from None


def _set(device: str, *words: str) -> None:
    system.checked(["ip", "link", "set", "dev", device, *words])


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
        raise Lost(f"interface {state['interface']} is neither on the host nor in node {node}")
    _restore(state, link)


def _send_back(state: State, device: str, others: Collection[str]) -> None:
    """Move the interface out of the node, in whose namespace this is called, if it is there."""
    name = state["interface"]
    link = find(device) or (None if name in others else find(name))
    if link is None:
        return
    _set(link["ifname"], "down")
    _restore_settings(state, link)
    host = os.open(namespaces.OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _move(link, host, name, state["index"])
    except OSError as error:
        raise Left(f"interface {name}, now {device} of its node: {error.strerror}") from None
    finally:
        os.close(host)


def _move(link: Entry, host: int, name: str, index: int) -> None:
    """Move it back under its old name and index, or under another index if that is taken."""
    try:
        _ask_kernel_to_move(link["ifindex"], host, name, index)
    except OSError:
        if find(link["ifname"]) is None:  # moved all the same, but under another name
            return
        _ask_kernel_to_move(link["ifindex"], host, name, 0)


#: A message of rtnetlink(7): its header, that of an interface, and attributes.
_HEADER, _LINK = struct.Struct("=IHHII"), struct.Struct("=BxHiII")
_SETLINK, _REQUEST, _ACK = 19, 0x1, 0x4
_NAME, _NET_NS_FD, _NEW_IFINDEX = 3, 28, 49


def _ask_kernel_to_move(number: int, namespace: int, name: str, index: int) -> None:
    """Move an interface into a namespace with a new name and index, in one go.

    Parameters
    ----------
    number : int
        Its index now.
    namespace : int
        Descriptor of the namespace.
    name : str
        Its name there.
    index : int
        Its index there; 0 leaves the choice to the kernel, as one before 5.13 always does.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    values = {_NET_NS_FD: struct.pack("=i", namespace), _NAME: name.encode() + b"\0"}
    if index:
        values[_NEW_IFINDEX] = struct.pack("=i", index)
    body = _LINK.pack(socket.AF_UNSPEC, 0, number, 0, 0)
    for kind, value in values.items():
        body += struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    header = _HEADER.pack(_HEADER.size + len(body), _SETLINK, _REQUEST | _ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(header + body)
        (status,) = struct.unpack_from("=i", kernel.recv(1 << 16), _HEADER.size)
    if status:
        raise OSError(-status, os.strerror(-status))


def _identify(state: State, device: str) -> Entry | None:
    """Find the interface on the host, and not another one that has been given its name meanwhile.

    It came back under the name that it had in the node if its own was taken.  Its index is the same
    unless the kernel is older than 5.13, its address has been restored before it was moved.
    """
    address = state["settings"].get("address")
    for name in (state["interface"], device):
        link = find(name)
        if link and (state["index"] == link["ifindex"] or address == link.get("address")):
            return link
    return None


def _restore(state: State, link: Entry) -> None:
    """Make an interface of the host what it was; what is so already is not touched."""
    name = state["interface"]
    if link["ifname"] != name:
        _rename(link["ifname"], name)
    _restore_settings(state, {**link, "ifname": name})
    system.restore_device(name, state["sysctls"])
    try:
        _restore_offloads(name, state["offloads"])
    except AgentError as error:
        raise Left(f"offloads of interface {name}: {error.reason}") from None
    try:
        if state["queued"] and link.get("qdisc") == "noop":
            _set(name, "up")  # once up, it keeps a queue when it is down
        _set(name, "up" if state["up"] else "down")
    except AgentError as error:
        raise Left(f"interface {name} cannot be set up: {error.reason}") from None
    _verify(state)


def _rename(now: str, name: str) -> None:
    try:
        _set(now, "down")
        _set(now, "name", name)
    except AgentError as error:
        raise Left(f"interface {now}, formerly {name}: {error.reason}") from None


def _restore_settings(state: State, link: Entry) -> None:
    """Set one value after the other: a driver that refuses one may take the next."""
    now = _settings(link)
    for word, value in state["settings"].items():
        if now.get(word) != value:
            with suppress(AgentError):  # noticed when all is compared
                _set(link["ifname"], word, value)


def _verify(state: State) -> None:
    name = state["interface"]
    link = find(name)
    if link is None or ("UP" in link["flags"]) != state["up"]:
        raise Left(f"interface {name} is not {'up' if state['up'] else 'down'}, which it was")
    now = _settings(link)
    for word, value in state["settings"].items():
        if now.get(word) != value:
            raise Left(f"interface {name}: {word} is {now.get(word)}, was {value}")


_LINE = re.compile(r"(\t?)([\w-]+): (on|off)(.*)")


def _shown(device: str) -> str:
    """Give what is in force, in the words of ``ethtool -k``."""
    return system.checked(["ethtool", "-k", device]).output


def offloads(shown: str) -> dict[str, bool]:
    """Read the features that can be set, as somebody wants them, even if they are not in force.

    A heading such as ``tx-checksumming`` stands for those that are indented below it, and is left
    out if there are any.

    Parameters
    ----------
    shown : str
        Output of ``ethtool -k``.
    """
    found: dict[str, bool] = {}
    heading = ""
    for line in shown.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        indent, name, state, more = match.groups()
        if indent:
            found.pop(heading, None)
        else:
            heading = name
        if "[fixed]" not in more:
            requested = re.search(r"\[requested (on|off)\]", more)
            found[name] = (requested[1] if requested else state) == "on"
    return found


def _restore_offloads(device: str, before: dict[str, bool]) -> None:
    """Set all features that differ from ``before``."""
    now = offloads(_shown(device))
    _switch(device, {name: on for name, on in before.items() if now.get(name, on) != on})


def switch(device: str, features: Sequence[str], *, on: bool) -> str:
    """Switch features on or off, and give what is in force then.

    Raises
    ------
    AgentError
        If the driver refuses, there is no ``ethtool``, or the device is not there.
    """
    now = _shown(device)
    state = "on" if on else "off"
    other = [name for name in features if not re.search(rf"^{re.escape(name)}: {state}", now, re.M)]
    if not other:
        return now
    _switch(device, dict.fromkeys(other, on))
    return _shown(device)


def _switch(device: str, states: dict[str, bool]) -> None:
    words = [word for name, on in states.items() for word in (name, "on" if on else "off")]
    if words:
        system.checked(["ethtool", "-K", device, *words])


#: An answer that has not come by then counts as lost, s.
REPLY_S = 2.0
_HEADERS = 28
_ECHO, _ECHO_REPLY = 8, 0
_IP_MTU_DISCOVER, _DO = 10, 2


def checksum(data: bytes) -> int:
    """Give the Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(identity: int, number: int, size: int) -> bytes:
    """Make an echo request that is an IPv4 packet of ``size`` bytes."""
    length = max(0, size - _HEADERS)
    body = struct.pack("!HH", identity, number) + bytes(length + length % 2)
    head = struct.pack("!BBH", _ECHO, 0, 0)
    check = checksum(head + body)
    return (struct.pack("!BBH", _ECHO, 0, check) + body)[: length + 8]


def ping(address: str, size: int, packets: int, cancel: threading.Event) -> float | None:
    """Send IPv4 packets of ``size`` bytes, which are not fragmented, as ICMP echo.

    Give the shortest round trip, s; None if nothing came back.

    Raises
    ------
    OSError
        If this process may not send ICMP.
    Cancelled
        If the run is being ended.
    """
    best = None
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        channel.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _DO)
        for number in range(packets):
            if cancel.is_set():
                raise Cancelled
            began = time.monotonic()
            identity = os.getpid() & 0xFFFF
            try:
                channel.sendto(echo(identity, number, size), (address, 0))
            except OSError:  # too large, or nobody has the address
                continue
            if _answered(channel, (address, identity, number), began + REPLY_S):
                taken = time.monotonic() - began
                best = taken if best is None else min(best, taken)
    return best


def _answered(channel: socket.socket, expected: tuple[str, int, int], until: float) -> bool:
    while (left := until - time.monotonic()) > 0:
        channel.settimeout(left)
        try:
            data, (source, _) = channel.recvfrom(65536)
        except OSError:  # timeout, or an ICMP error
            continue
        start = 4 * (data[0] & 15)
        kind, _, _, identity, number = struct.unpack_from("!BBHHH", data, start)
        if kind == _ECHO_REPLY and (source, identity, number) == expected:
            return True
    return False

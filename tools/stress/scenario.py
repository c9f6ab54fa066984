"""What happens in the guest: who sends what through which queue, and what is done to it meanwhile.

Four hosts around one router ``R``.  What comes from S1 passes the first marker, from S2 the second;
what goes to D1 waits in the first queue, to D2 in the second.  The lines are those that
``tools/stress/smp/stress_scenario.c`` reads; ``{a|b}`` stands for either, drawn each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PORT = 9
#: Host -> number in its addresses.
HOSTS = {"S1": 1, "S2": 2, "D1": 3, "D2": 4}
#: In turn on every processor: from, kind, to, family, sockets.
FLOODS = (
    ("S1", "tcp", "D1", 4, 12),
    ("S2", "tcp", "D2", 6, 12),
    ("S1", "udp", "D2", 4, 32),
    ("S2", "udp", "D1", 6, 32),
    ("S1", "raw", "D2", 6, 0),
    ("S2", "raw", "D1", 4, 0),
)


@dataclass(frozen=True)
class Kind:
    """A queue or a marker under test."""

    name: str  #: its kind in tc
    module: str
    words: str  #: parameters, all of them
    change: str  #: parameters that a change on the live one gives


_THRESHOLDS = (
    "limit {100000|200000} in_min {20000|40000} in_max {60000|80000} in_probability {0.02|0.5}"
    " out_min {1000|10000} out_max {12000|40000} out_probability {0.1|1}"
)
RIO = Kind(
    "rio",
    "sch_rio",
    f"{_THRESHOLDS} mode {{coupled|decoupled|wred}} uniformize {{none|red}} ewma {{0|2|9}}"
    " avpkt {500|1000} bandwidth 4mbit seed {1|2}",
    "{limit 5000 in_max 5000 in_min 4000 out_max 4000 out_min 100"
    "|limit 200000|mode wred|mode coupled ewma 1|out_probability 0.3 in cs1}",
)
FRIO = Kind(
    "frio",
    "sch_frio",
    f"{_THRESHOLDS} mode {{coupled|decoupled}} share {{instant|average}} many_flows {{on|off}}"
    " minq {1|2|4} flows {4|100|4096} ewma {0|2|9} avpkt {500|1000} bandwidth 4mbit seed {1|2}",
    "{limit 5000 in_max 5000 in_min 4000 out_max 4000 out_min 100"
    "|limit 200000|flows 2|flows 6000|share average|many_flows on|minq 3 in cs1}",
)
TCPF = Kind(
    "tcpf",
    "act_tcpf",
    "interval {1ms|20ms|400ms} tokens {2000|30000} profile {recommended|paper}"
    " retransmits {protect|plain} flows {8|500|4096} forward {ingress|egress} {pipe|continue|pass}",
    "{interval 5ms tokens 9000|flows 3|flows 6000|profile paper|forward ingress|in 10 out cs1}",
)
TOKEN = Kind(
    "token",
    "act_token",
    "interval {1ms|20ms|400ms} tokens {2000|30000} mode {reset|continuous|flow}"
    " flows {8|500|4096} forward {ingress|egress} {pipe|continue|pass}",
    "{interval 5ms tokens 9000|flows 3|flows 6000|mode flow|mode reset|in 10 out cs1}",
)
#: Mainline's own, by which races of the kernel itself are told from ours.
RED = Kind(
    "red",
    "sch_red",
    "limit 200000 min {1000|10000} max 40000 avpkt 1000 burst 55 probability {0.1|0.5}",
    "limit 100000 min 2000 max 20000 avpkt 1000 burst 55 probability 0.2",
)
GACT = Kind("gact", "act_gact", "{pass|pipe}", "pass")


def compose(
    queues: tuple[Kind, Kind],
    markers: tuple[Kind, Kind],
    *,
    seconds: int,
    processors: int,
    seed: int,
) -> str:
    """Return the scenario.

    Parameters
    ----------
    queues : tuple of Kind
        The queues towards D1 and D2.
    markers : tuple of Kind
        The actions on what comes from S1 and S2.
    seconds : int
        How long the load lasts.
    processors : int
        How many processors the guest has.
    seed : int
        Of all that is drawn.
    """
    kinds = dict.fromkeys((*queues, *markers))
    lines = [f"seconds {seconds}", f"seed {seed}"]
    lines += [f"setup - load {kind.module}" for kind in kinds]
    lines += (f"setup {line}" for line in _network())
    lines += (f"sink {host} {PORT}" for host in ("D1", "D2"))
    lines += _floods(processors)
    for device, queue in zip(("d1", "d2"), queues, strict=True):
        lines += _loop(f"replace-{device}", _replace_queue(device, queue))
        lines += _loop(f"change-{device}", _change_queue(device, queue))
        lines += _loop(f"dump-{device}", _dump_queue(device))
    for number, (device, marker) in enumerate(zip(("s1", "s2"), markers, strict=True), 1):
        lines += _loop(f"attach-{device}", _attach_marker(device, marker, number))
        lines += _loop(f"change-{device}", _change_marker(marker, number))
        lines += _loop(f"dump-{device}", _dump_marker(device, marker, number))
    for kind in kinds:
        lines += _loop(f"reload-{kind.name}", _reload(kind))
    lines += _loop("links", _links())
    lines += _loop("dismantle", _dismantle(queues, markers))
    lines += (f"teardown {line}" for line in _teardown(kinds))
    return "".join(f"{line}\n" for line in lines)


def _loop(name: str, commands: Iterator[str]) -> Iterator[str]:
    return (f"loop {name} {command}" for command in commands)


def _address(number: int, side: int, family: int) -> str:
    return f"10.{number}.0.{side}" if family == 4 else f"fd00:{number}::{side}"


def _network() -> Iterator[str]:
    """Set up the machines, one after the other: neighbouring lines of one machine cost little."""
    yield from (f"- ip netns add {node}" for node in ("R", *HOSTS, "T"))
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        yield f"R write /proc/sys/net/{name} 1"
    # A link is taken down under traffic; its addresses are to stay.
    yield "R write /proc/sys/net/ipv6/conf/all/keep_addr_on_down 1"
    for host in HOSTS:
        queues = "numtxqueues 2 numrxqueues 2"
        yield f"R ip link add {host.lower()} {queues} type veth peer name r netns {host}"
    for host, number in HOSTS.items():
        yield from _end("R", host.lower(), number, 1)
    # Whatever sources the raw floods invent are behind S1.
    yield "R ip route add 10.9.0.0/16 via 10.1.0.2"
    yield "R ip route add fd09::/64 via fd00:1::2"
    for host, number in HOSTS.items():
        yield from _end(host, "r", number, 2)
        yield f"{host} ip route add default via {_address(number, 1, 4)}"
        yield f"{host} ip route add default via {_address(number, 1, 6)}"
    yield "S1 ip route add blackhole 10.9.0.0/16"
    yield "S1 ip route add blackhole fd09::/64"


def _end(node: str, device: str, number: int, side: int) -> Iterator[str]:
    yield f"{node} ip addr add {_address(number, side, 4)}/24 dev {device}"
    yield f"{node} ip addr add {_address(number, side, 6)}/64 dev {device} nodad"
    yield f"{node} ip link set {device} up"


def _floods(processors: int) -> Iterator[str]:
    for processor in range(processors):
        for source, kind, target, family, sockets in FLOODS:
            address = _address(HOSTS[target], 2, family)
            yield f"flood {processor} {source} {kind} {address} {PORT} {sockets}"


def _replace_queue(device: str, queue: Kind) -> Iterator[str]:
    """As the child of a slow shaper, alone, and one for each transmit queue of the device."""
    tc, words = f"R tc qdisc replace dev {device}", f"{queue.name} {queue.words}"
    yield f"{tc} root handle 1: tbf rate {{2mbit|20mbit}} burst 20000 limit 300000"
    yield f"{tc} parent 1:1 handle 10: {words}"
    yield "- pause {100|600}"
    yield f"{tc} parent 1:1 handle 10: {words}"
    yield f"{tc} parent 1:1 handle 11: {words}"
    yield f"R tc qdisc change dev {device} parent 1:1 handle 11: {queue.name} {queue.change}"
    yield "- pause {100|600}"
    yield f"R tc qdisc del dev {device} root"
    yield "- pause {1|100}"
    yield f"{tc} root handle 2: {words}"
    yield f"R tc qdisc change dev {device} root handle 2: {queue.name} {queue.change}"
    yield "- pause {100|600}"
    yield f"{tc} root handle 3: mq"
    yield f"{tc} parent 3:1 handle 31: {words}"
    yield f"{tc} parent 3:2 handle 32: {words}"
    yield "- pause {100|600}"
    yield f"R tc qdisc del dev {device} root"
    yield "- pause {1|100}"


#: Where another loop puts a queue in turn: at any time most of these are empty.
PLACES = "{parent 1:1 handle 10:|parent 1:1 handle 11:|root handle 2:|parent 3:1 handle 31:}"


def _change_queue(device: str, queue: Kind) -> Iterator[str]:
    for words in (queue.change, queue.words):
        yield f"R tc qdisc change dev {device} {PLACES} {queue.name} {words}"
        yield "- pause {1|40}"


def _dump_queue(device: str) -> Iterator[str]:
    yield f"R tc qdisc show dev {device}"
    yield f"R tc class show dev {device}"
    yield "- pause {1|40}"


def _attach_marker(device: str, marker: Kind, index: int) -> Iterator[str]:
    action, add = f"action {marker.name}", f"R tc filter add dev {device}"
    yield f"R tc actions replace {action} {marker.words} index {index}"
    yield f"R tc qdisc replace dev {device} clsact"
    for direction in ("ingress", "egress"):
        # Bound if it is there, made anew if another loop has just deleted it.
        yield f"{add} {direction} pref 1 matchall {action} {marker.words} index {index}"
    yield "- pause {300|1500}"
    # Its own instance: the last reference goes with the filter, under traffic.
    yield f"{add} ingress pref 2 matchall {action} {marker.words}"
    yield "- pause {100|500}"
    yield f"R tc filter del dev {device} {{ingress|egress}}"
    yield f"R tc qdisc del dev {device} clsact"
    # What a filter has bound is free a grace period after the filter is gone.
    yield "- pause {1|200}"
    yield f"R tc actions flush {action}"
    yield "- pause {1|200}"


def _change_marker(marker: Kind, index: int) -> Iterator[str]:
    action = f"action {marker.name}"
    yield f"R tc actions change {action} {marker.change} index {index}"
    yield "- pause {1|40}"
    yield f"R tc actions change {action} {marker.words} index {index}"
    yield "- pause {1|40}"
    yield f"R tc actions add {action} {marker.words} index {index + 10}"
    yield f"R tc actions del {action} index {index + 10}"
    yield "- pause {1|40}"
    yield f"R tc actions del {action} index {index}"
    yield "- pause {40|400}"


def _dump_marker(device: str, marker: Kind, index: int) -> Iterator[str]:
    yield f"R tc actions list action {marker.name}"
    yield f"R tc filter show dev {device} {{ingress|egress}}"
    yield f"R tc actions get action {marker.name} index {index}"
    yield "- pause {1|40}"


def _reload(kind: Kind) -> Iterator[str]:
    """Wait for an instant at which nobody uses it: what it has deferred may be under way still."""
    yield f"- reload {kind.module} 10"
    yield "- pause {5000|15000}"


def _links() -> Iterator[str]:
    for device in ("d1", "s1", "d2", "s2"):
        yield "- pause {500|1500}"
        yield f"R ip link set {device} down"
        yield "- pause {1|30}"
        yield f"R ip link set {device} up"


def _dismantle(queues: tuple[Kind, Kind], markers: tuple[Kind, Kind]) -> Iterator[str]:
    """A namespace goes with everything in it."""
    yield "T ip link add t1 type veth peer name t2"
    for number, (queue, marker) in enumerate(zip(queues, markers, strict=True), 1):
        yield f"T tc qdisc add dev t{number} root {queue.name} {queue.words}"
        yield f"T tc qdisc add dev t{number} clsact"
        action = f"action {marker.name} {marker.words}"
        yield f"T tc filter add dev t{number} egress matchall {action}"
        yield f"T ip link set t{number} up"
    yield "- pause {1|200}"
    # Neighbours are done as one: there is a T whenever the load ends.
    yield "- ip netns del T"
    yield "- ip netns add T"
    yield "- pause {1|500}"


def _teardown(kinds: dict[Kind, None]) -> Iterator[str]:
    yield from (f"- ip netns del {node}" for node in ("R", *HOSTS, "T"))
    # Namespaces go in the background; a module that is not free after that has lost a reference.
    yield from (f"- unload {kind.module} 60" for kind in kinds)

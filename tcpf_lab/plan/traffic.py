"""What makes the flows: the generators, what they have in common, and what they need of a kernel.

``native``, the project's own, blocks in the kernel and reads ``TCP_INFO`` on time; it plays
closed-loop users too.  With ``iperf3`` every block of data is several system calls of two
processes: in a virtual-time guest that is much slower than real time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tcpf_lab.plan.step import EPOCH, PROGRAMS, Finish, Phase, Ready, Start, Step, Sysctl
from tcpf_lab.plan.topology import addresses
from tcpf_lab.spec.axis import shown
from tcpf_lab.spec.graph import Graph, Role
from tcpf_lab.spec.group import Group, receiver_of, sender_of
from tcpf_lab.spec.sweep import Run
from tcpf_lab.spec.traffic import Users

PORT = 5001
#: Flow ``i`` sends from this port plus ``i``; captures are attributed to flows by it.
SOURCE_PORT = 20000
#: Seconds of grace for a program that should have ended.
GRACE_S = 5.0


@dataclass(frozen=True)
class Traffic:
    """Phases that make the traffic, and how long they take."""

    receivers: Phase
    senders: Phase
    end: Phase
    programs: tuple[str, ...]  #: programs of the system that are needed
    slowness: float  #: real seconds that a virtual second may take before a guest counts as hung
    memory_mb: int = 0  #: what a guest needs beyond the memory that it usually has


def count(run: Run) -> int:
    """Return how many flows there are, cross traffic included."""
    return run.flows + sum(cross.flows for cross in run.experiment.graph.cross)


def start_times(run: Run) -> tuple[float, ...]:
    """Return each flow's start, seconds after the epoch: uniform over the spread, from the seed.

    The flows of the matrix come first, so that theirs do not depend on cross traffic; groups are in
    the file's order, each with its own spread.

    Rounded to microseconds so that every printed form of the plan carries the exact value.
    """
    traffic = run.experiment.traffic
    draw = random.Random(f"start times, seed {run.seed}")
    spreads = [(0.0, traffic.start_spread)] * count(run)
    if traffic.groups is not None:
        spreads = [
            (one.start, traffic.start_spread if one.start_spread is None else one.start_spread)
            for one in traffic.groups.values()
            for _ in range(one.flows)
        ]
    return tuple(round(first + draw.uniform(0, spread), 6) for first, spread in spreads)


def window(run: Run) -> tuple[float, float]:
    """Return the measured window, seconds after the epoch."""
    traffic = run.experiment.traffic
    return traffic.warmup, traffic.end


def end_of(title: str, run: Run, steps: Iterable[Step]) -> Phase:
    """Wait until all programs that `steps` start have ended; empty if there are none."""
    names = tuple(step.name for step in steps if isinstance(step, Start))
    return Phase(title, (Finish(names, window(run)[1] + GRACE_S),) if names else ())


def at_window_ends(
    run: Run, readings: Iterable[tuple[str, str, str, tuple[str, ...]]]
) -> tuple[Start, ...]:
    """Start programs that read counters at both ends of the window.

    Each is what it reads, the node, what the file is called after, and the command; what it prints
    goes to ``stats/<what>-window-<start or end>-<name>``, as JSON if the command asks for that.
    """
    wanted = list(readings)
    return tuple(
        Start(
            node,
            program := f"{what}-window-{label}-{name}",
            command,
            f"stats/{program}.{'json' if '-j' in command else 'txt'}",
            f"log/{program}.log",
            at=at,
        )
        for label, at in zip(("start", "end"), window(run), strict=True)
        for what, node, name, command in wanted
    )


def seconds(value: float) -> str:
    """Write an instant as the programs read it: plain decimals, never an exponent, to 1 ns."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Pair:
    """A sender, a receiver, and the flows between them: a block of consecutive numbers.

    ``group`` is what the flows do, of groups.
    """

    sender: str
    receiver: str
    address: str  #: the receiver's
    first: int
    flows: int
    group: Group | None = None


def pairs(run: Run) -> tuple[Pair, ...]:
    """Share the matrix's flows out to its pairs of hosts, as evenly as can be; then cross traffic.

    With groups each has the pair of its own. A pair without a flow is left out.
    """
    graph = run.experiment.graph
    groups = run.experiment.traffic.groups
    shares = (
        (*_shares(graph, run.flows), *_cross(graph))
        if groups is None
        else [(sender_of(k), receiver_of(k), one.flows, one) for k, one in groups.items()]
    )
    reached = addresses(graph)
    first, found = 0, []
    for sender, receiver, flows, *group in shares:
        if flows:
            found.append(Pair(sender, receiver, reached[receiver], first, flows, *group))
        first += flows
    return tuple(found)


def _shares(graph: Graph, flows: int) -> Iterator[tuple[str, str, int]]:
    ends = graph.pairs
    bounds = [flows * k // len(ends) for k in range(len(ends) + 1)]
    for (sender, receiver), (first, behind) in zip(ends, pairwise(bounds), strict=True):
        yield sender, receiver, behind - first


def _cross(graph: Graph) -> Iterator[tuple[str, str, int]]:
    for cross in graph.cross:
        yield cross.sender, cross.receiver, cross.flows


#: A flow is a thread and a socket at either end.
KB_PER_FLOW = 160
#: Of a socket's buffer, what the kernel needs for it: at an mtu of 576 B, where it is most.
BUFFER_SHARE = 1.25
#: What a guest has for flows before it needs more.
USUAL_MB = 360
#: Real seconds that a virtual one may take: of flows, and more for each user, as there are
#: thousands of connections a second.
SLOWNESS, SLOWNESS_PER_USER = 2.0, 0.01
#: A user is a thread at either end, with a stack in the kernel, and has sockets that linger.
MEMORY_KB_PER_USER = 128
#: A small guest would allow fewer threads than there are users.
MOST_THREADS = 131072
#: So many long-lived flows are no more threads than any guest allows.
USUAL_FLOWS = 500


def _native(run: Run) -> Traffic:
    """One sending and one receiving program for each pair of hosts, a thread per flow or user."""
    users, starts = run.experiment.traffic.users, start_times(run)
    receivers = tuple(_receive(run, pair) for pair in pairs(run))
    senders = tuple(
        _send(run, pair, starts) if users is None else _use(run, pair, users) for pair in pairs(run)
    )
    return Traffic(
        receivers=Phase("receivers", receivers),
        senders=Phase("senders" if users is None else "users", senders),
        end=end_of("end of the traffic", run, (*senders, *receivers)),
        programs=(),
        slowness=SLOWNESS + (0 if users is None else SLOWNESS_PER_USER * run.flows),
        memory_mb=_memory_mb(run),
    )


def _memory_mb(run: Run) -> int:
    """Give what so many flows need beyond a guest's usual memory, most need nothing; or users.

    A full send buffer takes its size once more for the kernel's words about its packets.
    """
    if run.experiment.traffic.users is not None:
        return math.ceil(MEMORY_KB_PER_USER * run.flows / 1024)
    flow_kb = KB_PER_FLOW + BUFFER_SHARE * run.experiment.traffic.socket_buffer / 1024
    return max(0, math.ceil(count(run) * flow_kb / 1024) - USUAL_MB)


def _receive(run: Run, pair: Pair) -> Start:
    traffic = run.experiment.traffic
    long_lived = ("--flows", str(pair.flows))
    own = long_lived if traffic.users is None else ("--buffer", str(traffic.socket_buffer))
    words = ("recv", "--listen", pair.address, *own)
    start = _program(run, pair, pair.receiver, "receivers", words)
    return replace(start, ready=Ready(str(start.output), "listening"))


def _send(run: Run, pair: Pair, starts: tuple[float, ...]) -> Start:
    own = starts[pair.first : pair.first + pair.flows]
    listed = ",".join(f"{start:.6f}" for start in own)
    asked = tuple(_of_group(pair.group)) if pair.group else ()
    if (interval := run.experiment.traffic.tcp_info) is not None:
        info = f"stats/tcp-info-{pair.sender}.bin"
        asked += ("--interval", seconds(interval), "--info", info)
    words = ("send", "--connect", pair.address, "--start", listed, *asked)
    return _program(run, pair, pair.sender, "senders", words)


def _of_group(group: Group) -> Iterator[str]:
    """Give the words of a sender for what a group asks of its sockets and application."""
    given = {"stop": group.stop, "volume": group.volume, "pace": group.pacing}
    for word, value in given.items():
        if value is not None:
            yield from (f"--{word}", seconds(value) if word == "stop" else str(value))
    if group.written is not None:
        chunk, every = group.written
        yield from ("--chunk", str(chunk), "--every", seconds(every))
    if group.nodelay:
        yield "--nodelay"


def _use(run: Run, pair: Pair, users: Users) -> Start:
    words = (
        *("send", "--connect", pair.address, "--first", str(pair.first)),
        *("--seed", str(run.seed), "--think", seconds(users.think), "--size", str(users.size)),
        *("--shape", shown(users.shape), "--largest", str(users.largest)),
        *("--spread", seconds(run.experiment.traffic.start_spread)),
    )
    start = _program(run, pair, pair.sender, "users", words)
    return replace(start, output=f"stats/{start.name}.bin")


def _program(run: Run, pair: Pair, node: str, role: str, words: tuple[str, ...]) -> Start:
    begin, end = window(run)
    traffic, name = run.experiment.traffic, f"{role}-{node}"
    program = "tcpf-users"
    more: tuple[str, ...] = ("--users", str(pair.flows), "--until", seconds(end))
    if traffic.users is None:
        program = "tcpf-traffic"
        more = (
            *("--source-port", str(SOURCE_PORT), "--first", str(pair.first)),
            *("--sample", f"start={seconds(begin)},end={seconds(end)}"),
            *("--buffer", str(traffic.socket_buffer)),
        )
    argv = (f"{PROGRAMS}/{program}", *words, "--epoch", EPOCH, "--port", str(PORT), *more)
    return Start(node, name, argv, f"stats/{name}.jsonl", f"log/{name}.log")


def of_the_kernel(run: Run) -> tuple[Step, ...]:
    """Set what users, or very many flows, need of a whole kernel: else nothing."""
    if run.experiment.traffic.users is None and count(run) <= USUAL_FLOWS:
        return ()
    return (Sysctl(None, "kernel.threads-max", str(MOST_THREADS)),)


def sysctls_of_users(run: Run, role: Role) -> dict[str, str]:
    """Give the sysctls that users need at an end, by its role: none where there are no users.

    A sender's port is in use for a minute after each connection; its send buffer follows the window
    instead of holding a whole file.  A receiver hears from many users at once: without room for
    them the kernel would refuse a connection when the path is loaded.
    """
    if run.experiment.traffic.users is None:
        return {}
    buffer = run.experiment.traffic.socket_buffer
    if role == "sender":
        return {
            "net.ipv4.ip_local_port_range": "1024 65535",
            "net.ipv4.tcp_tw_reuse": "1",
            "net.ipv4.tcp_max_tw_buckets": "262144",
            "net.ipv4.tcp_wmem": f"4096 16384 {2 * buffer}",
        }
    return {"net.core.somaxconn": "8192", "net.ipv4.tcp_max_syn_backlog": "8192"}


def expect_users(run: Run) -> dict[str, Any]:
    """Return the parameters of users for the analysis; of long-lived flows, the first port."""
    users = run.experiment.traffic.users
    if users is None:
        return {"source_port": SOURCE_PORT}
    return {
        "users": {
            "think_s": users.think,
            "size_bytes": users.size,
            "shape": users.shape,
            "largest_bytes": users.largest,
            "senders": [pair.sender for pair in pairs(run)],
        }
    }


def expect_groups(run: Run) -> dict[str, Any]:
    """Return the groups for the analysis: their hosts, flows and times; empty without groups.

    ``start_s`` is the earliest start that a flow may have; the first and the last start are those
    drawn, None for a group of no flows.
    """
    groups, first, found = run.experiment.traffic.groups, 0, []
    starts = start_times(run)
    for name, group in (groups or {}).items():
        own = starts[first : first + group.flows]
        found.append(
            {
                "name": name,
                "direction": group.direction,
                "sender": sender_of(name),
                "receiver": receiver_of(name),
                "first": first,
                "flows": group.flows,
                "start_s": group.start,
                "first_start_s": min(own, default=None),
                "last_start_s": max(own, default=None),
                "stop_s": group.stop,
                "volume_bytes": group.volume,
                "greedy": group.greedy,
            }
        )
        first += group.flows
    return {"groups": found} if found else {}


#: A client exchanges results through the congested path before it ends.
EXCHANGE_S = 60.0
#: Ten flows over 10 Mbit/s took eight real seconds for a virtual one on a busy machine.
IPERF3_SLOWNESS = 60.0


def _iperf3(run: Run) -> Traffic:
    """One server and one client per flow, on a port of their own."""
    _, end = window(run)
    starts = start_times(run)
    servers, clients = [], []
    for pair in pairs(run):
        for flow in range(pair.first, pair.first + pair.flows):
            servers.append(_server(pair, flow))
            clients.append(_client(run, pair, flow, starts[flow]))
    names = tuple(start.name for start in (*clients, *servers))
    return Traffic(
        receivers=Phase("receivers", tuple(servers)),
        senders=Phase("senders", tuple(clients)),
        end=Phase("end of the traffic", (Finish(names, end + EXCHANGE_S),)),
        programs=("iperf3",),
        slowness=IPERF3_SLOWNESS,
    )


def _server(pair: Pair, flow: int) -> Start:
    log = f"log/iperf3-server-{flow}.log"
    argv = (
        *("iperf3", "--server", "--bind", pair.address, "--port", str(PORT + flow)),
        *("--one-off", "--forceflush"),
    )
    return Start(pair.receiver, f"server-{flow}", argv, log, ready=Ready(log, "Server listening"))


def _client(run: Run, pair: Pair, flow: int, start: float) -> Start:
    _, end = window(run)
    argv = (
        *("iperf3", "--client", pair.address, "--port", str(PORT + flow)),
        *("--cport", str(SOURCE_PORT + flow), "--time", str(math.ceil(end - start))),
        *("--window", str(run.experiment.traffic.socket_buffer), "--json", "--zerocopy"),
    )
    name = f"client-{flow}"
    output = f"stats/iperf3-{flow}.json"
    return Start(pair.sender, name, argv, output, f"log/iperf3-client-{flow}.log", at=start)


GENERATORS: dict[str, Callable[[Run], Traffic]] = {"native": _native, "iperf3": _iperf3}
#: What makes the traffic where neither the experiment names a generator nor a testbed was chosen.
UNCHOSEN = "native"


def generator(run: Run) -> str:
    """Return the name of the run's generator."""
    return run.experiment.traffic.generator or UNCHOSEN


def traffic(run: Run) -> Traffic:
    """Return what the run's generator does."""
    return GENERATORS[generator(run)](run)

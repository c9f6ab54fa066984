"""From one run to its whole plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tcpf_lab.plan import background, collect, probes, queues, topology
from tcpf_lab.plan.step import AgreeEpoch, LoadModule, Offloads, Phase, ReadSysctls, Step, Sysctl
from tcpf_lab.plan.topology import Interface, owned
from tcpf_lab.plan.traffic import (
    PORT,
    count,
    end_of,
    expect_groups,
    expect_users,
    generator,
    of_the_kernel,
    sysctls_of_users,
    traffic,
    window,
)
from tcpf_lab.spec.background import with_sources
from tcpf_lab.spec.changing import value_at
from tcpf_lab.spec.graph import Graph, Impairment, Node
from tcpf_lab.spec.group import receiver_of, sender_of
from tcpf_lab.spec.queue import Bottleneck
from tcpf_lab.spec.sweep import Run

#: What makes one packet of several segments, up to 64 kB.
OFFLOADS = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
)
FORWARDING = ("marker", "bottleneck", "router")
PAGE = 4096


#: Sysctl of the congestion control, and those that every namespace may use
#: (TCP_CONG_NON_RESTRICTED).
CONGESTION = "net.ipv4.tcp_congestion_control"
UNRESTRICTED = frozenset(("reno", "cubic", "bbr"))


def kernel(run: Run, sysctls: Mapping[str, Mapping[str, str]]) -> Phase:
    """Set what belongs to a whole kernel, before any namespace of it exists.

    Unsent data of every flow counts towards ``tcp_mem``; under its pressure the kernel would shrink
    windows and prune queues, which no machine of the papers did.
    """
    buffer = run.experiment.traffic.socket_buffer
    pages = 8 * count(run) * buffer // PAGE + 65536
    return Phase(
        "the kernel",
        (
            Sysctl(None, "net.core.wmem_max", str(2 * buffer)),
            Sysctl(None, "net.core.rmem_max", str(2 * buffer)),
            Sysctl(None, "net.ipv4.tcp_mem", f"{pages} {pages} {pages}"),
            *of_the_kernel(run),
            *_allowed_congestion(sysctls),
        ),
    )


def _allowed_congestion(sysctls: Mapping[str, Mapping[str, str]]) -> Iterator[Sysctl]:
    """Allow the namespaces the congestion controls that a kernel restricts to its own one."""
    wanted = {own[CONGESTION] for own in sysctls.values() if CONGESTION in own}
    if wanted - UNRESTRICTED:
        allowed = " ".join(sorted(wanted | {"reno"}))
        yield Sysctl(None, "net.ipv4.tcp_allowed_congestion_control", allowed)


def of_ends(run: Run, graph: Graph) -> dict[str, dict[str, str]]:
    """Give the sysctls of all ends of TCP: of its TCP or group, and what users need."""
    tcp, groups = run.experiment.tcp, run.experiment.traffic.groups
    if groups is not None:
        return {
            node: group.settings(tcp)
            for name, group in groups.items()
            for node in (sender_of(name), receiver_of(name))
        } | dict.fromkeys(probes.ends_of_tcp(run), tcp.sysctls())
    return {
        node.name: tcp.sysctls() | sysctls_of_users(run, node.role)
        for node in graph.nodes
        if node.role in ("sender", "receiver")
    }


def nodes(graph: Graph, sysctls: Mapping[str, Mapping[str, str]]) -> Phase:
    """Set forwarding, TCP parameters and offloads of every node, and read them back."""
    own = owned(graph)
    forwarding = ["net.ipv4.ip_forward"]
    forwarding += ["net.ipv6.conf.all.forwarding"] * graph.has_ipv6
    steps = [
        step
        for node in graph.nodes
        for step in _node(graph, node, own[node.name], sysctls, forwarding)
    ]
    return Phase("settings, and what is in force", tuple(steps))


def _node(
    graph: Graph,
    node: Node,
    own: Iterable[Interface],
    sysctls: Mapping[str, Mapping[str, str]],
    forwarding: Iterable[str],
) -> Iterator[Step]:
    if node.role in FORWARDING:
        yield from (Sysctl(node.name, key, "1") for key in forwarding)
    wanted = sysctls.get(node.name, {})
    for key, value in wanted.items():
        yield Sysctl(node.name, key, value)
    if wanted:
        yield ReadSysctls(node.name, tuple(wanted), f"stats/sysctl-{node.name}.txt")
    for interface in own:
        output = f"stats/offload-{interface.device}.txt"
        on = graph.links[interface.subnet].offloads
        yield Offloads(node.name, interface.device, OFFLOADS, output, on)


#: Seconds between the agreement on the epoch and the epoch: time enough to start the programs.
LEAD_S = 2
#: The paper whose flows are held against the PFTK formula.
_PREDICTED = "001"


@dataclass(frozen=True)
class Plan:
    """Everything a testbed has to do for one run, and what must be found true afterwards."""

    phases: tuple[Phase, ...]
    expect: dict[str, Any]
    window: tuple[float, float]  #: measured window, seconds after the epoch
    programs: tuple[str, ...]  #: programs of the system that the traffic needs
    slowness: float = 2.0  #: real seconds that a virtual second may take, for a watchdog
    memory_mb: int = 0  #: what a guest needs beyond the memory that it usually has
    snaplen: int = collect.SNAPLEN  #: bytes of a packet that captures hold
    kernel: str | None = None  #: that is required: a version of Linux, ``7.3``, or a name

    @property
    def virtual_seconds(self) -> float:
        """Length of the run on the testbed's clock, about."""
        return LEAD_S + self.window[1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        return tuple(step for phase in self.phases for step in phase.steps)

    @property
    def modules(self) -> tuple[str, ...]:
        """The kernel modules that it loads, each once."""
        return tuple(dict.fromkeys(s.name for s in self.steps if isinstance(s, LoadModule)))

    def __str__(self) -> str:
        named = "Linux" if self.kernel and self.kernel[0].isdigit() else "kernel"
        kernel = [f"# {named} {self.kernel}"] if self.kernel else []
        return "\n\n".join([*kernel, *map(str, self.phases)]) + "\n"


def compose(run: Run) -> Plan:
    """Return the plan of ``run``; depends on nothing but the run."""
    experiment = run.experiment
    captures = experiment.traffic.captured
    graph = with_sources(experiment.graph, background.sources(run))
    sysctls = of_ends(run, graph)
    made = traffic(run)
    changes = queues.changes(graph)
    counted = _counted(run, graph)
    phases = (
        modules(run, graph),
        kernel(run, sysctls),
        *topology.build(graph, dict.fromkeys(sysctls, experiment.tcp.route_options()), run.seed),
        background.routes(run, graph),
        nodes(graph, sysctls),
        queues.build(graph, run.case.queue, run.seed),
        *queues.build_marker(run),
        *((collect.start(graph, every_packet=bool(probes.probes(run))),) if captures else ()),
        Phase("epoch", (AgreeEpoch(LEAD_S, "stats/epoch.json"),)),
        collect.start_window_counters(run, graph, counted),
        background.start(run, graph),
        changes,
        probes.start(run, graph),
        made.receivers,
        made.senders,
        made.end,
        end_of("end of the changes", run, changes.steps),
        probes.end(run, graph),
        background.end(run, graph),
        collect.end(run, graph, counted),
        collect.drain(graph, run.case.queue),
        *((collect.stop(graph),) if captures else ()),
        collect.counters(run, graph),
    )
    phases = tuple(phase for phase in phases if phase.steps)
    return Plan(
        phases,
        _expect(run, graph, sysctls),
        window(run),
        (*made.programs, *probes.needed(run)),
        made.slowness,
        made.memory_mb,
        collect.snaplen(graph),
        experiment.kernel,
    )


def modules(run: Run, graph: Graph) -> Phase:
    """Return the phase that loads the project's own kernel modules where the case needs them."""
    marking = [node.name for node in graph.having("marker")]
    narrow = [end for link in graph.bottlenecks for end in (link.a, link.b)[: 1 + link.both]]
    shared = [link.a for link in graph.links if link.ring]
    delivered = [i.node for i in topology.interfaces(graph) if queues.is_delivery(graph, i)]
    steps = (
        *(LoadModule(node, "csma") for node in shared),
        *(LoadModule(node, "sch_delivery") for node in delivered),
        *(LoadModule(node, name) for node in marking for name in run.case.marker.modules),
        *(LoadModule(node, name) for node in narrow for name in run.case.queue.modules),
    )
    return Phase("kernel modules", tuple(dict.fromkeys(steps)))


def _counted(run: Run, graph: Graph) -> tuple[topology.Interface, ...]:
    """Interfaces whose queues are read at the two ends of the measured window."""
    return queues.bottlenecks(graph) if graph.cross or collect.needed(run) else ()


def _expect(run: Run, graph: Graph, sysctls: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What the analysis needs to know, and what the validity checks hold the testbed to."""
    narrow = [_expect_narrow(run, graph, queue) for queue in queues.bottlenecks(graph)]
    markers = queues.expect(run)
    senders = [node.name for node in graph.having("sender")]
    devices = [interface.device for interface in topology.interfaces(graph)]
    impaired = queues.impaired(graph)
    lossy = {queue.device for queue in queues.bottlenecks(graph)} | impaired.keys()
    back = queues.opposite(graph)
    if back is not None:
        lossy.add(back.device)
    if run.experiment.topology.builder.ack_queue is not None:
        lossy |= {topology.other_end(graph, queue).device for queue in queues.bottlenecks(graph)}
    return {
        **_expect_of_packets(run, graph),
        "bottleneck": narrow[0]["bottleneck"],
        "generator": generator(run),
        "port": PORT,
        "mss": min(graph.mss, run.experiment.tcp.mss or graph.mss),
        "qdisc": narrow[0]["qdisc"],
        "marker": markers[0] if markers else None,
        **_expect_cross(run, graph, narrow, markers),
        "lossless_devices": [device for device in devices if device not in lossy],
        **_expect_impaired(impaired),
        **_expect_wires(graph),
        **background.expect(run, graph),
        **({"opposite": _expect_narrow(run, graph, back)} if back else {}),
        **({"ip": 6} if run.experiment.traffic.ip == 6 else {}),
        **expect_groups(run),
        **probes.expect(run),
        **({"pftk": True} if run.experiment.paper == _PREDICTED else {}),
        "sysctl": sysctls,
        "routes": dict.fromkeys(senders, run.experiment.tcp.route_metrics()),
        **_expect_receivers(run, graph),
        **_expect_probe_routes(run),
        **expect_users(run),
        **_expect_offloads(run, graph),
    }


def _expect_offloads(run: Run, graph: Graph) -> dict[str, Any]:
    """Devices with offloads off and with offloads on, and how long the segments of these are."""
    off, on = (
        [i.device for i in topology.interfaces(graph) if graph.links[i.subnet].offloads == state]
        for state in (False, True)
    )
    found: dict[str, Any] = {"offloads_off": {"devices": off, "features": list(OFFLOADS)}}
    if on:
        found["offloads_on"] = {"devices": on, "features": list(OFFLOADS)}
        found["segments"] = {"mtu": graph.bottleneck.mtu, "mss": run.experiment.tcp.mss}
    return found


def _expect_narrow(run: Run, graph: Graph, queue: topology.Interface) -> dict[str, Any]:
    """One queue under test: where it is, and what the kernel must report of it."""
    at = queues.conditions(graph, queue, queues.seed_of(graph, queue.node, run.seed))
    place = {"node": queue.node, "device": queue.device, "rate_bits_per_s": at.rate}
    return {
        "bottleneck": place | queues.expect_changes(graph, queue),
        "qdisc": _expect_queue(run, graph, queue, at),
    }


def _expect_queue(run: Run, graph: Graph, interface: Interface, at: Bottleneck) -> dict[str, Any]:
    """The queue under test as the kernel must report it, and the queues inside, if it has any."""
    queue = run.case.queue
    inside = {
        child.handle: {"kind": child.words[0], "options": child.shown}
        for child in queue.children(at)
    }
    shown = queue.shown(at)
    expected: dict[str, Any] = {"device": interface.device, "kind": queue.qdisc, "options": shown}
    if (capacity := queues.capacity(graph, interface, queue)) != shown.get("limit"):
        expected["limit"] = capacity
    if graph.links[interface.subnet].offloads and not queue.splits:
        expected["whole"] = True
    if queue.limit is None:
        expected["default_limit"] = True
    if inside:
        expected["children"] = inside
    if queue.marks:
        expected["marks"] = True
    if queue.counters:
        expected["counters"] = queue.counters
    return expected if queue.in_order else expected | {"in_order": False}


def _expect_cross(
    run: Run, graph: Graph, narrow: Sequence[dict[str, Any]], markers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Cross traffic, and the bottlenecks and markers beside the first; empty if there are none."""
    if not graph.cross:
        return {}
    flows = [one.flows for one in graph.cross]
    firsts = accumulate(flows[:-1], initial=run.flows)
    return {
        "bottlenecks": [{**one["bottleneck"], "qdisc": one["qdisc"]} for one in narrow],
        "markers": list(markers),
        "cross": [
            {"node": one.bottleneck, "sender": one.sender, "marker": one.marker}
            | {"first": first, "flows": one.flows}
            for first, one in zip(firsts, graph.cross, strict=True)
        ],
    }


def _expect_of_packets(run: Run, graph: Graph) -> dict[str, Any]:
    """Name the captures, and the devices whose queues were read at the window's ends, if any."""
    taken = {role: point.name for role, point in collect.points(graph).items()}
    counted = [interface.device for interface in _counted(run, graph)]
    return {
        **({"captures": taken} if run.experiment.traffic.captured else {}),
        **({"window_counters": counted} if counted else {}),
    }


def _expect_impaired(impaired: dict[str, Impairment]) -> dict[str, Any]:
    """The impairments of packets; empty if there are none."""
    if not impaired:
        return {}
    return {
        "impaired_devices": {
            device: {"options": how.at(math.inf).shown(), **_shares(how)}
            for device, how in impaired.items()
        }
    }


def _shares(how: Impairment) -> dict[str, float]:
    """Give the shares of packets; of a loss that changes the highest and the lowest."""
    losses = [value_at(how.loss, time) for time in (0.0, *how.changes)]
    found = {"loss": max(losses), "loss_burst": how.loss_burst, "duplicate": how.duplicate}
    return found | ({"loss_lowest": min(losses)} if min(losses) < max(losses) else {})


def _expect_wires(graph: Graph) -> dict[str, Any]:
    """The half-duplex links; empty if there are none."""
    ends = topology.on_wires(graph)
    wires = [
        {
            "devices": [near.device, far.device],
            "rate_bits_per_s": graph.links[near.subnet].rate,
            "ring": graph.links[near.subnet].ring,
        }
        for near, far in zip(ends[::2], ends[1::2], strict=True)
    ]
    return {"wires": wires} if wires else {}


def _expect_probe_routes(run: Run) -> dict[str, Any]:
    """Routes of the hosts of request probes; empty if there are none."""
    ends = probes.ends_of_tcp(run)
    return {"probe_routes": dict.fromkeys(ends, run.experiment.tcp.route_metrics())} if ends else {}


def _expect_receivers(run: Run, graph: Graph) -> dict[str, Any]:
    """Routes of the receivers: they decide who acknowledges at once, and what is announced."""
    tcp = run.experiment.tcp
    if not tcp.quickack and tcp.mss is None:
        return {}
    receivers = [node.name for node in graph.having("receiver")]
    return {"receiver_routes": dict.fromkeys(receivers, tcp.route_metrics())}

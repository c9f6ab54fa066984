"""The conditions of runs, as captions and tables tell them."""

from __future__ import annotations

from collections.abc import Iterable

from tcpf_lab.spec.graph import Graph, Link
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.tcp import PROFILES, Tcp
from tcpf_lab.units import format_duration, format_rate

#: Keeps a number and its unit on one line of a caption.
NO_BREAK_SPACE = "\u00a0"
#: So many different values are not told one by one.
_FEW = 4


def conditions(experiments: Iterable[Experiment]) -> str:
    """Say in a few words under which conditions every run was made.

    Parameters
    ----------
    experiments : iterable of Experiment
        Those of the runs, in order: of what differs among them all values are told, or the first
        and the last.
    """
    different = {(one.topology, one.tcp, one.traffic): one for one in experiments}
    columns = zip(*map(_conditions, different.values()), strict=True)
    said = []
    for column in columns:
        values = list(dict.fromkeys(value.replace(" ", NO_BREAK_SPACE) for value in column))
        said.append(" or ".join(values) if len(values) < _FEW else f"{values[0]} to {values[-1]}")
    return ", ".join(said)


def path_delays(graph: Graph) -> tuple[float, ...]:
    """Give the delay of the links there and back between each sender and its receiver, seconds.

    What impairments hold packets back for is part of it. Pairs are in the order of the hosts.
    """
    senders, receivers = graph.having("sender"), graph.having("receiver")
    return tuple(
        sum(_added(link) for link in graph.path(sender.name, receiver.name))
        for sender, receiver in zip(senders, receivers, strict=True)
    )


def _said_of_delays(delays: Iterable[float]) -> str:
    different = sorted(set(delays))
    return " to ".join(format_duration(d) for d in dict.fromkeys((different[0], different[-1])))


def _added(link: Link) -> float:
    return link.delay_ab + link.delay_ba + _held_back(link)


def _held_back(link: Link) -> float:
    """What impairments of both directions add, seconds; jitter is about it, and adds nothing."""
    return sum(one.delay for one in (link.impairment_ab, link.impairment_ba) if one)


def _said_of_tcp(tcp: Tcp) -> str:
    """Give the profile, and what of Linux 2.2 it has if that is not all its own."""
    if set(tcp.behaviours) == set(PROFILES[tcp.profile].linux22):
        return tcp.profile
    return f"{tcp.profile} with {', '.join(tcp.behaviours) or 'nothing'} of Linux 2.2"


def _conditions(experiment: Experiment) -> tuple[str, ...]:
    graph = experiment.topology.graph()
    sack = "SACK" if experiment.tcp.sack else "no SACK"
    impaired = any(link.impairment_ab or link.impairment_ba for link in graph.links)
    return (
        f"{format_duration(experiment.traffic.duration)} after "
        f"{format_duration(experiment.traffic.warmup)} of warm-up",
        f"{format_rate(graph.bottleneck.rate)}/s{' half duplex' * bool(graph.bottleneck.ring)}",
        _said_of_delays(path_delays(graph)),
        f"{_said_of_tcp(experiment.tcp)} {sack}" + (" over an impaired path" if impaired else ""),
    )

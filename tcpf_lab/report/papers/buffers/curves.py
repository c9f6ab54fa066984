"""Use of the link and throughput of transfers, over the buffer, for each number of users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tcpf_lab.models.buffer_rules import (
    bandwidth_delay_product,
    effective_rtt,
    long_flows_rule,
    small_buffer_packets,
)
from tcpf_lab.report.papers.cell_runs import CellRuns, Numbers
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.model import Experiment

#: Rate of the study's link, bits/s; an experiment with another one is a scaled study.
STUDIED_RATE = 1e9
#: Sizes of the transfers of Figures 3 and 4: how ``metrics.json`` and how a reader calls them.
SIZES = {"100kB": "100 kB", "500kB": "500 kB", "1000kB": "1000 kB"}
#: Largest windows for which the small-buffer rule is marked, packets.
WINDOWS = (8, 1000)
#: Axis of the buffer in an experiment's matrix.
LIMIT = "queue.limit"
UTILISATION = "metrics.utilisation"
_ETHERNET = 14


@dataclass(frozen=True)
class Study:
    """What the runs of an experiment have in common.

    ``rate`` is that of the link in bits/s, ``rtts`` the round-trip times of its clients in seconds,
    ``packet`` the size of a full packet as the queue counts it.
    """

    rate: float
    rtts: tuple[float, ...]
    packet: float

    @property
    def scale(self) -> float:
        """By which factor rate, users and buffers are smaller than the study's."""
        return STUDIED_RATE / self.rate

    @property
    def scaled(self) -> bool:
        """Whether it is not of the study's own size."""
        return self.rate != STUDIED_RATE

    @property
    def rtt(self) -> float:
        """The effective round-trip time: the harmonic mean, seconds."""
        return effective_rtt(self.rtts)

    @property
    def product(self) -> float:
        """The bandwidth-delay product, bytes."""
        return bandwidth_delay_product(self.rate, self.rtt)

    def many_flows(self, users: int) -> float:
        """Size by the rule for so many long flows, bytes."""
        return long_flows_rule(self.rate, self.rtt, users)

    @property
    def small(self) -> tuple[float, float]:
        """Sizes by the small-buffer rule for the least and the greatest of ``WINDOWS``, bytes."""
        low, high = (self.packet * small_buffer_packets(window) for window in WINDOWS)
        return low, high


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of an experiment by users and buffer, both as the study's own size has them.

    ``cells`` has every cell that was asked for, whether it has runs or not.
    """

    study: Study
    cells: dict[tuple[int, float], CellRuns]

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Every number of users, ascending."""
        return tuple(sorted({users for users, _ in self.cells}))

    @cached_property
    def buffers(self) -> tuple[float, ...]:
        """Every buffer, bytes, ascending."""
        return tuple(sorted({size for _, size in self.cells}))

    @property
    def measured(self) -> int:
        """How many cells have a run."""
        return sum(1 for cell in self.cells.values() if cell.runs)

    def numbers(self, users: int, size: float, path: str) -> Numbers:
        """Give a number of a cell, empty where the cell has none."""
        cell = self.cells.get((users, size))
        return cell.number(path) if cell else Numbers({})


def study_of(experiment: Experiment) -> Study:
    """Give the common part of an experiment's runs."""
    graph = experiment.topology.graph()
    frame = _ETHERNET + min(link.mtu for link in graph.links)
    return Study(float(graph.bottleneck.rate), pair_rtts(graph), float(frame))


def pair_rtts(graph: Graph) -> tuple[float, ...]:
    """Give the delay there and back between each sender and its receiver, seconds."""
    senders, receivers = graph.having("sender"), graph.having("receiver")
    hosts = {node.name for node in (*senders, *receivers)}
    result = []
    for sender, receiver in zip(senders, receivers, strict=True):
        others = hosts - {sender.name, receiver.name}
        path = [link for link in graph.links if not {link.a, link.b} & others]
        result.append(float(sum(link.delay_ab + link.delay_ba for link in path)))
    return tuple(result)


def grid_of(study: Study, cells: Iterable[CellRuns]) -> Grid:
    """Sort the cells of an experiment that have a buffer."""
    found = {}
    for cell in cells:
        size = cell.setting(LIMIT)
        if size is not None:
            key = round(cell.flows * study.scale), float(round(size * study.scale))
            found[key] = cell
    return Grid(study, found)


def throughput(size: str) -> str:
    """Where a run has the mean throughput of transfers of a size, bits/s."""
    return f"users.throughput_by_size.{size}.mean_bits_per_s"

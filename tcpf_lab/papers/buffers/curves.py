"""Use of the link and throughput of transfers, over the buffer, for each number of users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tcpf_lab.report.claims.page import CellRuns, Numbers
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.model import Experiment


def effective_rtt(rtts: Sequence[float]) -> float:
    r"""Give one round-trip time for flows of different ones: their harmonic mean, seconds.

    .. math:: T = \left( \frac 1 n \sum_i \frac 1 {T_i} \right)^{-1}

    A flow's rate is its window over its RTT, so it is the inverses that add up (Dhamdhere and
    Dovrolis 2006, section 2).

    Raises
    ------
    ValueError
        If there are none, or one is not above 0.

    Examples
    --------
    >>> round(effective_rtt([0.03, 0.15]), 6)
    0.05
    """
    times = np.asarray(rtts, np.float64)
    if times.size == 0 or not np.all(times > 0):
        raise ValueError("an effective RTT needs round-trip times above 0")
    return float(times.size / np.sum(1 / times))


def bandwidth_delay_product(rate: float, rtt: float) -> float:
    """Give B = C T, what most routers of the time had (paper 003, section 2).

    Examples
    --------
    >>> bandwidth_delay_product(1e9, 0.075)
    9375000.0
    """
    _positive(rate=rate, rtt=rtt)
    return rate * rtt / 8


def long_flows_rule(rate: float, rtt: float, flows: float) -> float:
    r"""Give :math:`B = C T / \sqrt N` for N long-lived flows (Appenzeller et al. 2004).

    Examples
    --------
    >>> long_flows_rule(1e9, 0.075, 900)
    312500.0
    """
    _positive(flows=flows)
    return bandwidth_delay_product(rate, rtt) / math.sqrt(flows)


def small_buffer_packets(largest_window: float, load: float = 0.8, share: float = 0.9) -> float:
    r"""Give the small-buffer rule's size, packets (Enachescu et al. 2006, Theorem 1).

    .. math:: B \ge \log_{1/\rho} \frac{W_{max}^2}{2 (1 - \theta)}

    Parameters
    ----------
    largest_window : float
        The flows' largest window W, packets.
    load : float
        Share rho of the capacity that is offered, between 0 and 1.
    share : float
        Share theta of that load which is to be carried, between 0 and 1.

    Raises
    ------
    ValueError
        If one is out of its range.

    Examples
    --------
    >>> round(small_buffer_packets(64), 1)
    44.5
    """
    _positive(largest_window=largest_window)
    if not 0 < load < 1 or not 0 < share < 1:
        raise ValueError("load and share must lie between 0 and 1")
    return math.log(largest_window**2 / (2 * (1 - share))) / -math.log(load)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0")


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

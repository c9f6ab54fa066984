"""Which pages there are, and which experiments each is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tcpf_lab.papers.buffers import build as buffers
from tcpf_lab.papers.coexistence import coexistence
from tcpf_lab.papers.ef.page import build as ef
from tcpf_lab.papers.groups import groups
from tcpf_lab.papers.l4s import l4s
from tcpf_lab.papers.latency import latency
from tcpf_lab.papers.reno import build as reno
from tcpf_lab.papers.rio.page import build as rio
from tcpf_lab.papers.workloads import parking_lot, queues, short_flows
from tcpf_lab.report.claims.page import Page, Text
from tcpf_lab.report.contents.assemble import left_out_text
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue.base import Parametrised
from tcpf_lab.spec.queue.tc import Tc

#: Makes a page of experiments and the words that run them; None if it has no content.
Build = Callable[[Sequence[Member], str], Page | None]


@dataclass(frozen=True)
class PageKind:
    """A page: ``covers`` selects its experiments."""

    covers: Callable[[Experiment], bool]
    build: Build


def _of_paper(paper: str) -> Callable[[Experiment], bool]:
    return lambda experiment: experiment.paper == paper


def _has_users(experiment: Experiment) -> bool:
    """Select an experiment with users that is not one of a paper with a page of its own."""
    return experiment.traffic.users is not None and experiment.paper is None


def _has_bottlenecks(experiment: Experiment) -> bool:
    """Select an experiment whose flows pass several queues under test."""
    return sum(link.bottleneck for link in experiment.graph.links) > 1


def _without_sack(experiment: Experiment) -> bool:
    """Select a published configuration in which the recovery matters."""
    return experiment.config is not None and not experiment.tcp.sack


def _has_foreign_queue(experiment: Experiment) -> bool:
    """Select an experiment of one kind of flows with a queue that the papers do not have."""
    queues = (case.queue for case in experiment.cases.values())
    return experiment.traffic.groups is None and any(
        isinstance(queue, Tc | Parametrised) for queue in queues
    )


def _has_groups(experiment: Experiment) -> bool:
    """Select an experiment with groups that is not one of a paper with a page of its own."""
    return experiment.traffic.groups is not None and experiment.paper is None


#: Every page by its name.
PAGES: dict[str, PageKind] = {
    "ef": PageKind(_of_paper("001"), ef),
    "buffers": PageKind(_of_paper("003"), buffers),
    "rio": PageKind(_of_paper("004"), rio),
    "coexistence": PageKind(_of_paper("ware"), coexistence),
    "groups": PageKind(_has_groups, groups),
    "l4s": PageKind(_of_paper("dualq"), l4s),
    "latency": PageKind(_of_paper("rrul"), latency),
    "parking-lot": PageKind(_has_bottlenecks, parking_lot),
    "queues": PageKind(_has_foreign_queue, queues),
    "reno": PageKind(_without_sack, reno),
    "short-flows": PageKind(_has_users, short_flows),
}


def pages_of(members: Sequence[Member], command: str) -> Iterator[Page]:
    """Yield the pages of a report.

    Parameters
    ----------
    members : sequence of Member
        Its experiments with their runs.
    command : str
        The command that runs them, ``tcpf-lab run ef.yaml``.
    """
    for kind in PAGES.values():
        own = [member for member in members if kind.covers(member.experiment)]
        page = kind.build(own, command) if own else None
        if page is not None:
            yield _with_left_out(page, left_out_text([member.section for member in own]))


def _with_left_out(page: Page, note: str) -> Page:
    """Add a note on excluded runs below the first block."""
    first, *others = page.blocks
    return replace(page, blocks=(first, Text(note), *others)) if note else page

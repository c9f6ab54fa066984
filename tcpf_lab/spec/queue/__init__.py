"""Queue kinds: a file per kind, a row per kind in `KINDS`."""

from __future__ import annotations

from typing import Annotated

from tcpf_lab.spec.queue.base import Bottleneck, Child, Queue
from tcpf_lab.spec.queue.bfifo import Bfifo
from tcpf_lab.spec.queue.cake import Cake
from tcpf_lab.spec.queue.choke import Choke
from tcpf_lab.spec.queue.codel import Codel
from tcpf_lab.spec.queue.dualpi2 import Dualpi2
from tcpf_lab.spec.queue.fq import Fq
from tcpf_lab.spec.queue.fq_codel import FqCodel
from tcpf_lab.spec.queue.fq_pie import FqPie
from tcpf_lab.spec.queue.frio import Frio
from tcpf_lab.spec.queue.hhf import Hhf
from tcpf_lab.spec.queue.pie import Pie
from tcpf_lab.spec.queue.precedence import Precedence
from tcpf_lab.spec.queue.prio import UNLIMITED, Prio, goes_first
from tcpf_lab.spec.queue.red import Red
from tcpf_lab.spec.queue.rio import Rio
from tcpf_lab.spec.queue.sfb import Sfb
from tcpf_lab.spec.queue.sfq import Sfq
from tcpf_lab.spec.queue.tc import Tc
from tcpf_lab.spec.words import OneOf

KINDS: dict[str, type[Queue]] = {
    "red": Red,
    "bfifo": Bfifo,
    "codel": Codel,
    "fq_codel": FqCodel,
    "pie": Pie,
    "fq_pie": FqPie,
    "dualpi2": Dualpi2,
    "cake": Cake,
    "fq": Fq,
    "sfq": Sfq,
    "hhf": Hhf,
    "choke": Choke,
    "sfb": Sfb,
    "rio": Rio,
    "frio": Frio,
    "prio": Prio,
    "tc": Tc,
}

#: A queue of any kind, as an experiment file holds it.
AnyQueue = Annotated[Queue, OneOf(KINDS)]

__all__ = [
    "KINDS",
    "UNLIMITED",
    "AnyQueue",
    "Bfifo",
    "Bottleneck",
    "Cake",
    "Child",
    "Choke",
    "Codel",
    "Dualpi2",
    "Fq",
    "FqCodel",
    "FqPie",
    "Frio",
    "Hhf",
    "Pie",
    "Precedence",
    "Prio",
    "Queue",
    "Red",
    "Rio",
    "Sfb",
    "Sfq",
    "Tc",
    "goes_first",
]

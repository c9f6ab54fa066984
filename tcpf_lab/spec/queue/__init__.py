"""Queue kinds: one file per kind, one row per file in `KINDS`."""

from __future__ import annotations

from typing import Annotated

from tcpf_lab.spec.queue.base import Child, Queue
from tcpf_lab.spec.queue.bfifo import Bfifo
from tcpf_lab.spec.queue.frio import Frio
from tcpf_lab.spec.queue.prio import Prio
from tcpf_lab.spec.queue.red import Red
from tcpf_lab.spec.queue.rio import Rio
from tcpf_lab.spec.queue.tc import Tc
from tcpf_lab.spec.words import OneOf

KINDS: dict[str, type[Queue]] = {
    "red": Red,
    "bfifo": Bfifo,
    "rio": Rio,
    "frio": Frio,
    "prio": Prio,
    "tc": Tc,
}

#: A queue of any kind, as an experiment file holds it.
AnyQueue = Annotated[Queue, OneOf(KINDS)]

__all__ = ["KINDS", "AnyQueue", "Bfifo", "Child", "Frio", "Prio", "Queue", "Red", "Rio", "Tc"]

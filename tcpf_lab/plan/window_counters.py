"""Counters of queues at the two ends of the measured window.

What is read after the traffic counts the whole run.  Where no packets are captured the window's
share of it is the difference of two readings.  In virtual time starting ``tc`` takes no time, so
both are taken at the instants at which the generator reads TCP_INFO.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcpf_lab.plan.step import Phase, Start
from tcpf_lab.plan.topology import Interface
from tcpf_lab.plan.traffic.flows import end_of, window
from tcpf_lab.spec.sweep import Run


def needed(run: Run) -> bool:
    """Tell whether the run's numbers cannot do without the counters of the window."""
    return not run.experiment.traffic.captured or bool(run.case.background)


def start(run: Run, queues: Iterable[Interface]) -> Phase:
    """Start the programs that read the queues of each interface, at either end of the window."""
    return Phase("counters of the window", tuple(_readings(run, queues)))


def end(run: Run, queues: Iterable[Interface]) -> Phase:
    """Wait until all of them have read."""
    return end_of("end of the counters of the window", run, _readings(run, queues))


def _readings(run: Run, queues: Iterable[Interface]) -> list[Start]:
    return [
        Start(
            queue.node,
            f"qdisc-window-{label}-{queue.node}",
            ("tc", "-s", "-d", "-j", "qdisc", "show", "dev", queue.device),
            f"stats/qdisc-window-{label}-{queue.node}.json",
            f"log/qdisc-window-{label}-{queue.node}.log",
            at=at,
        )
        for label, at in zip(("start", "end"), window(run), strict=True)
        for queue in queues
    ]

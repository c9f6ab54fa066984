"""Traffic generators, one file each; every one gives a :class:`Traffic` from a run."""

from __future__ import annotations

from collections.abc import Callable

from tcpf_lab.plan.traffic import iperf3, native
from tcpf_lab.plan.traffic.flows import Traffic
from tcpf_lab.spec.sweep import Run

GENERATORS: dict[str, Callable[[Run], Traffic]] = {
    "native": native.traffic,
    "iperf3": iperf3.traffic,
}


#: What makes the traffic where neither the experiment names a generator nor a testbed was chosen.
UNCHOSEN = "native"


def generator(run: Run) -> str:
    """Return the name of the run's generator."""
    return run.experiment.traffic.generator or UNCHOSEN


def traffic(run: Run) -> Traffic:
    """Return what the run's generator does."""
    return GENERATORS[generator(run)](run)


__all__ = ["GENERATORS", "Traffic", "generator", "traffic"]

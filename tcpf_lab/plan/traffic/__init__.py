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


def traffic(run: Run) -> Traffic:
    """Return what the run's generator does."""
    return GENERATORS[run.experiment.traffic.generator](run)


__all__ = ["GENERATORS", "Traffic", "traffic"]

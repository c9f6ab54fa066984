"""The shipped experiments say what the papers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.reference.published import published
from tcpf_lab.spec.load import load
from tcpf_lab.spec.queue import Bfifo, Red
from tcpf_lab.spec.sweep import expand

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.mark.parametrize(
    ("config", "sack", "top"),
    [("A", True, 200_000), ("B", False, 200_000), ("C", True, 30_000), ("D", False, 30_000)],
)
def test_a_configuration_is_the_papers(config: str, sack: bool, top: int) -> None:
    experiment = load(EXPERIMENTS / f"config{config}.yaml")
    assert experiment.reference is not None
    assert experiment.reference.config == config
    assert (experiment.tcp.profile, experiment.tcp.sack) == ("linux-2.2", sack)
    assert list(experiment.cases) == ["NoMark+TailDrop", "NoMark+RED"]
    tail_drop, red = (case.queue for case in experiment.cases.values())
    assert isinstance(tail_drop, Bfifo)
    assert tail_drop.limit == top
    assert isinstance(red, Red)
    assert (red.limit, red.min, red.max, red.probability, red.wlog) == (
        500_000,
        10_000,
        top,
        0.25,
        9,
    )


@pytest.mark.parametrize("config", "ABCD")
def test_a_configuration_runs_as_long_as_planned_from_host_to_host(config: str) -> None:
    experiment = load(EXPERIMENTS / f"config{config}.yaml")
    traffic, graph = experiment.traffic, experiment.topology.graph()
    assert (traffic.start_spread, traffic.warmup, traffic.end) == (2.0, 10.0, 70.0)
    assert traffic.socket_buffer == 1_000_000
    assert min(link.queue for link in graph.links) >= 1_000_000
    assert [link.rate // 10**6 for link in graph.links] == [100, 100, 10, 100]
    assert (graph.links[-1].delay_ba, graph.mss) == (0.2, 960)
    assert len(expand(experiment)) == 40


@pytest.mark.parametrize("config", "ABCD")
def test_every_cell_of_a_configuration_has_published_numbers(config: str) -> None:
    for run in expand(load(EXPERIMENTS / f"config{config}.yaml"), seeds=1):
        assert published(config, run.case_name, run.flows) is not None


def test_the_smoke_experiment_is_two_short_runs() -> None:
    smoke = load(EXPERIMENTS / "smoke.yaml")
    assert len(expand(smoke)) == 2
    assert smoke.traffic.end <= 10
    assert smoke.reference is None

"""The benchmark of packets per second in a guest: its arithmetic, and a short run of one pair."""

from __future__ import annotations

from typing import Any

import pytest

from tcpf_lab.base.errors import LabError
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.bench import bench_guest_pps

SHOWN: list[dict[str, Any]] = [
    {"dev": "R1-R2", "kind": "tbf", "packets": 9},
    {"dev": "R2-R1", "kind": "rio", "packets": 8},
    {"dev": "R1-R2", "kind": "rio", "packets": 7},
]


def test_every_queue_meets_every_marker_once() -> None:
    runs = bench_guest_pps.runs(5)
    pairs = {(run.case.queue.kind, run.case.marker.kind) for run in runs.values()}
    assert len(runs) == len(pairs) == 12
    assert {queue for queue, _ in pairs} == {"bfifo", "red", "rio", "frio"}
    assert {marker for _, marker in pairs} == {"none", "token", "tcpf"}
    assert {run.experiment.traffic.duration for run in runs.values()} == {5.0}
    assert bench_guest_pps.PLAIN in runs


def test_packets_are_those_of_the_queue_under_study() -> None:
    assert bench_guest_pps.crossed(SHOWN, "R1-R2", "rio") == 7
    with pytest.raises(LabError, match="no queue frio at R1-R2"):
        bench_guest_pps.crossed(SHOWN, "R1-R2", "frio")


def test_boot_does_not_count_and_ratios_are_of_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([(0.5, 1000), (1.5, 101_000), (0.7, 1000), (3.7, 101_000)])
    monkeypatch.setattr(bench_guest_pps, "take", lambda bed, run: bench_guest_pps.Took(*next(took)))
    names = dict.fromkeys([bench_guest_pps.PLAIN, "tcpf+rio"])
    measured = dict(bench_guest_pps.one_round(None, names, names))
    assert measured == pytest.approx({bench_guest_pps.PLAIN: 1e-5, "tcpf+rio": 3e-5})
    slower = {name: 2 * seconds for name, seconds in measured.items()}
    found = bench_guest_pps.summary([measured, slower, slower])
    assert found["tcpf+rio"] == {
        "us_per_packet": 60.0,
        "packets_per_s": 16667,
        "ratio_to_plain": 3.0,
    }


@pytest.mark.uml
@pytest.mark.full
def test_a_run_through_a_guest_takes_time_and_brings_packets_across(uml: UmlTestbed) -> None:
    run = bench_guest_pps.runs(bench_guest_pps.SHORT_S)["tcpf+frio"]
    took = bench_guest_pps.take(uml, run)
    assert took.seconds > 0
    # 10 Mbit/s of 1000-byte packets for the warm-up and the traffic, and those of connections
    assert 3500 < took.packets < 1250 * 5

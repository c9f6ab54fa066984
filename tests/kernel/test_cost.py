"""What a packet costs: the harness measures what it says, and the targets hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from run_maker import locked

from tcpf_lab.base.errors import LabError
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.bench import bench_cost, bench_guest_pps

PACKETS = 20_000
#: Bytes: where the harness has its thresholds.
MIN, MAX = 10_000, 200_000


@pytest.fixture(scope="session")
def program(uml: UmlTestbed, products: Path) -> Path:
    directory = products / "cost"
    with locked(products):
        if not (directory / "cost").exists():
            bench_cost.build(directory, uml.kernel.tree)
    return directory / "cost"


def load(program: Path, kind: str, flows: int, packets: int = PACKETS) -> dict[str, Any]:
    words = [str(program), kind, str(flows), str(PACKETS), str(packets)]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", ["red", "rio", "frio"])
def test_queues_drop_one_in_twenty_between_their_thresholds(program, kind):
    result = load(program, kind, 256)
    assert 0.045 < result["dropped"] / PACKETS < 0.055
    assert 0.48 < result["in"] / PACKETS < 0.52
    assert MIN < result["backlog"] < MAX


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", [*bench_cost.PER_PACKET, *bench_cost.PER_TICK])
def test_every_kind_that_is_measured_runs(program, kind):
    result = load(program, kind, 16, 100)
    assert result["in"] > 0


@pytest.mark.uml
@pytest.mark.full
def test_rio_and_frio_cost_little_more_than_mainline_red(program):
    """Instructions per packet: a queue that few know is compared with one that all know."""
    assert shutil.which("valgrind")
    red = bench_cost.count(program, "red", 256, PACKETS)
    rio = bench_cost.count(program, "rio", 256, PACKETS)
    frio = [bench_cost.count(program, "frio", flows, PACKETS) for flows in (1, 65536)]
    assert rio <= 1.3 * red
    assert max(frio) <= 2 * red
    assert max(frio) <= 1.2 * min(frio)


# The benchmark of packets per second in a guest: its arithmetic, and a short run of one pair.

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

"""The benchmarks' own arithmetic and messages; nothing here is timed."""

from __future__ import annotations

import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tcpf_lab.base.errors import LabError
from tcpf_lab.trace.analysis import KINDS, analyse
from tools.bench import __main__ as bench
from tools.bench import bench_cost, bench_hop, bench_profile, bench_trace, endless, peer


def ran(wall: float) -> dict[str, Any]:
    """Return what a simulation of 60 s prints."""
    return {
        "simulated_seconds": 60.0,
        "wall_seconds": wall,
        "process_seconds": wall + 15.0,
        "received_bytes": 67_500_000,
        "red_dropped_packets": 5000,
        "red_received_packets": 80000,
        "ns3_version": "3.44",
        "ns3_logging_compiled_in": True,
    }


def test_rates_of_repetitions_are_median_least_and_greatest() -> None:
    found = peer.summary([ran(5.0), ran(4.0), ran(6.0)])
    assert found["simulated_per_wall_second"] == {"median": 12.0, "min": 10.0, "max": 15.0}
    assert found["wall_seconds"] == [5.0, 4.0, 6.0]
    assert found["received_mbit_per_s"] == 9.0
    assert found["red_loss_percent"] == 6.25


def test_interpreter_without_ns3_is_named_with_a_cure(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(LabError, match="ns3 is not installed") as caught:
        peer.measure(1, python=path)
    assert "pip install 'tcpf-lab[bench]'" in caught.value.hint
    assert caught.value.where == str(path)


def test_rounds_add_up_to_one_measurement() -> None:
    def one(wall: float) -> dict[str, Any]:
        return {"x": {"virtual_seconds": 300, "wall_seconds": [wall]}}

    merged = bench.merge([one(4.0), one(5.0), one(6.0)])["x"]
    assert merged["wall_seconds"] == [4.0, 5.0, 6.0]
    assert merged["virtual_per_wall_second"] == {"median": 60.0, "min": 50.0, "max": 75.0}


def test_ratio_pairs_what_was_measured_in_one_round() -> None:
    virtual = {"virtual_seconds": 300, "wall_seconds": [5.0, 6.0]}
    found = bench.ratio(virtual, [ran(5.0), ran(4.0)])
    assert found["min_of_rounds"] == 3.33
    assert found["max_of_rounds"] == 5.0
    assert found["of_medians"] == 4.07


PROFILE = """# callgrind format
events: Ir
summary: 60

fl=load.c
fn=cost_counted_enqueue
0 10
cfn=red_enqueue
calls=2 0
0 50

fn=red_enqueue
0 30
+3 5
* 1
cfi=clock.c
cfn=ktime_get
calls=1 0
0 14

fn=ktime_get
0 14

totals: 60
"""


def test_instructions_of_the_harness_itself_do_not_count() -> None:
    assert bench_cost.instructions(PROFILE) == 50


def test_cost_is_compared_with_reds_and_over_flows() -> None:
    packet = {
        "red": {"256": 100.0},
        "rio": {"256": 125.0},
        "frio": {"1": 150.0, "65536": 180.0},
        "tcpf": {"1": 400.0, "16": 380.0},
    }
    assert bench_cost.ratios(packet) == {
        "ratio_to_red": {"rio": 1.25, "frio": 1.8},
        "dearest_to_cheapest": {"frio": 1.2, "tcpf": 1.05},
    }


def test_endless_capture_is_what_it_says(tmp_path: Path) -> None:
    """Each group of packets has one loss that SACK mends; nothing else is sent again."""
    path = bench_trace.generated(tmp_path / "x.pcap", 8_000_000)
    found = analyse(path)
    packets = found.capture.records
    assert packets % (endless.PACKETS * 4096) == 0
    assert path.stat().st_size >= 8_000_000
    groups = packets // endless.PACKETS
    counts = found.flows["counts"].sum(axis=0)
    assert counts[KINDS.index("fast")] == counts.sum() == groups
    assert len(found.flows) == 100


def test_memory_and_processor_time_of_a_command_are_measured() -> None:
    seconds, memory, _ = bench_trace.run(
        [sys.executable, "-c", "x = bytearray(80_000_000); sum(range(10**6))"]
    )
    assert seconds > 0
    assert memory > 80_000_000
    assert bench_trace.run(["true"]).memory < 40_000_000  # and not what this process has
    with pytest.raises(LabError, match="status 3: no"):
        bench_trace.run([sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)"])


def test_cost_of_a_hop_is_apart_from_those_of_its_ends_and_of_set_up() -> None:
    each_us = {"call": 11.0, "wake": 12.0, "start": 1500.0}

    def place(command: Sequence[str]) -> float:
        if command[0] == "sh":
            *_, hops, _, count = command
            return 3.0 + (0.6 + 0.2 * int(hops)) * int(count) / 1e6
        return 1.0 + each_us[command[1]] * int(command[2]) / 1e6

    found = bench_hop.costs(place, Path("hop"))
    assert found == pytest.approx({"hop": 0.2, "ends": 0.6, **each_us})


def test_parts_of_a_run_are_what_its_kinds_differ_by() -> None:
    def runs(**guest: float) -> dict[str, dict[str, float]]:
        return {name: {"guest": seconds, "whole": seconds + 1.0} for name, seconds in guest.items()}

    found = bench_profile._parts(runs(short=0.5, short_captured=0.7, long=3.0, long_captured=5.0))
    assert found == {
        "boot_set_up_tear_down": 0.5,
        "start_and_end_of_captures": 0.2,
        "packets": 2.5,
        "captures": 1.8,
        "analysis_and_results": 1.0,
        "virtual_per_wall_second": 100.0,
        "with_captures_and_analysis": 50.0,
    }

"""Runs without captures in guests: the numbers are those that captures give of the same packets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from run_maker import make_run

from tcpf_lab.base import shipped
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.counters import queue_window
from tcpf_lab.metrics.from_counters import from_counters
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import from_packets
from tcpf_lab.plan import collect
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.trace.follow import SYN_RTO

pytestmark = [pytest.mark.uml, pytest.mark.full]

#: The reviewed plan of the chapter, for a shorter time.
CHAPTER = ("matrix.flows=100", "matrix.seed=1", "traffic.duration=20 s")


@pytest.fixture
def make(
    uml: UmlTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunFiles]:
    """Return a function that makes a run whose queue is read at the window's ends in any case.

    Starting the programs that read draws random numbers, of which the queue then gets others.
    """
    monkeypatch.setattr(collect, "needed", lambda _run: True)

    def carried(place: str, *settings: str) -> RunFiles:
        experiment = load(shipped.directory("experiments") / "configA.yaml")
        experiment = apply_overrides(experiment, [*CHAPTER, *settings])
        run = expand(experiment, {"case": "NoMark+RED"})[0]
        return make_run(tmp_path / place, uml, run)

    return carried


def test_captures_change_no_packet_and_counters_give_the_same_numbers(
    make: Callable[..., RunFiles],
) -> None:
    with_captures, without = make("with"), make("without", "traffic.captures=false")
    for name in ("senders-S.jsonl", "qdisc-window-start-R1.json", "qdisc-window-end-R1.json"):
        one, other = ((run.stats / name).read_bytes() for run in (with_captures, without))
        assert one == other
    assert not list(without.pcap.glob("*"))

    run = read_captured(with_captures)
    seen = from_packets(with_captures, run)
    told = from_counters(without, read_record(without))
    assert read_json(without.metrics)["validity"]["valid"] is True
    for name in ("goodput_bytes_per_s", "timeouts_whole_run", "syn_timeouts"):
        assert [row[name] for row in told.per_flow] == [row[name] for row in seen.per_flow]
    for name in ("goodput_bytes_per_s", "goodput_cov", "goodput_jain", "goodput_min_max"):
        assert told.metrics[name] == seen.metrics[name]

    # A timer that fires at the very instant of a reading comes before it or after it.
    packets, kind = run.captures["sender"].packets, run.recovery.kind
    again = (kind > 0) & (kind != SYN_RTO)
    at_the_ends = int(np.sum(again & np.isin(packets["time_ns"], run.window_ns)))
    assert told.metrics["timeouts"] > 100
    for name in ("timeouts", "retransmissions"):
        apart = [abs(a[name] - b[name]) for a, b in zip(told.per_flow, seen.per_flow, strict=True)]
        assert sum(apart) <= at_the_ends

    window = queue_window(without, "R1-R2")
    start, end = run.window_ns
    came, left = run.crossing.arrival_ns, run.crossing.departure_ns
    largest = int(run.crossing.wire_length.max())
    within = (left >= start) & (left < end)
    assert abs(window.bytes - int(run.crossing.wire_length[within].sum())) <= largest
    lost = int(np.sum(run.crossing.lost & (came >= start) & (came < end)))
    assert abs(window.drops - lost) <= 1
    rate = 10e6 * (end - start) / 8e9
    assert told.metrics["utilisation"] == pytest.approx(
        seen.metrics["utilisation"], abs=1.01 * largest / rate
    )

"""Clocks of hosts: how far off, how sure, how fast; no host is asked here."""

from __future__ import annotations

import time

import pytest

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.ssh import clock
from tcpf_lab.testbed.ssh.clock import Line, Sample

NSEC = 10**9


class World:
    """Two clocks and a network between them, in which time passes only when it is told to."""

    def __init__(self, offset: int, drift_ppm: float = 0.0, trips=((1000, 1000),)) -> None:
        self.true = 100 * NSEC
        self.offset, self.drift, self.trips = offset, drift_ppm * 1e-6, list(trips)
        self.request = 0

    def now(self) -> int:
        return self.true

    def ask(self) -> dict[str, int]:
        there, back = self.trips[self.request % len(self.trips)]
        self.request += 1
        self.true += there
        theirs = self.true + self.offset + round(self.drift * self.true)
        self.true += back
        return {"time_ns": theirs, "monotonic_ns": theirs - 7 * NSEC}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(clock, "PAUSE_S", 0.0)


def test_symmetric_exchange_gives_the_offset_exactly():
    world = World(offset=37 * NSEC, trips=[(5000, 5000)])
    (found,) = clock.measure(world.ask, world.now, exchanges=1)
    assert found.offset_ns == 37 * NSEC
    assert found.round_trip_ns == 10_000


def test_error_of_an_asymmetric_exchange_is_within_half_its_round_trip():
    world = World(offset=-NSEC, trips=[(90_000, 1000), (1000, 40_000), (3000, 2000)])
    samples = clock.measure(world.ask, world.now, exchanges=9)
    for each in samples:
        assert abs(each.offset_ns + NSEC) <= each.round_trip_ns / 2
    best = clock.best(samples)
    assert best.round_trip_ns == 5000
    assert abs(best.offset_ns + NSEC) == 500


@pytest.mark.parametrize("ppm", [-40.0, 0.0, 40.0])
def test_drift_is_that_of_the_clock_and_offsets_between_are_interpolated(ppm):
    world = World(offset=37 * NSEC, drift_ppm=ppm)
    before = clock.measure(world.ask, world.now)
    epoch = world.true + 2 * NSEC
    world.true += 300 * NSEC
    line = clock.line(before, clock.measure(world.ask, world.now))
    assert line.drift_ppm == pytest.approx(ppm, abs=1e-3)
    assert line.offset_ns(epoch) == pytest.approx(37 * NSEC + ppm * 1e-6 * epoch, abs=100)
    node = clock.node(epoch, line)
    assert node["epoch_ns"] == epoch + node["offset_ns"]
    assert node["uncertainty_ns"] == 1000
    assert node["drift_ppm"] == round(ppm, 3)


def test_one_measurement_gives_a_constant_offset():
    once = Sample(at_ns=5, offset_ns=11, round_trip_ns=4, step_ns=0)
    line = clock.line([once], [])
    assert (line.offset_ns(10**12), line.drift_ppm, line.uncertainty_ns) == (11, 0.0, 2)


def test_uncertainty_is_that_of_the_worse_measurement():
    line = Line(Sample(0, 0, 10, 0), Sample(NSEC, 0, 300, 0))
    assert line.uncertainty_ns == 150


def test_clock_that_was_set_during_a_run_is_refused():
    steady = [Sample(0, 0, 1, 5 * NSEC), Sample(1, 0, 1, 5 * NSEC + 90_000)]
    clock.refuse_step("alpha", steady)
    with pytest.raises(TestbedError, match=r"stepped by -2\.500 s") as caught:
        clock.refuse_step("alpha", [*steady, Sample(2, 0, 1, 5 * NSEC // 2)])
    assert caught.value.where == "host alpha"


def test_clock_that_was_set_there_and_back_is_refused():
    there = [Sample(n, 0, 1, (5 + 2 * (n == 3)) * NSEC) for n in range(6)]
    with pytest.raises(TestbedError, match=r"stepped by \+2\.000 s"):
        clock.refuse_step("alpha", there)


def test_reading_that_was_interrupted_is_no_step():
    late = Sample(2, 0, 300_000_000, 5 * NSEC - 290_000_000)
    clock.refuse_step("alpha", [Sample(0, 0, 1, 5 * NSEC), late, Sample(3, 0, 1, 5 * NSEC)])


def test_exchanges_of_the_run_are_those_between_the_measurements():
    before, after = ([Sample(at, 0, 1, 0) for at in ats] for ats in ((10, 20), (90, 95)))
    told = [Sample(at, 0, 1, 0) for at in (50, 5, 30, 92, 20)]
    assert [each.at_ns for each in clock.between(before, told, after)] == [30, 50]


def test_exchange_timed_by_the_monotonic_clock_becomes_a_sample():
    reference = clock.Reference()
    start = time.monotonic_ns()
    ours = reference.now()
    answer = {"time_ns": ours + 3 * NSEC, "monotonic_ns": 0}
    found = reference.sample(clock.Exchange(start, start + 2000, answer))
    assert found.round_trip_ns == 2000
    assert found.offset_ns == pytest.approx(3 * NSEC, abs=NSEC // 10)


def test_reference_does_not_follow_a_clock_that_is_set(monkeypatch):
    reference = clock.Reference()
    before = reference.now()
    monkeypatch.setattr(clock.time, "time_ns", lambda: 0)
    assert 0 <= reference.now() - before < NSEC


def test_instants_are_written_exactly():
    assert clock.seconds(1_700_000_000_000_000_001) == "1700000000.000000001"

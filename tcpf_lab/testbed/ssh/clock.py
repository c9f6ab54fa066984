"""The clocks of hosts against ours: how far off, how sure, how fast they drift.

An agent reports its time; the reading belongs to some instant between sending and receiving, at
best in the middle.  Of many exchanges the quickest counts: its offset is wrong by half its round
trip at most.  Measured before and after a run, offsets are joined by a straight line.  Single
exchanges during the run show whether the clock follows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcpf_lab.base.errors import TestbedError

#: Exchanges of one measurement, and the time between them, s.
EXCHANGES = 16
PAUSE_S = 0.005
#: CLOCK_REALTIME may move so far against CLOCK_MONOTONIC before it counts as set, ns: reading the
#: two takes a while on a busy machine, and both follow the same corrections of the rate.
STEP_NS = 100_000_000
NSEC = 10**9


@dataclass(frozen=True)
class Sample:
    """One exchange with a host."""

    at_ns: int  #: the middle of it, on our clock
    offset_ns: int  #: the host's clock minus ours
    round_trip_ns: int
    step_ns: int  #: the host's CLOCK_REALTIME minus its CLOCK_MONOTONIC

    def as_json(self) -> dict[str, int]:
        """Return the values for ``stats/clock.json``."""
        return {
            "at_ns": self.at_ns,
            "offset_ns": self.offset_ns,
            "round_trip_ns": self.round_trip_ns,
        }


@dataclass(frozen=True)
class Exchange:
    """One exchange with a host during a run; our times by CLOCK_MONOTONIC."""

    sent_ns: int
    received_ns: int
    answer: Mapping[str, Any]


class Reference:
    """Our own clock: CLOCK_REALTIME of one instant, carried on by CLOCK_MONOTONIC.

    A step of our clock during a run does not move the run's instants.
    """

    def __init__(self) -> None:
        self._start = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Give the time, ns."""
        return self._start + time.monotonic_ns()

    def sample(self, exchange: Exchange) -> Sample:
        """Make a sample of an exchange that was timed without this clock."""
        ours = (self._start + exchange.sent_ns, self._start + exchange.received_ns)
        return sample(*ours, exchange.answer)


def sample(sent: int, received: int, answer: Mapping[str, Any]) -> Sample:
    """Make a sample of an exchange: our times of sending and receiving (ns), the host's between."""
    middle = (sent + received) // 2
    theirs = int(answer["time_ns"])
    step = theirs - int(answer["monotonic_ns"])
    return Sample(middle, theirs - middle, received - sent, step)


def measure(
    ask: Callable[[], Mapping[str, Any]], now: Callable[[], int], exchanges: int = EXCHANGES
) -> tuple[Sample, ...]:
    """Request a host's time repeatedly."""
    found = []
    for _ in range(exchanges):
        sent = now()
        answer = ask()
        found.append(sample(sent, now(), answer))
        time.sleep(PAUSE_S)  # exchanges of one instant would share one disturbance
    return tuple(found)


def between(
    before: Sequence[Sample], samples: Iterable[Sample], after: Sequence[Sample]
) -> tuple[Sample, ...]:
    """Give the samples that were taken between two measurements, in order of time."""
    first, last = before[-1].at_ns, after[0].at_ns
    inside = (each for each in samples if first < each.at_ns < last)
    return tuple(sorted(inside, key=lambda each: each.at_ns))


def best(samples: Sequence[Sample]) -> Sample:
    """Give the sample with the shortest round trip."""
    return min(samples, key=lambda each: each.round_trip_ns)


@dataclass(frozen=True)
class Line:
    """A host's offset as a straight line through two measurements; through one, it is constant."""

    first: Sample
    last: Sample

    @property
    def slope(self) -> float:
        """Change of the offset, s/s."""
        span = self.last.at_ns - self.first.at_ns
        return (self.last.offset_ns - self.first.offset_ns) / span if span else 0.0

    @property
    def drift_ppm(self) -> float:
        """Rate of the host's clock against ours, parts in a million."""
        return self.slope * 1e6

    def offset_ns(self, at_ns: int) -> int:
        """Give the offset at an instant of our clock, ns."""
        return self.first.offset_ns + round(self.slope * (at_ns - self.first.at_ns))

    @property
    def uncertainty_ns(self) -> int:
        """Bound of the error of the offset between the two measurements, ns."""
        return max(self.first.round_trip_ns, self.last.round_trip_ns) // 2


def line(before: Sequence[Sample], after: Sequence[Sample]) -> Line:
    """Join the best samples of two measurements; without a second one, the first is all."""
    first = best(before)
    return Line(first, best(after) if after else first)


def node(epoch_ns: int, clock: Line) -> dict[str, int | float]:
    """Return the epoch on each node's clock, as in ``stats/epoch.json``."""
    offset = clock.offset_ns(epoch_ns)
    return {
        "epoch_ns": epoch_ns + offset,
        "offset_ns": offset,
        "uncertainty_ns": clock.uncertainty_ns,
        "drift_ppm": round(clock.drift_ppm, 3),
    }


def refuse_step(host: str, samples: Sequence[Sample]) -> None:
    """Refuse a run during which a host's clock was set: its captures are of two times.

    The host may have been interrupted between its two readings, for no longer than that took.

    Raises
    ------
    TestbedError
        Naming the host, and by how much.
    """
    first = samples[0]
    moves = [
        (each.step_ns - first.step_ns, each.round_trip_ns + first.round_trip_ns) for each in samples
    ]
    moved, trip = max(moves, key=lambda move: abs(move[0]) - move[1])
    if abs(moved) - trip > STEP_NS:
        raise TestbedError(
            f"the host's clock was stepped by {moved / NSEC:+.3f} s during the run",
            where=f"host {host}",
            hint="let its NTP service set the time first (`chronyc makestep`), or stop the service "
            "during the experiment",
        )


def seconds(at_ns: int) -> str:
    """Write an instant in seconds, exactly."""
    return f"{at_ns // NSEC}.{at_ns % NSEC:09d}"

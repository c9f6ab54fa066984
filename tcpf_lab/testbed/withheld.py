"""What the host of a virtual machine gives of its processors to others ("steal" in proc(5)).

Where much of them is withheld a wall clock goes on while programs stand still: a patience in its
seconds ends before what it waits for has run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
#: Part of real time that counts whatever is withheld: what hangs must end some day.
_LEAST = 0.02


@dataclass(frozen=True)
class Processors:
    """Ticks since boot, of all processors together: what ran, and what would have run."""

    given: int
    withheld: int

    @classmethod
    def read(cls, stat: Path = _STAT) -> Processors:
        """Read them from a file like ``/proc/stat``."""
        total = stat.read_text(encoding="ascii").splitlines()[0].split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, total[1:9])
        return cls(user + nice + system + irq + softirq, steal)

    def share_withheld(self, later: Processors) -> float:
        """Return the part of what was wanted until ``later`` that was withheld, 0 to 1."""
        given, withheld = later.given - self.given, later.withheld - self.withheld
        return withheld / (given + withheld) if withheld > 0 and given >= 0 else 0.0


class GivenTime:
    """Seconds during which the machine had its processors; without a host they are real seconds.

    At least every fiftieth real second counts.

    Parameters
    ----------
    read : callable
        Gives the processors' ticks.
    clock : callable
        Gives real seconds.
    longest : float
        Most that may count between two looks, s: what lies between two that come later than that
        was the clock's jump, or nobody's time.
    """

    def __init__(
        self,
        read: Callable[[], Processors] = Processors.read,
        clock: Callable[[], float] = time.monotonic,
        longest: float = math.inf,
    ) -> None:
        self._read, self._clock, self._longest = read, clock, longest
        self._last, self._at = read(), clock()
        self._seconds = 0.0

    def seconds(self) -> float:
        """Return them since the beginning; more exact the more often it is asked."""
        now, at = self._read(), self._clock()
        passed = min(max(at - self._at, 0.0), self._longest)
        self._seconds += passed * max(1 - self._last.share_withheld(now), _LEAST)
        self._last, self._at = now, at
        return self._seconds


class QueuedTime:
    """Seconds that a process and its children have waited for a processor which others had.

    Parameters
    ----------
    pid : int
        The process.
    proc : Path
        Where the kernel shows processes; one that does not show this tells of no waiting.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._last: dict[int, int] = {}
        self._seconds = 0.0

    def seconds(self) -> float:
        """Return them since the beginning; what ended since the last look is lost."""
        now = {pid: self._waited_ns(pid) for pid in (self._pid, *self._children())}
        self._seconds += sum(max(ns - self._last.get(p, 0), 0) for p, ns in now.items()) / 1e9
        self._last = now
        return self._seconds

    def _children(self) -> list[int]:
        try:
            found = self._proc / str(self._pid) / "task" / str(self._pid) / "children"
            return [int(word) for word in found.read_text(encoding="ascii").split()]
        except OSError:
            return []

    def _waited_ns(self, pid: int) -> int:
        try:
            text = (self._proc / str(pid) / "schedstat").read_text(encoding="ascii")
            return int(text.split()[1])
        except (OSError, IndexError):
            return 0

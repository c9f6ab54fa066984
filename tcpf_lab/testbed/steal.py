"""CPU steal: processor time that the host of a virtual machine gives to others (proc(5)).

With much steal the wall clock advances while programs stand still, and a time limit in real seconds
expires before a program has had its time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
#: Minimum share of real time that counts: a program that hangs must reach its limit.
_MIN_SHARE = 0.02


@dataclass(frozen=True)
class CpuTicks:
    """Clock ticks since boot, of all processors together."""

    used: int  #: user, nice, system, irq and softirq
    stolen: int  #: steal

    @classmethod
    def read(cls, stat: Path = _STAT) -> CpuTicks:
        """Read a file like ``/proc/stat``."""
        total = stat.read_text(encoding="ascii").splitlines()[0].split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, total[1:9])
        return cls(user + nice + system + irq + softirq, steal)

    def steal_share(self, later: CpuTicks) -> float:
        """Return steal as a share of used and stolen time until ``later``, 0 to 1."""
        used, stolen = later.used - self.used, later.stolen - self.stolen
        return stolen / (used + stolen) if stolen > 0 and used >= 0 else 0.0


class TimeWithoutSteal:
    """Real seconds without CPU steal; at least every fiftieth real second counts.

    Parameters
    ----------
    read : callable
        Returns the processors' ticks.
    clock : callable
        Returns real seconds.
    longest : float
        Maximum that counts between two calls of `seconds`, s: a longer interval is a jump of the
        clock, or the process did not run.
    """

    def __init__(
        self,
        read: Callable[[], CpuTicks] = CpuTicks.read,
        clock: Callable[[], float] = time.monotonic,
        longest: float = math.inf,
    ) -> None:
        self._read, self._clock, self._longest = read, clock, longest
        self._last, self._at = read(), clock()
        self._seconds = 0.0

    def seconds(self) -> float:
        """Return the seconds since the start; frequent calls make it more exact."""
        now, at = self._read(), self._clock()
        passed = min(max(at - self._at, 0.0), self._longest)
        self._seconds += passed * max(1 - self._last.steal_share(now), _MIN_SHARE)
        self._last, self._at = now, at
        return self._seconds


class RunQueueWait:
    """Seconds that a process and its children have waited on a run queue.

    Parameters
    ----------
    pid : int
        The process.
    proc : Path
        The proc file system; without ``schedstat`` the wait is 0.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._last: dict[int, int] = {}
        self._seconds = 0.0

    def seconds(self) -> float:
        """Return the seconds since the start; processes that end between two calls lose theirs."""
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

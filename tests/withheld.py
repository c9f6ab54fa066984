"""How much of the machine's processors its host gave to others, while a test ran.

An agent's silence, an sshd's patience and a guest's watchdog are in seconds of a wall clock. On a
machine that gets a tenth of its processors they pass before the program they wait for has run. Such
a failure says nothing about the program, so the test is done again (``conftest.py``), and the
summary lists it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: A test that fails is done again if more than this share of what the machine wanted was withheld.
TOLERATED = 0.2

_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Processors:
    """Ticks since boot, of all processors together."""

    given: int
    withheld: int  #: "steal" in proc(5): there was work, and the host ran somebody else

    @classmethod
    def read(cls, stat: Path = _STAT) -> Processors:
        """Read them from a file like ``/proc/stat``."""
        total = stat.read_text(encoding="ascii").splitlines()[0].split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, total[1:9])
        return cls(user + nice + system + irq + softirq, steal)

    def share_withheld(self, later: Processors) -> float:
        """Return the part of what was wanted until ``later`` that was withheld, 0 to 1."""
        given, withheld = later.given - self.given, later.withheld - self.withheld
        return withheld / (given + withheld) if withheld > 0 else 0.0


class Watch:
    """From the beginning of a test's latest attempt."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._start = Processors.read(stat)

    def begin(self) -> None:
        """Begin a test, or do it again."""
        self._start = Processors.read(self._stat)

    def starved(self) -> bool:
        """Tell whether more was withheld since than a test of real time can bear."""
        return self._start.share_withheld(Processors.read(self._stat)) > TOLERATED

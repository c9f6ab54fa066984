"""Whether a test ran on a machine that was withheld (``tcpf_lab/testbed/withheld.py``).

An agent's silence and an sshd's patience are in seconds of a wall clock. On a machine that gets a
tenth of its processors they pass before the program they wait for has run. Such a failure says
nothing about the program, so the test is done again (``conftest.py``), and the summary lists it.
What has no such limit is not: a data race, other bytes or a find of the fuzzer are what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tcpf_lab.testbed.withheld import Processors

#: A test that fails is done again if more than this share of what the machine wanted was withheld.
TOLERATED = 0.2
#: Ticks of a processor (a second) that have to be withheld: fewer upset no limit.
NOTICED = 100
#: Tests whose limits are a wall clock's, below ``tests/``.
OF_REAL_TIME = (
    "agent",
    "testbed",
    "vm",
    "report/pages",  # a browser's answers
    "test_faults.py",
    "test_notebooks.py",
    "test_two_testbeds.py",
)


def is_of_real_time(test: Path, tests: Path) -> bool:
    """Tell whether a file of tests has limits of a wall clock."""
    return any(test.is_relative_to(tests / name) for name in OF_REAL_TIME)


class Watch:
    """From the beginning of a test's latest attempt."""

    def __init__(self, read: Callable[[], Processors] = Processors.read) -> None:
        self._read = read
        self._start = read()

    def begin(self) -> None:
        """Begin a test, or do it again."""
        self._start = self._read()

    def starved(self) -> bool:
        """Tell whether more was withheld since than a test of real time can bear."""
        now = self._read()
        noticed = now.withheld - self._start.withheld >= NOTICED
        return noticed and self._start.share_withheld(now) > TOLERATED

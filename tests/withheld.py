"""Whether a test ran on a machine that was withheld (``tcpf_lab/testbed/withheld.py``).

An agent's silence and an sshd's patience are in seconds of a wall clock. On a machine that gets a
tenth of its processors they pass before the program they wait for has run. Such a failure says
nothing about the program, so the test is done again (``conftest.py``), and the summary lists it.
"""

from __future__ import annotations

from collections.abc import Callable

from tcpf_lab.testbed.withheld import Processors

#: A test that fails is done again if more than this share of what the machine wanted was withheld.
TOLERATED = 0.2


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
        return self._start.share_withheld(self._read()) > TOLERATED

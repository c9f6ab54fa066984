"""The agent goes before the programs of a run: a host that they keep busy must not seem dead.

Linux keeps this for each thread, and what a thread starts inherits it.
"""

from __future__ import annotations

import os
from contextlib import suppress

#: How much nicer all others are; what the kernel's own daemons of that kind have.
_BEFORE_OTHERS = -10


def take() -> None:
    """Let this thread, and what it starts, go first; without the right to, all stays as it is."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _BEFORE_OTHERS)


def give_up() -> None:
    """Let this thread be like any other, and so the program of a run that it starts."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)

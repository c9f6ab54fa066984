"""Programs that end with the process that started them, however that ends."""

from __future__ import annotations

import os
from collections.abc import Sequence

#: Runs after ``setpriv`` has asked for the signal: a parent gone by then would never cause it.
_UNLESS_ORPHAN = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'


def bound(command: Sequence[str], signal: str = "KILL") -> list[str]:
    """Return the command that runs ``command`` and gets ``signal`` when its parent ends.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    signal : str
        Name without ``SIG``.

    Notes
    -----
    Where this process has ended before the signal was asked for, the command is not run. The shell
    in between adds ``PWD`` to the environment.
    """
    shell = ("/bin/sh", "-c", _UNLESS_ORPHAN, str(os.getpid()))
    return ["setpriv", "--pdeathsig", signal, *shell, *command]

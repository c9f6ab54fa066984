"""Programs that end with the process that started them, however that ends."""

from __future__ import annotations

import os
from collections.abc import Sequence

#: In the place of ``setpriv``, which has asked for the signal: too late if the parent is gone.
_UNLESS_ORPHAN = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'


def bound(command: Sequence[str], signal: str = "KILL", parent: int | None = None) -> list[str]:
    """Return the command that runs ``command`` and gets ``signal`` when its parent ends.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    signal : str
        Name without ``SIG``.
    parent : int
        The process that starts it, by default this one; if another has become the parent before
        the signal was asked for, the command is not run.
    """
    of = str(parent or os.getpid())
    return ["setpriv", "--pdeathsig", signal, "/bin/sh", "-c", _UNLESS_ORPHAN, of, *command]

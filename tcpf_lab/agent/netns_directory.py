"""The directory of named namespaces, which ``ip`` mounts on itself with the first of them.

The mount is undone by whoever removes the last name, which need not be the agent that came first.
A file beside the directory therefore tells all agents of this host that it was a run's doing, and
whether the directory had been there.
"""

from __future__ import annotations

from contextlib import suppress

from tcpf_lab.agent import namespaces

MARK = namespaces.NAMED.with_name("tcpf-lab-netns")
_KEPT, _MADE = "kept", "made"


def to_be_released() -> bool:
    """Say whether the mount is a run's doing, or is going to be with the next name."""
    return MARK.exists() or not namespaces.mounted()


def claim() -> None:
    """Take note that what is mounted from now on is a run's doing."""
    with suppress(FileExistsError), MARK.open("x") as file:
        file.write(_KEPT if namespaces.NAMED.exists() else _MADE)


def release() -> None:
    """Make the directory what it was before the first run, unless there are names in it.

    A namespace that somebody else has made meanwhile keeps it as it is.
    """
    try:
        before = MARK.read_text()
    except FileNotFoundError:  # never mounted by a run, or released already
        return
    if namespaces.NAMED.exists():
        if any(namespaces.NAMED.iterdir()):
            return
        if namespaces.mounted():
            namespaces.unmount()
        if before == _MADE:
            with suppress(OSError):
                namespaces.NAMED.rmdir()
    MARK.unlink(missing_ok=True)

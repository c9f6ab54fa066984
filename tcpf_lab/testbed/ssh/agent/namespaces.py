"""Network namespaces: the nodes of a run, the host's own, and that of the first process."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tcpf_lab.testbed.ssh.agent.system import AgentError

T = TypeVar("T")

NAMED = Path("/run/netns")
#: Before a node's name, so that a host's own namespaces are never meant.
PREFIX = "tcpf-"
#: Namespace of the kernel's first process: settings that exist once per kernel are made there.
FIRST = Path("/proc/1/ns/net")
OWN = Path("/proc/self/ns/net")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CLONE_NEWNET = 0x40000000
_setns = ctypes.CDLL(None, use_errno=True).setns
_umount = ctypes.CDLL(None).umount2


def name(node: str) -> str:
    """Return the name of a node's namespace in ``ip netns``.

    Raises
    ------
    AgentError
        If the name cannot be that of a namespace.
    """
    if not _NAME.fullmatch(node):
        raise AgentError(f"{node!r} cannot be the name of a node")
    return PREFIX + node


def place(node: str) -> Path:
    """Return the file of a node's namespace."""
    return NAMED / name(node)


def exists(node: str) -> bool:
    """Return whether a node exists."""
    return place(node).exists()


def is_one(path: Path) -> bool:
    """Return whether a name leads to a namespace: before that it is an empty file."""
    try:
        return path.stat().st_dev == OWN.stat().st_dev
    except FileNotFoundError:
        return False


def mounted() -> bool:
    """Return whether the directory of names is a mount, as ``ip`` makes it with the first name."""
    return NAMED.exists() and _mount(NAMED) != _mount(NAMED.parent)


def _mount(path: Path) -> str:
    """Identify the mount that a path lies on: another one may be hidden below it."""
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
    finally:
        os.close(handle)
    return next(line for line in lines if line.startswith("mnt_id"))


def number(path: Path) -> int | None:
    """Identify a namespace; None if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def enter(path: Path) -> None:
    """Put the calling thread, and what it starts, into a namespace, for good.

    Raises
    ------
    AgentError
        If there is none, or it may not be entered.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise AgentError(f"there is no namespace {path}") from None
    try:
        if _setns(handle, _CLONE_NEWNET):
            status = ctypes.get_errno()
            raise AgentError(f"cannot enter the namespace {path}: {os.strerror(status)}")
    finally:
        os.close(handle)


def inside(path: Path, function: Callable[[], T]) -> T:
    """Call ``function`` within the namespace at ``path``, and return its value.

    A thread has a namespace of its own: the others stay where they are.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            enter(path)
            values.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()  # it has left the namespace then
    if errors:
        raise errors[0]
    return values[0]


MARK = NAMED.with_name("tcpf-lab-netns")
_KEPT, _MADE = "kept", "made"


def to_be_released() -> bool:
    """Return whether a run made the mount, or will make it with the next name."""
    return MARK.exists() or not mounted()


def claim() -> None:
    """Take note that what is mounted from now on is a run's doing."""
    with suppress(FileExistsError), MARK.open("x") as file:
        file.write(_KEPT if NAMED.exists() else _MADE)


def release() -> None:
    """Make the directory what it was before the first run, unless there are names in it.

    A namespace that another program has made meanwhile prevents that.
    """
    try:
        before = MARK.read_text()
    except FileNotFoundError:  # never mounted by a run, or released already
        return
    if NAMED.exists():
        if any(NAMED.iterdir()):
            return
        if mounted():  # the program `umount` would leave a directory of its own in /run
            _umount(os.fsencode(NAMED), 0)
        if before == _MADE:
            with suppress(OSError):
                NAMED.rmdir()
    MARK.unlink(missing_ok=True)

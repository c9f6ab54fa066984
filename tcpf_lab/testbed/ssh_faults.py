"""From what a host answered to one message: host, command, status, its words, cause, cure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tcpf_lab.command import command
from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed import uml_kernel

#: How much of a command's output a message shows.
TAIL_LINES = 20
#: Pattern in what was said -> likely cause, and what to try.  The first that fits is taken.
_CAUSES = (
    (
        r"Specified qdisc (kind is unknown|not found)|Unknown qdisc|TC \w+ not found"
        r"|Failed to load TC",
        "its kernel has no such queue or classifier: load the module (`modprobe sch_NAME`); "
        "distributions keep some in a package of their own, such as linux-modules-extra",
    ),
    (
        r"Invalid module format|version magic|disagrees about version",
        "the module was built for another kernel: was the host rebooted into a new one? "
        "`apt-get install linux-headers-$(uname -r)` there; delete what was built, {built}; then "
        "run again",
    ),
    (
        r"Key was rejected|Required key not available|Lockdown",
        "its kernel loads signed modules only (Secure Boot): enrol a key of your own for DKMS "
        "(`mokutil --import`), or switch Secure Boot off",
    ),
    (
        r"Module \S+ not found|No such file or directory.*/modules",
        "its kernel has no such module: {doctor} names the package that has it",
    ),
    (
        r"run \S+ is (under way|not undone)",
        "another run is at work on the host, or one could not undo everything: wait, or {clean}",
    ),
    (
        r"File exists",
        "something of that name is there already, left by a run that could not undo it: {clean}",
    ),
    (
        r"Cannot find device|No such device|does not exist",
        "the interface is not there: compare the inventory with `ip -br link` on the host",
    ),
    (
        r"Address already in use",
        "a program of an earlier run, or another service, has the port: `ss -ltnp` on the host",
    ),
    (
        r"a password is required|not in the sudoers|may not run sudo",
        "let the user run sudo without a password (`USER ALL=(ALL) NOPASSWD: ALL` in a file below "
        "/etc/sudoers.d), or log in as root",
    ),
    (
        r"Operation not permitted|Permission denied|must be root",
        "this needs root: `user: root` in the inventory, or sudo without a password",
    ),
    (
        r"No space left",
        "the host's disk is full: `df -h` there; {clean}",
    ),
    (
        r"[Cc]ommand not found|No such file or directory|not found in PATH|no such program",
        "a program is missing on the host: {doctor} names its package",
    ),
)
_MISSING_PROGRAM = 127
#: Directory of the cache that keeps what has been built for hosts.
BUILT = "hosts"


def likely(output: str, status: int | None, testbed: str, failed_command: str = "") -> str:
    """Say what is the likely cause of a failed command, and what to try."""
    found = next((advice for cause, advice in _CAUSES if re.search(cause, output)), None)
    if found is None and status == _MISSING_PROGRAM:
        found = "a program is missing on the host: {doctor}"
    found = found or "read what it said; {doctor} looks at every host"
    built = _built(failed_command) if "{built}" in found else ""
    verbs = {verb: f"`{command(verb, '--testbed', testbed)}`" for verb in ("clean", "doctor")}
    return found.format(built=built, **verbs)


def _built(command: str) -> str:
    """Name the directories, there and here, of the module that a command was to load."""
    place = re.search(r"(/\S+/modules/([0-9a-f]{16}))/", command)
    here = uml_kernel.cache_directory().parent / BUILT
    if place is None:
        return f"below `modules` of the state directory there and in {here} here"
    return f"{place[1]} there and {here / place[2]} here"


def failed(
    where: str, testbed: str, command: Sequence[str] | str, status: int | None, output: str
) -> TestbedError:
    """Give the error of a command that ended with a status it should not have."""
    text = command if isinstance(command, str) else shlex.join(command)
    how = "failed" if status is None else f"ended with {_ending(status)}"
    said = tail(output)
    message = f"`{text}` {how}" + (f":{said}" if said else ", and said nothing")
    error = TestbedError(message, where=where, hint=likely(output, status, testbed, text))
    error.status = status
    return error


def refused(where: str, testbed: str, step: str, error: Mapping[str, Any]) -> TestbedError:
    """Give the error that an agent's reply describes.

    Parameters
    ----------
    where : str
        Host and role.
    testbed : str
        The testbed's name, for advice.
    step : str
        What the plan asked for, shown if the reply names no command.
    error : mapping
        ``message``, ``command``, ``status`` and ``output`` of the protocol.
    """
    message, output = str(error.get("message", "")), str(error.get("output") or "")
    command, status = error.get("command"), error.get("status")
    if command and status is not None:
        return failed(where, testbed, command, status, output or message)
    said = tail(output)
    asked = shlex.join(command) if command else step
    about = f"`{asked}`: " if asked and asked not in message else ""
    hint = likely(f"{message}\n{output}", status, testbed)
    return TestbedError(f"{about}{message}{said}", where=where, hint=hint)


def tail(output: str) -> str:
    """Give the last lines of an output, each on a line of its own."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()][-TAIL_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


def _ending(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"

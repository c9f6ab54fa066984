"""Watching guests come up, and finding out why they do not."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed.vm_keeper import ENDED
from tcpf_lab.testbed.vm_layout import GUESTS, HERE, ROLES, guest_of
from tcpf_lab.testbed.vm_state import State
from tcpf_lab.testbed.withheld import GivenTime
from tcpf_lab.testbed.workshop import Progress

LOOK_EVERY_S = 0.1
#: An sshd that is there greets within this.
GREETING_S = 2.0
TAIL_LINES = 15
_FAULT = re.compile(r"^.*(tcpf-lab: failed: .*|Kernel panic.*)$", re.MULTILINE)
_PORT_TAKEN = "host forwarding rule"


class PortTakenError(TestbedError):
    """Somebody else has taken a port between its choice and its use."""


def wait(state: State, ports: Mapping[str, int], patience_s: float, progress: Progress) -> None:
    """Return when all roles' sshds answer.

    Raises
    ------
    PortTakenError
        If a port is not free any more.
    TestbedError
        If a guest ends, fails, or is not ready after ``patience_s`` seconds in which this machine
        had its processors.
    """
    passed = GivenTime()
    missing = list(ROLES)
    while missing:
        missing = [role for role in missing if not _is_ready(state, role, ports[role])]
        done = [role for role in ROLES if role not in missing]
        progress("boot" if not done else f"sshd: {' '.join(done)}", len(done) / len(ROLES))
        if not missing:
            return
        _check(state)
        if passed.seconds() > patience_s:
            guest = guest_of(missing[0]).name
            limit = f"{patience_s:g} s with the machine's processors"
            raise _failure(state, guest, f"no sshd for {', '.join(missing)} after {limit}")
        time.sleep(LOOK_EVERY_S)


def greets(port: int) -> bool:
    """Whether an sshd answers at a port of this machine."""
    try:
        with socket.create_connection((HERE, port), GREETING_S) as connection:
            connection.settimeout(GREETING_S)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _is_ready(state: State, role: str, port: int) -> bool:
    # Before that the emulator takes connections and drops them, and sshd would complain of them.
    said = _read(state.console(guest_of(role).name))
    return f"tcpf-lab: {role} has its control interface" in said and greets(port)


def _check(state: State) -> None:
    """Raise if a guest will not come up any more."""
    for guest in GUESTS:
        if found := _FAULT.search(_read(state.console(guest.name))):
            raise _failure(state, guest.name, found[1].removeprefix("tcpf-lab: failed: ").strip())
    if state.keeper() is None:
        raise ended(state)


def ended(state: State) -> TestbedError:
    """Return the error for guests that have ended by themselves."""
    emulators = {guest.name: _read(state.emulator(guest.name)).strip() for guest in GUESTS}
    if any(_PORT_TAKEN in text for text in emulators.values()):
        return PortTakenError("a port is not free any more")
    how = _read(state.directory / ENDED).strip() or "the process that keeps the guests was killed"
    said = "".join(f"\n    {text}" for text in emulators.values() if text)
    first = next((g.name for g in GUESTS if f"'{g.name}'" in how), GUESTS[0].name)
    return _failure(state, first, f"{how}{said}")


def _failure(state: State, guest: str, message: str) -> TestbedError:
    """Return an error with the last lines of the guest's console, which is kept."""
    lines = _read(state.console(guest)).splitlines()[-TAIL_LINES:]
    tail = "".join(f"\n    {line}" for line in lines)
    console = state.keep_consoles()[guest]
    shown = f"; its console's last lines:{tail}" if lines else "; its console is empty"
    return TestbedError(
        f"guest '{guest}' did not come up: {message}{shown}",
        where="testbed vm",
        hint=f"read {console}",
    )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace").replace("\r", "")
    except FileNotFoundError:
        return ""

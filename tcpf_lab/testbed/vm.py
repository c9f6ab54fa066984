"""The VM testbed: two guests with five hosts, started, looked at, ended.

Here they are only machines that SSH reaches; what runs on them is the business of whoever reads
the inventory.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tcpf_lab.command import command
from tcpf_lab.errors import RequestError, TestbedError
from tcpf_lab.results import write_json
from tcpf_lab.testbed import (
    vm_keeper,
    vm_kernel,
    vm_layout,
    vm_machine,
    vm_programs,
    vm_root,
    vm_state,
    vm_wait,
)
from tcpf_lab.testbed.vm_layout import GUESTS, HERE, ROLES
from tcpf_lab.testbed.vm_machine import Size
from tcpf_lab.testbed.vm_root import Layers
from tcpf_lab.testbed.vm_state import State
from tcpf_lab.testbed.workshop import Progress

#: Until all hosts answer, on a busy machine without help of its processor.
PATIENCE_S = 300.0
#: How long the guests may take to end.
GRACE_S = 10.0
#: Ports can be taken by others between choice and use; that soon again is bad luck no longer.
ATTEMPTS = 3


@dataclass(frozen=True)
class Request:
    """What guests are asked for."""

    kernel: str = vm_kernel.SERIES[0]
    accelerator: str = "auto"
    size: Size = field(default_factory=Size)


def up(
    request: Request,
    progress: Progress,
    cache: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> dict[str, Any]:
    """Start the guests, unless they are up, and wait until all five hosts answer.

    Returns
    -------
    dict
        What `status` gives.

    Raises
    ------
    RequestError
        If guests of another kernel or size are up.
    TestbedError, KernelBuildError
        If something is missing or a guest does not come up; nothing is left of it then.
    """
    vm_kernel.check_series(request.kernel)
    vm_machine.check_accelerator(request.accelerator)
    state = vm_state.here(cache)
    with vm_state.working(state, progress):
        if state.keeper() is not None and state.inventory.exists():
            _check_same(request, state)
            return status(cache)
        _end(state)
        vm_machine.require_programs()
        kernel = vm_kernel.fetch(request.kernel, progress, state.cache)
        layers = Layers(kernel, vm_programs.fetch(progress, state.cache))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _start(state, layers, request, patience_s, progress)
                return status(cache)
            except vm_wait.PortTakenError:
                if attempt == ATTEMPTS:
                    raise
    raise AssertionError  # the last attempt has returned or raised


def down(progress: Progress, cache: Path | None = None) -> bool:
    """End the guests and remove their files; say whether there was anything to end."""
    state = vm_state.here(cache)
    if not state.cache.exists():
        return False
    with vm_state.working(state, progress):
        return _end(state)


def ensure_up(progress: Progress = lambda _phase, _share: None, cache: Path | None = None) -> Path:
    """Return the inventory of the guests; they are started if they are not up.

    Raises
    ------
    TestbedError, KernelBuildError
        If they do not come up.
    """
    state = vm_state.here(cache)
    if state.keeper() is None or not state.inventory.exists():
        up(Request(), progress, cache)
    return state.inventory


def status(cache: Path | None = None) -> dict[str, Any]:
    """Return what there is to know of the guests: ``up``, and of those that are, everything."""
    state = vm_state.here(cache)
    keeper = state.keeper()
    if keeper is None:
        left = state.directory.exists()
        return {"up": False, "crashed": left, "files": str(state.directory) if left else None}
    return {
        "up": state.inventory.exists(),
        "crashed": False,
        "files": str(state.directory),
        "keeper": keeper,
        **state.read_facts(),
        "guests": dict(_guests(state)),
    }


def require_up(cache: Path | None = None) -> State:
    """Return the state of guests that are up.

    Raises
    ------
    TestbedError
        If they are not; says so if they were and have ended.
    """
    state = vm_state.here(cache)
    if state.keeper() is not None and state.inventory.exists():
        return state
    ended = state.inventory.exists()
    raise TestbedError(
        "the guests have ended by themselves" if ended else "the guests are not up",
        where="testbed vm",
        hint=f"`{command('vm', 'up')}`"
        + (f"; their consoles are in {state.directory}" if ended else ""),
    )


def _check_same(request: Request, state: State) -> None:
    facts = state.read_facts()
    asked = {"series": request.kernel, **asdict(request.size)}
    if request.accelerator != "auto":
        asked["accelerator"] = request.accelerator
    other = [f"{key} {facts[key]}" for key in asked if facts[key] != asked[key]]
    if other:
        raise RequestError(
            f"guests are up already, with {', '.join(other)}",
            where="testbed vm",
            hint=f"`{command('vm', 'down')}`, then again",
        )


def _start(
    state: State, layers: Layers, request: Request, patience_s: float, progress: Progress
) -> None:
    """Start guests in an empty state directory; on a failure, leave nothing."""
    began = time.monotonic()
    progress("choose between kvm and tcg", 0.0)
    accelerator = vm_machine.accelerator(request.accelerator, layers)
    state.create()
    try:
        progress("keys", 0.0)
        vm_root.make_keys(state.keys)
        ports = _free_ports()
        _write_guests(state, layers, ports, accelerator, request.size)
        progress("boot", 0.0)
        _start_keeper(state)
        vm_wait.wait(state, ports, patience_s, progress)
        facts = {
            "series": request.kernel,
            "release": layers.kernel.release,
            "accelerator": accelerator,
            **asdict(request.size),
            "since": time.time(),
            "took_s": round(time.monotonic() - began, 1),
            "inventory": str(state.inventory),
            "ssh_config": str(state.ssh_config),
            "ports": ports,
        }
        state.write_facts(facts)
        _write_access(state, ports, layers.kernel.release)
    except BaseException:
        _end(state)
        raise


def _write_guests(
    state: State, layers: Layers, ports: Mapping[str, int], accelerator: str, size: Size
) -> None:
    files = vm_root.common(layers)
    for guest in GUESTS:
        archive = state.directory / f"{guest.name}.cpio"
        archive.touch(mode=0o600)
        archive.write_bytes(vm_root.archive(guest, files, state.keys))
    commands = {
        guest.name: vm_machine.command(guest, layers, state.directory, ports, accelerator, size)
        for guest in GUESTS
    }
    write_json(state.directory / vm_keeper.COMMANDS, commands)


def _write_access(state: State, ports: Mapping[str, int], release: str) -> None:
    """Write what is needed to log in; the inventory last: it shows that all is ready."""
    keys = {role: vm_root.public_key(state.keys, role) for role in ROLES}
    state.known_hosts.write_text(vm_layout.known_hosts(ports, keys))
    state.ssh_config.write_text(vm_layout.ssh_config(ports, state.directory))
    state.inventory.write_text(vm_layout.inventory(ports, release))


def _start_keeper(state: State) -> None:
    """Start the process that keeps the guests, apart from this terminal and from this process."""
    with vm_state.keeper_lock(state) as lock, (state.directory / "keeper.txt").open("wb") as said:
        subprocess.run(
            [sys.executable, "-m", vm_keeper.__name__, str(state.directory), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            pass_fds=(lock.fileno(),),
            check=True,
        )


def _end(state: State) -> bool:
    """End the guests if they are up and remove their files; say whether there were any."""
    keeper = state.keeper()
    found = keeper is not None or state.directory.exists()
    if keeper is not None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(keeper, number)
            if _is_gone(state):
                break
    elif state.inventory.exists():  # they were up, and nobody has ended them
        state.keep_consoles()
    state.remove()
    return found


def _is_gone(state: State) -> bool:
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until:
        if state.keeper() is None:
            return True
        time.sleep(0.05)
    return False


def _free_ports() -> dict[str, int]:
    """Return a port of this machine for each role, none of them in use."""
    with ExitStack() as open_until_all_are_chosen:
        ports = {}
        for role in ROLES:
            chosen = open_until_all_are_chosen.enter_context(socket.socket())
            chosen.bind((HERE, 0))
            ports[role] = chosen.getsockname()[1]
    return ports


def _guests(state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    for guest in GUESTS:
        pid = state.processes().get(guest.name)
        found: dict[str, Any] = {"roles": list(guest.roles), "pid": pid}
        with suppress(FileNotFoundError, ProcessLookupError):
            if pid is not None:
                found["cpu_s"] = vm_state.cpu_seconds(pid)
        yield guest.name, found | {"console": str(state.console(guest.name))}

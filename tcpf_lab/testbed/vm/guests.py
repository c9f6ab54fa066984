"""The VM testbed: start, check and end two guests with five hosts.

The guests are machines that SSH reaches; their inventory makes a testbed of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.base.making import opened
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.steal import TimeWithoutSteal
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.vm import keeper as vm_keeper
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm import layout, machine, root
from tcpf_lab.testbed.vm.keeper import ENDED, PROCESSES
from tcpf_lab.testbed.vm.layout import GUESTS, HERE, ROLES, guest_of
from tcpf_lab.testbed.vm.machine import Size
from tcpf_lab.testbed.vm.root import Layers
from tcpf_lab.testbed.workshop import Progress, one_at_a_time


class State:
    """The files of the guests that are up, below the cache."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        #: Where they are.
        self.directory = cache / "state"
        #: The inventory; written when all hosts answer.
        self.inventory = self.directory / "inventory.yaml"
        #: Configuration for ``ssh -F``.
        self.ssh_config = self.directory / "ssh_config"
        #: The hosts' public keys.
        self.known_hosts = self.directory / "known_hosts"
        #: Keys of the hosts, and the one to log in with.
        self.keys = self.directory / "keys"
        #: What was started, and when all of it was ready.
        self.facts = self.directory / "vm.json"
        #: Consoles of guests that failed to boot.
        self.failed = cache / "failed"
        #: Locked by the keeper, the process that runs the guests; contains its number.
        self.keeper_lock = cache / "keeper"

    def console(self, guest: str) -> Path:
        """Console output of the guest's kernel and programs."""
        return self.directory / f"{guest}.console"

    def emulator(self, guest: str) -> Path:
        """Output of the guest's emulator."""
        return self.directory / f"{guest}.emulator"

    def create(self) -> None:
        """Make the directory, for the user alone."""
        self.directory.mkdir(mode=0o700, parents=True)
        self.keys.mkdir(mode=0o700)

    def read_facts(self) -> dict[str, Any]:
        """Return the facts; nothing if the guests were never ready."""
        return _read_json(self.facts)

    def processes(self) -> dict[str, int]:
        """Return the emulators' process numbers, by guest."""
        return _read_json(self.directory / PROCESSES)

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Write the facts."""
        write_json(self.facts, facts)

    def keep_consoles(self) -> dict[str, Path]:
        """Copy consoles and emulator output to `failed`; return the consoles by guest."""
        shutil.rmtree(self.failed, ignore_errors=True)
        self.failed.mkdir(parents=True)
        saved = {}
        for guest in GUESTS:
            ended = self.directory / ENDED
            for source in (self.console(guest.name), self.emulator(guest.name), ended):
                if source.exists():
                    shutil.copy2(source, self.failed)
            saved[guest.name] = self.failed / self.console(guest.name).name
        return saved

    def keeper(self) -> int | None:
        """Return the number of the keeper's process, None if there is none."""
        if not self.keeper_lock.exists():
            return None
        with self.keeper_lock.open() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = handle.read().strip()
                return int(text) if text else None
        return None


def here(cache: Path | None = None) -> State:
    """Return the state below ``cache``, by default the user's."""
    return State(cache or vm_kernel.cache_directory())


@contextmanager
def working(state: State, progress: Progress) -> Iterator[None]:
    """Lock out other processes that start or end guests."""
    kernel.make_cache(state.cache)
    with one_at_a_time(state.cache, progress, f"wait for another `{command('vm')}`"):
        yield


@contextmanager
def keeper_lock(state: State) -> Iterator[IO[str]]:
    """Yield the keeper's lock, which the keeper inherits and writes its process number to."""
    with opened(state.keeper_lock, "a") as handle:
        # A check whether there is a keeper holds it for a moment.
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        yield handle


def cpu_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}


LOOK_EVERY_S = 0.1
#: An sshd that is there greets within this.
GREETING_S = 2.0
TAIL_LINES = 15
_FAULT = re.compile(r"^.*(tcpf-lab: failed: .*|Kernel panic.*)$", re.MULTILINE)
_PORT_TAKEN = "host forwarding rule"


class PortTakenError(TestbedError):
    """Another process has taken a port between its choice and its use."""


def wait(state: State, ports: Mapping[str, int], patience_s: float, progress: Progress) -> None:
    """Return when all roles' sshds answer.

    Raises
    ------
    PortTakenError
        If a port is not free any more.
    TestbedError
        If a guest ends, fails, or is not ready after ``patience_s`` seconds, CPU steal excluded.
    """
    passed = TimeWithoutSteal()
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
            limit = f"{patience_s:g} s without CPU steal"
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
    # Before that the emulator accepts and drops connections, which sshd would log.
    console = _read(state.console(guest_of(role).name))
    return f"tcpf-lab: {role} has its control interface" in console and greets(port)


def _check(state: State) -> None:
    """Raise if a guest cannot become ready any more."""
    for guest in GUESTS:
        if found := _FAULT.search(_read(state.console(guest.name))):
            raise _failure(state, guest.name, found[1].removeprefix("tcpf-lab: failed: ").strip())
    if state.keeper() is None:
        raise ended(state)


def ended(state: State) -> TestbedError:
    """Return the error for guests that have ended by themselves."""
    emulators = {guest.name: _read(state.emulator(guest.name)).strip() for guest in GUESTS}
    if any(_PORT_TAKEN in text for text in emulators.values()):
        return PortTakenError("another process has taken a port of the guests")
    how = _read(state.directory / ENDED).strip() or "the keeper process of the guests was killed"
    output = "".join(f"\n    {text}" for text in emulators.values() if text)
    first = next((g.name for g in GUESTS if f"'{g.name}'" in how), GUESTS[0].name)
    return _failure(state, first, f"{how}{output}")


def _failure(state: State, guest: str, message: str) -> TestbedError:
    """Return an error with the last lines of the guest's console, which is saved."""
    lines = _read(state.console(guest)).splitlines()[-TAIL_LINES:]
    tail = "".join(f"\n    {line}" for line in lines)
    console = state.keep_consoles()[guest]
    shown = f"; last lines of its console:{tail}" if lines else "; its console is empty"
    return TestbedError(
        f"virtual machine '{guest}' did not boot: {message}{shown}",
        where="testbed vm",
        hint=f"the full console is in {console}",
    )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace").replace("\r", "")
    except FileNotFoundError:
        return ""


#: Until all hosts answer, on a busy machine without help of its processor.
PATIENCE_S = 300.0
#: How long the guests may take to end.
GRACE_S = 10.0
#: Ports can be taken by others between choice and use; that soon again is bad luck no longer.
ATTEMPTS = 3


@dataclass(frozen=True)
class Request:
    """Options of the guests."""

    kernel: str = vm_kernel.SERIES[0]
    accelerator: str = "auto"
    size: Size = field(default_factory=Size)


def up(
    request: Request, progress: Progress, cache: Path | None = None, patience_s: float = PATIENCE_S
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
    machine.check_accelerator(request.accelerator)
    state = here(cache)
    with working(state, progress):
        if state.keeper() is not None and state.inventory.exists():
            _check_same(request, state)
            return status(cache)
        _end(state)
        machine.require_programs()
        kernel = vm_kernel.fetch(request.kernel, progress, state.cache)
        layers = Layers(kernel, root.fetch(progress, state.cache))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _start(state, layers, request, patience_s, progress)
                return status(cache)
            except PortTakenError:
                if attempt == ATTEMPTS:
                    raise
    raise AssertionError  # the last attempt has returned or raised


def down(progress: Progress, cache: Path | None = None) -> bool:
    """End the guests and remove their files; say whether there was anything to end."""
    state = here(cache)
    if not state.cache.exists():
        return False
    with working(state, progress):
        return _end(state)


def ensure_up(progress: Progress = lambda _phase, _share: None, cache: Path | None = None) -> Path:
    """Return the inventory of the guests; they are started if they are not up.

    Raises
    ------
    TestbedError, KernelBuildError
        If they do not come up.
    """
    state = here(cache)
    if state.keeper() is None or not state.inventory.exists():
        up(Request(), progress, cache)
    return state.inventory


def status(cache: Path | None = None) -> dict[str, Any]:
    """Return what there is to know of the guests: ``up``, and of those that are, everything."""
    state = here(cache)
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
        If they are not, or have ended.
    """
    state = here(cache)
    if state.keeper() is not None and state.inventory.exists():
        return state
    ended = state.inventory.exists()
    raise TestbedError(
        "the virtual machines have ended" if ended else "the virtual machines are not up",
        where="testbed vm",
        hint=f"`{command('vm', 'up')}`"
        + (f"; their consoles are in {state.directory}" if ended else ""),
    )


def _check_same(request: Request, state: State) -> None:
    facts = state.read_facts()
    wanted = {"series": request.kernel, **asdict(request.size)}
    if request.accelerator != "auto":
        wanted["accelerator"] = request.accelerator
    other = [f"{key} {facts[key]}" for key in wanted if facts[key] != wanted[key]]
    if other:
        raise RequestError(
            f"the virtual machines are already up, with {', '.join(other)}",
            where="testbed vm",
            hint=f"`{command('vm', 'down')}` first",
        )


def _start(
    state: State, layers: Layers, request: Request, patience_s: float, progress: Progress
) -> None:
    """Start guests in an empty state directory; on a failure, leave nothing."""
    began = time.monotonic()
    progress("choose between kvm and tcg", 0.0)
    accelerator = machine.accelerator(request.accelerator, layers)
    state.create()
    try:
        progress("keys", 0.0)
        root.make_keys(state.keys)
        ports = _free_ports()
        _write_guests(state, layers, ports, accelerator, request.size)
        progress("boot", 0.0)
        _start_keeper(state)
        wait(state, ports, patience_s, progress)
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
    files = root.common(layers)
    for guest in GUESTS:
        archive = state.directory / f"{guest.name}.cpio"
        archive.touch(mode=0o600)
        archive.write_bytes(root.archive(guest, files, state.keys))
    commands = {
        guest.name: machine.command(guest, layers, state.directory, ports, accelerator, size)
        for guest in GUESTS
    }
    write_json(state.directory / vm_keeper.COMMANDS, commands)


def _write_access(state: State, ports: Mapping[str, int], release: str) -> None:
    """Write what is needed to log in; the inventory last: it shows that all is ready."""
    keys = {role: root.public_key(state.keys, role) for role in ROLES}
    state.known_hosts.write_text(layout.known_hosts(ports, keys))
    state.ssh_config.write_text(layout.ssh_config(ports, state.directory))
    state.inventory.write_text(layout.inventory(ports, release))


def _start_keeper(state: State) -> None:
    """Start the process that keeps the guests, apart from this terminal and from this process."""
    with keeper_lock(state) as lock, (state.directory / "keeper.txt").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", vm_keeper.__name__, str(state.directory), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
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
    shutil.rmtree(state.directory, ignore_errors=True)
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
                found["cpu_s"] = cpu_seconds(pid)
        yield guest.name, found | {"console": str(state.console(guest.name))}

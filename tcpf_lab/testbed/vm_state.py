"""What is known of the guests that run: files in the cache, and two locks.

``state/`` is there while guests are up, and is removed with them.  ``keeper`` is locked as long as
the process lives that keeps them, so what a crash leaves is told from guests that are up;
``lock`` lets one `up` or `down` at a time work.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tcpf_lab.command import command
from tcpf_lab.making import opened
from tcpf_lab.results import write_json
from tcpf_lab.testbed import uml_kernel, vm_kernel
from tcpf_lab.testbed.vm_keeper import ENDED, PROCESSES
from tcpf_lab.testbed.vm_layout import GUESTS
from tcpf_lab.testbed.workshop import Progress


@dataclass(frozen=True)
class State:
    """The files of the guests that are up, below the cache."""

    cache: Path

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self.cache / "state"

    @property
    def inventory(self) -> Path:
        """The inventory; written when all hosts answer."""
        return self.directory / "inventory.yaml"

    @property
    def ssh_config(self) -> Path:
        """Configuration for ``ssh -F``."""
        return self.directory / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """The hosts' public keys."""
        return self.directory / "known_hosts"

    @property
    def keys(self) -> Path:
        """Keys of the hosts, and the one to log in with."""
        return self.directory / "keys"

    @property
    def facts(self) -> Path:
        """What was started, and when all of it was ready."""
        return self.directory / "vm.json"

    @property
    def failed(self) -> Path:
        """Where the consoles of guests that did not come up are kept."""
        return self.cache / "failed"

    def console(self, guest: str) -> Path:
        """What the guest's kernel and programs have said."""
        return self.directory / f"{guest}.console"

    def emulator(self, guest: str) -> Path:
        """What the guest's emulator has said."""
        return self.directory / f"{guest}.emulator"

    @property
    def keeper_lock(self) -> Path:
        """Locked by the process that keeps the guests, whose number is in it."""
        return self.cache / "keeper"

    def read_facts(self) -> dict[str, Any]:
        """Return the facts; nothing if the guests were never ready."""
        return _read_json(self.facts)

    def processes(self) -> dict[str, int]:
        """Return the emulators' process numbers, by guest."""
        return _read_json(self.directory / PROCESSES)

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Keep the facts."""
        write_json(self.facts, facts)

    def create(self) -> None:
        """Make the directory, for the user alone."""
        self.directory.mkdir(mode=0o700, parents=True)
        self.keys.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove everything that the guests have left."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def keep_consoles(self) -> dict[str, Path]:
        """Copy what guests have said to where it stays; return the places by guest."""
        shutil.rmtree(self.failed, ignore_errors=True)
        self.failed.mkdir(parents=True)
        kept = {}
        for guest in GUESTS:
            ended = self.directory / ENDED
            for source in (self.console(guest.name), self.emulator(guest.name), ended):
                if source.exists():
                    shutil.copy2(source, self.failed)
            kept[guest.name] = self.failed / self.console(guest.name).name
        return kept

    def keeper(self) -> int | None:
        """Return the process that keeps the guests, None if there is none."""
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
    """Let nobody else start or end guests during the block."""
    uml_kernel.make_cache(state.cache)
    with opened(state.cache / "lock", "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"wait for another `{command('vm')}`", 0.0)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def keeper_lock(state: State) -> Iterator[IO[str]]:
    """Yield the keeper's lock, to be inherited by it, and to be told its process number."""
    with opened(state.keeper_lock, "a") as handle:
        # Whoever looks whether there is a keeper has it for a moment.
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

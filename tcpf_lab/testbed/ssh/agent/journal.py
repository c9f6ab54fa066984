"""What a run has changed on this host, written down before it is changed.

``<state>/runs/<token>/journal.jsonl`` has one record per line, the first of which describes the
run.  A record is on the disk before its change is made, so whatever ends the agent, all that may
have been changed is known.  A change may be missing - the record was the last thing written - hence
to undo what has never been made must do nothing.  ``{"done": n}`` says that record ``n`` has been
undone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tcpf_lab.testbed.ssh.agent import namespaces, programs
from tcpf_lab.testbed.ssh.agent.system import AgentError

NAME = "journal.jsonl"
#: The run's files.
FILES = "files"
#: What could not be undone, by the last attempt.
LEFT = "left.json"
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")

Record = dict[str, Any]


def runs(state: Path) -> Path:
    """Return the directory of the journals of all unfinished runs."""
    return state / "runs"


def directory(state: Path, token: str) -> Path:
    """Return the directory of a run's journal and files.

    Raises
    ------
    AgentError
        If the token cannot be the name of a directory.
    """
    if not _TOKEN.fullmatch(token):
        raise AgentError(f"{token!r} is not a run's name; allowed: letters, digits and _.+-")
    return runs(state) / token


def boot_id() -> str:
    """Identify what lasts from one boot to the next."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Journal:
    """The journal of one run, open to be added to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = len(read(root))
        self._handle = os.open(root / NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    @classmethod
    def create(cls, state: Path, token: str, **about: Any) -> Journal:
        """Begin the journal of a run, whose first record describes it.

        Raises
        ------
        AgentError
            If there is one already.
        """
        root = directory(state, token)
        root.parent.mkdir(parents=True, exist_ok=True)
        try:
            root.mkdir()
        except FileExistsError:
            raise AgentError(f"run {token} exists already and is not undone") from None
        pid = os.getpid()
        with locked(root, 1.0):  # without a record it would look like that of no agent
            (root / NAME).touch()
            for path in (root, root.parent, state):
                _settle(path)
            journal = cls(root)
            journal.add(
                "run",
                token=token,
                pid=pid,
                started=programs.start_time(pid),
                boot_id=boot_id(),
                namespace=namespaces.number(namespaces.OWN),
                began_ns=time.time_ns(),
                **about,
            )
        return journal

    def add(self, kind: str, **record: Any) -> None:
        """Write down a change that is about to be made; it is on the disk when this returns."""
        line = json.dumps({"n": self._count, "kind": kind, **record}, separators=(",", ":"))
        self._write(line)
        os.fsync(self._handle)
        self._count += 1

    def done(self, number: int) -> None:
        """Note that a record has been undone, which need not survive, nor be possible.

        On a full disk the run's files are deleted: the run is over.  What could not be noted is
        undone once more by another attempt, and to undo twice does nothing.
        """
        _written(self.root, partial(self._write, json.dumps({"done": number})))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def _write(self, line: str) -> None:
        data = line.encode() + b"\n"
        size = os.fstat(self._handle).st_size
        if os.write(self._handle, data) != len(data):
            os.ftruncate(self._handle, size)  # half a line would spoil the next one
            raise AgentError(f"{self.root / NAME} cannot be written: the disk is full")


@contextmanager
def noting(root: Path) -> Iterator[Callable[[int], None]]:
    """Give a function that notes a record as undone, if the journal can be written at all."""
    try:
        journal = Journal(root)
    except OSError:  # a disk that errors have made read-only
        yield lambda _number: None
        return
    try:
        yield journal.done
    finally:
        journal.close()


def read(root: Path) -> list[Record]:
    """Read the records of a journal; a last line that is not whole counts for nothing.

    Records that have been undone are included: ``undone`` marks them.
    """
    try:
        lines = (root / NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    records: list[Record] = []
    done = set()
    for line in lines[:-1]:
        try:
            record = json.loads(line)
        except ValueError:  # torn by a crash, and gone on with after it
            continue
        if "done" in record:
            done.add(record["done"])
        else:
            records.append(record)
    return [{**record, "undone": record["n"] in done} for record in records]


def unfinished(state: Path) -> list[dict[str, Any]]:
    """Describe all runs that have not been undone."""
    try:
        roots = sorted(path for path in runs(state).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    return [_describe(root) for root in roots]


def _describe(root: Path) -> dict[str, Any]:
    records = read(root)
    about = records[0] if records else {}
    return {
        "token": root.name,
        "pid": about.get("pid"),
        "alive": agent_lives(about),
        "began_ns": about.get("began_ns"),
        "this_boot": about.get("boot_id") in (None, boot_id()),
        "entries": sum(not record["undone"] for record in records),
        "left": _left(root),
    }


def agent_lives(about: Record) -> bool:
    """Return whether the agent of the run that a first record describes still runs."""
    pid = about.get("pid")
    if pid is None or about["boot_id"] != boot_id():
        return False
    return programs.alive(pid, about["started"])


@contextmanager
def locked(root: Path, patience: float) -> Iterator[bool]:
    """Keep all others from undoing the same run; give False if there is nothing to be undone.

    Raises
    ------
    AgentError
        If another is at it for longer than ``patience`` seconds.
    """
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        _lock(handle, root, time.monotonic() + patience)
        yield _same(handle, root)
    finally:
        os.close(handle)


def remove(root: Path) -> None:
    """Remove a run's journal and files: all has been undone."""
    (root / NAME).unlink(missing_ok=True)
    shutil.rmtree(root)
    try:
        root.parent.rmdir()
    except OSError:  # another run is there
        return


def note_left(root: Path, left: list[str]) -> None:
    """Write down what could not be undone, if that can be written at all."""
    _written(root, partial((root / LEFT).write_text, json.dumps(left) + "\n"))


def _written(root: Path, write: Callable[[], object]) -> None:
    """Write; if that fails, remove the files of the run, which is being undone, and try again."""
    try:
        write()
    except (AgentError, OSError):
        shutil.rmtree(root / FILES, ignore_errors=True)
        with suppress(AgentError, OSError):
            write()


def _left(root: Path) -> list[str]:
    try:
        return list(json.loads((root / LEFT).read_text()))
    except (OSError, ValueError):
        return []


def _lock(handle: int, root: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise AgentError(f"run {root.name} is being undone by another process") from None
            time.sleep(0.05)
        else:
            return


def _same(handle: int, root: Path) -> bool:
    """Return whether the locked directory is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), root.stat())
    except FileNotFoundError:
        return False


def _settle(path: Path) -> None:
    """Make the entries of a directory last."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

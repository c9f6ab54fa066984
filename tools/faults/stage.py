"""Where a fault happens: the experiment, its undisturbed runs, and half-done copies of them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.results.layout import PARTIAL, ExperimentFiles, RunFiles, as_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand
from tools.faults.command import LOOK_EVERY_S, Command

SPEC = Path(__file__).with_name("experiment.yaml")
#: What is compared of the report, which is made from all runs.
TABLES = ("table.csv", "table.md")
#: Not a run's own: the commit of the checkout may change between two of them.
_FOREIGN = ("git_commit",)


def run_ids() -> tuple[str, ...]:
    """Give the experiment's runs, in its order."""
    return tuple(run.id for run in expand(load(SPEC)))


def fingerprint(run: Path, *, whole: bool = True) -> dict[str, str]:
    """Hash every file of a run directory, by its name.

    Parameters
    ----------
    run : Path
        The directory.
    whole : bool
        With what another making of the same run may have otherwise: the log, and who made it.
    """
    found = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.is_dir() or (not whole and (name.startswith("log/") or name == "SHA256SUMS")):
            continue
        content = path.read_bytes()
        if name == "manifest.json" and not whole:
            manifest = json.loads(content)
            own = {key: value for key, value in manifest.items() if key not in _FOREIGN}
            content = as_json(own).encode()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


@dataclass(frozen=True)
class Reference:
    """The runs as they are where nothing happens."""

    files: ExperimentFiles
    prints: Mapping[str, Mapping[str, str]]  #: of each run, see `fingerprint`; not whole
    tables: Mapping[str, bytes]

    @classmethod
    def make(cls, directory: Path, environment: Mapping[str, str]) -> Reference:
        """Run the experiment in an empty directory, and read its results."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        command = Command(run_words(Path("results")), directory, "reference", environment)
        status = command.start().wait()
        if status != 0:
            raise TestbedError(
                f"the undisturbed runs ended with {status}:\n{command.text()}",
                where=str(directory),
            )
        files = ExperimentFiles(directory / "results", "faults", "uml")
        return cls(
            files,
            {name: fingerprint(files.run(name).root, whole=False) for name in run_ids()},
            {name: (files.root / name).read_bytes() for name in TABLES},
        )


def run_words(results: Path) -> tuple[str, ...]:
    """Return the command that every fault meets, or the rerun after it."""
    where = ("--results", str(results))
    return ("run", str(SPEC), *where, "--jobs", "2", "--keep-pcaps", "--json")


@dataclass(frozen=True)
class Stage:
    """The place of one fault: a results directory, and one for temporary files."""

    root: Path
    reference: Reference
    cache: Path | None = None  #: for ``XDG_CACHE_HOME``, if not the user's own

    @property
    def files(self) -> ExperimentFiles:
        """The results that the fault meets."""
        return ExperimentFiles(self.root / "results", "faults", "uml")

    @property
    def temporary(self) -> Path:
        """The value of ``TMPDIR``."""
        return self.root / "tmp"

    def set_up(self, finished: Sequence[str], leftovers: Mapping[str, str], draw: int) -> None:
        """Lay out finished runs, and what earlier ends by force have left of others."""
        self.temporary.mkdir(parents=True)
        self.files.root.mkdir(parents=True)
        for name in finished:
            shutil.copytree(self.reference.files.run(name).root, self.files.run(name).root)
        for name, suffix in leftovers.items():
            left = self.files.root / (name + suffix)
            shutil.copytree(self.reference.files.run(name).root, left)
            _wreck(left, random.Random(draw))

    def command(
        self, name: str, *words: str, planted: Mapping[str, Any] | None = None, **variables: str
    ) -> Command:
        """Prepare a command in this place; without words, the run that every fault meets."""
        environment = {"TMPDIR": str(self.temporary), "COLUMNS": "200", **variables}
        if self.cache is not None:
            environment["XDG_CACHE_HOME"] = str(self.cache)
        asked = words or run_words(self.files.results)
        return Command(asked, self.root, name, environment, planted or {})

    def complete(self) -> list[RunFiles]:
        """Give the directories that claim to be whole."""
        if not self.files.root.is_dir():
            return []
        names = set(run_ids())
        return [RunFiles(path) for path in self.files.root.iterdir() if path.name in names]

    def partial(self) -> list[str]:
        """Name the directories that do not."""
        return sorted(path.name for path in self.files.root.glob(f"*{PARTIAL}"))


def guest_memory(stage: Stage) -> list[str]:
    """Name the files of guests' memory that were left behind."""
    places = (Path("/dev/shm"), stage.temporary, Path("/var/tmp"))  # noqa: S108
    return [str(path) for place in places for path in place.glob("vm_file-*")]


def _wreck(run: Path, rng: random.Random) -> None:
    """Make of a complete run one that was ended by force: files missing, files cut."""
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        fate = rng.random()
        if fate < 0.3:
            path.unlink()
        elif fate < 0.5:
            os.truncate(path, rng.randrange(path.stat().st_size + 1))


# What a planted fault has to tell: whether it met anything, and whether the program said so.


@dataclass(frozen=True)
class Fault:
    """One fault as it is drawn from the seed; the same seed gives the same."""

    number: int
    kind: str
    finished: tuple[str, ...]  #: runs that are there before
    leftovers: dict[str, str]  #: run -> suffix of the directory that an earlier end has left
    at_work: bool  #: the moment counts from the first guest's start, not from the command's
    delay: float  #: of the moment, s
    draw: int  #: seed of everything else


@dataclass
class Injected:
    """What became of a fault.

    Parameters
    ----------
    what : str
        The fault in a few words.
    hit : bool
        Whether there was anything left to hit when the moment came.
    problems : list of str
        What was wrong with the program's answer.
    spoiled : collection of str
        Runs whose files the fault itself has changed.
    """

    what: str
    hit: bool = True
    problems: list[str] = field(default_factory=list)
    spoiled: Collection[str] = ()


Inject = Callable[[Stage, Fault, random.Random], Injected]
#: Statuses of a command that did all, that told a failure, that refused, that was interrupted.
DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130


def answer(command: Command, statuses: Collection[int], pattern: str) -> list[str]:
    """Say what is wrong with the end of a command.

    Parameters
    ----------
    command : Command
        Still running, or not.
    statuses : collection of int
        What it may end with.
    pattern : str
        What it must have said, unless it ended with 0 or by a signal; a regular expression.
    """
    status, said = command.wait(), command.text()
    problems = []
    if status is None:
        problems.append(f"{command.name} hung")
    elif status not in statuses:
        problems.append(f"{command.name} ended with {status}: {_last(said)}")
    elif status > 0 and not re.search(pattern, said):
        problems.append(f"{command.name} did not print /{pattern}/: {_last(said)}")
    if "Traceback (most recent call last)" in said:
        problems.append(f"{command.name} shows a traceback: {_last(said)}")
    return problems


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-4:])[-600:] or "no output"


def until_moment(stage: Stage, fault: Fault, command: Command) -> bool:
    """Wait for the moment of a fault; False if the command ended before it."""
    if fault.at_work:
        while command.running and not any(stage.files.root.glob("*.partial/log/console.txt")):
            time.sleep(LOOK_EVERY_S)
        began = time.monotonic()
    else:
        began = command.began
    while command.running and time.monotonic() < began + fault.delay:
        time.sleep(LOOK_EVERY_S)
    return command.running


def until_there(find: Callable[[], list[int]], command: Command) -> list[int]:
    """Wait for processes to be there; none if the command ended before."""
    while command.running:
        if found := find():
            return sorted(found)
        time.sleep(LOOK_EVERY_S)
    return []

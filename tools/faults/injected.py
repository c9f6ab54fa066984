"""What a planted fault has to tell: whether it met anything, and whether the program said so."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tools.faults.command import LOOK_EVERY_S, Command
from tools.faults.stage import Stage


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
    status, said = command.wait(), command.said()
    problems = []
    if status is None:
        problems.append(f"{command.name} hung")
    elif status not in statuses:
        problems.append(f"{command.name} ended with {status}: {_last(said)}")
    elif status > 0 and not re.search(pattern, said):
        problems.append(f"{command.name} did not say /{pattern}/: {_last(said)}")
    if "Traceback (most recent call last)" in said:
        problems.append(f"{command.name} shows a traceback: {_last(said)}")
    return problems


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-4:])[-600:] or "nothing was said"


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

"""Ends by force: of the controller, of a worker, of a guest and its processes; interrupts."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from tools.faults import processes
from tools.faults.command import Command
from tools.faults.stage import (
    DONE,
    FAILED,
    INTERRUPTED,
    Fault,
    Injected,
    Stage,
    answer,
    run_words,
    until_moment,
    until_there,
)
from tools.faults.subject import BEGUN

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


def _forced(rng: random.Random, stage: Stage) -> tuple[str, ...]:
    """Give the words of the run, which makes complete runs again now and then."""
    return (*run_words(stage.files.results), *(("--force",) if rng.random() < 0.3 else ()))


def controller(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill the command itself."""
    words = _forced(rng, stage)
    command = stage.command("killed", *words, planted={"drawn": rng.random() < 0.1}).start()
    if until_moment(stage, fault, command):
        processes.kill(command.pid)
    problems = answer(command, (-signal.SIGKILL, DONE), "")
    hit = command.status != DONE
    return Injected("kill -9 of the controller" + _with_force(words), hit, problems)


def _with_force(words: tuple[str, ...]) -> str:
    return ", --force" if "--force" in words else ""


def _one_of(
    find: Callable[[int], list[int]],
    what: str,
    pattern: str,
    stage: Stage,
    fault: Fault,
    rng: random.Random,
) -> Injected:
    words = _forced(rng, stage)
    command = stage.command("hurt", *words).fork()
    until_moment(stage, fault, command)
    found = until_there(lambda: find(command.pid), command)
    hit = bool(found) and processes.kill(rng.choice(found))
    problems = answer(command, (DONE, FAILED), pattern)
    return Injected(what + _with_force(words), hit, problems)


def worker(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill a worker process."""
    said = "a worker process was killed"
    return _one_of(processes.workers, "kill -9 of a worker", said, stage, fault, rng)


def guest(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill a guest: the process of the host that is its kernel."""
    said = "run [a-z+]+-flows3-seed[12]: the guest was killed by SIGKILL"
    return _one_of(processes.guest_kernels, "kill -9 of a guest", said, stage, fault, rng)


def guest_program(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill a process of the host in which a guest runs one of its own."""
    said = "run [a-z+]+-flows3-seed[12]: "
    what = "kill -9 of a process of a guest, on the host"
    return _one_of(processes.guest_programs, what, said, stage, fault, rng)


def interrupt_once(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Interrupt or terminate the command; it ends by itself, and leaves no half run."""
    number = rng.choice(_NUMBERS)
    command = stage.command("interrupted").start()
    if _await(stage, fault, command):
        processes.kill(command.pid, number)
    problems = answer(command, (INTERRUPTED, DONE, *_by(number)), "interrupted")
    if command.status == INTERRUPTED and fault.at_work and (left := _own_partial(stage, fault)):
        problems.append(f"an interrupted command has left {', '.join(left)}")
    return Injected(f"{number.name} to the controller", command.status != DONE, problems)


def interrupt_twice(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Interrupt the whole group, as a terminal does, and again before it has ended."""
    number, pause = rng.choice(_NUMBERS), rng.choice((0.0, rng.uniform(0, 0.4)))
    command = stage.command("interrupted").start()
    hit = _await(stage, fault, command)
    for _ in range(2):
        if hit and command.running:
            os.killpg(command.pid, number)
        time.sleep(pause)
    problems = answer(command, (INTERRUPTED, DONE, *_by(number)), "")
    what = f"{number.name} twice to the group, {pause:.2f} s between"
    return Injected(what, command.status != DONE, problems)


def _by(number: signal.Signals) -> tuple[int, ...]:
    """Before and after its runs the program is ended by SIGTERM as any other is."""
    return (-number,) if number == signal.SIGTERM else ()


def _await(stage: Stage, fault: Fault, command: Command) -> bool:
    """Wait for the moment, and at least until the program has begun: before, nothing listens."""
    while command.running and not (stage.temporary / BEGUN).exists():
        time.sleep(0.01)
    return until_moment(stage, fault, command)


def _own_partial(stage: Stage, fault: Fault) -> list[str]:
    before = {name + suffix for name, suffix in fault.leftovers.items()}
    return [name for name in stage.partial() if name not in before]

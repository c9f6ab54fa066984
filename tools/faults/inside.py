"""Faults inside: programs in the guest, memory, the watchdog's clock; two commands at once."""

from __future__ import annotations

import random
import time
from typing import Any

from tools.faults.stage import (
    DONE,
    FAILED,
    REFUSED,
    Fault,
    Injected,
    Stage,
    answer,
    run_ids,
    run_words,
    until_moment,
)

#: Kills the first process of a name; the guest has no pkill of its own.
_KILL = (
    "for p in /proc/[0-9]*; do read -r n <$p/comm || continue; "
    'if [ "$n" = {name} ]; then kill -9 ${{p#/proc/}}; exit 0; fi; done'
)
#: Takes more memory than the guest has, which is given less than others: to fill it takes long.
_EAT, _LESS_MB = "head -c 200000000 /dev/zero | tail -n 1 >/dev/null", 96


def _planted(
    stage: Stage, fault: Fault, rng: random.Random, what: str, script: str, pattern: str
) -> Injected:
    """Run with a script in the guest of one of the runs that are to be made."""
    run = rng.choice([name for name in run_ids() if name not in fault.finished])
    after = round(rng.uniform(0.1, 4.5), 6)
    asked: dict[str, Any] = {"in_guest": {"run": run, "after": after, "script": script}}
    if script == _EAT:
        asked["memory_of_guest"] = {"run": run, "mb": _LESS_MB}
    command = stage.command("hurt", planted=asked).fork()
    problems = answer(command, (FAILED,), f"run {run}: .*{pattern}".replace("+", r"\+", 1))
    return Injected(f"{what} of {run}, {after:.3f} s after its epoch", True, problems)


def capture_program(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill tcpdump in the guest."""
    script, said = _KILL.format(name="tcpdump"), "tcpdump-.* was killed by signal 9"
    return _planted(stage, fault, rng, "kill -9 of tcpdump in the guest", script, said)


def traffic_program(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Kill the traffic generator in the guest: its senders or its receivers."""
    script = _KILL.format(name="tcpf-traffic")
    what = "kill -9 of the traffic generator in the guest"
    return _planted(stage, fault, rng, what, script, "was killed by signal 9")


def guest_memory_eaten(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Let a program eat the guest's memory."""
    what, said = "memory of the guest eaten", "(ran out of memory|the guest hung)"
    return _planted(stage, fault, rng, what, _EAT, said)


def guest_memory_small(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Start a guest with too little memory to boot or to load what it needs."""
    size = rng.choice((4, 6, 8, 10, 12))
    run = rng.choice([name for name in run_ids() if name not in fault.finished])
    planted = {"memory_of_guest": {"run": run, "mb": size}}
    command = stage.command("hurt", planted=planted).fork()
    problems = answer(command, (FAILED,), "memory|panick|killed|exited early|failed in the guest")
    return Injected(f"a guest of {size} MB", command.status != DONE, problems)


def host_memory(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Let guests have too little memory of the host's, or workers when they analyse (RLIMIT_AS)."""
    if rng.random() < 0.5:
        size, where = rng.randrange(1, 500), "memory_of_guest_process"
        what, said = f"{size} MB of the host's memory for a guest", "run .*: .*guest"
    else:
        size, where = rng.randrange(1, 16), "memory_of_analysis"
        what, said = f"{size} MB more for a worker that analyses", "memory"
    command = stage.command("hurt", planted={where: size}).fork()
    problems = answer(command, (DONE, FAILED), said)
    return Injected(what, command.status != DONE, problems)


def clock_forward(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Let the watchdog's clock jump forward: no guest hangs because of it."""
    return _jump(stage, rng, round(10 ** rng.uniform(1, 6), 1))


def clock_back(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Let the watchdog's clock jump back."""
    return _jump(stage, rng, -round(10 ** rng.uniform(1, 6), 1))


def _jump(stage: Stage, rng: random.Random, seconds: float) -> Injected:
    jump = {"seconds": seconds, "look": rng.randrange(1, 4)}
    command = stage.command("jumped", planted={"clock_jump": jump}).fork()
    problems = answer(command, (DONE,), "")
    return Injected(f"clock of the watchdog jumps by {seconds:+} s", True, problems)


def two_controllers(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Start a second command on the same results: one works, the other is told so, or waits."""
    others = {
        "run": run_words(stage.files.results),
        "clean": ("clean", "--results", str(stage.files.results)),
        "report": (
            "report",
            run_words(stage.files.results)[1],
            "--results",
            str(stage.files.results),
        ),
        "status": (
            "status",
            run_words(stage.files.results)[1],
            "--results",
            str(stage.files.results),
        ),
    }
    other = rng.choice(("run", "run", *others))
    first = stage.command("first").fork()
    if other != "run" or rng.random() < 0.5:
        until_moment(stage, fault, first)
    else:
        time.sleep(rng.uniform(0, 0.05))
    second = stage.command("second", *others[other]).fork()
    problems = answer(
        second, (DONE, FAILED, REFUSED), "at work in this directory|no usable|nothing"
    )
    problems += answer(first, (DONE, REFUSED), "at work in this directory")
    if other == "run" and DONE not in (first.status, second.status):
        problems.append("both refused")
    return Injected(f"`{other}` while a run is at work", True, problems)

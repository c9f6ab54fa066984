"""A whole plan as one shell script for a virtual-time guest.

A virtual-time kernel cannot be driven from outside: while it waits for a reply its clock stands
still. So everything that a plan asks for is compiled into one script, run by the guest's first
process.  In a User-Mode Linux guest starting a program costs about 10 ms of real time, a system
call 20 us, a shell builtin nothing; hence ``ip`` and ``tc`` commands go in batches and parameters
are written by ``echo``.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import (
    EPOCH,
    PROGRAMS,
    AgreeEpoch,
    Command,
    Drained,
    Finish,
    LetPass,
    Phase,
    ReadSysctls,
    Start,
    Step,
    Stop,
    Sysctl,
)

#: Directories inside the guest, mounted by ``tcpf-guest init``.
OUT = "/run/out"
BIN = "/run/bin"
#: What the script leaves in the run directory: how it ended.
FINISHED = "log/finished"
FAILED = "log/failed"
BATCH_PROGRAMS = ("ip", "tc")

_PRELUDE = f"""#!/bin/sh
# The plan of this run, compiled for the guest; plan.txt is the form to read.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C HOME=/run TMPDIR=/run
cd {OUT}

fail() {{
    echo "$1" > {FAILED}
    exec {BIN}/tcpf-guest poweroff
}}

# await FILE TEXT TRIES: until the file says so, looking every 20 ms
await() {{
    tries=0
    while :; do
        [ ! -e "$1" ] || while read -r line; do
            case $line in *"$2"*) return 0 ;; esac
        done < "$1"
        tries=$((tries + 1))
        [ $tries -le "$3" ] || fail "$1 does not say '$2' after $tries looks"
        sleep 0.02
    done
}}

# drained NODE DEVICE TRIES: until its queues are empty, looking every 250 ms
drained() {{
    tries=0
    while :; do
        case $(tc -s -j -n "$1" qdisc show dev "$2") in
            *'"qlen":'[1-9]*) ;;
            *) return 0 ;;
        esac
        tries=$((tries + 1))
        [ $tries -le "$3" ] || fail "$1: the queue on $2 is not empty after $tries looks"
        sleep 0.25
    done
}}
"""

_POSTLUDE = f"""
echo ok > {FINISHED}
exec {BIN}/tcpf-guest poweroff
"""


def render(plan: Plan) -> str:
    """Compile ``plan`` into the text of the guest's script."""
    parts = [_PRELUDE]
    for phase in plan.phases:
        parts.append(f"\n# {phase.name}")
        parts.extend(_phase(phase))
    parts.append(_POSTLUDE)
    return "\n".join(parts)


def _phase(phase: Phase) -> Iterator[str]:
    for key, steps in itertools.groupby(phase.steps, _group_key):
        yield from _GROUPS[key[0]](list(steps), f"{phase.name}")


def _group_key(step: Step) -> tuple[str, str | None]:
    """Steps with equal keys that follow each other are carried out together."""
    match step:
        case Command(node, (program, *_), None) if program in BATCH_PROGRAMS:
            return program, node
        case Command(node) | Sysctl(node) | ReadSysctls(node):
            return "shell", node
        case _:
            return type(step).__name__, None


def _batch(steps: list[Step], phase: str) -> Iterator[str]:
    """Give consecutive ``ip`` (or ``tc``) commands of one node to a single process."""
    commands = [step for step in steps if isinstance(step, Command)]
    program, node = commands[0].argv[0], commands[0].node
    where = f"-n {node} " if node else ""
    blame = f"{node or 'testbed'}: a command of {program} -batch in phase {phase}"
    yield f"{program} {where}-batch - <<'END' || fail {shlex.quote(blame)}"
    for command in commands:
        yield " ".join(command.argv[1:])
    yield "END"


def _shell(steps: list[Step], phase: str) -> Iterator[str]:
    """Run the other commands of one node in one shell inside its network namespace."""
    node = getattr(steps[0], "node", None)
    lines = ["set -e", f"trap '[ $? = 0 ] || echo \"$step\" > {FAILED}' EXIT"]
    for step in steps:
        lines += [f"step={shlex.quote(f'{phase}: {step}')}", *_shell_lines(step)]
    script = "\n".join(lines)
    yield f"{_inside(node)} /bin/sh <<'END' || exec {BIN}/tcpf-guest poweroff\n{script}\nEND"


def _shell_lines(step: Step) -> Iterator[str]:
    match step:
        case Sysctl(_, key, value):
            yield f"echo {shlex.quote(value)} > {_proc_sys(key)}"
        case ReadSysctls(_, keys, output):
            # One cat for all: the shell's own read asks for single bytes, which /proc/sys refuses.
            yield f"values=$(cat {' '.join(map(_proc_sys, keys))})"
            yield f"for key in {' '.join(keys)}; do"
            yield 'read -r value; set -- $value; echo "$key = $*"'
            yield f"done > {output} <<VALUES\n$values\nVALUES"
        case Command(_, argv, output):
            yield _words(argv) + (f" > {output}" if output else "")


def _start(steps: list[Step], _phase_name: str) -> Iterator[str]:
    """Start all programs of the group, then await the readiness of each."""
    starts = [step for step in steps if isinstance(step, Start)]
    for start in starts:
        redirect = f" > {start.output}" if start.output else ""
        redirect += f" 2> {start.errors}" if start.errors else ""
        at = "" if start.at is None else f"{BIN}/tcpf-guest at $epoch {start.at:.9f} "
        command = f"{at}{_inside(start.node)} {_words(start.argv)}"
        yield f"{command}{redirect} < /dev/null &\npid_{_variable(start.name)}=$!"
    for start in starts:
        if start.ready:
            tries = max(1, round(start.ready.timeout / 0.02))
            yield f"await {start.ready.path} {shlex.quote(start.ready.text)} {tries}"


def _agree(steps: list[Step], _phase_name: str) -> Iterator[str]:
    for step in steps:
        assert isinstance(step, AgreeEpoch)
        yield f"epoch=$(($(date +%s) + {step.lead}))"
        yield f'echo "{{\\"epoch_ns\\": ${{epoch}}000000000}}" > {step.output}'


def _finish(steps: list[Step], _phase_name: str) -> Iterator[str]:
    for step in steps:
        assert isinstance(step, Finish)
        pids = " ".join(f"$pid_{_variable(name)}" for name in step.names)
        reaper = f"{BIN}/tcpf-guest at $epoch {step.deadline:.3f} /bin/sh -c"
        yield f'{reaper} "kill {pids}" 2> /dev/null &'
        yield "reaper=$!"
        for name in step.names:
            yield f"wait $pid_{_variable(name)} || fail '{name} ended with status '$?"
        yield "kill $reaper 2> /dev/null"


def _drained(steps: list[Step], _phase_name: str) -> Iterator[str]:
    for step in steps:
        assert isinstance(step, Drained)
        yield f"drained {step.node} {step.device} {round(step.timeout / 0.25)}"


def _let_pass(steps: list[Step], _phase_name: str) -> Iterator[str]:
    for step in steps:
        assert isinstance(step, LetPass)
        yield f"sleep {step.seconds:g}"


def _stop(steps: list[Step], _phase_name: str) -> Iterator[str]:
    names = [name for step in steps if isinstance(step, Stop) for name in step.names]
    yield f"kill -INT {' '.join(f'$pid_{_variable(name)}' for name in names)}"
    for name in names:
        yield f"wait $pid_{_variable(name)} || fail '{name} ended with status '$?"


_GROUPS = {
    "ip": _batch,
    "tc": _batch,
    "shell": _shell,
    "Start": _start,
    "AgreeEpoch": _agree,
    "Finish": _finish,
    "Drained": _drained,
    "LetPass": _let_pass,
    "Stop": _stop,
}


def _inside(node: str | None) -> str:
    return f"nsenter --net=/run/netns/{node}" if node else ""


def _words(argv: Iterable[str]) -> str:
    """Quote for the shell; the placeholders become what the guest knows."""
    return " ".join(
        word.replace(EPOCH, "$epoch").replace(PROGRAMS, BIN)
        if EPOCH in word or PROGRAMS in word
        else shlex.quote(word)
        for word in argv
    )


def _proc_sys(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def _variable(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)

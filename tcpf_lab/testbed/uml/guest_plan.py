"""A whole plan as instructions for a virtual-time guest.

A virtual-time kernel cannot be driven from outside: while it waits for a reply its clock stands
still. So the whole plan is compiled into one list of instructions, which the guest's first process
(``tcpf-guest``) executes. In a User-Mode Linux guest starting a program
costs about 10 ms of real time and a system call 20 us: hence ``ip`` and ``tc`` commands go in
batches, and what needs no program is done without one. ``kernel/uml/guest_plan.c`` says what each
instruction does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import (
    BATCH_PROGRAMS,
    PROGRAMS,
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    Drained,
    Finish,
    LetPass,
    LoadModule,
    Offloads,
    Phase,
    ReadFile,
    ReadSysctls,
    Start,
    Step,
    Stop,
    Sysctl,
)
from tcpf_lab.plan.traffic import seconds

#: Where the project's programs are inside the guest.
BIN = "/run/bin"
#: Files of the run directory: the instructions, and how they ended.
INSTRUCTIONS = "log/guest.plan"
FINISHED = "log/finished"
FAILED = "log/failed"
#: Stands for the console as output, and for the guest itself as node.
NONE = "-"


def render(plan: Plan) -> str:
    """Compile ``plan`` into the text of ``log/guest.plan``.

    Raises
    ------
    ValueError
        If a word holds a tab or a line break, which separate words and instructions.
    """
    lines = [line for phase in plan.phases for line in _phase(phase)]
    return "".join(f"{line}\n" for line in lines)


def _phase(phase: Phase) -> Iterator[str]:
    for key, group in itertools.groupby(phase.steps, _group_key):
        steps = list(group)
        if key[0] in BATCH_PROGRAMS:
            yield from _batch(steps, phase.name, *key)
        elif key[0] == "Start":
            yield from _starts(steps, phase.name)
        else:
            for step in steps:
                yield _line("step", f"{phase.name}: {' '.join(str(step).split())}")
                yield _instruction(step)


def _group_key(step: Step) -> tuple[str, str | None]:
    """Steps with equal keys that follow each other are carried out together."""
    match step:
        case AddNode():
            return "ip", None
        case AddLink():
            return "ip", step.place
        case Command(node, (program, *_), None) if program in BATCH_PROGRAMS:
            return program, node
        case _:
            return type(step).__name__, None


def _batch(steps: list[Step], phase: str, program: str, node: str | None) -> Iterator[str]:
    """Give consecutive ``ip`` (or ``tc``) commands of one node to a single process."""
    yield _line("step", f"{phase}: {node or 'testbed'}: a command of {program} -batch")
    lines = [" ".join(map(_batch_word, words)) for step in steps for words in _arguments(step)]
    yield _line("batch", node or NONE, str(len(lines)), program, "-batch", "-")
    yield from map(_line, lines)


def _batch_word(word: str) -> str:
    """Refuse what iproute2's reader of a batch would not take as the one word that it is."""
    if not word or set(word) & set(" \t\"'\\#"):
        raise ValueError(f"not a word of a batch: {word!r}")
    return word


def _arguments(step: Step) -> tuple[tuple[str, ...], ...]:
    match step:
        case AddNode():
            return (step.words,)
        case AddLink():
            return step.commands
        case Command(_, (_, *words)):
            return (tuple(words),)
    raise AssertionError(f"no line of a batch: {step}")


def _starts(steps: list[Step], phase: str) -> Iterator[str]:
    """Start all programs of the group, then await the readiness of each."""
    starts = [step for step in steps if isinstance(step, Start)]
    for start in starts:
        yield _line("step", f"{phase}: {start.node}: start {start.name}")
        at = () if start.at is None else (f"{BIN}/tcpf-guest", "at", "{epoch}", f"{start.at:.9f}")
        files = (start.output or NONE, start.errors or NONE)
        yield _line("start", start.name, start.node, *files, *at, *_words(start.argv))
    for start in starts:
        if start.ready:
            yield _line("step", f"{phase}: {start.node}: {start.name} is ready")
            ready = start.ready
            yield _line("await", start.name, ready.path, seconds(ready.timeout), ready.text)


def _instruction(step: Step) -> str:
    match step:
        case Command(node, argv, output):
            return _line("run", node or NONE, output or NONE, *_words(argv))
        case LoadModule(_, name):  # all nodes are on the guest's one kernel
            return _line("module", name)
        case Sysctl(node, key, value):
            return _line("sysctl", node or NONE, key, value)
        case ReadSysctls(node, keys, output):
            return _line("sysctls", node, output, *keys)
        case ReadFile(node, path, output, optional):
            return _line("read-if" if optional else "read", node, path, output)
        case Offloads(node, device, features, output, on):
            return _line("offloads", node, output, device, "on" if on else "off", *features)
        case _:
            return _of_the_whole_run(step)


def _of_the_whole_run(step: Step) -> str:
    match step:
        case AgreeEpoch(lead, output):
            return _line("epoch", str(lead), output)
        case Finish(names, deadline):
            return _line("finish", seconds(deadline), *names)
        case Drained(node, device, timeout):
            return _line("drained", node, device, seconds(timeout))
        case LetPass(length):
            return _line("pass", seconds(length))
        case Stop(names):
            return _line("stop", *names)
    raise AssertionError(f"no instruction for {type(step).__name__}")


def _words(argv: Iterable[str]) -> list[str]:
    return [word.replace(PROGRAMS, BIN) for word in argv]


def _line(*words: str) -> str:
    for word in words:
        if "\t" in word or "\n" in word or not word:
            raise ValueError(f"not a word of an instruction: {word!r}")
    return "\t".join(words)

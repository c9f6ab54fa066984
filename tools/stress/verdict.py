"""What a guest's console and journal say: reports of the kernel's checks, and what was done.

The rule: every report is a failure, except data races of the kernel itself, which are listed.  A
data race is a module's own if one of the two accesses is plain (not ``READ_ONCE`` or the like) and
done by the module: in the innermost frame, or in a routine of the kernel that copies or links what
it is given.  Where a module's access is marked as it should be and the kernel's is not, the kernel
is the one to mend; a module that is only further up the stack has called the kernel.  What the
kernel reads of every qdisc without a lock (`UNLOCKED_READERS`) is its own affair too.

Weak evidence is a failure too: a check that did not run, a line of the scenario that has never
succeeded, unless it draws a place that is mostly empty and has not drawn often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.stress.scenario import PLACES

_TIME = re.compile(r"^\[ *\d+\.\d+\] ?")
_RACE = "BUG: KCSAN: "
#: First line of a report.
_REPORT = re.compile(
    r"BUG\b|WARNING: |Oops|general protection fault|Kernel panic|ODEBUG: |corruption|refcount_t: "
    r"|INFO: task .* blocked|INFO: trying to register|rcu: INFO: .*stall|workqueue lockup"
    r"|DEBUG_LOCKS_WARN_ON|unregister_netdevice: waiting|leaked|Poison overwritten"
)
_FRAME = re.compile(r"^ +(?:\? )?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?")
#: First line of the stack of one access; in the brackets may be "marked".
_ACCESS = re.compile(r"^(?:read|write|read-write)(?: \((.*?)\))? to 0x[0-9a-f]+ of ")
#: Routines that touch what their caller gives them, for the caller.
_FOR_CALLER = re.compile(r"_*(mem(cpy|move|set|cmp)|nla_|gnet_stats_|list_|hlist_)")
_RULER = re.compile(r"^=+$")
_END = "---[ end trace"
#: Functions of the kernel that by its design read without a lock what every qdisc counts: length,
#: backlog, packets, drops.  A qdisc's own statistics have a function of its own in between.
#: `mq_dump_class_stats` reads them of mq's children for `tc class show`, under the netlink lock
#: alone (net/sched/sch_mq.c), where `mq_dump` takes each child's lock.
UNLOCKED_READERS = (
    *("tc_fill_qdisc", "tc_fill_tclass", "mq_dump_class_stats"),
    "est_fetch_counters",
)
#: Most that one report is taken to have.
_LINES = 120
#: Lines that the kernel's own tests of the checks must leave at boot.
SELF_TESTS = {
    "lockdep": re.compile(r"Good, all +\d+ testcases passed!"),
    "KCSAN": re.compile(r"kcsan: selftest: (\d+)/\1 tests passed"),
}
#: State after the load -> the value that it must have.
_STATE = {"debug_locks": "1", "enabled": "1"}
#: So often a line may draw an empty one of `PLACES`; a slow machine tries few in a minute.
_DRAWS = 100


@dataclass(frozen=True)
class Report:
    """One report of the kernel."""

    title: str
    text: str
    modules: tuple[str, ...]  #: of a data race whose it is, otherwise that have frames in it

    @property
    def race(self) -> bool:
        """Whether it is a data race."""
        return _RACE in self.title


@dataclass(frozen=True)
class _Access:
    """One access of a data race."""

    function: str
    module: str | None
    marked: bool


@dataclass(frozen=True)
class Done:
    """What became of one line of the scenario."""

    line: str
    done: int
    refused: int
    spent_ms: int
    reply: str


@dataclass(frozen=True)
class Verdict:
    """What was found."""

    findings: tuple[Report, ...]  #: failures
    others: tuple[Report, ...]  #: data races of the kernel itself
    problems: tuple[str, ...]  #: why the run proves less than it should
    commands: int
    packets: int
    watched: int  #: accesses that KCSAN has watched

    @property
    def passed(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.findings and not self.problems


def judge(console: str, journal: str, scenario: str) -> Verdict:
    """Judge a run by what it left.

    Parameters
    ----------
    console : str
        The kernel's messages.
    journal : str
        What the guest's first process wrote.
    scenario : str
        What it had to do.
    """
    found = tuple(reports(console))
    ours = tuple(report for report in found if not report.race or report.modules)
    done = steps(journal, scenario)
    state = _state(journal)
    return Verdict(
        findings=ours,
        others=tuple(report for report in found if report not in ours),
        problems=(*_unproven(console, journal, state), *_undone(done)),
        commands=sum(step.done + step.refused for step in done if step.line.startswith("loop ")),
        packets=sum(step.done for step in done if step.line.startswith("flood ")),
        watched=int(state.get("setup_watchpoints", 0)),
    )


def reports(console: str) -> Iterator[Report]:
    """Yield the kernel's reports in their order."""
    lines = [_TIME.sub("", line) for line in console.splitlines()]
    number = 0
    while number < len(lines):
        if not _REPORT.search(lines[number]):
            number += 1
            continue
        text = [lines[number]]
        for line in lines[number + 1 : number + _LINES]:
            if _RULER.match(line):
                break
            text.append(line)
            if _END in line:
                break
        number += len(text)
        yield _report(text)


def _report(text: list[str]) -> Report:
    if _RACE in text[0]:
        modules = _owners(text)
    else:
        frames = map(_FRAME.match, text)
        modules = tuple(frame[2] for frame in frames if frame and frame[2])
    return Report(text[0], "\n".join(text), tuple(dict.fromkeys(modules)))


def _owners(text: list[str]) -> tuple[str, ...]:
    """Return the modules that have done one of the accesses of a data race, and plainly."""
    accesses = tuple(_accesses(text))
    if any(access.function in UNLOCKED_READERS for access in accesses):
        return ()
    return tuple(access.module for access in accesses if access.module and not access.marked)


def _accesses(text: list[str]) -> Iterator[_Access]:
    """Yield who has done each access: the innermost frame that is not for its caller."""
    begun: re.Match[str] | None = None
    for line in text:
        if access := _ACCESS.match(line):
            begun = access
        elif begun and (frame := _FRAME.match(line)) and not _FOR_CALLER.match(frame[1]):
            yield _Access(frame[1], frame[2], "marked" in (begun[1] or ""))
            begun = None


def steps(journal: str, scenario: str) -> tuple[Done, ...]:
    """Return what became of every line of the scenario that is a step."""
    lines = [line for line in scenario.splitlines() if line.split()[0] not in ("seconds", "seed")]
    found = []
    for entry in journal.splitlines():
        if entry.startswith("step "):
            words = entry.split(" ", 6)
            number, done, refused, _, spent = map(int, words[1:6])
            found.append(Done(lines[number], done, refused, spent, "".join(words[6:])))
    return tuple(found)


def _state(journal: str) -> dict[str, str]:
    words = (line.split(maxsplit=2) for line in journal.splitlines() if line.startswith("state "))
    return {entry[1]: entry[2] for entry in words if len(entry) == 3}


def _unproven(console: str, journal: str, state: dict[str, str]) -> Iterator[str]:
    """Name the checks that did not work until the end."""
    for name, pattern in SELF_TESTS.items():
        if not pattern.search(console):
            yield f"no report of the kernel that {name} passes its own tests"
    for name, value in _STATE.items():
        if state.get(name) != value:
            yield f"after the load '{name}' is {state.get(name, 'not reported')}, not {value}"
    yield from (line for line in journal.splitlines() if line.startswith("failed "))
    if "end" not in journal.splitlines():
        yield "the guest did not come to its end"


def _undone(done: tuple[Done, ...]) -> Iterator[str]:
    """Name the lines that never succeeded, if they have been tried often enough to tell."""
    if not done:
        yield "the guest did not report its work"
    for step in done:
        unlucky = PLACES in step.line and 0 < step.refused < _DRAWS
        if not step.done and not unlucky:
            yield f"never succeeded: {step.line} ({step.refused} times: {step.reply})"

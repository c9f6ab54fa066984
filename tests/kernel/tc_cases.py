"""The cases of ``kernel/tests/tc``: read them, carry them out in one guest, judge each.

Modelled on the kernel's tc-testing.  A file has ``variables`` (``$NAME`` in commands), default
``setup`` and ``teardown``, and ``cases``, each with:

``id``, ``name``, ``category``
    what it is called by, what it shows, and words to choose it by
``setup``, ``teardown``
    commands that have to succeed, before and after
``cmdUnderTest``, ``expExitCode``, ``expMessage``
    the command, its exit code (``0`` if not given; ``"refused"`` for any other), and what it must
    have said (a regular expression)
``verifyCmd``
    a command that shows what has become of it; a list of them makes of the last one's output the
    one that is looked at
``matchJSON``, ``matchPattern``, ``matchCount``
    what the output must have: at least this JSON (a list with its members in their order; a string
    ``"> 5"`` stands for a number), or a regular expression so many times (once)
``each``
    rows, each of which makes a case: its variables, used in every text, and parts of the case

Commands are programs of the system and what `tc_guest` knows; ``TCA_...`` stands for its number.
"""

from __future__ import annotations

import itertools
import json
import re
import string
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import KERNEL_TESTS

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

GUEST = Path(__file__).with_name("tc_guest.py")
CASES = "log/cases.json"
OUTCOMES = "log/outcomes.jsonl"
KEYS = {"id", "name", "category", "setup", "cmdUnderTest", "expExitCode", "expMessage"} | {
    *("verifyCmd", "matchJSON", "matchPattern", "matchCount", "teardown")
}
_OPERATORS = {">": lambda a, b: a > b, "<": lambda a, b: a < b, "!=": lambda a, b: a != b}


@dataclass(frozen=True)
class Case:
    """One case of a file, its variables filled in."""

    file: str
    content: dict[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        return str(self.content["id"])

    @property
    def setup(self) -> list[str]:
        return list(self.content["setup"])

    @property
    def verify(self) -> list[str]:
        asked = self.content.get("verifyCmd", [])
        return [asked] if isinstance(asked, str) else list(asked)

    @property
    def commands(self) -> list[str]:
        """All commands in their order."""
        command = self.content["cmdUnderTest"]
        return [*self.setup, command, *self.verify, *self.content["teardown"]]


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


def load(directory: Path = KERNEL_TESTS / "tc") -> list[Case]:
    """Read all cases; refuse what would silently not be looked at."""
    numbers = attribute_numbers(KERNEL_TESTS.parent / "include/uapi")
    cases = [case for path in sorted(directory.glob("*.json")) for case in _read(path, numbers)]
    ids = [case.id for case in cases]
    assert len(set(ids)) == len(ids), sorted({name for name in ids if ids.count(name) > 1})
    return cases


def _read(path: Path, numbers: dict[str, int]) -> list[Case]:
    content = json.loads(path.read_text())
    variables = content.get("variables", {})

    defaults = {"setup": content.get("setup", []), "teardown": content.get("teardown", [])}
    cases = []
    for case in content["cases"]:
        rows = case.pop("each", [{}])
        for row in rows:
            whole = defaults | case | {key: row[key] for key in row if key in KEYS}
            assert set(whole) <= KEYS, f"{path}: {case.get('id')}: {set(whole) - KEYS}"
            filled = {key: _fill(value, variables | row, numbers) for key, value in whole.items()}
            cases.append(Case(path.stem, filled))
    return cases


def _fill(value: Any, variables: dict[str, Any], numbers: dict[str, int]) -> Any:
    """Replace ``$NAME`` and ``TCA_NAME`` in every text."""
    if isinstance(value, list):
        return [_fill(part, variables, numbers) for part in value]
    if isinstance(value, dict):
        return {key: _fill(part, variables, numbers) for key, part in value.items()}
    if not isinstance(value, str):
        return value
    for _ in range(3):  # variables may hold variables
        value = string.Template(value).substitute(variables) if "$" in value else value
    return re.sub(r"\bTCA_\w+", lambda found: str(numbers[found.group()]), value)


def attribute_numbers(headers: Path) -> dict[str, int]:
    """Return the values of all enumerators in the headers."""
    values: dict[str, int] = {}
    for _ in range(2):  # a header may build on one that is read later
        for header in sorted(headers.glob("*.h")):
            text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
            for block in re.findall(r"enum\s*\w*\s*\{(.*?)\}", text, re.DOTALL):
                _enumerate(block, values)
    return values


def _enumerate(block: str, values: dict[str, int]) -> None:
    following = 0
    for entry in filter(None, map(str.strip, block.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        if value:
            following = int(value, 0) if value[0].isdigit() else values.get(value, 0)
        values[name] = following
        following += 1


def carry_out(bed: UmlTestbed, cases: list[Case], root: Path) -> dict[str, list[Outcome]]:
    """Carry all cases out in one guest; return the outcomes of each case's commands."""
    run = RunFiles(root)
    run.create()
    listed = [{"id": case.id, "commands": case.commands} for case in cases]
    (root / CASES).write_text(json.dumps(listed))
    modules = [LoadModule("R1", name) for name in bed.kernel.modules]
    python = Command(None, (sys.executable, "-E", "-S", str(GUEST), CASES, OUTCOMES))
    phases = (Phase("modules", tuple(modules)), Phase("cases", (python,)))
    bed.execute(Plan(phases, {}, (0.0, 10.0 * len(cases)), ()), run, seed=1)
    return read_outcomes(root)


def read_outcomes(root: Path) -> dict[str, list[Outcome]]:
    """Read what a guest has written, if only up to its end."""
    path = root / OUTCOMES
    lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    grouped = itertools.groupby(lines, key=lambda line: line["id"])
    return {
        name: [Outcome(line["code"], line["out"], line["err"]) for line in group]
        for name, group in grouped
    }


def judge(case: Case, outcomes: list[Outcome]) -> None:
    """Assert that a case went as it says."""
    told = "".join(
        f"\n$ {command}\n{outcome.out}{outcome.err}[{outcome.code}]"
        for command, outcome in zip(case.commands, outcomes, strict=False)
    )
    assert len(outcomes) == len(case.commands), f"the guest ended in this case{told}"
    at = len(case.setup)
    for outcome in (*outcomes[:at], *outcomes[at + 1 :]):
        assert outcome.code == 0, f"setup, verifyCmd or teardown failed{told}"
    expected = case.content.get("expExitCode", 0)
    under_test = outcomes[at]
    assert (under_test.code != 0) if expected == "refused" else (under_test.code == expected), told
    message = case.content.get("expMessage", "")
    assert re.search(message, under_test.err + under_test.out), f"no '{message}' in{told}"
    shown = outcomes[at + len(case.verify)].out
    if "matchJSON" in case.content:
        found = json.loads(shown)
        difference = missing(case.content["matchJSON"], found)
        assert not difference, f"{difference} in{told}"
    if "matchPattern" in case.content:
        count = len(re.findall(case.content["matchPattern"], shown))
        assert count == case.content.get("matchCount", 1), told


def missing(wanted: Any, found: Any, where: str = "") -> str:
    """Say what of ``wanted`` is not in ``found``, nothing if all is."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        absent = [key for key in wanted if key not in found]
        if absent:
            return f"no {where}.{absent[0]}"
        parts = [missing(value, found[key], f"{where}.{key}") for key, value in wanted.items()]
        return next(filter(None, parts), "")
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return f"{len(found)} members of {where}, not {len(wanted)}"
        pairs = enumerate(zip(wanted, found, strict=True))
        parts = [missing(w, f, f"{where}[{number}]") for number, (w, f) in pairs]
        return next(filter(None, parts), "")
    operator, _, bound = wanted.partition(" ") if isinstance(wanted, str) else ("", "", "")
    if operator in _OPERATORS:
        right = isinstance(found, int | float) and _OPERATORS[operator](found, float(bound))
    else:
        right = isinstance(wanted, bool) == isinstance(found, bool) and wanted == found
    return "" if right else f"{where} is {found!r}, not {wanted!r}"

"""Imports go one way, and what makes data knows nothing of what reads it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tcpf_lab

PACKAGE = Path(tcpf_lab.__file__).parent

#: Room -> the rooms it may import, floor by floor.
FLOORS: dict[str, set[str]] = {"base": set()}
FLOORS["results"] = {"base"}
FLOORS["spec"] = {"base", "results"}
FLOORS["plan"] = {"base", "spec"}
FLOORS["testbed"] = {"base", "results", "spec", "plan"}
FLOORS["trace"] = {"base"}
FLOORS["metrics"] = {"base", "results", "spec", "trace"}
FLOORS["report"] = {"base", "results", "spec", "trace", "metrics"}
FLOORS["papers"] = FLOORS["report"] | {"report"}
FLOORS["run"] = FLOORS["papers"] | {"papers", "plan", "testbed"}
FLOORS["calibration"] = FLOORS["run"] | {"run"}
FLOORS["cli"] = FLOORS["calibration"] | {"calibration"}
#: Stands alone on a host.
AGENT = "testbed.ssh.agent"
#: The only modules that print.
MAY_PRINT = {"cli/main.py", "cli/console.py", "spec/generate.py"}


@cache
def modules() -> dict[str, Path]:
    """Give every module by its name within the package; the package itself is not among them."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    del found["__init__"], found["__main__"]
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a module imports, ``tcpf_lab.metrics.summary.analyse``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own(path: Path) -> set[str]:
    """Give the modules of the package that a module imports."""
    names = (name.partition("tcpf_lab.") for name in imported(parsed(path)))
    words = (rest for before, _, rest in names if not before)
    return {found for name in words if (found := _module(name))}


def _module(name: str) -> str:
    """Reduce the name of a member to that of its module."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def test_rooms_import_only_floors_below() -> None:
    wrong = []
    for name, path in modules().items():
        room = name.partition(".")[0]
        allowed = {AGENT} if name.startswith(AGENT) else FLOORS[room] | {room}
        for other in sorted(own(path)):
            below = any(f"{other}.".startswith(f"{one}.") for one in allowed)
            wrong += [] if below else [f"{name}: {other}"]
    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter({name: own(path) - {name} for name, path in modules().items()}).prepare()


@pytest.mark.parametrize("side", ["plan", "metrics", "spec"])
def test_pure_rooms_start_no_process_and_open_no_connection(side: str) -> None:
    impure = {"subprocess", "socket", "multiprocessing", "fabric"}
    for path in (PACKAGE / side).rglob("*.py"):
        used = {name.partition(".")[0] for name in imported(parsed(path))}
        assert not used & impure, path


def test_only_the_command_line_prints() -> None:
    for path in modules().values():
        if str(path.relative_to(PACKAGE)) in MAY_PRINT:
            continue
        calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert "print" not in names, path
        assert "exit" not in names, path


def test_what_is_printed_goes_through_one_place() -> None:
    """It escapes what a terminal would obey: `cli.console.echo`, and the console's tables."""
    for path in modules().values():
        if str(path.relative_to(PACKAGE)) in ("cli/main.py", "cli/console.py"):
            continue
        calls = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
        used = {ast.unparse(call.func) for call in calls}
        assert not used & {"typer.echo", "click.echo"}, path


# Crates that ``trace/`` is linked with may be given away with it.

MANIFEST = Path(tcpf_lab.__file__).parents[1] / "trace/Cargo.toml"
ALLOWED = {
    *("MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0"),
    *("Unlicense", "0BSD", "CC0-1.0", "BSL-1.0", "bzip2-1.0.6", "Apache-2.0 WITH LLVM-exception"),
}


def allowed(expression: str) -> bool:
    """Whether an SPDX expression leaves a choice that is allowed; brackets are taken for AND."""
    every = re.split(r" AND |[()]", expression.replace("/", " OR "))
    parts = (part.strip() for part in every)
    return all(not part or any(one in ALLOWED for one in part.split(" OR ")) for part in parts)


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [("MIT OR GPL-2.0", True), ("(MIT OR Apache-2.0) AND Unicode-3.0", True), ("GPL-3.0", False)],
)
def test_licence_expressions(expression: str, verdict: bool) -> None:
    assert allowed(expression) is verdict


def test_licence_of_every_crate_is_allowed() -> None:
    words = ["metadata", "--locked", "--offline", "--format-version", "1"]
    platform = ["--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path", str(MANIFEST)]
    told = subprocess.run(["cargo", *words, *platform], capture_output=True, text=True, check=True)
    crates = {one["name"]: one["license"] or "" for one in json.loads(told.stdout)["packages"]}
    assert {name: text for name, text in crates.items() if not text or not allowed(text)} == {}

"""Imports go one way, and what makes data knows nothing of what reads it."""

from __future__ import annotations

import ast
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

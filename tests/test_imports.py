"""Imports go one way, and what makes data knows nothing of what reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tcpf_lab

PACKAGE = Path(tcpf_lab.__file__).parent

SHARED = {
    *("command", "errors", "formats", "making", "reference", "results", "shipped", "spec", "units"),
}
#: Layer -> the other layers it may import; a layer that is not here makes the test fail.
MAY_IMPORT = {
    "errors": set(),
    "units": {"errors"},
    "formats": {"errors"},
    "making": {"errors"},
    "results": {"errors", "formats", "making"},
    "command": {"results"},
    "shipped": {"errors"},
    "archive": {"errors"},
    "spec": SHARED,
    "reference": SHARED,
    # makes data
    "plan": SHARED,
    "agent": set(),  # stands alone on a host
    "testbed": SHARED | {"plan", "agent.pack", "archive"},
    "captures": SHARED,
    "storage": SHARED,
    "checksums": SHARED,
    "manifest": SHARED | {"testbed", "plan"},
    "disk_budget": SHARED | {"testbed", "plan", "storage"},
    "checked_analysis": SHARED | {"metrics"},
    "run_state": SHARED | {"plan", "manifest", "checksums", "metrics.summary"},
    "runner": SHARED
    | {
        "testbed",
        "plan",
        "captures",
        "storage",
        "manifest",
        "disk_budget",
        "checked_analysis",
        "checksums",
        "run_state",
    }
    | {"metrics.summary"},
    # reads data
    "trace": SHARED | {"_trace"},
    "metrics": SHARED | {"trace", "models.pftk"},
    "report": SHARED | {"metrics", "trace", "models"},
    # theory
    "models": {"errors", "units"},
    "calibration": {"errors", "units"},
}
#: What a user meets: these may import everything, and nothing imports them.
OUTER = {
    *(
        "analyze_request",
        "analyze_verbs",
        "analyzing",
        "api",
        "calibrate_verbs",
        "calibrating",
        "cli",
        "cluster",
        "cluster_delivery",
        "cluster_link",
        "cluster_request",
        "cluster_watch",
        "cluster_worker",
        "command_line",
        "progress",
        "crossing_request",
        "crossing_verbs",
        "experiment_verbs",
        "host_verbs",
        "kernel_verbs",
        "model_request",
        "model_verbs",
        "plan_verbs",
        "planning",
        "plot_request",
        "plot_verbs",
        "plotting",
        "report_verbs",
        "reporting",
        "migration",
        "results_verbs",
        "vm_verbs",
        "options",
        "campaign",
        "selection",
        "terminal",
        "pool",
    ),
    *("__init__", "__main__"),
}
#: The only modules that print.
MAY_PRINT = {"cli.py", "terminal.py", "spec/generate.py"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def layer(path: Path) -> str:
    """Return ``plan`` for ``plan/step.py``, ``runner`` for ``runner.py``."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a module imports, ``tcpf_lab.metrics.summary.analyse``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own(names: Iterator[str]) -> Iterator[str]:
    """Reduce names to those of this project, without its own name in front."""
    for name in names:
        if name.startswith("tcpf_lab."):
            yield name.removeprefix("tcpf_lab.")


def allowed(importer: str, name: str) -> bool:
    if importer in OUTER or name == "__version__":
        return True
    candidates = MAY_IMPORT[importer] | {importer}
    return any(name == known or name.startswith(known + ".") for known in candidates)


def test_modules_import_only_what_their_layers_may() -> None:
    wrong = []
    for path in modules():
        importer = layer(path)
        known = importer in OUTER or importer in MAY_IMPORT
        assert known, f"'{importer}' has no place in MAY_IMPORT"
        names = sorted(set(own(imported(parsed(path)))))
        wrong += [f"{path}: {name}" for name in names if not allowed(importer, name)]
    assert wrong == []


@pytest.mark.parametrize("side", ["plan", "metrics", "spec"])
def test_pure_layers_start_no_process_and_open_no_connection(side: str) -> None:
    impure = {"subprocess", "socket", "multiprocessing", "fabric"}
    for path in (PACKAGE / side).rglob("*.py"):
        used = {name.partition(".")[0] for name in imported(parsed(path))}
        assert not used & impure, path


def test_models_know_only_mathematics_and_units() -> None:
    known = {"__future__", "collections", "dataclasses", "math", "numpy", "scipy", "tcpf_lab"}
    for path in (PACKAGE / "models").rglob("*.py"):
        used = {name.partition(".")[0] for name in imported(parsed(path))}
        assert used <= known, path


def test_only_the_command_line_prints() -> None:
    for path in modules():
        if str(path.relative_to(PACKAGE)) in MAY_PRINT:
            continue
        calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert "print" not in names, path
        assert "exit" not in names, path


def test_what_is_printed_goes_through_one_place() -> None:
    """It escapes what a terminal would obey: ``command_line.echo``, and `terminal`'s consoles."""
    for path in modules():
        if path.name in ("command_line.py", "cli.py", "terminal.py"):
            continue
        calls = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
        used = {ast.unparse(call.func) for call in calls}
        assert not used & {"typer.echo", "click.echo"}, path

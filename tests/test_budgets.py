"""Small parts: the limits that keep every module readable in one sitting."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tcpf_lab

ROOT = Path(tcpf_lab.__file__).parent.parent
MODULE_LINES = 300
FUNCTION_LINES = 40
C_FUNCTION_LINES = 60

PYTHON = sorted(
    path
    for place in ("tcpf_lab", "benchmarks", "stress", "accuracy", "fuzz", "faults")
    for path in (ROOT / place).rglob("*.py")
)
C = sorted(path for path in (ROOT / "kernel").rglob("*.c"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_python_module_and_its_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MODULE_LINES
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = {
        node.name: length
        for node in ast.walk(ast.parse(text))
        if isinstance(node, functions) and (length := code_lines(node)) > FUNCTION_LINES
    }
    assert long == {}


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring, which describes rather than does."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", C, ids=name)
def test_c_functions_are_short(path: Path) -> None:
    bodies = re.findall(r"^\{$(.*?)^\}$", path.read_text(), re.MULTILINE | re.DOTALL)
    assert bodies, "no function found: is the style another one?"
    assert max(body.count("\n") for body in bodies) <= C_FUNCTION_LINES

"""Compiled functions call each other, and machine code is as old as the text it is made of."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tcpf_lab.trace import jit

_OFFSET = 1


@jit.part
def _raised(x: Any) -> Any:
    return x + _OFFSET


@jit.compiled
def _inner(x: int) -> int:
    return int(_raised(x))


@jit.part
def _between(x: Any) -> Any:
    return _inner(x) * 2


@jit.compiled
def _outer(x: int) -> int:
    return int(_between(x) + _inner(x))


def test_a_compiled_function_calls_others_itself_and_by_its_parts() -> None:
    assert _outer(1) == 6
    assert _inner(1) == 2


def imported(module: ModuleType) -> Iterator[str]:
    """Yield what the module may import at its top, by name."""
    for node in ast.parse(Path(str(module.__file__)).read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reachable(name: str) -> set[str]:
    own, found, left = ("tcpf_lab", name.partition(".")[0]), set(), [name]
    while left:
        one = left.pop()
        if one in found or one.partition(".")[0] not in own or one not in sys.modules:
            continue
        found.add(one)
        left += imported(sys.modules[one])
    return found


@pytest.mark.parametrize(
    "name",
    [
        *(f"tcpf_lab.trace.{word}" for word in ("engine", "scan", "recovery", "flow")),
        *("fuzz.storm_code", "fuzz.sound"),
    ],
)
def test_machine_code_is_made_anew_when_anything_it_is_made_of_changes(name: str) -> None:
    importlib.import_module(name)
    assert set(jit.reached(name)) == reachable(name)
    assert "tcpf_lab.trace.jit" in jit.reached(name)


def test_a_constant_at_two_removes_changes_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "stamped"
    package.mkdir()
    texts = {
        "__init__": "",
        "one": "from stamped import (\n    two,\n)\nWORD = two.WORD\n",
        "two": "from stamped.three import WORD as WORD\n",
        "three": "WORD = 1\n",
        "other": "WORD = 1\n",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("stamped.one")
    importlib.import_module("stamped.other")
    before = jit.stamp("stamped.one")

    def changed(name: str) -> bool:
        (package / f"{name}.py").write_text("WORD = 2\n")
        jit._source.cache_clear()
        return jit.stamp("stamped.one") != before

    assert not changed("other")
    assert changed("three")
    for name in [name for name in sys.modules if name.partition(".")[0] == "stamped"]:
        del sys.modules[name]

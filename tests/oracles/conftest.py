"""Oracles: frozen answers, held against what the package says now. See README.md beside this."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from door import EXPECTED, Hold

from tcpf_lab.results.layout import PACKED, packed, read_json


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-oracles", action="store_true", help="write tests/oracles/expected anew"
    )
    parser.addoption("--oracle-results", metavar="DIR", help="keep the oracles' runs there")


@pytest.fixture
def hold(request: pytest.FixtureRequest) -> Hold:
    """Return a function that holds answers to ``expected/NAME`` (or writes them anew).

    ``relative`` is how far a number may be off: none but those of a search over floats.
    """

    def compare(name: str, found: Mapping[str, Any], relative: float = 0.0) -> None:
        path = EXPECTED / name
        found = json.loads(json.dumps(found))
        if request.config.getoption("--update-oracles", default=False):
            text = _lines(found)
            path.write_bytes(packed(text) if path.suffix == PACKED else text.encode("utf-8"))
        kept = read_json(path)
        changed = [
            f"{key}\n    was {_short(kept.get(key))}\n    is  {_short(found.get(key))}"
            for key in {**kept, **found}
            if not _same(kept.get(key), found.get(key), relative)
        ]
        if changed:
            listed = "\n".join(changed[:40])
            pytest.fail(f"{len(changed)} of {len(kept)} answers of {name}\n{listed}", pytrace=False)

    return compare


def _lines(found: Mapping[str, Any]) -> str:
    """Write an object with a line for each of its items, so that a diff shows which."""
    as_short = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    rows = (f"{json.dumps(k)}: {as_short(v)}" for k, v in found.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _same(kept: Any, found: Any, relative: float) -> bool:
    if isinstance(kept, dict) and isinstance(found, dict):
        return kept.keys() == found.keys() and all(
            _same(kept[key], found[key], relative) for key in kept
        )
    if isinstance(kept, list) and isinstance(found, list):
        return len(kept) == len(found) and all(
            _same(a, b, relative) for a, b in zip(kept, found, strict=True)
        )
    if relative and isinstance(kept, float) and isinstance(found, float):
        return math.isclose(kept, found, rel_tol=relative)
    return type(kept) is type(found) and bool(kept == found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 2000 else f"{text[:2000]} ..."

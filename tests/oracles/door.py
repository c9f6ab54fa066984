"""The doors that the oracles go through: the command line, and what ``import tcpf_lab`` offers.

Whatever is renamed or moved behind them, this file stays; where a door is lacking, the one module
that reaches behind it says so.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference"
EXPECTED = Path(__file__).parent / "expected"
#: Holds answers by their keys to a file in ``expected``: the fixture of that name.
Hold = Callable[..., None]
#: Format number of the files of a run that ``write_run`` writes.
FORMAT = 2


class Answer(NamedTuple):
    """What a command gave."""

    status: int
    out: str
    err: str


def tcpf_lab(*words: object) -> Answer:
    """Call the command line in this process: it answers in milliseconds then."""
    from tcpf_lab.__main__ import main

    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["tcpf-lab", *map(str, words)])
        patch.setenv("COLUMNS", "200")
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
    return Answer(status, out.getvalue(), err.getvalue())


def run_tcpf_lab(*words: object) -> str:
    """Call it as a program, as long as it takes; what it prints if all went well."""
    command = [sys.executable, "-m", "tcpf_lab", *map(str, words)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, f"{' '.join(command[1:])}\n{done.stderr}"
    return done.stdout


def write_run(directory: Path, about: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    """Write what ``tcpf_lab.load`` reads of a run: ``about`` is config, case, flows and seed."""
    directory.mkdir(parents=True)
    (directory / "run.yaml").touch()
    valid = {"valid": True, "reasons": [], "checks": []}
    files = {"manifest.json": {}, "metrics.json": {"metrics": metrics, "validity": valid}}
    for name, content in files.items():
        (directory / name).write_text(json.dumps({"format": FORMAT, **about, **content}))


def readable(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Take nested JSON apart into lines: a list of objects gives one line for each of them."""
    if isinstance(value, dict):
        flat = {k: v for k, v in value.items() if not _is_table(v)}
        if flat:
            yield key, flat
        for name, rows in value.items():
            if _is_table(rows):
                for number, row in enumerate(rows):
                    yield from readable(row, f"{key} {name} {number}".strip())
    else:
        yield key, value


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)

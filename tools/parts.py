"""Files that hold several texts, such as the records of the run that tests play back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tcpf_lab.results.layout import write_text

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "data" / "recorded-run"


def read_parts(path: Path) -> dict[str, str]:
    """Give the texts of a file by name, each below a line ``=== NAME``."""
    parts = re.split(r"^=== (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def write_parts(path: Path, parts: Mapping[str, str]) -> None:
    """Write texts into one file."""
    write_text(path, "".join(f"=== {name}\n{part}" for name, part in parts.items()))


def recorded_run() -> Path:
    """Give the recorded run, what its programs said unpacked from ``recorded-run.txt``."""
    for name, text in read_parts(RECORDED.with_suffix(".txt")).items():
        path = RECORDED / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
    return RECORDED

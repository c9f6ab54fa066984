"""The documents, what of them is code, the commands that they show; files of several texts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parent.parent


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands_of(text: str) -> list[list[str]]:
    """Give the words of every line of the shell that a document shows."""
    lines = [line for block in blocks("sh", text) for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command]


def read_parts(path: Path) -> dict[str, str]:
    """Give the texts of a file that holds several, each below a line ``=== NAME``."""
    parts = re.split(r"^=== (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def write_parts(path: Path, parts: dict[str, str]) -> None:
    text = "".join(f"=== {name}\n{part}" for name, part in parts.items())
    path.write_text(text, encoding="utf-8")

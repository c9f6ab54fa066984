"""The documents, what of them is code, and the commands that they show."""

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

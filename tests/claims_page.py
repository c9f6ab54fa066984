"""``docs/claims.md`` as rows: what is claimed, where, and what shows it."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from documents import ROOT

PAGE = ROOT / "docs" / "claims.md"
#: Title of the section that lists what has no claims, and columns of the two kinds of tables.
NONE = "Documents without claims"
COLUMNS = ["Claim", "Stands under", "Shown by", "Takes", "What must be seen"]
NONE_COLUMNS = ["Document", "Why"]
TAKES = ("seconds", "minutes", "hours")

_BY_CONSTRUCTION = re.compile(r"by construction: `([^`]+)`, `([^`]+)`")
_COMMAND = re.compile(r"`(\./lab [^`]+)`")
_STATUS = re.compile(r"status (\d+): ")


class PageError(Exception):
    """The page is not laid out as it says."""


@dataclass(frozen=True)
class Claim:
    """A row of the page."""

    line: int  #: of the page
    document: str
    text: str
    heading: str
    shown_by: str
    takes: str
    seen: str

    @property
    def place_in_code(self) -> tuple[str, str] | None:
        """File, and a text in it, that leave no other way; None if a command shows the claim."""
        found = _BY_CONSTRUCTION.fullmatch(self.shown_by)
        return (found[1], found[2]) if found else None

    @property
    def words(self) -> list[str]:
        """Words of the command, without ``./lab``."""
        found = _COMMAND.fullmatch(self.shown_by)
        if found is None:
            raise PageError(f"{self}: neither one command nor a place in the code")
        return shlex.split(found[1])[1:]

    @property
    def status(self) -> int:
        """Exit status that the command must have."""
        found = _STATUS.match(self.seen)
        return int(found[1]) if found else 0

    @property
    def outputs(self) -> list[str]:
        """What must stand in the command's output."""
        return re.findall(r"`([^`]+)`", self.seen)

    def __str__(self) -> str:
        return f"docs/claims.md:{self.line}: {self.text}"


def read(text: str) -> tuple[list[Claim], dict[str, str]]:
    """Give the claims in their order, and why other documents have none."""
    claims: list[Claim] = []
    reasons: dict[str, str] = {}
    section, columns = "", []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            section, columns = line[3:], []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            wanted = NONE_COLUMNS if section == NONE else COLUMNS
            if not columns:
                columns = cells
            if len(cells) != len(wanted) or columns != wanted or not all(cells):
                raise PageError(f"docs/claims.md:{number}: not a row of {wanted}")
            if cells == columns or set("".join(cells)) == {"-"}:
                continue
            if section == NONE:
                reasons[cells[0]] = cells[1]
            else:
                claims.append(Claim(number, section, *cells))
    return claims, reasons


@cache
def cases_of(path: Path) -> dict[str, bool]:
    """Give the names of a file's tests, and whether CI runs each: not what is `vm_long`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    whole = any(
        isinstance(node, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)
        and "vm_long" in ast.unparse(node.value)
        for node in tree.body
    )
    return {
        node.name: not whole and all("vm_long" not in ast.unparse(d) for d in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }

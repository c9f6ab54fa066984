"""The terms of ``report/glossary.toml``, and the anchors by which a report links to them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Term:
    """A term and its definition in one sentence; ``source`` is an RFC, or empty."""

    name: str
    definition: str
    source: str = ""

    @property
    def anchor(self) -> str:
        """The entry's anchor in ``docs/reference/glossary.md``."""
        return anchor(self.name)

    @property
    def link(self) -> str:
        """The source as a Markdown link, or empty."""
        number = self.source.removeprefix("RFC ")
        return f"[{self.source}](https://www.rfc-editor.org/rfc/rfc{number})" if number else ""


def anchor(name: str) -> str:
    """Give a term's anchor: lower case, each run of other characters than a-z and 0-9 one dash."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@cache
def read() -> dict[str, Any]:
    """Give the file: ``terms`` as `Term` by name, and its other tables as they are."""
    path = Path(__file__).parents[1] / "glossary.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    texts = {
        name: [text] if isinstance(text, str) else text for name, text in data["terms"].items()
    }
    return {**data, "terms": {name: Term(name, *text) for name, text in texts.items()}}


def terms() -> dict[str, Term]:
    """Give all terms by name, in alphabetical order."""
    listed: dict[str, Term] = read()["terms"]
    return dict(sorted(listed.items(), key=lambda item: item[0].lower()))

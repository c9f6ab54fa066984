"""What fuzzing of readers of text begins with: shipped files, and what made trouble."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]

#: Inputs that once made trouble, by target; its head says how they are written.
KEPT = ROOT / "tests" / "fuzz_corpus.yaml"
#: Specs with a fault each, and what is said of them.
BROKEN = ROOT / "tests" / "spec" / "broken.yaml"


def kept(target: str) -> Iterator[tuple[str, bytes]]:
    """Give the inputs that once made trouble, with their names."""
    for name, said in YAML(typ="safe").load(KEPT)[target].items():
        if isinstance(said, list):
            said = "".join(text * times for text, times in said)
        yield f"kept-{name}", said.encode() if isinstance(said, str) else said


def broken_specs() -> Mapping[str, bytes]:
    """Give the texts of `BROKEN`, by name; its head says how an entry makes one."""
    table = YAML(typ="safe").load(BROKEN)
    texts = {}
    for name, entry in table["broken"].items():
        text = entry["text"] if "text" in entry else table["bases"][entry.get("base", "red")]
        for old, new in entry.get("change", {}).items():
            section = re.search(rf"^ *{re.escape(old)}: (.*)$", text, flags=re.MULTILINE)
            start, end = section.span(1) if section else (text.find(old), text.find(old) + len(old))
            if not section and text.count(old) != 1:
                raise ValueError(f"{name}: {old!r} does not occur once")
            text = text[:start] + new + text[end:]
        texts[name] = text.encode(entry.get("encoding", "utf-8"))
    return texts


def specs() -> Iterator[tuple[str, bytes]]:
    """Give the shipped experiments, and those with a fault each."""
    for path in sorted((ROOT / "experiments").glob("*.yaml")):
        yield f"experiments-{path.name}", path.read_bytes()
    for name, text in broken_specs().items():
        yield f"broken-{name}.yaml", text


def inventories() -> Iterator[tuple[str, bytes]]:
    """Give the shipped inventories."""
    for path in sorted((ROOT / "testbeds").glob("*.yaml")):
        yield path.name, path.read_bytes()

"""What fuzzing of readers of text begins with: shipped files, files of runs, what made trouble."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ruamel.yaml import YAML

from tcpf_lab.results.layout import RunFiles

ROOT = Path(__file__).parents[2]

#: Inputs that once made trouble, by target; its head says how they are written.
KEPT = ROOT / "tests" / "fuzz_corpus.yaml"
#: Specs with a fault each, and what is said of them.
BROKEN = ROOT / "tests" / "spec" / "broken.yaml"
#: What reports read of a run; the analysis reads the rest.
_SHOWN = ("metrics.json", "manifest.json", "series.npz", "run.yaml", "log/console.txt")
#: Larger ones are captures.
_LARGEST = 60_000


def make(target: str, folder: Path) -> list[Path]:
    """Write the inputs that a target begins with.

    Parameters
    ----------
    target : str
        A name of `tools.fuzz.text_targets.TARGETS`.
    folder : Path
        Made if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, data in (*_OF_TARGET[target](), *kept(target)):
        path = folder / name
        path.write_bytes(data)
        written.append(path)
    return written


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


def _specs() -> Iterator[tuple[str, bytes]]:
    for path in sorted((ROOT / "experiments").glob("*.yaml")):
        yield f"experiments-{path.name}", path.read_bytes()
    for name, text in broken_specs().items():
        yield f"broken-{name}.yaml", text


def _inventories() -> Iterator[tuple[str, bytes]]:
    for path in sorted((ROOT / "testbeds").glob("*.yaml")):
        yield path.name, path.read_bytes()


def _records() -> Iterator[tuple[str, bytes]]:
    return (found for found in _files() if not found[1].startswith(_only_shown()))


def _metrics() -> Iterator[tuple[str, bytes]]:
    return (found for found in _files() if found[1].partition(b"\n")[0].endswith(_shown()))


def _shown() -> tuple[bytes, ...]:
    return tuple(name.encode() for name in _SHOWN)


def _bases() -> Mapping[str, RunFiles]:
    """Give the runs: what makes them is loaded by those who need them."""
    from tools.fuzz import text_runs

    return text_runs.bases()


def _only_shown() -> tuple[bytes, ...]:
    """What the analysis writes, and does not read."""
    names = ("metrics.json", "series.npz", "run.yaml", "plan.txt", "transfers.npz", "log/console")
    return tuple(f"{base}/{name}".encode() for base in _bases() for name in names)


def _files() -> Iterator[tuple[str, bytes]]:
    for base, run in _bases().items():
        for path in sorted(run.root.rglob("*")):
            if path.is_file() and path.stat().st_size < _LARGEST:
                name = f"{base}/{path.relative_to(run.root)}"
                yield name.replace("/", "-"), name.encode() + b"\n" + path.read_bytes()


_OF_TARGET = {
    "spec": _specs,
    "inventory": _inventories,
    "records": _records,
    "metrics": _metrics,
}

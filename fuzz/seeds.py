"""The captures that fuzzing begins with: short stretches of recorded ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import zstandard

from fuzz.containers import Taken, as_pcapng, connections, put_together, take_apart

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "data" / "recorded-run" / "pcap"
#: Inputs that once made trouble.
KEPT = ROOT / "tests" / "trace" / "corpus"
_STRETCHES, _LENGTH = 10, 40
#: Connections of a capture of which a few packets are taken, and how many behind the first three.
_CONNECTIONS, _FEW = 4, 12


def recorded() -> list[tuple[str, bytes]]:
    """Give the recorded captures, whole, with their names."""
    found = []
    for path in sorted(RECORDED.glob("*.pcap.zst")):
        with path.open("rb") as file:
            data = zstandard.ZstdDecompressor().stream_reader(file).read()
        found.append((path.name.removesuffix(".zst"), data))
    return found


def make(folder: Path, seed: int) -> list[Path]:
    """Write stretches of the recorded captures, and inputs that once made trouble.

    Parameters
    ----------
    folder : Path
        Made if need be.
    seed : int
        Where the stretches begin.
    """
    return _write(folder, [*_stretches(random.Random(seed)), *_kept()])


def make_small(folder: Path) -> list[Path]:
    """Write a few packets of each connection, and inputs that once made trouble.

    Parameters
    ----------
    folder : Path
        Made if need be.
    """
    return _write(folder, [*_beginnings(), *_kept()])


def _write(folder: Path, inputs: list[tuple[str, bytes]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, data in inputs:
        path = folder / name
        path.write_bytes(data)
        written.append(path)
    return written


def _stretches(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for name, data in recorded():
        whole = take_apart(data)
        if whole is None:
            continue
        last = max(1, len(whole.records) - _LENGTH)
        for begin in [0, *(rng.randrange(last) for _ in range(_STRETCHES))]:
            part = whole.records[begin : begin + _LENGTH]
            stretch = Taken(whole.head, whole.order, part)
            yield f"{name.partition('.')[0]}-{begin}.pcap", put_together(stretch)
        yield f"{name}ng", as_pcapng(stretch)


def _beginnings() -> Iterator[tuple[str, bytes]]:
    for name, data in recorded():
        whole = take_apart(data)
        if whole is None:
            continue
        for number, records in enumerate(connections(whole)[:_CONNECTIONS]):
            for begin in (3, 20, 60):
                part = records[:3] + records[begin : begin + _FEW]
                stretch = Taken(whole.head, whole.order, part)
                yield f"{name[:-5]}-{number}-{begin}.pcap", put_together(stretch)
        yield f"{name}ng", as_pcapng(stretch)


def _kept() -> Iterator[tuple[str, bytes]]:
    for path in sorted(KEPT.glob("*.pcap*")):
        yield f"kept-{path.name}", path.read_bytes()

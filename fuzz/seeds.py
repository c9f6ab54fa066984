"""The captures that fuzzing begins with: short stretches of recorded ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import zstandard

from fuzz.containers import Taken, as_pcapng, put_together, take_apart

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "data" / "recorded-run" / "pcap"
#: Inputs that once made trouble.
KEPT = ROOT / "tests" / "trace" / "corpus"
_STRETCHES, _LENGTH = 10, 40


def make(folder: Path, seed: int) -> list[Path]:
    """Write the seeds into a folder.

    Parameters
    ----------
    folder : Path
        Made if need be.
    seed : int
        Where in the recorded captures the stretches begin.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, data in [*_recorded(random.Random(seed)), *_kept()]:
        path = folder / name
        path.write_bytes(data)
        written.append(path)
    return written


def _recorded(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for path in sorted(RECORDED.glob("*.pcap.zst")):
        with path.open("rb") as file:
            data = zstandard.ZstdDecompressor().stream_reader(file).read()
        whole = take_apart(data)
        if whole is None:
            continue
        last = max(1, len(whole.records) - _LENGTH)
        for begin in [0, *(rng.randrange(last) for _ in range(_STRETCHES))]:
            part = whole.records[begin : begin + _LENGTH]
            stretch = Taken(whole.head, whole.order, part)
            yield f"{path.name.partition('.')[0]}-{begin}.pcap", put_together(stretch)
        yield f"{path.name.partition('.')[0]}.pcapng", as_pcapng(stretch)


def _kept() -> Iterator[tuple[str, bytes]]:
    for path in sorted(KEPT.glob("*.pcap*")):
        yield f"kept-{path.name}", path.read_bytes()

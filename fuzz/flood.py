"""Many mutated captures through the compiled code: ``python -m fuzz.flood SEEDS OUT SECONDS SEED``.

With ``NUMBA_BOUNDSCHECK=1`` an index out of bounds is an exception.  What is being tried is kept in
``OUT/current``, so that it is there after a crash; an input that takes too long ends the process.
"""

from __future__ import annotations

import faulthandler
import io
import json
import random
import resource
import sys
import time
from pathlib import Path

from fuzz.mutate import mutate
from fuzz.subject import answer

#: Seconds that an input may take.
LIMIT_S = 10
#: What the process may grow by while it works, kB.
GROWTH_KB = 200_000
#: Of so many inputs one is kept, to be answered in the other ways too.
_KEPT = 500
_MOST_FAULTS = 20


def flood(seeds: list[bytes], out: Path, seconds: float, seed: int) -> dict[str, int]:
    """Try mutations of ``seeds``, and of those mutations, for some time.

    Parameters
    ----------
    seeds : list of bytes
        Captures.
    out : Path
        Where ``current`` is, what raised (``fault-*``) and every 500th input (``input-*``).
    seconds : float
        For how long.
    seed : int
        Of everything random.

    Returns
    -------
    dict
        ``inputs`` tried, ``faults`` found, ``growth_kb`` of the process.
    """
    rng, pool = random.Random(seed), list(seeds)
    for data in seeds:
        answer(data)
    before = _memory_kb()
    tried = faults = 0
    current = io.FileIO(out / "current", "w")
    until = time.monotonic() + seconds
    while time.monotonic() < until and faults < _MOST_FAULTS:
        data = mutate(rng.choice(pool), rng.getrandbits(48))
        _write(current, data)
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            answer(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for
            faults += 1
            (out / f"fault-{faults}").write_bytes(data)
            sys.stderr.write(f"fault-{faults}: {type(error).__name__}: {error}\n")
        tried += 1
        if tried % _KEPT == 0:
            (out / f"input-{tried}").write_bytes(data)
        if rng.random() < 0.01:  # mutations of mutations, but never far from what was recorded
            pool[rng.randrange(len(pool))] = rng.choice((data, rng.choice(seeds)))
    faulthandler.cancel_dump_traceback_later()
    current.close()
    (out / "current").unlink()
    return {"inputs": tried, "faults": faults, "growth_kb": _memory_kb() - before}


def _write(current: io.FileIO, data: bytes) -> None:
    current.seek(0)
    current.truncate()
    current.write(data)


def _memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    folder, target, length, number = sys.argv[1:5]
    known = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    print(json.dumps(flood(known, Path(target), float(length), int(number))))

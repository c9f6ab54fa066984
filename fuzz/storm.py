"""Inputs made, read, analysed and judged in compiled code, some ten thousand a second.

``python -m fuzz.storm CAPTURES OUT SECONDS SEED`` tries inputs for some time and writes a
digest of every answer to ``OUT/answers-SEED``.  Where that file is there already, it tries the same
inputs, whatever SECONDS says, and holds its answers against it: one process has
``NUMBA_BOUNDSCHECK=1`` and the other has not.

The input that is being tried is in ``OUT/current``, whatever ends the process; what follows its end
there is left of longer ones.  Inputs that reached something new are changed further.  A sample of
all is kept in ``OUT/inputs``, to be answered in other ways too, with the one that went wrong.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz import pool as stretches
from fuzz.sound import WRONG
from fuzz.stage import LARGEST, MOST, new_stage
from fuzz.storm_code import END, EVENTS, FEATURES, LINKS, NEXT, NOVEL, NUMBERS, PACKETS, SEED, batch
from fuzz.subject import OPTIONS
from tcpf_lab.trace.distance import new_waiting
from tcpf_lab.trace.events import EVENT, FLOW
from tcpf_lab.trace.layout import new_interface, new_layout
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.pcapng import LARGEST_BLOCK
from tcpf_lab.trace.scan import new_counters
from tcpf_lab.trace.scoreboard import HEADROOM, new_arena
from tcpf_lab.trace.sender import SENDER
from tcpf_lab.trace.step import COUNTERS
from tcpf_lab.trace.table import CONNECTION, new_table

#: Inputs per call, and seconds that a call may take: a thousand times what it does.
BATCH, LIMIT_S = 1000, 60
#: The same for the first, which compiles.
COMPILE_S = 1800
#: Of so many inputs one is kept.
_KEPT = 50_000
_NONE = np.zeros(0, np.uint64)
#: Rows of the block that packets are read into: fewer than an input may have.
_ROWS = 24
_LARGEST_RECORD = 262_144


class Storm:
    """What inputs are made of, and what is left of each.

    Parameters
    ----------
    captures : list of bytes
        What inputs are made of.
    seed : int
        Of everything random.
    current : Path
        File that always holds the input being tried.
    """

    def __init__(self, captures: list[bytes], seed: int, current: Path) -> None:
        self.numbers = np.zeros(NUMBERS, np.int64)
        self.numbers[SEED] = seed * 0x5851F42D4C957F2D & 0x7FFFFFFFFFFFFFFF
        self.out = np.memmap(current, np.uint8, "w+", shape=(LARGEST,))
        self._dice = np.zeros(1, np.uint64)
        self._makings = (stretches.make(captures), new_stage(), np.asarray(self.out))
        flows, senders = np.zeros(4 * MOST, FLOW), np.zeros(4 * MOST, SENDER)
        connections, events = np.zeros(4 * MOST, CONNECTION), np.zeros(16 * MOST, EVENT)
        arena, heap = new_arena(16 * HEADROOM)
        self._world = (
            *(new_table(16 * MOST), (connections, flows, senders), (arena, heap, events)),
            *(new_waiting(4 * MOST), np.zeros(COUNTERS, np.int64), new_counters()),
            np.zeros(_ROWS, PACKET),
        )
        self._words = (_words(flows), _words(senders), _words(events))
        settings = tuple(options.settings for options in OPTIONS)
        self._tables = (_layouts(), _interfaces(), settings, np.zeros(FEATURES, np.int64))

    def run(self, digests: NDArray[np.uint64], expected: NDArray[np.uint64]) -> str:
        """Try inputs; what is wrong with the last one, empty: with none.

        Parameters
        ----------
        digests : uint64, shape (n,)
            Filled with digests of the answers to as many inputs.
        expected : uint64, shape (n,) or (0,)
            What they must be, if that is known.
        """
        try:
            wrong = batch(
                *(self.numbers, self._dice, digests, expected, self._makings),
                *(self._world, self._words, self._tables),
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for
            return f"{type(error).__name__}: {error}"
        return WRONG[int(wrong)]

    def input(self) -> bytes:
        """Give the input that was tried last."""
        return self.out[: int(self.numbers[END])].tobytes()

    @property
    def features(self) -> int:
        """What was reached: kinds of events in a row, states of senders, ends of captures."""
        return int(self._tables[3].sum())

    @property
    def counts(self) -> dict[str, int]:
        """What has been done so far."""
        names = {"inputs": NEXT, "packets": PACKETS, "events": EVENTS, "novel": NOVEL}
        told = {name: int(self.numbers[entry]) for name, entry in names.items()}
        return {**told, "features": self.features}


def _words(array: NDArray[Any]) -> NDArray[np.uint64]:
    """Give the same memory as rows of 64-bit words."""
    return array.view(np.uint64).reshape(array.size, -1)


def _layouts() -> NDArray[np.int64]:
    """pcap, little and big endian, pcapng likewise, and a row for the one in use."""
    rows = [new_layout(16, big, _LARGEST_RECORD) for big in (False, True)]
    rows += [new_layout(0, big, LARGEST_BLOCK) for big in (False, True)]
    return np.array([*rows, rows[0]])


def _interfaces() -> NDArray[np.int64]:
    """For each link type nanoseconds and microseconds, shape (n, 1, INTERFACE)."""
    return np.array([[new_interface(link, unit)] for link in LINKS for unit in (1, 1000)])


def storm(captures: list[bytes], out: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Try inputs for some time, or those that there are answers to already.

    Parameters
    ----------
    captures : list of bytes
        What inputs are made of.
    out : Path
        Where inputs and answers go.
    seconds : float
        For how long, if there are no answers yet.
    seed : int
        Of everything random.

    Returns
    -------
    dict
        ``inputs`` tried, their ``packets`` and ``events``, ``novel`` ones, ``features`` reached, by
        the number of inputs (``growth``), ``seconds`` and ``cpu_seconds`` after compilation,
        ``growth_kb`` of the process, and ``problem``, empty without one.
    """
    work, answers, inputs = (
        Storm(captures, seed, out / "current"),
        out / f"answers-{seed}",
        "inputs",
    )
    known = np.fromfile(answers, np.uint64) if answers.exists() else _NONE
    digests, growth, clock, problem, tried = np.zeros(BATCH, np.uint64), {}, Clock(), "", 0
    (out / inputs).mkdir(exist_ok=True)
    (out / inputs / f"wrong-{seed}").unlink(missing_ok=True)
    with (out / "unfinished").open("wb") as file:
        while clock.seconds < seconds if known is _NONE else tried < known.size:
            faulthandler.dump_traceback_later(LIMIT_S if tried else COMPILE_S, exit=True)
            problem = work.run(digests, known[tried : tried + BATCH])
            if problem:
                (out / inputs / f"wrong-{seed}").write_bytes(work.input())
                break
            digests.tofile(file)
            tried += BATCH
            if tried == BATCH:
                clock = Clock()  # everything is compiled now
            if (tried // BATCH).bit_count() == 1:
                growth[tried] = work.features
            if tried % _KEPT == 0:
                (out / inputs / f"{seed}-{tried}").write_bytes(work.input())
    faulthandler.cancel_dump_traceback_later()
    if not problem and known is _NONE:
        (out / "unfinished").replace(answers)
    (out / "unfinished").unlink(missing_ok=True)
    return {**work.counts, "growth": growth, **clock.passed, "problem": problem}


class Clock:
    """Time and memory since it was made."""

    def __init__(self) -> None:
        self._began, self._worked, self._before = (
            time.monotonic(),
            time.process_time(),
            _memory_kb(),
        )

    @property
    def seconds(self) -> float:
        """Seconds that have passed."""
        return time.monotonic() - self._began

    @property
    def passed(self) -> dict[str, float]:
        """``seconds``, ``cpu_seconds`` of this process, and what it has grown by."""
        return {
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(time.process_time() - self._worked, 1),
            "growth_kb": _memory_kb() - self._before,
        }


def _memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    folder, target, length, number = sys.argv[1:5]
    found = [path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()]
    print(json.dumps(storm(found, Path(target), float(length), int(number))))

"""How long the command line takes before it does anything: whole processes.

``python -m tools.bench.bench_startup [--rounds N]`` prints one JSON object: for each command the
median of its wall and processor time, and the ratio of the latter to that of an interpreter that
does nothing, measured in turn.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tcpf_lab.base.errors import LabError

ROUNDS = 9
#: What nothing can be faster than.
BARE = "python"
TCPF_LAB = (sys.executable, "-m", "tcpf_lab")
COMMANDS: dict[str, tuple[str, ...]] = {
    BARE: (sys.executable, "-c", "pass"),
    "--help": (*TCPF_LAB, "--help"),
    "plan configA.yaml": (*TCPF_LAB, "plan", "configA.yaml"),
    "status configA.yaml": (*TCPF_LAB, "status", "configA.yaml"),
}


class Taken(NamedTuple):
    """Seconds of one process."""

    wall: float
    processor: float


def take(words: Sequence[str]) -> Taken:
    """Run a command once.

    Raises
    ------
    LabError
        If it fails.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise LabError(f"{' '.join(words[1:])}: status {done.returncode}: {done.stderr.strip()}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(wall, used)


def main(rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure every command in turn, after one round that fills the caches."""
    taken: dict[str, list[Taken]] = {name: [] for name in COMMANDS}
    for number in range(rounds + 1):
        for name, words in COMMANDS.items():
            one = take(words)
            if number:
                taken[name].append(one)
    return summary(taken)


def summary(taken: dict[str, list[Taken]]) -> dict[str, Any]:
    """Give medians in milliseconds, and ratios of processor time to the bare interpreter's."""
    least = statistics.median(one.processor for one in taken[BARE])
    return {
        name: {
            "wall_ms": round(1000 * statistics.median(one.wall for one in each)),
            "processor_ms": round(1000 * statistics.median(one.processor for one in each)),
            "ratio": round(statistics.median(one.processor for one in each) / least, 1),
        }
        for name, each in taken.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(json.dumps(main(parser.parse_args().rounds), indent=1))

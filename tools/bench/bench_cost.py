"""Instructions per packet in the queue disciplines and markers, beside mainline's red.

``python -m tools.bench.bench_cost`` prints one JSON object.  The modules and mainline's sch_red.c
are compiled as for the virtual-time kernel and linked into a program (how, says
``kernel/tests/cost/cost.h``); callgrind counts what is executed between the call of ``enqueue``,
``dequeue`` or ``act`` and its return.  The figures depend on compiler and kernel source, not on the
machine or its load.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.uml.recipe import DEFAULT_SOURCE

SOURCES = Path(tcpf_lab.__file__).parent.parent / "kernel" / "tests" / "cost"
FLOWS = (1, 16, 256, 4096, 65536)
#: What does not look at flows is measured once.
ONE = (256,)
PER_PACKET = {
    "red": ONE,
    "rio": ONE,
    "frio": FLOWS,
    "token_reset": ONE,
    "token_continuous": ONE,
    "token_flow": FLOWS,
    "tcpf": FLOWS,
    "tcpf_ack": FLOWS,
}
PER_TICK = {"tcpf_tick": FLOWS}
PACKETS = 20_000
TICKS = 4
#: Functions of the harness that callgrind counts the inside of.
COUNTED = "cost_counted_"


def build(directory: Path, tree: Path, source: Path = DEFAULT_SOURCE) -> Path:
    """Build the program in ``directory`` and return its path.

    Raises
    ------
    RequestError
        If something that it takes is missing, or it does not compile.
    """
    if not source.exists():
        raise RequestError(
            "mainline's red cannot be measured without the kernel's source",
            where=str(source),
            hint="install the package linux-source-6.12",
        )
    variables = (f"O={directory}", f"TREE={tree.resolve()}", f"SOURCE={source}")
    made = subprocess.run(
        ["make", "-s", "-C", str(SOURCES), *variables],
        env={"PATH": os.environ.get("PATH", os.defpath)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode:
        said = "\n".join(made.stdout.splitlines()[-20:])
        raise RequestError(f"the harness does not compile:\n{said}", where=str(SOURCES))
    return directory / "cost"


def count(program: Path, kind: str, flows: int, packets: int) -> float:
    """Return the instructions per counted packet (or tick) of ``kind`` with ``flows`` flows."""
    profile = program.with_name(f"profile-{kind}-{flows}")
    options = ("--dump-line=no", "--compress-strings=no", f"--toggle-collect={COUNTED}*")
    warm = max(PACKETS, 2 * flows)
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={profile}",
            *options,
            *(str(program), kind, str(flows), str(warm), str(packets)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RequestError(f"measuring {kind} has failed:\n{done.stderr}", where=str(program))
    return instructions(profile.read_text(encoding="utf-8")) / packets


def instructions(profile: str) -> int:
    """Add up what a profile of callgrind says, but for the harness' own functions."""
    total, ours, call = 0, False, False
    for line in profile.splitlines():
        if line.startswith("fn="):
            ours = COUNTED in line
        elif line.startswith("calls="):
            call = True
        elif found := re.fullmatch(r"[+*-]?\d* ?(\d+)", line):
            total += 0 if call or ours else int(found[1])
            call = False
    return total


def require() -> None:
    """Raise `RequestError` if the program that counts is missing."""
    if not shutil.which("valgrind"):
        raise RequestError("valgrind is not installed", hint="install the package valgrind")


def main() -> dict[str, Any]:
    """Measure everything.

    Returns
    -------
    dict
        Instructions per packet and per tick by kind and number of flows, ratios to red (of the
        dearest number of flows), and the dearest over the cheapest number of flows.

    Raises
    ------
    RequestError
        If valgrind is missing, or the harness does not compile.
    KernelBuildError
        If the virtual-time kernel has not been built.
    """
    require()
    tree = kernel.require("standard").tree
    with tempfile.TemporaryDirectory() as directory:
        program = build(Path(directory), tree)
        packet = _counts(program, PER_PACKET, PACKETS)
        tick = _counts(program, PER_TICK, TICKS)
    return {"per_packet": packet, "per_tick": tick, **ratios(packet)}


def _counts(
    program: Path, kinds: Mapping[str, tuple[int, ...]], packets: int
) -> dict[str, dict[str, float]]:
    return {
        kind: {str(number): round(count(program, kind, number, packets), 1) for number in flows}
        for kind, flows in kinds.items()
    }


def ratios(per_packet: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Compare the queue disciplines with red, and the numbers of flows with each other."""
    red = max(per_packet["red"].values())
    return {
        "ratio_to_red": {
            kind: round(max(per_packet[kind].values()) / red, 2) for kind in ("rio", "frio")
        },
        "dearest_to_cheapest": {
            kind: round(max(counts.values()) / min(counts.values()), 2)
            for kind, counts in per_packet.items()
            if len(counts) > 1
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))

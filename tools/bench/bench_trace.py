"""The analysis of captures against tcptrace, tshark and dpkt: packets per second, peak memory.

``python -m tools.bench.bench_trace [--rounds N]`` prints one JSON object.  All work on the same
files, one process each, in turn, on one core.  Seconds are those of the processor, user and system,
so that a busy machine gives the same rate; they count the whole process, start and imports
included.  The capture on standard input shares the core with the process that makes it.  tcptrace
follows every connection (-l) with its round-trip times (-r); tshark lists retransmissions; dpkt
parses headers and options only.  Two threads and packed files have both cores, and their seconds
are those of the clock; beside them stands the time that unpacking alone takes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.registry import testbed
from tools.bench import endless
from tools.bench.virtual_time import chapter_run, one_core

ROUNDS = 3
#: The lab's capture: flows with SACK through RED, and virtual seconds, for some 550,000 packets.
FLOWS, SECONDS = 400, 390
#: Bytes of the file that is made, and of the capture that never is a file.
LARGE, ENDLESS = 500_000_000, 20_000_000_000
#: What the analysis of the latter may take.
MEMORY_LIMIT = 1 << 30
NEEDED = ("tcptrace", "tshark", "gzip", "zstd", "cargo")

_DPKT = """
import sys, dpkt
for _, frame in dpkt.pcap.Reader(open(sys.argv[1], 'rb')):
    segment = dpkt.ethernet.Ethernet(frame).data.data
    dpkt.tcp.parse_opts(segment.opts)
"""
#: A small process starts the command: what its parent had in memory counts as the command's own.
_LAUNCH = """
import os, sys, time
began = time.monotonic()
child = os.fork()
if not child:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
wall = time.monotonic() - began
os.write(int(sys.argv[1]), b"%f %d %f" % (used.ru_utime + used.ru_stime, used.ru_maxrss, wall))
sys.exit(min(os.waitstatus_to_exitcode(status) % 256, 255))
"""
_OURS = (sys.executable, "-m", "tcpf_lab", "analyze", "--json")
_CRATE = Path(__file__).parents[2] / "trace"
_BINARY = (str(_CRATE / "target/release/tcpf-trace"), "--json")


class Spent(NamedTuple):
    """What a process took: seconds of the processor, bytes of memory, seconds of the clock."""

    seconds: float
    memory: int
    wall: float


def commands(path: Path) -> dict[str, list[str]]:
    """Give what analyses a file, by name."""
    return {
        "tcpf-trace": [*_BINARY, "--threads", "1", str(path)],
        "tcpf-lab": [*_OURS, str(path)],
        "tcptrace": ["tcptrace", "-n", "-l", "-r", str(path)],
        "tshark": [
            *("tshark", "-n", "-r", str(path), "-Y", "tcp.analysis.retransmission"),
            *("-T", "fields", "-e", "frame.number"),
        ],
        "dpkt": [sys.executable, "-c", _DPKT, str(path)],
    }


def require() -> None:
    """Raise if a tool is missing; build the binary."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        words = " ".join(missing)
        raise RequestError(f"not installed: {words}", hint=f"apt-get install {words}")
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=_CRATE, check=True)


def main(rounds: int = ROUNDS, *, endless_bytes: int = ENDLESS) -> dict[str, Any]:
    """Measure everything.

    Parameters
    ----------
    rounds : int
        How often each is measured, standard input too; medians are given.
    endless_bytes : int
        Length of the capture on standard input.

    Returns
    -------
    dict
        ``files``: for each its ``packets``, ``bytes``, and by tool ``packets_per_s``,
        ``cpu_seconds`` and ``peak_memory_bytes``; ``stdin``: the same of the endless capture;
        ``two_cores``: seconds of the clock of the generated one.

    Raises
    ------
    RequestError
        If a tool is missing.
    LabError
        If one fails, or the analysis takes more memory than it may.
    """
    require()
    with tempfile.TemporaryDirectory(prefix="tcpf-bench-") as name:
        folder = Path(name)
        large = generated(folder / "generated.pcap")
        with one_core():
            found = {
                "lab_400_flows": measure(lab_capture(folder), rounds),
                "generated": measure(large, rounds),
            }
            stdin = from_stdin(endless_bytes, rounds)
        two = on_two_cores(large, rounds)
    return {"rounds": rounds, "files": found, "stdin": stdin, "two_cores": two}


def on_two_cores(path: Path, rounds: int) -> dict[str, Any]:
    """Time one thread, two threads, and packed files beside what unpacks them; medians."""
    packed = {"gzip": path.with_suffix(".gz"), "zstd": path.with_suffix(".zst")}
    for tool, target in packed.items():
        with target.open("wb") as file:
            subprocess.run([tool, "-c", str(path)], stdout=file, check=True)
    work = {
        "one thread": [*_BINARY, "--threads", "1", str(path)],
        "two threads": [*_BINARY, "--threads", "2", str(path)],
        **{f"of {tool}": [*_BINARY, str(target)] for tool, target in packed.items()},
        **{f"{tool} alone": [tool, "-dc", str(target)] for tool, target in packed.items()},
    }
    spent: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, command in work.items():
            spent.setdefault(name, []).append(run(command).wall)
    return {name: round(statistics.median(walls), 3) for name, walls in spent.items()}


def lab_capture(folder: Path) -> Path:
    """Make the sender's capture of flows with SACK through RED."""
    files, run = RunFiles(folder / "run"), chapter_run(SECONDS, flows=FLOWS)
    files.create()
    testbed("uml").execute(compose(run), files, run.seed)
    return files.capture("S")


def generated(path: Path, size: int = LARGE) -> Path:
    """Make a large capture."""
    with path.open("wb") as file:
        endless.write(file, size, 100)
    return path


def count(path: Path) -> int:
    """Count the records of a capture."""
    from tcpf_lab.trace.packet import read_capture

    return read_capture(path).records


def measure(path: Path, rounds: int) -> dict[str, Any]:
    """Let each tool analyse a file, in turn; its medians."""
    packets = count(path)
    spent: dict[str, list[Spent]] = {}
    run(commands(path)["tcpf-lab"])  # brings the file into memory
    for _ in range(rounds):
        for tool, command in commands(path).items():
            spent.setdefault(tool, []).append(run(command))
    tools = {tool: summary(packets, measured) for tool, measured in spent.items()}
    return {"packets": packets, "bytes": path.stat().st_size, "tools": tools}


def summary(packets: int, measured: Sequence[Spent]) -> dict[str, Any]:
    """Give medians of processor seconds and bytes of memory."""
    seconds = statistics.median(one.seconds for one in measured)
    return {
        "packets_per_s": round(packets / seconds),
        "cpu_seconds": round(seconds, 3),
        "peak_memory_bytes": round(statistics.median(one.memory for one in measured)),
    }


def run(command: Sequence[str], stdin: Any = subprocess.DEVNULL) -> Spent:
    """Run a command to its end; what its process took.

    Raises
    ------
    LabError
        If it fails.
    """
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as used:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _LAUNCH, str(used.fileno()), *command],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=told,
            pass_fds=[used.fileno()],
            cwd=_root(),
            check=False,
        )
        told.seek(0)
        if done.returncode:
            last = told.read().decode(errors="replace").strip().splitlines()[-1:]
            raise LabError(f"status {done.returncode}: {''.join(last)}", where=command[0])
        used.seek(0)
        seconds, kilobytes, wall = used.read().split()
    return Spent(float(seconds), int(kilobytes) * 1024, float(wall))


def _root() -> Path:
    return Path(__file__).parents[2]


def from_stdin(size: int, rounds: int) -> dict[str, Any]:
    """Analyse a capture that another process makes; how fast, and in how much memory."""
    packets, measured = 0, []
    for _ in range(rounds):
        with _maker(size) as maker:
            measured.append(run([*_BINARY, "--threads", "1", "-"], maker.stdout))
            packets = int(maker.stderr.read()) if maker.stderr else 0
    memory = max(one.memory for one in measured)
    if memory > MEMORY_LIMIT:
        raise LabError(f"{memory} bytes of memory for a capture of {size} bytes on stdin")
    return {"bytes": size, "packets": packets, **summary(packets, measured)}


@contextmanager
def _maker(size: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that makes a capture; it ends with the block."""
    command = [sys.executable, "-m", "tools.bench.endless", str(size)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=_root()) as maker:
        try:
            yield maker
        finally:
            maker.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--endless-bytes", type=lambda word: int(float(word)), default=ENDLESS)
    options = parser.parse_args()
    print(json.dumps(main(options.rounds, endless_bytes=options.endless_bytes), indent=1))

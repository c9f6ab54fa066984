"""How many simulated seconds ns-3 does in a real second on one core, for the same load."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcpf_lab.base.errors import LabError, RequestError

SCRIPT = Path(__file__).with_name("ns3_chain.py")
INSTALL = "pip install 'tcpf-lab[bench]', or name the interpreter of an environment that has ns3"
#: Simulated seconds of one run.
SECONDS = 60
#: Real seconds for loading ns-3, and for each simulated second: ten times what a slow machine took.
LOAD_LIMIT_S = 300.0
LIMIT_PER_SIMULATED_S = 5.0


def measure(
    repetitions: int, seconds: int = SECONDS, python: str | Path | None = None
) -> dict[str, Any]:
    """Run configuration A (RED, 100 flows, seed 1) in ns-3, one process per repetition.

    Parameters
    ----------
    repetitions : int
        How often; at least 1.
    seconds : int
        Simulated seconds of each.
    python : str or Path, optional
        Interpreter of an environment that has the package ``ns3``; by default the running one.

    Returns
    -------
    dict
        ``simulated_per_wall_second`` counts ``Simulator::Run`` alone and is what ns-3 is compared
        by; ``process_per_wall_second`` counts the whole process, loading of the bindings included.

    Raises
    ------
    RequestError
        If ``repetitions`` or ``seconds`` is less than 1.
    LabError
        If ns-3 cannot be imported there, or a simulation fails.
    """
    if repetitions < 1 or seconds < 1:
        raise RequestError("ns-3 needs at least 1 repetition of at least 1 second")
    return summary([run(seconds, python) for _ in range(repetitions)])


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what ``runs`` of equal length have in common, and their rates."""
    first = runs[0]
    simulated = first["simulated_seconds"]
    wall = [run["wall_seconds"] for run in runs]
    process = [run["process_seconds"] for run in runs]
    return {
        "ns3_version": first["ns3_version"],
        "ns3_logging_compiled_in": first["ns3_logging_compiled_in"],
        "simulated_seconds": simulated,
        "wall_seconds": [round(s, 3) for s in wall],
        "process_seconds": [round(s, 3) for s in process],
        "simulated_per_wall_second": spread(simulated, wall),
        "process_per_wall_second": spread(simulated, process),
        "received_mbit_per_s": round(first["received_bytes"] * 8e-6 / simulated, 3),
        "red_loss_percent": round(
            100 * first["red_dropped_packets"] / first["red_received_packets"], 2
        ),
    }


def spread(simulated: float, wall_seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, least and greatest of the simulated seconds per wall second."""
    rates = sorted(simulated / s for s in wall_seconds)
    return {
        "median": round(statistics.median(rates), 1),
        "min": round(rates[0], 1),
        "max": round(rates[-1], 1),
    }


def run(seconds: int, python: str | Path | None = None) -> dict[str, Any]:
    """Run it once, in a process of its own on one core; return what that process printed."""
    interpreter = str(python or sys.executable)
    require(interpreter)
    command = [interpreter, str(SCRIPT), "--seconds", str(seconds), "--seed", "1"]
    done = _process(command, LOAD_LIMIT_S + LIMIT_PER_SIMULATED_S * seconds)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise LabError(f"ns-3 ended with status {done.returncode}: {last[0]}", where=interpreter)
    return _result(done.stdout, interpreter)


def _result(printed: str, interpreter: str) -> dict[str, Any]:
    """Return the JSON object on the last line: ns-3 itself may print before it."""
    last = printed.strip().rpartition("\n")[2]
    try:
        result = json.loads(last)
    except json.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        raise LabError(f"ns-3 printed no result but {last[:80]!r}", where=interpreter)
    return result


def require(interpreter: str) -> None:
    """Raise if an interpreter is none, or has no package ``ns3``."""
    if shutil.which(interpreter) is None:
        raise LabError("no such interpreter", where=interpreter, hint=INSTALL)
    probe = "import importlib.util as u; raise SystemExit(u.find_spec('ns3') is None)"
    if _process([interpreter, "-c", probe], LOAD_LIMIT_S).returncode != 0:
        raise LabError("the package ns3 is not installed", where=interpreter, hint=INSTALL)


def _process(command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command on one core, in an empty directory: ns-3 searches the current one."""
    core = max(os.sched_getaffinity(0))
    with TemporaryDirectory(prefix="tcpf-bench-") as empty:
        try:
            return subprocess.run(
                ["taskset", "--cpu-list", str(core), *command],
                cwd=empty,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except FileNotFoundError:
            raise LabError("taskset is not installed", hint="install util-linux") from None
        except subprocess.TimeoutExpired:
            raise LabError(f"no end after {limit_s:.0f} s", where=command[0]) from None

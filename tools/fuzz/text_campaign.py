"""One target of text after the other: libFuzzer for some time, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from tools.fuzz import text_seeds

#: Runs a module with words, within so many seconds.
Python = Callable[[list[str], Path, float], CompletedProcess[str]]
#: Seconds that one input may take, megabytes that the process may, and bytes of an input.
_LIMIT_S, _MOST_MB, _LONGEST = 60, 2048, 30_000
#: Seconds in which a process must begin to work.
_BEGIN_S = 600
#: Of a process that reports nothing but the fault so many lines are told.
_TOLD = 3


def fuzz_text(
    target: str, seconds: float, seed: int, output: Path, python: Python, problems: list[str]
) -> int:
    """Fuzz one target, guided by coverage.

    Parameters
    ----------
    target : str
        A name of `tools.fuzz.text_targets.TARGETS`.
    seconds : float
        For how long.
    seed : int
        Of everything random.
    output : Path
        Where ``seeds``, ``corpus`` (what reached something new) and ``crashes`` are.
    python : callable
        Runs the target.
    problems : list of str
        Gets a line for every crash.

    Returns
    -------
    int
        Executions.
    """
    folders = {name: output / name for name in ("seeds", "corpus", "crashes")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    text_seeds.make(target, folders["seeds"])
    before = set(folders["crashes"].iterdir())
    words = [
        *(f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-timeout={_LIMIT_S}"),
        f"-report_slow_units={_LIMIT_S}",
        *(f"-rss_limit_mb={_MOST_MB}", f"-max_len={_LONGEST}", "-print_final_stats=1"),
        *("-verbosity=0", f"-artifact_prefix={folders['crashes']}/"),
    ]
    command = [
        "tools.fuzz.text_target",
        target,
        str(folders["corpus"]),
        str(folders["seeds"]),
        *words,
    ]
    done = python(command, output, seconds + _BEGIN_S)
    crashes = sorted(set(folders["crashes"].iterdir()) - before)
    said = fault(done.stderr)
    problems += [f"{target}: {path}: {said}" for path in crashes]
    if done.returncode and not crashes:
        problems.append(f"{target}: ended with status {done.returncode}: {said}")
    counts = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
    return int(counts[-1]) if counts else 0


def fault(said: str) -> str:
    """Give what a process said of its fault: the exception, or its last lines."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if "Error" in line and "===" not in line]
    return "; ".join(raised[:1] or lines[-_TOLD:])

"""``python -m tools.fuzz``: readers of captures, specs and runs against what is not as expected."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.results.layout import write_json
from tcpf_lab.spec.words import unknown
from tools.fuzz.text_seeds import ROOT, kept
from tools.fuzz.text_target import TARGETS

#: The name of what is no text, and its share of the time where nothing was asked for.
CAPTURES, _SHARE = "captures", 0.5
#: Seconds that building takes at most.
_BUILD_S = 1800
#: Seconds that one input may take, megabytes that the process may, and bytes of an input.
_LIMIT_S, _MOST_MB, _LONGEST = 60, 2048, 30_000
#: Seconds in which a process must begin to work.
_BEGIN_S = 600
#: Of a process that reports nothing but the fault so many lines are told.
_TOLD = 3

out = Console(highlight=False, markup=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, markup=False)


def main(
    minutes: Annotated[
        float, typer.Argument(metavar="MINUTES", min=0.1, help="How long inputs are tried.")
    ] = 10.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=1, help="Of everything random.")
    ] = 1,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where inputs and verdict go.")
    ] = Path("results/fuzz"),
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help=f"What is fuzzed, one of {', '.join((CAPTURES, *TARGETS))}; several times for "
            "several, which share the time. Left out, all.",
        ),
    ] = None,
) -> None:
    """Try mutated captures, specs, inventories and records of runs; nothing may be a surprise."""
    try:
        shares = _shares(target or ())
        verdict = _every(shares, 60 * minutes, seed, output.resolve())
    except LabError as error:
        err.print(f"error: {error}")
        raise typer.Exit(error.exit_status) from None
    write_json(output / "verdict.json", verdict)
    for problem in verdict["problems"]:
        out.print(problem)
    for said in _told(verdict):
        out.print(said)
    out.print(f"{len(verdict['problems'])} problems; written: {output}")
    raise typer.Exit(1 if verdict["problems"] else 0)


def _shares(asked: Sequence[str]) -> dict[str, float]:
    """Share the time out to the targets that were asked for, or to all."""
    known = (CAPTURES, *TARGETS)
    for name in asked:
        if name not in known:
            raise RequestError(unknown(f"unknown target '{name}'", name, known), where="--target")
    if asked:
        return dict.fromkeys(asked, 1 / len(set(asked)))
    return {CAPTURES: _SHARE, **dict.fromkeys(TARGETS, (1 - _SHARE) / len(TARGETS))}


def _every(shares: Mapping[str, float], seconds: float, seed: int, output: Path) -> dict[str, Any]:
    """Fuzz what has a share; what was counted of captures, and ``texts``: executions by target."""
    problems: list[str] = []
    verdict: dict[str, Any] = {}
    texts: dict[str, int] = {}
    for name, share in shares.items():
        if name == CAPTURES:
            err.print("fuzz: captures, in Rust with overflow checks")
            verdict = {CAPTURES: _captures(seconds * share, seed, output / CAPTURES, problems)}
            continue
        err.print(f"fuzz: {name}, guided by coverage")
        texts[name] = fuzz_text(name, seconds * share, seed, output / name, problems)
    return {**verdict, "seed": seed, "texts": texts, "problems": problems}


def _captures(seconds: float, seed: int, output: Path, problems: list[str]) -> dict[str, Any]:
    """Run ``trace/fuzz``; what it counted."""
    words = ["--minutes", str(seconds / 60), "--seed", str(seed), "--output", str(output)]
    words += [str(ROOT / "tests" / folder) for folder in ("trace/corpus", "data/senders")]
    cargo = ["cargo", "run", "--quiet", "--locked", "--profile", "fuzz", "-p", "tcpf-trace-fuzz"]
    manifest = ["--manifest-path", str(ROOT / "trace/Cargo.toml")]
    done = _run([*cargo, *manifest, "--", *words], seconds + _BUILD_S)
    if done.returncode:
        problems.append(f"captures: ended with status {done.returncode}: {_tail(done.stderr)}")
    lines = done.stdout.splitlines()
    counted: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return counted


def _told(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Say in a line each what was tried."""
    if CAPTURES in verdict:
        yield f"{verdict[CAPTURES].get('inputs', 0)} captures"
    yield from (f"{count} inputs of target {name}" for name, count in verdict["texts"].items())


def fuzz_text(target: str, seconds: float, seed: int, output: Path, problems: list[str]) -> int:
    """Fuzz one target, guided by coverage.

    Parameters
    ----------
    target : str
        One of `TARGETS`.
    seconds : float
        For how long.
    seed : int
        Of everything random.
    output : Path
        Where ``seeds``, ``corpus`` (what reached something new) and ``crashes`` are.
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
    make_seeds(target, folders["seeds"])
    before = set(folders["crashes"].iterdir())
    words = [
        *(f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-timeout={_LIMIT_S}"),
        f"-report_slow_units={_LIMIT_S}",
        *(f"-rss_limit_mb={_MOST_MB}", f"-max_len={_LONGEST}", "-print_final_stats=1"),
        *("-verbosity=0", f"-artifact_prefix={folders['crashes']}/"),
    ]
    command = [
        *(sys.executable, "-m", "tools.fuzz.text_target"),
        target,
        str(folders["corpus"]),
        str(folders["seeds"]),
        *words,
    ]
    done = _run(command, seconds + _BEGIN_S)
    crashes = sorted(set(folders["crashes"].iterdir()) - before)
    said = fault(done.stderr)
    problems += [f"{target}: {path}: {said}" for path in crashes]
    if done.returncode and not crashes:
        problems.append(f"{target}: ended with status {done.returncode}: {said}")
    counts = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
    return int(counts[-1]) if counts else 0


def make_seeds(target: str, folder: Path) -> list[Path]:
    """Write the inputs that a target begins with.

    Parameters
    ----------
    target : str
        One of `TARGETS`.
    folder : Path
        Made if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seeds = importlib.import_module(TARGETS[target]).SEEDS[target]
    written = []
    for name, data in (*seeds(), *kept(target)):
        path = folder / name
        path.write_bytes(data)
        written.append(path)
    return written


def fault(said: str) -> str:
    """Give what a process said of its fault: the exception, or its last lines."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if "Error" in line and "===" not in line]
    return "; ".join(raised[:1] or lines[-_TOLD:])


def _run(command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"no end after {limit_s:.0f} s", where=command[0]) from None


def _tail(text: str) -> str:
    """Give the last lines."""
    return " | ".join(text.strip().splitlines()[-3:])


if __name__ == "__main__":
    typer.run(main)

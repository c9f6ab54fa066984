"""``python -m fuzz``: readers of captures, of specs and of runs against what is not as expected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fuzz import seeds
from fuzz.flood import GROWTH_KB, LIMIT_S
from fuzz.text_campaign import fuzz_text
from fuzz.text_targets import TARGETS
from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.results import write_json
from tcpf_lab.spec.suggest import unknown

#: How an input is answered; every way must give the same answer.
WAYS: Mapping[str, Mapping[str, str]] = {
    "compiled": {},
    "compiled, bounds checked": {"NUMBA_BOUNDSCHECK": "1"},
    "interpreted": {"NUMBA_DISABLE_JIT": "1"},
}
#: Shares of the time: guided by coverage, interpreted; the storm, with bounds checked, which is
#: repeated without in half that time; whole files.  Compiling takes a minute or two besides.
_GUIDED, _STORM, _FLOOD = 0.4, 0.3, 0.15
#: What else is fuzzed by default takes so large a share of the time, together; captures the rest.
_TEXT = 0.5
#: The name of what is no text.
CAPTURES = "captures"
#: Megabytes that an interpreted process may take.
_MOST_MB = 2048
#: Seconds in which a process must begin to work: everything is compiled anew.
_BEGIN_S = 1800
#: Seconds in which all answers must be there, in one way.
_COMPARE_S = 24 * 3600

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
    return {CAPTURES: 1 - _TEXT, **dict.fromkeys(TARGETS, _TEXT / len(TARGETS))}


def _every(shares: Mapping[str, float], seconds: float, seed: int, output: Path) -> dict[str, Any]:
    """Fuzz what has a share; the verdict on captures, and ``texts``: executions by target."""
    problems: list[str] = []
    verdict: dict[str, Any] = {}
    texts: dict[str, int] = {}
    for name, share in shares.items():
        if name == CAPTURES:
            verdict = fuzz(seconds * share, seed, output)
            problems += verdict["problems"]
            continue
        err.print(f"fuzz: {name}, guided by coverage")
        texts[name] = fuzz_text(name, seconds * share, seed, output / name, _compiled, problems)
    return {**verdict, "seed": seed, "texts": texts, "problems": problems}


def _compiled(words: list[str], output: Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    return _python(words, "compiled", output, limit_s)


def _told(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Say in a line each what was tried."""
    if "storm" in verdict:
        yield (
            f"{verdict['storm'].get('inputs', 0)} inputs through compiled code with and without "
            f"bounds checked, {verdict['guided']} guided by coverage, {verdict['files']} whole "
            f"files, {verdict['compared']} answered in {len(WAYS)} ways"
        )
    yield from (f"{count} inputs of target {name}" for name, count in verdict["texts"].items())


def fuzz(seconds: float, seed: int, output: Path) -> dict[str, Any]:
    """Fuzz for some time.

    Parameters
    ----------
    seconds : float
        For how long inputs are tried; what is kept of them is compared after that.
    seed : int
        Of everything random.
    output : Path
        Where ``seeds``, ``corpus`` (what reached something new), ``storm`` and ``flood`` (samples
        of the many and what raised) and ``crashes`` are.

    Returns
    -------
    dict
        ``guided``, ``files`` and ``compared`` inputs, what the ``storm`` counted, and ``problems``
        in words.
    """
    names = ("seeds", "small", "recorded", "corpus", "storm", "flood", "crashes")
    folders = {name: output / name for name in names}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    seeds.make(folders["seeds"], seed)
    seeds.make_small(folders["small"])
    for name, data in seeds.recorded():
        (folders["recorded"] / name).write_bytes(data)
    problems: list[str] = []
    err.print("fuzz: guided by coverage, interpreted")
    guided = _guided(folders, seconds * _GUIDED, seed, problems)
    err.print("fuzz: a storm, compiled with bounds checked, then without")
    storm = _storm(folders, seconds * _STORM, seed, problems)
    err.print("fuzz: whole files, compiled with bounds checked")
    files = _flood(folders, seconds * _FLOOD, seed, problems)
    err.print("fuzz: the same answers in every way")
    tried = [folders["seeds"], folders["corpus"], folders["flood"], folders["storm"] / "inputs"]
    compared = _compare([folder for folder in tried if folder.exists()], output, problems)
    return {
        "seed": seed,
        "guided": guided,
        "storm": storm,
        "files": files,
        "compared": compared,
        "problems": problems,
    }


def _guided(folders: dict[str, Path], seconds: float, seed: int, problems: list[str]) -> int:
    """Let libFuzzer look for inputs that reach something new; how many it tried."""
    before = set(folders["crashes"].iterdir())
    words = [
        *(f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-timeout={6 * LIMIT_S}"),
        *(f"-rss_limit_mb={_MOST_MB}", "-print_final_stats=1", "-verbosity=0"),
        f"-artifact_prefix={folders['crashes']}/",
    ]
    command = ["fuzz.target", str(folders["corpus"]), str(folders["small"]), *words]
    done = _python(command, "interpreted", folders["seeds"].parent, seconds + _BEGIN_S)
    crashes = sorted(set(folders["crashes"].iterdir()) - before)
    problems += [f"interpreted: {path}: {_last_line(done.stderr)}" for path in crashes]
    if done.returncode and not problems:
        problems.append(f"interpreted: ended with status {done.returncode}: {_tail(done.stderr)}")
    counts = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
    return int(counts[-1]) if counts else 0


def _storm(
    folders: dict[str, Path], seconds: float, seed: int, problems: list[str]
) -> dict[str, Any]:
    """Put inputs made in compiled code through it, the same ones twice; what was counted."""
    out = folders["storm"]
    found: dict[str, Any] = {}
    (out / f"answers-{seed}").unlink(missing_ok=True)
    command = ["fuzz.storm", str(folders["recorded"]), str(out), str(seconds), str(seed)]
    for way in ("compiled, bounds checked", "compiled"):
        done = _python(command, way, folders["seeds"].parent, seconds + _BEGIN_S)
        if done.returncode:
            kept = folders["crashes"] / f"storm-{seed}"
            if (out / "current").exists():
                (out / "current").replace(kept)
            problems.append(f"storm, {way}: status {done.returncode}: {kept}: {_tail(done.stderr)}")
            return found
        told = json.loads(done.stdout)
        if told["growth_kb"] > GROWTH_KB:
            problems.append(f"storm, {way}: the process grew by {told['growth_kb']} kB")
        found = found or told
        if told["problem"]:
            problems.append(f"storm, {way}: {told['problem']}: {out}/inputs/wrong-{seed}")
            return found
        if told["inputs"] != found["inputs"]:
            problems.append(f"storm, {way}: {told['inputs']} inputs, not {found['inputs']}")
    return found


def _flood(folders: dict[str, Path], seconds: float, seed: int, problems: list[str]) -> int:
    """Put mutations in numbers through compiled code; how many there were."""
    command = ["fuzz.flood", str(folders["seeds"]), str(folders["flood"]), str(seconds), str(seed)]
    output = folders["seeds"].parent
    done = _python(command, "compiled, bounds checked", output, seconds + _BEGIN_S)
    current = folders["flood"] / "current"
    if done.returncode:
        kept = folders["crashes"] / f"compiled-{seed}"
        if current.exists():
            current.replace(kept)
        why = _tail(done.stderr)
        problems.append(f"compiled: status {done.returncode}: {kept}: {why}")
        return 0
    found: dict[str, int] = json.loads(done.stdout)
    problems += [f"compiled: {line}" for line in done.stderr.splitlines() if "fault-" in line]
    if found["growth_kb"] > GROWTH_KB:
        problems.append(f"compiled: the process grew by {found['growth_kb']} kB")
    return found["inputs"]


def _compare(folders: list[Path], output: Path, problems: list[str]) -> int:
    """Answer every input in every way; how many there were."""
    names = [str(folder) for folder in folders]
    answers: dict[str, dict[str, str]] = {}
    for way in WAYS:
        done = _python(["fuzz.replay", *names], way, output, _COMPARE_S)
        if done.returncode:
            problems.append(f"{way}: status {done.returncode}: {_tail(done.stderr)}")
            return 0
        answers[way] = json.loads(done.stdout)
    first, *others = answers.values()
    for path, answer in first.items():
        if answer.startswith("raised") or any(other[path] != answer for other in others):
            said = "; ".join(f"{way}: {found[path]}" for way, found in answers.items())
            problems.append(f"{path}: {said}")
    return len(first)


def _python(
    words: list[str], way: str, output: Path, limit_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a module; machine code with and without checks is kept in places of its own."""
    cache = output / "cache" / way.replace(", ", "-").replace(" ", "-")
    try:
        return subprocess.run(
            [sys.executable, "-m", *words],
            env={**os.environ, **WAYS[way], "NUMBA_CACHE_DIR": str(cache)},
            cwd=seeds.ROOT,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"no end after {limit_s:.0f} s", where=words[0]) from None


def _tail(text: str) -> str:
    """Give the first line, which is where a limit of time is named, and the last ones."""
    lines = text.strip().splitlines()
    return " | ".join([*lines[:1], *lines[1:][-3:]])


def _last_line(text: str) -> str:
    """Give the line with the exception, if there is one."""
    lines = text.splitlines()
    named = [line for line in lines if "Error" in line or "Exception" in line or "ERROR" in line]
    return named[0].strip() if named else _tail(text)


if __name__ == "__main__":
    typer.run(main)

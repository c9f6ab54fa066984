"""``python -m tools.accuracy``: whether the analysis of captures is right."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.making import require_place
from tcpf_lab.results.layout import write_text
from tcpf_lab.run import pool
from tcpf_lab.testbed.registry import testbed
from tools.accuracy import document, run
from tools.accuracy.compare import Outcome
from tools.accuracy.scenario import draw

#: More scenarios in one go are a slip of the keyboard.
MOST_SEEDS = 100_000

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


Seeds = Annotated[str, typer.Option("--seeds", metavar="A..B", help="Scenarios: 7, 1..60.")]
Seconds = Annotated[
    float, typer.Option("--seconds", metavar="S", min=4, max=3600, help="Length of each.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", min=0, help="At a time; 0: one per processor.")
]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", metavar="M", min=0.1, help="Start no run after this time."),
]
KeepPcaps = Annotated[
    bool, typer.Option("--keep-pcaps", help="Keep the captures, to look at a flow.")
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Directory of the runs.")]
Output = Annotated[Path, typer.Option("--output", metavar="FILE", help="JSON file to write.")]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables there too.")
]


def main(
    seeds: Seeds = "1..60",
    seconds: Seconds = 30.0,
    jobs: Jobs = 0,
    minutes: Minutes = None,
    keep_pcaps: KeepPcaps = False,
    results: Results = Path("results/accuracy"),
    output: Output = Path("results/accuracy.json"),
    markdown: Markdown = None,
) -> None:
    """Draw scenarios, run them, and compare what the captures say with the kernel's own record.

    What was done before and is still valid is not done again. Exits with 1 if a scenario failed or
    the testbed did not do what it asks for; with 0 otherwise, whatever the figures are.
    """
    try:
        wanted = seeds_of(seeds)
        for path in filter(None, (output, markdown)):
            require_place(path)
        outcomes = measure(wanted, seconds, jobs, minutes, results, keep_pcaps)
        written = {output: run.to_json(outcomes, seconds)}
        if markdown is not None:
            written[markdown] = document.markdown(outcomes, seconds, output, markdown)
        for path, text in written.items():
            write_text(path, text)
    except LabError as error:
        err.print(f"error: {error}")
        raise typer.Exit(error.exit_status) from None
    show(outcomes, len(wanted))
    for path in written:
        out.print(f"written: {path}", soft_wrap=True)
    raise typer.Exit(0 if all(each.state == "compared" for each in outcomes) else 1)


def seeds_of(text: str) -> range:
    """Read ``7`` or ``1..60``.

    Raises
    ------
    RequestError
        If it is neither, goes downwards, or means more than `MOST_SEEDS`.
    """
    found = re.fullmatch(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?", text.strip())
    if found is None:
        raise RequestError(f"{text!r} is not a seed; write 7 or 1..60", where="--seeds")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 <= last - first < MOST_SEEDS:
        sentence = f"{text!r} must go upwards and have at most {MOST_SEEDS} seeds"
        raise RequestError(sentence, where="--seeds")
    return range(first, last + 1)


def measure(
    seeds: range,
    seconds: float,
    jobs: int,
    minutes: float | None,
    results: Path,
    keep_pcaps: bool,
) -> list[Outcome]:
    """Carry the scenarios out; give what they showed, by seed."""
    scenarios = [draw(seed, seconds) for seed in seeds]
    prepared = run.prepare(scenarios, testbed("uml"), results, keep_pcaps=keep_pcaps)
    limit = None if minutes is None else 60 * minutes
    with pool.local_pool(min(jobs or pool.cores(), len(prepared))) as executor:
        ended = run.run_all(prepared, executor, seconds=limit, now=time.monotonic)
        shown = track(ended, "scenarios", total=len(prepared), console=err)
        return sorted(shown, key=lambda each: each.seed)


def show(outcomes: list[Outcome], wanted: int) -> None:
    """Print totals, marks, the flows that differ, and what could not be compared."""
    out.print(document.totals_table(outcomes))
    out.print(document.needless_table(outcomes))
    if missing := document.without_truth(outcomes):
        out.print(missing, soft_wrap=True)
    if any(each.differences for each in outcomes):
        out.print(document.differences_table(outcomes))
    for each in outcomes:
        if each.state != "compared":
            out.print(f"seed {each.seed} {each.state}: {'; '.join(each.reasons)}", soft_wrap=True)
    if len(outcomes) < wanted:
        out.print(f"{wanted - len(outcomes)} scenarios were not begun: --minutes was over")


if __name__ == "__main__":
    typer.run(main)

"""``python -m tools.faults``: what becomes of results when something breaks at a random moment."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.making import make_directory, require_place
from tcpf_lab.results.layout import write_json, write_text
from tcpf_lab.testbed import registry
from tools.faults import lane, verdict
from tools.faults.kinds import KINDS, draw
from tools.faults.stage import Reference
from tools.faults.verdict import Outcome

#: Between these two lines of a page stands what the last command found.
_MARKS = ("<!-- counts -->", "<!-- end of counts -->")

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)

Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random choices.")]
Faults = Annotated[int, typer.Option("--faults", metavar="N", min=1, help="Number of faults.")]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", metavar="M", min=0.1, help="Start no fault after this time."),
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="KIND", help="Only this kind; repeatable.")
]
Lanes = Annotated[int, typer.Option("--lanes", metavar="N", min=1, help="Faults at a time.")]
Work = Annotated[Path, typer.Option("--work", metavar="DIR", help="Directory of the runs.")]
Output = Annotated[Path, typer.Option("--output", metavar="FILE", help="JSON file to write.")]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Page whose counts are updated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Also print the JSON.")]


def main(
    seed: Seed = 1,
    faults: Faults = 250,
    minutes: Minutes = None,
    only: Only = None,
    lanes: Lanes = 2,
    work: Work = Path("results/faults"),
    output: Output = Path("results/faults.json"),
    markdown: Markdown = None,
    as_json: AsJson = False,
) -> None:
    """Plant faults into runs, and check what is left: results, processes, locks, numbers.

    Exits with 1 if anything was wrong after any fault; its directory is then kept.
    """
    started = time.monotonic()
    try:
        require_place(output)
        outcomes = plant(seed, faults, minutes, only or [], lanes, work)
        seconds = time.monotonic() - started
        found = verdict.as_json(outcomes, seed, seconds)
        write_json(output, found)
        if markdown is not None:
            _renew(markdown, verdict.markdown(outcomes, _command(), seconds))
    except LabError as error:
        err.print(f"error: {error}")
        raise typer.Exit(error.exit_status) from None
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        out.print(verdict.table(outcomes))
    raise typer.Exit(1 if any(each.state == "failed" for each in outcomes) else 0)


def plant(
    seed: int, number: int, minutes: float | None, only: list[str], lanes: int, work: Path
) -> list[Outcome]:
    """Carry faults out; say of each that is not harmless what is wrong.

    Raises
    ------
    LabError
        If a kind is unknown, or the undisturbed runs do not end well.
    """
    for kind in only:
        if kind not in KINDS:
            raise RequestError(f"unknown kind '{kind}'; known: {', '.join(KINDS)}", where="--only")
    drawn = draw(seed, number, only)
    registry.testbed("uml")  # which says what to do if there is no kernel
    place = work.absolute()
    if Path.cwd().is_relative_to(place):
        raise RequestError("is emptied first, and holds the current directory", where=str(work))
    shutil.rmtree(place, ignore_errors=True)
    make_directory(place)
    lane.load()
    reference = Reference.make(place / "reference", {"COLUMNS": "200"})
    if any(KINDS[fault.kind].cache for fault in drawn):
        lane.prepare_cache(place)
    until = None if minutes is None else time.monotonic() + 60 * minutes
    outcomes = []
    for outcome in lane.side_by_side(drawn, reference, place, lanes, until):
        outcomes.append(outcome)
        _tell(outcome, len(outcomes), len(drawn))
    return outcomes


def _tell(outcome: Outcome, done: int, number: int) -> None:
    line = f"{done}/{number} {outcome.state:7} {outcome.seconds:6.1f} s  #{outcome.number} "
    err.print(f"{line}{outcome.kind}: {outcome.what}", soft_wrap=True)
    for problem in outcome.problems:
        err.print(f"    {problem}", soft_wrap=True)


def _renew(page: Path, counts: str) -> None:
    """Put counts between the two marks of a page."""
    text = page.read_text(encoding="utf-8")
    begin, end = map(re.escape, _MARKS)
    block = f"{_MARKS[0]}\n\n{counts}\n{_MARKS[1]}"
    write_text(page, re.sub(f"{begin}.*{end}", lambda _: block, text, flags=re.DOTALL))


def _command() -> str:
    return shlex.join(("./lab", "faults", *sys.argv[1:]))


if __name__ == "__main__":
    typer.run(main)

"""The verb bisect."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.base.making import require_place
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson, BisectedRuns, Jobs, option
from tcpf_lab.papers.bisected import page_of_bisection, revision_table
from tcpf_lab.report.compare.published import comparison_json
from tcpf_lab.report.document import write_document
from tcpf_lab.report.table import plain
from tcpf_lab.results.command import command
from tcpf_lab.run import bisect as bisecting
from tcpf_lab.run import campaign, reporting
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.run.sides import over_cells, require_metrics, share_of
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import registered, source
from tcpf_lab.testbed.uml.gittree import History

#: Exit status if skipped commits leave several that may be the first bad one.
SEVERAL = 3


def _worse_by(words: str) -> float:
    return share_of(words, "--worse-by", "GOOD's mean")


_WorseBy = Annotated["float", option("bisect --worse-by", parser=_worse_by)]


def bisect(
    request: BisectedRuns,
    *,
    tree: Annotated[Path, option("bisect --tree")],
    good: Annotated[str, option("bisect --good")],
    bad: Annotated[str, option("bisect --bad")],
    metric: Annotated[str, option("bisect --metric")],
    worse_by: _WorseBy,
    seeds: Annotated[int, option("bisect --seeds", bisecting.FIRST_SEEDS, min=2)] = 24,
    jobs: Jobs = 0,
    output: Annotated[Path | None, option("bisect -o --output")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the commit of a kernel tree that makes a metric worse.

    Commits between GOOD and BAD are built and run as `git bisect` chooses them, and compared with
    GOOD seed by seed; what does not build, boot or run, or stays undecided, is skipped. Worse is
    the direction in which BAD differs. Exit status: 0 with the first bad commit, 3 if skipped ones
    leave several, 1 if BAD is not worse or cannot be measured, 2 if something is wrong with the
    request.
    """
    require_metrics([metric])
    if output is not None:
        require_place(output, directory=True)
    chosen = choose(request)
    place = tree.resolve()
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:12]
    what = registered.Registration(f"bisect-{digest}", place)
    search = bisecting.Search(
        History(place, good, bad),
        bisecting.Criterion(metric, worse_by, seeds),
        _builder(what),
        lambda kernel, number: _measure(request, kernel, number, metric, jobs),
        console.notify,
    )
    found, written = search.run(), []
    if output is not None:
        again = command(
            *("bisect", *request.words(), "--tree", tree, "--good", good, "--bad", bad),
            *("--metric", metric, "--worse-by", f"{100 * worse_by:g}%", "--seeds", str(seeds)),
            *("-o", output),
        )
        page = page_of_bisection(chosen.title or chosen.name, found)
        with console.busy("drawing the page"):
            for path, content in reporting.page_files(page, again, output):
                write_document(path, content)
                written.append(path)
    if as_json:
        console.print_json({**comparison_json(found), "written": [str(one) for one in written]})
    else:
        echo(found.log)
        console.show(plain(revision_table(found)))
        echo(f"first bad commit: {found.answer}")
        console.show_written(written)
    if len(found.first_bad) > 1:
        between = found.revisions[1:-1]
        skipped = sum(one.word == "skip" for one in between)
        console.complain(
            f"{skipped} of {len(between)} commits between GOOD and BAD are skipped: each of "
            f"{len(found.first_bad)} may be the first bad one"
        )
        raise typer.Exit(SEVERAL)


def _builder(what: registered.Registration) -> Callable[[str], str]:
    """Return what builds a commit and names its kernel by the content of what runs."""
    known: dict[str, uml_kernel.Kernel] = {}

    def build(commit: str) -> str:
        built = console.building(
            lambda progress: source.build_registered(what, progress, revision=commit)
        )
        content = repr((built.sha256, sorted(built.modules.items())))
        name = f"k{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        registered.use(name, known.setdefault(name, built))
        return name

    return build


def _measure(
    request: RunRequest, kernel: str, seeds: int, metric: str, jobs: int
) -> dict[int, float]:
    """Make the runs of a kernel that are missing, and return the metric by seed.

    Raises
    ------
    TestbedError
        If a run fails.
    """
    own = (f'kernel=["{kernel}"]', f"matrix.seed=1..{seeds}")
    choice = choose(replace(request, overrides=(*request.overrides, *own)))
    testbed = campaign.ready_testbed(choice)
    events = console.drive(choice, testbed, jobs=jobs, keep_pcaps=False, force=False)
    failed = [event for event in events if event.kind == "failed"]
    if failed:
        message = f"{len(failed)} of {len(events)} runs failed; the first: {failed[0].detail}"
        raise TestbedError(message)
    return over_cells(choice, metric)

"""The verbs run, compare and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.making import require_place
from tcpf_lab.cli import console
from tcpf_lab.cli import results as results_verbs
from tcpf_lab.cli.options import (
    AsJson,
    Cluster,
    ComparedRuns,
    IncludeInvalid,
    Jobs,
    KeepPcaps,
    Runs,
    RunsToMake,
    option,
)
from tcpf_lab.report.compare.paired import Verdict, against_lines
from tcpf_lab.report.compare.published import Comparison, comparison_json, of_requested
from tcpf_lab.report.compare.scoreboard import scoreboard
from tcpf_lab.report.compare.sensitivity import Sensitivity, ranked_effects
from tcpf_lab.report.compare.testbeds import TwoTestbeds, side_by_side
from tcpf_lab.report.document import write_document
from tcpf_lab.run import campaign, reporting
from tcpf_lab.run.runner import Event
from tcpf_lab.run.selection import Choice, RunRequest, choose
from tcpf_lab.run.sides import (
    Sides,
    SideSettings,
    against,
    choose_sides,
    margin_of,
    require_metrics,
    side_settings,
)
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.load import find, load_any
from tcpf_lab.spec.words import one_of
from tcpf_lab.testbed import registry


def run(
    to_make: RunsToMake,
    keep_pcaps: KeepPcaps = False,
    force: Annotated[bool, option("run --force")] = False,
    dry_run: Annotated[bool, option("run --dry-run")] = False,
    include_invalid: IncludeInvalid = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment or a collection, skip complete runs, and write the report."""
    request, jobs, cluster = to_make
    chosen = choose(request)
    if dry_run:
        results_verbs.show_states(chosen, as_json)
        return
    campaign.check_cluster(cluster, chosen, jobs)
    chosen = console.on_available_kernel(chosen)
    outcome = _carry_out(chosen, jobs, cluster, keep_pcaps=keep_pcaps, force=force)
    failed = [event for event in outcome if event.kind == "failed"]
    report, problem = None, None
    if len(failed) < len(chosen.runs):
        try:
            report = reporting.report(chosen, events=outcome, include_invalid=include_invalid)
        except LabError as error:
            problem = error  # a script needs the runs' outcomes all the same
    if as_json:
        console.print_json(campaign.outcome_json(chosen, outcome, report))
    elif report:
        console.show_report(report)
    if failed:
        console.complain(f"{len(failed)} of {len(chosen.runs)} runs failed")
    if problem:
        raise problem
    if failed:
        raise typer.Exit(1)


def _carry_out(
    chosen: Choice, jobs: int, cluster: str | None, *, keep_pcaps: bool, force: bool
) -> list[Event]:
    """Make the runs on this machine or on a cluster."""
    bed = campaign.ready_testbed(chosen, elsewhere=cluster is not None)
    return console.drive(
        *(chosen, bed), jobs=jobs, cluster=cluster, keep_pcaps=keep_pcaps, force=force
    )


_Margin = Annotated["float | None", option("compare --margin", parser=margin_of)]


def compare(
    request: ComparedRuns,
    include_invalid: IncludeInvalid = False,
    sensitivity: Annotated[bool, option("compare --sensitivity")] = False,
    kernel: Annotated[list[str] | None, option("compare --kernel")] = None,
    a: Annotated[list[str] | None, option("compare --a")] = None,
    b: Annotated[list[str] | None, option("compare --b")] = None,
    metric: Annotated[list[str] | None, option("compare --metric")] = None,
    margin: _Margin = None,
    keep_pcaps: Annotated[bool, option("compare --keep-pcaps")] = False,
    output: Annotated[Path | None, option("compare -o --output")] = None,
    jobs: Jobs = 0,
    cluster: Cluster = None,
    full: Annotated[bool, option("compare --full")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare measured values with published ones, two testbeds, or an experiment with a change.

    With --kernel, --a or --b the missing runs of both sides are made, and runs of the same cell
    and seed are compared. Exit status: 0 if no metric differs, 1 if one does, 3 if a single seed
    leaves it open, 2 if something is wrong with the request or with a run.
    """
    settings = side_settings(kernel or (), a or (), b or ())
    if settings:
        if sensitivity or len(request) > 1:
            where = "--sensitivity" if sensitivity else "--testbed"
            raise RequestError("does not go with two sides: --kernel, --a, --b", where=where)
        if output is not None:
            require_place(output, directory=True)
        wanted = _Wanted(
            metrics=tuple(metric or ()),
            margin=margin,
            keep_pcaps=keep_pcaps,
            output=output,
            jobs=jobs,
            cluster=cluster,
            include_invalid=include_invalid,
        )
        _compare_sides(request[0], settings, wanted, full=full, as_json=as_json)
        return
    of_sides = {"--metric": metric, "--margin": margin, "--keep-pcaps": keep_pcaps, "-o": output}
    for name, given in {**of_sides, "--jobs": jobs, "--cluster": cluster}.items():
        if given:
            message = "is for two sides; name them: --kernel 6.12 --kernel 7.3, or --a and --b"
            raise RequestError(message, where=name)
    chosen = [choose(each) for each in request]
    found: Comparison | TwoTestbeds | Sensitivity
    if sensitivity:
        found = campaign.sensitivity_of(chosen, include_invalid=include_invalid)
        shown = ranked_effects(found, full)
    elif len(chosen) == 2:
        found = campaign.two_testbeds(*chosen, include_invalid=include_invalid)
        shown = side_by_side(found)
    else:
        found = of_requested(campaign.comparison(chosen[0], include_invalid=include_invalid))
        shown = scoreboard(found, full)
    if as_json:
        console.print_json(comparison_json(found))
        return
    for part in shown:
        console.show(part)


@dataclass(frozen=True)
class _Wanted:
    """How two sides are compared, as the options have it."""

    metrics: tuple[str, ...]
    margin: float | None
    keep_pcaps: bool
    output: Path | None
    jobs: int
    cluster: str | None
    include_invalid: bool

    def words(self) -> tuple[str, ...]:
        """Give the options that the page depends on."""
        return (
            *chain.from_iterable(("--metric", name) for name in self.metrics),
            *(("--margin", f"{100 * self.margin:g}%") if self.margin else ()),
            *(("--include-invalid",) if self.include_invalid else ()),
            *("-o", str(self.output)),
        )


def _compare_sides(
    request: RunRequest, settings: SideSettings, wanted: _Wanted, *, full: bool, as_json: bool
) -> None:
    """Make the missing runs of two sides, compare them, and exit by the verdict."""
    sides = choose_sides(request, settings)
    require_metrics(wanted.metrics)
    campaign.check_cluster(wanted.cluster, sides.first, wanted.jobs)
    try:
        failed = _make_sides(sides, wanted)
        found = against(
            sides,
            metrics=wanted.metrics,
            margin=wanted.margin,
            include_invalid=wanted.include_invalid,
        )
    except LabError as error:
        error.exit_status = max(error.exit_status, TROUBLE)  # 1 is a difference
        raise
    written = []
    if wanted.output is not None:
        with console.busy("drawing the page"):
            for path, content in reporting.sides_page(sides, found, wanted.output, wanted.words()):
                write_document(path, content)
                written.append(path)
    if as_json:
        console.print_json({**comparison_json(found), "written": [str(one) for one in written]})
    else:
        for part in against_lines(found, full):
            console.show(part)
        console.show_written(written)
    if failed:
        console.complain(f"{len(failed)} runs failed")
        raise typer.Exit(TROUBLE)
    if found.verdict in STATUS:
        raise typer.Exit(STATUS[found.verdict])


#: Exit status of a comparison of two sides that cannot be made, and by its verdict; 0 otherwise.
TROUBLE = 2
STATUS: dict[Verdict, int] = {"differs": 1, "open": 3}


def _make_sides(sides: Sides, wanted: _Wanted) -> list[Event]:
    """Make the runs of both that are missing; return those that failed."""
    choices = [(sides.captured(), True), (sides.others(), wanted.keep_pcaps)]
    for choice, _ in choices:
        console.ensure_kernel(choice)
    return [
        event
        for choice, keep_pcaps in choices
        if choice.runs
        for event in _carry_out(
            *(choice, wanted.jobs, wanted.cluster), keep_pcaps=keep_pcaps, force=False
        )
        if event.kind == "failed"
    ]


_Formats = Annotated[
    "tuple[str, ...] | None",
    option(
        *("report --format", ", ".join(reporting.FORMATS), ",".join(reporting.USUAL)),
        parser=reporting.formats_of,
    ),
]


def report(
    request: Runs,
    include_invalid: IncludeInvalid = False,
    formats: _Formats = None,
    reference: Annotated[Path | None, option("report --reference")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of an experiment or a collection from its complete runs.

    SPEC may also be a calibration, whose report is written from the results of `tcpf-lab
    calibrate`, or stored pages (a JSON file, or a directory of them), which are drawn into
    RESULTS/pages.
    """
    wanted = formats or reporting.USUAL
    if reference is not None:
        require_place(reference, directory=True)
    given = [*request.given, *(("--include-invalid",) if include_invalid else ())]
    if stored := reporting.stored_pages(request.spec):
        if reference is not None:
            message = "stores pages of runs; this page is stored already"
            raise RequestError(message, where="--reference")
        _need_nothing_of(given, "a stored page is drawn as it is")
        _of_stored(stored, request.results, wanted if formats else reporting.OF_STORED[:3], as_json)
        return
    source = find(request.spec)
    if source.is_dir():
        raise reporting.no_stored_page(source)
    read = load_any(source)
    if isinstance(read, Calibration):
        _need_nothing_of(given, "a calibration is reported as a whole")
        _of_calibration(read, source, request, wanted, reference, as_json)
        return
    chosen = choose(request)
    written = reporting.report(
        chosen, include_invalid=include_invalid, formats=wanted, reference=reference
    )
    if as_json:
        console.print_json(campaign.outcome_json(chosen, (), written))
    else:
        console.show_report(written)


def _of_stored(
    stored: Sequence[Path],
    results: Path,
    formats: tuple[str, ...],
    as_json: bool,
) -> None:
    for one in formats:
        one_of(one, reporting.OF_STORED, "format of a page", f"--format {','.join(formats)}")
    from tcpf_lab.calibration.report import (
        redraw as redraw_calibration,  # here: numpy takes a moment
    )

    written = []
    with console.busy(f"drawing {len(stored)} page{'s' * (len(stored) > 1)}"):
        for path in stored:
            root = results / reporting.PAGES / path.absolute().parent.name
            of_calibration = reporting.is_outcome(path)
            draw = redraw_calibration if of_calibration else reporting.redraw
            for place, content in draw(path, root, formats):
                write_document(place, content)
                written.append(place)
    if as_json:
        console.print_json({"written": [str(path) for path in written]})
        return
    console.show_written(written)


def _need_nothing_of(given: Sequence[str], instead: str) -> None:
    """Refuse options that are of runs."""
    if given:
        raise RequestError(f"chooses among the runs of an experiment; {instead}", where=given[0])


def _of_calibration(
    read: Calibration,
    source: Path,
    request: RunRequest,
    formats: tuple[str, ...],
    reference: Path | None,
    as_json: bool,
) -> None:
    from tcpf_lab.calibration.ledger import CalibrationFiles  # here: numpy takes a moment
    from tcpf_lab.calibration.report import write_report

    directory = registry.require(request.testbed)
    files = CalibrationFiles(request.results, read.name, directory, request.testbed)
    written = write_report(read, source, files, formats, reference)
    if as_json:
        console.print_json({"calibration": read.name, "written": [str(p) for p in written]})
        return
    console.show_written(written)

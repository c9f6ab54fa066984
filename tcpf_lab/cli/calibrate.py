"""The verb calibrate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from tcpf_lab.base.errors import InterruptedRunError, RequestError
from tcpf_lab.calibration.emulator import check_installed
from tcpf_lab.calibration.ledger import CalibrationFiles
from tcpf_lab.calibration.outcome import find, outcome, write
from tcpf_lab.calibration.page import for_terminal, plan
from tcpf_lab.calibration.report import write_figures
from tcpf_lab.calibration.search import (
    Search,
    Session,
    carry_out,
    estimate,
    look_closely,
    open_search,
    remember,
)
from tcpf_lab.calibration.target import check_numbers
from tcpf_lab.cli import console
from tcpf_lab.cli.options import AsJson, Cluster, Jobs, Results, TestbedName, argument, option
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import locked
from tcpf_lab.run import campaign, pool
from tcpf_lab.run.runner import Event
from tcpf_lab.run.selection import Choice
from tcpf_lab.spec.calibrated import Subject, read_subject
from tcpf_lab.spec.calibration import Calibration, Variant
from tcpf_lab.spec.load import find as find_file
from tcpf_lab.spec.load import load_any
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.base import Testbed


def calibrate(
    spec: Annotated[str, argument("calibrate SPEC")],
    testbed: TestbedName = "uml",
    results: Results = Path("results"),
    jobs: Jobs = 0,
    cluster: Cluster = None,
    fresh: Annotated[bool, option("calibrate --fresh")] = False,
    only_report: Annotated[bool, option("calibrate --only-report")] = False,
    dry_run: Annotated[bool, option("calibrate --dry-run")] = False,
    without: Annotated[str | None, option("calibrate --without")] = None,
    hold: Annotated[list[str] | None, option("calibrate --hold")] = None,
    permuted: Annotated[int | None, option("calibrate --permuted", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Search for parameters that reproduce published numbers; resumes after an interrupt."""
    _check_together(only_report, fresh=fresh, dry_run=dry_run)
    variant = Variant(without, tuple(hold or ()), permuted)
    subject, files = _read(spec, testbed, results, variant)
    if dry_run:
        # Points that `--fresh` would put aside are not read: they may be of other unknowns.
        search = open_search(subject, files, testbed, fresh=fresh)
        _show_plan(search, _at_a_time(jobs, cluster), as_json)
        return
    check_installed()
    # The points are read under the lock: another session may be adding some until it is there.
    with console.interruptible(), locked(files.root):
        if fresh:
            files.set_aside()
        search = open_search(subject, files, testbed)
        concluded = _reported(search) if only_report else _carried_out(search, jobs, cluster)
        with console.busy("figures"):
            figures = write_figures(files)
    if as_json:
        console.print_json(concluded)
        return
    for part in for_terminal(concluded):
        console.show(part)
    console.show_written((*figures, files.outcome))


def _at_a_time(jobs: int, cluster: str | None) -> int | None:
    """Give how many runs are made at a time; how many workers a cluster has is not known."""
    return None if cluster else jobs or pool.cores()


def _check_together(only_report: bool, **others: bool) -> None:
    """Refuse options that contradict ``--only-report``."""
    given = [f"--{name.replace('_', '-')}" for name, wanted in others.items() if wanted]
    if only_report and given:
        raise RequestError(
            "--only-report runs nothing",
            where=f"--only-report {given[0]}",
            hint="leave one of the two out",
        )


def _read(
    spec: str, testbed: str, results: Path, variant: Variant
) -> tuple[Subject, CalibrationFiles]:
    """Read all but what earlier sessions left; touch nothing."""
    directory = registry.require(testbed)
    source = find_file(spec)
    read = load_any(source)
    if not isinstance(read, Calibration):
        raise RequestError(
            f"is {read.noun}, not a calibration",
            where=str(source),
            hint=f"`{command('run', Path(spec))}`",
        )
    subject = read_subject(read, source, variant)
    check_numbers(subject)  # before a directory is made
    return subject, CalibrationFiles(results, read.name, directory, testbed, variant)


def _carried_out(search: Search, jobs: int, cluster: str | None) -> dict[str, Any]:
    """Search, look closely at some settings, and write what was found."""
    session, began = Session(), time.monotonic()
    beds: list[Testbed] = []

    def carry(choice: Choice) -> None:
        if not beds:
            campaign.check_cluster(cluster, choice, jobs)
            console.ensure_kernel(choice)
            beds.append(campaign.ready_testbed(search.to_check(), elsewhere=cluster is not None))
        started = time.monotonic()
        events: list[Event] = []
        request: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "events": events}
        try:
            console.drive(choice, beds[0], keep_pcaps=False, force=False, **request)
        finally:
            session.add(events, time.monotonic() - started)
        search.responses.forget({part.experiment.name for part in choice.parts})

    try:
        carry_out(search, carry, console.notify)
        with console.busy("emulator and profiles"):
            findings = find(search)
        look_closely(search, findings.chosen, carry)
        with console.busy("held-out errors and claims"):
            results = outcome(search, findings)
        write(search, results)
    except BaseException as error:
        session.interrupted = isinstance(error, KeyboardInterrupt | InterruptedRunError)
        raise
    finally:
        session.wall_s = time.monotonic() - began
        session.at_a_time = _at_a_time(jobs, cluster)
        remember(search.files, session)
    return results


def _reported(search: Search) -> dict[str, Any]:
    """Conclude from what is there; runs of another spec, kernel or analysis are not used."""
    if not search.ledger.points:
        raise RequestError(
            "no point has been run yet",
            where=str(search.files.ledger),
            hint=f"`{command('calibrate', *search.files.words(search.subject.source))}`",
        )
    points = search.ledger.points
    search.responses.look_again(search.responses.choice("", search.wanted(points)))
    findings = find(search)
    look_closely(search, findings.chosen, search.responses.look_again)
    search.responses.forget_all()
    results = outcome(search, findings)
    write(search, results)
    return results


def _show_plan(search: Search, at_a_time: int | None, as_json: bool) -> None:
    results = estimate(search, at_a_time)
    if as_json:
        console.print_json(results)
    else:
        console.show(plan(results))

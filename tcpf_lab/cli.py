"""The command line: one verb, one call.  Only here (and in `terminal`) is anything printed."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import tcpf_lab
from tcpf_lab import campaign, terminal
from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.options import (
    AsJson,
    IncludeInvalid,
    KeepPcaps,
    Only,
    Overrides,
    Results,
    Seeds,
    Spec,
    TestbedName,
)
from tcpf_lab.report.document import Report
from tcpf_lab.spec.schema import json_schema
from tcpf_lab.testbed import registry, uml_kernel
from tcpf_lab.testbed.doctor import diagnose_uml

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="TCP and queue management experiments on a real Linux kernel, in virtual time.",
)
kernel_app = typer.Typer(no_args_is_help=True, help="The virtual-time kernel: build, path.")
app.add_typer(kernel_app, name="kernel")

out = Console()
err = Console(stderr=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcpf-lab {tcpf_lab.__version__}")
        raise typer.Exit


@app.callback()
def common(
    _version_option: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that belong to no verb."""


@app.command()
def run(
    spec: Spec,
    testbed: TestbedName = "uml",
    results: Results = Path("results"),
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Runs at a time; 0: one per core.")
    ] = 0,
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    keep_pcaps: KeepPcaps = False,
    force: Annotated[bool, typer.Option("--force", help="Repeat complete runs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    include_invalid: IncludeInvalid = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment; complete runs are skipped.  Ends with its table and figures."""
    chosen = campaign.choose(spec, testbed, results, only, seeds, overrides)
    if dry_run:
        _show_states(chosen, as_json)
        return
    terminal.ensure_kernel(err, chosen)
    bed = campaign.ready_testbed(chosen)
    outcome = terminal.drive(err, chosen, bed, jobs=jobs, keep_pcaps=keep_pcaps, force=force)
    failed = [event for event in outcome if event.kind == "failed"]
    report, problem = None, None
    if len(failed) < len(chosen.runs):
        try:
            report = campaign.report(chosen, include_invalid=include_invalid)
        except LabError as error:
            problem = error  # a script is told how the runs ended all the same
    if as_json:
        _print_json(campaign.outcome_json(chosen, outcome, report))
    elif report:
        _show_report(chosen, report)
    if failed:
        err.print(f"{len(failed)} of {len(chosen.runs)} runs failed", style="bold red")
    if problem:
        raise problem
    if failed:
        raise typer.Exit(1)


@app.command()
def plan(
    spec: Spec,
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the experiment.")] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Print the guest's instructions instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the commands of the first run (all that differ only in the seed are alike)."""
    chosen = campaign.choose(spec, "uml", Path("results"), only, seeds, overrides)
    if check:
        summary = campaign.size(chosen)
        if as_json:
            _print_json(summary)
        else:
            typer.echo(f"{chosen.source}: ok: {summary['runs']} runs")
        return
    text = campaign.plan_text(chosen, instructions=instructions)
    if as_json:
        form = "instructions" if instructions else "plan"
        _print_json({"run": chosen.runs[0].id, form: text.splitlines()})
    else:
        typer.echo(text, nl=False)


@app.command()
def analyze(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Captures, `-`, runs or results.")
    ],
    as_json: AsJson = False,
) -> None:
    """Analyse captures, or rebuild the metrics of runs whose captures were kept."""
    rebuilt, described = campaign.analyze(paths)
    if as_json:
        _print_json({"captures": described["captures"], "runs": [str(path) for path in rebuilt]})
        return
    for path in rebuilt:
        typer.echo(f"rebuilt {path}")
    for capture in described["captures"]:
        out.print(terminal.capture_table(capture))


@app.command()
def report(
    spec: Spec,
    testbed: TestbedName = "uml",
    results: Results = Path("results"),
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    include_invalid: IncludeInvalid = False,
    as_json: AsJson = False,
) -> None:
    """Write the tables and figures of an experiment from the runs that are there."""
    chosen = campaign.choose(spec, testbed, results, only, seeds, overrides)
    written = campaign.report(chosen, include_invalid=include_invalid)
    if as_json:
        _print_json(campaign.outcome_json(chosen, (), written))
    else:
        _show_report(chosen, written)


@app.command()
def status(
    spec: Annotated[str | None, typer.Argument(metavar="[SPEC]")] = None,
    testbed: TestbedName = "uml",
    results: Results = Path("results"),
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """List experiments, or the runs of one: complete, stale, failed, missing."""
    if spec is not None:
        _show_states(campaign.choose(spec, testbed, results, only, seeds, overrides), as_json)
        return
    found = campaign.list_experiments(results)
    if as_json:
        _print_json(found)
    elif not found:
        typer.echo(f"no results in {results}")
    else:
        rows = [
            (f["experiment"], f["testbed"], str(f["complete"]), str(f["failed"])) for f in found
        ]
        columns = ("experiment", "testbed", "complete runs", "failed runs")
        out.print(terminal.plain_table(columns, rows))


@app.command()
def doctor(testbed: TestbedName = "uml", as_json: AsJson = False) -> None:
    """Check everything that a testbed needs, and name the command that mends what is wrong."""
    registry.require(testbed)
    checks = diagnose_uml()
    if as_json:
        _print_json([check.__dict__ for check in checks])
    else:
        out.print(terminal.check_table(checks))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def clean(
    results: Results = Path("results"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what failed and interrupted runs have left."""
    removed = campaign.clean(results, dry_run=dry_run)
    if as_json:
        _print_json([str(path) for path in removed])
        return
    for path in removed:
        typer.echo(f"{'would remove' if dry_run else 'removed'} {path}")
    if not removed:
        typer.echo(f"nothing to clean in {results}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of experiment files."""
    _print_json(json_schema())


@kernel_app.command("build")
def kernel_build(
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="TARBALL", help="Kernel source of another place."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the virtual-time kernel and its programs; does nothing if that was done."""
    if source is not None and not source.is_file():
        raise RequestError("no such file", where=str(source))
    kernel = terminal.build_kernel(err, source)
    if as_json:
        _print_json(asdict(kernel))
    else:
        typer.echo(f"Linux {kernel.version} for User-Mode Linux: {kernel.path}")


@kernel_app.command("path")
def kernel_path() -> None:
    """Print where the built kernel is."""
    kernel = uml_kernel.find()
    if kernel is None:
        raise LabError("the kernel has not been built", hint="`tcpf-lab kernel build`")
    typer.echo(str(kernel.path))


def _show_states(chosen: campaign.Choice, as_json: bool) -> None:
    states = campaign.states(chosen)
    if as_json:
        _print_json([{"run": run.id, "state": state.value} for run, state in states])
    else:
        out.print(terminal.state_table(states))


def _show_report(chosen: campaign.Choice, written: Report) -> None:
    out.print(terminal.report_table(written, chosen.experiment.title or chosen.experiment.name))
    for problem in written.left_out:
        err.print(f"left out: {problem}", style="yellow", highlight=False)
    for path in written.written:
        typer.echo(path)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, default=str))


def main() -> None:
    """Run the command line; a user's mistake ends in a message, never in a traceback."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except LabError as error:
        if debug:
            traceback.print_exc()
        for problem in getattr(error, "problems", None) or (error,):
            typer.echo(f"error: {problem}", err=True)
        sys.exit(error.exit_status)
    except OSError as error:
        where = error.filename or "standard output"
        typer.echo(f"error: {where}: {error.strerror or error}", err=True)
        sys.exit(1)

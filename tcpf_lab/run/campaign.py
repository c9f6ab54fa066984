"""What each verb of the command line does, free of printing: also the functions for a notebook."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import LabError, RequestError, TestbedError, TraceError
from tcpf_lab.metrics.record import can_be_analysed
from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.plan.compose import compose
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.sensitivity import Sensitivity, sensitivity
from tcpf_lab.report.compare.testbeds import Side, TwoTestbeds, compare_testbeds
from tcpf_lab.report.document import Report
from tcpf_lab.report.section import Source, gather
from tcpf_lab.report.style import conditions
from tcpf_lab.results import checksums
from tcpf_lab.results.command import again, command
from tcpf_lab.results.layout import PARTIAL, ExperimentFiles, RunFiles, locked
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Event, stale_runs
from tcpf_lab.run.selection import Choice, Part
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.base import Testbed

#: What the extra `cluster` installs.
OF_CLUSTERS = "distributed"
#: Where a run is, from itself, and from the directories of its testbed, experiment and results.
_LAYOUT = ("", "*/", "*/*/", "*/*/*/")


def ready_testbed(choice: Choice, *, elsewhere: bool = False) -> Testbed:
    """Return the testbed, having checked everything that can be checked before a run.

    Parameters
    ----------
    choice : Choice
        What is to be run.
    elsewhere : bool
        Other machines make the runs: they are checked, not this one.

    Raises
    ------
    TestbedError
        Listing all problems at once.
    """
    testbed = registry.testbed(choice.testbed_name)
    problems = () if elsewhere else _problems(testbed, choice)
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise TestbedError(
            f"not ready:{listed}",
            where=f"testbed {choice.testbed_name}",
            hint=f"fix these, then check with "
            f"`{command('doctor', '--testbed', choice.testbed_name)}`",
        )
    return testbed


def check_cluster(address: str | None, choice: Choice, jobs: int) -> None:
    """Refuse what does not go together, before anything is built or touched.

    Raises
    ------
    RequestError
        If ``--cluster`` is combined with ``--jobs`` or with another testbed than ``uml``, or
        what it needs is not installed.
    """
    if address is None:
        return
    where = f"--cluster {address}"
    if jobs:
        raise RequestError(
            "--jobs is for this machine; a cluster makes as many runs at a time as it has workers",
            where=where,
            hint="remove one of the two options",
        )
    if choice.testbed_name != "uml":
        raise RequestError(
            f"testbed '{choice.testbed_name}' does not run on a cluster; only 'uml' does",
            where=where,
            hint="remove --cluster",
        )
    if importlib.util.find_spec(OF_CLUSTERS) is None:
        raise RequestError(
            f"a cluster needs the Python package '{OF_CLUSTERS}'",
            where=where,
            hint="pip install 'tcpf-lab[cluster]'",
        )


def _problems(testbed: Testbed, choice: Choice) -> Iterable[str]:
    found = [problem for run in samples(choice) for problem in testbed.check(compose(run))]
    return dict.fromkeys(found)


def samples(choice: Choice) -> list[Run]:
    """Choose runs to check a testbed by: of each pair of marker and queue, network and kernel."""
    different = {
        (
            run.experiment.kernel,
            run.case.marker.kind,
            run.case.queue.kind,
            run.experiment.traffic.generator,
            run.experiment.topology,
            run.experiment.tcp,
        ): run
        for run in reversed(choice.runs)
    }
    return list(different.values())


def comparison(choice: Choice, *, include_invalid: bool = False) -> Comparison:
    """Hold the measured cells of published configurations against the published ones.

    Raises
    ------
    LabError
        If there is nothing to compare.
    """
    as_published = [source for source in sources(choice) if not source.factor]
    sections = gather(as_published, include_invalid)
    return compare(
        [result for section in sections for result in section.results if not result.cell.settings],
        conditions=[(s.config, s.source.conditions) for s in sections if s.usable],
    )


def sensitivity_of(choices: Sequence[Choice], *, include_invalid: bool = False) -> Sensitivity:
    """Rank what varies by what it moves, on one testbed.

    Raises
    ------
    LabError
        If there are two testbeds, or nothing varies that has usable runs.
    """
    if len(choices) > 1:
        words = " ".join(f"--testbed {choice.testbed_name}" for choice in choices)
        raise RequestError("--sensitivity needs exactly one testbed", where=words)
    (choice,) = choices
    status = command("status", *choice.words())
    return sensitivity(gather(sources(choice), include_invalid), status)


def two_testbeds(first: Choice, second: Choice, *, include_invalid: bool = False) -> TwoTestbeds:
    """Hold the measured cells of one testbed against those of another.

    Raises
    ------
    LabError
        If the testbeds are one, or no cell was measured on both.
    """
    if first.directory == second.directory:
        raise RequestError(
            "both testbeds are the same; name two different ones",
            where=f"--testbed {first.testbed_name}",
        )
    one, other = (
        Side(
            choice.directory,
            " or ".join(dict.fromkeys(_made(part) for part in choice.parts)),
            gather(sources(choice), include_invalid),
        )
        for choice in (first, second)
    )
    commands = [command("run", *choice.words()) for choice in (first, second)]
    return compare_testbeds(one, other, commands)


def _made(part: Part) -> str:
    generators = dict.fromkeys(str(run.experiment.traffic.generator) for run in part.runs)
    return f"{' or '.join(generators)}, {conditions(run.experiment for run in part.runs)}"


def sources(choice: Choice, events: Iterable[Event] = ()) -> tuple[Source, ...]:
    """Say which runs a report is made from, experiment by experiment.

    Runs that ``events`` say have just been made or examined are not examined again.
    """
    complete = {event.run.key for event in events if event.kind != "failed"}
    return tuple(
        Source(
            files=part.files,
            cells=part.cells(),
            title=part.experiment.title or part.experiment.name,
            conditions=conditions(run.experiment for run in part.runs),
            cases=tuple(part.experiment.cases),
            stale=stale_runs(states),
            factor=part.level.factor,
            level=part.level.level,
            settings=(*part.level.settings, *choice.request.overrides),
        )
        for part, states in choice.states(complete)
    )


def outcome_json(choice: Choice, events: Sequence[Event], report: Report | None) -> dict[str, Any]:
    """Describe what was done for a script, the runs in the order of the matrix."""
    order = {run.key: index for index, run in enumerate(choice.runs)}

    return {
        "experiment": choice.name,
        "testbed": choice.testbed_name,
        "results": str(choice.files.root),
        "runs": [
            {
                "experiment": event.run.experiment.name,
                "run": event.run.id,
                **({"settings": dict(event.run.settings)} if event.run.settings else {}),
                "state": event.kind,
                "valid": event.valid,
                "seconds": round(event.seconds, 3),
                "detail": event.detail,
            }
            for event in sorted(events, key=lambda event: order[event.run.key])
        ],
        "written": [str(path) for path in report.written] if report else [],
        "left_out": [str(problem) for problem in report.left_out] if report else [],
    }


def clean(results: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the directories that failed and interrupted runs have left.

    Raises
    ------
    RequestError
        If there is no such results directory, or runs are being made in it.
    """
    if not results.is_dir():
        raise RequestError("no such results directory", where=str(results))
    found = results.glob(f"*/*/*{PARTIAL}")
    leftovers = sorted(path for path in found if path.is_dir() and not path.is_symlink())
    if not dry_run:
        for path in leftovers:
            # One that is being made at this moment looks the same; only the lock tells.
            with ExperimentFiles(results, path.parent.parent.name, path.parent.name).locked():
                shutil.rmtree(path)
    return leftovers


def stored_runs(path: Path) -> list[RunFiles]:
    """Find the runs that can be analysed anew: ``path`` itself, or those that it holds.

    Their captures were stored, or they were made without captures.

    Parameters
    ----------
    path : Path
        A run; or the directory of a testbed, of an experiment or of results, as they are laid out.
        Nothing deeper is read.

    Raises
    ------
    RequestError
        If there is no such run.
    """
    complete = 0
    for level in _LAYOUT:
        found = [
            RunFiles(manifest.parent)
            for manifest in sorted(path.glob(f"{level}manifest.json"))
            if not manifest.parent.name.endswith(PARTIAL)
        ]
        stored = [run for run in found if can_be_analysed(run)]
        if stored:
            return stored
        complete += len(found)
    what = f"{complete} runs, none with captures" if complete else "no run, no capture"
    raise RequestError(
        f"nothing to analyse: {what}",
        where=str(path),
        hint="name a capture, a directory of *.pcap files, a run, or results such as "
        "results/smoke; `run --keep-pcaps` stores captures",
    )


def rebuild(runs: Iterable[RunFiles]) -> Iterator[Path | LabError]:
    """Rebuild the metrics of runs from their captures, one after another.

    Yields
    ------
    Path or LabError
        The run's ``metrics.json``; or why the run cannot be read, which does not stop the others.
    """
    for run in runs:
        try:
            with locked(run.root.parent):  # else a run that takes its place would get its numbers
                _refuse_damaged(run)
                checksums.forget_derived(run)
                runner.analyse(run)
                checksums.renew(run)
        except LabError as error:
            error.where = error.where or str(run.root)
            yield error
        else:
            yield run.metrics


def _refuse_damaged(run: RunFiles) -> None:
    """Refuse to make numbers of files that are not what the run wrote."""
    damaged = checksums.damaged(run, captures=True, derived=False)
    if damaged:
        raise TraceError(
            f"damaged: {', '.join(damaged)}",
            where=str(run.root),
            hint=f"SHA256SUMS does not match; repeat the run: `{again(run, '--keep-pcaps')}`",
        )

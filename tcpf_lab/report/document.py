"""Everything that is reported on an experiment, written into its directory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.errors import LabError
from tcpf_lab.report.collect import Cell, CellResult, Problem, collect
from tcpf_lab.report.style import DRAWN, METRICS
from tcpf_lab.report.table import csv_table, markdown_table
from tcpf_lab.results import ExperimentFiles, write_bytes, write_text


@dataclass(frozen=True)
class Report:
    """What was written, from which numbers, and the runs that are not part of them."""

    written: tuple[Path, ...]
    cells: tuple[CellResult, ...]
    left_out: tuple[Problem, ...]


def write_report(
    files: ExperimentFiles,
    cells: Sequence[Cell],
    title: str,
    conditions: str,
    include_invalid: bool = False,
    stale: Collection[str] = frozenset(),
) -> Report:
    """Write ``table.md``, ``table.csv`` and the figures of an experiment.

    Parameters
    ----------
    files : ExperimentFiles
        Where the runs are and the report goes.
    cells : sequence of Cell
        The matrix, in its own order.
    title, conditions : str
        ``Configuration A`` and the conditions of every run, ``60 s, 10 Mbit/s, 200 ms``.
    include_invalid : bool
        Let runs that failed a check into the means.
    stale : collection of str
        Ids of runs made from another spec: left out.

    Returns
    -------
    Report
        Paths in the order of writing, the numbers, and the runs left out with their reasons.

    Raises
    ------
    LabError
        If there is not a single usable run, or a file cannot be written.
    """
    results = collect(files, cells, include_invalid, stale)
    problems = [problem for result in results for problem in result.problems]
    if not any(result.used for result in results):
        raise _nothing_usable(files, problems)
    written = []
    for path, content in _documents(files, results, title, conditions):
        _write(path, content)
        written.append(path)
    left_out = tuple(problem for problem in problems if not problem.used)
    return Report(tuple(written), tuple(results), left_out)


def _documents(
    files: ExperimentFiles, results: Sequence[CellResult], title: str, conditions: str
) -> Iterator[tuple[Path, str | bytes]]:
    """Yield every file of the report, so that none is drawn before the last one is written."""
    from tcpf_lab.report.figure import bar_chart  # here: loading matplotlib takes a second

    yield files.table("md"), markdown_table(results, title, conditions)
    yield files.table("csv"), csv_table(results)
    configs = list(dict.fromkeys(result.cell.config for result in results))
    for config in configs:
        own = [result for result in results if result.cell.config == config]
        if not any(result.used for result in own):
            continue  # the table lists its runs with the reasons; there is nothing to draw
        several = len(configs) > 1
        name = f"fig-{files.experiment}" + (f"-{_path_safe(config)}" if several else "")
        heading = f"{title}, configuration {config}" if several else title
        for metric in DRAWN:
            for suffix, content in bar_chart(own, metric, heading, conditions).items():
                yield files.figure(f"{name}-{METRICS[metric].slug}", suffix), content


def _path_safe(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _nothing_usable(files: ExperimentFiles, problems: Sequence[Problem]) -> LabError:
    """Say what is missing, and what to type about it."""
    again = f"tcpf-lab run {files.experiment}.yaml --testbed {files.testbed}"
    if not problems:
        return LabError("no run was asked for", where=str(files.root), hint=f"`{again}`")
    counts = Counter(problem.state for problem in problems)
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    first = next((problem for problem in problems if problem.reasons), problems[0])
    if counts["missing"] or counts["stale"]:
        hint = f"`{again}`"
    elif counts["invalid"]:
        hint = f"`{again} --force`; or `--include-invalid` to look at them all the same"
    else:
        hint = f"`tcpf-lab analyze {files.root}` if captures were kept, else `{again} --force`"
    return LabError(
        f"no usable run among {len(problems)} ({told}); the first: {first}",
        where=str(files.root),
        hint=hint,
    )


def _write(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            write_text(path, content)
        else:
            write_bytes(path, content)
    except OSError as error:
        raise LabError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            hint="free some space or make the results directory writable",
        ) from error

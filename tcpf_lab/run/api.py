"""The Python interface: ``tcpf_lab.load(...)`` gives results as tidy frames with units.

``tcpf_lab.analyze(...)`` gives what captures say alike, ``tcpf_lab.load_calibration(...)`` what a
calibration has concluded. ``docs/results.md`` shows them, ``docs/reference/columns.md`` describes
every column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.report.export.tidy import Tables, tables, used_runs
from tcpf_lab.report.frames.captures import Captures, Device
from tcpf_lab.report.frames.results import (
    claims_table,
    kept_cells,
    published_table,
    reproductions,
    sections_below,
)
from tcpf_lab.report.frames.run import Run
from tcpf_lab.report.section import Section, gather
from tcpf_lab.report.style import METRICS, CaseStyle, case_styles
from tcpf_lab.results.command import command
from tcpf_lab.run import campaign
from tcpf_lab.run.analyzing import analyze, device
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.spec.axis import KERNEL
from tcpf_lab.spec.words import unknown
from tcpf_lab.trace.packet import packets

__all__ = ["Captures", "Device", "Results", "Run", "analyze", "device", "load", "packets"]

#: Values that a message lists, at most.
_SHOWN = 12


class Results:
    """The runs of an experiment or of several, as `load` found them.

    A row of each table is an observation; units are in ``table.attrs["units"]``. The tables have
    the runs that the means are made of; `left_out` has the others, with the reasons. Each is a
    copy, which may be changed. Iterating gives the runs.
    """

    def __init__(
        self, name: str, sections: Sequence[Section] = (), stored: pd.DataFrame | None = None
    ) -> None:
        self.name = name
        self._sections = tuple(sections)
        self._stored = stored

    def __repr__(self) -> str:
        """Say how much there is."""
        runs = "" if self._stored is not None else f", runs={len(self)}"
        return f"Results({self.name!r}, cells={len(self.cells) // len(METRICS)}{runs})"

    def __len__(self) -> int:
        """Give the number of runs."""
        return len(self._files)

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs, in the order of the table `runs`."""
        return iter(self._files)

    @cached_property
    def _files(self) -> tuple[Run, ...]:
        return tuple(Run(run.files) for run in used_runs(self._sections))

    @cached_property
    def _tables(self) -> Tables:
        self._require_runs()
        return tables(self._sections)

    def _table(self, name: str) -> pd.DataFrame:
        return self._tables.frame(name).copy()

    def _require_runs(self) -> None:
        if self._stored is not None:
            raise RequestError(
                "a reproduction holds the means of its runs, not the runs: only `cells` and "
                "`published` are available",
                where=self.name,
                hint="repeat the runs: manifest.json beside the table has the command line",
            )

    @property
    def runs(self) -> pd.DataFrame:
        """A row per run: the metrics, and what the run was made with."""
        return self._table("runs")

    @property
    def flows(self) -> pd.DataFrame:
        """A row per flow of each run."""
        return self._table("flows")

    @property
    def cells(self) -> pd.DataFrame:
        """A row per cell and metric: mean over the runs, confidence interval, published value."""
        return self._table("cells") if self._stored is None else self._stored.copy()

    @property
    def dscp(self) -> pd.DataFrame:
        """A row per code point of each run: packets and loss at the bottleneck."""
        return self._table("dscp")

    @property
    def checks(self) -> pd.DataFrame:
        """A row per check of validity of each run."""
        return self._table("checks")

    @property
    def groups(self) -> pd.DataFrame:
        """A row per group of flows of each run: throughput, share, delay and marks."""
        return self._table("groups")

    @property
    def probes(self) -> pd.DataFrame:
        """A row per probe and phase of each run: delay, jitter and loss, idle and under load."""
        return self._table("probes")

    @property
    def harm(self) -> pd.DataFrame:
        """A row per cell, group that harms, group that is harmed, and metric: empty for most."""
        return self._table("harm")

    @property
    def left_out(self) -> pd.DataFrame:
        """A row per run with a remark: missing, stale, invalid or unreadable, and why."""
        return self._table("left_out")

    @property
    def published(self) -> pd.DataFrame:
        """A row per published cell and metric of the configurations that are here."""
        return published_table(self.cells["config"].unique())

    @cached_property
    def claims(self) -> pd.DataFrame:
        """A row per claim of the papers, and what the published and these numbers say of it.

        Raises
        ------
        LabError
            If no published configuration has a run.
        """
        self._require_runs()
        sections = [one for one in self._sections if one.published] or self._sections
        return claims_table(compare([one for each in sections for one in each.results]).claims)

    @property
    def looks(self) -> dict[str, CaseStyle]:
        """How our figures draw each case: ``colour``, ``hatch`` and ``marker``, by its name."""
        every = [case for section in self._sections for case in section.source.cases]
        return case_styles(list(self.cells["case"].unique()), every)

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each case in our figures."""
        return {case: look.colour for case, look in self.looks.items()}

    def run(self, **wanted: object) -> Run:
        """Give the one run that is all of this.

        Parameters
        ----------
        **wanted
            Columns of `runs` and their values: ``case="NoMark+RED", flows=10, seed=1``; those in
            which all runs agree can be left out. A column with a dot in its name is written
            ``**{"queue.max": 100e3}``.

        Raises
        ------
        RequestError
            If a column is not there, or not exactly one run is all of this.
        """
        table = self.runs
        for name, value in wanted.items():
            if name not in table.columns:
                raise RequestError(unknown(f"unknown column '{name}'", name, table.columns))
            table = table[table[name] == value]
        if len(table) != 1:
            raise self._not_one(table, wanted)
        return self._files[int(table.index[0])]

    def _not_one(self, found: pd.DataFrame, wanted: Mapping[str, object]) -> RequestError:
        given = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        among = found if len(found) else self.runs
        choice = [
            f"{name}: {', '.join(map(str, among[name].unique()[:_SHOWN]))}"
            for name in ("experiment", "testbed", "case", "flows", "seed", *self._axes)
            if among[name].nunique() > 1
        ]
        hint = f"choose one: {'; '.join(choice)}" if choice else "`left_out` lists unused runs"
        message = f"{len(found)} runs match {given or 'no condition'}; exactly one must"
        return RequestError(message, where=self.name, hint=hint)

    @property
    def _axes(self) -> list[str]:
        return [name for name in self.runs.columns if "." in name or name == KERNEL]


def load(
    what: str | Path,
    testbed: str = "uml",
    results: str | Path = "results",
    *,
    only: str | Sequence[str] = (),
    seeds: int | None = None,
    overrides: str | Sequence[str] = (),
    include_invalid: bool = False,
) -> Results:
    """Load the results of an experiment, of a collection, or of a directory.

    Parameters
    ----------
    what : str or Path
        An experiment or a collection as ``tcpf-lab report`` takes it (``configA.yaml``): its runs
        are read from `results`, and those made from another version of it are left out. Or a
        directory: a run, an experiment's results, or a reproduction such as ``results/reference``;
        then everything in it is taken as it is, wherever it was made.
    testbed : str
        Name of the testbed, or the path of an inventory.
    results : str or Path
        The results directory.
    only, seeds, overrides
        As the options ``--only``, ``--seeds`` and ``--set`` of the command line, of an experiment
        or a collection; one word or several.
    include_invalid : bool
        Let runs that failed a check in; the column ``valid`` tells.

    Returns
    -------
    Results
        With frames `Results.runs`, `Results.cells`, `Results.flows` and more.

    Raises
    ------
    LabError
        If something of the request is wrong, or there is not a single usable run.

    Examples
    --------
    >>> import tcpf_lab
    >>> results = tcpf_lab.load("smoke.yaml")  # doctest: +SKIP
    >>> results.run(case="NoMark+RED").metrics["timeouts"]  # doctest: +SKIP
    3
    """
    words, settings = _listed(only), _listed(overrides)
    if Path(what).is_dir():
        _refuse_useless(only=words, seeds=seeds, overrides=settings)
        return _of_directory(Path(what), include_invalid)
    chosen = choose(RunRequest(str(what), testbed, Path(results), words, seeds, settings))
    sections = gather(campaign.sources(chosen), include_invalid)
    if not any(section.usable for section in sections):
        again = command("run", *chosen.words())
        raise _nothing(sections, str(chosen.files.root), f"`{again}`")
    return Results(chosen.name, sections)


def _listed(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


def _refuse_useless(**given: object) -> None:
    for name, value in given.items():
        if value not in ((), None):
            raise RequestError(
                "selects runs of an experiment; it does not apply to a directory",
                where=f"{name}={value!r}",
                hint="load the experiment, or filter the tables",
            )


def _of_directory(path: Path, include_invalid: bool) -> Results:
    stored = reproductions(path)
    if stored:
        return Results(path.name, stored=kept_cells(stored))
    sections = sections_below(path, include_invalid)
    if not any(section.usable for section in sections):
        raise _nothing(
            sections, str(path), "include_invalid=True includes runs that failed a check"
        )
    return Results(path.name, sections)


def _nothing(sections: Sequence[Section], where: str, hint: str) -> LabError:
    """Return the error that lists the runs by state."""
    results = [result for section in sections for result in section.results]
    problems = [problem for result in results for problem in result.problems]
    counts = Counter(problem.state for problem in problems)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    first = next((problem for problem in problems if problem.reasons), problems[0])
    message = f"no usable run among {len(problems)} ({states}); the first: {first}"
    return LabError(message, where=where, hint=hint)

"""The requested runs: an experiment or a collection, a testbed, a results directory.

To choose runs needs nothing of what makes or reads them, and takes no time to load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tcpf_lab.base.errors import RequestError
from tcpf_lab.plan.effect import (
    refuse_ecn_without_marks,
    refuse_idle_axes,
    refuse_idle_settings,
    refuse_marks_without_ecn,
)
from tcpf_lab.results.command import RESULTS, TESTBED, command, options
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.spec.axis import may_be_axis, path_of
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.load import Level, apply_overrides, find, load_any, members, overlap
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import KEYS, Run, Settings, expand, narrow_each, parse_only
from tcpf_lab.spec.traffic import Generator
from tcpf_lab.spec.words import one_of, unknown
from tcpf_lab.testbed import registry

if TYPE_CHECKING:
    from tcpf_lab.report.section import Cell
    from tcpf_lab.run.runner import RunState


#: Key of ``--only`` that chooses among the experiments of a collection.
_CONFIG = "config"


@dataclass(frozen=True)
class Part:
    """One experiment of a choice, and which of its runs."""

    level: Level
    runs: tuple[Run, ...]
    files: ExperimentFiles

    @property
    def experiment(self) -> Experiment:
        """What its runs are made from."""
        return self.level.experiment

    def cells(self) -> tuple[Cell, ...]:
        """Group the runs that differ only in their seed."""
        from tcpf_lab.report.section import Cell

        grouped: dict[tuple[str, Settings, int], list[str]] = {}
        for run in self.runs:
            grouped.setdefault((run.case_name, run.settings, run.flows), []).append(run.id)
        return tuple(
            Cell(self.level.config, case, flows, tuple(ids), self.level.published, settings)
            for (case, settings, flows), ids in grouped.items()
        )


@dataclass(frozen=True)
class RunRequest:
    """The words of a command line that choose runs, as they were typed.

    Parameters
    ----------
    spec : str
        An experiment or a collection: a path or a shipped name.
    testbed : str
        Name of the testbed, or the path of an inventory.
    results : Path
        The results directory.
    only, seeds, overrides
        As the options ``--only``, ``--seeds`` and ``--set``; ``config`` in ``only`` takes
        configurations or names of experiments, and the other keys then hold for what is left.
    """

    spec: str
    testbed: str = TESTBED
    results: Path = RESULTS
    only: tuple[str, ...] = ()
    seeds: int | None = None
    overrides: tuple[str, ...] = ()

    @property
    def given(self) -> dict[str, object]:
        """The options that choose among the runs of an experiment, those that were given."""
        known = {"--only": self.only, "--seeds": self.seeds, "--set": self.overrides}
        return {option: value for option, value in known.items() if value}

    def words(self) -> tuple[str | Path, ...]:
        """Give the words of a command line that choose this."""
        return (
            Path(self.spec),
            *options(self.testbed, self.results),
            *chain.from_iterable(("--only", wanted) for wanted in self.only),
            *(("--seeds", str(self.seeds)) if self.seeds is not None else ()),
            *chain.from_iterable(("--set", setting) for setting in self.overrides),
        )


@dataclass(frozen=True)
class Choice:
    """Everything that a verb works on; a single experiment has one part."""

    source: Path
    name: str
    title: str
    collection: bool
    parts: tuple[Part, ...]
    request: RunRequest
    directory: str  #: of the testbed, below each experiment's
    question: str = ""

    @property
    def testbed_name(self) -> str:
        """The requested testbed: a name, or the path of an inventory."""
        return self.request.testbed

    @property
    def results(self) -> Path:
        """The results directory."""
        return self.request.results

    @property
    def files(self) -> ExperimentFiles:
        """Where the report goes; the runs of a collection are each with their experiment."""
        return ExperimentFiles(self.results, self.name, self.directory)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, in the order of the parts."""
        return tuple(run for part in self.parts for run in part.runs)

    def words(self) -> tuple[str | Path, ...]:
        """Give the words of a command line that choose the same."""
        return self.request.words()

    def states(
        self, complete: Container[tuple[str, str]] = ()
    ) -> Iterator[tuple[Part, list[tuple[Run, RunState]]]]:
        """Tell for each run whether it is complete, stale (and why), failed or missing.

        Those whose `Run.key` is among ``complete`` are not examined.
        """
        from tcpf_lab.run.runner import RunState, State, examine

        identity = registry.identity(self.testbed_name)

        def state(run: Run, part: Part) -> RunState:
            if run.key in complete:
                return RunState(State.COMPLETE)
            return examine(run, part.files, identity)

        for part in self.parts:
            yield part, [(run, state(run, part)) for run in part.runs]


def choose(request: RunRequest) -> Choice:
    """Read an experiment or a collection and select runs; touches nothing but the files.

    Raises
    ------
    RequestError
        If a file, a key, a value or the testbed is not what it should be.
    """
    directory = registry.require(request.testbed)
    source = find(request.spec)
    read = load_any(source)
    if isinstance(read, Calibration):
        raise RequestError(
            "is a calibration, not an experiment",
            where=str(source),
            hint=f"`{command('calibrate', Path(request.spec))}`",
        )
    collection = isinstance(read, Collection)
    wanted = _wanted(request.only)
    levels = members(read, source) if isinstance(read, Collection) else (Level(read),)
    generator = registry.generator(request.testbed)
    unset = list(_chosen(levels, wanted.pop(_CONFIG, None)))
    chosen = [_settled(level, request.overrides, generator) for level in unset]
    before, after = ([level.experiment for level in those] for those in (unset, chosen))
    refuse_idle_settings(before, after, request.overrides)
    refuse_idle_axes(after, request.overrides, source)
    refuse_ecn_without_marks(after, source)
    if isinstance(read, Collection):
        _refuse_equal_names(read.name, levels, chosen, source)
    parts = tuple(
        Part(level, runs, ExperimentFiles(request.results, level.experiment.name, directory))
        for level, runs in _expanded(chosen, wanted, request.seeds)
    )
    refuse_marks_without_ecn((run for part in parts for run in part.runs), source)
    named = read if collection else parts[0].experiment
    question = named.question or ""
    return Choice(source, named.name, named.title, collection, parts, request, directory, question)


def one_or_two(testbeds: Sequence[str] | None) -> tuple[str, ...]:
    """Give the testbeds of a comparison: with the published numbers, or of two with each other.

    Raises
    ------
    RequestError
        If there are more.
    """
    names = tuple(testbeds or (TESTBED,))
    if len(names) > 2:
        words = " ".join(f"--testbed {name}" for name in names)
        raise RequestError(f"at most two testbeds can be compared, not {len(names)}", where=words)
    return names


def _wanted(only: Sequence[str]) -> dict[str, str]:
    wanted = parse_only(only)
    for key in wanted:
        if key not in (_CONFIG, *KEYS) and not may_be_axis(path_of(key)):
            message = unknown(f"unknown key '{key}'", key, (_CONFIG, *KEYS))
            raise RequestError(message, where=f"--only {key}=...")
    return wanted


def _expanded(
    levels: Iterable[Level], wanted: Mapping[str, str], seeds: int | None
) -> list[tuple[Level, tuple[Run, ...]]]:
    """Expand what every level has of what is wanted; in a collection not all have every case."""
    every = list(levels)
    narrowed = narrow_each([level.experiment for level in every], wanted, seeds)
    found = [
        (level, runs)
        for level, experiment in zip(every, narrowed, strict=True)
        if experiment is not None and (runs := expand(experiment))
    ]
    if not found:
        words = " ".join(f"--only {key}={value}" for key, value in wanted.items())
        raise RequestError("no run of any experiment matches all of this", where=words)
    return found


def _settled(level: Level, overrides: Sequence[str], generator: Generator) -> Level:
    """Change a level as the command line says, which must not undo what makes it a level.

    What it leaves to the testbed is then settled too, so that a run records everything.
    """
    for setting in overrides:
        own = next((own for own in level.settings if overlap(own, setting)), None)
        if own is not None:
            raise RequestError(
                f"conflicts with '{level.factor} {level.level}' of the collection, which sets "
                f"{own}",
                where=f"--set {setting}",
                hint=f"select the experiments to change: --only {_CONFIG}=NAME,...",
            )
    return replace(level, experiment=apply_overrides(level.experiment, overrides).on(generator))


def _chosen(levels: Iterable[Level], wanted: str | None) -> Iterator[Level]:
    """Yield the levels that ``--only config=...`` names, in their own order."""
    known = list(levels)
    if wanted is None:
        yield from known
        return
    names = {name: None for level in known for name in (level.config, level.experiment.name)}
    words = [word.strip() for word in wanted.split(",")]
    for word in words:
        one_of(word, names, "config", f"--only {_CONFIG}={wanted}")
    yield from (level for level in known if level.config in words or level.experiment.name in words)


def _refuse_equal_names(
    own: str, levels: Iterable[Level], chosen: Iterable[Level], source: Path
) -> None:
    """Two experiments of one name would take each other's results for stale.

    The collection's report goes where an experiment of its name has its own, chosen or not.
    """
    counts = Counter(level.experiment.name for level in chosen)
    if own in counts or own in (level.experiment.name for level in levels):
        raise RequestError(
            f"the collection and one of its experiments have the same name, '{own}'",
            where=str(source),
            hint="rename the collection: its report needs a directory of its own",
        )
    for name, count in counts.items():
        if count > 1:
            raise RequestError(
                f"{count} experiments have the name '{name}'; their results would be mixed",
                where=str(source),
                hint="give each its own name",
            )

"""What the runs of a cell say: any number of ``metrics.json``, by the seed of its run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tcpf_lab.errors import LabError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.collect import Cell
from tcpf_lab.report.export.axes import base_value
from tcpf_lab.report.numerals import fixed
from tcpf_lab.report.section import Section
from tcpf_lab.report.table import NOTHING
from tcpf_lab.results import RunFiles, read_json

_SEED = re.compile(r"-seed(\d+)$")
#: What rounding alone leaves of the spread of equal numbers, as a share of them.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Numbers(Mapping[int, float]):
    """One number of a cell, by the seed of its run; runs that lack it are absent."""

    by_seed: Mapping[int, float]

    def __getitem__(self, seed: int) -> float:
        """Give the number of the run of a seed."""
        return self.by_seed[seed]

    def __iter__(self) -> Iterator[int]:
        """Give the seeds."""
        return iter(self.by_seed)

    def __len__(self) -> int:
        """Count the runs that have it."""
        return len(self.by_seed)

    @property
    def values_by_seed(self) -> tuple[float, ...]:
        """The numbers in the order of their seeds."""
        return tuple(self.by_seed[seed] for seed in sorted(self.by_seed))

    @cached_property
    def mean_ci(self) -> tuple[float | None, float | None]:
        """Mean over the runs and half width of its 95 % interval (Student's t), None without."""
        return mean_ci(self.values_by_seed) if self.by_seed else (None, None)

    @property
    def mean(self) -> float | None:
        """Mean over the runs, None without any."""
        return self.mean_ci[0]

    def per(self, other: Mapping[int, float]) -> Numbers:
        """Give the ratio to another number, seed by seed; 0 / 0 is left out."""
        both = {seed: (self[seed], other[seed]) for seed in self if seed in other}
        return Numbers({seed: ratio(*sides) for seed, sides in both.items() if any(sides)})

    def printed(self, decimals: int, scale: float = 1) -> str:
        """Give ``1532 ± 21``, the mean alone for one run, an en dash for none."""
        mean, half = self.mean_ci
        if mean is None:
            return NOTHING
        text = fixed(scale * mean, decimals)
        if half is None or not math.isfinite(half):
            return text
        spread = fixed(scale * half, decimals)
        if half > _ROUNDING * abs(mean) and float(spread) == 0:
            spread = f"<{10.0**-decimals:.{decimals}f}"
        return f"{text} ± {spread}"


def ratio(above: float, below: float) -> float:
    """Divide; what is over nothing is infinite, and nothing over nothing is not a number.

    Examples
    --------
    >>> ratio(3, 2), ratio(3, 0), ratio(0, 0)
    (1.5, inf, nan)
    """
    if below:
        return above / below
    return math.inf if above else math.nan


@dataclass(frozen=True, eq=False)
class PaperRun:
    """A run that is part of its cell's means: its files, and its ``metrics.json``."""

    seed: int
    files: RunFiles
    found: Mapping[str, Any]

    def number(self, path: str) -> float | None:
        """Give a number by its keys, ``metrics.utilisation``; None where there is none.

        A list's entries are counted from 0: ``cross.0.timeouts``.
        """
        at: Any = self.found
        for key in path.split("."):
            if isinstance(at, list) and key.isdigit():
                at = at[int(key)] if int(key) < len(at) else None
            else:
                at = at.get(key) if isinstance(at, Mapping) else None
        if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
            return None
        return float(at)


@dataclass(frozen=True, eq=False)
class CellRuns:
    """One cell of one experiment with the runs that its means are made of."""

    section: Section
    cell: Cell
    runs: tuple[PaperRun, ...]

    @property
    def case(self) -> str:
        """Name of the case."""
        return self.cell.case

    @property
    def flows(self) -> int:
        """Number of flows, or of users."""
        return self.cell.flows

    def setting(self, key: str) -> float | None:
        """Give the value of an axis in base units; None where the cell has none, or a word."""
        text = dict(self.cell.settings).get(key)
        value = None if text is None else base_value(text)[0]
        return value if isinstance(value, float) else None

    def number(self, path: str) -> Numbers:
        """Give a number of ``metrics.json`` by its keys, for each seed that has it."""
        return self.each(lambda run: run.number(path))

    def each(self, of: Callable[[PaperRun], float | None]) -> Numbers:
        """Give what a function makes of each run, for each seed of which it makes something."""
        found = {run.seed: of(run) for run in self.runs}
        return Numbers({seed: value for seed, value in found.items() if value is not None})


def cells_of(section: Section) -> tuple[CellRuns, ...]:
    """Read the runs behind the cells of an experiment; a cell without any is there, and empty."""
    return tuple(
        CellRuns(section, result.cell, tuple(_runs(section, result.used_runs)))
        for result in section.results
    )


def _runs(section: Section, names: Sequence[str]) -> Iterator[PaperRun]:
    for name in names:
        seed, files = _SEED.search(name), section.source.files.run(name)
        if seed is None:
            raise LabError("a run id must end in -seedN", where=name)
        if files.metrics.exists():
            yield PaperRun(int(seed[1]), files, read_json(files.metrics))

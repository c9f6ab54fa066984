"""The commit that makes a metric worse: `git bisect` over kernels that are built and measured.

Runs of a commit are paired by seed with those of GOOD. Seeds are doubled until the interval of the
mean difference lies on one side of the threshold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from statistics import fmean

from tcpf_lab.base.errors import (
    KernelAbsentError,
    KernelBuildError,
    LabError,
    NoRoomError,
    RequestError,
    TestbedError,
)
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.papers.bisected import VERDICTS, Bisection, Commit, Revision
from tcpf_lab.report.compare.paired import heading
from tcpf_lab.report.compare.scoreboard import number_text
from tcpf_lab.report.compare.statistics import CONFIDENCE
from tcpf_lab.testbed.uml.gittree import History

#: A metric by seed.
Numbers = Mapping[int, float]
#: Seeds of the first look; each further one doubles them.
FIRST_SEEDS = 3
_NO_SEED = "no seed has valid runs of it and of GOOD"


@dataclass(frozen=True)
class Criterion:
    """What is worse: ``worse_by`` of GOOD's mean or more; ``seeds`` is the most that are run."""

    metric: str
    worse_by: float
    seeds: int

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds after which a commit is judged."""
        doubled = (FIRST_SEEDS << place for place in range(self.seeds))
        return (*takewhile(lambda number: number < self.seeds, doubled), self.seeds)

    @property
    def confidence(self) -> float:
        """That of one look's interval: all looks together have 95 % (Bonferroni)."""
        return 1 - (1 - CONFIDENCE) / len(self.looks)


def judge(commit: Commit, good: Numbers, own: Numbers, wanted: Criterion, sign: float) -> Revision:
    """Judge a commit by the seeds that GOOD has too.

    Parameters
    ----------
    commit : Commit
        Whose ``own`` numbers are judged.
    good, own : Numbers
        The metric of GOOD, and of the commit.
    wanted : Criterion
        What is worse.
    sign : float
        That of changes for the worse; 0: either is worse.

    Returns
    -------
    Revision
        ``skip`` if the threshold is within the interval.
    """
    seeds = sorted(good.keys() & own.keys())
    values = tuple(own[seed] for seed in seeds)
    changes = tuple(own[seed] - good[seed] for seed in seeds)
    mean, half = mean_ci(changes, wanted.confidence) if seeds else (0.0, None)
    remark = f"undecided after {len(seeds)} seeds" if seeds else _NO_SEED
    found = Revision(commit, "skip", values, changes, half, remark)
    if half is None:
        return found
    threshold = wanted.worse_by * abs(fmean(good[seed] for seed in seeds))
    worse = math.copysign(1, sign) * mean if sign else abs(mean)
    if worse - half >= threshold and worse > half:
        return replace(found, word="bad", remark="")
    if worse + half < threshold or worse <= -half:
        return replace(found, word="good", remark="")
    return found


@dataclass
class Search:
    """A search for the first bad commit.

    Parameters
    ----------
    history : History
        The commits.
    wanted : Criterion
        What is worse.
    build : callable
        Builds a commit; returns the kernel's name, the same for equal kernels.
    measure : callable
        Returns the metric of a kernel for the first so many seeds.
    tell : callable
        Takes a line for every step.
    """

    history: History
    wanted: Criterion
    build: Callable[[str], str]
    measure: Callable[[str, int], Numbers]
    tell: Callable[[str], None]
    _known: dict[str, Revision] = field(default_factory=dict)  #: by kernel
    _good_kernel: str = ""
    _good: Numbers = field(default_factory=dict)
    _good_seeds: int = 0  #: that were run; some may have no valid run
    _sign: float = 0.0

    def run(self) -> Bisection:
        """Find the first bad commit.

        Raises
        ------
        LabError
            If GOOD or BAD cannot be measured, or BAD is not worse.
        """
        history, wanted = self.history, self.wanted
        self.tell(f"{len(history.commits) - 1} commits, up to {wanted.seeds} seeds each")
        found = {name: self._examine(name) for name in (history.good, history.bad)}
        bad = found[history.bad]
        if bad.word != "bad":
            raise self._not_worse(bad)
        self._sign = fmean(bad.changes)
        while commit := history.next():
            found[commit] = self._examine(commit)
            history.mark(commit, found[commit].word)
        values = tuple(self._good.values())
        good = replace(found[history.good], values=values, changes=(0.0,) * len(values))
        return Bisection(
            *(wanted.metric, wanted.worse_by, wanted.confidence, len(history.commits) - 1),
            tuple(self._commit(name) for name in history.first_bad()),
            (good, *(found[name] for name in history.commits[1:] if name in found)),
            history.log(),
        )

    def _commit(self, name: str) -> Commit:
        return Commit(**self.history.described(name))

    def _examine(self, name: str) -> Revision:
        commit, began = self._commit(name), time.monotonic()
        self.tell(f"{commit}: building")
        built = None
        try:
            kernel = self.build(name)
            built = time.monotonic()
            found = self._measured(commit, kernel)
        except (KernelBuildError, RequestError, TestbedError) as error:
            ends = {self.history.good: "--good", self.history.bad: "--bad"}
            if name in ends:
                error.where = _where(f"{ends[name]} {commit}", error)
            if name in ends or isinstance(error, NoRoomError | KernelAbsentError):
                raise
            found = Revision(commit, "skip", remark=_reason(error))
        now = time.monotonic()
        built = built or now
        found = replace(found, build_seconds=built - began, run_seconds=now - built)
        parts = (self._change(found) if found.changes else "", VERDICTS[found.word], found.remark)
        self.tell(f"{commit}: {'; '.join(filter(None, parts))}")
        return found

    def _measured(self, commit: Commit, kernel: str) -> Revision:
        if known := self._known.get(kernel):
            remark = known.remark or f"kernel of {known.commit.hash[:12]}"
            return replace(known, commit=commit, remark=remark)
        found = Revision(commit, "good")
        self._good_kernel = self._good_kernel or kernel  # GOOD is examined first
        for number in self.wanted.looks:
            if self._good_seeds < number:
                self._good, self._good_seeds = self._measured_good(number), number
            if kernel == self._good_kernel:
                values = tuple(self._good.values())
                found = replace(found, values=values, changes=(0.0,) * len(values))
                break
            own = self.measure(kernel, number)
            found = judge(commit, self._good, own, self.wanted, self._sign)
            if found.word != "skip":
                break
        self._known[kernel] = found
        return found

    def _measured_good(self, number: int) -> Numbers:
        try:
            return self.measure(self._good_kernel, number)
        except TestbedError as error:  # not of the commit that is compared with it
            where = _where(f"--good {self._commit(self.history.good)}", error)
            raise LabError(error.message, where=where, hint=error.hint) from None

    def _not_worse(self, bad: Revision) -> LabError:
        where = f"--metric {self.wanted.metric} --worse-by {100 * self.wanted.worse_by:g}%"
        ends, others = "other --good and --bad", "another --metric or a smaller --worse-by"
        if not bad.changes:
            return LabError(f"BAD: {_NO_SEED}", where=where, hint=ends)
        if bad.word == "good" and bad.remark:
            return LabError("GOOD and BAD have the same kernel", where=where, hint=ends)
        threshold = number_text(self.wanted.worse_by * abs(fmean(self._good.values())))
        shown = f"{self._change(bad)}; worse is {threshold} or more either way"
        if bad.word == "good":
            message = f"BAD is not worse than GOOD: {shown}"
            return LabError(message, where=where, hint=f"{ends}, {others}")
        message = f"BAD is not shown to be worse than GOOD: {shown}"
        return LabError(message, where=where, hint=f"--seeds {2 * self.wanted.seeds}, {others}")

    def _change(self, one: Revision) -> str:
        own = number_text(fmean(one.values))
        return f"{heading(self.wanted.metric)} {own}, {one.change} in {len(one.changes)} seeds"


def _where(end: str, error: LabError) -> str:
    return f"{end}: {error.where}" if error.where else end


def _reason(error: LabError) -> str:
    """Give the compiler's first error, or the first line."""
    lines = [line.strip() for line in error.message.splitlines()]
    return next((line for line in lines if " error: " in line), lines[0])

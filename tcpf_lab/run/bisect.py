"""The commit that makes a metric worse: `git bisect` over kernels that are built and measured.

Runs of a commit are paired by seed with those of GOOD. Seeds are doubled until the interval of the
mean difference lies on one side of the threshold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import fmean

from tcpf_lab.base.errors import (
    KernelAbsentError,
    KernelBuildError,
    LabError,
    NoRoomError,
    TestbedError,
)
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.papers.bisected import VERDICTS, Bisection, Commit, Revision, Word
from tcpf_lab.report.compare.paired import detectable, heading
from tcpf_lab.report.compare.scoreboard import number_text
from tcpf_lab.report.compare.statistics import CONFIDENCE
from tcpf_lab.testbed.uml.gittree import History

#: A metric by seed.
Numbers = Mapping[int, float]
#: Seeds of the first look; each further one doubles them.
FIRST_SEEDS = 3


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


def judge(
    good: Numbers, own: Numbers, criterion: Criterion, sign: float = 0
) -> tuple[Word, tuple[float, ...], float | None]:
    """Judge a revision by the seeds that GOOD has too.

    Parameters
    ----------
    good, own : Numbers
        The metric of GOOD, and of the revision.
    criterion : Criterion
        What is worse.
    sign : float, optional
        Of changes for the worse; by default either is.

    Returns
    -------
    tuple of (Word, tuple of float, float or None)
        ``skip`` if the interval has the threshold within; the differences; the half width.
    """
    seeds = sorted(good.keys() & own.keys())
    changes = tuple(own[seed] - good[seed] for seed in seeds)
    if len(changes) < 2:
        return "skip", changes, None
    mean, half = mean_ci(changes, criterion.confidence)
    threshold = criterion.worse_by * abs(fmean(good[seed] for seed in seeds))
    worse, around = mean * (sign or (mean > 0) - (mean < 0)), half or 0.0
    if worse - around >= threshold and worse - around > 0:
        return "bad", changes, half
    return "good" if worse + around < threshold or worse + around <= 0 else "skip", changes, half


def bisect(
    history: History,
    criterion: Criterion,
    build: Callable[[str], str],
    measure: Callable[[str, int], Numbers],
    tell: Callable[[str], None],
) -> Bisection:
    """Find the first bad commit.

    Parameters
    ----------
    history : History
        The commits.
    criterion : Criterion
        What is worse.
    build : callable
        Builds a commit; returns the kernel's name, the same for equal kernels.
    measure : callable
        Returns the metric of a kernel for the first so many seeds.
    tell : callable
        Takes a line for every step.

    Raises
    ------
    LabError
        If GOOD or BAD cannot be measured, BAD is not worse, or every other commit is skipped.
    """
    return _Search(history, criterion, build, measure, tell).run()


class _Search:
    def __init__(
        self,
        history: History,
        criterion: Criterion,
        build: Callable[[str], str],
        measure: Callable[[str, int], Numbers],
        tell: Callable[[str], None],
    ) -> None:
        self.history, self.criterion = history, criterion
        self.build, self.measure, self.tell = build, measure, tell
        self.kernels: dict[str, Revision] = {}
        self.good_kernel, self.good, self.sign = "", dict[int, float](), 0.0

    def run(self) -> Bisection:
        history, criterion = self.history, self.criterion
        self.tell(f"{len(history.commits) - 1} commits, up to {criterion.seeds} seeds each")
        found = {name: self._examine(name) for name in (history.good, history.bad)}
        bad = found[history.bad]
        if bad.word != "bad":
            raise self._not_worse(bad)
        self.sign = fmean(bad.changes)
        self.sign /= abs(self.sign)
        while commit := history.next():
            found[commit] = self._examine(commit)
            history.mark(commit, found[commit].word)
        values = tuple(self.good[seed] for seed in sorted(self.good))
        good = replace(found[history.good], values=values, changes=(0.0,) * len(values))
        found[history.good] = good
        first = history.first_bad()
        if len(first) > 1 and all(one.word == "skip" for one in [*found.values()][2:]):
            raise LabError(
                f"all {len(found) - 2} commits between GOOD and BAD are skipped; the first: "
                f"{[*found.values()][2].commit}: {[*found.values()][2].remark}",
                where="bisect",
                hint="choose GOOD and BAD closer together, or a larger --seeds",
            )
        return Bisection(
            *(criterion.metric, criterion.worse_by, criterion.confidence),
            len(history.commits) - 1,
            tuple(self._commit(name) for name in first),
            tuple(found[name] for name in history.commits if name in found),
            history.log(),
        )

    def _commit(self, name: str) -> Commit:
        return Commit(**self.history.described(name))

    def _examine(self, name: str) -> Revision:
        commit = self._commit(name)
        self.tell(f"{commit}: building")
        try:
            found = self._measured(name, commit)
        except (NoRoomError, KernelAbsentError):
            raise
        except (KernelBuildError, TestbedError) as error:
            ends = {self.history.good: "--good", self.history.bad: "--bad"}
            if name in ends:
                error.where = ": ".join(filter(None, (f"{ends[name]} {commit}", error.where)))
                raise
            found = Revision(commit, "skip", remark=_reason(error))
        change = f", {_change(found, self.criterion)}" if found.changes else ""
        remark = f": {found.remark}" if found.remark else ""
        self.tell(f"{commit}: {VERDICTS[found.word]}{change}{remark}")
        return found

    def _measured(self, name: str, commit: Commit) -> Revision:
        began = time.monotonic()
        kernel = self.build(name)
        built = time.monotonic()
        if known := self.kernels.get(kernel):
            remark = known.remark or f"has the kernel of {known.commit.hash[:12]}"
            same = replace(known, commit=commit, remark=remark, run_seconds=0.0)
            return replace(same, build_seconds=built - began)
        found = Revision(commit, "good")
        self.good_kernel = self.good_kernel or kernel
        for number in self.criterion.looks:
            if len(self.good) < number:
                self.good = dict(self.measure(self.good_kernel, number))
            if kernel == self.good_kernel:
                break
            own = self.measure(kernel, number)
            word, changes, half = judge(self.good, own, self.criterion, self.sign)
            values = tuple(own[seed] for seed in sorted(self.good.keys() & own.keys()))
            found = Revision(commit, word, values, changes, half)
            if word != "skip":
                break
        else:
            found = replace(found, remark=f"undecided after {self.criterion.seeds} seeds")
        ran = time.monotonic() - built
        self.kernels[kernel] = replace(found, build_seconds=built - began, run_seconds=ran)
        return self.kernels[kernel]

    def _not_worse(self, bad: Revision) -> LabError:
        where = f"--metric {self.criterion.metric} --worse-by {100 * self.criterion.worse_by:g}%"
        if not bad.changes:
            message = "GOOD and BAD have the same kernel"
            return LabError(message, where=where, hint="other --good and --bad")
        shown = detectable(bad.changes)
        least = f"{len(bad.changes)} seeds show a difference from {number_text(shown)} on"
        return LabError(
            f"BAD is not worse than GOOD: {_change(bad, self.criterion)}; {least}",
            where=where,
            hint=f"--seeds {2 * self.criterion.seeds}, another --metric or a smaller --worse-by",
        )


def _change(one: Revision, criterion: Criterion) -> str:
    mean, own = fmean(one.changes), fmean(one.values)
    half = "" if one.half is None else f" ± {number_text(one.half)}"
    return (
        f"{heading(criterion.metric)} {number_text(own)} for {number_text(own - mean)} "
        f"(difference {number_text(mean)}{half}, {len(one.changes)} seeds)"
    )


def _reason(error: LabError) -> str:
    """Give the compiler's first error, or the first line."""
    lines = [line.strip() for line in error.message.splitlines()]
    return next((line for line in lines if " error: " in line), lines[0])

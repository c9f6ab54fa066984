"""A claim and its verdict: numbers held against a range, noise taken into account.

A `Check` is read on the cells of a table, with resamples for its noise. Claims on numbers over the
seeds of runs are in `papers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np

from tcpf_lab.report.compare.statistics import Array, CellKey, Interval, Sample, interval

#: Fewer seeds decide nothing in a bootstrap: of two its interval covers half of what it should.
FEWEST_SEEDS = 3
#: Gives the mean of a cell's metric and its resamples.
Look = Callable[[CellKey, str], Array]


class Verdict(StrEnum):
    """What the numbers say of a claim."""

    HOLDS = "holds"
    REFUTED = "refuted"
    NOISE = "within noise"
    FEW = "too few seeds"
    OPEN = "not decidable"


@dataclass(frozen=True)
class Source:
    """Where a claim is made, and what is said there, in our words.

    ``document`` is ``thesis`` (its chapter 4), ``paper`` (TCP-Friendly Marking for Scalable
    Best-Effort Services), ``tables``, what the published tables show without a sentence on it, or
    the number of another paper, ``001``.
    """

    document: str
    section: str
    sentence: str


class Bounded:
    """What asks for a number from ``low`` to ``high``, without them if ``strict``."""

    low: float
    high: float
    strict: bool

    def in_words(self, unit: str = "") -> str:
        """Give the bounds in words: ``at least 0.3``, ``above 0``, ``0.1 to 0.2 %``."""
        low, high = (f"{bound:g} {unit}".rstrip() for bound in (self.low, self.high))
        if math.isinf(self.high):
            return f"{'above' if self.strict else 'at least'} {low}"
        if math.isinf(self.low):
            return f"{'below' if self.strict else 'at most'} {high}"
        return f"{self.low:g} to {high}"

    def contains(self, value: float) -> bool:
        """Say whether a number lies in the range."""
        if self.strict and value in (self.low, self.high):
            return math.isinf(value)  # an open side has no end to leave out
        return self.low <= value <= self.high

    def excludes(self, low: float, high: float) -> bool:
        """Say whether no number from ``low`` to ``high`` lies in the range."""
        if high < self.low or low > self.high:
            return True
        touching = high == self.low or low == self.high
        return touching and not self.contains(low) and not self.contains(high)


AnyCheck = TypeVar("AnyCheck", bound=Bounded)


def bounds_of(row: Mapping[str, Any]) -> tuple[float, float, bool]:
    """Read low, high and strict from a row of data: ``at_least``, ``above``, ``between`` ..."""
    if "between" in row or "within" in row:
        low, high = row.get("between") or row["within"]
        return low, high, "within" in row
    low = row.get("at_least", row.get("above", -math.inf))
    return low, row.get("at_most", row.get("below", math.inf)), "above" in row or "below" in row


@dataclass(frozen=True)
class Check(Bounded):
    """One number that must lie in a range.

    ``unit`` is printed behind the number: ``%``, or nothing for a factor or a count.
    """

    label: str
    quantity: Callable[[Look], Array]
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Claim(Generic[AnyCheck]):
    """A statement that can be judged.

    ``id`` is short and fixed, ``ef-1``. ``statement`` is what must be true, thresholds included.
    ``every`` tells whether all checks must hold, or one is enough ("up to"). ``note`` is what a
    reader must know besides.
    """

    id: str
    sources: tuple[Source, ...]
    statement: str
    checks: tuple[AnyCheck, ...]
    every: bool = True
    note: str = ""


@dataclass(frozen=True)
class Reading:
    """One check on one table: its number, with interval if seeds give one, and the verdict.

    ``value`` is None where cells are missing or the number is undefined (0 / 0); it can be
    infinite. ``seeds`` is the smallest number of seeds of the cells involved, 0 if not known.
    ``note`` says why the number is not there, or that it is infinite, which JSON cannot.
    """

    value: float | None
    interval: Interval | None
    seeds: int
    verdict: Verdict
    missing: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class CheckResult:
    """One check on both tables, and the range it asks for (None where it is open)."""

    label: str
    unit: str
    low: float | None
    high: float | None
    strict: bool
    published: Reading
    ours: Reading


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, and how many of its checks were measured and how many hold."""

    verdict: Verdict
    holding: int
    measured: int
    checks: int

    def __str__(self) -> str:
        """Count the checks that hold: ``8 of 12``, or ``8 of 12, 36 not measured``."""
        return self.counted("")

    def counted(self, noun: str) -> str:
        """Count the checks that hold, with a noun behind the count: ``8 of 12 checks hold``."""
        rest = self.checks - self.measured
        counted = f"{self.holding} of {self.measured} {noun}".rstrip()
        return f"{counted}, {rest} not measured" if rest else counted


@dataclass(frozen=True)
class ClaimResult:
    """A claim judged on the published table and on ours."""

    id: str
    sources: tuple[Source, ...]
    statement: str
    every: bool
    published: Judgement
    ours: Judgement
    findings: tuple[CheckResult, ...]


def judge(claim: Claim[Check], known: Sample, measured: Sample) -> ClaimResult:
    """Judge a claim on the published table and on ours.

    Parameters
    ----------
    claim : Claim
        What is claimed.
    known, measured : Sample
        The published means; ours, with resamples.

    Returns
    -------
    ClaimResult
        A claim about every check is refuted by one of them, whatever is missing; it holds only if
        all are known to hold. A claim about any check is the other way round.
    """
    findings = tuple(
        CheckResult(
            check.label,
            check.unit,
            _finite(check.low),
            _finite(check.high),
            check.strict,
            read(check, known),
            read(check, measured),
        )
        for check in claim.checks
    )
    return ClaimResult(
        id=claim.id,
        sources=claim.sources,
        statement=claim.statement,
        every=claim.every,
        published=judgement_on([one.published.verdict for one in findings], claim.every),
        ours=judgement_on([one.ours.verdict for one in findings], claim.every),
        findings=findings,
    )


def read(check: Check, sample: Sample) -> Reading:
    """Work out one check on one table."""
    touched: list[CellKey] = []

    def look(cell: CellKey, metric: str) -> Array:
        touched.append(cell)
        return sample.values(cell, metric)

    with np.errstate(divide="ignore", invalid="ignore"):
        values = check.quantity(look)
    missing = tuple(str(cell) for cell in dict.fromkeys(touched) if cell not in sample.means)
    seeds = min(sample.seeds.get(cell, 0) for cell in touched)
    value = float(values[0])
    if missing or math.isnan(value):
        return Reading(None, None, seeds, Verdict.OPEN, missing, _note(value, missing))
    spread = interval(values[1:], seeds)
    few = 0 < seeds < FEWEST_SEEDS
    verdict = Verdict.FEW if few else verdict_on(check, value, spread)
    return Reading(value, spread, seeds, verdict, note=_note(value, missing))


def _note(value: float, missing: tuple[str, ...]) -> str:
    if missing:
        return "missing: a cell has no usable run"
    if math.isnan(value):
        return "undefined: 0 on both sides, or infinite on both"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return ""


def verdict_on(check: Bounded, value: float, spread: Interval | None) -> Verdict:
    """Judge a number with its interval; without one, as a published number, it decides alone.

    Noise decides nothing: the interval must lie on one side of each threshold.
    """
    inside = check.contains(value)
    if spread is None:
        return Verdict.HOLDS if inside else Verdict.REFUTED
    low, high = spread
    if inside and check.contains(low) and check.contains(high):
        return Verdict.HOLDS
    return Verdict.REFUTED if check.excludes(low, high) and not inside else Verdict.NOISE


def judgement_on(verdicts: Sequence[Verdict], every: bool) -> Judgement:
    """Judge a claim by the verdicts on its checks: on each of them if ``every``, else on any."""
    decisive, weakest = Verdict.REFUTED, Verdict.HOLDS
    if not every:
        decisive, weakest = weakest, decisive
    ranked = (decisive, Verdict.OPEN, Verdict.FEW, Verdict.NOISE, weakest)
    verdict = next(verdict for verdict in ranked if verdict in verdicts)
    measured = len(verdicts) - verdicts.count(Verdict.OPEN)
    return Judgement(verdict, verdicts.count(Verdict.HOLDS), measured, len(verdicts))


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None

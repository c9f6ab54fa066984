"""A claim and its verdict: numbers held against a range, noise taken into account.

A `Check` is read on the cells of a table, with resamples for its noise; a `PaperCheck` has its
number, over the seeds of runs.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.compare.statistics import (
    CONFIDENCE,
    Array,
    CellKey,
    Interval,
    Sample,
    interval,
)
from tcpf_lab.report.table import MINUS, fixed

#: Fewer seeds decide nothing in a bootstrap: of two its interval covers half of what it should.
FEWEST_SEEDS = 3
#: More seeds are not counted.
MOST_SEEDS = 1000
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


@dataclass(frozen=True)
class Measured:
    """A number over seeds.

    Parameters
    ----------
    values : tuple of float
        One per seed; a difference is taken seed by seed before it comes here.
    missing : tuple of str
        What is not there, in words; the number is not worked out then.
    summary : tuple of float, float and int, or None
        Mean, half width of the 95 % interval and number of seeds, where the values were not kept.
    """

    values: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    summary: tuple[float, float, int] | None = None

    @property
    def seeds(self) -> int:
        """How many seeds are behind the number."""
        return self.summary[2] if self.summary else len(self.values)

    @property
    def mean(self) -> float | None:
        """The mean over seeds; None where something is missing, or a value is undefined."""
        if self.summary:
            return self.summary[0]
        if self.missing or not self.values or any(map(math.isnan, self.values)):
            return None
        if not all(map(math.isfinite, self.values)):
            return sum(self.values) / len(self.values)
        return mean_ci(self.values)[0]

    @property
    def half(self) -> float | None:
        """Half width of the 95 % interval (Student's t); None without a mean or a second seed."""
        if self.summary:
            return self.summary[1]
        if self.mean is None or not all(map(math.isfinite, self.values)):
            return None
        return mean_ci(self.values)[1]


def paired(
    quantity: Callable[..., float],
    *sides: Mapping[int, float],
    missing: Iterable[str] = (),
) -> Measured:
    """Work out a number seed by seed.

    Parameters
    ----------
    quantity : callable
        Takes a value of each side.
    sides : mapping of int to float
        By seed; only seeds that all sides have are used.
    missing : iterable of str
        What is known not to be there.

    Examples
    --------
    >>> paired(lambda a, b: a - b, {1: 3.0, 2: 5.0}, {1: 1.0, 2: 4.0, 3: 9.0}).values
    (2.0, 1.0)
    """
    absent = tuple(dict.fromkeys(missing))
    common = set.intersection(*(set(side) for side in sides)) if sides else set()
    if not absent and not common:
        absent = ("no seed that all of it was run with",)
    values = tuple(quantity(*(side[seed] for side in sides)) for seed in sorted(common))
    return Measured(() if absent else values, absent)


@dataclass(frozen=True)
class PaperCheck(Bounded):
    """One number of a claim that must lie in a range.

    ``unit`` is printed behind the number, which has so many ``decimals``; ``undecidable`` says why
    it decides nothing, however it lies.
    """

    label: str
    measured: Measured
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    unit: str = ""
    decimals: int = 2
    undecidable: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the number says: noise decides nothing, one seed alone has no noise to show.

        Where a value is infinite there is no interval: then every seed must say the same.
        """
        values, mean, half = self.measured.values, self.measured.mean, self.measured.half
        if mean is None or self.undecidable:
            return Verdict.OPEN
        if half is None:
            return verdict_on(self, mean, (min(values), max(values)) if len(values) > 1 else None)
        return verdict_on(self, mean, (mean - half, mean + half))

    @property
    def verdict_text(self) -> str:
        """The verdict as a table has it: what stands on one run says so."""
        alone = self.verdict is not Verdict.OPEN and self.seeds == 1
        return _verdict_text(self.verdict, alone, self.seeds_needed)

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds decide what is within noise, if mean and deviation stay what they are.

        More than ``MOST_SEEDS`` where the number is too close to a bound; None where it is not
        within noise, or has no interval.
        """
        mean, half = self.measured.mean, self.measured.half
        if self.verdict is not Verdict.NOISE or mean is None or half is None:
            return None
        from scipy.special import stdtrit  # here, because the command line starts without scipy

        counts = np.arange(self.seeds, max(self.seeds, MOST_SEEDS) + 1)
        widths = stdtrit(counts - 1, (1 + CONFIDENCE) / 2) / np.sqrt(counts)
        distance = min(abs(mean - self.low), abs(mean - self.high))
        enough = counts[half * widths / widths[0] < distance]
        return int(enough[0]) if enough.size else MOST_SEEDS + 1

    @property
    def seeds(self) -> int:
        """How many seeds are behind the number."""
        return self.measured.seeds

    @property
    def range(self) -> str:
        """The bounds in words."""
        return self.in_words(self.unit).replace("-", MINUS)

    @property
    def number(self) -> str:
        """The number as a table has it: ``0.41 ± 0.03 (5 seeds)``, or what is missing."""
        mean, half = self.measured.mean, self.measured.half
        if mean is None:
            return "missing: " + "; ".join(self.measured.missing or ("it is undefined",))
        count = self.seeds
        spread = "" if half is None else f" ± {fixed(half, self.decimals)}"
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        number = f"{fixed(mean, self.decimals)}{spread} {self.unit}".rstrip()
        return f"{number} ({seeds})"


def _verdict_text(verdict: Verdict, alone: bool, seeds_needed: int | None) -> str:
    if alone:
        return f"{verdict}, one run"
    if seeds_needed is None:
        return str(verdict)
    few = seeds_needed <= MOST_SEEDS
    return f"{verdict}, needs {seeds_needed if few else f'over {MOST_SEEDS}'} seeds"


class PaperClaim(Claim[PaperCheck]):
    """A sentence of a paper that can be judged by what runs say of it."""

    @property
    def judgement(self) -> Judgement:
        """The verdict on the whole, and how many of its checks hold."""
        return judgement_on([check.verdict for check in self.checks], self.every)

    @property
    def verdict_text(self) -> str:
        """The verdict as a table has it: what stands on one run per number says so."""
        return _verdict_text(self.judgement.verdict, self.alone, self.seeds_needed)

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds decide a claim that is within noise, by those that its checks need.

        If ``every``, one check decides whose mean is outside of its range, else all of them.
        """
        if self.judgement.verdict is not Verdict.NOISE:
            return None
        noise = [check for check in self.checks if check.verdict is Verdict.NOISE]
        means = [(one.measured.mean or 0.0, one) for one in noise]
        deciding = [one for mean, one in means if one.contains(mean) is not self.every]
        needed = [one.seeds_needed for one in deciding or noise if one.seeds_needed is not None]
        if deciding:
            return min(needed, default=None)
        return max(needed) if len(needed) == len(noise) else None

    @property
    def alone(self) -> bool:
        """Whether a verdict stands on one run per number."""
        seeds = {check.seeds for check in self.checks if check.verdict is not Verdict.OPEN}
        return self.judgement.verdict is not Verdict.OPEN and seeds == {1}

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not there, of all checks."""
        found = (what for check in self.checks for what in check.measured.missing)
        return tuple(dict.fromkeys(found))


class Words:
    """The words of a page, from a file: its texts, and the sentences of the paper that it judges.

    Of a sentence the file may have the checks too: their labels, bounds, units and decimals.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _file(self) -> Mapping[str, Any]:
        return tomllib.loads(self._path.read_text(encoding="utf-8"))

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts by their names."""
        return {name: str(text) for name, text in self._file["texts"].items()}

    def _row(self, name: str) -> Mapping[str, Any]:
        return next(row for row in self._file["claim"] if row["id"] == name)

    def claim(self, name: str, checks: Iterable[PaperCheck], note: str = "") -> PaperClaim:
        """Give the sentence of that id with the checks that it is judged by."""
        row = self._row(name)
        document = row.get("document", self._file["document"])
        source = Source(document, row["section"], row["sentence"])
        statement, every = row.get("statement", ""), not row.get("any", False)
        return PaperClaim(
            name, (source,), statement, tuple(checks), every, note or row.get("note", "")
        )

    def judged(self, name: str, numbers: Iterable[Measured], **words: str) -> PaperClaim:
        """Give the sentence of that id with a number for each of its checks in the file.

        ``words`` go into the checks' labels.
        """
        rows = zip(self._row(name)["checks"], numbers, strict=True)
        return self.claim(
            name, [self._check(row, row["label"].format(**words), number) for row, number in rows]
        )

    def each(
        self, name: str, numbers: Iterable[tuple[str, Measured]], undecidable: str = ""
    ) -> PaperClaim:
        """Give the sentence of that id, which asks the same of each number, by their labels.

        ``undecidable`` says why none of them decides anything.
        """
        row = self._row(name)["each"]
        checks = [self._check(row, *number, undecidable) for number in numbers]
        note = f"not decidable: {undecidable}." if undecidable and checks else ""
        return self.claim(name, checks, note)

    def _check(
        self, row: Mapping[str, Any], label: str, number: Measured, undecidable: str = ""
    ) -> PaperCheck:
        return PaperCheck(
            label,
            number,
            *bounds_of(row),
            unit=row.get("unit", ""),
            decimals=row.get("decimals", self._file.get("decimals", 2)),
            undecidable=undecidable,
        )


def counted(claims: Sequence[PaperClaim]) -> str:
    """Count the verdicts in a sentence: ``Of 16 claims: 12 hold, 3 refuted, 1 not decidable.``.

    Another one says how many of them stand on one run.
    """
    verdicts = [claim.judgement.verdict for claim in claims]
    words = {verdict: str(verdict) for verdict in Verdict} | {Verdict.HOLDS: "hold"}
    counts = ", ".join(f"{verdicts.count(v)} {w}" for v, w in words.items() if v in verdicts)
    alone = sum(claim.alone for claim in claims)
    noise = f" Verdicts that stand on one run: {alone}." if alone else ""
    return f"Of {len(verdicts)} claims: {counts}.{noise}"


def source_of(claim: PaperClaim) -> str:
    """Name the place of a sentence, and say it."""
    source = claim.sources[0]
    return f"{source.document}, {source.section}: {source.sentence}"


class JudgedRow(NamedTuple):
    """What is said of a claim, or of one of its checks, which has a label."""

    label: str
    number: str
    required: str
    verdict: str


def judged_rows(claim: PaperClaim) -> Iterator[JudgedRow]:
    """Yield the claim's own row, and one for each of its checks where there are several."""
    first, *others = claim.checks
    if not others:
        yield JudgedRow("", f"{first.label}: {first.number}", first.range, claim.verdict_text)
        return
    found, some = claim.judgement, "all" if claim.every else "any"
    yield JudgedRow("", found.counted("checks hold"), some, claim.verdict_text)
    for check in claim.checks:
        yield JudgedRow(check.label, check.number, check.range, f"({check.verdict_text})")

"""Claims of papers: numbers over the seeds of runs, how they are judged, and their words."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.judge import (
    Bounded,
    Claim,
    Judgement,
    Source,
    Verdict,
    bounds_of,
    judgement_on,
    verdict_on,
)
from tcpf_lab.report.compare.statistics import CONFIDENCE
from tcpf_lab.report.table import MINUS, fixed

#: More seeds are not counted.
MOST_SEEDS = 1000


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

"""A sentence of a paper, and what runs say of it: numbers over seeds held against bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.judge import Bounded, Judgement, Verdict, judgement_on, verdict_on
from tcpf_lab.report.table import MINUS, fixed


@dataclass(frozen=True)
class Measured:
    """A number over seeds.

    Parameters
    ----------
    values : tuple of float
        One per seed; a difference is taken seed by seed before it comes here.
    missing : tuple of str
        What is not there, in words; the number is not worked out then.
    """

    values: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def mean(self) -> float | None:
        """The mean over seeds; None where something is missing, or a value is undefined."""
        if self.missing or not self.values or any(map(math.isnan, self.values)):
            return None
        if not all(map(math.isfinite, self.values)):
            return sum(self.values) / len(self.values)
        return mean_ci(self.values)[0]

    @property
    def half(self) -> float | None:
        """Half width of the 95 % interval (Student's t); None without a mean or a second seed."""
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
    def told(self) -> str:
        """The verdict as a table has it: what stands on one run says so."""
        decided = self.verdict is not Verdict.OPEN
        return f"{self.verdict}, one run" if decided and self.seeds == 1 else str(self.verdict)

    @property
    def seeds(self) -> int:
        """How many seeds are behind the number."""
        return len(self.measured.values)

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
        count = len(self.measured.values)
        spread = "" if half is None else f" ± {fixed(half, self.decimals)}"
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        told = f"{fixed(mean, self.decimals)}{spread} {self.unit}".rstrip()
        return f"{told} ({seeds})"


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of a paper that can be judged.

    Parameters
    ----------
    id : str
        Short and fixed, ``ef-1``.
    document : str
        Number of the paper, ``001``.
    section : str
        Where it stands there, ``3.1.1, Figure 2(a)``.
    sentence : str
        What it says, in few words.
    statement : str
        What must be true of our runs for it to hold, thresholds included.
    checks : tuple of PaperCheck
        The numbers.
    every : bool
        Whether all of them must hold, or one is enough.
    note : str
        What a reader must know besides.
    """

    id: str
    document: str
    section: str
    sentence: str
    statement: str
    checks: tuple[PaperCheck, ...] = field(default=())
    every: bool = True
    note: str = ""

    @property
    def judgement(self) -> Judgement:
        """The verdict on the whole, and how many of its checks hold."""
        return judgement_on([check.verdict for check in self.checks], self.every)

    @property
    def told(self) -> str:
        """The verdict as a table has it: what stands on one run per number says so."""
        verdict = self.judgement.verdict
        return f"{verdict}, one run" if self.alone else str(verdict)

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


def counted(claims: Sequence[PaperClaim]) -> str:
    """Count the verdicts in a sentence: ``Of 16 claims: 12 hold, 3 refuted, 1 not decidable.``.

    Another one says how many of them stand on one run.
    """
    verdicts = [claim.judgement.verdict for claim in claims]
    words = {verdict: str(verdict) for verdict in Verdict} | {Verdict.HOLDS: "hold"}
    told = ", ".join(f"{verdicts.count(v)} {w}" for v, w in words.items() if v in verdicts)
    alone = sum(claim.alone for claim in claims)
    noise = f" Verdicts that stand on one run: {alone}." if alone else ""
    return f"Of {len(verdicts)} claims: {told}.{noise}"


def source_of(claim: PaperClaim) -> str:
    """Name the place of a sentence, and say it."""
    return f"{claim.document}, {claim.section}: {claim.sentence}"


class JudgedRow(NamedTuple):
    """What is said of a claim, or of one of its checks, which has a label."""

    label: str
    number: str
    asked: str
    verdict: str


def judged_rows(claim: PaperClaim) -> Iterator[JudgedRow]:
    """Yield the claim's own row, and one for each of its checks where there are several."""
    first, *others = claim.checks
    if not others:
        yield JudgedRow("", f"{first.label}: {first.number}", first.range, claim.told)
        return
    found, some = claim.judgement, "all" if claim.every else "any"
    yield JudgedRow("", found.told("checks hold"), some, claim.told)
    for check in claim.checks:
        yield JudgedRow(check.label, check.number, check.range, f"({check.told})")

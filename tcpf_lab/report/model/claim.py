"""A sentence of RR-4469 on its model, and the numbers of the model that bear it out or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcpf_lab.report.claims.judge import Bounded, Judgement, Verdict, judgement_on, verdict_on


@dataclass(frozen=True)
class ModelCheck(Bounded):
    """One number of the model that must lie in a range; ``unit`` is printed behind it."""

    label: str
    value: float
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    unit: str = ""
    decimals: int = 2

    @property
    def verdict(self) -> Verdict:
        """The number alone decides: a solution has no noise."""
        return verdict_on(self, self.value, None)

    @property
    def range(self) -> str:
        """The bounds in words."""
        return self.in_words(self.unit)

    @property
    def number(self) -> str:
        """The number as a table has it."""
        return f"{self.value:.{self.decimals}f} {self.unit}".rstrip()


@dataclass(frozen=True)
class ModelClaim:
    """A sentence of the report: where, what it says, and the numbers that must bear it out."""

    id: str
    place: str
    sentence: str
    checks: tuple[ModelCheck, ...]

    @property
    def judgement(self) -> Judgement:
        """The verdict: all checks must hold."""
        return judgement_on([check.verdict for check in self.checks], True)

"""How a sentence of paper 001 becomes numbers: quantities under conditions, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tcpf_lab.report.papers.cell_runs import Numbers
from tcpf_lab.report.papers.claim import PaperCheck, paired
from tcpf_lab.report.papers.ef.conditions import Conditions
from tcpf_lab.report.papers.ef.study import Quantity, Study, average, constant, loss, told

#: What the ends of a curve over the length of bursts must reach, ms, to be called its ends.
SHORTEST, LONGEST = 1.0, 100.0


@dataclass(frozen=True)
class Side:
    """A number of some conditions, or its average over several; ``missing`` says what is not there.

    ``what`` is what it is called where none of its conditions was asked for.
    """

    numbers: Numbers
    missing: tuple[str, ...] = ()


def side(study: Study, quantity: Quantity, *every: Conditions) -> Side:
    """Give a quantity, averaged over all of the conditions seed by seed."""
    parts, missing = [], []
    for known in every:
        needed = (known, constant(known)) if quantity is loss else (known,)
        absent = [_absent(study, one) for one in needed if study.at(one) is None]
        numbers = quantity(study, known)
        if not absent and not numbers:
            absent = [f"a number in the runs of {told(known)}"]
        parts.append(numbers)
        missing += absent
    return Side(average(parts), tuple(dict.fromkeys(missing)))


def _absent(study: Study, known: Conditions) -> str:
    return told(known) if known in study.settings else f"{told(known)} (in no experiment here)"


def over_bursts(
    study: Study,
    quantity: Quantity,
    like: Conditions,
    keep: Callable[[float], bool] | None = None,
) -> Side:
    """Give a quantity averaged over the lengths of bursts, all or those to ``keep``."""
    on_times = [on_ms for on_ms in study.on_times(like) if keep is None or keep(on_ms)]
    if not on_times:
        return Side(Numbers({}), (f"{_without_length(like)} of any such length",))
    return side(study, quantity, *(replace(like, on_ms=on_ms) for on_ms in on_times))


@dataclass(frozen=True)
class Hump:
    """A quantity over the length of bursts: its greatest mean, and both ends."""

    top: Side
    first: Side
    last: Side
    top_at: str
    first_at: str
    last_at: str


def hump(study: Study, quantity: Quantity, like: Conditions) -> Hump:
    """Find where a quantity is greatest in the mean; every length that was asked for is needed.

    Both ends are missing where the lengths do not reach as far as the paper's.
    """
    on_times = study.on_times(like)
    if not on_times:
        none = Side(Numbers({}), (f"{_without_length(like)} of any length",))
        return Hump(none, none, none, "any length", "the shortest", "the longest")
    sides = [side(study, quantity, replace(like, on_ms=on_ms)) for on_ms in on_times]
    missing = tuple(dict.fromkeys(what for one in sides for what in one.missing))
    means = [-math.inf if one.numbers.mean is None else one.numbers.mean for one in sides]
    place = means.index(max(means))
    top, first, last = (replace(sides[at], missing=missing) for at in (place, 0, -1))
    if on_times[0] > SHORTEST:
        first = Side(Numbers({}), (f"{_without_length(like)} of at most {SHORTEST:g} ms",))
    if on_times[-1] < LONGEST:
        last = Side(Numbers({}), (f"{_without_length(like)} of at least {LONGEST:g} ms",))
    return Hump(top, first, last, *(f"{on_times[at]:g} ms" for at in (place, 0, -1)))


def _without_length(like: Conditions) -> str:
    return told(like).replace(f" of {like.on_ms:g} ms", "")


def check(
    label: str,
    quantity: Callable[..., float],
    sides: Sequence[Side],
    low: float = -math.inf,
    high: float = math.inf,
    *,
    strict: bool = False,
    decimals: int = 3,
) -> PaperCheck:
    """Give a check of a number worked out from several sides, seed by seed."""
    missing = [what for one in sides for what in one.missing]
    measured = paired(quantity, *(one.numbers for one in sides), missing=missing)
    return PaperCheck(label, measured, low, high, strict, decimals=decimals)


def difference(label: str, more: Side, less: Side, decimals: int = 3) -> PaperCheck:
    """Give a check that one side is above another."""
    return check(label, _minus, (more, less), low=0, strict=True, decimals=decimals)


def value(label: str, one: Side, low: float = -math.inf, high: float = math.inf) -> PaperCheck:
    """Give a check of a number as it is."""
    return check(label, float, (one,), low, high)


def correlation(label: str, xs: Sequence[Side], ys: Sequence[Side], low: float) -> PaperCheck:
    """Give a check of Pearson's correlation over places, worked out in each seed."""
    count = len(xs)

    def of(*values: float) -> float:
        return _pearson(values[:count], values[count:])

    return check(label, of, (*xs, *ys), low=low)


def _pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    square = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return over / math.sqrt(square) if square else math.nan


def _minus(more: float, less: float) -> float:
    return more - less

"""The words that claims are written in: gains, changes and levels of cells, over whole blocks.

A gain is a factor of improvement, above 1 where the first scheme is the better one: theirs / ours
for timeouts, loss and CoV, ours / theirs for goodput.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product

import numpy as np

from tcpf_lab.report.claims.judge import Check, Claim, Look, Source
from tcpf_lab.report.claims.published import CONFIGS, FLOWS
from tcpf_lab.report.compare.statistics import Array, CellKey
from tcpf_lab.report.style import CASES, DRAWN, METRICS

FRIO, RIO, OLD, TB, FRED, TAIL_DROP, RED = CASES
#: The new marker, with either queue.
NEW = (FRIO, RIO)
#: What the new marker is measured against: in the paper, and in the thesis.
OTHERS = (TB, FRED, TAIL_DROP, RED)
BASELINES = (TB, RED)
#: What sentences call the cases without marking; numbers are labelled with the cases' own names.
_SPOKEN = {FRED: "FRED", TAIL_DROP: "tail drop", RED: "RED"}

TIMEOUTS, LOSS, GOODPUT, COV = DRAWN
NAMES = {metric: METRICS[metric].word for metric in DRAWN}

#: From half-way between one and two orders of magnitude on, "two" is the nearer word.
ALMOST_TWO_ORDERS = 10**1.5
#: "About" a stated figure of improvement: from nine tenths of it on; more meets it too.
ABOUT = 0.9

Pair = tuple[CellKey, CellKey]


def thesis(section: str, sentence: str) -> tuple[Source, ...]:
    """Name a place in the thesis."""
    return (Source("thesis", section, sentence),)


def paper(section: str, sentence: str) -> tuple[Source, ...]:
    """Name a place in the paper."""
    return (Source("paper", section, sentence),)


def all_metrics(source: Source, config: str, others: Collection[str]) -> Claim:
    """Claim that the new marker is better than all others in every metric of a configuration."""
    return Claim(
        f"{source.document}-{source.section}-all-metrics",
        (source,),
        f"{config}: TCPF+FRIO and TCPF+RIO are better than {_spoken(others)} in all four metrics, "
        "with 100 and with 50 flows.",
        better_everywhere(config, NEW, others),
    )


def _spoken(cases: Collection[str]) -> str:
    """Give ``TB+RIO, FRED, tail drop and RED``."""
    *first, last = (_SPOKEN.get(case, case) for case in cases)
    return f"{', '.join(first)} and {last}"


def blocks(configs: Collection[str] = CONFIGS) -> Iterator[tuple[str, int]]:
    """Give configurations with each number of flows."""
    return product(configs, FLOWS)


def matchups(
    configs: Collection[str], schemes: Collection[str], others: Collection[str]
) -> Iterator[Pair]:
    """Pair every scheme with each of the others, in every block of the configurations."""
    for (config, flows), scheme, other in product(blocks(configs), schemes, others):
        yield CellKey(config, flows, scheme), CellKey(config, flows, other)


def moved(pair: Pair, config: str) -> Pair:
    """Give the same two cases in another configuration."""
    one, other = pair
    return CellKey(config, one.flows, one.case), CellKey(config, other.flows, other.case)


def across(before: str, after: str, cases: Collection[str]) -> Iterator[Pair]:
    """Pair each cell of one configuration with the same cell of another."""
    for flows, case in product(FLOWS, cases):
        yield CellKey(before, flows, case), CellKey(after, flows, case)


def gain_of(look: Look, pair: Pair, metric: str) -> Array:
    """Give the factor by which the first cell is better than the second."""
    ours, theirs = (look(cell, metric) for cell in pair)
    return ours / theirs if metric == GOODPUT else theirs / ours


def gain(
    metric: str, pair: Pair, low: float = 1, high: float = np.inf, *, strict: bool = False
) -> Check:
    """Ask for a factor of improvement of the first cell over the second."""
    return Check(
        _gain_label(metric, pair), lambda look: gain_of(look, pair, metric), low, high, strict
    )


def better(metric: str, pair: Pair) -> Check:
    """Ask for the first cell to be better than the second at all."""
    return gain(metric, pair, strict=True)


def better_everywhere(
    configs: Collection[str], schemes: Collection[str], others: Collection[str]
) -> tuple[Check, ...]:
    """Ask for every scheme to be better than all others, in every metric and block."""
    every = product(DRAWN, matchups(configs, schemes, others))
    return tuple(better(metric, pair) for metric, pair in every)


def gains(
    metrics: Collection[str],
    pairs: Collection[Pair] | Iterator[Pair],
    low: float = 1,
    high: float = np.inf,
) -> tuple[Check, ...]:
    """Ask for the same range of gains of every pair in every metric."""
    return tuple(gain(metric, pair, low, high) for metric, pair in product(metrics, pairs))


def gain_growth(
    metric: str,
    first: Pair,
    second: Pair,
    low: float = 0,
    high: float = np.inf,
    *,
    strict: bool = False,
) -> Check:
    """Ask for the second pair's gain over that of the first pair."""

    def quantity(look: Look) -> Array:
        return gain_of(look, second, metric) / gain_of(look, first, metric)

    label = f"{_gain_label(metric, second)}, against {_block(first)}"
    return Check(label, quantity, low, high, strict)


def excess_growth(
    metric: str,
    first: Pair,
    second: Pair,
    low: float,
    high: float = np.inf,
    *,
    strict: bool = False,
) -> Check:
    """Ask for the second pair's gain over that of the first, both less 1.

    A gain near 1 is mostly that 1, whatever happens to what is gained. Where the first pair gains
    nothing there is nothing to compare with: minus infinity, outside of every range.
    """

    def quantity(look: Look) -> Array:
        before, after = (gain_of(look, pair, metric) - 1 for pair in (first, second))
        return np.where(before <= 0, -np.inf, after / before)

    label = f"{_gain_label(metric, second)}, less 1, against {_block(first)}"
    return Check(label, quantity, low, high, strict)


def amount_growth(metric: str, first: Pair, second: Pair) -> Check:
    """Ask for the second pair to lie farther apart than the first, in the metric's own unit."""

    def apart(look: Look, pair: Pair) -> Array:
        ours, theirs = (look(cell, metric) for cell in pair)
        return ours - theirs if metric == GOODPUT else theirs - ours

    def quantity(look: Look) -> Array:
        return apart(look, second) - apart(look, first)

    ours, theirs = second if metric == GOODPUT else second[::-1]
    block = f"{ours.config} {ours.flows}: {NAMES[metric]}"
    label = f"{block} {ours.case} - {theirs.case}, less that of {_block(first)}"
    unit = METRICS[metric].unit
    return Check(
        label, quantity, low=0, strict=True, unit=unit if unit in ("", "%") else f" {unit}"
    )


def change(metric: str, pair: Pair, low: float = -np.inf, high: float = np.inf) -> Check:
    """Ask for the percentage by which the first cell's value exceeds the second's."""
    one, other = pair
    return Check(
        _two(metric, pair, "over"),
        lambda look: 100 * (look(one, metric) / look(other, metric) - 1),
        low,
        high,
        unit="%",
    )


def level(metric: str, cell: CellKey, low: float, high: float = np.inf) -> Check:
    """Ask for the value of one cell."""
    unit = "%" if metric == LOSS else ""
    label = f"{cell.config} {cell.flows}: {NAMES[metric]} {cell.case}"
    return Check(label, lambda look: look(cell, metric), low, high, unit=unit)


def ordered(metric: str, configs: Collection[str], cases: Collection[str]) -> tuple[Check, ...]:
    """Ask for the cases to get worse one after the other, in every block."""
    return tuple(
        better(metric, (CellKey(config, flows, one), CellKey(config, flows, other)))
        for config, flows in blocks(configs)
        for one, other in zip(tuple(cases)[:-1], tuple(cases)[1:], strict=True)
    )


def greater(label: str, one: Callable[[Look], Array], other: Callable[[Look], Array]) -> Check:
    """Ask for one quantity to be greater than another: their ratio above 1."""
    return Check(label, lambda look: one(look) / other(look), low=1, strict=True)


def _gain_label(metric: str, pair: Pair) -> str:
    return _two(metric, pair if metric == GOODPUT else pair[::-1], "/")


def _two(metric: str, pair: Pair, word: str) -> str:
    one, other = pair
    if (one.config, one.flows) == (other.config, other.flows):
        return f"{one.config} {one.flows}: {NAMES[metric]} {one.case} {word} {other.case}"
    return f"{NAMES[metric]} {one} {word} {other}"


def _block(pair: Pair) -> str:
    return f"{pair[0].config} {pair[0].flows}"

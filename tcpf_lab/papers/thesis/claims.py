"""What the thesis and the paper say of their results, as checks of numbers.

``claims.toml`` holds the claims and says what its words mean. A gain is a factor of
improvement, above 1 where the first scheme is the better one: theirs / ours for timeouts, loss and
CoV, ours / theirs for goodput.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcpf_lab.report.claims.judge import Check, Claim, Look, Source, bounds_of
from tcpf_lab.report.claims.published import CONFIGS, FLOWS
from tcpf_lab.report.compare.statistics import Array, CellKey
from tcpf_lab.report.style import CASES, DRAWN, METRICS

FRIO, RIO, OLD, TB, FRED, TAIL_DROP, RED = CASES
#: The new marker, with either queue.
NEW = (FRIO, RIO)
#: What the new marker is measured against in the thesis.
BASELINES = (TB, RED)

TIMEOUTS, LOSS, GOODPUT, COV = DRAWN
NAMES = {metric: METRICS[metric].word for metric in DRAWN}
_METRIC = {word: metric for metric, word in NAMES.items()}

Pair = tuple[CellKey, CellKey]
#: A row of ``checks`` in the file.
Row = Mapping[str, Any]


class Number(NamedTuple):
    """What a check asks for: its label, how it is worked out, its unit."""

    label: str
    quantity: Callable[[Look], Array]
    unit: str = ""


def moved(pair: Pair, to: str | int) -> Pair:
    """Give the same two cases in another configuration, or with another number of flows."""
    one, other = pair
    if isinstance(to, int):
        return replace(one, flows=to), replace(other, flows=to)
    return replace(one, config=to), replace(other, config=to)


def gain_of(look: Look, pair: Pair, metric: str) -> Array:
    """Give the factor by which the first cell is better than the second."""
    ours, theirs = (look(cell, metric) for cell in pair)
    return ours / theirs if metric == GOODPUT else theirs / ours


def gain(metric: str, pair: Pair) -> Number:
    """Give the factor of improvement of the first cell over the second."""
    return Number(_gain_label(metric, pair), lambda look: gain_of(look, pair, metric))


def growth(metric: str, first: Pair, to: str | int) -> Number:
    """Give the gain elsewhere over that of the pair."""
    second = moved(first, to)

    def quantity(look: Look) -> Array:
        return gain_of(look, second, metric) / gain_of(look, first, metric)

    return Number(f"{_gain_label(metric, second)}, against {_block(first)}", quantity)


def excess_growth(metric: str, first: Pair, to: str | int) -> Number:
    """Give the gain elsewhere over that of the pair, both less 1.

    A gain near 1 is mostly that 1, whatever happens to what is gained. Where the pair gains nothing
    there is nothing to compare with: minus infinity, outside of every range.
    """
    second = moved(first, to)

    def quantity(look: Look) -> Array:
        before, after = (gain_of(look, pair, metric) - 1 for pair in (first, second))
        return np.where(before <= 0, -np.inf, after / before)

    return Number(f"{_gain_label(metric, second)}, less 1, against {_block(first)}", quantity)


def amount_growth(metric: str, first: Pair, to: str | int) -> Number:
    """Give how much farther the two lie apart elsewhere, in the metric's own unit."""
    second = moved(first, to)

    def apart(look: Look, pair: Pair) -> Array:
        ours, theirs = (look(cell, metric) for cell in pair)
        return ours - theirs if metric == GOODPUT else theirs - ours

    def quantity(look: Look) -> Array:
        return apart(look, second) - apart(look, first)

    ours, theirs = second if metric == GOODPUT else second[::-1]
    label = (
        f"{ours.config} {ours.flows}: {NAMES[metric]} {ours.case} - {theirs.case}, "
        f"less that of {_block(first)}"
    )
    unit = METRICS[metric].unit
    return Number(label, quantity, unit if unit in ("", "%") else f" {unit}")


def orders_of_growth(metric: str, first: Pair, to: str | int) -> Number:
    """Give by how many orders of magnitude the gain elsewhere exceeds that of the pair."""
    ours, theirs = moved(first, to)
    said = f"log10 of gain at {ours.flows} / at {first[0].flows}"
    label = f"{ours.config}: {NAMES[metric]}, {said}, {ours.case} over {theirs.case}"
    grown = growth(metric, first, to).quantity
    return Number(label, lambda look: np.asarray(np.log10(grown(look))))


def by_cost(metric: str, pair: Pair, tuned: str) -> Number:
    """Give the gain over what mistuning costs the first cell."""
    (ours, theirs), own = pair, moved(pair, tuned)[0]
    label = f"{NAMES[metric]} {theirs} / {ours} over {ours} / {own}"
    return Number(
        label, lambda look: gain_of(look, pair, metric) / gain_of(look, (own, ours), metric)
    )


def by_metric(metric: str, pair: Pair, than: str) -> Number:
    """Give the gain in one metric over the gain in another, which is called by its word."""
    ours, theirs = pair
    other = _METRIC[than]
    return Number(
        f"{ours.config} {ours.flows}: gain in {NAMES[metric]} over gain in {than}, "
        f"{ours.case} against {theirs.case}",
        lambda look: gain_of(look, pair, metric) / gain_of(look, pair, other),
    )


def percent(metric: str, pair: Pair) -> Number:
    """Give the percentage by which the first cell's value exceeds the second's."""
    one, other = pair
    return Number(
        _two(metric, pair, "over"),
        lambda look: 100 * (look(one, metric) / look(other, metric) - 1),
        "%",
    )


def level(metric: str, pair: Pair) -> Number:
    """Give the value of the first cell."""
    cell, _ = pair
    unit = "%" if metric == LOSS else ""
    label = f"{cell.config} {cell.flows}: {NAMES[metric]} {cell.case}"
    return Number(label, lambda look: look(cell, metric), unit)


def per_flow(metric: str, pair: Pair) -> Number:
    """Give the value per flow of the first cell over that of the second."""
    one, other = pair
    return Number(
        f"{one.config}: {NAMES[metric]} per flow of {one.case}, "
        f"{one.flows} flows / {other.flows} flows",
        lambda look: (look(one, metric) / one.flows) / (look(other, metric) / other.flows),
    )


def _gain_label(metric: str, pair: Pair) -> str:
    return _two(metric, pair if metric == GOODPUT else pair[::-1], "/")


def _two(metric: str, pair: Pair, word: str) -> str:
    one, other = pair
    if (one.config, one.flows) == (other.config, other.flows):
        return f"{one.config} {one.flows}: {NAMES[metric]} {one.case} {word} {other.case}"
    return f"{NAMES[metric]} {one} {word} {other}"


def _block(pair: Pair) -> str:
    return f"{pair[0].config} {pair[0].flows}"


#: The numbers of the file that are made of a metric and a pair.
_OF_PAIR = {"gain": gain, "percent": percent, "level": level, "per flow": per_flow}
#: Those that also take a word of the row, and which.
_WITH_WORD: dict[str, tuple[str, Callable[[str, Pair, Any], Number]]] = {
    "gain by metric": ("than", by_metric),
    "gain by cost": ("tuned", by_cost),
    "growth of gain": ("to", growth),
    "growth of gain less 1": ("to", excess_growth),
    "growth of difference": ("to", amount_growth),
    "orders of growth": ("to", orders_of_growth),
}


class _File:
    """The claims of a file, and the groups of cases that it names."""

    def __init__(self, path: Path) -> None:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        self.groups: dict[str, list[str]] = data["groups"]
        self.claims = tuple(map(self._claim, data["claim"]))

    def _claim(self, one: Row) -> Claim[Check]:
        checks = tuple(check for row in one["checks"] for check in self._checks(row))
        sources = tuple(Source(*words) for words in one["sources"])
        return Claim(one["id"], sources, one["statement"], checks, not one.get("any"))

    def _checks(self, row: Row) -> Iterator[Check]:
        words = _several(row["metrics"])
        metrics = DRAWN if words == ["all"] else [_METRIC[word] for word in words]
        name, bounds = row.get("number", "gain"), bounds_of(row)
        for metric, pair in product(metrics, tuple(self._pairs(row))):
            for number in _numbers(name, metric, pair, row):
                yield Check(number.label, number.quantity, *bounds, number.unit)

    def _pairs(self, row: Row) -> Iterator[Pair]:
        configs, flows = _several(row.get("in", CONFIGS)), _several(row.get("flows", FLOWS))
        if "in_order" in row:
            for config, count in product(configs, flows):
                for one, other in pairwise(self._cases(row["in_order"])):
                    yield CellKey(config, count, one), CellKey(config, count, other)
        elif "across" in row:
            before, after = row["across"]
            for count, case in product(flows, self._cases(row["cases"])):
                yield CellKey(before, count, case), CellKey(after, count, case)
        elif "with_flows" in row:
            one, other = row["with_flows"]
            for config, case in product(configs, self._cases(row["cases"])):
                yield CellKey(config, one, case), CellKey(config, other, case)
        else:
            schemes, others = self._cases(row["of"]), self._cases(row.get("over", row["of"]))
            for config, count, ours, theirs in product(configs, flows, schemes, others):
                second = CellKey(row.get("over_in", config), count, theirs)
                yield CellKey(config, count, ours), second

    def _cases(self, names: str | list[str]) -> Sequence[str]:
        if isinstance(names, str):
            return self.groups.get(names, [names])
        return names


def _numbers(name: str, metric: str, pair: Pair, row: Row) -> Iterator[Number]:
    if name in _OF_PAIR:
        yield _OF_PAIR[name](metric, pair)
        return
    key, number = _WITH_WORD[name]
    for word in _several(row[key]):
        yield number(metric, pair, word)


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


#: Every claim, in the order of the texts.
CLAIMS = _File(Path(__file__).with_name("claims.toml")).claims

"""The axis of a parameter: numbers with their unit, or words in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from matplotlib.axes import Axes

from tcpf_lab.report.export.axes import base_value

_CHARACTERS = 72  # that fit under the axis; values nearer than that asks are not all written
_RATIO = 20  # between largest and smallest, from which on a logarithmic axis reads better


@dataclass(frozen=True)
class Scale:
    """Places of a parameter's values on the x axis.

    ``places`` has the number of each value, ``words`` what is written there, from left to right;
    ``ordered`` is whether these are numbers, so that something lies between two of them.
    """

    places: dict[str, float]
    words: tuple[str, ...]
    logarithmic: bool
    ordered: bool = True

    def show(self, axes: Axes, name: str) -> None:
        """Write the values under the axis, and what they are."""
        if self.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        told = self.told()
        axes.set_xticks([self.places[word] for word in told], told)
        if not self.ordered:
            axes.set_xlim(-0.5, len(self.words) - 0.5)
        axes.tick_params(axis="x", bottom=True)
        axes.set_xlabel(name)

    def told(self) -> list[str]:
        """Give the values that are written: those that have room beside the one before."""
        at = [log10(self.places[w]) if self.logarithmic else self.places[w] for w in self.words]
        room = (at[-1] - at[0]) * (max(map(len, self.words)) + 2) / _CHARACTERS
        kept = [0]
        for index, place in enumerate(at):
            if place - at[kept[-1]] >= room > 0:
                kept.append(index)
        return [self.words[index] for index in kept]


def scale_of(values: Sequence[str]) -> Scale:
    """Give the axis of a parameter that takes these values, as an experiment's file has them."""
    words = list(dict.fromkeys(values))
    numbers = _numbers(words)
    if numbers is None:  # words: in their own order, one apart
        places = {word: float(at) for at, word in enumerate(words)}
        return Scale(places, tuple(words), logarithmic=False, ordered=False)
    words.sort(key=lambda word: numbers[word])
    low, high = min(numbers.values()), max(numbers.values())
    return Scale(numbers, tuple(words), low > 0 and high / low >= _RATIO)


def _numbers(words: Sequence[str]) -> dict[str, float] | None:
    """Numbers of values, in base units; None if they are words, or not all of one unit."""
    numbers: dict[str, float] = {}
    units = set()
    for word in words:
        value, unit = base_value(word)
        if isinstance(value, str):
            return None
        numbers[word] = value
        units.add(unit)
    return numbers if len(units) == 1 else None

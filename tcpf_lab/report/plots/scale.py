"""The axis of a parameter: numbers with their unit, or words in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from tcpf_lab.errors import SpecError
from tcpf_lab.units import parse_duration, parse_rate, parse_size

#: What a value with a unit can be; the first that reads all values is taken.
_QUANTITIES: tuple[Callable[[object], float], ...] = (parse_size, parse_rate, parse_duration)
#: More values than that are not all written under the axis.
_TICKS = 9
_RATIO = 20  # between largest and smallest, from which on a logarithmic axis reads better


@dataclass(frozen=True)
class Scale:
    """Places of a parameter's values on the x axis.

    ``places`` has the number of each value, ``words`` what is written there, from left to right.
    """

    places: dict[str, float]
    words: tuple[str, ...]
    logarithmic: bool

    def place(self, value: Any) -> float:
        """Give the place of a value."""
        return self.places[str(value)]

    def show(self, axes: Axes, name: str) -> None:
        """Write the values under the axis, and what they are."""
        if self.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        step = -(-len(self.words) // _TICKS)
        axes.set_xticks(sorted(self.places.values())[::step], self.words[::step])
        axes.tick_params(axis="x", bottom=True)
        axes.set_xlabel(name)


def scale_of(values: Sequence[Any]) -> Scale:
    """Give the axis of a parameter that takes these values.

    Parameters
    ----------
    values : sequence
        As an experiment's file has them, ``100 kB``; None where it has none.
    """
    words = list(dict.fromkeys(str(value) for value in values if value is not None))
    numbers = _numbers(values)
    if numbers is None:  # words: in their own order, one apart
        return Scale({word: float(at) for at, word in enumerate(words)}, tuple(words), False)
    words.sort(key=lambda word: numbers[word])
    low, high = min(numbers.values()), max(numbers.values())
    return Scale(numbers, tuple(words), low > 0 and high / low >= _RATIO)


def _numbers(values: Sequence[Any]) -> dict[str, float] | None:
    """Numbers of values, in base units; None if they are words."""
    given = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return {str(value): float(value) for value in given}
    for parse in _QUANTITIES:
        try:
            return {str(value): float(parse(value)) for value in given}
        except (SpecError, ValueError):
            continue
    return None

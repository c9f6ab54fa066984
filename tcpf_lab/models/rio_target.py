"""Which setting of a RIO router keeps a quantity of the model at or below a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from tcpf_lab.errors import RequestError
from tcpf_lab.models.rio_fixed_point import solve
from tcpf_lab.models.rio_scenario import Scenario

#: What may be limited: attributes of a `Solution`.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q")
#: What may be varied.
PROBABILITIES = ("in_probability", "out_probability")
THRESHOLDS = ("in_min", "in_max", "out_min", "out_max")
#: Settings that are looked at before the ends of a range are narrowed down.
_LOOKS = 41
#: The queue's greatest length may be varied up to this multiple of itself.
_LONGER = 10
_RELATIVE = 1e-9


@dataclass(frozen=True)
class Range:
    """Settings from ``low`` to ``high``, both included."""

    low: float
    high: float


@dataclass(frozen=True)
class Answer:
    """Where the limit is kept.

    Attributes
    ----------
    tried : Range
        Settings that were looked at.
    kept : tuple of Range
        Those of them that keep the limit, ascending; empty if none does.
    least : (float, float)
        Setting at which the quantity is smallest, and the quantity there.
    edge : float or None
        The setting that just keeps the limit; None if all or none do.  The lowest, if there are
        several.
    """

    tried: Range
    kept: tuple[Range, ...]
    least: tuple[float, float]
    edge: float | None


def settings_for(scenario: Scenario, quantity: str, limit: float, vary: str) -> Answer:
    """Find the settings that keep a quantity at or below a limit.

    Parameters
    ----------
    scenario : Scenario
        All other settings.
    quantity : str
        Of ``QUANTITIES``.
    limit : float
        In the quantity's unit: packets/s, a probability, packets.
    vary : str
        The setting, of ``PROBABILITIES`` or ``THRESHOLDS``.

    Returns
    -------
    Answer
        Ends of ranges to nine digits, thresholds to a packet.  A range that lies between two
        neighbours of the 41 settings that are looked at first is not seen.

    Raises
    ------
    RequestError
        If there is no such quantity or setting.
    NoSolutionError
        If the model has no solution for a setting.
    """
    if quantity not in QUANTITIES:
        raise RequestError(f"no quantity; one of {', '.join(QUANTITIES)}", where=quantity)
    if vary not in (*PROBABILITIES, *THRESHOLDS):
        allowed = ", ".join((*PROBABILITIES, *THRESHOLDS))
        raise RequestError(f"cannot be varied; one of {allowed}", where=vary)

    def excess(setting: float) -> float:
        value = int(setting) if vary in THRESHOLDS else setting
        return float(getattr(solve(replace(scenario, **{vary: value})), quantity)) - limit  # type: ignore[arg-type]

    tried = _settings(scenario, vary)
    found = [excess(setting) for setting in tried]
    narrow = _narrowed_to_packets if vary in THRESHOLDS else _narrowed
    kept = tuple(_ranges(tried, found, lambda low, high: narrow(excess, low, high)))
    smallest = int(np.argmin(found))
    ends = [end for one in kept for end in (one.low, one.high) if end not in (tried[0], tried[-1])]
    return Answer(
        tried=Range(tried[0], tried[-1]),
        kept=kept,
        least=(tried[smallest], found[smallest] + limit),
        edge=min(ends, default=None),
    )


def _settings(scenario: Scenario, vary: str) -> list[float]:
    """Give the settings to look at, ascending: all that leave the scenario in order."""
    if vary in PROBABILITIES:  # small ones matter most
        return [0.0, *(float(p) for p in np.geomspace(1e-4, 1.0, _LOOKS - 1))]
    low, high = {
        "in_min": (0, scenario.in_max),
        "in_max": (max(scenario.in_min, scenario.out_max, 1), _LONGER * scenario.in_max),
        "out_min": (0, scenario.out_max),
        "out_max": (max(scenario.out_min, 1), scenario.in_max),
    }[vary]
    return sorted({float(round(value)) for value in np.linspace(low, high, _LOOKS)})


def _ranges(
    tried: list[float], found: list[float], narrowed: Callable[[float, float], tuple[float, float]]
) -> list[Range]:
    """Put neighbours that keep the limit together, and narrow down where they begin and end."""
    ranges: list[Range] = []
    low: float | None = tried[0] if found[0] <= 0 else None
    for (before, one), (after, other) in zip(
        zip(tried, found, strict=True), zip(tried[1:], found[1:], strict=True), strict=False
    ):
        if one > 0 >= other:
            low = narrowed(before, after)[1]
        elif one <= 0 < other and low is not None:
            ranges.append(Range(low, narrowed(before, after)[0]))
            low = None
    if low is not None:
        ranges.append(Range(low, tried[-1]))
    return ranges


def _narrowed(excess: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Give the setting between two at which the limit is just reached."""
    edge = float(brentq(excess, low, high, rtol=_RELATIVE))
    return edge, edge


def _narrowed_to_packets(
    excess: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Give the two neighbouring whole settings between which the limit is passed."""
    keeps = excess(low) <= 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (excess(middle) <= 0) is keeps else (low, middle)
    return low, high

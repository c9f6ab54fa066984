"""What is told of a run, whatever it comes from: captures, or counters alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tcpf_lab.metrics.validity import Check


@dataclass(frozen=True)
class Numbers:
    """The parts of ``metrics.json`` that differ by what a run left behind.

    Attributes
    ----------
    metrics : dict
        Numbers of the whole run; None where one is undefined or was not measured.
    by_dscp : dict
        Loss by code point.
    per_flow : list of dict
        A row per flow of the plan.
    truth : dict
        The kernel's count of timeouts, and what it was compared with.
    checks : list of Check
        The verdict is made of them.
    unmeasured : tuple of str
        Names in `metrics` that nothing of such a run could tell.
    """

    metrics: dict[str, float | int | None]
    by_dscp: dict[str, dict[str, float | int]]
    per_flow: list[dict[str, Any]]
    truth: dict[str, Any]
    checks: list[Check]
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extra:
    """What only some runs have in ``metrics.json``.

    Attributes
    ----------
    metrics : dict
        More of ``metrics``, or better values of what is there: numbers, or None.
    sections : dict
        Sections of their own by name.
    checks : list of Check
        More of the verdict (`tcpf_lab.metrics.validity.apply`).
    """

    metrics: dict[str, float | int | None] = field(default_factory=dict)
    sections: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


def or_none(function: Callable[..., float], *arguments: Any) -> float | None:
    """Value of a metric, None where it is undefined (JSON has no NaN)."""
    try:
        return function(*arguments)
    except ValueError:
        return None

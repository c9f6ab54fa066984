"""Values as words of a ``tc`` command."""

from __future__ import annotations

from tcpf_lab.units import format_probability


def tc_value(value: int | float | str | bool) -> str:
    """Write a parameter as ``tc`` reads it: switches as on and off, fractions without exponent.

    Examples
    --------
    >>> [tc_value(value) for value in (True, 500_000, 1e-05, "red")]
    ['on', '500000', '0.00001', 'red']
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_probability(value) if isinstance(value, float) else str(value)


def tc_time(seconds: float) -> str:
    """Write a duration in whole microseconds, the finest that ``tc`` reads everywhere.

    Examples
    --------
    >>> tc_time(0.4)
    '400000us'
    """
    return f"{round(seconds * 1e6)}us"

"""The axes of matrices as columns: their values in base units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tcpf_lab.report.export.columns import Column
from tcpf_lab.report.section import Section
from tcpf_lab.units import UnitError, parse_duration, parse_rate, parse_size

_UNITS: Mapping[str, Callable[[object], float]] = {
    "bit/s": parse_rate,
    "bytes": parse_size,
    "s": parse_duration,
    "": lambda text: float(str(text)),
}


def base_value(text: str) -> tuple[float | str, str]:
    """Give a setting's value in its base unit, and that unit; a word as it is.

    Examples
    --------
    >>> base_value("100 kB"), base_value("10 Mbit"), base_value("0.25"), base_value("cubic")
    ((100000.0, 'bytes'), (10000000.0, 'bit/s'), (0.25, ''), ('cubic', ''))
    """
    for unit, parse in _UNITS.items():
        with suppress(UnitError, ValueError):
            return float(parse(text)), unit
    return text, ""


def axis_columns(sections: Iterable[Section]) -> list[Column]:
    """Give a column for each axis, called by its key; one with a word among its values has text."""
    texts: dict[str, dict[str, None]] = {}
    for section in sections:
        for cell in section.source.cells:
            for key, text in cell.settings:
                texts.setdefault(key, {})[text] = None
    return [axis_column(key, found) for key, found in texts.items()]


def axis_column(key: str, texts: Iterable[str]) -> Column:
    """Give the column of an axis with these values: of numbers, if they all have one unit."""
    values = [base_value(text) for text in texts]
    meaning = f"value of the key `{key}`; missing where the case has no such key"
    units = {unit for _, unit in values}
    if len(units) > 1 or any(isinstance(value, str) for value, _ in values):
        return Column(key, "text", "", meaning, "run.yaml", optional=True)
    return Column(key, "number", units.pop(), meaning, "run.yaml", optional=True)


def in_base_units(row: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, Any]:
    """Give a row of a table with the settings in it as entries of their columns."""
    numeric = [column.name for column in columns if column.kind == "number" and column.name in row]
    return {**row, **{name: base_value(row[name])[0] for name in numeric}}

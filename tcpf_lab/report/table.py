"""Tables: what one is, its writers for a terminal and for Markdown, and numbers as they print.

A page and a PDF are written from the same tables by the templates of ``report/pages``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from rich import box
from rich import table as rich
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

#: Stands in a table where there is no number.
NOTHING = "–"
#: Columns of the narrowest terminal that tables are made for.
TERMINAL = 80
#: Blanks between the columns of a plain table.
GAP = 2

#: What Markdown would not show as it is; a "<" that no tag begins with is none.
_MARKUP = re.compile(r"[\\`\[]|<(?=[A-Za-z/!?])")

#: ``text`` is read; ``number`` is one number per entry; ``estimate`` a mean, its half width and the
#: published value, of which the last two may be empty.
Kind = Literal["text", "number", "estimate"]
#: How a terminal sets a column that has no room: it is ``folded`` anywhere, stays ``whole``, or is
#: as ``wide`` as can be.
Fit = Literal["", "folded", "whole", "wide"]
_SET: dict[Fit, dict[str, Any]] = {
    "": {},
    "folded": {"overflow": "fold"},
    "whole": {"no_wrap": True},
    "wide": {"overflow": "fold", "ratio": 1},
}


@dataclass(frozen=True)
class Column:
    """A column of a table: ``explanation`` says in a sentence what stands in it (a tooltip)."""

    heading: str
    kind: Kind = "text"
    unit: str = ""
    explanation: str = ""
    fit: Fit = ""


@dataclass(frozen=True)
class Entry:
    """An entry of a table.

    Parameters
    ----------
    text : str
        What is printed; of an estimate its mean, ``182.7``.
    value : float or None
        What the entry is sorted by; None sorts last.
    half : str
        Half width of the 95 % confidence interval without its sign, ``9.6`` or ``<0.1``, or empty.
    published : str
        The published value, or empty.
    note : str
        What a reader may want to know besides (a tooltip): the values of the runs, why there is no
        number.
    style : str
        How a terminal shows the text.
    more : tuple of (str, str)
        What a terminal shows behind it, with a style each.
    """

    text: str
    value: float | None = None
    half: str = ""
    published: str = ""
    note: str = ""
    style: str = ""
    more: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Give ``1532 ± 21``, or the text alone."""
        return f"{self.text} ± {self.half}" if self.half else self.text

    def __rich__(self) -> Text:
        """Give the entry for a terminal: the published value stands under ours."""
        known = ((f"\n({self.published})", "dim"),) if self.published else ()
        below = (*known, *self.more)
        if not below:
            return Text(str(self), style=self.style)
        return Text.assemble((str(self), self.style), *below)

    @property
    def in_line(self) -> str:
        """The entry with the published value behind it, ``1532 ± 21 (1322)``."""
        return f"{self} ({self.published})" if self.published else str(self)


Row = tuple[Entry, ...]


@dataclass(frozen=True)
class Group:
    """Rows of a table that belong together, under a heading that may be empty (``100 flows``)."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table; ``name`` is its anchor (letters, digits and dashes).

    ``label`` is ``Table 3`` as soon as the report is numbered. ``note`` says how to read it and
    stands under it. ``close`` lets a terminal bring the columns together where it would have to
    fold names.
    """

    name: str
    label: str = field(default="", kw_only=True)
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    note: str = ""
    close: bool = False

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of the columns."""
        return tuple(column.heading for column in self.columns)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The texts of all rows."""
        return tuple(tuple(e.in_line for e in row) for group in self.groups for row in group.rows)

    def __rich__(self) -> rich.Table:
        """Give the table for a terminal."""
        return boxed(self, self.caption, self.note)


#: Headings of columns of texts, and columns.
Headings = Iterable[str | Column]
#: An entry that is told by its text alone may be that text.
Line = Iterable[str | Entry]


def rows_of(rows: Iterable[Line]) -> tuple[Row, ...]:
    """Give rows of entries, of which some are texts."""
    return tuple(tuple(Entry(e) if isinstance(e, str) else e for e in row) for row in rows)


def table_of(
    name: str,
    caption: str,
    columns: Headings,
    rows: Iterable[Line],
    note: str = "",
    *,
    close: bool = False,
) -> Table:
    """Give a table of rows that are not grouped; a column of texts is told by its heading."""
    every = tuple(Column(one) if isinstance(one, str) else one for one in columns)
    return Table(name, caption, every, (Group("", rows_of(rows)),), note, close)


def boxed(table: Table, above: str, below: str) -> rich.Table:
    """Give a table as all tables for a terminal look.

    Parameters
    ----------
    table : Table
        What is in it.
    above, below : str
        What stands above and below.
    """
    shown = rich.Table(title=Text(above), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    if below:
        shown.caption = Text(below)
    _fill(shown, table)
    roomy = Console(width=1000)
    if table.close and Measurement.get(roomy, roomy.options, shown).maximum > TERMINAL:
        shown.padding = (0, 0, 0, 0)
        shown.show_edge = False
    return shown


def plain(table: Table) -> rich.Table:
    """Give a table without lines, and without a heading if all of them are empty."""
    shown = rich.Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, GAP, 0, 0),
        show_header=any(table.headings),
    )
    _fill(shown, table)
    return shown


def _fill(shown: rich.Table, table: Table) -> None:
    for column in table.columns:
        side: Literal["left", "right"] = "left" if column.kind == "text" else "right"
        shown.add_column(Text(column.heading), justify=side, **_SET[column.fit])
    for group in table.groups:
        if group.heading:
            shown.add_row(Text(group.heading, style="bold"))
        for row in group.rows:
            shown.add_row(*row)
        shown.add_section()


def as_markdown(text: str) -> str:
    r"""Give text so that Markdown shows it as it is: no link, no code, no HTML.

    Examples
    --------
    >>> print(as_markdown("<b> ± <1"))
    \<b> ± <1
    """
    return _MARKUP.sub(r"\\\g<0>", text)


def for_markdown(table: Table) -> str:
    """Give a table's rows padded to equal widths, so that the source reads as a table too."""
    cells = [
        [as_markdown(text).replace("|", "\\|") for text in row]
        for row in (table.headings, *table.rows)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = [column.kind == "text" for column in table.columns]
    ends = ["-" if at_left else ":" for at_left in left]
    rule = ["-" * (width - 1) + end for width, end in zip(widths, ends, strict=True)]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = (
            text.ljust(width) if at_left else text.rjust(width)
            for text, width, at_left in zip(row, widths, left, strict=True)
        )
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join(lines)


#: Stands before a negative number; a hyphen is narrower, and a line may be broken behind it.
MINUS = "\u2212"
#: Whole numbers from here on have more than three digits.
_WHOLE_FROM = 1000


def fixed(value: float, places: int) -> str:
    """Give a number with so many decimals; what rounds to zero has no sign.

    Examples
    --------
    >>> fixed(-0.333, 2), fixed(-0.001, 2)
    ('−0.33', '0.00')
    """
    return f"{value:z.{places}f}".replace("-", MINUS)


def significant(value: float) -> str:
    """Give three significant digits, whole numbers from 1000 on, without an exponent.

    Examples
    --------
    >>> significant(0.98765), significant(999.9), significant(12345.6), significant(-0.00002)
    ('0.988', '1000', '12346', '−0.00002')
    """
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if abs(value) >= _WHOLE_FROM:
        return fixed(value, 0)
    rounded = Decimal(f"{value:z.2e}").normalize()
    return f"{rounded:f}".replace("-", MINUS)


def spread(values: Sequence[float]) -> str:
    """Give the smallest and the largest of some values, ``1.02 to 1.95``, or the only one."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def ratios(*values: float) -> tuple[str, ...]:
    """Give ratios, those below 10 with three decimals, more where one would pass for 1.

    What a ratio says is on which side of 1 it is: an end of an interval must not seem to be 1.

    Examples
    --------
    >>> ratios(0.5, 0.49312, 12.0)
    ('0.500', '0.493', '12')
    >>> ratios(1.00031, 1.00012, 1.0005)
    ('1.0003', '1.0001', '1.0005')
    """
    places = next((p for p in range(3, 6) if not any(_passes_for_1(v, p) for v in values)), 6)
    return tuple(fixed(v, places) if abs(v) < 10 else significant(v) for v in values)


def _passes_for_1(value: float, places: int) -> bool:
    return float(fixed(abs(value), places)) == 1 and not math.isclose(value, 1, rel_tol=1e-9)

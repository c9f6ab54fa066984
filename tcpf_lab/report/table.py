"""Tables: what one is, its writers for a terminal and for Markdown, and numbers as they print.

A page and a PDF are written from the same tables by the templates of ``report/pages``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

#: Stands in a table where there is no number.
NOTHING = "–"

#: Blanks between the columns of a plain table.
GAP = 2
#: A longer word, such as a path, may be broken where a column is folded.
_LONGEST_WORD = 24
#: A wider column is not split off into a block: the row is printed as a record.
_WIDEST = 48
#: Indentation of a value's further lines in a record.
_INDENT = 2

#: What Markdown would not show as it is; a "<" that no tag begins with is none.
_MARKUP = re.compile(r"[\\`\[]|<(?=[A-Za-z/!?])")

#: ``text`` is read; ``number`` is one number per entry; ``estimate`` a mean, its half width and the
#: published value, of which the last two may be empty.
Kind = Literal["text", "number", "estimate"]
#: How a terminal sets a column of texts that does not fit: it is ``folded``, or stays ``whole``.
Fit = Literal["", "folded", "whole"]


@dataclass(frozen=True)
class Column:
    """A column of a table: ``explanation`` defines it in a sentence (a tooltip)."""

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
class _Block:
    """Some columns of a table, and the width of each."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]


@dataclass
class TerminalTable:
    """A table in the width of the terminal it is printed on.

    Parameters
    ----------
    columns, groups : tuple
        As `Table` has them.
    title, note : str
        What stands above and below.
    lines : bool
        Whether a line stands below the headings and between groups.
    close : bool
        Whether columns may come together before any is folded.
    order : tuple of int, or None
        Places of all columns in the order in which blocks of columns take them; each block begins
        with the first one. By default from left to right, and with the texts on the left.
    """

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    title: str = ""
    note: str = ""
    lines: bool = False
    close: bool = False
    order: tuple[int, ...] | None = None

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the table as wide as it needs to be, or as the terminal allows."""
        width = options.max_width
        natural = [self._natural(place) for place in range(len(self.columns))]
        every = tuple(range(len(self.columns)))
        for close in (False, True)[: 1 + self.close]:
            rest = width - self._frame(len(every), close=close)
            if sum(natural) <= rest:
                yield self._table(_Block(every, tuple(natural)), close=close)
                return
        if widths := self._folded(natural, rest):
            yield self._table(_Block(every, widths), close=self.close)
        elif blocks := self._blocks(natural, width):
            for number, block in enumerate(blocks):
                if number and not self.lines:
                    yield Text()
                first, last = not number, number == len(blocks) - 1
                yield self._table(block, close=False, title=first, note=last)
        else:
            yield from self._records(console, width)

    def _frame(self, columns: int, *, close: bool = False) -> int:
        """Give how many characters stand between and around columns."""
        return columns - 1 if close else GAP * (columns - 1) + 2 * self.lines

    def _entries(self, place: int) -> Iterator[Entry]:
        return (row[place] for group in self.groups for row in group.rows if place < len(row))

    def _texts(self, place: int) -> Iterator[str]:
        """Yield every line of a column's entries."""
        for entry in self._entries(place):
            yield from entry.__rich__().plain.split("\n")
        if not place:
            yield from (group.heading for group in self.groups)

    def _natural(self, place: int) -> int:
        heads = self.columns[place].heading.split("\n")
        return max(map(cell_len, (*heads, *self._texts(place))))

    def _minimum(self, place: int) -> int:
        """Give the width below which a column would break a number or a word."""
        column = self.columns[place]
        heading = max(map(cell_len, column.heading.replace(".", ". ").split()), default=0)
        if column.kind != "text" or column.fit == "whole":
            return max(heading, *map(cell_len, self._texts(place)), 0)
        words = (cell_len(word) for text in self._texts(place) for word in text.split())
        return max(heading, min(_LONGEST_WORD, max(words, default=0)))

    def _folded(self, natural: Sequence[int], available: int) -> tuple[int, ...]:
        """Give the widths of columns that are folded, or nothing if they do not fit."""
        widths = [min(one, self._minimum(place)) for place, one in enumerate(natural)]
        left = available - sum(widths)
        if left < 0:
            return ()
        wanting = sorted(range(len(widths)), key=lambda place: natural[place] - widths[place])
        for done, place in enumerate(wanting):
            more = min(natural[place] - widths[place], left // (len(wanting) - done))
            widths[place] += more
            left -= more
        return tuple(widths)

    @property
    def _keys(self) -> int:
        """How many columns name a row."""
        if self.order is not None:
            return 1
        kinds = ["text" if column.kind == "text" else "number" for column in self.columns]
        text = kinds.index("text") if "text" in kinds else 0
        return kinds.index("number", text + 1) if "number" in kinds[text + 1 :] else 1

    def _blocks(self, natural: Sequence[int], width: int) -> list[_Block]:
        """Split the columns into blocks as wide as the terminal; none if one has sentences."""
        order = self.order or tuple(range(len(self.columns)))
        keys, others = order[: self._keys], list(order[self._keys :])
        if max((natural[place] for place in others), default=0) > _WIDEST:
            return []
        blocks: list[_Block] = []
        while others:
            taken = list(keys)
            for place in others:
                some = [*taken, place]
                if sum(natural[each] for each in some) + self._frame(len(some)) <= width:
                    taken = some
            if len(taken) == len(keys):
                return []
            others = [place for place in others if place not in taken]
            places = tuple(sorted(taken))
            blocks.append(_Block(places, tuple(natural[place] for place in places)))
        return blocks

    def _table(
        self, part: _Block, *, close: bool, title: bool = True, note: bool = True
    ) -> RichTable:
        """Give columns as a table of fixed widths."""
        shown = RichTable(
            title=Text(self.title) if title and self.title else None,
            caption=Text(self.note) if note and self.note else None,
            box=box.SIMPLE_HEAD if self.lines else None,
            show_edge=not close,
            show_header=any(self.columns[place].heading for place in part.columns),
            header_style="bold",
            pad_edge=False,
            padding=(0, 0 if close else GAP - self.lines, 0, 0),  # a divider is a blank, too
        )
        for place, width in zip(part.columns, part.widths, strict=True):
            column = self.columns[place]
            heading, side = column.heading, _side(column)
            if max(map(cell_len, heading.split("\n"))) > width:
                heading = heading.replace(".", ".\n")
            shown.add_column(Text(heading), justify=side, width=width, overflow="fold")
        for group in self.groups:
            if group.heading:
                shown.add_row(Text(group.heading, style="bold"))
            for row in group.rows:
                shown.add_row(*(row[place] for place in part.columns if place < len(row)))
            shown.add_section()
        return shown

    def _records(self, console: Console, width: int) -> Iterator[RenderableType]:
        """Give each row as lines of ``name: value``."""
        parts: list[list[RenderableType]] = []
        if self.title:
            parts.append([Text(self.title, style="italic")])
        for group in self.groups:
            if group.heading:
                parts.append([Text(group.heading, style="bold")])
            parts += (list(self._record(row, console, width)) for row in group.rows)
        if self.note:
            parts.append([Text(self.note, style="dim")])
        for number, part in enumerate(parts):
            if number:
                yield Text()
            yield from part

    def _record(self, row: Row, console: Console, width: int) -> Iterator[RenderableType]:
        if len(row) == 1:
            yield Text(row[0].text.strip(), style="bold")
            return
        for column, entry in zip(self.columns, row, strict=False):
            parts = [part for part in entry.__rich__().split("\n") if part.plain.strip()]
            value = Text().join((*parts[:1], *map(_behind, parts[1:])))
            value.rstrip()
            name = " ".join(column.heading.split())
            text = Text.assemble((f"{name}: " if name else "", "bold"), value)
            if not value.plain.strip():
                continue
            if text.cell_len <= width:
                yield text
            else:
                yield Text(f"{name}:" if name else "", style="bold")
                for line in value.wrap(console, max(1, width - _INDENT)):
                    yield Text(" " * _INDENT) + line


def _behind(part: Text) -> Text:
    """Give a further line of an entry, to stand behind the first one."""
    return Text(" " if part.plain.startswith("(") else ", ") + part


def _side(column: Column) -> Literal["left", "right"]:
    return "left" if column.kind == "text" else "right"


@dataclass(frozen=True)
class Table:
    """A table; ``name`` is its anchor (letters, digits and dashes).

    ``label`` is ``Table 3`` as soon as the report is numbered. ``note`` explains it and
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
    def wide(self) -> bool:
        """Whether it has too many numbers for an upright page, as the PDF's template has it."""
        return sum(column.kind == "estimate" for column in self.columns) > 5

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of the columns."""
        return tuple(column.heading for column in self.columns)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The texts of all rows."""
        return tuple(tuple(e.in_line for e in row) for group in self.groups for row in group.rows)

    def __rich__(self) -> TerminalTable:
        """Give the table for a terminal."""
        return boxed(self, self.caption, self.note)


#: Headings of columns of texts, and columns.
Headings = Iterable[str | Column]
#: A text stands for an entry of it.
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
    """Give a table of rows that are not grouped; a heading stands for a column of texts."""
    every = tuple(Column(one) if isinstance(one, str) else one for one in columns)
    return Table(name, caption, every, (Group("", rows_of(rows)),), note, close)


def boxed(table: Table, above: str, below: str) -> TerminalTable:
    """Give a table with lines for a terminal, with a title above it and a note below."""
    return TerminalTable(table.columns, table.groups, above, below, lines=True, close=table.close)


def plain(table: Table, *, order: tuple[int, ...] | None = None) -> TerminalTable:
    """Give a table without lines for a terminal; ``order`` as `TerminalTable` has it."""
    return TerminalTable(table.columns, table.groups, order=order)


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

    An end of an interval must not seem to be 1.

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

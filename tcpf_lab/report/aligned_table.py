"""What the tables of captures on a terminal have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

#: Rows of a table that is not asked for in full.
SHOWN = 20
#: Blanks between columns.
GAP = 2
#: Stands where there is no value.
NOTHING = "–"


def aligned_table(columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]) -> Table:
    """Give a table without lines.

    Parameters
    ----------
    columns : iterable of (str, bool)
        Headings, and whether what is below is aligned to the right.
    rows : iterable of iterable of str
        Entries, as they are: no markup.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for heading, right in columns:
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, its entries, and how long it is kept when room is short."""

    heading: str
    entries: tuple[str, ...]
    rank: int
    right: bool = True

    @property
    def width(self) -> int:
        """Characters that it takes."""
        return max(map(len, (self.heading, *self.entries)))


def fitting(columns: Sequence[Column], width: int) -> Iterator[RenderableType]:
    """Give a table without lines of the columns that have room, and say which have not.

    Parameters
    ----------
    columns : sequence of Column
        From left to right; entries are as they are: no markup.
    width : int
        Columns of the terminal.
    """
    ranked = sorted(columns, key=lambda column: column.rank)
    taken = accumulate((column.width + GAP for column in ranked), initial=-GAP)
    kept = [column for column, end in zip(ranked, list(taken)[1:], strict=True) if end <= width]
    kept = kept or ranked[:1]
    shown = [column for column in columns if column in kept]
    rows = zip(*(column.entries for column in shown), strict=True)
    yield aligned_table([(column.heading, column.right) for column in shown], rows)
    left_out = [column.heading for column in columns if column not in kept]
    if left_out:
        yield Text(f"no room for: {', '.join(left_out)}; --json has everything", style="dim")


def host(address: str) -> str:
    """Write an address so that a port may follow."""
    return f"[{address}]" if ":" in address else address

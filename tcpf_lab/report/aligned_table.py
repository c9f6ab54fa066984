"""What the tables of captures on a terminal have in common."""

from __future__ import annotations

from collections.abc import Iterable

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


def host(address: str) -> str:
    """Write an address so that a port may follow."""
    return f"[{address}]" if ":" in address else address

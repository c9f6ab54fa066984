"""What a column of a table is, and what a table is: names, units, meanings, sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

#: ``count`` is a whole number, ``truth`` yes or no.
Kind = Literal["text", "count", "number", "truth"]


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    name : str
        As in the table; a number that ``metrics.json`` has too is called the same here.
    kind : {"text", "count", "number", "truth"}
        What stands in it.
    unit : str
        Of a number; empty for what has none.
    meaning : str
        What the number or word says, in a few words.
    source : str
        Where it comes from: a file of the run with the key in it, or another table.
    optional : bool
        Whether an entry may be missing.
    measured : bool
        Whether an entry is missing where the run could not measure it, as without captures.  The
        column has the type of one without missing entries where none is.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    source: str
    optional: bool = False
    measured: bool = False


@dataclass(frozen=True)
class Layout:
    """One table: what a row is, and its columns in their order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def units(self) -> dict[str, str]:
        """The unit of every column that has one."""
        return {column.name: column.unit for column in self.columns if column.unit}

    def with_axes(self, axes: Sequence[Column]) -> Layout:
        """Give the layout with the columns that the matrix's own axes add, behind ``flows``."""
        at = self.names.index("flows") + 1
        return replace(self, columns=(*self.columns[:at], *axes, *self.columns[at:]))


#: Kinds of segments that were sent again but for timeouts, each with its meaning.
SENT_AGAIN = (
    ("fast", "segments that a fast recovery began with"),
    ("sack_recovery", "further segments of a recovery with SACK"),
    ("partial_ack", "further segments of a recovery without SACK"),
    ("post_rto", "segments sent again in slow start after a timeout"),
    ("tlp", "tail loss probes that sent data again"),
    ("unknown", "those that none of these explains"),
)

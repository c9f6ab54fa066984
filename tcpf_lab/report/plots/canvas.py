"""What every figure stands on: a sheet without a display, a head, a legend, and the file's bytes.

Drawn through matplotlib's objects, without pyplot: nothing global. The bytes of a file depend on
nothing but what is drawn: no dates inside, no random names.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend_handler import HandlerTuple
from matplotlib.text import Text

#: Size of a figure, inches: as wide as a page's text.
WIDTH, HEIGHT = 6.4, 4.4

_METADATA: Mapping[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "tcpf-lab"},
    "svg": {"Date": None, "Creator": "tcpf-lab"},
}
_TITLE_CHARACTERS, _SUBTITLE_CHARACTERS = 62, 80  # of a line of a figure of the usual width
_TITLE_LINE, _SUBTITLE_LINE, _GAP = 14, 12, 9  # points
_COMPRESSION = 3  # of a PNG: larger by some per cent than with the usual 6, twice as fast
_LEGEND_CHARACTERS, _LEGEND_MARK = 96, 8  # of a row, and what an entry takes besides its label


@dataclass(frozen=True)
class Entry:
    """A line of a legend: what it shows, one artist or several on top of each other."""

    label: str
    handle: Artist | tuple[Artist, ...]


def sheet(width: float = WIDTH, height: float = HEIGHT) -> Figure:
    """Give an empty figure of so many inches; its parts make room for each other."""
    figure = Figure((width, height), layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06))
    FigureCanvasAgg(figure)
    return figure


def head(axes: Axes, title: str, subtitle: str, lift: float = 0) -> None:
    """Put both above the middle of the axes; what is long is broken, never cut.

    ``lift`` is the room in points that is left for something between them and the axes.
    """
    share = axes.get_figure(root=True).get_figwidth() / WIDTH  # type: ignore[union-attr]
    lines = wrap(subtitle, round(share * _SUBTITLE_CHARACTERS), break_on_hyphens=False)
    above = wrap(title, round(share * _TITLE_CHARACTERS), break_on_hyphens=False)
    axes.set_title("\n".join(above), fontweight="bold", pad=12 + lift + _SUBTITLE_LINE * len(lines))
    axes.annotate(
        "\n".join(lines),
        (0.5, 1),
        (0, _GAP + lift),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
    )


def legend(figure: Figure, entries: Sequence[Entry]) -> None:
    """Put a legend under the axes, where it can cover nothing, in as many columns as fit."""
    if not entries:
        return
    room = _LEGEND_CHARACTERS * figure.get_figwidth() / WIDTH
    rows = next(rows for rows in range(1, len(entries) + 1) if _fits(entries, rows, room))
    handles: list[Any] = [entry.handle for entry in entries]
    figure.legend(
        handles,
        [entry.label for entry in entries],
        loc="outside lower center",
        ncols=ceil(len(entries) / rows),
        handler_map={tuple: HandlerTuple(ndivide=1)},
        handlelength=2.2,
        handleheight=1.1,
    )


def _fits(entries: Sequence[Entry], rows: int, room: float) -> bool:
    """Whether so many rows are few enough columns; they are filled from top to bottom."""
    labels = [len(entry.label) for entry in entries]
    columns = [labels[start : start + rows] for start in range(0, len(labels), rows)]
    return len(columns) == 1 or sum(max(column) + _LEGEND_MARK for column in columns) <= room


def render(figure: Figure, suffixes: Sequence[str]) -> dict[str, bytes]:
    """Give a figure's content in some of the formats of ``section.SUFFIXES``.

    Its parts are put in their places once, not once for each format.
    """
    for text in figure.findobj(Text):
        if hasattr(text, "set_fontfeatures"):  # later versions write "fl" as one glyph
            text.set_fontfeatures(("-liga",))
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    return {suffix: _bytes(figure, suffix) for suffix in suffixes}


def _bytes(figure: Figure, suffix: str) -> bytes:
    content = io.BytesIO()
    options: dict[str, Any] = (
        {"pil_kwargs": {"compress_level": _COMPRESSION}} if suffix == "png" else {}
    )
    figure.savefig(content, format=suffix, metadata=_METADATA[suffix], **options)
    return content.getvalue()

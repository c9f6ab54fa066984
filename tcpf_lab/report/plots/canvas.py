"""What every figure stands on: a sheet without a display, a head, a legend, and the file's bytes.

Drawn through matplotlib's objects, without pyplot: nothing global. The bytes of a file depend on
nothing but what is drawn: no dates inside, no random names.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FuncFormatter, LogLocator
from numpy.typing import ArrayLike

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.pages.pdf import FONT, glyphs
from tcpf_lab.report.plots.runs import DrawnRun, Group
from tcpf_lab.report.style import (
    DISTINCT,
    MARKS,
    SOLID,
    WARM_UP,
    CaseStyle,
    Dash,
    case_styles,
    contrasting_styles,
    lightness,
    ranked_styles,
)

#: Size of a figure, inches: as wide as a page's text.
WIDTH, HEIGHT = 6.4, 4.4
#: How an error bar is drawn.
INTERVAL = MARKS["interval"]

_METADATA: Mapping[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "tcpf-lab"},
    "svg": {"Date": None, "Creator": "tcpf-lab"},
}
_TITLE_CHARACTERS, _SUBTITLE_CHARACTERS = 62, 80  # of a line of a figure of the usual width
_TITLE_LINE, _SUBTITLE_LINE, _GAP = 14, 12, 9  # points
_COMPRESSION = 3  # of a PNG: larger by some per cent than with the usual 6, twice as fast
_MARK, _SPACE = 2.2, 2.8  # widths in a legend's letters: of a mark, and around it and its label
_LINE = 1.6  # heights of letters that a row of a legend takes
_ROWS = 2  # of a legend that the usual height has room for


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
    font = FontProperties(size=mpl.rcParams["legend.fontsize"])
    letter = font.get_size_in_points()
    room = 72 * figure.get_figwidth() / letter - 1
    longest = room - _MARK - _SPACE
    labels = [_broken(entry.label, longest, font) for entry in entries]
    widths = [max(_width(line, font) for line in label) + _MARK + _SPACE for label in labels]
    columns = next(n for n in range(len(entries), 0, -1) if n == 1 or _wide(widths, n) <= room)
    handles: list[Any] = [entry.handle for entry in entries]
    figure.legend(
        handles,
        ["\n".join(label) for label in labels],
        loc="outside lower center",
        ncols=columns,
        handler_map={tuple: HandlerTuple(ndivide=1)},
        handlelength=_MARK,
        handleheight=1.1,
    )
    lines = sum(sorted(map(len, labels))[-ceil(len(entries) / columns) :])
    figure.set_figheight(figure.get_figheight() + max(lines - _ROWS, 0) * _LINE * letter / 72)


def _wide(widths: Sequence[float], columns: int) -> float:
    """Width of so many columns, which are filled from top to bottom, the first ones more."""
    return float(sum(column.max() for column in np.array_split(widths, columns)))


def _broken(label: str, longest: float, font: FontProperties) -> list[str]:
    """Break a label that is longer than so many letters are high."""
    share = min(1.0, longest / _width(label, font))
    return wrap(label, max(1, int(share * len(label))), break_on_hyphens=False) or [""]


def _width(text: str, font: FontProperties) -> float:
    """Width of a text in heights of its letters."""
    if not text:
        return 0.0
    width, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(width) / font.get_size_in_points()


def render(figure: Figure, suffixes: Sequence[str]) -> dict[str, bytes]:
    """Give a figure's content in some of the formats of ``section.SUFFIXES``.

    Its parts are put in their places once, not once for each format.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    found = glyphs("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_text(found.shown(text.get_text()))
        if found.fonts:
            text.set_fontfamily([FONT, *found.fonts])
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


INK = "#111111"
#: What is lighter than this is lost on white paper without an outline.
_PALE = 52
#: An axis of delay is logarithmic if the longest is so many times the shortest.
_FAR = 10
_AROUND = 2.2  # inches that head, ticks and legend take
#: Room that the label of the first panel takes under a figure's head, points.
LABEL = 9
#: Size of labels; characters that fit into a line of that size, and of the smallest.
_LABEL_SIZE, _LABEL_FITS, _LABEL_LINE = 8.5, 68, 110


def panels(
    count: int, each: float, *, share_x: bool = True, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Give a figure with `count` axes above each other, each so many inches high.

    Returns
    -------
    tuple of (Figure, list of Axes)
        From top to bottom.
    """
    figure = sheet(height=_AROUND + count * each)
    made = figure.subplots(count, 1, squeeze=False, sharex=share_x, sharey=share_y)
    return figure, [axes for (axes,) in made]


def delay_axis(axes: Axes, low: ArrayLike, typical: ArrayLike) -> bool:
    """Make an x axis of delays logarithmic if they are far apart; return whether it is.

    ``low`` are the shortest of what is drawn: one of 0 has no place on such an axis. ``typical``
    are those that are compared.
    """
    if np.min(low) <= 0 or np.max(typical) < _FAR * np.min(typical):
        return False
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
    return True


def name_panel(axes: Axes, label: str) -> None:
    """Write a panel's label above its left corner, small if it is long."""
    lines = wrap(label, _LABEL_LINE)
    longest = max(map(len, lines))
    axes.annotate(
        "\n".join(lines),
        (0, 1),
        (1, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        fontweight="bold",
        fontsize=_LABEL_SIZE * min(1.0, _LABEL_FITS / longest),
    )


def looks(groups: Sequence[Group]) -> dict[str, CaseStyle]:
    """Give every label of the groups its look: the case's own, if no case has several.

    Raises
    ------
    RequestError
        If there are more than there are looks.
    """
    labels = list(dict.fromkeys(group.label for group in groups))
    if len(labels) > DISTINCT:
        raise RequestError(
            f"{len(labels)} lines; a figure distinguishes at most {DISTINCT}",
            hint="choose some of the cases with --case, or of the settings with --only",
        )
    cases = {group.first.case for group in groups}
    if len(cases) < len(labels):
        return ranked_styles(labels)
    return case_styles(labels, {case for group in groups for case in group.first.cases})


#: Lines and markers of a case's groups, where its colour is the case's.
_OF_GROUPS: tuple[tuple[Dash, str], ...] = (
    (SOLID, "o"),
    ((0, (4.2, 1.3)), "s"),
    ((0, (1.1, 1.1)), "^"),
    ((0, (4.2, 1.3, 1.1, 1.3)), "D"),
)


def pair_looks(
    pairs: Sequence[tuple[str, str]], cells: Mapping[str, CaseStyle]
) -> dict[tuple[str, str], CaseStyle]:
    """Give a look to each pair of cell and group: the colour is the cell's, the rest the group's.

    Of one cell, and with more groups than dashes, each pair has a look of its own.

    Parameters
    ----------
    pairs : sequence of (str, str)
        Labels of cells, names of groups.
    cells : mapping of str to CaseStyle
        Looks of the cells.

    Raises
    ------
    RequestError
        If there are more than can be distinguished.
    """
    if len(pairs) > DISTINCT:
        raise RequestError(
            f"{len(pairs)} groups of cases; a figure distinguishes at most {DISTINCT}",
            hint="choose some of the cases with --case, or of the settings with --only",
        )
    seen, names = (list(dict.fromkeys(words)) for words in zip(*pairs, strict=True))
    if len(names) == 1 and len(seen) > 1:
        return {pair: cells[pair[0]] for pair in pairs}
    labels = {pair: pair[1] if len(seen) == 1 else ": ".join(pair) for pair in pairs}
    if len(seen) == 1 or len(names) > len(_OF_GROUPS):
        own = contrasting_styles(list(labels.values()))
        return {pair: own[label] for pair, label in labels.items()}
    found = {}
    for (cell, name), label in labels.items():
        dash, marker = _OF_GROUPS[names.index(name)]
        found[cell, name] = replace(cells[cell], label=label, dash=dash, marker=marker)
    return found


def run_looks(runs: Mapping[str, DrawnRun]) -> dict[str, CaseStyle]:
    """Give the look of runs by their labels: the case's, if no two are of one case."""
    cases = {run.case for run in runs.values()}
    if len(cases) < len(runs):
        return ranked_styles(list(runs))
    styles = case_styles(list(cases), {case for run in runs.values() for case in run.cases})
    return {label: replace(styles[run.case], label=label) for label, run in runs.items()}


def line_look(style: CaseStyle) -> dict[str, Any]:
    """Give the properties of a line; what would be pale gets a dark outline."""
    look: dict[str, Any] = {
        "color": style.colour,
        "linestyle": style.dash,
        "linewidth": 1.6,
        "dash_capstyle": "butt",
        "solid_joinstyle": "round",
    }
    if lightness(style.colour) > _PALE:
        look["path_effects"] = [withStroke(linewidth=2.6, foreground=INK)]
    return look


def marker_look(style: CaseStyle, size: float) -> dict[str, Any]:
    """Give the properties of markers without a line."""
    return {
        "linestyle": "none",
        "marker": style.marker,
        "markersize": size,
        "markerfacecolor": style.colour,
        "markeredgecolor": INK,
        "markeredgewidth": 0.8,
    }


def line_entry(label: str, look: Mapping[str, Any]) -> Entry:
    """Give the legend of a line, or of a marker, with these properties."""
    return Entry(label, Line2D([], [], **look))


def over_time(axes: Axes, label: str, bounds_s: tuple[float, float], warm_s: float) -> list[Entry]:
    """Set the bounds of a time axis and shade what was not measured; its entry in the legend."""
    start, end = bounds_s
    axes.set_xlim(start, end)
    axes.tick_params(axis="x", bottom=True)
    axes.set_xlabel(label)
    if start >= warm_s:
        return []
    axes.axvspan(0, warm_s, **WARM_UP)
    return [Entry("warm-up, not measured", Patch(**WARM_UP))]


def line_entries(styles: dict[str, CaseStyle], marker: float = 0) -> list[Entry]:
    """Give the legend of lines, with their markers of that size if they have any."""
    entries = []
    for label, style in styles.items():
        line = Line2D([], [], **line_look(style))
        point = Line2D([], [], **marker_look(style, marker))
        entries.append(Entry(label, (line, point) if marker else line))
    return entries

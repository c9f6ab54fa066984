"""Figures 2 to 4 of the study of buffers, with the rules for its size marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcpf_lab.papers.buffers.curves import SIZES, UTILISATION, Grid, Study, throughput
from tcpf_lab.report.claims.page import Drawing, Numbers, Point, in_units
from tcpf_lab.report.style import CASES, CaseStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_RULES = (
    "Dashed: capacity times effective RTT (harmonic mean), and that over the root of the number of "
    "users; shaded: the small-buffer rule for largest windows of 8 to 1000 packets, load 0.8, "
    "share 0.9."
)
_ROOM = 46  # points above the axes for the rules' names
_RULE = "#555555"
_TICKS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_LOOKS = (CASES["TCPF+FRIO"], CASES["TB+RIO"], CASES["TCPF(O)+RIO"])


@dataclass(frozen=True)
class Line:
    """A line of a figure: what it is of, and its number at each buffer in bytes as it was run.

    ``users`` are those whose rule is marked in the line's colour, 0 for no mark.
    """

    label: str
    values: Mapping[float, Numbers]
    users: int = 0


def use_over_buffer(grid: Grid, name: str) -> Drawing:
    """Give Figure 2: use of the link."""
    lines = [_line(grid, n, UTILISATION, f"N = {_run(grid, n)}", users=n) for n in grid.users]
    said = "Use of the link: bytes that left it in the measured window over its capacity."
    axis = "Use of the link"
    return _drawing(
        grid, f"{name}-2", "Figure 2", "use of the link over the buffer", lines, axis, said
    )


def throughput_over_buffer(grid: Grid, name: str, number: int, users: int) -> Drawing:
    """Give Figure 3 or 4: mean throughput of transfers of three sizes."""
    lines = [
        _line(grid, users, throughput(size), said, scale=1e-3, users=users)
        for size, said in SIZES.items()
    ]
    of = f"throughput of transfers, {_run(grid, users)} users"
    said = "Mean over transfers of the size within 20 %, bits over the time from SYN to the end."
    return _drawing(
        grid, f"{name}-{number}", f"Figure {number}", of, lines, "Mean throughput (kbit/s)", said
    )


def _run(grid: Grid, nominal: int) -> int:
    """How many users were run for so many of the study."""
    return round(nominal / grid.study.scale)


def _line(grid: Grid, nominal: int, path: str, label: str, *, users: int, scale: float = 1) -> Line:
    found = {size: grid.numbers(nominal, size, path) for size in grid.buffers}
    values = {
        size / grid.study.scale: Numbers({seed: scale * value for seed, value in one.items()})
        for size, one in found.items()
        if one
    }
    return Line(label, values, _run(grid, users))


def _drawing(
    grid: Grid, name: str, number: str, of: str, lines: Sequence[Line], axis: str, said: str
) -> Drawing:
    title = f"{number} of paper 003: {of}"
    measured = sum(len(line.values) for line in lines)
    asked = len(lines) * len(grid.buffers)
    lacking = (f"{asked - measured} of {asked} points have no run",) if measured < asked else ()
    return Drawing(
        name=f"fig-{name}",
        title=title,
        caption=f"{said} {_RULES}",
        points=tuple(
            Point(line.label, size, one.values_by_seed)
            for line in lines
            for size, one in line.values.items()
        ),
        build=lambda: _draw(grid.study, lines, of[0].upper() + of[1:], _subtitle(grid), axis),
        missing=lacking,
        axis=axis,
        place=in_units("kB", 1e-3),
    )


def _subtitle(grid: Grid) -> str:
    study = grid.study
    size = f"scaled by 1/{study.scale:g}, " if study.scaled else ""
    rtts = f"RTT {1e3 * min(study.rtts):g} to {1e3 * max(study.rtts):g} ms"
    return f"Paper 003, {size}{study.rate / 1e6:g} Mbit/s, {rtts}, {_runs(grid)} per point"


def _runs(grid: Grid) -> str:
    """Say how many runs a point stands for: ``1 run``, ``1 to 3 runs``."""
    counts = sorted({len(cell.runs) for cell in grid.cells.values() if cell.runs})
    if counts[-1:] == [1]:
        return "1 run"
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) + " runs"


def _draw(study: Study, lines: Sequence[Line], title: str, subtitle: str, axis: str) -> Figure:
    from tcpf_lab.report.plots.canvas import (
        head,
        legend,
        line_entries,
        line_look,
        marker_look,
        panels,
    )

    figure, (axes,) = panels(1, 3.2)
    styles = {line.label: look for line, look in zip(lines, _LOOKS, strict=False)}
    for line in lines:
        sizes = sorted(line.values)
        x, y = [size / 1e3 for size in sizes], [line.values[size].mean or 0.0 for size in sizes]
        axes.plot(x, y, zorder=3, **line_look(styles[line.label]))
        axes.plot(x, y, zorder=4, **marker_look(styles[line.label], 6))
        _intervals(axes, x, [line.values[size] for size in sizes])
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _mark_rules(axes, study, {line.users: styles[line.label] for line in lines if line.users})
    _axis(axes, axis)
    head(axes, title, subtitle, lift=_ROOM)
    legend(figure, line_entries(styles, 6))
    return figure


def _intervals(axes: Axes, x: Sequence[float], values: Sequence[Numbers]) -> None:
    for at, numbers in zip(x, values, strict=True):
        mean, half = numbers.mean_ci
        if mean is not None and half is not None:
            axes.errorbar(at, mean, yerr=half, fmt="none", ecolor="#111111", capsize=2.4, zorder=5)


def _mark_rules(axes: Axes, study: Study, users: Mapping[int, CaseStyle]) -> None:
    low, high = (size / 1e3 for size in study.small)
    axes.axvspan(low, high, facecolor="#eeeeee", linewidth=0, zorder=0)
    _name_band(axes, (low * high) ** 0.5)
    axes.axvline(study.product / 1e3, **_dashed(_RULE))
    _name(axes, study.product / 1e3, "C T", _RULE)
    for count, style in users.items():
        at = study.many_flows(count) / 1e3
        colour = style.colour if len(users) > 1 else _RULE
        axes.axvline(at, **_dashed(colour))
        _name(axes, at, f"C T/√{count}", colour)


def _dashed(colour: str) -> dict[str, Any]:
    return {"color": colour, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 1}


def _name_band(axes: Axes, middle: float) -> None:
    """Name the small-buffer rule at the foot of its band: above it stand the names of lines."""
    axes.annotate(
        "small\nbuffer",
        (middle, 0),
        (0, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
        color=_RULE,
    )


def _name(axes: Axes, at: float, name: str, colour: str) -> None:
    axes.annotate(
        name,
        (at, 1),
        (0, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        rotation=90,
        ha="center",
        va="bottom",
        fontsize=7,
        color=colour,
    )


def _axis(axes: Axes, name: str) -> None:
    """Write the axes' numbers: buffers in round kilobytes."""
    low, high = axes.get_xlim()
    unit = 1.0
    while low < _TICKS[0] * unit / 2:
        unit /= 10
    ticks = [tick * unit for tick in _TICKS if low <= tick * unit <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="x", bottom=True)
    axes.set_xlabel("Buffer (kB)")
    axes.set_ylabel(name)

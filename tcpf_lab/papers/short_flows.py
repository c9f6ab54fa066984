"""The page on short transfers: completion times by case, and the gains the paper speaks of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.papers.figures import BarPanel, draw_bars, groups_of
from tcpf_lab.report.claims.judge import PaperCheck, PaperClaim, Sentences
from tcpf_lab.report.claims.page import (
    NEW,
    RED,
    TB,
    CellRuns,
    Claims,
    Drawing,
    GainBlock,
    Page,
    Point,
    Table,
    Text,
    blocks_of,
    cells_of,
    told,
)
from tcpf_lab.report.claims.page import Block as PageBlock
from tcpf_lab.report.contents.subject import Member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_say = Sentences(Path(__file__).with_name("tcpf.toml")).claim


#: A gain that counts as substantial: this share of the completion time less.
SUBSTANTIAL = 0.1
#: How ``metrics.json`` and how a reader calls what is told of completion times.
STATISTICS = {"mean": "mean", "p50": "median", "p95": "95th percentile", "p99": "99th percentile"}
#: What a completion time is made longer by, if anything: the sentence is judged on these.
_JUDGED = ("mean", "p95")
_BASELINES = (RED, TB)
_SLUGS = {RED: "red", TB: "tb"}
_MARKS = 6  # on a line of the distribution
#: More steps than a distribution's line has on paper; a page would have megabytes of them.
_STEPS = 500
_INTRODUCTION = (
    "Users transfer files of heavy-tailed sizes over one bottleneck, each over a TCP connection of "
    "its own, and think in between. A completion time is that of a transfer that ended in the "
    "measured window, from its SYN on. Files and thinks of a user are the same in every case of a "
    "seed as long as the user gets that far, so cases are compared seed by seed."
)


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on experiments with users; None where none has a cell."""
    blocks: list[PageBlock] = []
    for member in members:
        found = blocks_of(cells_of(member.section), "users")
        name = "short-flows" if len(members) == 1 else member.experiment.name.replace("_", "-")
        blocks += _blocks(found, member.experiment.title, name, command)
    return Page("short-flows", "Short transfers", tuple(blocks)) if blocks else None


def _blocks(found: Sequence[GainBlock], title: str, name: str, command: str) -> Iterator[PageBlock]:
    yield Text(_INTRODUCTION, title)
    yield _times(found, name)
    if (ratios := _ratios(found, name)).rows:
        yield ratios
    yield _bars(found, name)
    for number, block in enumerate(found, 1):
        yield _distribution(block, f"{name}-cdf-{number}" if len(found) > 1 else f"{name}-cdf")
    judged = claims(found)
    compares = (
        f"It compares {' and '.join(NEW)} with {' and '.join(_BASELINES)}, not with these cases."
    )
    yield Text("" if judged else compares, "What the paper says")
    if judged:
        yield Claims(judged, command)


def claims(found: Sequence[GainBlock]) -> tuple[PaperClaim, ...]:
    """Give section 6.1's sentence, against RED and the token bucket if they are cases."""
    own = {case for block in found for case in block.cases}
    return tuple(
        _say(
            f"short-{_SLUGS[other]}-{statistic}",
            [
                PaperCheck(
                    f"{block.label}: {case} over {other}",
                    block.ratio(case, other, _path(statistic)),
                    high=1 - SUBSTANTIAL,
                )
                for block in found
                for case in NEW
                if case in own
            ],
        )
        for other in _BASELINES
        if other in own and own & set(NEW)
        for statistic in _JUDGED
    )


def _path(statistic: str) -> str:
    return f"users.completion_s.{statistic}"


def _times(found: Sequence[GainBlock], name: str) -> Table:
    rows = []
    for block in found:
        for cell in block.cells:
            times = [cell.number(_path(one)).printed(3) for one in STATISTICS]
            rows.append(
                (
                    *(block.label, cell.case),
                    *times,
                    cell.number("users.transfers").printed(0),
                    cell.number("metrics.timeouts").printed(1),
                    cell.number("metrics.utilisation").printed(3),
                    str(len(cell.runs)),
                )
            )
    return Table(
        name=_own("times", name),
        columns=(
            *("users", "case", *(f"{said} (s)" for said in STATISTICS.values())),
            *("transfers", "timeouts", "use", "runs"),
        ),
        rows=tuple(rows),
        caption="Completion times: means over seeds of each run's statistic, and half widths of "
        "95 % intervals.",
        left=2,
    )


def _ratios(found: Sequence[GainBlock], name: str) -> Table:
    rows = [
        (
            *(block.label, case, other),
            *(told(block.ratio(case, other, _path(one))) for one in STATISTICS),
        )
        for block in found
        for other in _BASELINES
        for case in block.cases
        if case != other and other in block.cases
    ]
    return Table(
        name=_own("ratios", name),
        columns=("users", "case", "over", *STATISTICS.values()),
        rows=tuple(rows),
        caption="Completion times over those of another case, seed by seed: below 1 is shorter.",
        left=3,
    )


def _own(table: str, name: str) -> str:
    return table if name == "short-flows" else f"{name}-{table}"


def _bars(found: Sequence[GainBlock], name: str) -> Drawing:
    groups = tuple(block.label for block in found)
    parts = [
        BarPanel(
            f"{STATISTICS[one].capitalize()} (s)",
            groups,
            {
                (cell.case, block.label): cell.number(_path(one))
                for block in found
                for cell in block.cells
            },
        )
        for one in ("mean", "p95", "p99")
    ]
    points = tuple(point for part in parts for point in part.points)
    said = "Means over seeds; bars: 95 % intervals"
    return Drawing(
        f"fig-{name}-bars",
        "Completion time by case",
        "Means over seeds of each run's mean, 95th and 99th percentile, with 95 % intervals.",
        points,
        lambda: draw_bars(parts, "Completion time of short transfers", said),
        () if points else ("no run",),
        place=groups_of(parts),
    )


def _distribution(block: GainBlock, name: str) -> Drawing:
    times = {cell.case: completions(cell) for cell in block.cells}
    drawn = {case: values for case, values in times.items() if values.size}
    lacking = [case for case, values in times.items() if not values.size]
    shares = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    return Drawing(
        f"fig-{name}",
        f"Distribution of completion times, {block.label}",
        "Transfers of all seeds together. Its points in the CSV are quantiles: x is the share.",
        tuple(
            Point(case, share, (float(np.quantile(values, share)),), block.label)
            for case, values in drawn.items()
            for share in shares
        ),
        lambda: _draw(drawn, block.label),
        (f"no transfers of {', '.join(lacking)}",) if lacking else (),
        axis="Completion time (s)",
        place=lambda point: f"for the quantile of {point.x:g}",
    )


def completions(cell: CellRuns) -> NDArray[np.float64]:
    """Give the completion times of all runs of a cell that ended in the window, s, ascending."""
    found = [np.empty(0)]
    for run in cell.runs:
        path = run.files.root / "transfers.npz"
        if not path.exists():
            continue
        start, end = (round(1e9 * at) for at in run.found["window_s"])
        with np.load(path, allow_pickle=False) as kept:
            ended, took = kept["end_ns"], kept["end_ns"] - kept["start_ns"]
            inside = kept["finished"] & (ended >= start) & (ended < end)
        found.append(took[inside] / 1e9)
    return np.sort(np.concatenate(found))


def _draw(times: dict[str, NDArray[np.float64]], label: str) -> Figure:
    from matplotlib.ticker import LogLocator

    from tcpf_lab.report.plots.canvas import (
        head,
        legend,
        line_entries,
        line_look,
        marker_look,
        panels,
    )
    from tcpf_lab.report.style import case_styles

    styles = case_styles(list(times))
    figure, (axes,) = panels(1, 3.0)
    for place, (case, values) in enumerate(times.items()):
        kept = np.unique(np.linspace(0, values.size - 1, _STEPS).round().astype(int))
        values, share = values[kept], (kept + 1) / values.size
        apart = max(1, values.size // _MARKS)
        axes.plot(values, share, drawstyle="steps-post", **line_look(styles[case]))
        at = slice(place * apart // len(times), None, apart)
        axes.plot(values[at], share[at], **marker_look(styles[case], 5))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    every = np.concatenate(list(times.values()))
    axes.set_xlim(0.5 * float(every.min()), 2 * float(every.max()))  # holds two ticks at least
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("Completion time (s)")
    axes.set_ylabel("Share of transfers")
    axes.tick_params(axis="x", bottom=True)
    head(axes, "Completion time of short transfers", f"{label}, transfers of all seeds together")
    legend(figure, line_entries(styles, 5))
    return figure

"""The pages on workloads: queues under one traffic, short transfers, several bottlenecks.

``tcpf.toml`` has their texts, and the words of what the paper says of such runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.papers.figures import AgainstDelay, BarPanel, bars, page_of_each
from tcpf_lab.report.claims.page import (
    NEW,
    RED,
    RIO,
    TB,
    Block,
    CellRuns,
    Claims,
    Drawing,
    GainBlock,
    Numbers,
    Page,
    PaperRun,
    Point,
    Table,
    Text,
    blocks_of,
    cells_of,
    ratio_of,
    with_interval,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.style import DISTINCT
from tcpf_lab.spec.load import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tcpf_lab.report.plots.runs import DrawnRun


_PAPER = Words(Path(__file__).with_name("tcpf.toml"))
_FEW = 3  # cases that share a best mean and are named
_DELAY = "metrics.queueing_delay_p95_s"


@dataclass(frozen=True)
class Column:
    """A column: heading, key of ``metrics.json``, decimals, factor, and what is best."""

    heading: str
    path: str
    decimals: int
    scale: float = 1
    best: str = ""


_COLUMNS = (
    Column("utilisation", "metrics.utilisation", 3),
    Column("delay, mean (ms)", "metrics.queueing_delay_mean_s", 1, 1e3),
    Column("delay, p95 (ms)", _DELAY, 1, 1e3, "shortest 95th percentile of delay"),
    Column("packet loss (%)", "metrics.packet_loss_percent", 2, 1, "lowest loss"),
    Column("Jain's index", "metrics.goodput_jain", 3),
    Column("goodput CoV", "metrics.goodput_cov", 3, 1, "fairest goodput"),
    Column("timeouts", "metrics.timeouts", 1, 1, "fewest timeouts"),
)


#: Where any queue of a block has it: those with counters of their own.
_MARKED = Column("marked (%)", "metrics.marked_percent", 2)


def queues(members: Sequence[Member], command: str) -> Page | None:  # noqa: ARG001 - as all pages
    """Give the page on comparisons of queues; None where none has a cell."""
    return page_of_each("queues", "Queues on one workload", members, _queue_blocks)


def _queue_blocks(member: Member, name: str) -> Iterator[Block]:
    yield Text(_PAPER.texts["queues"], member.experiment.title)
    for number, block in enumerate(blocks_of(cells_of(member.section), "flows"), 1):
        yield Text(leaders(block), block.label)
        yield _queue_table(block, f"{name}-{number}" if name != "queues" else str(number))
        yield from _queue_figures(block, f"fig-{name}-{number}")


def leaders(block: GainBlock) -> str:
    """Say in a sentence which case has the best mean of each quantity."""
    most = {cell.case: -mean for cell in block.cells if (mean := goodput(cell).mean) is not None}
    best = [("most goodput", _least(most))]
    for column in _COLUMNS:
        if column.best:
            means = {cell.case: cell.number(column.path).mean for cell in block.cells}
            known = {case: mean for case, mean in means.items() if mean is not None}
            best.append((column.best, _least(known)))
    listed = "; ".join(f"{what}: {_named(cases)}" for what, cases in best if cases)
    return f"By the means, {listed}." if listed else "There is no valid run."


def _named(cases: Sequence[str]) -> str:
    return ", ".join(cases) if len(cases) <= _FEW else f"{len(cases)} queues tie"


def _least(means: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(case for case, mean in means.items() if mean == min(means.values()))


def goodput(cell: CellRuns) -> Numbers:
    """Give the goodput of all flows together, bytes/s."""
    found = cell.number("metrics.goodput_bytes_per_s")
    return Numbers({seed: cell.flows * value for seed, value in found.items()})


def _queue_table(block: GainBlock, name: str) -> Table:
    marked = any(cell.number(_MARKED.path) for cell in block.cells)
    columns = (*_COLUMNS, *((_MARKED,) if marked else ()))
    rows = [
        (
            cell.case,
            goodput(cell).printed(3, 8e-6),
            *(cell.number(one.path).printed(one.decimals, one.scale) for one in columns),
            str(len(cell.runs)),
        )
        for cell in block.cells
    ]
    headings = ("case", "goodput (Mbit/s)", *(one.heading for one in columns), "runs")
    return Table(name, headings, tuple(rows), f"Every queue, {block.label}.")


def _queue_figures(block: GainBlock, name: str) -> Iterator[Drawing]:
    """Yield throughput against delay: one figure, or more where looks would not suffice."""
    parts = [block.cells[at : at + DISTINCT] for at in range(0, len(block.cells), DISTINCT)]
    for number, cells in enumerate(parts, 1):
        yield _queue_figure(block.label, cells, f"{name}-{number}" if len(parts) > 1 else name)


def _queue_figure(label: str, cells: Sequence[CellRuns], name: str) -> Drawing:
    drawn = [cell for cell in cells if cell.number(_DELAY)]
    lacking = [cell.case for cell in cells if not cell.number(_DELAY)]
    return Drawing(
        name,
        f"Goodput against queueing delay, {label}",
        "A point per queue: mean over its runs of the 95th percentile of queueing delay, reversed, "
        "and of the goodput of all flows. Better is up and right.",
        tuple(
            Point(cell.case, 1e3 * delay, (8e-6 * goodput(cell)[seed],), label)
            for cell in drawn
            for seed, delay in cell.number(_DELAY).items()
        ),
        _against_delay(drawn),
        (f"no queueing delay of {', '.join(lacking)}",) if lacking else (),
        axis="Goodput (Mbit/s)",
    )


def _against_delay(cells: Sequence[CellRuns]) -> AgainstDelay:
    from tcpf_lab.report.plots.runs import MOST_PANELS, panelled, under_panels

    runs = [run for cell in cells for run in _drawn_runs(cell)]
    cases = tuple(dict.fromkeys(case for run in runs for case in run.cases))
    return AgainstDelay(
        under_panels(runs, panelled(runs, MOST_PANELS), "point") if runs else "", cases
    )


def _drawn_runs(cell: CellRuns) -> Iterator[DrawnRun]:
    from tcpf_lab.report.plots.runs import read_run

    for run in cell.runs:
        if run.number(_DELAY) is not None:
            yield read_run(run.files, load(run.files.spec))


#: Statistics of completion times: key in ``metrics.json``, words.
STATISTICS = {"mean": "mean", "p50": "median", "p95": "95th percentile", "p99": "99th percentile"}
#: What a completion time is made longer by, if anything: the sentence is judged on these.
_JUDGED = ("mean", "p95")
_BASELINES = (RED, TB)
_SLUGS = {RED: "red", TB: "tb"}
_MARKS = 6  # on a line of the distribution
#: More steps than a distribution's line has on paper; a page would have megabytes of them.
_STEPS = 500


def short_flows(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on experiments with users; None where none has a cell."""
    blocks = partial(_transfer_blocks, command=command)
    return page_of_each("short-flows", "Short transfers", members, blocks)


def _transfer_blocks(member: Member, name: str, command: str) -> Iterator[Block]:
    found = blocks_of(cells_of(member.section), "users")
    yield Text(_PAPER.texts["short_flows"], member.experiment.title)
    yield _times(found, name)
    if (ratios := _time_ratios(found, name)).rows:
        yield ratios
    yield _time_bars(found, name)
    for number, block in enumerate(found, 1):
        yield _distribution(block, f"{name}-cdf-{number}" if len(found) > 1 else f"{name}-cdf")
    judged = transfer_claims(found)
    compares = (
        f"It compares {' and '.join(NEW)} with {' and '.join(_BASELINES)}, not with these cases."
    )
    yield Text("" if judged else compares, "Claims of the paper")
    if judged:
        yield Claims(judged, command)


def transfer_claims(found: Sequence[GainBlock]) -> tuple[PaperClaim, ...]:
    """Give section 6.1's sentence, against RED and the token bucket if they are cases."""
    own = {case for block in found for case in block.cases}
    return tuple(
        _PAPER.each(
            f"short-{_SLUGS[other]}-{statistic}",
            (
                (f"{block.label}: {case} over {other}", block.ratio(case, other, _path(statistic)))
                for block in found
                for case in NEW
                if case in own
            ),
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
            *("users", "case", *(f"{name} (s)" for name in STATISTICS.values())),
            *("transfers", "timeouts", "utilisation", "runs"),
        ),
        rows=tuple(rows),
        caption="Completion times: means over seeds of each run's statistic, and half widths of "
        "95 % intervals.",
        left=2,
    )


def _time_ratios(found: Sequence[GainBlock], name: str) -> Table:
    rows = [
        (
            *(block.label, case, other),
            *(with_interval(block.ratio(case, other, _path(one))) for one in STATISTICS),
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


def _time_bars(found: Sequence[GainBlock], name: str) -> Drawing:
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
    return bars(
        f"fig-{name}-bars",
        "Completion time by case",
        "Means over seeds of each run's mean, 95th and 99th percentile, with 95 % intervals.",
        parts,
        ("Completion time of short transfers", "Means over seeds; bars: 95 % intervals"),
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
        Distribution(
            f"{block.label}, transfers of all seeds together",
            tuple(_steps(case, values) for case, values in drawn.items()),
        ),
        (f"no transfers of {', '.join(lacking)}",) if lacking else (),
        axis="Completion time (s)",
    )


def completions(cell: CellRuns) -> NDArray[np.float64]:
    """Give the completion times of all runs of a cell that ended in the window, s, ascending."""
    found = [np.empty(0)]
    for run in cell.runs:
        path = run.files.root / "transfers.npz"
        if not path.exists():
            continue
        start, end = (round(1e9 * at) for at in run.found["window_s"])
        with np.load(path, allow_pickle=False) as arrays:
            ended, took = arrays["end_ns"], arrays["end_ns"] - arrays["start_ns"]
            inside = arrays["finished"] & (ended >= start) & (ended < end)
        found.append(took[inside] / 1e9)
    return np.sort(np.concatenate(found))


def _steps(case: str, values: NDArray[np.float64]) -> tuple[str, int, tuple[float, ...]]:
    """Give a case, how many transfers it has, and the times of those that the line shows."""
    shown = values[_shown(values.size)]
    return case, int(values.size), tuple(map(float, shown))


def _shown(count: int) -> NDArray[np.int_]:
    return np.unique(np.linspace(0, count - 1, _STEPS).round().astype(int))


@dataclass(frozen=True)
class Distribution:
    """The share of transfers that took no longer.

    ``lines`` are of each case the number of transfers, and the times of those that are drawn, s.
    """

    subtitle: str
    lines: tuple[tuple[str, int, tuple[float, ...]], ...]

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return f"for the quantile of {point.x:g}"

    def draw(self, _: Sequence[Point], /) -> Figure:
        """Draw the lines: points are some of their quantiles; within ``house_style``."""
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

        styles = case_styles([case for case, _, _ in self.lines])
        figure, (axes,) = panels(1, 3.0)
        for place, (case, count, times) in enumerate(self.lines):
            values, share = np.array(times), (_shown(count) + 1) / count
            apart = max(1, values.size // _MARKS)
            axes.plot(values, share, drawstyle="steps-post", **line_look(styles[case]))
            at = slice(place * apart // len(self.lines), None, apart)
            axes.plot(values[at], share[at], **marker_look(styles[case], 5))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()
        least = min(times[0] for _, _, times in self.lines)
        axes.set_xlim(0.5 * least, 2 * max(times[-1] for _, _, times in self.lines))
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("Completion time (s)")
        axes.set_ylabel("Share of transfers")
        axes.tick_params(axis="x", bottom=True)
        head(axes, "Completion time of short transfers", self.subtitle)
        legend(figure, line_entries(styles, 5))
        return figure


#: Last part of the key of the axis that says how many bottlenecks the main flows pass.
AXIS = "bottlenecks"

Of = Callable[[PaperRun], float | None]


def _metric(path: str) -> Of:
    return lambda run: run.number(path)


def _over(section: str, name: str, combine: Callable[[Sequence[float]], float]) -> Of:
    """Combine a number over the entries of a list; None unless all of them have it."""

    def of(run: PaperRun) -> float | None:
        entries = run.found.get(section)
        values = [run.number(f"{section}.{at}.{name}") for at in range(len(entries or ()))]
        known = [value for value in values if value is not None]
        return float(combine(known)) if known and len(known) == len(values) else None

    return of


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


#: Columns: heading, decimals, how a run is read.
COLUMNS: dict[str, tuple[str, int, Of]] = {
    "main_goodput": ("main: goodput (bytes/s)", 0, _metric("metrics.goodput_bytes_per_s")),
    "main_timeouts": ("main: timeouts", 1, _metric("metrics.timeouts")),
    "main_cov": ("main: goodput CoV", 3, _metric("metrics.goodput_cov")),
    "cross_goodput": (
        "cross: goodput (bytes/s)",
        0,
        _over("cross", "goodput_bytes_per_s", _mean),
    ),
    "cross_timeouts": ("cross: timeouts", 1, _over("cross", "timeouts", sum)),
    "utilisation": ("utilisation", 3, _over("bottlenecks", "utilisation", _mean)),
    "loss": ("packet loss (%)", 2, _over("bottlenecks", "packet_loss_percent", _mean)),
}
_COMPARED = ("main_goodput", "main_timeouts", "cross_goodput", "cross_timeouts")


def parking_lot(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on experiments with several bottlenecks; None where none of them varies."""
    cells = [cell for one in members for cell in cells_of(one.section)]
    found = [cell for cell in cells if bottlenecks(cell) is not None]
    blocks = tuple(lot_blocks(found, command)) if found else ()
    return Page("parking-lot", "One to three bottlenecks", blocks) if blocks else None


def bottlenecks(cell: CellRuns) -> int | None:
    """Give how many bottlenecks a cell's main flows pass; None if it does not vary."""
    for key, text in cell.cell.settings:
        if key.rpartition(".")[2] == AXIS:
            return int(text)
    return None


def lot_blocks(cells: Sequence[CellRuns], command: str) -> Iterator[Block]:
    """Yield the blocks of the cells."""
    ordered = sorted(cells, key=lambda cell: bottlenecks(cell) or 0)
    yield Text(_PAPER.texts["parking_lot"])
    yield _lot_numbers(ordered)
    yield _lot_ratios(ordered)
    yield _lot_figure(ordered)
    yield Text("", "Claims of the paper")
    yield Claims(lot_claims(ordered), command)


def _lot_numbers(cells: Sequence[CellRuns]) -> Table:
    rows = [
        (
            *(str(bottlenecks(cell)), cell.case),
            *(cell.each(of).printed(digits) for _, digits, of in COLUMNS.values()),
            str(len(cell.runs)),
        )
        for cell in cells
    ]
    headings = (heading for heading, _, _ in COLUMNS.values())
    return Table(
        "numbers",
        ("bottlenecks", "case", *headings, "runs"),
        tuple(rows),
        "Means over seeds and half widths of 95 % intervals; utilisation and loss are means "
        "over the bottlenecks.",
        left=2,
    )


def _lot_ratios(cells: Sequence[CellRuns]) -> Table:
    rows = [
        (str(count), *(with_interval(against(cells, count, name)) for name in _COMPARED))
        for count in counts(cells)
    ]
    headings = (COLUMNS[name][0].partition(" (")[0] for name in _COMPARED)
    return Table(
        "ratios",
        ("bottlenecks", *headings),
        tuple(rows),
        f"{RIO} over {TB}, seed by seed.",
    )


def counts(cells: Sequence[CellRuns]) -> tuple[int, ...]:
    """Give the numbers of bottlenecks there are, ascending."""
    return tuple(sorted({count for cell in cells if (count := bottlenecks(cell)) is not None}))


def against(cells: Sequence[CellRuns], count: int, name: str) -> Measured:
    """Give TCPF+RIO's number over TB+RIO's with a number of bottlenecks, seed by seed."""
    return ratio_of(
        {f"{case}, {_words(count)}": _of(cells, count, case, name) for case in (RIO, TB)}
    )


def _of(cells: Sequence[CellRuns], count: int, case: str, name: str) -> Numbers:
    same = (cell for cell in cells if cell.case == case and bottlenecks(cell) == count)
    cell = next(same, None)
    return cell.each(COLUMNS[name][2]) if cell else Numbers({})


def _words(count: int) -> str:
    return f"{count} bottleneck" + "s" * (count > 1)


def _lot_figure(cells: Sequence[CellRuns]) -> Drawing:
    groups = tuple(map(_words, counts(cells)))
    cases = tuple(dict.fromkeys(cell.case for cell in cells))
    parts = [
        BarPanel(
            axis,
            groups,
            {
                (case, _words(count)): _of(cells, count, case, name)
                for case in cases
                for count in counts(cells)
            },
        )
        for name, axis in (
            ("main_timeouts", "Timeouts, main"),
            ("cross_timeouts", "Timeouts, cross"),
            ("main_goodput", "Goodput, main (bytes/s)"),
        )
    ]
    return bars(
        "fig-parking-lot",
        "Timeouts and goodput over one to three bottlenecks",
        "Means over seeds with 95 % intervals: timeouts of all main flows, of all cross flows over "
        "all bottlenecks, and the main flows' mean goodput.",
        parts,
        ("One to three bottlenecks", "Means over seeds, 95 % intervals"),
    )


def lot_claims(cells: Sequence[CellRuns]) -> tuple[PaperClaim, ...]:
    """Give section 6.1's sentence on several bottlenecks."""
    return tuple(
        _PAPER.each(
            f"parking-{side}",
            ((_words(n), against(cells, n, f"{side}_timeouts")) for n in counts(cells)),
        )
        for side in ("main", "cross")
    )

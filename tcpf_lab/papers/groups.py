"""The page on groups of flows: what each gets, what it waits, and how the groups share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tcpf_lab.metrics.groups import read_groups
from tcpf_lab.papers.figures import page_of_each
from tcpf_lab.report.claims.page import (
    Block,
    CellRuns,
    Drawing,
    GainBlock,
    Numbers,
    Page,
    PaperRun,
    Point,
    Table,
    at_units,
    blocks_of,
    cells_of,
)
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.harm import harms
from tcpf_lab.report.style import DISTINCT, case_styles
from tcpf_lab.report.table import NOTHING
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def resolved_cells(member: Member) -> Iterator[tuple[CellRuns, Experiment]]:
    """Yield the cells of an experiment, each with the experiment that its settings make."""
    resolved = {
        (run.case_name, run.flows, run.settings): run.experiment
        for run in expand(member.experiment)
    }
    for cell in cells_of(member.section):
        yield cell, resolved[cell.case, cell.flows, cell.cell.settings]


#: Columns of groups and of queues: heading, key of ``metrics.json``, decimals, factor.
_RATE = ("throughput (Mbit/s)", "throughput_bytes_per_s", 2, 8e-6)
_DELAY = tuple(
    (f"delay, {name} (ms)", f"queueing_delay_s.{name}", 1, 1e3) for name in ("p50", "p95", "p99")
)
_LOSS = ("loss (%)", "loss_percent", 2, 1.0)
_CE = ("CE packets", "ce_packets", 0, 1.0)
_OF_GROUP = (
    _RATE,
    ("share (%)", "share", 1, 100.0),
    *_DELAY,
    _LOSS,
    _CE,
    ("retransmissions", "retransmissions", 0, 1.0),
    ("timeouts", "timeouts", 1, 1.0),
)
_OF_QUEUE = (("utilisation", "utilisation", 3, 1.0), *_DELAY, _LOSS, _CE)
#: Quantiles of a distribution that a page has: a hundredth apart.
_STEP = 10


def groups(members: Sequence[Member], command: str) -> Page | None:  # noqa: ARG001 - as all pages
    """Give the page on experiments with groups; None where none has a run."""
    page = page_of_each("groups", "Groups of flows", members, _blocks)
    return page and replace(page, printed=True)


def _blocks(member: Member, name: str) -> Iterator[Block]:
    cells = cells_of(member.section)
    if (harm := _harm(cells, name)).rows:
        yield harm
    for number, block in enumerate(blocks_of(cells, "flows"), 1):
        if not any(cell.runs for cell in block.cells):
            continue
        own = str(number) if name == "groups" else f"{name}-{number}"
        yield _table("groups", own, block, _OF_GROUP, "Each group")
        if (completions := _completions(block, own)).rows:
            yield completions
        yield _table("queues", own, block, _OF_QUEUE, "All packets of each direction")
        if (probes := _probes(block, own)).rows:
            yield probes
        if (changes := _changes(block, own)).rows:
            yield changes
        yield from _distributions(block, own)
        yield from _over_time(block, own)


def _harm(cells: Sequence[CellRuns], name: str) -> Table:
    """Give what each group costs the others, of cells with the group and without it."""
    seen = [
        (cell.cell, {run.seed: run.found["groups"] for run in cell.runs if "groups" in run.found})
        for cell in cells
    ]
    rows = [
        (
            *(found.cell.label, found.of, found.on),
            *(Numbers(by_seed).printed(2) for by_seed in found.by_seed.values()),
            str(len(found.by_seed["throughput_bytes_per_s"])),
        )
        for found in harms(seen)
    ]
    columns = ("throughput", "delay, p50", "delay, p95", "loss")
    return Table(
        "harm" if name == "groups" else f"harm-{name}",
        ("cell", "harm of", "on", *columns, "pairs of runs"),
        tuple(rows),
        "Harm of a group on the others: of throughput (solo - shared) / solo, of delay and loss "
        "(shared - solo) / shared; solo is the cell without the group, seed by seed. 0: none, 1: "
        "all is lost, negative: a gain.",
        left=3,
    )


def _table(
    section: str,
    own: str,
    block: GainBlock,
    columns: Sequence[tuple[str, str, int, float]],
    words: str,
) -> Table:
    """Give a row for each entry of a list of ``metrics.json``, means over seeds."""
    label = "name" if section == "groups" else "direction"
    rows = [
        (
            cell.case,
            str(entry[label]),
            *(
                cell.number(f"{section}.{place}.{path}").printed(digits, scale)
                for _, path, digits, scale in columns
            ),
            str(len(cell.runs)),
        )
        for cell in block.cells
        if cell.runs
        for place, entry in enumerate(cell.runs[0].found[section])
        if entry.get("flows") != 0
    ]
    headings = ("case", section.removesuffix("s"), *(column[0] for column in columns), "runs")
    caption = f"{words}, {block.label}: means over seeds and half widths of 95 % intervals."
    return Table(f"{section}-{own}", headings, tuple(rows), caption, left=2)


def _completions(block: GainBlock, own: str) -> Table:
    """Give how many flows of each group with a volume have sent it, and in what time."""
    rows = [
        (
            *(cell.case, group["name"], str(group["flows"])),
            cell.number(f"groups.{place}.finished").printed(1),
            *(
                cell.number(f"groups.{place}.completion_s.{name}").printed(2)
                for name in ("p50", "p95", "max")
            ),
        )
        for cell in block.cells
        for place, group in enumerate(cell.runs[0].found["groups"] if cell.runs else ())
        if group["completion_s"] is not None
    ]
    headings = ("case", "group", "flows", "finished", "p50 (s)", "p95 (s)", "max (s)")
    caption = f"Flows that have sent their volume, and completion times, {block.label}: whole run."
    return Table(f"completion-{own}", headings, tuple(rows), caption, left=2)


def _probes(block: GainBlock, own: str) -> Table:
    """Give what each probe felt, idle and under load."""
    columns = tuple((f"{name} (ms)", f"{name}_s", 1, 1e3) for name in ("p50", "p95", "p99"))
    rows = [
        (
            *(cell.case, probe["name"], phase),
            *(
                cell.number(f"probes.{place}.{phase}.{path}").printed(digits, scale)
                for _, path, digits, scale in (*columns, ("", "jitter_s", 2, 1e3))
            ),
            cell.number(f"probes.{place}.{phase}.loss_percent").printed(2),
            cell.number(f"probes.{place}.{phase}.sent").printed(0),
        )
        for cell in block.cells
        for place, probe in enumerate(cell.runs[0].found.get("probes", ()) if cell.runs else ())
        for phase in ("idle", "load")
        if probe[phase] is not None
    ]
    headings = ("case", "probe", "phase", *(one[0] for one in columns), "jitter (ms)", "loss (%)")
    return Table(
        f"probes-{own}",
        (*headings, "sent"),
        tuple(rows),
        f"Probes, {block.label}: round-trip time of icmp, one-way delay of udp, completion time of "
        "request; idle is before any group starts, load in the measured time.",
        left=3,
    )


def _changes(block: GainBlock, own: str) -> Table:
    """Give the time from each join or leave until the flows share fairly."""
    rows = []
    for cell in block.cells:
        for place, change in enumerate(cell.runs[0].found["changes"] if cell.runs else ()):
            at, wait = (cell.number(f"changes.{place}.{key}") for key in ("time_s", "fair_after_s"))
            rows.append(
                (
                    *(cell.case, change["group"], change["change"], at.printed(1)),
                    wait.printed(1) if wait else NOTHING,
                    f"{len(wait)}/{len(cell.runs)}",
                )
            )
    return Table(
        f"changes-{own}",
        ("case", "group", "change", "at (s)", "fair after (s)", "fair runs"),
        tuple(rows),
        f"Time until the flows of a direction share fairly after a change, {block.label}: until "
        "the end of the first second in which Jain's index is 0.95 or more.",
        left=3,
    )


@dataclass(frozen=True)
class Cdf:
    """Distributions of queueing delay: panels of the points are cells, series groups.

    ``cases`` are all that the experiment has, for their looks.
    """

    subtitle: str
    cases: tuple[str, ...]

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return f"for the quantile of {point.x:g}"

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw a line for each cell and group; within ``house_style``."""
        from tcpf_lab.report.plots.groups import draw_cdf

        lines: dict[tuple[str, str], list[float]] = {}
        for point in points:
            value = float(np.mean(point.values))
            lines.setdefault((point.panel, point.series), []).append(value)
        cells = case_styles([cell for cell, _ in lines], self.cases)
        return draw_cdf({"": lines}, cells, self.subtitle)


def _distributions(block: GainBlock, own: str) -> Iterator[Drawing]:
    """Yield the distribution of delays: one figure, or more where looks would not suffice."""
    cells = [cell for cell in block.cells if cell.runs]
    most = max(len(cell.runs[0].found["groups"]) for cell in cells)
    each = max(1, DISTINCT // most)
    parts = [cells[at : at + each] for at in range(0, len(cells), each)]
    for number, part in enumerate(parts, 1):
        points = tuple(point for cell in part for point in _quantiles(cell))
        if not points:  # no group has packets in the measured time
            continue
        name = f"fig-delay-{own}" + (f"-{number}" if len(parts) > 1 else "")
        yield Drawing(
            name,
            f"Distribution of queueing delay, {block.label}",
            "Share of each group's data packets that stay no longer in the queue; quantiles are "
            "means over seeds.",
            points,
            Cdf(f"{block.label}, means over seeds", tuple(cell.case for cell in block.cells)),
            axis="Queueing delay (ms)",
        )


def _quantiles(cell: CellRuns) -> Iterator[Point]:
    series = [read_groups(run.files).delay_quantiles_s for run in cell.runs]
    found = 1e3 * np.stack(series).astype(np.float64)[:, :, ::_STEP]
    shares = np.linspace(0, 1, found.shape[2])
    for place, group in enumerate(cell.runs[0].found["groups"]):
        for share, values in zip(shares, found[:, place].T, strict=True):
            if not np.isnan(values).any():
                yield Point(group["name"], float(share), tuple(map(float, values)), cell.case)


@dataclass(frozen=True)
class OverTime:
    """Groups over the time of one run, which is measured from ``warm_s`` to ``end_s``."""

    subtitle: str
    warm_s: float
    end_s: float

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return at_units(point, "s")

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw a panel for each direction, and one for the queues; within ``house_style``."""
        from tcpf_lab.report.plots.groups import TimeLine, draw_over_time

        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for point in points:
            lines.setdefault((point.panel, point.series), []).append((point.x, point.values[0]))
        found = [TimeLine(*names, *zip(*values, strict=True)) for names, values in lines.items()]
        return draw_over_time(found, self.subtitle, (0.0, self.end_s), self.warm_s)


def _over_time(block: GainBlock, own: str) -> Iterator[Drawing]:
    """Yield the first run of each case over time."""
    for number, cell in enumerate((cell for cell in block.cells if cell.runs), 1):
        run = cell.runs[0]
        warm, end = map(float, run.found["window_s"])
        yield Drawing(
            f"fig-time-{own}-{number}",
            f"{cell.case} over time, {block.label}",
            f"Throughput of each group in half seconds and queueing delay, seed {run.seed}.",
            tuple(_points_over_time(run)),
            OverTime(f"{cell.case}, {block.label}, seed {run.seed}", warm, end),
        )


def _points_over_time(run: PaperRun) -> Iterator[Point]:
    from tcpf_lab.report.plots.groups import lines_over_time  # here: it loads matplotlib

    for line in lines_over_time(run.files, run.found):
        for time, value in zip(np.asarray(line.time), np.asarray(line.value), strict=True):
            if not np.isnan(value):
                yield Point(line.label, round(float(time), 6), (float(value),), line.panel)

"""The page on a comparison of queues: one table, and throughput against delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcpf_lab.report.claims.page import Block as PageBlock
from tcpf_lab.report.claims.page import (
    CellRuns,
    Drawing,
    GainBlock,
    Numbers,
    Page,
    Point,
    Table,
    Text,
    blocks_of,
    cells_of,
    in_units,
)
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.style import DISTINCT
from tcpf_lab.spec.load import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tcpf_lab.report.plots.runs import DrawnRun


_INTRODUCTION = (
    "Every case is a queue under the same traffic; each kind has the defaults of its makers except "
    "for what the experiment's file says, so a difference may be one of parameters. Numbers are "
    "means over seeds and half widths of 95 % intervals; where intervals overlap, it says little "
    "which mean is best. Goodput is that of all flows together, queueing delay one way at the "
    "bottleneck."
)
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
    Column("use", "metrics.utilisation", 3),
    Column("delay, mean (ms)", "metrics.queueing_delay_mean_s", 1, 1e3),
    Column("delay, p95 (ms)", _DELAY, 1, 1e3, "shortest 95th percentile of delay"),
    Column("packet loss (%)", "metrics.packet_loss_percent", 2, 1, "least loss"),
    Column("Jain's index", "metrics.goodput_jain", 3),
    Column("goodput CoV", "metrics.goodput_cov", 3, 1, "evenest goodput"),
    Column("timeouts", "metrics.timeouts", 1, 1, "fewest timeouts"),
)


def build(members: Sequence[Member], command: str) -> Page | None:  # noqa: ARG001 - as all pages
    """Give the page on comparisons of queues; None where none has a cell."""
    blocks: list[PageBlock] = []
    for member in members:
        name = "queues" if len(members) == 1 else member.experiment.name.replace("_", "-")
        found = blocks_of(cells_of(member.section), "flows")
        blocks += _blocks(found, member.experiment.title, name)
    return Page("queues", "Queues on one workload", tuple(blocks)) if blocks else None


def _blocks(found: Sequence[GainBlock], title: str, name: str) -> Iterator[PageBlock]:
    yield Text(_INTRODUCTION, title)
    for number, block in enumerate(found, 1):
        yield Text(leaders(block), block.label)
        yield _table(block, f"{name}-{number}" if name != "queues" else str(number))
        yield from _figures(block, f"fig-{name}-{number}")


def leaders(block: GainBlock) -> str:
    """Say in a sentence which case has the best mean of each quantity."""
    most = {cell.case: -mean for cell in block.cells if (mean := goodput(cell).mean) is not None}
    best = [("most goodput", _least(most))]
    for column in _COLUMNS:
        if column.best:
            means = {cell.case: cell.number(column.path).mean for cell in block.cells}
            known = {case: mean for case, mean in means.items() if mean is not None}
            best.append((column.best, _least(known)))
    said = "; ".join(f"{what}: {_named(cases)}" for what, cases in best if cases)
    return f"By the means, {said}." if said else "There is no run."


def _named(cases: Sequence[str]) -> str:
    return ", ".join(cases) if len(cases) <= _FEW else f"{len(cases)} of them alike"


def _least(means: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(case for case, mean in means.items() if mean == min(means.values()))


def goodput(cell: CellRuns) -> Numbers:
    """Give the goodput of all flows together, bytes/s."""
    found = cell.number("metrics.goodput_bytes_per_s")
    return Numbers({seed: cell.flows * value for seed, value in found.items()})


def _table(block: GainBlock, name: str) -> Table:
    rows = [
        (
            cell.case,
            goodput(cell).printed(3, 8e-6),
            *(cell.number(one.path).printed(one.decimals, one.scale) for one in _COLUMNS),
            str(len(cell.runs)),
        )
        for cell in block.cells
    ]
    headings = ("case", "goodput (Mbit/s)", *(one.heading for one in _COLUMNS), "runs")
    return Table(name, headings, tuple(rows), f"Every queue, {block.label}.")


def _figures(block: GainBlock, name: str) -> Iterator[Drawing]:
    """Yield throughput against delay: one figure, or more where looks would not suffice."""
    parts = [block.cells[at : at + DISTINCT] for at in range(0, len(block.cells), DISTINCT)]
    for number, cells in enumerate(parts, 1):
        yield _figure(block.label, cells, f"{name}-{number}" if len(parts) > 1 else name)


def _figure(label: str, cells: Sequence[CellRuns], name: str) -> Drawing:
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
        lambda: _draw(drawn),
        (f"no queueing delay of {', '.join(lacking)}",) if lacking else (),
        axis="Goodput (Mbit/s)",
        place=in_units("ms"),
    )


def _draw(cells: Sequence[CellRuns]) -> Figure:
    from tcpf_lab.report.plots.cases import throughput_delay
    from tcpf_lab.report.plots.kinds import Wanted

    runs = [run for cell in cells for run in _drawn(cell)]
    return throughput_delay(runs, Wanted(delay="p95"))


def _drawn(cell: CellRuns) -> Iterator[DrawnRun]:
    from tcpf_lab.report.plots.runs import read_run

    for run in cell.runs:
        if run.number(_DELAY) is not None:
            yield read_run(run.files, load(run.files.spec))

"""The page on router buffers: Figures 2 to 4, their numbers, and the study's sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.papers.buffers.claims import FEW, MANY, claims
from tcpf_lab.papers.buffers.curves import (
    SIZES,
    UTILISATION,
    Grid,
    Study,
    grid_of,
    study_of,
    throughput,
)
from tcpf_lab.papers.buffers.figures import throughput_over_buffer, use_over_buffer
from tcpf_lab.report.claims.page import Block, Claims, Page, Table, Text, cells_of
from tcpf_lab.report.contents.subject import Member

_ONE_RUN = (
    "Each point is one run, so no number has an interval: a verdict stands on one run, and says so."
)
_SCALED = (
    "This is the study scaled by 1/{scale:g}: rate, users and buffers are smaller by the same "
    "factor. A packet is not, so a buffer holds {scale:g} times fewer packets than its counterpart "
    "in the study, and flows keep their window of some packets. What grows with what can be read "
    "from it; at which buffer a curve turns cannot, so such sentences have numbers and no verdict. "
    "Users and buffers are named as in the study where a sentence of it is judged."
)
_FULL = "This is the study at its own size: 1 Gbit/s and 1000, 2000 and 3000 users."


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on the experiments of paper 003; None where none of them varies the buffer."""
    blocks: list[Block] = []
    for member in members:
        study = study_of(member.experiment)
        grid = grid_of(study, cells_of(member.section))
        if grid.cells:
            name = "buffers" if len(members) == 1 else member.experiment.name.replace("_", "-")
            blocks += _blocks(grid, member.experiment.title, name, command)
    return Page("buffers", "Router buffers (paper 003)", tuple(blocks)) if blocks else None


def _blocks(grid: Grid, title: str, name: str, command: str) -> Iterator[Block]:
    study = grid.study
    yield Text(_SCALED.format(scale=study.scale) if study.scaled else _FULL, title)
    yield Text(f"{_sizes(study)} {_progress(grid)}")
    yield use_over_buffer(grid, name)
    yield throughput_over_buffer(grid, name, 3, FEW)
    yield throughput_over_buffer(grid, name, 4, MANY)
    yield _table(grid, name)
    yield Text("", "What the study says")
    yield Claims(claims(grid), command)


def _sizes(study: Study) -> str:
    low, high = study.small
    return (
        f"The effective RTT is {1e3 * study.rtt:.1f} ms, the harmonic mean of "
        f"{len(study.rtts)} clients from {1e3 * min(study.rtts):g} to "
        f"{1e3 * max(study.rtts):g} ms, so capacity times RTT is {study.product / 1e3:.0f} kB; "
        f"the small-buffer rule gives {low / 1e3:.0f} to {high / 1e3:.0f} kB. The rule with "
        "the root of N is of long-lived flows; users with think times are fewer flows than users, "
        "so its true size is larger than marked."
    )


def _progress(grid: Grid) -> str:
    done = f"{grid.measured} of {len(grid.cells)} points have a run."
    most = max((len(cell.runs) for cell in grid.cells.values()), default=0)
    return f"{done} {_ONE_RUN}" if most == 1 else done


def _table(grid: Grid, name: str) -> Table:
    rows = []
    for (_, size), cell in sorted(grid.cells.items(), key=lambda item: item[0]):
        speeds = [cell.number(throughput(one)).printed(0, 1e-3) for one in SIZES]
        rows.append(
            (
                str(cell.flows),
                f"{size / grid.study.scale / 1e3:g}",
                cell.number(UTILISATION).printed(3),
                *speeds,
                cell.number("metrics.packet_loss_percent").printed(2),
                cell.number("users.transfers").printed(0),
                cell.number("users.completion_s.mean").printed(3),
                str(len(cell.runs)),
            )
        )
    return Table(
        name="points" if name == "buffers" else f"{name}-points",
        columns=(
            *("users", "buffer (kB)", "use"),
            *(f"{said} (kbit/s)" for said in SIZES.values()),
            *("loss (% of packets)", "transfers", "completion (s)", "runs"),
        ),
        rows=tuple(rows),
        caption="Every point: use of the link, mean throughput of transfers by size, and what "
        "ended in the measured window.",
        left=0,
    )

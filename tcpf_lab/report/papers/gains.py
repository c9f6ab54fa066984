"""Cases against each other, seed by seed: runs of one seed differ in nothing but the case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcpf_lab.report.papers.cell_runs import CellRuns, Numbers, ratio
from tcpf_lab.report.papers.claim import Measured, paired
from tcpf_lab.report.style import CASES
from tcpf_lab.report.table import NOTHING

FRIO, RIO, OLD, TB, FRED, TAIL_DROP, RED = CASES
#: The new marker, with either queue.
NEW = (FRIO, RIO)


@dataclass(frozen=True, eq=False)
class Block:
    """The cells that differ in nothing but their case: ``label`` says what they share."""

    label: str
    cells: tuple[CellRuns, ...]

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases, in order."""
        return tuple(cell.case for cell in self.cells)

    def number(self, case: str, path: str) -> Numbers:
        """Give a number of a case, empty where the case or its runs are not there."""
        cell = next((one for one in self.cells if one.case == case), None)
        return cell.number(path) if cell else Numbers({})

    def ratio(self, case: str, other: str, path: str) -> Measured:
        """Give a case's number over another's, seed by seed."""
        sides = self.number(case, path), self.number(other, path)
        names = (case, other)
        lacking = [
            f"{name}, {self.label}" for name, one in zip(names, sides, strict=True) if not one
        ]
        return paired(ratio, *sides, missing=lacking)


def blocks_of(cells: Sequence[CellRuns], noun: str) -> tuple[Block, ...]:
    """Group cells by their number of flows and axes: a block for each, ``50 users``."""
    found: dict[tuple[int, tuple[tuple[str, str], ...]], list[CellRuns]] = {}
    for cell in cells:
        found.setdefault((cell.flows, cell.cell.settings), []).append(cell)
    return tuple(
        Block(", ".join((f"{flows} {noun}", *(f"{k} = {v}" for k, v in settings))), tuple(own))
        for (flows, settings), own in found.items()
    )


def told(measured: Measured, decimals: int = 2) -> str:
    """Write a ratio for a table: ``0.41 ± 0.03``, an en dash where there is none."""
    if measured.mean is None:
        return NOTHING
    half = "" if measured.half is None else f" ± {measured.half:.{decimals}f}"
    return f"{measured.mean:.{decimals}f}{half}"

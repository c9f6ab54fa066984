"""The published numbers, as printed.

``tcpf_tables.csv`` holds four configurations x seven cases x two numbers of flows; one goodput of
configuration D is printed ``9892`` in a column of kB/s and read as 9.892 kB/s.
``rio_fixed_point_tables.csv`` holds the analytical and simulated values of the RIO model.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcpf_lab.spec.calibration import METRICS

#: Configurations and numbers of flows of the published tables, in their order.
CONFIGS = ("A", "B", "C", "D")
FLOWS = (100, 50)
#: The cases of the thesis' tables and figures, its cases 1 to 4; the paper has three more.
THESIS_CASES = ("TCPF+FRIO", "TCPF+RIO", "TB+RIO", "NoMark+RED")

_HERE = Path(__file__).resolve().parent


def published(config: str, case: str, flows: int) -> dict[str, float] | None:
    """Give the published metrics of one cell.

    Parameters
    ----------
    config : str
        ``"A"`` to ``"D"``.
    case : str
        Case as the tables name it, such as ``"NoMark+RED"``.
    flows : int
        100 or 50.

    Returns
    -------
    dict of str to float, or None
        ``timeouts`` (count; the duration of the runs is not known), ``loss_percent`` (of bytes),
        ``goodput_bytes_per_s`` (mean over flows), ``goodput_cov``; None if nothing was published.
    """
    cell = _table().get((config, case, flows))
    return dict(cell) if cell is not None else None


@cache
def _table() -> dict[tuple[str, str, int], dict[str, float]]:
    with (_HERE / "tcpf_tables.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["config"], row["case"], int(row["flows"])): {m: float(row[m]) for m in METRICS}
            for row in csv.DictReader(file)
        }


#: The quantities of a table, in its order: loads in packets/s, probabilities, packets.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q")


@dataclass(frozen=True)
class RioTable:
    """One of Tables 1 to 3 on the RIO model (INRIA RR-4469).

    ``analytical`` and ``simulated`` hold a number for each of ``QUANTITIES``; ``case`` is the
    scenario's name.
    """

    case: str
    analytical: dict[str, float]
    simulated: dict[str, float]


@cache
def rio_tables() -> dict[int, RioTable]:
    """Give the printed tables on the RIO model, by their number."""
    tables: dict[int, RioTable] = {}
    with (_HERE / "rio_fixed_point_tables.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            table = tables.setdefault(int(row["table"]), RioTable(row["case"], {}, {}))
            quantity = row["quantity"].removesuffix("_mean")
            table.analytical[quantity] = float(row["analytical"])
            table.simulated[quantity] = float(row["simulation"])
    return tables


def rio_table(scenario: str) -> RioTable:
    """Give a printed table by its scenario, ``fully_overlapped``."""
    return next(table for table in rio_tables().values() if table.case == scenario)

"""The published numbers that every report holds its cells against, as printed.

``tcpf_tables.csv`` holds four configurations x seven cases x two numbers of flows; one goodput of
configuration D is printed ``9892`` in a column of kB/s and read as 9.892 kB/s.
"""

from __future__ import annotations

import csv
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

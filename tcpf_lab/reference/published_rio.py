"""The printed values of the RIO model (004, Tables 1 to 3): analytical, and simulated with NS-2."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: The quantities of a table, in its order: loads in packets/s, probabilities, packets.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q_mean")
_TABLES = Path(__file__).resolve().parent / "rio_fixed_point_tables.csv"


@dataclass(frozen=True)
class PrintedRio:
    """One row of a table."""

    analytical: float
    simulation: float


def published_rio(scenario: str) -> dict[str, PrintedRio]:
    """Give a printed table by its scenario, ``fully_overlapped``; empty for any other name."""
    return dict(_tables().get(scenario, {}))


@cache
def _tables() -> dict[str, dict[str, PrintedRio]]:
    found: dict[str, dict[str, PrintedRio]] = {}
    with _TABLES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = PrintedRio(float(row["analytical"]), float(row["simulation"]))
            found.setdefault(row["case"], {})[row["quantity"]] = values
    return found

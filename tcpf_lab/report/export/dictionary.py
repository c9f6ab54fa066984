"""The data dictionary: ``python -m tcpf_lab.report.export.dictionary`` writes it into ``docs/``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.report.export.columns import LAYOUTS, TABLES, Layout
from tcpf_lab.results.layout import write_text

_HEAD = """\
# Data dictionary

Every column of every table. `python -m tcpf_lab.report.export.dictionary` writes this file; the
tables are made from the same lists, so nothing is missing here. [metrics.md](metrics.md) defines
the numbers, [api.md](api.md) shows how to get at them.

A row is an observation, a column a variable. Units are base units: bytes, seconds, bytes per
second; a percentage says so in its name. Times count from the run's epoch. A missing value is an
empty field in CSV and null in Parquet.

`tcpf-lab report SPEC --format csv,parquet` writes the first {tables} tables into `data/` beside the
report, and `columns.csv`, the part of this dictionary that describes them. In Parquet each field
carries its unit and meaning as metadata. The other tables are frames that `tcpf_lab.load(...)`
gives. If the matrix of an experiment has axes of its own, each is a column behind `flows` in every
exported table, called by its key (`queue.out_max`), in base units too.

`captures`, `capture_flows` and `events` are what `tcpf-lab analyze` and `tcpf_lab.analyze(...)` say
of any capture ([analyze.md](analyze.md)); their times count from the capture's first packet.

`crossing_packets`, `crossing_flows`, `crossing_dscp` and `crossing_time` are what
`tcpf-lab crossing` and `tcpf_lab.crossing(...)` say of a box between two captures
([crossing.md](crossing.md)).

The tables whose names begin with `calibration_` are the frames of `tcpf_lab.load_calibration(...)`
([calibrate.md](calibrate.md)), called there without that beginning.

`runs`, `flows`, `dscp` and `checks` have the runs that the means are made of. A run that is
missing, made from another version of the experiment, invalid or unreadable is in `left_out`
instead, with its reasons.
"""


def markdown() -> str:
    """Give the dictionary as the document holds it."""
    parts = [_HEAD.format(tables=len(TABLES))]
    parts += ["\n".join(_section(known)) for known in LAYOUTS.values()]
    return "\n".join(parts) + "\n"


def _section(known: Layout) -> Iterator[str]:
    yield f"## {known.name}\n"
    yield f"One row per {known.row}.\n"
    yield "| Column | Type | Unit | Meaning | Source |"
    yield "|---|---|---|---|---|"
    for column in known.columns:
        kind = (
            f"{column.kind}, may be missing" if column.optional or column.measured else column.kind
        )
        source = column.source
        yield f"| `{column.name}` | {kind} | {column.unit or '-'} | {column.meaning} | {source} |"


def generate(root: Path) -> None:
    """Write ``docs/data-dictionary.md`` below the checkout ``root``."""
    write_text(root / "docs" / "data-dictionary.md", markdown())


if __name__ == "__main__":
    generate(shipped.directory("experiments").parent)

"""A box between two captures, as frames; `export.crossing_columns` says what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tcpf_lab.errors import RequestError
from tcpf_lab.metrics.crossing import Crossed, describe_crossing, ends_of
from tcpf_lab.report.export.crossing_columns import (
    CROSSING_DSCP,
    CROSSING_FLOWS,
    CROSSING_PACKETS,
    CROSSING_TIME,
)
from tcpf_lab.report.export.tidy import frame, with_units


@dataclass(frozen=True, eq=False)
class Crossing:
    """What became of the packets that entered a box, as `tcpf_lab.crossing` gives it.

    Units are in ``table.attrs["units"]``.

    Parameters
    ----------
    crossed : Crossed
        The captures, matched.
    """

    crossed: Crossed

    def __repr__(self) -> str:
        """Say how much there is."""
        lost = self.described["loss"]["packets_lost"]
        judged = self.described["packets"]["judged"]
        names = f"{self.crossed.before!r}, {self.crossed.after!r}"
        return f"Crossing({names}, packets={judged}, lost={lost})"

    @cached_property
    def described(self) -> dict[str, Any]:
        """Everything but the packets: `tcpf_lab.metrics.crossing.describe_crossing`."""
        return describe_crossing(self.crossed)

    @cached_property
    def packets(self) -> pd.DataFrame:
        """A row per packet that entered, in the order of arrival."""
        found, crossing = self.crossed.passage, self.crossed.passage.crossing
        marks, lost = found.entered, crossing.lost
        ends = pd.DataFrame([ends_of(found, k) for k in range(found.ends.size)])
        columns = {
            "record": marks["record"],
            "time_ns": crossing.arrival_ns,
            **{name: ends[name].to_numpy()[marks["flow"]] for name in ends.columns},
            "seq": marks["seq"].astype(np.int64),
            "payload_bytes": marks["payload"].astype(np.int64),
            "ip_length": crossing.ip_length,
            "dscp": (crossing.tos >> 2).astype(np.int64),
            "judged": self.crossed.judged,
            "lost": lost,
            "overtaken": found.overtaken,
            "dscp_out": pd.array((found.tos_out >> 2).astype(np.int64), "Int64"),
            "departure_ns": pd.array(crossing.departure_ns, "Int64"),
            "delay_s": (crossing.departure_ns - crossing.arrival_ns) / 1e9,
        }
        table = pd.DataFrame(columns)
        table.loc[lost, ["dscp_out", "departure_ns"]] = pd.NA
        table.loc[lost, "delay_s"] = np.nan
        text = {"src": "string", "dst": "string"}
        return with_units(table.astype(text), CROSSING_PACKETS)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A row per flow: loss, and its longest run."""
        return frame(CROSSING_FLOWS, self.described["flows"])

    @cached_property
    def by_dscp(self) -> pd.DataFrame:
        """A row per code point."""
        rows = self.described["by_dscp"].items()
        return frame(CROSSING_DSCP, [{"dscp": int(dscp), **row} for dscp, row in rows])

    @cached_property
    def over_time(self) -> pd.DataFrame:
        """A row per part of the time that packets entered in."""
        return frame(CROSSING_TIME, self.described["over_time"])

    def write(self, suffix: str) -> bytes:
        """Give the packets as a file: ``csv`` or ``parquet``.

        Raises
        ------
        RequestError
            For any other.
        """
        from tcpf_lab.report.export.to_parquet import parquet  # here: pyarrow takes a while to load

        if suffix == "parquet":
            return parquet(self.packets, CROSSING_PACKETS)
        if suffix != "csv":
            raise RequestError(f"packets are written as csv or parquet, not {suffix!r}")
        return self.packets.to_csv(index=False, lineterminator="\n").encode()

"""Results of the analysis of captures as frames; `export.columns` defines their columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.capture import capture_row, flow_row
from tcpf_lab.metrics.device import MatchedCaptures, describe_device, ends_of
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.export.tidy import frame, parquet, with_units
from tcpf_lab.trace.analysis import KINDS, RETRANSMISSIONS, RTO, RULES, SPURIOUS, Analysis, ip_text

#: Kinds that have a column of another name: they are timeouts.
_TIMEOUTS = ("rto", "syn_rto")
_ENDS = ("flow", "src", "sport", "dst", "dport")


@dataclass(frozen=True, eq=False)
class Captures:
    """Captures that were analysed, as `tcpf_lab.analyze` gives them.

    A row of each table is an observation; units are in ``table.attrs["units"]``. The column
    ``capture`` is the file of a row.

    Parameters
    ----------
    analyses : tuple of Analysis
        What was found in each capture.
    rows : tuple of int64 arrays
        Numbers of the flows of each that are wanted, in the order of the tables.
    """

    analyses: tuple[Analysis, ...]
    rows: tuple[NDArray[np.int64], ...]

    def __repr__(self) -> str:
        """Say how much there is."""
        names = ", ".join(repr(found.capture.name) for found in self.analyses)
        events = sum(
            int(np.sum(found.flows["counts"][wanted]))
            for found, wanted in zip(self.analyses, self.rows, strict=True)
        )
        return f"Captures({names}, flows={sum(map(len, self.rows))}, events={events})"

    @cached_property
    def captures(self) -> pd.DataFrame:
        """A row per capture: how many packets, when, and where it was taken."""
        rows = [capture_row(found) for found in self.analyses]
        return frame(LAYOUTS["captures"], [{"capture": row["file"], **row} for row in rows])

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A row per flow: what it sent, and the causes of its retransmissions."""
        rows = [
            {"capture": found.capture.name, **_flat(flow_row(found, int(row)))}
            for found, wanted in zip(self.analyses, self.rows, strict=True)
            for row in wanted
        ]
        return frame(LAYOUTS["capture_flows"], rows)

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row per event, in the order of each capture: retransmissions and their causes."""
        parts = [
            _events(found, wanted) for found, wanted in zip(self.analyses, self.rows, strict=True)
        ]
        if not parts:
            return frame(LAYOUTS["events"], [])
        together = {
            column.name: pd.concat([part[column.name] for part in parts], ignore_index=True)
            for column in LAYOUTS["events"].columns
        }
        return with_units(pd.DataFrame(together), LAYOUTS["events"])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give a flow's row with a column for each kind of event."""
    flat = {name: value for name, value in row.items() if name not in ("events", "spurious")}
    kinds = {f"{name}_packets": n for name, n in row["events"].items() if name not in _TIMEOUTS}
    by_kind = row["spurious"]
    again = sum(by_kind.get(KINDS[kind], 0) for kind in RETRANSMISSIONS)
    spurious = {"spurious_packets": again, "spurious_timeouts": by_kind.get(KINDS[RTO], 0)}
    return {**flat, **kinds, **spurious}


def _events(found: Analysis, wanted: NDArray[np.int64]) -> pd.DataFrame:
    """Make the table of one capture's events."""
    events = found.events[np.isin(found.events["flow"], wanted)]
    kinds, spurious = np.array(KINDS, object), np.array([None, *SPURIOUS[1:]], object)
    sentences = {rule: RULES.get(int(rule), "") for rule in np.unique(events["rule"])}
    columns: dict[str, Any] = {
        "capture": np.full(events.size, found.capture.name, object),
        "time_s": (events["time_ns"] - found.first_ns) / 1e9,
        "time_ns": events["time_ns"],
        "record": events["record"],
        **_ends(found, wanted, events["flow"]),
        "seq": events["start"],
        "payload_bytes": events["length"].astype(np.int64),
        "kind": kinds[events["kind"]],
        "backoff": events["backoff"].astype(np.int64),
        "spurious": spurious[events["spurious"]],
        "rule": events["rule"].astype(np.int64),
        "explanation": [sentences[rule] for rule in events["rule"]],
    }
    texts = {column.name for column in LAYOUTS["events"].columns if column.kind == "text"}
    return pd.DataFrame(
        {
            name: pd.Series(columns[name], dtype="string") if name in texts else columns[name]
            for name in LAYOUTS["events"].names
        }
    )


def _ends(
    found: Analysis, wanted: NDArray[np.int64], flow: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Give the columns of each event's flow."""
    known = np.sort(wanted)
    place = np.searchsorted(known, flow)
    chosen = found.flows[known]
    texts = {
        name: np.array([ip_text(address) for address in chosen[name]], object)
        for name in ("src", "dst")
    }
    numbers = {name: chosen[name] for name in ("sport", "dport")}
    ends = {"flow": known, **texts, **numbers}
    return {name: ends[name][place] for name in _ENDS}


def written(found: Captures, form: str, *, events: bool) -> str | bytes:
    """Give the flows of captures, or their events, as the content of a file.

    Parameters
    ----------
    found : Captures
        The captures.
    form : str
        ``csv``: commas, line feeds, a missing value is an empty field; ``parquet``: each field has
        its unit and meaning; ``jsonl``: an object per line and row, a missing value is null.
    events : bool
        Whether the events are wanted.
    """
    table = found.events if events else found.flows
    if form == "parquet":
        return parquet(table, LAYOUTS["events" if events else "capture_flows"])
    if form == "csv":
        return table.to_csv(index=False, lineterminator="\n")
    return "".join(json.dumps(row) + "\n" for row in _records(table))


def event_lists(found: Captures) -> Iterator[list[dict[str, Any]]]:
    """Yield the events of each capture as JSON has them."""
    table = found.events
    for analysis in found.analyses:
        own = table[table["capture"] == analysis.capture.name]
        yield list(_records(own.drop(columns="capture")))


def _records(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows with numbers and texts of Python, None for what is missing."""
    plain = table.astype(object).where(table.notna(), None)
    columns = list(plain.columns)
    for row in plain.itertuples(index=False, name=None):
        yield dict(zip(columns, row, strict=True))


@dataclass(frozen=True, eq=False)
class Device:
    """What became of the packets that entered a box, as `tcpf_lab.device` gives it.

    Units are in ``table.attrs["units"]``.

    Parameters
    ----------
    crossed : MatchedCaptures
        The captures, matched.
    """

    crossed: MatchedCaptures

    def __repr__(self) -> str:
        """Say how much there is."""
        lost = self.described["loss"]["packets_lost"]
        judged = self.described["packets"]["counted"]
        names = f"{self.crossed.before!r}, {self.crossed.after!r}"
        return f"Device({names}, packets={judged}, lost={lost})"

    @cached_property
    def described(self) -> dict[str, Any]:
        """Everything but the packets: `tcpf_lab.metrics.device.describe_device`."""
        return describe_device(self.crossed)

    @cached_property
    def packets(self) -> pd.DataFrame:
        """A row per packet that entered, in the order of arrival."""
        found, transit = self.crossed.passage, self.crossed.passage.transit
        marks, lost = found.entered, transit.lost
        ends = pd.DataFrame([ends_of(found, k) for k in range(found.ends.size)])
        columns = {
            "record": marks["record"],
            "time_ns": transit.arrival_ns,
            **{name: ends[name].to_numpy()[marks["flow"]] for name in ends.columns},
            "seq": marks["seq"].astype(np.int64),
            "payload_bytes": marks["payload"].astype(np.int64),
            "ip_length": transit.ip_length,
            "dscp": (transit.tos >> 2).astype(np.int64),
            "counted": self.crossed.judged,
            "lost": lost,
            "reordered": found.overtaken,
            "dscp_out": pd.array((found.tos_out >> 2).astype(np.int64), "Int64"),
            "departure_ns": pd.array(transit.departure_ns, "Int64"),
            "delay_s": (transit.departure_ns - transit.arrival_ns) / 1e9,
        }
        table = pd.DataFrame(columns)
        table.loc[lost, ["dscp_out", "departure_ns"]] = pd.NA
        table.loc[lost, "delay_s"] = np.nan
        text = {"src": "string", "dst": "string"}
        return with_units(table.astype(text), LAYOUTS["device_packets"])

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A row per flow: loss, and its longest run."""
        return frame(LAYOUTS["device_flows"], self.described["flows"])

    @cached_property
    def by_dscp(self) -> pd.DataFrame:
        """A row per code point."""
        rows = self.described["by_dscp"].items()
        return frame(LAYOUTS["device_dscp"], [{"dscp": int(dscp), **row} for dscp, row in rows])

    @cached_property
    def over_time(self) -> pd.DataFrame:
        """A row per part of the time that packets entered in."""
        return frame(LAYOUTS["device_time"], self.described["over_time"])

    def write(self, suffix: str) -> bytes:
        """Give the packets as a file: ``csv`` or ``parquet``.

        Raises
        ------
        RequestError
            For any other.
        """
        if suffix == "parquet":
            return parquet(self.packets, LAYOUTS["device_packets"])
        if suffix != "csv":
            raise RequestError(f"packets are written as csv or parquet, not {suffix!r}")
        return self.packets.to_csv(index=False, lineterminator="\n").encode()

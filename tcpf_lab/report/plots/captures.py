"""Captures as the subject of a figure: a flow of one, or the two sides of a queue."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.results.command import command
from tcpf_lab.trace.analysis import RTO, Analysis, Options, analyse, ip_text
from tcpf_lab.trace.packet import Capture, Flows, Packets, find_flows, read_between, read_capture


@dataclass(frozen=True, eq=False)
class DrawnCapture:
    """One capture.

    Parameters
    ----------
    path : Path
        Its file.
    options : Options
        What is known of the senders.
    """

    path: Path
    options: Options = field(default_factory=Options)

    @cached_property
    def found(self) -> Analysis:
        """What the analysis says of its flows and events."""
        return analyse(self.path, options=self.options)

    @cached_property
    def read(self) -> Capture:
        """The capture in memory, up to where it is damaged, if it is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `truncated` says it
            return read_capture(self.path, accept_truncated=True)

    @property
    def truncated(self) -> str:
        """What is wrong with its end, as whichever reading was needed found it; empty if whole."""
        known = self.read if "read" in vars(self) else self.found.capture
        return known.truncated

    def chosen(self, wanted: tuple[int, ...]) -> int:
        """Give the number of the flow to draw: by default that with most timeouts.

        Raises
        ------
        LabError
            If there is no flow, or not the one that is wanted.
        """
        flows = self.found.flows
        if not flows.size:
            raise LabError("the capture has no TCP flow", where=str(self.path))
        if not wanted:
            busy = zip(flows["counts"][:, RTO], flows["counts"].sum(axis=1), strict=True)
            return max(enumerate(busy), key=lambda pair: tuple(map(int, pair[1])))[0]
        (flow,) = wanted
        if not 0 <= flow < flows.size:
            several = f"the capture has flows 0 to {flows.size - 1}"
            message = several if flows.size > 1 else "the capture has one flow, 0"
            raise RequestError(message, where=f"--flow {flow}", hint=f"`{self._list}` lists them")
        return flow

    @property
    def _list(self) -> str:
        return command("analyze", self.path, "--top", "0")

    def ends(self, flow: int) -> str:
        """Name the ends of a flow: ``10.0.0.1:20000 > 10.0.3.2:5001``."""
        row = self.found.flows[flow]
        source, target = ip_text(row["src"]), ip_text(row["dst"])
        return f"{source}:{row['sport']} > {target}:{row['dport']}"

    def kinds(self, flow: int, records: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Give the kind of each packet of a flow's connection, by its record; 0 for no event."""
        events = self.found.events[self.found.events["flow"] == flow]
        order = np.argsort(records)
        kinds = np.zeros(records.size, np.uint8)
        place = np.searchsorted(records, events["record"], sorter=order)
        kinds[order[place]] = events["kind"]
        return kinds

    def only(self, flow: int) -> tuple[Packets, Flows, int]:
        """Give the packets of a flow's connection, and which flow of them it is.

        Ports are used again: the packets are those from the flow's first on, up to the first of
        the next flow between the same ends.
        """
        rows = self.found.flows
        row = rows[flow]
        same = (rows["sport"] == row["sport"]) & (rows["dport"] == row["dport"])
        for name in ("src", "dst"):
            same &= np.all(rows[name] == row[name], axis=1)
        later = rows["first_ns"][same & (np.arange(rows.size) > flow)]
        until = later.min() if later.size else np.iinfo(np.int64).max
        packets = self._between(row)
        begin = row["first_ns"] if np.sum(same) > 1 else 0
        packets = packets[(packets["time_ns"] >= begin) & (packets["time_ns"] < until)]
        flows = find_flows(packets)
        (place,) = np.flatnonzero(_side(partial(getattr, flows), row, "src", "dst"))[:1]
        return packets, flows, int(place)

    def _between(self, row: Any) -> Packets:
        """Read the packets between the ends of a flow, in both directions, and keep no others."""
        src, dst = row["src"].tobytes(), row["dst"].tobytes()
        return read_between(self.path, src, int(row["sport"]), dst, int(row["dport"]))


def _side(column: Callable[[str], Any], row: Any, source: str, target: str) -> Any:
    """Which packets, or flows, run between these ends, in this direction."""
    port = {"src": "sport", "dst": "dport"}
    mine = (column("sport") == row[port[source]]) & (column("dport") == row[port[target]])
    for ours, theirs in (("src", source), ("dst", target)):
        high, low = (int.from_bytes(row[theirs][at : at + 8].tobytes(), "big") for at in (0, 8))
        mine &= (column(ours) == np.uint64(low)) & (column(f"{ours}_high") == np.uint64(high))
    return mine

"""One run, to look at from all sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.report.export.columns import Layout
from tcpf_lab.report.export.table_columns import CHECKS, DSCP, FLOWS, KEY
from tcpf_lab.report.export.tidy import check_rows, dscp_rows, flow_rows, frame
from tcpf_lab.report.frames import over_time
from tcpf_lab.report.run_records import read_manifest, read_metrics
from tcpf_lab.results import RunFiles
from tcpf_lab.spec.load import load
from tcpf_lab.spec.marker import AnyMarker
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue import AnyQueue

#: What frames and properties take from ``metrics.json``.
_READ = ("metrics", "per_flow", "by_dscp", "validity")


@dataclass(frozen=True)
class Run:
    """A complete run; everything is read when it is asked for first.

    Frames have their columns' units in ``attrs["units"]``, times are seconds after the run's epoch.
    ``docs/data-dictionary.md`` describes every column.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    """

    files: RunFiles

    def __repr__(self) -> str:
        """Give its name and whether it is valid."""
        return f"Run({self.id}: {'valid' if self.valid else 'invalid'})"

    @property
    def id(self) -> str:
        """Name of its directory, such as ``nomark+red-flows100-seed1``."""
        return self.files.root.name

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """Facts about the run: ``manifest.json``."""
        found: Mapping[str, Any] = read_manifest(self.files, "case", "window_s", "expect")
        return found

    @cached_property
    def _numbers(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = read_metrics(self.files, *_READ)
        return found

    @property
    def metrics(self) -> Mapping[str, float | int | None]:
        """The numbers of the run by name, None where one is undefined."""
        found: Mapping[str, float | int | None] = self._numbers["metrics"]
        return found

    @property
    def valid(self) -> bool:
        """Whether it passed every check; `checks` has them."""
        return bool(self._numbers["validity"]["valid"])

    @property
    def window(self) -> tuple[float, float]:
        """Start and end of what was measured, seconds."""
        start, end = self.manifest["window_s"]
        return float(start), float(end)

    @cached_property
    def experiment(self) -> Experiment:
        """What the run was made from, in base units: bytes, bit/s, seconds."""
        return load(self.files.spec)

    @property
    def marker(self) -> AnyMarker:
        """The marker of its case with its parameters, as ``docs/spec.md`` has them."""
        return self.experiment.cases[self.manifest["case"]].marker

    @property
    def queue(self) -> AnyQueue:
        """The queue of its case with its parameters, as ``docs/spec.md`` has them."""
        return self.experiment.cases[self.manifest["case"]].queue

    @property
    def flows(self) -> pd.DataFrame:
        """A row per flow: goodput, timeouts, retransmissions, and what the kernel says."""
        return self._table(FLOWS, list(flow_rows(self._numbers)))

    @property
    def dscp(self) -> pd.DataFrame:
        """A row per code point: packets and loss at the bottleneck."""
        return self._table(DSCP, list(dscp_rows(self._numbers)))

    @property
    def checks(self) -> pd.DataFrame:
        """A row per check of validity."""
        return self._table(CHECKS, list(check_rows(self._numbers)))

    def _table(self, layout: Layout, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
        """Make a table of one run, which need not say in every row which run it is."""
        return frame(replace(layout, columns=layout.columns[len(KEY) :]), rows)

    def flow_series(self) -> pd.DataFrame:
        """Goodput, retransmissions and timeouts of every flow, second by second.

        Raises
        ------
        TraceError
            If the run has no ``series.npz``, or a damaged one.
        """
        return over_time.flow_series(self.files)

    def queue_series(self) -> pd.DataFrame:
        """Length of the bottleneck's queue and its drops, a tenth of a second each.

        Raises
        ------
        TraceError
            If the run has no ``series.npz``, or a damaged one.
        """
        return over_time.queue_series(self.files)

    @cached_property
    def _record(self) -> CapturedRecord:
        return over_time.kept_record(self.files)

    @property
    def captures(self) -> tuple[str, ...]:
        """Names of the captures, for `packets`: at the sender, before and after the queue.

        None if the run was made without captures.
        """
        names = self.manifest["expect"].get("captures")
        if names is None:
            return ()
        return names["sender"], names["ingress"], names["egress"]

    def packets(self, capture: str) -> pd.DataFrame:
        """Every packet of a capture that was kept, such as ``S``.

        Raises
        ------
        RequestError
            If no captures were kept (``tcpf-lab run --keep-pcaps``), or none is called so.
        TraceError
            If one cannot be read.
        """
        return over_time.packets(self._record, capture)

    def retransmissions(self) -> pd.DataFrame:
        """Every segment that was sent again, and why; from the captures, as `packets`."""
        return over_time.retransmissions(self._record)

    def bottleneck(self) -> pd.DataFrame:
        """Every packet that came to the bottleneck's queue; from the captures, as `packets`."""
        return over_time.bottleneck(self._record)

    def backlog(self) -> pd.DataFrame:
        """Every change of the bottleneck's queue; from the captures, as `packets`."""
        return over_time.queue_length(self._record)

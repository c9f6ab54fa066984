"""Runs as Flent's data files, so that Flent plots them: ``flent -i RUN.flent.gz -p PLOT``.

A run becomes a result of Flent's test ``tcp_nup``: so many TCP uploads, and a ping. The format is
version 4 of Flent 2, gzipped JSON: series at common instants (``x_values``, ``results``), what was
sampled at instants of its own (``raw_values``), and ``metadata``.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.capacity import changes
from tcpf_lab.metrics.definitions import jain_index
from tcpf_lab.metrics.record import made_without_captures, read_clocks
from tcpf_lab.metrics.series import Series
from tcpf_lab.report.export.tidy import UsedRun, used_runs
from tcpf_lab.report.section import Cell, Document, Section, read_series
from tcpf_lab.report.style import path_delays
from tcpf_lab.results.layout import ExperimentFiles, read_json
from tcpf_lab.spec.load import load

_VERSION = 4
_TEST = "tcp_nup"
_PING, _UPLOAD = "Ping (ms) ICMP", "TCP upload"
_NOTE = (
    "No ping was sent: its series is the delay that a packet would have met, that of the path and "
    "that of the bottleneck's queue as it was. Uploads are payload newly acknowledged. What was "
    "measured lies from {start:g} to {end:g} s."
)


def flent_files(files: ExperimentFiles, sections: Sequence[Section]) -> Iterator[Document]:
    """Yield ``flent/<experiment>-<run>.flent.gz`` for every run that the means are made of.

    A run without captures has no file, as it has no time series.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    sections : sequence of Section
        The experiments.

    Raises
    ------
    LabError
        If a run has no ``series.npz``, a file of it is damaged, or its bottleneck changes.
    """
    paths: dict[tuple[str, Cell], Path] = {}
    for run in used_runs(sections):
        if made_without_captures(run.files):
            continue  # there is nothing over time that Flent could draw
        experiment = run.section.source.files.experiment
        cell = (experiment, run.cell)
        if cell not in paths:  # it is the same for all seeds, and reading YAML takes a while
            paths[cell] = path_of(run)
        yield files.flent(f"{experiment}-{run.id}"), flent_file(run, paths[cell])


@dataclass(frozen=True)
class Path:
    """Between whom the flows run; ``delay_s`` is that of the first pair, there and back."""

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    delay_s: float


def path_of(run: UsedRun) -> Path:
    """Read the path from the run's spec."""
    graph = load(run.files.spec).graph
    return Path(
        tuple(node.name for node in graph.having("sender")),
        tuple(node.name for node in graph.having("receiver")),
        path_delays(graph)[0],
    )


def flent_file(run: UsedRun, path: Path) -> bytes:
    """Give the content of a run's data file; the same run gives the same bytes."""
    manifest, series = read_json(run.files.manifest), read_series(run.files)
    epoch_s = read_clocks(run.files).epoch_ns / 1e9
    place = manifest["expect"]["bottleneck"]
    if changes(place):
        raise RequestError(
            "Flent's delay is the backlog at one rate; the bottleneck changes",
            where=str(run.files.root),
            hint="use --format csv or parquet",
        )
    rate = float(place["rate_bits_per_s"])
    queueing_ms = 8e3 * series.backlog_mean_bytes.astype(np.float64) / rate
    delay_ms = 1e3 * path.delay_s + queueing_ms
    uploads = _uploads(series)
    results = {**uploads, _PING: _per_second(delay_ms, series)}
    queue = f"qdisc_stats_{manifest['expect']['bottleneck']['node']}"
    content = {
        "version": _VERSION,
        "metadata": {
            **_metadata(run, manifest, series),
            "HOST": path.receivers[0],
            "HOSTS": list(path.receivers),
            "LOCAL_HOST": path.senders[0],
            **dict.fromkeys(("TIME", "T0"), _date(epoch_s)),
            "SERIES_META": {name: _meaning(name, values) for name, values in results.items()},
        },
        "x_values": (series.flow_time_s + float(series.flow_bin_s) / 2).tolist(),
        "results": {name: _numbers(values) for name, values in results.items()},
        "raw_values": {
            _PING: _samples(series, epoch_s, val=delay_ms),
            queue: _samples(
                series,
                epoch_s,
                backlog_bytes=series.backlog_mean_bytes,
                dropped=series.packets_lost,
                delay=queueing_ms,
            ),
        },
    }
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def _uploads(series: Series) -> dict[str, NDArray[np.float64]]:
    """Give Mbit/s of every flow, their mean and sum, and Jain's index, second by second."""
    rates = 8e-6 * series.acked_bytes / float(series.flow_bin_s)
    shares = [jain_index(now) if now.any() else np.nan for now in rates.T]
    return {
        **{f"{_UPLOAD}::{1 + flow}": rate for flow, rate in enumerate(rates)},
        f"{_UPLOAD} avg": rates.mean(axis=0),
        f"{_UPLOAD} sum": rates.sum(axis=0),
        f"{_UPLOAD} fairness": np.array(shares),
    }


def _per_second(values: NDArray[np.float64], series: Series) -> NDArray[np.float64]:
    """Mean over the intervals of the queue that make up one of the flows'."""
    means: NDArray[np.float64] = values.reshape(series.acked_bytes.shape[1], -1).mean(axis=1)
    return means


def _samples(series: Series, epoch_s: float, **columns: NDArray[Any]) -> list[dict[str, float]]:
    times = epoch_s + series.queue_time_s + float(series.queue_bin_s) / 2
    rows = zip(times.tolist(), *(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(("t", *columns), row, strict=True)) for row in rows]


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Values as JSON has them: null where there is none."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _meaning(name: str, values: NDArray[np.float64]) -> dict[str, Any]:
    """What Flent keeps of a series besides its values."""
    unit = "ms" if name == _PING else "Idx" if name.endswith("fairness") else "Mbits/s"
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if known.size else None
    return {"ID": name, "UNITS": unit, "MEAN_VALUE": mean, "RUNNER": "tcpf-lab"}


def _metadata(run: UsedRun, manifest: Mapping[str, Any], series: Series) -> dict[str, Any]:
    """What Flent wants to know of a result, and under ``TCPF_LAB`` which run it is."""
    start, end = manifest["window_s"]
    where, own = manifest["expect"]["bottleneck"], run.key(manifest)
    title = f"{own['config']}, {own['case']}, {own['flows']} flows, seed {own['seed']}"
    return {
        "NAME": _TEST,
        "TITLE": title,
        "NOTE": _NOTE.format(start=start, end=end),
        "LENGTH": end - start,
        "TOTAL_LENGTH": float(series.flow_time_s[-1] + series.flow_bin_s),
        "STEP_SIZE": float(series.flow_bin_s),
        "IP_VERSION": 4,
        "TEST_PARAMETERS": {
            "upload_streams": str(own["flows"]),
            "qdisc_stats_hosts": where["node"],
            "qdisc_stats_interfaces": where["device"],
        },
        "DATA_FILENAME": f"{own['experiment']}-{run.id}.flent.gz",
        "BATCH_NAME": own["experiment"],
        "TCPF_LAB": {**own, "version": manifest["tcpf_lab"], "git_commit": manifest["git_commit"]},
    }


def _date(seconds: float) -> str:
    """An instant as Flent writes it, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"

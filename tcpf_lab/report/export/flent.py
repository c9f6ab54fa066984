"""Runs as Flent's data files, so that Flent plots them: ``flent -i RUN.flent.gz -p PLOT``.

A run becomes a result of one of Flent's tests: without groups of ``tcp_nup``, which is so many TCP
uploads and a ping; `flent_groups` has those of groups and probes. The format is version 4 of
Flent 2, gzipped JSON: series at common instants (``x_values``, ``results``), what was sampled at
instants of its own (``raw_values``), and ``metadata``.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics.capacity import drain_s
from tcpf_lab.metrics.record import made_without_captures, read_clocks
from tcpf_lab.metrics.series import Series
from tcpf_lab.metrics.tcp_info import read_tcp_info
from tcpf_lab.report.export.flent_groups import (
    PING,
    Floats,
    Plotted,
    Raw,
    fairness,
    of_direction,
    of_groups,
    samples,
)
from tcpf_lab.report.export.tidy import UsedRun, used_runs
from tcpf_lab.report.section import Cell, Document, Section, read_series
from tcpf_lab.report.style import path_delays
from tcpf_lab.results.layout import ExperimentFiles, read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment

_VERSION = 4
_UPLOAD = "TCP upload"
_NO_PING = (
    "No ping was sent: its series is the delay that a packet would have met, that of the path and "
    "that of the bottleneck's queue as it was."
)
_NOTE = "{0} TCP is payload newly acknowledged. What was measured lies from {1:g} to {2:g} s."
#: Samples of TCP_INFO: what Flent calls them, the field, and Flent's unit in ours.
_INFO = {
    "tcp_cwnd": ("cwnd", 1.0),
    "tcp_rtt": ("rtt_us", 1e-3),
    "tcp_delivery_rate": ("delivery_rate", 8e-6),
    "tcp_pacing_rate": ("pacing_rate", 8e-6),
}


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
        If a run has no ``series.npz``, or a file of it is damaged.
    """
    specs: dict[tuple[str, Cell], Experiment] = {}
    for run in used_runs(sections):
        if made_without_captures(run.files):
            continue  # there is nothing over time that Flent could draw
        experiment = run.section.source.files.experiment
        cell = (experiment, run.cell)
        if cell not in specs:  # it is the same for all seeds, and reading YAML takes a while
            specs[cell] = load(run.files.spec)
        yield files.flent(f"{experiment}-{run.id}"), flent_file(run, specs[cell])


def flent_file(run: UsedRun, experiment: Experiment) -> bytes:
    """Give the content of a run's data file; the same run gives the same bytes."""
    manifest, series = read_json(run.files.manifest), read_series(run.files)
    epoch_s = read_clocks(run.files).epoch_ns / 1e9
    plotted = (
        of_groups(run.files, manifest["expect"], experiment)
        if "groups" in manifest["expect"]
        else _of_flows(series, manifest, experiment)
    )
    place = manifest["expect"]["bottleneck"]
    queue: Raw = samples(
        series.queue_time_s + float(series.queue_bin_s) / 2,
        backlog_bytes=series.backlog_mean_bytes,
        dropped=series.packets_lost,
    )
    raw = plotted.raw | _tcp_info(run, experiment, plotted.flows)
    raw[_queue(place)] = queue + raw[_queue(place)]
    graph = experiment.graph
    hosts = [node.name for node in graph.having("receiver")]
    content = {
        "version": _VERSION,
        "metadata": {
            **_metadata(run, manifest, plotted, float(series.queue_time_s[-1])),
            "IP_VERSION": experiment.traffic.ip or 4,
            "HOST": hosts[0],
            "HOSTS": hosts,
            "LOCAL_HOST": graph.having("sender")[0].name,
            **dict.fromkeys(("TIME", "T0"), _date(epoch_s)),
            "SERIES_META": {
                name: _meaning(name, values) | plotted.about.get(name, {})
                for name, values in plotted.results.items()
            },
        },
        "x_values": plotted.time_s.tolist(),
        "results": {name: _numbers(values) for name, values in plotted.results.items()},
        "raw_values": {
            name: [row | {"t": epoch_s + row["t"]} for row in rows] for name, rows in raw.items()
        },
    }
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def _queue(place: Mapping[str, Any]) -> str:
    return f"qdisc_stats_{place['node']}"


def _of_flows(series: Series, manifest: Mapping[str, Any], experiment: Experiment) -> Plotted:
    """Give what Flent plots of a run without groups: uploads, and the delay of path and queue."""
    place = manifest["expect"]["bottleneck"]
    time = series.queue_time_s + float(series.queue_bin_s) / 2
    queueing_ms = 1e3 * drain_s(place, time, series.backlog_mean_bytes.astype(np.float64))
    path_ms = np.array([1e3 * path_delays(experiment.graph, at)[0] for at in time])
    delay_ms = path_ms + queueing_ms
    rates: Floats = 8e-6 * series.acked_bytes.astype(np.float64) / float(series.flow_bin_s)
    flows = [f"{_UPLOAD}::{1 + flow}" for flow in range(len(rates))]
    return Plotted(
        test="tcp_nup",
        parameters={
            "upload_streams": str(len(rates)),
            "qdisc_stats_hosts": place["node"],
            "qdisc_stats_interfaces": place["device"],
        },
        step_s=float(series.flow_bin_s),
        flows=flows,
        results={
            **of_direction(_UPLOAD, flows, rates),
            f"{_UPLOAD} fairness": fairness(rates),
            PING: _per_second(delay_ms, series),
        },
        raw={PING: samples(time, val=delay_ms), _queue(place): samples(time, delay=queueing_ms)},
        note=_NO_PING,
    )


def _per_second(values: Floats, series: Series) -> Floats:
    """Mean over the intervals of the queue that make up one of the flows'."""
    means: Floats = values.reshape(series.acked_bytes.shape[1], -1).mean(axis=1)
    return means


def _tcp_info(run: UsedRun, experiment: Experiment, flows: Sequence[str]) -> dict[str, Raw]:
    """Give the samples of TCP_INFO of each flow; none of a run without."""
    if experiment.traffic.tcp_info is None:
        return {}
    every = read_tcp_info(run.files)
    found: dict[str, Raw] = {}
    for flow, name in enumerate(flows):
        own = every[every["flow"] == flow]
        columns = {key: scale * own[field] for key, (field, scale) in _INFO.items()}
        found[name] = samples(own["time_ns"] / 1e9, **columns)
    return found


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Values as JSON has them: null where there is none."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _meaning(name: str, values: NDArray[np.float64]) -> dict[str, Any]:
    """What Flent keeps of a series besides its values."""
    unit = "Mbits/s" if name.startswith("TCP") else "count" if name.endswith("loss") else "ms"
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if known.size else None
    units = "Idx" if name.endswith("fairness") else unit
    return {"ID": name, "UNITS": units, "MEAN_VALUE": mean, "RUNNER": "tcpf-lab"}


def _metadata(
    run: UsedRun, manifest: Mapping[str, Any], plotted: Plotted, last_s: float
) -> dict[str, Any]:
    """What Flent wants to know of a result, and under ``TCPF_LAB`` which run it is."""
    start, end = manifest["window_s"]
    own = run.key(manifest)
    title = f"{own['config']}, {own['case']}, {own['flows']} flows, seed {own['seed']}"
    return {
        "NAME": plotted.test,
        "TITLE": title,
        "NOTE": _NOTE.format(plotted.note, start, end),
        "LENGTH": end - start,
        "TOTAL_LENGTH": math.ceil(last_s),
        "STEP_SIZE": plotted.step_s,
        "TEST_PARAMETERS": dict(plotted.parameters),
        "DATA_FILENAME": f"{own['experiment']}-{run.id}.flent.gz",
        "BATCH_NAME": own["experiment"],
        "TCPF_LAB": {**own, "version": manifest["tcpf_lab"], "git_commit": manifest["git_commit"]},
    }


def _date(seconds: float) -> str:
    """An instant as Flent writes it, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"

from __future__ import annotations

import json
import zipfile
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from run_builder import MS, PAYLOAD, SERVICE_NS, build_run, make_iperf3

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.series import Series, backlog_in_bins, read_series, write_series
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return build_run(tmp_path / "run")


@pytest.fixture
def series(run: RunFiles) -> Series:
    analyse(run)
    return read_series(run)


def test_flows_by_hand(series: Series) -> None:
    """Flow 0 is acknowledged from 1.7 to 1.89 s, flow 1 from 1.2 s on, its last segment at 2.5."""
    acked = [[0, 20 * PAYLOAD, 0], [0, 39 * PAYLOAD, PAYLOAD]]
    np.testing.assert_array_equal(series.acked_bytes, acked)
    np.testing.assert_array_equal(series.retransmissions, [[0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(series.timeouts, [[0, 0, 0], [0, 0, 1]])


def test_queue_by_hand(series: Series) -> None:
    """39 frames of 1014 bytes wait from 1.0 s on; the last of the 40 that came is lost."""
    assert series.backlog_max_bytes[10] == 39 * 1014
    area = 1014 * SERVICE_NS * sum(range(1, 40))
    assert series.backlog_mean_bytes[10] == pytest.approx(area / (100 * MS), rel=1e-6)
    # From 1.5 s on a frame every 10 ms, which stays for one service.
    assert series.backlog_mean_bytes[15] == pytest.approx(10 * 1014 * SERVICE_NS / 1e8, rel=1e-6)
    assert np.flatnonzero(series.packets_lost).tolist() == [10]
    assert series.packets_lost[10] == 1


def test_bins_are_from_the_epoch_to_the_end_of_the_window(series: Series) -> None:
    assert series.window_s.tolist() == [1.0, 3.0]
    assert series.flow_time_s.tolist() == [0.0, 1.0, 2.0]
    assert series.queue_time_s.size == 30
    assert series.queue_time_s[[0, 1, -1]] == pytest.approx([0.0, 0.1, 2.9])


def test_window_that_ends_between_two_seconds_is_covered(run: RunFiles) -> None:
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"window_s": [1.0, 2.4]}))
    analyse(run)
    series = read_series(run)
    assert series.acked_bytes.shape == (2, 3)
    assert series.packets_lost.shape == (30,)


def test_sums_over_the_window_are_the_metrics(run: RunFiles) -> None:
    found = analyse(run)
    series = read_series(run)
    window = slice(1, 3)
    for row, acked, again, timeouts in zip(
        found["per_flow"],
        series.acked_bytes,
        series.retransmissions,
        series.timeouts,
        strict=True,
    ):
        assert acked[window].sum() / 2 == pytest.approx(row["goodput_bytes_per_s"], rel=1e-6)
        assert again[window].sum() == row["retransmissions"]
        assert timeouts[window].sum() == row["timeouts"]
    fine = slice(10, 30)
    metrics = found["metrics"]
    mean = series.backlog_mean_bytes[fine].mean()
    assert mean == pytest.approx(metrics["backlog_mean_bytes"], rel=1e-5)
    assert series.backlog_max_bytes[fine].max() == metrics["backlog_max_bytes"]
    assert series.packets_lost[fine].sum() == found["by_dscp"]["0"]["packets_lost"]


def test_flow_that_never_came_up_has_zeros(run: RunFiles) -> None:
    make_iperf3(run)
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"flows": 3}))
    analyse(run)
    series = read_series(run)
    assert series.acked_bytes.shape == (3, 3)
    assert not series.acked_bytes[2].any()


def test_syn_timeouts_are_not_among_the_timeouts(run: RunFiles) -> None:
    record = read_captured(run)
    assert not np.any(record.recovery.kind == 8)
    analyse(run)
    assert read_series(run).timeouts.sum() == 1


def test_the_same_numbers_give_the_same_bytes(run: RunFiles, series: Series) -> None:
    first = run.series.read_bytes()
    run.series.unlink()
    analyse(run)
    assert run.series.read_bytes() == first
    with zipfile.ZipFile(run.series) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_what_is_read_is_what_was_written(run: RunFiles, series: Series) -> None:
    changed = replace(series, timeouts=series.timeouts + np.uint32(70_000))
    write_series(run, changed)
    found = read_series(run)
    for field in fields(Series):
        wanted = getattr(changed, field.name)
        assert getattr(found, field.name).dtype == wanted.dtype
        np.testing.assert_array_equal(getattr(found, field.name), wanted)


def test_missing_series_say_how_to_get_them(run: RunFiles) -> None:
    with pytest.raises(TraceError, match="no series over time") as error:
        read_series(run)
    assert error.value.where.endswith("series.npz")
    assert "tcpf-lab analyze" in error.value.hint


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"not a zip at all"])
def test_damaged_series_are_named(run: RunFiles, content: bytes) -> None:
    run.series.write_bytes(content)
    with pytest.raises(TraceError, match="cannot be read") as error:
        read_series(run)
    assert error.value.where.endswith("series.npz")


def test_series_of_another_layout_are_refused(run: RunFiles) -> None:
    with run.series.open("wb") as file:
        np.savez(file, window_s=np.zeros(2))
    with pytest.raises(TraceError, match="cannot be read"):
        read_series(run)


@pytest.mark.parametrize(
    ("times", "sizes", "mean", "largest"),
    [
        ([], [], [0.0, 0.0], [0, 0]),
        ([-5, 3], [50, 0], [15.0, 0.0], [50, 0]),  # what was queued before the first bin counts
        (
            [0, 10, 10, 10],
            [5, 7, 0, 9],
            [5.0, 9.0],
            [5, 9],
        ),  # changes at an edge belong behind it
        ([4, 4, 6], [8, 0, 0], [0.0, 0.0], [8, 0]),  # a length of no duration has no mean
        ([25], [7], [0.0, 0.0], [0, 0]),  # after the last bin
    ],
)
def test_backlog_in_bins(
    times: list[int], sizes: list[int], mean: list[float], largest: list[int]
) -> None:
    found = backlog_in_bins(times, sizes, [0, 10, 20])
    assert found[0].tolist() == mean
    assert found[1].tolist() == largest


def test_backlog_in_bins_agrees_with_counting_every_instant() -> None:
    random = np.random.default_rng(2)
    for _ in range(200):
        times = np.sort(random.integers(0, 60, random.integers(1, 40)))
        sizes = random.integers(0, 100, times.size)
        edges = np.arange(0, 61, random.integers(5, 20))
        mean, largest = backlog_in_bins(times, sizes, edges)
        line = np.zeros(60)
        for at, size in zip(times, sizes, strict=True):
            line[at:] = size
        for index, (start, end) in enumerate(pairwise(edges)):
            assert mean[index] == pytest.approx(line[start:end].mean())
            inside = sizes[(times > start) & (times < end)]
            assert largest[index] == max([line[start], *inside])

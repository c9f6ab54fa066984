"""Figures of single runs over time, from a run made by hand whose every segment is known."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from plot_runs import TINY
from test_plots import figure, lines, texts

from tcpf_lab.base.errors import LabError, RequestError, TraceError
from tcpf_lab.metrics.series import read_series, write_series
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.report.plots.kinds import Wanted, draw, kind_named
from tcpf_lab.report.plots.runs import DrawnRun, read_run
from tcpf_lab.report.style import EVENTS
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.load import apply_overrides, parse
from tcpf_lab.spec.sweep import expand

PAYLOAD = 960


@pytest.fixture(scope="module")
def _builder() -> Iterator[Any]:
    """The run by hand of the metrics' tests."""
    tests = Path(__file__).parents[2]
    places = [str(tests / name) for name in ("metrics", "trace", "")]
    sys.path[:0] = places
    import run_builder

    yield run_builder
    for place in places:
        sys.path.remove(place)


@pytest.fixture
def run(_builder: Any, tmp_path: Path) -> DrawnRun:
    files = _builder.build_run(tmp_path / "run")
    analyse(files)
    experiment = expand(parse(TINY, "tiny.yaml"), {"flows": "2"})[0].experiment
    return read_run(files, experiment)


def of_seed(run: DrawnRun, seed: int) -> DrawnRun:
    matrix = run.experiment.matrix.model_copy(update={"seed": (seed,)})
    return replace(run, experiment=run.experiment.model_copy(update={"matrix": matrix}))


def test_one_run_has_a_line_for_each_of_a_few_flows(run: DrawnRun) -> None:
    made = figure("timeseries", [run])
    first, second = (line[:, 1].tolist() for line in lines(made, 0))
    assert first == [0, 20 * PAYLOAD, 0]
    assert second == [0, 39 * PAYLOAD, PAYLOAD]
    (queue,) = lines(made, 1)
    assert queue[:, 1] == pytest.approx(read_series(run.files).backlog_mean_bytes)
    assert queue[0, 0] == pytest.approx(0.05), "a bin is drawn at its middle"
    bars = [bar.get_height() for bar in made.axes[2].patches[:3]]
    assert bars == [0, 0, 1]
    said = texts(made)
    assert "n = 1 run" in said
    assert "warm-up, not measured" in said
    assert "seed 1" in said


def test_chosen_flows_are_drawn_and_their_timeouts_counted(run: DrawnRun) -> None:
    made = figure("timeseries", [run], flow=(0,))
    assert len(lines(made, 0)) == 1
    assert not any(bar.get_height() for bar in made.axes[2].patches[:3])
    assert "flow 0 of 2" in texts(made)


def test_many_flows_are_a_band_and_their_mean(run: DrawnRun) -> None:
    series = read_series(run.files)
    many = np.arange(10 * 3, dtype=np.uint32).reshape(10, 3)
    none = np.zeros((10, 3), np.uint32)
    write_series(run.files, replace(series, acked_bytes=many, timeouts=none, retransmissions=none))
    made = figure("timeseries", [run])
    (mean,) = lines(made, 0)
    assert mean[:, 1] == pytest.approx(many.mean(axis=0))
    band = made.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    low, high = np.percentile(many, (10, 90), axis=0)
    assert (band.min(), band.max()) == pytest.approx((low.min(), high.max()))
    assert "10th to 90th percentile" in texts(made)


def test_several_runs_are_drawn_by_their_means(run: DrawnRun) -> None:
    made = figure("timeseries", [run, of_seed(run, 2)])
    goodput, queue, timeouts = (lines(made, panel) for panel in range(3))
    assert [len(found) for found in (goodput, queue, timeouts)] == [2, 2, 2]
    assert goodput[0][:, 1] == pytest.approx([0, 59 * PAYLOAD / 2, PAYLOAD / 2])
    fine = read_series(run.files).backlog_mean_bytes
    assert queue[0][:, 1] == pytest.approx(fine.reshape(3, 10).mean(axis=1))
    said = texts(made)
    assert "seed 2" in said
    assert "First, 2 flows, n = 1 run per line" in said
    assert "flows, mean (bytes/s)" in said


def test_runs_of_one_seed_are_named_by_their_settings(run: DrawnRun) -> None:
    other = expand(parse(TINY, "tiny.yaml"), {"flows": "2"})[0].experiment
    changed = apply_overrides(other, ["queue.limit=50 kB"])
    made = figure("timeseries", [run, replace(run, files=copied(run), experiment=changed)])
    said = texts(made)
    assert "queue.limit=60 kB" in said
    assert "queue.limit=50 kB" in said
    assert "seed 1, n = 1 run per line" in said


def copied(run: DrawnRun) -> RunFiles:
    root = run.files.root.with_name("another")
    shutil.copytree(run.files.root, root)
    return RunFiles(root)


def test_time_that_was_asked_for_is_what_is_seen(run: DrawnRun) -> None:
    made = figure("timeseries", [run], time_s=(1.5, 2.5))
    assert made.axes[2].get_xlim() == (1.5, 2.5)
    assert "warm-up" not in texts(made).replace("1 s of warm-up", "")
    with pytest.raises(RequestError, match="the run ends 3 s after its start"):
        figure("timeseries", [run], time_s=(3.0, 4.0))


@pytest.mark.parametrize(
    ("flow", "runs", "message"),
    [
        ((2,), 1, "the run has flows 0 to 1, no flow 2"),
        (tuple(range(2)), 2, "one flow of several runs"),
    ],
)
def test_flows_that_cannot_be_drawn_are_refused(
    run: DrawnRun, flow: tuple[int, ...], runs: int, message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        figure("timeseries", [of_seed(run, seed) for seed in range(runs)], flow=flow)


def test_too_many_runs_over_each_other_are_refused(run: DrawnRun) -> None:
    with pytest.raises(RequestError, match="14 runs; a figure distinguishes at most 13"):
        figure("timeseries", [of_seed(run, seed) for seed in range(14)])


def test_run_without_series_is_named(run: DrawnRun) -> None:
    run.files.series.unlink()
    with pytest.raises(TraceError, match="no series over time") as error:
        figure("timeseries", [run])
    assert "tcpf-lab analyze" in error.value.hint


def test_sequence_shows_every_segment_its_loss_and_why_it_came_again(run: DrawnRun) -> None:
    made = figure("time-sequence", [run], flow=(1,))
    (axes,) = made.axes
    (strokes,) = (found for found in axes.collections if isinstance(found, LineCollection))
    ends = np.array([path.vertices for path in strokes.get_paths()])
    data = ends[ends[:, 1, 1] > ends[:, 0, 1]]
    assert len(data) == 40
    np.testing.assert_allclose(data[0], [[1.0, 0.0], [1.0, 0.96]])
    marked = {
        line.get_marker(): line.get_xydata()
        for line in axes.lines
        if line.get_linestyle() == "None" and line.get_marker() != ","
    }
    middle = 39.5 * PAYLOAD / 1e3
    np.testing.assert_allclose(marked["x"], [[1.0, middle]])
    np.testing.assert_allclose(marked[EVENTS["rto"][1]["marker"]], [[2.3, middle]])
    (acked,) = (line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert acked.get_ydata()[-1] == pytest.approx(40 * PAYLOAD / 1e3)
    said = texts(made)
    assert "timeout: 1" in said
    assert "lost at the bottleneck: 1" in said
    assert "n = 42 segments" in said  # the SYN, 40 of data, one of them again


def test_sequence_is_by_default_of_the_flow_with_most_timeouts(run: DrawnRun) -> None:
    assert "Segments of flow 1 over time" in texts(figure("time-sequence", [run]))


def test_sequence_of_a_time_has_what_happened_in_it(run: DrawnRun) -> None:
    made = figure("time-sequence", [run], flow=(1,), time_s=(2.0, 2.4))
    said = texts(made)
    assert "timeout: 1" in said
    assert "lost" not in said
    assert made.axes[0].get_xlim() == (2.0, 2.4)
    with pytest.raises(LabError, match=r"flow 1 sent nothing from 2\.4 to 2\.6 s") as error:
        figure("time-sequence", [run], flow=(1,), time_s=(2.4, 2.6))
    assert "--time" in error.value.hint


def test_sequence_without_captures_says_how_to_keep_them(run: DrawnRun) -> None:
    for path in run.files.pcap.iterdir():
        path.unlink()
    with pytest.raises(TraceError, match="needs captures") as error:
        figure("time-sequence", [run])
    assert "--keep-pcaps" in error.value.hint


@pytest.mark.parametrize(
    ("runs", "flow", "message"),
    [
        (2, (0,), "is of one run or capture, not of 2"),
        (1, (0, 1), "is of one flow"),
        (1, (5,), "the run has flows 0 to 1"),
    ],
)
def test_sequence_is_of_one_flow_of_one_run(
    run: DrawnRun, runs: int, flow: tuple[int, ...], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        figure("time-sequence", [of_seed(run, seed) for seed in range(runs)], flow=flow)


def test_flow_that_never_came_up_sent_nothing(run: DrawnRun) -> None:
    manifest = json.loads(run.files.manifest.read_text())
    manifest["expect"]["source_port"] = 30000
    run.files.manifest.write_text(json.dumps(manifest))
    with pytest.raises(LabError, match="flow 0 sent nothing from 0 to 3 s"):
        figure("time-sequence", [run], flow=(0,))


@pytest.mark.parametrize("name", ["timeseries", "time-sequence"])
def test_figures_over_time_have_the_same_bytes_twice(run: DrawnRun, name: str) -> None:
    kind = kind_named(name, Wanted())
    once = draw(kind, [run], Wanted(), ("svg", "png"))
    assert draw(kind, [run], Wanted(), ("svg", "png")) == once

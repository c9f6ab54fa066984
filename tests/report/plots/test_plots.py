"""What the figures show: the numbers behind their marks, not their pixels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Ellipse, StepPatch
from plot_runs import TINY, drawn, shipped, tiny, usual

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.series import write_arrays
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.plots import kinds
from tcpf_lab.report.plots.kinds import KINDS, Wanted, draw, kind_named, metric_named
from tcpf_lab.report.plots.parameter import scale_of
from tcpf_lab.report.plots.runs import DrawnRun, grouped, panelled, read_run, varying
from tcpf_lab.report.section import SUFFIXES
from tcpf_lab.report.style import CASES, DISTINCT, OTHER_METRICS, case_styles, house_style
from tcpf_lab.results.layout import RunFiles, write_json
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.sweep import Run, expand

#: Kinds that are made of the numbers of whole runs alone.
OF_SERIES = ("timeseries", "groups", "delay-cdf", "cwnd")
OF_NUMBERS = [name for name, kind in KINDS.items() if not kind.captures and name not in OF_SERIES]


def figure(name: str, runs: Sequence[DrawnRun], **wanted: Any) -> Figure:
    asked = Wanted(**wanted)
    with house_style():
        return kinds._drawing(kind_named(name, asked))(runs, asked)


def lines(figure: Figure, panel: int = 0, points: int = 2) -> list[np.ndarray]:
    """The courses of a panel's lines with at least so many points, without those of markers."""
    found = [line for line in figure.axes[panel].lines if line.get_linestyle() != "None"]
    return [line.get_xydata() for line in found if len(line.get_xdata()) >= points]


def texts(figure: Figure) -> str:
    """Everything that is written on a figure, words and numbers with common spaces."""
    figure.draw_without_rendering()
    found = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    return "\n".join(found).replace("\u00a0", " ")


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_every_kind_gives_the_same_bytes_twice(name: str) -> None:
    runs = tiny()
    formats = SUFFIXES if name == "cdf" else ("svg",)
    once = draw(KINDS[name], runs, Wanted(), formats)
    with mpl.rc_context({"font.size": 31}):
        assert draw(KINDS[name], runs, Wanted(), formats) == once
    assert b"<svg" in once["svg"]
    assert b"<dc:date>" not in once["svg"]
    if name == "cdf":
        assert once["png"].startswith(b"\x89PNG")
        assert once["pdf"].startswith(b"%PDF")
        assert b"CreationDate" not in once["pdf"]
    changed = tiny(
        found=lambda run: ([7.0 + run.seed] * run.flows, usual(run)[1] | {"timeouts": 5})
    )
    assert draw(KINDS[name], changed, Wanted(), ("svg",))["svg"] != once["svg"]


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_every_figure_says_n_and_its_conditions(name: str) -> None:
    said = texts(figure(name, tiny()))
    assert "Tiny. " in said
    assert "n = 3 runs per " in said
    assert "4 s after 1 s of warm-up" in said.replace("\n", " ")
    assert "1 Mbit/s" in said


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_nothing_is_cut_off_at_the_border(name: str) -> None:
    text = TINY.replace("First", "F" * 60).replace("title: Tiny", f"title: {'very long ' * 19}")
    png = draw(KINDS[name], tiny(text=text), Wanted(), ("png",))["png"]
    picture = np.rint(imread(io.BytesIO(png))[..., :3] * 255).astype(int)
    edges = [picture[0], picture[-1], picture[:, 0], picture[:, -1]]
    assert all((edge == 255).all() for edge in edges)


@pytest.mark.parametrize("name", [name for name in OF_NUMBERS if name != "parameter"])
def test_a_single_run_can_be_drawn(name: str) -> None:
    said = texts(figure(name, tiny(case="First", flows="2", seed="1")))
    assert "n = 1 run," in said.replace("\n", " ")


def test_invalid_runs_that_are_included_are_told_of() -> None:
    run = expand(parse(TINY, "tiny.yaml"))[0]
    assert "INVALID RUNS INCLUDED" in texts(figure("cdf", [drawn(run, valid=False)]))
    assert "INVALID" not in texts(figure("cdf", [drawn(run)]))


def test_cdf_rises_by_one_flow_at_a_time() -> None:
    drawn_lines = lines(figure("cdf", tiny(case="First", flows="4", seed="1")))
    np.testing.assert_allclose(
        drawn_lines[0], [[1000, 0], [1000, 0.25], [2000, 0.5], [3000, 0.75], [4000, 1]]
    )


def test_cdf_takes_the_flows_of_all_seeds_together_a_panel_per_number_of_flows() -> None:
    made = figure("cdf", tiny())
    assert len(made.axes) == 2
    assert [len(line) for line in lines(made, 0)] == [1 + 2 * 3] * 2
    assert [len(line) for line in lines(made, 1)] == [1 + 4 * 3] * 2
    assert "2 flows" in texts(made)
    assert made.axes[0].get_xlim() == made.axes[1].get_xlim()
    free = figure("cdf", tiny(), scale="free")
    assert free.axes[0].get_xlim() != free.axes[1].get_xlim()


def test_box_has_the_quartiles_of_the_runs_and_every_run_as_a_dot() -> None:
    text = TINY.replace("seed: 1..3", "seed: 1..9")
    made = figure("box", tiny(text=text, flows="2"), metric=metric_named("timeouts"))
    values = 10.0 * np.arange(1, 10) + 2
    (axes,) = made.axes
    (box, _) = axes.patches
    low, high = np.percentile(values, [25, 75])
    corners = box.get_path().vertices[:, 1]
    assert (corners.min(), corners.max()) == (low, high)
    courses = [line.get_ydata() for line in axes.lines]
    assert any(np.array_equal(course, [np.median(values)] * 2) for course in courses)
    assert any(np.array_equal(course, values) for course in courses)
    assert "quartiles" in texts(made)


def test_fewer_than_five_runs_are_dots_without_a_box() -> None:
    made = figure("box", tiny(flows="2"))
    assert list(made.axes[0].patches) == []
    assert "quartiles" not in texts(made)


def test_histogram_is_of_shares_of_the_runs_own_mean() -> None:
    """With twice the goodput in another run, the shares are the same."""

    def found(run: Run) -> tuple[list[float], dict[str, float]]:
        return [run.seed * value for value in (1000.0, 1000.0, 1000.0, 3000.0)], {}

    made = figure("histogram", tiny(case="First", flows="4", found=found))
    (axes,) = made.axes
    (steps,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    heights, edges, _ = steps.get_data()
    assert heights.sum() == pytest.approx(1.0)
    middle = (edges[:-1] + edges[1:]) / 2
    inside = [np.searchsorted(edges, share) - 1 for share in (2 / 3, 2.0)]
    assert heights[inside] == pytest.approx([0.75, 0.25])
    assert np.any(np.isclose(middle, 1.0)), "the fair share is in the middle of a class"
    assert "First: 12 flows, CoV 0.577" in texts(made)


def test_histogram_of_flows_that_got_nothing_is_refused() -> None:
    with pytest.raises(LabError, match="no flow has goodput") as caught:
        figure("histogram", tiny(found=lambda run: ([0.0] * run.flows, {})))
    assert "--seed" in caught.value.hint


def test_throughput_and_delay_are_means_with_an_ellipse_of_one_standard_deviation() -> None:
    made = figure("throughput-delay", tiny(case="First", flows="2"))
    (axes,) = made.axes
    delays = np.array([21.0, 24.0, 29.0])
    assert axes.lines[-1].get_xydata()[0] == pytest.approx([delays.mean(), 0.024])
    (ellipse,) = (patch for patch in axes.patches if isinstance(patch, Ellipse))
    assert max(ellipse.width, ellipse.height) == pytest.approx(2 * delays.std(ddof=1))
    assert min(ellipse.width, ellipse.height) == pytest.approx(0, abs=1e-6)
    left, right = axes.get_xlim()
    assert left > right, "less delay is to the right"
    assert "reversed: less delay is to the right" in texts(made)
    assert "one way" in texts(made)


def test_the_95th_percentile_of_delay_is_drawn_on_request() -> None:
    made = figure("throughput-delay", tiny(case="First", flows="2", seed="1"), delay="p95")
    assert made.axes[0].lines[-1].get_xdata() == pytest.approx([42.0])
    assert "95th percentile of queueing delay" in texts(made)


def test_two_runs_have_no_ellipse() -> None:
    made = figure("throughput-delay", tiny(case="First", flows="2", seed="1,2"))
    assert list(made.axes[0].patches) == []


def test_panels_of_throughput_and_delay_have_the_same_axes_and_both_are_reversed() -> None:
    for scale in ("fixed", "free"):
        made = figure("throughput-delay", tiny(), scale=scale)
        limits = [axes.get_xlim() for axes in made.axes]
        assert all(left > right for left, right in limits)
        assert (limits[0] == limits[1]) is (scale == "fixed")


def with_groups(runs: Sequence[DrawnRun]) -> list[DrawnRun]:
    """Runs of two groups upward and a ping, whose numbers grow with the seed."""
    statistics = ("mean", "p50", "p95", "p99")

    def found(run: DrawnRun) -> dict[str, Any]:
        delays = [dict.fromkeys(statistics, 0.001 * (k + run.seed)) for k in (10, 20)]
        own = [{"name": name, "flows": 1, "throughput_bytes_per_s": 125_000.0 * run.seed,
                "queueing_delay_s": delay}
               for name, delay in zip(("cubic", "bbr"), delays, strict=True)]  # fmt: skip
        load = {f"{one}_s": 0.1 + 0.001 * run.seed for one in statistics}
        probe = {"name": "ping", "kind": "icmp", "load": load}
        return {"groups": own, "queues": [{"queueing_delay_s": delays[0]}], "probes": [probe]}

    return [replace(run, found=run.found | found(run)) for run in runs]


def test_a_group_is_a_point_and_a_probe_is_the_delay_on_request() -> None:
    runs = with_groups(tiny(flows="2"))
    by_group = figure("throughput-delay", runs, by="group", delay="p99")
    means = [line.get_xydata()[0] for line in by_group.axes[0].lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose(means, [[12, 2], [22, 2]] * 2)
    marks = [line for line in by_group.axes[0].lines if len(line.get_xdata()) == 1]
    colours, markers = ([getattr(m, f"get_{n}")() for m in marks]
                        for n in ("markerfacecolor", "marker"))  # fmt: skip
    assert colours[0] == colours[1] != colours[2], "the colour is the case's"
    assert markers[:2] == markers[2:], "the marker is the group's"
    assert "First: cubic" in texts(by_group)
    by_probe = figure("throughput-delay", runs, probe="ping", delay="p50")
    assert by_probe.axes[0].lines[-1].get_xdata() == pytest.approx([102.0])
    assert "Median round-trip time of ping (ms)" in texts(by_probe)
    with pytest.raises(RequestError, match="no probe 'pong'; it has ping"):
        figure("throughput-delay", runs, probe="pong")
    with pytest.raises(LabError, match="no groups of flows"):
        figure("throughput-delay", tiny(), by="group")
    with pytest.raises(RequestError, match="have mean and p95, not p50"):
        figure("throughput-delay", tiny(), delay="p50")


def test_delays_that_are_far_apart_have_a_logarithmic_axis() -> None:
    def found(run: Run) -> tuple[Sequence[float], dict[str, float]]:
        far = 20.0 if run.case_name == "Second" else 1.0
        return [1000.0] * run.flows, {"queueing_delay_mean_s": far * (0.01 + run.seed / 1e3)}

    made = figure("throughput-delay", tiny(found=found, flows="2"))
    (axes,) = made.axes
    assert axes.get_xscale() == "log"
    left, right = axes.get_xlim()
    assert left > right


def test_the_distribution_of_a_probe_is_of_what_it_sends_under_load(tmp_path: Path) -> None:
    sent = np.arange(0, 5, 0.1)
    took = np.where(sent < 1, 9.0, np.where(sent < 4, 0.05, 7.0))
    runs = []
    for run in with_groups(tiny(case="First", flows="2")):
        files = RunFiles(tmp_path / str(run.seed))
        files.root.mkdir()
        own = run.found | {"window_s": [1.0, 5.0]}
        write_json(files.metrics, own)
        write_arrays(files.probes, {"ping_time_s": sent, "ping_took_s": took})
        runs.append(replace(run, files=files, found=own))
    made = figure("delay-cdf", runs, probe="ping")
    assert made.axes[0].lines[0].get_xdata().tolist() == [50.0] * 101
    assert "First, 2 flows, n = 3 runs" in texts(made)


def test_parameter_is_drawn_with_mean_and_confidence_interval() -> None:
    made = figure("parameter", tiny("tcp.rto_min=[200 ms, 400 ms, 1 s]", case="First", flows="2"))
    (axes,) = made.axes
    (course,) = lines(made)
    mean, half = mean_ci([12.0, 22.0, 32.0])
    np.testing.assert_allclose(course, [[0.2, mean], [0.4, mean], [1.0, mean]])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((max(mean - half, 0), mean + half))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["200 ms", "400 ms", "1 s"]
    assert axes.get_xlabel() == "tcp.rto_min"


def test_point_of_a_single_run_has_no_band() -> None:
    """A band that closes there would say that nothing scatters."""
    runs = tiny("tcp.rto_min=[200 ms, 400 ms, 600 ms]", case="First", flows="2")
    few = [r for r in runs if r.seed == 1 or r.settings["tcp.rto_min"] != "600 ms"]
    (axes,) = figure("parameter", few).axes
    places = axes.collections[0].get_paths()[0].vertices[:, 0]
    assert (places.min(), places.max()) == pytest.approx((0.2, 0.4))
    assert "n = 1 to 3 runs per point" in texts(axes.get_figure(root=True))


def test_runs_without_the_parameter_are_not_drawn() -> None:
    settings = ["cases.First.queue.limit=[40 kB, 50 kB]", "tcp.rto_min=[200 ms, 400 ms]"]
    runs = tiny(*settings, flows="2", case="First")
    plain = tiny(flows="2", case="First")
    assert "First, queue.limit=60 kB" not in texts(
        figure("parameter", [*runs, *plain], parameter="tcp.rto_min")
    )
    with pytest.raises(RequestError, match="has one value in all these runs, 200 ms"):
        figure("parameter", [*tiny("tcp.rto_min=200 ms"), *tiny()], parameter="tcp.rto_min")


def test_parameter_that_is_true_or_false_is_written_as_in_a_file() -> None:
    made = figure("parameter", tiny("tcp.sack=[true, false]", case="First", flows="2"))
    assert [label.get_text() for label in made.axes[0].get_xticklabels()] == ["true", "false"]


def test_values_that_are_near_each_other_are_not_written_over_each_other() -> None:
    key = "topology.chain.delay"
    near = scale_of(key, ["200 ms", "205 ms", "1 s", "1.5 s"])
    assert near.labels() == ["200 ms", "1 s", "1.5 s"]
    assert scale_of(key, [f"{size} kB" for size in range(100, 800, 100)]).labels()[-1] == "700 kB"
    assert len(scale_of(key, [str(flows) for flows in range(1, 1001)]).labels()) <= 12
    assert scale_of(key, ["5"]).labels() == ["5"]
    assert scale_of("kernel", ["7.10", "7.9", "7.1"]).labels() == ["7.10", "7.9", "7.1"]


def test_number_of_flows_is_a_parameter() -> None:
    made = figure("parameter", tiny())
    assert [line[:, 0].tolist() for line in lines(made)] == [[2.0, 4.0]] * 2
    assert made.axes[0].get_xlabel() == "number of flows"


@pytest.mark.parametrize("key", ["queue.limit", "cases.*.queue.limit"])
def test_lines_differ_in_what_is_not_the_parameter(key: str) -> None:
    runs = tiny("queue.limit=[40 kB, 50 kB]", case="First")
    made = figure("parameter", runs, parameter=key)
    said = texts(made)
    assert "First, 2 flows" in said
    assert "First, 4 flows" in said
    assert [line[:, 0].tolist() for line in lines(made)] == [[40e3, 50e3]] * 2
    other = texts(figure("parameter", runs, parameter="flows"))
    assert "First, queue.limit=40 kB" in other


def test_parameter_that_is_a_word_is_drawn_in_its_order() -> None:
    text = TINY.replace("cases:", "cases:\n  Rio: {queue: {kind: rio, limit: 60 kB, in_min: 10 kB, "
                        "in_max: 30 kB, in_probability: 0.1, out_min: 5 kB, out_max: 20 kB, "
                        "out_probability: 0.2}}")  # fmt: skip
    made = figure("parameter", tiny("queue.mode=[decoupled, coupled]", text=text, case="Rio",
                                    flows="2"))  # fmt: skip
    ticks = [label.get_text() for label in made.axes[0].get_xticklabels()]
    assert sorted(ticks) == ["coupled", "decoupled"]


def test_wide_parameter_is_drawn_on_a_logarithmic_axis() -> None:
    runs = tiny("tcp.rto_min=[200 ms, 1 s, 10 s]", case="First", flows="2")
    assert figure("parameter", runs).axes[0].get_xscale() == "log"
    runs = tiny("tcp.rto_min=[200 ms, 400 ms]", case="First", flows="2")
    assert figure("parameter", runs).axes[0].get_xscale() == "linear"


def test_ambiguous_parameter_is_asked_for() -> None:
    with pytest.raises(
        RequestError, match=r"several parameters differ: flows, queue\.limit"
    ) as error:
        figure("parameter", tiny("queue.limit=[40 kB, 50 kB]"))
    assert "--x flows" in error.value.hint


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("tcp.sack", "has one value in all these runs, true", "what differs: flows"),
        ("queue.limit", "differs between cases only", "what differs: flows"),
        ("flow", "unknown parameter; allowed: flows. Did you mean 'flows'", ""),
    ],
)
def test_parameter_that_does_not_vary_is_refused(key: str, message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=message) as error:
        figure("parameter", tiny(), parameter=key)
    assert error.value.hint == hint


def test_without_anything_that_varies_there_is_no_parameter() -> None:
    with pytest.raises(RequestError, match="differ in case and seed only") as error:
        figure("parameter", tiny(flows="2", case="First"))
    assert "--set" in error.value.hint


def test_bars_are_means_with_the_published_values() -> None:
    made = figure("bars", shipped("configA.yaml", flows="50", case="TCPF+FRIO", seed="1,2,3"))
    fill = made.axes[0].patches[0]
    assert fill.get_height() == pytest.approx(70.0)  # 10, 20, 30 and 50 flows
    assert "published" in texts(made)


def test_bars_of_a_sweep_are_not_held_against_published_values() -> None:
    text = (Path(__file__).parents[3] / "experiments" / "configA.yaml").read_text()
    made = figure(
        "bars", tiny("tcp.rto_min=[200 ms, 400 ms]", text=text, case="TB+RIO", flows="50")
    )
    said = texts(made)
    assert "TB+RIO, tcp.rto_min=200 ms" in said
    assert "published" not in said


def test_bars_of_several_experiments_are_refused() -> None:
    runs = [*tiny(), *tiny(text=TINY.replace("name: tiny", "name: other"))]
    with pytest.raises(RequestError, match="bars are of one experiment, these runs are of 2"):
        figure("bars", runs)


def test_experiments_have_panels_of_their_own() -> None:
    runs = [*tiny(flows="2"), *tiny(text=TINY.replace("name: tiny", "name: other"), flows="2")]
    assert [panel.label for panel in panelled(runs, 4)] == ["tiny, 2 flows", "other, 2 flows"]
    assert "2 flows" not in texts(figure("cdf", tiny(flows="2"))).split("\n")
    with pytest.raises(RequestError, match="2 panels are too many to read, 1 at most") as error:
        panelled(runs, 1)
    assert "--only config=" in error.value.hint


def test_more_lines_than_looks_are_refused() -> None:
    cases = "".join(f"  Case {n}: {{queue: {{kind: bfifo, limit: 60 kB}}}}\n" for n in range(14))
    text = TINY[: TINY.index("cases:")] + "cases:\n" + cases + TINY[TINY.index("matrix:") :]
    runs = tiny(text=text, flows="2", seed="1")
    with pytest.raises(RequestError, match="14 lines; a figure distinguishes at most 13") as error:
        figure("cdf", runs)
    assert "--case" in error.value.hint
    labels = [f"Case {n}" for n in range(DISTINCT)]
    looks = [(style.colour, style.hatch) for style in case_styles(labels).values()]
    assert len(set(looks)) == DISTINCT
    assert len({style.marker for style in case_styles(labels).values()}) == DISTINCT


def test_cases_keep_their_looks_in_every_figure() -> None:
    made = figure("throughput-delay", shipped("configA.yaml", flows="50", seed="1"))
    fills = [line.get_markerfacecolor() for line in made.axes[0].lines]
    assert fills == [style.colour for style in CASES.values()]


def test_a_metric_that_a_run_has_not_got_is_named_with_it() -> None:
    with pytest.raises(LabError, match="has no utilisation") as error:
        figure("box", tiny(flows="2"), metric=metric_named("utilisation"))
    assert error.value.where.endswith("metrics.json")


def test_every_other_metric_is_one_of_a_run() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, style in OTHER_METRICS.items():
        assert f"`{name}`" in documented
        assert style.axis


def test_unknown_words_are_answered_with_the_known_ones() -> None:
    with pytest.raises(RequestError, match="Did you mean 'goodput_cov'"):
        metric_named("goodput_kov")
    with pytest.raises(RequestError, match="Did you mean 'timeseries'"):
        kind_named("time-series", Wanted())


@pytest.mark.parametrize(
    ("name", "wanted", "message", "hint"),
    [
        (
            "cdf",
            {"metric": metric_named("timeouts")},
            "--metric: means nothing to cdf",
            "bars, box",
        ),
        ("box", {"flow": (0,)}, "--flow: means nothing to box", "time-sequence, timeseries"),
        ("bars", {"parameter": "flows"}, "--x: means nothing to bars", "it is for parameter"),
        ("box", {"time_s": (0.0, 1.0)}, "--time: means nothing to box", "time-sequence"),
    ],
)
def test_option_that_means_nothing_to_a_kind_is_refused(
    name: str, wanted: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(RequestError) as error:
        kind_named(name, Wanted(**wanted))
    assert message in str(error.value)
    assert hint in error.value.hint


def test_groups_differ_in_more_than_the_seed() -> None:
    groups = grouped(tiny("tcp.rto_min=[200 ms, 400 ms]", flows="2", case="First"))
    assert [len(group.runs) for group in groups] == [3, 3]
    assert [group.label for group in groups] == [
        "First, tcp.rto_min=200 ms",
        "First, tcp.rto_min=400 ms",
    ]


def test_settings_that_only_some_have_differ() -> None:
    assert varying([{"a": "1"}, {"a": "1", "b": "2"}]) == ["b"]
    assert varying([{"a": "1"}]) == []


def test_runs_of_two_testbeds_are_not_taken_for_seeds_of_one() -> None:
    runs = [replace(run, testbed=name) for name in ("uml", "vm") for run in tiny(flows="2")]
    labels = [group.label for group in grouped(runs)]
    assert labels[0] == "First, testbed=uml"
    assert len(labels) == 4
    assert {len(group.runs) for group in grouped(runs)} == {3}
    made = figure("parameter", runs, metric=metric_named("timeouts"))
    assert [label.get_text() for label in made.axes[0].get_xticklabels()] == ["uml", "vm"]


VALID = {"valid": True, "reasons": [], "checks": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 0}, "not metrics of format 2"),
        ([], "not metrics"),
        ({"format": 2}, "lacks metr"),
        ({"format": 2, "metrics": {}, "per_flow": [], "validity": {}}, "damaged: validity"),
        ({"format": 2, "metrics": {}, "per_flow": [{"flow": "0"}]}, "lacks validity"),
        (
            {"format": 2, "metrics": {"timeouts": "3"}, "per_flow": [], "validity": VALID},
            "damaged: m",
        ),
        ({"format": 2, "metrics": {}, "per_flow": [], "validity": VALID}, "lacks testbed"),
    ],
)
def test_metrics_of_another_kind_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    files = RunFiles(tmp_path)
    write_json(files.metrics, content)
    write_json(files.manifest, {})
    with pytest.raises(RequestError, match=message):
        read_run(files, tiny()[0].experiment)

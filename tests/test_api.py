"""``tcpf_lab.load``: the frames say what the files of the runs say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_maker import make_runs

import tcpf_lab
from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.definitions import largest_backlog, mean_backlog
from tcpf_lab.report.export.columns import KEY, LAYOUTS, TABLES
from tcpf_lab.results import checksums
from tcpf_lab.results.layout import RunFiles, read_json, write_json
from tcpf_lab.spec.load import apply_overrides, load

RECORDED = Path(__file__).parent / "data" / "recorded-run"
REFERENCE = Path(tcpf_lab.__file__).parent.parent / "results" / "reference"
CASE = "NoMark+RED"


@pytest.fixture
def spec(made, fake, tmp_path, monkeypatch):
    """Return an experiment whose runs are in ./results."""
    shutil.copytree(made, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return RECORDED / "experiment.yaml"


@pytest.fixture
def results(spec):
    return tcpf_lab.load(spec, testbed="fake")


@pytest.fixture
def run(results):
    return results.run(seed=1)


def told(run: tcpf_lab.Run, name: str = "metrics.json"):
    return json.loads((run.files.root / name).read_text())


def fault(result: Path, change) -> None:
    """Change a run's metrics.json, as an analysis that found something else would."""
    run = RunFiles(result)
    content = read_json(run.metrics)
    change(content)
    write_json(run.metrics, content)
    checksums.renew(run)


def test_importing_the_package_loads_none_of_it():
    code = "import sys, tcpf_lab; assert 'load' in dir(tcpf_lab); print(*sys.modules)"
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "numpy", "matplotlib", "tcpf_lab.run.api"} & set(reply.stdout.split())


def test_unknown_names_of_the_package_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        tcpf_lab.lode  # noqa: B018


def test_runs_have_every_number_of_their_metrics(results):
    table = results.runs
    assert list(table["seed"]) == [1, 2, 3]
    assert len(results) == 3
    for run, row in zip(results, table.to_dict("records"), strict=True):
        assert row["run"] == run.id
        for name, value in told(run)["metrics"].items():
            assert row[name] == value or (value is None and pd.isna(row[name])), name
        assert row["valid"] == run.valid
        assert (row["window_start_s"], row["window_end_s"]) == run.window


def test_cells_have_the_means_of_the_table(results):
    table = results.runs
    cells = results.cells.set_index("metric")
    assert cells.loc["timeouts", "mean"] == table["timeouts"].mean()
    assert cells.loc["loss_percent", "unit"] == "%"
    assert list(cells["used"].unique()) == [3]


def test_flows_have_a_row_per_flow_of_each_run(results):
    table = results.flows
    assert len(table) == 9
    mean = table.groupby("run")["goodput_bytes_per_s"].mean()
    runs = results.runs.set_index("run")["goodput_bytes_per_s"]
    pd.testing.assert_series_equal(mean, runs, check_names=False)
    counted = table.groupby("run")["kernel_total_rto"].sum()
    assert list(counted) == list(results.runs["timeouts_kernel"])


def test_every_frame_has_the_columns_of_the_dictionary_and_their_units(results, run):
    exported = ("runs", "cells", "flows", "dscp", "checks", "groups", "probes", "harm")
    tables = {name: getattr(results, name) for name in exported}
    tables |= {"left_out": results.left_out, "published": results.published}
    frames = {
        name: getattr(run, name)()
        for name in ("flow_series", "queue_series", "retransmissions", "bottleneck", "backlog")
    }
    frames["packets"] = run.packets("S")
    captures = ("capture", "events", "device", "calibration")
    for layout in (known for name, known in LAYOUTS.items() if not name.startswith(captures)):
        if layout.name == "claims":  # `tiny` has none: see the test of a reproduction
            continue
        table = {**tables, **frames}[layout.name]
        assert list(table.columns) == layout.names
        assert table.attrs["units"] == layout.units


def test_tables_of_one_run_leave_out_what_says_which_run(run):
    own = {"flows": run.flows, "dscp": run.dscp, "checks": run.checks}
    for layout in TABLES:
        if layout.name in own:
            assert list(own[layout.name].columns) == layout.names[len(KEY) :]
            assert len(own[layout.name])


def test_series_add_up_to_the_metrics(run):
    start, end = run.window
    series = run.flow_series()
    inside = series[series["time_s"].between(start, end, inclusive="left")]
    assert inside["timeouts"].sum() == run.metrics["timeouts"]
    assert inside["retransmissions"].sum() == run.metrics["retransmissions"]
    goodput = inside.groupby("flow")["goodput_bytes_per_s"].mean()
    # A segment of 960 bytes may be acknowledged at the very instant at which a second ends.
    np.testing.assert_allclose(
        goodput, run.flows["goodput_bytes_per_s"], atol=2 * 960 / (end - start)
    )
    queue = run.queue_series()
    inside = queue[queue["time_s"].between(start, end - 1e-6)]
    assert inside["backlog_mean_bytes"].mean() == pytest.approx(run.metrics["backlog_mean_bytes"])


def test_retransmissions_are_those_that_were_counted(run):
    start, end = run.window
    again = run.retransmissions()
    inside = again[again["time_s"].between(start, end, inclusive="left")]
    counts = inside["retransmission"].value_counts()
    assert counts["rto"] == run.metrics["timeouts"]
    assert counts["fast"] == run.metrics["fast_packets"]
    assert counts["sack_recovery"] == run.metrics["sack_recovery_packets"]
    per_flow = inside.groupby("flow").size().reindex(run.flows["flow"], fill_value=0)
    assert list(per_flow) == list(run.flows["retransmissions"])


def test_packets_count_from_the_syn_of_their_flow(run):
    packets = run.packets("S")
    assert set(packets["flow"].dropna()) == {0, 1, 2}
    sent, back = packets[packets["forward"]], packets[~packets["forward"]]
    assert (sent.groupby("flow")["seq"].min() == 0).all()
    data = sent[sent["payload_bytes"] > 0]
    assert (data.groupby("flow")["seq"].min() == 1).all()
    # What is acknowledged never exceeds what was sent.
    most = (data["seq"] + data["payload_bytes"]).groupby(data["flow"]).max()
    acked = back.groupby("flow")["ack"].max()
    assert (acked <= most + 1).all()
    assert (acked.to_numpy() - 1 >= run.flows["kernel_bytes_acked"].to_numpy()).all()
    assert (sent[sent["flags"] == 2]["ack"] == 0).all()


def test_the_same_packet_has_the_same_place_in_every_capture(run):
    sender, entering, leaving = (run.packets(name) for name in run.captures)
    place = ["flow", "seq", "payload_bytes"]
    sent = set(map(tuple, sender[sender["forward"]][place].to_numpy().tolist()))
    for table in (entering, leaving):
        assert set(map(tuple, table[place].to_numpy().tolist())) <= sent
        assert table["retransmission"].isna().all()


def test_bottleneck_tells_each_packet_that_was_dropped(run):
    start, end = run.window
    table = run.bottleneck()
    assert (table["delay_s"].isna() == table["lost"]).all()
    judged = table[table["time_s"].between(start, end - 0.58, inclusive="left")]
    loss = 100 * judged.loc[judged["lost"], "ip_bytes"].sum() / judged["ip_bytes"].sum()
    assert loss == pytest.approx(run.metrics["loss_percent"])


def test_backlog_is_that_of_the_metrics(run):
    line = run.backlog()
    times = (line["time_s"] * 1e9).round().astype("int64")
    start, end = (round(1e9 * at) for at in run.window)
    mean = mean_backlog(times, line["backlog_bytes"], start, end)
    assert mean == pytest.approx(run.metrics["backlog_mean_bytes"])
    largest = largest_backlog(times, line["backlog_bytes"], start, end)
    assert largest == run.metrics["backlog_max_bytes"]


def test_a_run_knows_its_parameters_in_base_units(run):
    assert run.queue.kind == "red"
    assert (run.queue.limit, run.queue.max) == (60_000, 15_000)
    assert run.marker.kind == "none"
    assert run.experiment.name == "tiny"
    assert run.captures == ("S", "R1-in", "R1-out")
    assert repr(run) == "Run(nomark+red-flows3-seed1: valid)"


def test_a_directory_gives_the_same_as_the_experiment(results):
    for path in ("results", "results/tiny", "results/tiny/fake"):
        found = tcpf_lab.load(path)
        pd.testing.assert_frame_equal(found.runs, results.runs)
        pd.testing.assert_frame_equal(found.cells, results.cells)
    one = tcpf_lab.load("results/tiny/fake/nomark+red-flows3-seed2")
    assert list(one.runs["seed"]) == [2]
    assert repr(one) == "Results('nomark+red-flows3-seed2', cells=1, runs=1)"


def test_options_are_those_of_the_command_line(spec):
    assert list(tcpf_lab.load(spec, testbed="fake", only=["seed=2,3"]).runs["seed"]) == [2, 3]
    assert list(tcpf_lab.load(spec, testbed="fake", seeds=1).runs["seed"]) == [1]
    assert list(tcpf_lab.load(spec, testbed="fake", only="seed=3").runs["seed"]) == [3]


@pytest.mark.parametrize(
    "given",
    [{"only": "seed=1"}, {"only": ["seed=1"]}, {"seeds": 1}, {"overrides": "tcp.sack=true"}],
)
def test_a_directory_has_the_runs_that_it_has(results, given):
    with pytest.raises(RequestError, match="does not apply to a directory") as refused:
        tcpf_lab.load("results", **given)
    assert next(iter(given)) in refused.value.where


def test_what_is_done_to_a_table_stays_with_it(results):
    table = results.runs
    table["timeouts"] = 0
    table.attrs["units"].clear()
    again = results.runs
    assert again["timeouts"].sum() > 0
    assert again.attrs["units"]["queueing_delay_mean_s"] == "s"


def test_an_axis_of_the_matrix_is_a_column_in_base_units(fake, tmp_path, monkeypatch):
    """The recording has one limit, so that the others' runs are not valid."""
    monkeypatch.chdir(tmp_path)
    settings = ["queue.limit=60kB..100kB:20kB", "matrix.seed=1"]
    path = RECORDED / "experiment.yaml"
    make_runs(Path("results"), fake, apply_overrides(load(path), settings))
    found = tcpf_lab.load("results/tiny", include_invalid=True)
    assert list(found.runs["queue.limit"]) == [60_000, 80_000, 100_000]
    assert list(found.runs["valid"]) == [True, False, False]
    assert found.runs.attrs["units"]["queue.limit"] == "bytes"
    assert found.run(**{"queue.limit": 80e3}).queue.limit == 80_000
    wanted = tcpf_lab.load(path, testbed="fake", overrides=settings, include_invalid=True)
    pd.testing.assert_frame_equal(wanted.runs, found.runs)


def test_what_is_left_out_is_listed_with_its_reasons(results, spec):
    fault(
        next(iter(results)).files.root,
        lambda content: content["validity"].update(
            valid=False, reasons=["all_connected: 1 flow did not come up"]
        ),
    )
    again = tcpf_lab.load(spec, testbed="fake")
    assert list(again.runs["seed"]) == [2, 3]
    left = again.left_out.iloc[0]
    assert (left["state"], left["used"]) == ("invalid", False)
    assert left["reasons"] == "all_connected: 1 flow did not come up"
    every = tcpf_lab.load(spec, testbed="fake", include_invalid=True)
    assert list(every.runs["valid"]) == [False, True, True]
    assert bool(every.left_out.iloc[0]["used"])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "3 runs match no condition"),
        ({"seed": 9}, "0 runs match seed=9"),
        ({"sead": 1}, "unknown column 'sead'"),
    ],
)
def test_run_refuses_what_is_not_exactly_one(results, wanted, message):
    with pytest.raises(RequestError, match=message) as refused:
        results.run(**wanted)
    if "sead" not in wanted:
        assert refused.value.hint == "choose one: seed: 1, 2, 3"


def test_without_captures_it_says_how_to_keep_them(run):
    shutil.rmtree(run.files.pcap)
    with pytest.raises(RequestError, match="captures, which are not stored") as refused:
        run.packets("S")
    assert "--keep-pcaps" in refused.value.hint
    assert run.flow_series()["flow"].nunique() == 3


def test_unknown_captures_are_refused_with_those_there_are(run):
    with pytest.raises(RequestError, match="no capture 'R9'; there are S, R1-in, R1-out"):
        run.packets("R9")


def test_without_any_run_it_says_what_to_type(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match=r"no usable run among 3 \(3 missing\)") as refused:
        tcpf_lab.load(RECORDED / "experiment.yaml", testbed="fake")
    assert refused.value.hint.startswith(f"`tcpf-lab run {RECORDED}/experiment.yaml --testbed fake")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="no run in this directory"):
        tcpf_lab.load("empty")


def test_a_damaged_manifest_is_named(results):
    manifest = RunFiles(next(iter(results)).files.root).manifest
    manifest.write_text('{"config": "tiny"}')
    with pytest.raises(RequestError, match="not a run's manifest: KeyError 'case'"):
        tcpf_lab.load("results")


def test_a_reproduction_gives_its_means():
    found = tcpf_lab.load(REFERENCE)
    assert repr(found) == "Results('reference', cells=56)"
    cell = found.cells.query("config == 'A' and case == 'TB+RIO' and flows == 100")
    loss = cell.set_index("metric").loc["loss_percent"]
    table = pd.read_csv(REFERENCE / "configA" / "table.csv")
    row = table[(table["case"] == "TB+RIO") & (table["flows"] == 100)].iloc[0]
    assert loss["mean"] == row["loss_percent_mean"]
    assert loss["ratio"] == pytest.approx(row["loss_percent_mean"] / row["loss_percent_published"])
    assert len(found.published) == 56 * 4
    for name in ("runs", "claims", "left_out"):
        with pytest.raises(RequestError, match="holds the means of its runs"):
            getattr(found, name)
    assert len(tcpf_lab.load(REFERENCE / "configB").published) == 14 * 4


def test_claims_need_a_published_configuration(results):
    with pytest.raises(LabError, match="found: 1 unpublished"):
        _ = results.claims


def test_colours_are_those_of_the_figures(results):
    assert results.colours == {CASE: results.looks[CASE].colour}

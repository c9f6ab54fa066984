"""Runs without captures, through everything that reads results."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from test_runner import Here, kinds
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import LabError
from tcpf_lab.cli.main import app
from tcpf_lab.metrics import summary
from tcpf_lab.report.style import METRICS
from tcpf_lab.results import checksums
from tcpf_lab.results.layout import ExperimentFiles, RunFiles, read_json, write_json
from tcpf_lab.run.runner import State, run_all, state
from tcpf_lab.spec.load import apply_overrides, dump
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import registry
from tcpf_lab.trace.packet import read_capture

OFF = ["traffic.captures=false", "matrix.seed=1..2"]


@pytest.fixture
def bed(fake, recorded, tmp_path, monkeypatch):
    """Return the fake testbed with a recording that has no captures."""
    testbed = replace(fake, recorded=without_captures(recorded, tmp_path / "recording"))
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: testbed)
    return testbed


@pytest.fixture
def experiment(recorded_experiment):
    return apply_overrides(recorded_experiment, OFF).on("native")


@pytest.fixture
def files(tmp_path):
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def runs(experiment):
    return expand(experiment)


@pytest.fixture
def spec(bed, experiment, files, runs, tmp_path, monkeypatch):
    """Make the runs and return the experiment's file."""
    assert kinds(run_all(runs, bed, files.results, Here())) == dict.fromkeys((1, 2), "finished")
    path = tmp_path / "tiny.yaml"
    path.write_text(dump(experiment))
    monkeypatch.chdir(tmp_path)
    return path


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_run_is_valid_and_tells_what_counters_tell(bed, files, runs):
    (event,) = run_all(runs[:1], bed, files.results, Here())
    assert (event.kind, event.valid, event.detail) == ("finished", True, "")
    done = files.run(runs[0].id)
    assert not done.series.exists()
    assert not done.pcap.exists()
    found = read_json(done.metrics)
    assert found["metrics"]["loss_percent"] is None
    assert found["metrics"]["goodput_bytes_per_s"] > 0
    assert 0.5 < found["metrics"]["utilisation"] < 1.01
    assert "loss_percent" in found["unmeasured"]
    names = {check["name"] for check in found["validity"]["checks"]}
    assert "window_counters" in names
    assert not names & {"captures_complete", "loss_matches_qdisc", "timeouts_match_kernel"}


def test_flows_have_the_goodput_that_the_same_run_has_with_captures(bed, fake, files, runs, made):
    list(run_all(runs[:1], bed, files.results, Here()))
    found = read_json(files.run(runs[0].id).metrics)
    known = read_json(made / "tiny" / "fake" / runs[0].id / "metrics.json")
    for name in ("goodput_bytes_per_s", "timeouts_whole_run", "kernel", "source_port"):
        assert [f[name] for f in found["per_flow"]] == [f[name] for f in known["per_flow"]]
    assert found["per_flow"][0].keys() == known["per_flow"][0].keys()
    assert found["metrics"].keys() == known["metrics"].keys()
    assert set(found["per_flow"][0]["events"].values()) == {None}


def test_wanting_captures_of_a_run_that_is_to_have_none_changes_nothing(bed, files, runs):
    list(run_all(runs, bed, files.results, Here()))
    again = run_all(runs, bed, files.results, Here(), keep_pcaps=True)
    assert kinds(again) == dict.fromkeys((1, 2), "skipped")


def analysed_by_another(done: RunFiles) -> None:
    write_json(done.metrics, {**read_json(done.metrics), "analysis": "another"})
    checksums.renew(done)


def test_other_analysis_is_made_good_without_a_run(bed, files, runs, monkeypatch):
    list(run_all(runs, bed, files.results, Here()))
    done = files.run(runs[0].id)
    before = done.manifest.stat().st_mtime_ns
    analysed_by_another(done)
    assert state(runs[0], files, bed.identity) is State.OUTDATED
    assert kinds(run_all(runs, bed, files.results, Here())) == {1: "analysed", 2: "skipped"}
    assert read_json(done.metrics)["analysis"] == summary.ANALYSIS
    assert done.manifest.stat().st_mtime_ns == before
    assert state(runs[0], files, bed.identity) is State.COMPLETE


def test_counters_that_cannot_be_read_any_more_make_the_run_again(bed, files, runs):
    list(run_all(runs[:1], bed, files.results, Here()))
    done = files.run(runs[0].id)
    analysed_by_another(done)
    (done.stats / "epoch.json").unlink()
    assert kinds(run_all(runs[:1], bed, files.results, Here())) == {1: "finished"}
    assert (done.stats / "epoch.json").exists()


def test_with_captures_another_analysis_still_repeats_the_run(fake, files, recorded_experiment):
    (run, *_) = expand(recorded_experiment)
    list(run_all([run], fake, files.results, Here()))
    done = files.run(run.id)
    analysed_by_another(done)
    assert state(run, files, fake.identity) is State.STALE


def test_another_spec_is_stale_whatever_the_analysis(bed, files, runs, experiment):
    list(run_all(runs[:1], bed, files.results, Here()))
    changed = expand(apply_overrides(experiment, ["traffic.warmup=2 s"]))[0]
    assert state(changed, files, bed.identity) is State.STALE


@pytest.mark.parametrize("missing", ["start", "end"])
def test_missing_reading_is_told_and_costs_no_other_number(bed, files, runs, missing):
    (bed.recorded / "stats" / f"qdisc-window-{missing}-R1.json").unlink()
    (event,) = run_all(runs[:1], bed, files.results, Here())
    assert not event.valid
    assert f"qdisc-window-{missing}-R1.json is not JSON" in event.detail
    found = read_json(files.run(runs[0].id).metrics)["metrics"]
    assert found["utilisation"] is None
    assert found["goodput_bytes_per_s"] > 0


def test_report_has_every_format_and_a_dash_for_what_was_not_measured(spec, files):
    result = call("report", spec, "--testbed", "fake", "--format", "md,csv,html")
    assert result.exit_code == 0, result.output
    table = (files.root / "table.md").read_text()
    (row,) = [line for line in table.splitlines() if line.startswith("| NoMark+RED")]
    assert [cell.strip() for cell in row.split("|")].count("–") == 1
    assert row.endswith(" 2/2 |")
    html = (files.root / "report.html").read_text()
    assert "not measured without captures" in html


def test_tables_for_other_programs_are_written_and_a_file_for_flent_is_not(spec, files):
    result = call("report", spec, "--testbed", "fake", "--format", "csv,parquet,flent")
    assert result.exit_code == 0, (result.output, result.exception)
    assert (files.root / "data" / "runs.parquet").exists()
    assert not list(files.root.glob("flent/*"))


def test_analyze_brings_the_numbers_up_to_date(spec, files, runs):
    done = files.run(runs[0].id)
    before = done.metrics.read_bytes()
    done.metrics.unlink()
    result = call("analyze", files.root)
    assert result.exit_code == 0, result.output
    assert done.metrics.read_bytes() == before


def test_frames_have_what_there_is_and_say_what_there_is_not(spec):
    results = tcpf_lab.load(spec, testbed="fake")
    assert results.runs["loss_percent"].isna().all()
    assert (results.runs["goodput_bytes_per_s"] > 0).all()
    assert results.flows["fast_packets"].isna().all()
    loss = results.cells[results.cells["metric"] == "loss_percent"]
    assert loss["mean"].isna().all()
    assert (loss["used"] == 2).all()
    run = results.run(seed=1)
    assert run.captures == ()
    assert run.dscp.empty
    for told in (run.flow_series, run.queue_series, run.retransmissions, run.bottleneck):
        with pytest.raises(LabError, match="made without captures") as caught:
            told()
        assert "traffic.captures=true" in str(caught.value)


@pytest.mark.parametrize("kind", ["timeseries", "time-sequence", "queue"])
def test_figures_over_time_say_why_there_is_none(spec, kind):
    result = call("plot", kind, spec, "--testbed", "fake", "--seed", "1")
    assert result.exit_code != 0
    assert "made without captures" in str(result.exception)


def test_figures_of_goodput_are_drawn_and_those_of_loss_say_why_not(spec, files):
    drawn = call("plot", "histogram", spec, "--testbed", "fake")
    assert drawn.exit_code == 0, drawn.output
    refused = call("plot", "box", spec, "--testbed", "fake", "--metric", "loss_percent")
    assert refused.exit_code != 0
    assert "was not measured: the run was made without captures" in str(refused.exception)


def test_every_metric_of_the_tables_is_measured_or_named(bed, files, runs):
    list(run_all(runs[:1], bed, files.results, Here()))
    found = read_json(files.run(runs[0].id).metrics)
    for name in METRICS:
        assert (found["metrics"][name] is None) == (name in found["unmeasured"])


# What ``tc`` would have shown at the window's ends of a recorded run, reckoned from captures.

#: Of the recorded experiment, seconds after the epoch.
WINDOW = {"start": 1.0, "end": 5.0}
DEVICE = "R1-R2"


def without_captures(recorded: Path, place: Path) -> Path:
    """Copy a recording as it would be without captures, with the readings at the window's ends."""
    shutil.copytree(recorded, place)
    epoch = json.loads((place / "stats" / "epoch.json").read_text())["epoch_ns"]
    came, left = (
        read_capture(place / "pcap" / f"R1-{side}.pcap.zst").packets for side in ("in", "out")
    )
    shown = json.loads((place / "stats" / "qdisc-R1.json").read_text())
    (root,) = [q for q in shown if q.get("dev") == DEVICE and q.get("root")]
    for label, seconds in WINDOW.items():
        at = epoch + round(1e9 * seconds)
        gone = left["time_ns"] < at
        waiting = min(int((came["time_ns"] < at).sum() - gone.sum()), 5)
        reading = {
            **{name: root[name] for name in ("kind", "handle", "root", "options")},
            "bytes": int(left["wire_length"][gone].sum()),
            "packets": int(gone.sum()),
            "drops": root["drops"] if label == "end" else 0,
            "qlen": waiting,
        }
        path = place / "stats" / f"qdisc-window-{label}-R1.json"
        path.write_text(json.dumps([reading]))
    for path in (place / "pcap").iterdir():
        path.unlink()
    return place

"""What other programs read: CSV, Parquet, and Flent's data files in Flent itself."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from flent import resultset, testenv

import tcpf_lab
from tcpf_lab.metrics.capacity import drain_s
from tcpf_lab.metrics.series import read_series, write_arrays
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.document import write_document
from tcpf_lab.report.export.columns import LAYOUTS, OF_GROUPS, TABLES
from tcpf_lab.report.export.dictionary import generate
from tcpf_lab.report.export.flent import flent_files
from tcpf_lab.report.export.flent_groups import PING, Plotted, of_groups
from tcpf_lab.report.export.glossary import terms
from tcpf_lab.report.export.tidy import base_value, csv_files, parquet_files, tables
from tcpf_lab.report.frames.results import sections_below
from tcpf_lab.results.layout import ExperimentFiles, RunFiles, read_json, write_json
from tcpf_lab.spec.load import parse

#: Without the tables of groups, which these runs have not.
NAMES = [layout.name for layout in TABLES if layout.name not in OF_GROUPS]


@pytest.fixture
def files(made: Path, tmp_path: Path) -> ExperimentFiles:
    shutil.copytree(made, tmp_path / "results")
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def sections(files: ExperimentFiles):
    return sections_below(files.root)


def written(documents) -> dict[str, bytes]:
    return {
        path.name: content.encode() if isinstance(content, str) else content
        for path, content in documents
    }


def test_csv_gives_back_every_number(files, sections) -> None:
    found = written(csv_files(files, tables(sections)))
    assert list(found) == [*(f"{name}.csv" for name in NAMES), "columns.csv"]
    expected = tables(sections)
    for layout in expected.exported:
        table = pd.read_csv(io.BytesIO(found[f"{layout.name}.csv"]), keep_default_na=False)
        assert list(table.columns) == layout.names
        assert len(table) == len(expected.frame(layout.name))
    runs = pd.read_csv(io.BytesIO(found["runs.csv"]))
    for column in ("loss_percent", "goodput_bytes_per_s", "queueing_delay_p95_s", "timeouts"):
        assert list(runs[column]) == list(expected.frame("runs")[column])
    assert b"\r" not in found["runs.csv"]


def test_csv_comes_with_its_dictionary(files, sections) -> None:
    found = written(csv_files(files, tables(sections)))
    text = io.BytesIO(found["columns.csv"])
    dictionary = pd.read_csv(text, keep_default_na=False).set_index(["table", "column"])
    assert dictionary.loc[("runs", "loss_percent"), "unit"] == "%"
    for name in NAMES:
        header = found[f"{name}.csv"].decode().splitlines()[0].split(",")
        assert list(dictionary.loc[name].index) == header


def test_missing_values_are_empty_fields(files) -> None:
    run = next(files.runs())
    metrics = read_json(run.metrics)
    metrics["per_flow"][0]["kernel"] = None
    metrics["metrics"]["queueing_delay_p95_s"] = None
    write_json(run.metrics, metrics)
    found = written(csv_files(files, tables(sections_below(files.root))))
    flows = pd.read_csv(io.BytesIO(found["flows.csv"]), dtype=str, keep_default_na=False)
    assert flows["kernel_rtt_us"][0] == ""
    assert flows["kernel_rtt_us"][1].isdigit()
    assert (flows["iperf3_retransmits"] == "").all()
    runs = pd.read_csv(io.BytesIO(found["runs.csv"]), dtype=str, keep_default_na=False)
    assert runs["queueing_delay_p95_s"][0] == ""


def test_parquet_has_the_same_values_with_units_and_meanings(files, sections) -> None:
    found = written(parquet_files(files, tables(sections)))
    expected = tables(sections)
    assert list(found) == [f"{name}.parquet" for name in NAMES]
    for layout in expected.exported:
        table = pq.read_table(io.BytesIO(found[f"{layout.name}.parquet"]))
        assert table.column_names == layout.names
        wanted = expected.frame(layout.name)
        for column in layout.columns:
            field = table.schema.field(column.name)
            assert field.metadata[b"unit"] == column.unit.encode()
            assert field.metadata[b"meaning"] == column.meaning.encode()
            values = [None if pd.isna(value) else value for value in wanted[column.name]]
            assert table[column.name].to_pylist() == values


@pytest.mark.parametrize("export", [csv_files, parquet_files])
def test_the_same_runs_give_the_same_tables(files, sections, export) -> None:
    once, again = (written(export(files, tables(sections))) for _ in range(2))
    assert once == again


def test_the_same_runs_give_the_same_bytes_for_flent(files, sections) -> None:
    assert written(flent_files(files, sections)) == written(flent_files(files, sections))


def test_texts_of_a_run_cannot_break_a_table(files) -> None:
    run = next(files.runs())
    metrics = read_json(run.metrics)
    hostile = 'a,b "c"\nd;=cmd()'
    metrics["validity"]["checks"][0]["detail"] = hostile
    write_json(run.metrics, metrics)
    sections = sections_below(files.root)
    table = pd.read_csv(io.BytesIO(written(csv_files(files, tables(sections)))["checks.csv"]))
    assert table["detail"][0] == hostile
    found = written(parquet_files(files, tables(sections)))["checks.parquet"]
    assert pq.read_table(io.BytesIO(found))["detail"][0].as_py() == hostile


@pytest.mark.parametrize("break_", ["\r", "\r\n"])
def test_no_line_break_within_a_text_ends_a_row(files, break_: str) -> None:
    run = next(files.runs())
    metrics = read_json(run.metrics)
    metrics["validity"]["checks"][0]["detail"] = f"one{break_}two"
    write_json(run.metrics, metrics)
    found = written(csv_files(files, tables(sections_below(files.root))))["checks.csv"]
    table = pd.read_csv(io.BytesIO(found))
    assert len(table) == sum(len(read_json(one.metrics)["validity"]["checks"])
                             for one in files.runs())  # fmt: skip
    assert table["detail"][0] == "one\ntwo"


@pytest.fixture
def flent_data(files, sections) -> Path:
    for path, content in flent_files(files, sections):
        write_document(path, content)
    return files.flent("tiny-nomark+red-flows3-seed1")


def test_flent_has_the_numbers_of_the_series(files, flent_data) -> None:
    found = resultset.load(str(flent_data))
    series = read_series(files.run("nomark+red-flows3-seed1"))
    seconds = series.acked_bytes.shape[1]
    assert found.x_values == [second + 0.5 for second in range(seconds)]
    for flow in range(3):
        rate = np.array(found.series(f"TCP upload::{flow + 1}"))
        np.testing.assert_allclose(rate * 1e6 / 8, series.acked_bytes[flow])
    total = np.array(found.series("TCP upload sum"))
    np.testing.assert_allclose(total * 1e6 / 8, series.acked_bytes.sum(axis=0))
    assert min(found.series("Ping (ms) ICMP")) >= 100  # the delay of the path
    backlog = [value for _, value in found.raw_series("qdisc_stats_R1", raw_key="backlog_bytes")]
    np.testing.assert_allclose(backlog, series.backlog_mean_bytes)
    assert found.meta("TCPF_LAB:run") == "nomark+red-flows3-seed1"
    assert found.meta("TEST_PARAMETERS")["upload_streams"] == "3"
    assert "No ping was sent" in found.meta("NOTE")


def test_flent_data_are_plain_json_of_flents_version(flent_data) -> None:
    content = json.loads(gzip.decompress(flent_data.read_bytes()))
    assert content["version"] == resultset.FILEFORMAT_VERSION
    columns = {len(values) for values in content["results"].values()}
    assert columns == {len(content["x_values"])}


@pytest.mark.full
@pytest.mark.parametrize("plot", ["totals", "backlog"])
def test_flent_plots_a_run(flent_data: Path, tmp_path: Path, plot: str) -> None:
    picture = tmp_path / f"{plot}.png"
    words = ["-i", str(flent_data), "-p", plot, "-o", str(picture), "--no-title", "--no-legend"]
    reply = subprocess.run(
        [Path(sys.executable).parent / "flent", *words],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert reply.returncode == 0, reply.stderr
    assert "ERROR" not in reply.stderr
    pixels = matplotlib.image.imread(picture)[..., :3]
    coloured = np.ptp(pixels, axis=2) > 0.2  # axes and text are grey: only lines have colours
    assert coloured.sum() > 300


# The generated pages: complete, current, and of one kind.

PAGES = Path(tcpf_lab.__file__).parent.parent / "docs" / "reference"


@pytest.mark.parametrize("name", ["columns.md", "glossary.md", "rules.md"])
def test_page_is_current(name: str, tmp_path: Path) -> None:
    generate(tmp_path)
    made = (tmp_path / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert (PAGES / name).read_text(encoding="utf-8") == made


def test_every_term_has_a_sentence_and_an_anchor_of_its_own() -> None:
    listed = terms().values()
    assert len({term.anchor for term in listed}) == len(listed)
    assert {*Verdict, "valid", "invalid", "stale"} <= terms().keys()
    for term in listed:
        assert term.definition.endswith(".")
        assert re.fullmatch(r"(RFC \d+)?", term.source)
        assert not re.search(r"\|", term.name + term.definition)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_every_column_is_described_once(layout) -> None:
    assert len(set(layout.names)) == len(layout.names)
    for column in layout.columns:
        assert column.meaning
        assert column.source
        assert "|" not in column.meaning + column.source  # it would end an entry of the document
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        for suffix, unit in (("_s", "s"), ("_bytes", "bytes"), ("_percent", "%"), ("_us", "µs")):
            if column.name.endswith(suffix) and not column.name.endswith("_per_s"):
                assert column.unit == unit, column.name


def test_every_number_of_a_run_has_a_column(made: Path) -> None:
    run = next(ExperimentFiles(made, "tiny", "fake").runs())
    found = analyse(run)
    assert set(found["metrics"]) <= set(LAYOUTS["runs"].names)
    flow = found["per_flow"][0]
    names = {*flow, *(f"kernel_{name}" for name in flow["kernel"])} - {"kernel", "events"}
    names |= {f"{name}_packets" for name in flow["events"]} - {"rto_packets", "syn_rto_packets"}
    assert names <= set(LAYOUTS["flows"].names)
    assert set(next(iter(found["by_dscp"].values()))) <= set(LAYOUTS["dscp"].names)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("100 kB", 100_000.0, "bytes"),
        ("10 Mbit", 1e7, "bit/s"),
        ("200 ms", 0.2, "s"),
        ("20", 20.0, ""),
        ("0.005", 0.005, ""),
        ("true", "true", ""),
        ("coupled", "coupled", ""),
    ],
)
def test_settings_are_read_in_base_units(text: str, value: float | str, unit: str) -> None:
    assert base_value(text) == (value, unit)


# Groups of flows and probes, under the names of Flent's own tests.

#: A run of two seconds: flows upward and downward, and probes.
SHAPES = {"rrul_be": (4, 4), "rrul_be_nflows": (3, 2), "tcp_nup": (3, 0), "tcp_ndown": (0, 2)}
GROUPS = """
name: groups
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  groups:
    first: {flows: 1, congestion: bbr}
    up: {flows: 1}
    down: {flows: 1, direction: down}
  probes:
    ping: {kind: icmp, interval: 200 ms}
    far: {kind: icmp, interval: 500 ms}
    call: {kind: udp, interval: 100 ms}
    second: {kind: udp, interval: 100 ms}
    page: {kind: request, response: 1 kB}
cases: {TailDrop: {queue: {kind: bfifo, limit: 100 kB}}}
matrix: {seed: 1}
"""


def plotted(test: str, root: Path) -> Plotted:
    up, down = SHAPES[test]
    groups = [("first", "up", min(up, 1)), ("up", "up", max(up - 1, 0)), ("down", "down", down)]
    first = np.cumsum([0, *(flows for *_, flows in groups)])
    place = {"node": "R1", "device": "R1-R2"}
    experiment = parse(GROUPS, "groups.yaml")
    probes = [{"name": n, "kind": p.kind, "receiver": f"D{n}"}
              for n, p in experiment.traffic.probes.items()]  # fmt: skip
    expect = {
        "bottleneck": place,
        "opposite": {"bottleneck": {"node": "R2", "device": "R2-R1"}},
        "groups": [
            {"name": name, "direction": way, "flows": flows, "first": int(at)}
            for (name, way, flows), at in zip(groups, first, strict=False)
        ],
        "probes": probes,
    }
    files = RunFiles(root)
    bins = np.zeros((2, 20), np.float32)
    write_json(files.metrics, {"probes": probes})
    write_arrays(
        files.groups,
        {
            "bin_s": np.array(0.1),
            "window_s": np.array([0.0, 2.0]),
            "acked_bytes": np.arange(20 * (up + down), dtype=np.uint32).reshape(-1, 20),
            **dict.fromkeys(("delay_mean_s", "delay_max_s", "delay_quantiles_s"), bins),
        },
    )
    sent = np.arange(0, 2, 0.1)
    took = np.where(sent == 1, np.nan, 0.04 + sent / 100)
    write_arrays(
        files.probes,
        {f"{p['name']}_{key}_s": values for p in probes
         for key, values in (("time", sent), ("took", took))},
    )  # fmt: skip
    return of_groups(files, expect, experiment)


@pytest.mark.parametrize("test", SHAPES)
def test_groups_and_probes_have_the_names_of_flents_test(test: str, tmp_path: Path) -> None:
    found = plotted(test, tmp_path)
    assert found.test == test
    env = dict.fromkeys(("LOCAL_BIND", "SEND_SIZE", "HTTP_GETTER_URLLIST", "REMOTE_HOSTS"))
    env |= {"HOST": "D", "HOSTS": ["D"], "IP_VERSION": 4, "STEP_SIZE": 0.2, "DELAY": 5}
    env |= {"LENGTH": 2, "TOTAL_LENGTH": 2, "TEST_PARAMETERS": dict(found.parameters)}
    flents = testenv.TestEnvironment(env)
    wanted = set(flents.execute(Path(testenv.TEST_PATH) / f"{test}.conf")["DATA_SETS"])
    # Round trips of UDP, which no probe measures; containers of series; counters of other tools.
    wanted = {name for name in wanted if "UDP" not in name and name != "VoIP"}
    wanted = {name for name in wanted if not name.startswith(("qdisc", "VoIP::bitrate"))}
    assert wanted <= set(found.results)
    assert {"Ping (ms) ICMP Dfar (extra)", "VoIP::delay", "HTTP latency"} <= wanted
    assert {len(values) for values in found.results.values()} == {found.time_s.size} == {10}
    assert "Left out: probe second" in found.note


def test_series_of_groups_are_their_bytes_and_their_probes(tmp_path: Path) -> None:
    found = plotted("rrul_be_nflows", tmp_path)
    flow = 8e-6 * (0 + 1) / 0.2  # bytes of the first two bins, in 0.2 s
    assert found.results["TCP upload BE::1"][0] == pytest.approx(flow)
    assert found.about["TCP upload BE::1"] == {"GROUP": "first", "CONG_CONTROL": "bbr"}
    totals = found.results["TCP upload sum"] + found.results["TCP download sum"]
    np.testing.assert_allclose(found.results["TCP totals"], totals)
    np.testing.assert_allclose(found.results[PING][:2], [41, 43])
    assert found.results["VoIP::loss"].tolist() == [0] * 5 + [1] + [0] * 4
    assert len(found.raw["VoIP::delay"]) == 19


def test_delay_of_a_link_that_changes_is_the_time_to_drain() -> None:
    place = {"rates": [[0, 1e6], [1, 0], [3, 2e6]]}
    found = drain_s(place, np.array([0.0, 0.5, 0.5, 1.5]), np.array([62_500, 60_000, 125_000, 0]))
    np.testing.assert_allclose(found, [0.5, 0.48, 2.75, 0], atol=0.002)

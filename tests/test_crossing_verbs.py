"""``tcpf-lab crossing`` and `tcpf_lab.crossing`: tables, JSON, files, frames, messages."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli.main import app, main
from tcpf_lab.metrics.crossing import BoxKnown
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.run.analyzing import box_known, nanoseconds


@pytest.fixture
def pair(recorded: Path) -> list[str]:
    return [str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out")]


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, ["crossing", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_json_and_table_say_the_same(pair: list[str]) -> None:
    found = json.loads(invoke(*pair, "--json"))
    shown = invoke(*pair)
    assert f"{found['loss']['packets']}" in shown
    assert f"{found['loss']['loss_percent']:.3f}" in shown
    assert "above the least of all" in shown
    assert "as given" in invoke(*pair, "--offset", "0")


def test_packets_are_written_in_two_formats(pair: list[str], tmp_path: Path) -> None:
    files = [tmp_path / "x.csv", tmp_path / "x.parquet"]
    told = json.loads(invoke(*pair, "--json", "-o", str(files[0]), "-o", str(files[1])))
    assert told["written"] == [str(path) for path in files]
    as_csv, as_parquet = pd.read_csv(files[0]), pd.read_parquet(files[1])
    names = LAYOUTS["crossing_packets"].names
    assert list(as_csv.columns) == list(as_parquet.columns) == names
    assert len(as_csv) == len(as_parquet) == told["packets"]["entered"]
    assert int((as_csv["lost"] & as_csv["judged"]).sum()) == told["packets"]["lost"]
    assert as_csv["departure_ns"].isna().sum() == as_csv["lost"].sum()


def test_frames_have_the_columns_of_the_dictionary_and_their_units(pair: list[str]) -> None:
    found = tcpf_lab.crossing(*pair, bin="100 ms")
    frames = (found.packets, found.flows, found.by_dscp, found.over_time)
    names = ("packets", "flows", "dscp", "time")
    for table, name in zip(frames, names, strict=True):
        layout = LAYOUTS[f"crossing_{name}"]
        assert list(table.columns) == layout.names
        assert table.attrs["units"] == layout.units
    assert found.flows["packets_lost"].sum() == found.described["loss"]["packets_lost"]
    assert "lost=" in repr(found)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--offset", "soon"], "--offset soon: 'soon' is not a duration\n  try: write a number"),
        (["--from", "-1 s"], "--from -1 s"),
        (["--from", "2 s", "--to", "2 s"], "--from 2 s --to 2 s: the time ends before it starts"),
        (["--to", "0"], "--to 0: at least 1 ns"),
        (["--bin", "0 s"], "--bin 0 s: at least 1000 ns"),
        (["--max-delay", "0 s"], "at least 1 ns"),
        (["-o", "packets.xlsx"], "csv, parquet"),
        (["--bin", "1"], "--bin"),
    ],
)
def test_wrong_request_is_a_message(pair: list[str], words: list[str], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        CliRunner().invoke(app, ["crossing", *pair, *words], catch_exceptions=False)


@pytest.mark.parametrize(
    "given",
    [
        {"offset": "--3 s"},
        {"max_delay": "-1 s"},
        {"bin": "500 us s"},
        {"bin": "0"},
        {"start": "3 s", "end": "2 s"},
    ],
)
def test_python_refuses_what_the_command_line_refuses(
    pair: list[str], given: dict[str, str]
) -> None:
    with pytest.raises(RequestError, match="--"):
        tcpf_lab.crossing(*pair, **given)


def test_python_and_the_command_line_say_the_same(pair: list[str]) -> None:
    told = json.loads(invoke(*pair, "--offset", "0", "--from", "2 s", "--to", "4 s", "--json"))
    found = tcpf_lab.crossing(*pair, offset="0", start="2 s", end="4 s").described
    assert {**found, "written": []} == told


def test_packets_outside_of_the_time_are_not_said_to_be_near_an_end(pair: list[str]) -> None:
    words = (*pair, "--offset", "0")
    packets = json.loads(invoke(*words, "--from", "2 s", "--to", "4 s", "--json"))["packets"]
    shown = " ".join(invoke(*words, "--from", "2 s", "--to", "4 s").split())
    assert packets["entered"] == packets["judged"] + packets["outside"]
    assert f"not counted: {packets['outside']} outside of the time asked for" in shown
    assert "too near an end" not in shown
    whole = " ".join(invoke(*words).split())
    assert "too near an end" in whole
    assert "outside of the time" not in whole


def test_standard_input_is_one_capture() -> None:
    with pytest.raises(RequestError, match="read once"):
        CliRunner().invoke(app, ["crossing", "-", "-"], catch_exceptions=False)


def test_times_of_the_command_line() -> None:
    assert nanoseconds("1.5 s", "--to") == 1_500_000_000
    assert nanoseconds("-2 h", "--offset", signed=True) == -7200 * 10**9
    assert nanoseconds("0", "--offset", signed=True) == 0
    assert nanoseconds("+ 3 s", "--offset", signed=True) == 3 * 10**9
    assert box_known() == BoxKnown()
    with pytest.raises(RequestError):
        nanoseconds("-2 h", "--to")


@pytest.mark.parametrize("verb", ["analyze", "crossing", "plot rtt", "plot queue"])
def test_unreadable_capture_is_one_line_and_status_2(
    verb: str,
    pair: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(b"this is no capture of packets")
    files = [pair[0], str(path)] if verb in ("crossing", "plot queue") else [str(path)]
    drawn = ["-o", str(tmp_path / "x.svg")] if verb.startswith("plot") else []
    monkeypatch.setattr("sys.argv", ["tcpf-lab", *verb.split(), *files, *drawn])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: not a pcap capture: it begins with 74 68 69 73")


@pytest.mark.parametrize("columns", ["30", "80"])
def test_numbers_are_whole_on_a_narrow_terminal(
    pair: list[str], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = invoke(*pair)
    assert "…" not in shown
    assert "packets  lost" in shown

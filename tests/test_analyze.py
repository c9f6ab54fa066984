"""`tcpf-lab analyze` and `tcpf_lab.analyze`: any capture, in every form that it can be had in."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pcap_builder import Pcap, conversation, ethernet, ip6, segment, tcp
from rich.console import Console
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import LabError, RequestError, TraceError
from tcpf_lab.cli import console as terminal
from tcpf_lab.cli.main import app
from tcpf_lab.metrics.summary import analyse as analyse_run
from tcpf_lab.report.captures import SHOWN, capture_tables, event_tables
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run import analyzing
from tcpf_lab.run.analyzing import (
    FORMATS,
    PRINTED,
    CaptureRequest,
    analyse_captures,
    choice_of,
    options_of,
)
from tcpf_lab.trace.analysis import KINDS, RULES, Options, analyse

Lab = Callable[..., tuple[int, str, str]]
LOSSY = """
0.0     > SYN
1.0     > SYN
1.2     < SYN-ACK
1.2     > 1:961
1.2     > 961:1921
1.4     < ack 961
1.4     > 1921:2881
2.5     > 961:1921
2.7     < ack 2881
"""
CALM = """
0.0     > SYN
0.2     < SYN-ACK
0.2     > 1:961
0.4     < ack 961
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Three flows: the first and the last lose a segment, the second does not."""
    made = Pcap()
    for port, table in ((20000, LOSSY), (20001, CALM), (20002, LOSSY)):
        conversation(table, sport=port, into=made)
    return made.write(tmp_path / "x.pcap")


@pytest.fixture
def sender(recorded: Path) -> Path:
    return recorded / "pcap" / "S.pcap.zst"


def shown(parts: object, width: int) -> str:
    """What a terminal of that width shows."""
    text = io.StringIO()
    console = Console(file=text, width=width)
    for part in parts:  # type: ignore[attr-defined]
        console.print(part)
    return text.getvalue()


def test_table_has_the_capture_its_kinds_and_its_flows(lab: Lab, capture: Path) -> None:
    status, said, complaint = lab("analyze", capture)
    assert (status, complaint) == (0, "")
    assert "22 packets in 2.700 s, 3 flows; taken at the sender" in said
    assert "SYN timeout" in said
    rows = [line.split()[:3] for line in said.splitlines() if "10.0.3.2:5001" in line]
    assert rows == [[str(k), f"10.0.0.1:2000{k}", "10.0.3.2:5001"] for k in range(3)]


def test_json_keeps_its_words_and_adds_up(lab: Lab, sender: Path) -> None:
    told = json.loads(lab("analyze", sender, "--json")[1])
    (capture,) = told["captures"]
    assert (told["runs"], told["written"]) == ([], [])
    for name in ("data_packets", "acked_bytes", "retransmissions", "timeouts", "syn_timeouts"):
        assert capture["totals"][name] == sum(flow[name] for flow in capture["flows"])
    for flow in capture["flows"]:
        counts = flow["events"]
        assert (flow["timeouts"], flow["syn_timeouts"]) == (counts["rto"], counts["syn_rto"])
        data = sum(n for kind, n in counts.items() if KINDS.index(kind) in range(1, 8))
        assert flow["retransmissions"] == data


def test_timeouts_are_those_of_the_run_and_of_the_kernel(
    sender: Path, recorded: Path, tmp_path: Path, made: Path
) -> None:
    run = next(iter(sorted(made.glob("tiny/fake/nomark*"))))
    metrics = analyse_run(RunFiles(run))
    flows = tcpf_lab.analyze(sender, probes=False).flows.set_index("sport")
    for row in metrics["per_flow"]:
        ours = flows.loc[row["source_port"]]
        assert ours["timeouts"] + ours["syn_timeouts"] == row["kernel"]["total_rto"]


@pytest.mark.parametrize(
    ("words", "ports", "chosen"),
    [
        (["--port", "20001"], [20001], 1),
        (["--port", "20001", "--port", "20002"], [20001, 20002], 2),
        (["--host", "10.0.0.0/24", "--flow", "0,2"], [20000, 20002], 2),
        (["--host", "::ffff:10.0.0.1", "--top", "1"], [20000], 3),
        (["--dscp", "CS0", "--flow", "1"], [20001], 1),
        (["--sort", "timeouts", "--top", "2"], [20000, 20002], 3),
        (["--sort", "acked_bytes", "--top", "1"], [20000], 3),
        (["--sort", "flow", "--top", "0"], [20000, 20001, 20002], 3),
        (["--sort", "flow", "--top", "2"], [20000, 20001], 3),
        (["--top", "2"], [20000, 20002], 3),
        (["--top", "1", "--flow", "1,2"], [20002], 2),
    ],
)
def test_flows_are_chosen_sorted_and_counted(
    lab: Lab, capture: Path, words: list[str], ports: list[int], chosen: int
) -> None:
    (told,) = json.loads(lab("analyze", capture, "--json", *words)[1])["captures"]
    assert [flow["sport"] for flow in told["flows"]] == ports
    assert told["totals"]["flows"] == chosen
    rows = list(csv.DictReader(io.StringIO(lab("analyze", capture, "--format", "csv", *words)[1])))
    assert [int(row["sport"]) for row in rows] == ports


def test_top_lists_some_flows_and_counts_the_events_of_all(lab: Lab, capture: Path) -> None:
    said = lab("analyze", capture, "--top", 1)[1]
    assert said.count("10.0.3.2:5001") == 1
    assert "1 of 3 flows, sorted by retransmissions" in said
    (kind,) = (line.split() for line in said.splitlines() if line.startswith("rto "))
    assert kind[2] == "2"
    events = lab("analyze", capture, "--top", 1, "--events")[1]
    assert "2 events" in events
    assert "of 1 of 3 flows, sorted by retransmissions" in events


def test_address_is_read_as_tables_print_it(lab: Lab, tmp_path: Path) -> None:
    source, target = (bytes.fromhex("20010db8" + "00" * 11 + end) for end in ("01", "02"))
    made = Pcap()
    for at, start in ((0, 1), (2, 1)):
        head = ip6(tcp(20000, 443, seq=start), src=source, dst=target, payload=960, tclass=46 << 2)
        made.add(10**18 + at * 10**9, ethernet(head, kind=0x86DD), missing=960)
    path = made.write(tmp_path / "six.pcap")
    for host in ("2001:db8::1", "[2001:db8::1]", "2001:db8::/32"):
        said = lab("analyze", path, "--host", host, "--dscp", "EF")[1]
        assert "[2001:db8::1]:20000  [2001:db8::2]:443" in said
    assert lab("analyze", path, "--host", "2001:db8::3")[0] == 2


def test_flows_keep_their_numbers_when_others_are_left_out(lab: Lab, capture: Path) -> None:
    said = lab("analyze", capture, "--port", "20002", "--events", "--format", "jsonl")[1]
    assert {json.loads(line)["flow"] for line in said.splitlines()} == {2}


def test_events_say_when_what_and_why(lab: Lab, capture: Path) -> None:
    said = lab("analyze", capture, "--events", "--format", "jsonl", "--flow", "0")[1]
    syn, data = (json.loads(line) for line in said.splitlines())
    assert (syn["kind"], syn["time_s"], syn["time_ns"], syn["seq"]) == (
        "syn_rto",
        1.0,
        10**18 + 10**9,
        0,
    )
    assert (data["kind"], data["time_s"], data["seq"], data["payload_bytes"]) == (
        "rto",
        2.5,
        961,
        960,
    )
    assert (data["backoff"], data["spurious"], data["record"]) == (0, None, 7)
    assert (data["src"], data["sport"], data["dport"]) == ("10.0.0.1", 20000, 5001)
    assert data["explanation"] == RULES[data["rule"]]
    table = lab("analyze", capture, "--events")[1]
    assert "2.500000" in table
    assert data["explanation"] in " ".join(table.split())  # a table wraps what is too wide


def test_every_form_has_the_same_events(lab: Lab, sender: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"events.{suffix}" for suffix in FORMATS]
    words = [word for file in files for word in ("-o", file)]
    status, said, _ = lab("analyze", sender, "--events", *words)
    assert (status, said.split()) == (0, [str(file) for file in files])
    frame = tcpf_lab.analyze(sender).events
    (as_json,) = json.loads(files[0].read_text())["captures"]
    lines = [json.loads(line) for line in files[1].read_text().splitlines()]
    rows = list(csv.DictReader(files[2].open()))
    parquet = pd.read_parquet(files[3])
    assert len(as_json["event_list"]) == len(lines) == len(rows) == len(parquet) == len(frame) > 0
    assert [row["time_ns"] for row in lines] == frame["time_ns"].tolist()
    assert [row["kind"] for row in rows] == frame["kind"].tolist()
    assert [row["seq"] for row in as_json["event_list"]] == frame["seq"].tolist()
    assert parquet["spurious"].isna().tolist() == frame["spurious"].isna().tolist()
    assert pq.read_schema(files[3]).field("time_ns").metadata[b"unit"] == b"ns"
    counted = {kind: n for kind, n in as_json["totals"]["events"].items() if n}
    assert frame["kind"].value_counts().to_dict() == counted


def test_printed_is_what_is_written(lab: Lab, capture: Path, tmp_path: Path) -> None:
    for form in set(PRINTED) & set(FORMATS) - {"json"}:
        lab("analyze", capture, "-o", tmp_path / f"flows.{form}")
        printed = lab("analyze", capture, "--format", form)[1]
        assert (tmp_path / f"flows.{form}").read_text() == printed


def test_several_captures_and_standard_input(
    lab: Lab, capture: Path, sender: Path, standard_input: Callable[[bytes], None]
) -> None:
    standard_input(capture.read_bytes())
    told = json.loads(lab("analyze", sender, "-", capture, capture, "--json")[1])
    assert [one["file"] for one in told["captures"]] == [str(sender), "-", str(capture)]
    assert told["captures"][1]["totals"] == told["captures"][2]["totals"]


def test_directory_stands_for_its_captures(lab: Lab, capture: Path, recorded: Path) -> None:
    here = capture.parent / "caps"
    names = ["a.pcap3", "b.PCAPNG.gz", "c.cap"]
    for name in [*names, "notes.txt", "pcap", "x.pcap.part"]:
        here.mkdir(exist_ok=True)
        shutil.copy(capture, here / name)
    (here / "more.pcap").mkdir()
    shown = json.loads(lab("analyze", here, here / "c.cap", "--sort", "flow", "--json")[1])
    assert [Path(one["file"]).name for one in shown["captures"]] == names
    assert len(tcpf_lab.analyze(here).captures) == len(names)
    status, _, complaint = lab("analyze", here / "more.pcap")
    assert (status, "no run, no capture" in complaint) == (2, True)
    shown = json.loads(lab("analyze", recorded / "pcap", "--json")[1])
    assert (len(shown["captures"]), shown["runs"]) == (3, [])


@pytest.mark.parametrize("found", ["iterdir", "exists"])
def test_directory_without_permission_is_named_as_such(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, found, refused)  # root may read any
    status, said, complaint = lab("analyze", tmp_path)
    assert (status, said) == (2, "")
    assert complaint == f"error: {tmp_path}: the directory cannot be read: Permission denied\n"


def test_unreadable_file_is_one_line_and_status_2_and_the_others_are_told(
    lab: Lab, capture: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.pcap").write_text("not a capture at all")
    (tmp_path / "empty.pcap").touch()
    status, said, complaint = lab("analyze", "text.pcap", capture, "empty.pcap", "none.pcap")
    assert status == 2
    assert "3 flows" in said
    lines = complaint.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [
        "text.pcap",
        "empty.pcap",
        "none.pcap",
    ]
    assert all(line.startswith("error: ") for line in lines)
    status, said, _ = lab("analyze", "text.pcap", "--events", "-o", "x.csv", "--json")
    assert (status, json.loads(said)) == (2, {"captures": [], "runs": [], "written": []})
    assert not Path("x.csv").exists()


def test_truncated_capture_gives_what_is_there_and_a_warning(
    lab: Lab, capture: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.pcap"
    short.write_bytes(capture.read_bytes()[:-3])
    status, said, complaint = lab("analyze", short, "--json")
    assert (status, json.loads(said)["captures"][0]["packets"]) == (0, 21)
    assert complaint.startswith(f"warning: {short}: truncated in packet 22 at byte")
    status, said, complaint = lab("analyze", short)
    assert (status, complaint) == (0, "")
    assert "truncated in packet 22" in said
    status, said, complaint = lab("analyze", short, "--events")
    assert (status, complaint) == (0, "")
    assert said.count("21 packets in") == said.count("truncated in packet 22") == 1


def test_damaged_capture_has_a_status_and_says_how_much_was_read(lab: Lab, capture: Path) -> None:
    whole = capture.read_bytes()
    size = 16 + len(segment(1))
    middle = len(whole) // 2
    capture.write_bytes(whole[:middle] + b"\xff" * 2 * size + whole[middle + 2 * size :])
    status, said, complaint = lab("analyze", capture, "--json")
    (shown,) = json.loads(said)["captures"]
    assert status == 3
    assert complaint.startswith(f"warning: {capture}: damaged: packet ")
    assert 0 < shown["skipped_bytes"] < 5 * size
    assert shown["read_share"] == 1 - shown["skipped_bytes"] / len(whole)
    assert shown["totals"]["flows"] == 3
    status, said, _ = lab("analyze", capture)
    assert (status, "of the capture was read" in said) == (3, True)


def test_events_of_every_capture_are_told_also_if_there_is_none(lab: Lab, capture: Path) -> None:
    calm = conversation(CALM)[0].write(capture.parent / "calm.pcap")
    said = lab("analyze", capture, calm, "--events")[1]
    first, second = said.split(f"{calm}: pcap")
    assert "4 events from 2001-09-09 01:46:41 UTC on" in first
    assert "no event" not in first
    assert "no event" in second


def test_table_shows_some_events_and_says_so(lab: Lab, tmp_path: Path) -> None:
    made = Pcap()
    for port in range(SHOWN):
        conversation(LOSSY, sport=20000 + port, into=made)
    path = made.write(tmp_path / "many.pcap")
    said = lab("analyze", path, "--events")[1]
    assert said.count(" > 10.0.3.2:5001") == SHOWN
    assert f"{SHOWN} of {2 * SHOWN} events, the first; --top 0 shows all" in said
    for top, count in ((0, 2 * SHOWN), (15, 30)):
        said = lab("analyze", path, "--events", "--top", top)[1]
        assert said.count(" > 10.0.3.2:5001") == count
        assert "shows all" not in said


def test_capture_that_cannot_be_read_is_told_also_if_no_flow_fits(
    lab: Lab, capture: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.pcap").write_text("not a capture at all")
    status, said, complaint = lab("analyze", "text.pcap", capture, "--port", "80")
    assert (status, said) == (2, "")
    first, second = (line for line in complaint.splitlines() if line.startswith("error: "))
    assert first.startswith("error: text.pcap: ")
    assert second == "error: --port 80: none of the 3 flows matches"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--port", "80"], "--port 80: none of the 3 flows matches"),
        (["--port", "70000"], "a port is a number from 0 to 65535"),
        (["--host", "10.0.0"], "--host 10.0.0: write an address or a network"),
        (["--dscp", "AF99"], "unknown code point 'AF99'"),
        (["--flow", "a"], "--flow a: write the numbers of flows"),
        (["--sort", "timeout"], "Did you mean 'timeouts'?"),
        (["--format", "jsn"], "Did you mean 'json'?"),
        (["--format", "csv", "--json"], "--format csv: contradicts --json"),
        (["--format", "csv", "-o", "x.json"], "suffix sets its format"),
        (["-o", "x.xls"], "-o x.xls: unknown suffix; allowed: ."),
        (["--min-rto", "5"], "--min-rto 5"),
        (["--min-rto", "0 s"], "--min-rto 0 s: the minimum RTO must be"),
        (["--profile", "linus"], "Did you mean 'linux'?"),
        (["--at", "send"], "Did you mean 'sender'?"),
    ],
)
def test_wrong_words_are_refused(lab: Lab, capture: Path, words: list[str], complaint: str) -> None:
    status, said, told = lab("analyze", capture, *words)
    assert (status, said) == (2, "")
    assert complaint in told
    assert not [*capture.parent.glob("*.xls"), *capture.parent.glob("*.json")]


def test_what_is_known_of_the_senders_reaches_the_analysis(
    lab: Lab, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def spy(path: str, *, options: Options, **others: object) -> object:
        told.append(options)
        return analyse(path, options=options, **others)

    monkeypatch.setattr(analyzing, "analyse", spy)
    words = ["--min-rto", "300 ms", "--profile", "rfc6298", "--at", "receiver", "--no-probes"]
    assert lab("analyze", capture, *words)[0] == 0
    tcpf_lab.analyze(capture, min_rto=0.3, profile="rfc6298", at="receiver", probes=False)
    wanted = Options(300_000_000, probes=False, profile="rfc6298", at="receiver")
    assert told == [wanted, wanted]
    lab("analyze", capture)
    assert told[2] == Options()


def test_frames_have_the_columns_of_the_dictionary_and_their_units(sender: Path) -> None:
    found = tcpf_lab.analyze(sender)
    frames = (found.captures, found.flows, found.events)
    for name, table in zip(("captures", "capture_flows", "events"), frames, strict=True):
        layout = LAYOUTS[name]
        assert list(table.columns) == layout.names
        assert table.attrs["units"] == layout.units
        assert not table.empty
        for column in layout.columns:
            assert column.optional or not table[column.name].isna().any(), column.name
    assert repr(found) == f"Captures({str(sender)!r}, flows=3, events={len(found.events)})"


def test_frames_of_several_captures_and_of_chosen_flows(capture: Path, sender: Path) -> None:
    found = tcpf_lab.analyze(capture, str(sender), port=[5001], flow=[0, 1])
    assert found.flows.groupby("capture", sort=False).size().tolist() == [2, 2]
    assert set(found.events["flow"]) <= {0, 1}
    assert len(found.captures) == 2
    empty = tcpf_lab.analyze(capture, flow=[1])
    assert empty.events.empty
    assert list(empty.events.columns) == LAYOUTS["events"].names


def test_python_refuses_what_the_command_line_refuses(capture: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no capture to analyse"):
        tcpf_lab.analyze()
    with pytest.raises(TraceError, match="no such capture"):
        tcpf_lab.analyze(tmp_path / "none.pcap")
    with pytest.raises(RequestError, match="none of the 3 flows"):
        tcpf_lab.analyze(capture, host=["192.0.2.1"])
    with pytest.raises(RequestError, match="unknown place"):
        tcpf_lab.analyze(capture, at="here")
    with pytest.raises(RequestError, match="--port http: a port is a number"):
        tcpf_lab.analyze(capture, port=["http"])
    with pytest.raises(RequestError, match="--flow -1: write the number of a flow"):
        tcpf_lab.analyze(capture, flow=-1)


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({"host": "10.0.0.1"}, [20000, 20001, 20002]),
        ({"port": 20001}, [20001]),
        ({"dscp": "CS0", "flow": 2}, [20002]),
        ({"dscp": 0, "flow": np.int64(0)}, [20000]),
        ({"port": np.array([20001, 20002])}, [20001, 20002]),
    ],
)
def test_one_value_stands_for_a_sequence_of_one(
    capture: Path, given: dict[str, Any], ports: list[int]
) -> None:
    assert tcpf_lab.analyze(capture, **given).flows["sport"].tolist() == ports


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_tables_fit_the_terminal(sender: Path, width: int) -> None:
    found = analyse_captures(CaptureRequest((str(sender),), options_of(), choice_of(), events=True))
    (described,) = found.described
    tables = list(capture_tables(described))[1:]  # the headline has the file's name
    events = list(event_tables(described, found.frames.events))[1:]
    for text in (shown(tables, width), shown(events, width)):
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        assert "…" not in text
    assert "timeouts" in shown(tables, width)
    assert "rule" in shown(events, width)


def test_table_shows_some_flows_and_says_so(tmp_path: Path) -> None:
    made = Pcap()
    for port in range(SHOWN + 5):
        conversation(CALM, sport=20000 + port, into=made)
    path = str(made.write(tmp_path / "many.pcap"))
    (described,) = analyse_captures(CaptureRequest((path,), options_of(), choice_of())).described
    text = shown(capture_tables(described), 120)
    assert text.count("10.0.3.2:5001") == SHOWN
    assert f"{SHOWN} of {SHOWN + 5} flows, the first; --top 0 shows all" in text
    assert shown(capture_tables(described, top=0), 120).count("10.0.3.2:5001") == SHOWN + 5


def test_capture_without_tcp_has_a_table_all_the_same(lab: Lab, tmp_path: Path) -> None:
    path = Pcap().write(tmp_path / "none.pcap")
    status, said, _ = lab("analyze", path)
    assert (status, said.count("0 flows")) == (0, 1)
    assert "taken" not in said
    assert "no event" in lab("analyze", path, "--events")[1]
    assert lab("analyze", path, "--port", "80")[0] == 2


def test_run_is_analysed_again_beside_captures(
    lab: Lab, capture: Path, made: Path, tmp_path: Path
) -> None:
    run = next(iter(sorted(made.glob("tiny/fake/nomark*"))))
    told = json.loads(lab("analyze", run, capture, "--json")[1])
    assert told["runs"] == [str(run / "metrics.json")]
    assert len(told["captures"]) == 1


@pytest.fixture
def two_runs(made: Path, tmp_path: Path) -> Path:
    """Results with two runs whose captures were kept; the lab's commands are at home there."""
    for run in sorted(made.glob("tiny/fake/nomark*"))[:2]:
        shutil.copytree(run, tmp_path / "results" / "tiny" / "fake" / run.name)
    return tmp_path / "results"


@pytest.mark.parametrize("level", ["", "tiny", "tiny/fake"])
def test_runs_are_found_where_results_have_them_and_announced(
    lab: Lab, two_runs: Path, level: str
) -> None:
    for metrics in two_runs.rglob("metrics.json"):
        metrics.unlink()
    status, said, complaint = lab("analyze", two_runs / level)
    written = sorted(two_runs.rglob("metrics.json"))
    assert (status, said.splitlines()) == (0, [f"rebuilt {path}" for path in written])
    below = two_runs / level
    assert complaint == f"rebuilding metrics.json and series.npz of 2 runs below {below}\n"
    assert lab("analyze", written[0].parent)[2] == ""


def test_runs_elsewhere_are_not_touched(lab: Lab, two_runs: Path) -> None:
    Path("home").mkdir()
    two_runs.rename("home/results")
    for metrics in Path("home").rglob("metrics.json"):
        metrics.write_text("untouched")
    status, said, complaint = lab("analyze", "home")
    assert (status, said) == (2, "")
    assert "home: nothing to analyse: no run" in complaint
    assert "results/smoke" in complaint
    texts = [metrics.read_text() for metrics in Path("home").rglob("metrics.json")]
    assert texts == ["untouched"] * 2


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--host", "10.0.0.1"], "--host 10.0.0.1"),
        (["--port", "80"], "--port 80"),
        (["--sort", "timeouts"], "--sort"),
        (["--top", "0"], "--top"),
        (["--events"], "--events"),
        (["-o", "x.csv"], "-o x.csv"),
        (["--format", "csv"], "--format csv"),
        (["--min-rto", "300 ms"], "--min-rto"),
        (["--profile", "rfc6298"], "--profile"),
        (["--at", "receiver"], "--at"),
        (["--no-probes"], "--no-probes"),
    ],
)
def test_options_of_captures_are_refused_for_runs_alone(
    lab: Lab, two_runs: Path, words: list[str], where: str
) -> None:
    first = sorted(two_runs.rglob("metrics.json"))[0]
    first.write_text("untouched")
    status, said, complaint = lab("analyze", first.parent, *words)
    assert (status, said) == (2, "")
    assert complaint.startswith(f"error: {where}")
    assert "applies to captures only" in complaint
    assert first.read_text() == "untouched"


def test_run_that_cannot_be_read_does_not_stop_the_others(
    lab: Lab, two_runs: Path, capture: Path
) -> None:
    first, second = sorted(two_runs.glob("tiny/fake/*"))
    next((first / "pcap").glob("R1-in*")).write_text("not a capture at all")
    status, said, complaint = lab("analyze", two_runs, capture)
    assert status == 2
    assert said.index("3 flows") < said.index(f"rebuilt {second / 'metrics.json'}")
    assert f"rebuilt {first}" not in said
    (error,) = [line for line in complaint.splitlines() if line.startswith("error: ")]
    assert "R1-in" in error
    told = json.loads(lab("analyze", two_runs, capture, "--json")[1])
    assert told["runs"] == [str(second / "metrics.json")]


def test_runs_wait_for_captures_and_leave_their_format_alone(
    lab: Lab, two_runs: Path, capture: Path
) -> None:
    first = sorted(two_runs.glob("tiny/fake/*"))[0]
    (first / "metrics.json").unlink()
    assert lab("analyze", first, capture, "--min-rto", "5")[0] == 2
    assert not (first / "metrics.json").exists()
    status, said, complaint = lab("analyze", first, capture, "--format", "csv")
    assert (status, len(list(csv.DictReader(io.StringIO(said))))) == (0, 3)
    assert complaint.startswith(f"rebuilt {first / 'metrics.json'}\n")


def test_large_files_are_shown_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch, capture: Path
) -> None:
    text = io.StringIO()
    screen = Console(file=text, width=80, force_terminal=True)
    monkeypatch.setattr(terminal, "_err", screen)
    with terminal.reading([str(capture)]) as advance:
        assert advance is None
    assert text.getvalue() == ""
    monkeypatch.setattr(terminal, "LARGE", 1)
    with terminal.reading([str(capture), "-"]) as advance:
        advance(str(capture), capture.stat().st_size)
        advance("-", 1)
    assert "100 %" in text.getvalue()


def test_name_that_is_no_utf8_and_lines_in_a_name_are_written_as_escapes(tmp_path: Path) -> None:
    whole = (Path(__file__).parent / "data" / "senders" / "modern.pcap.zst").read_bytes()
    capture = tmp_path / os.fsdecode(b"bad\xff.pcap.zst")
    capture.write_bytes(whole)
    done = CliRunner().invoke(app, ["analyze", str(capture), "--format", "csv"])
    assert (done.exit_code, done.output.count(r"bad\xff.pcap.zst")) == (0, 4)
    done = CliRunner().invoke(app, ["analyze", str(tmp_path / "no\nerror: fake")])
    assert r"no\nerror: fake: no such capture" in done.output


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to root")
def test_a_closed_directory_leaves_the_other_captures_to_be_analysed(tmp_path: Path) -> None:
    capture = Path(__file__).parent / "data" / "senders" / "modern.pcap.zst"
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    done = CliRunner().invoke(app, ["analyze", str(closed / "a.pcap"), str(capture)])
    assert done.exit_code == 2
    assert "Permission denied" in done.output
    assert "4 flows" in done.output


# Any value of any option of `analyze` and `device` ends in an answer or in one message.

TIMES = st.sampled_from([0, 1, 999, 10**3, 10**6, 46 * 10**6, 10**9, 25 * 10**9, 10**15]).flatmap(
    lambda ns: st.sampled_from([f"{ns / 1e3:.3f} us", f"-{ns / 1e3:.3f} us"])
)
WORDS = st.sampled_from(["", "0", "-1", "99999999999999999999", "x", "²", ",", "0,1"]) | st.text(
    st.characters(exclude_categories=["C"]), max_size=4
)
NETWORKS = st.sampled_from(["10.0.0.1", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "[", "::/129"])
COLUMNS = st.sampled_from(["rtt_min_s", "mss", "flow", "dscp", "timeouts", "acked_bytes"])
OF_CROSSING = {
    **dict.fromkeys(["--offset", "--max-delay", "--from", "--to", "--bin"], TIMES | WORDS),
    "--top": WORDS,
}
OF_ANALYZE = {
    "--host": NETWORKS | WORDS,
    "--sort": COLUMNS | WORDS,
    "--min-rto": TIMES | WORDS,
    **dict.fromkeys(["--port", "--dscp", "--flow", "--top", "--at", "--profile"], WORDS),
    "--format": st.sampled_from(["table", "json", "jsonl", "csv", "parquet"]),
}


def lines(options: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[list[str]]:
    """Draw some of the options, each with a value; the others are left out."""
    some = st.fixed_dictionaries({}, optional=options)
    return some.map(lambda chosen: [f"{name}={value}" for name, value in chosen.items()])


def answer(*words: str) -> None:
    """Run the command line; any exception but those that become a message fails."""
    done = CliRunner().invoke(app, words)
    if not isinstance(done.exception, LabError | SystemExit | None):
        raise done.exception


FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(options=lines(OF_CROSSING))
@example(options=["--offset=100 s"])
@example(options=["--offset=-30 s"])
@example(options=["--offset=24 s"])
def test_device_answers_or_refuses(recorded: Path, options: list[str]) -> None:
    sides = (str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out"))
    answer("device", *sides, *options)


@FEW
@given(options=lines(OF_ANALYZE), events=st.sampled_from([[], ["--events"]]))
def test_analyze_answers_or_refuses(recorded: Path, options: list[str], events: list[str]) -> None:
    answer("analyze", str(recorded / "pcap" / "S.pcap.zst"), *options, *events)


@pytest.mark.parametrize("offset", ["100 s", "-30 s", "1 s"])
def test_offset_that_no_packet_agrees_with_is_refused_with_the_one_that_most_do(
    recorded: Path, offset: str
) -> None:
    sides = [str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out")]
    done = CliRunner().invoke(app, ["device", *sides, f"--offset={offset}"])
    assert f"--offset {offset}: nothing goes" in str(done.exception)
    assert "agree on 0.046" in str(done.exception)

"""Numbers of a run without captures, against what the small run by hand must give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_builder import EPOCH, MS, PAYLOAD, build_run, make_iperf3

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.agreement import per_flow
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.counters import queue_window
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles, read_json, write_json

#: 2 s at 10 Mbit/s let 2.5 MB through.
START = {"kind": "tbf", "root": True, "bytes": 1000, "packets": 2, "drops": 0, "qlen": 1}
END = {"kind": "tbf", "root": True, "bytes": 1_251_000, "packets": 1202, "drops": 40, "qlen": 11}


def put(files: RunFiles, label: str, **changes: Any) -> None:
    shown = {**(START if label == "start" else END), **changes}
    path = files.stats / f"qdisc-window-{label}-R1.json"
    path.write_text(json.dumps([shown, {"kind": "red", "parent": "1:", "bytes": 1}]))


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    files = build_run(tmp_path / "run")
    manifest = read_json(files.manifest)
    del manifest["expect"]["captures"]
    manifest["expect"]["window_counters"] = ["R1-R2"]
    write_json(files.manifest, manifest)
    for capture in files.pcap.iterdir():
        capture.unlink()
    put(files, "start")
    put(files, "end")
    last = read_json(files.stats / "qdisc-R1.json")
    last[1] |= {"bytes": 1_300_000, "packets": 1300, "drops": 41, "qlen": 0}
    (files.stats / "qdisc-R1.json").write_text(json.dumps(last))
    return files


def check(run: RunFiles, name: str) -> tuple[bool | None, str]:
    (found,) = [c for c in analyse(run)["validity"]["checks"] if c["name"] == name]
    return found["ok"], found["detail"]


def test_without_captures_the_counters_of_the_ends_tell_whether_ecn_is_in_use(
    run: RunFiles,
) -> None:
    manifest = read_json(run.manifest)
    manifest["expect"]["qdisc"]["marks"] = True
    write_json(run.manifest, manifest)
    assert check(run, "ecn_in_use") == (False, "stats/netstat-S.txt is missing")
    for capable in (0, 7):
        counters = f"IpExt: InECT1Pkts InECT0Pkts InCEPkts\nIpExt: 0 {capable} 0\n"
        (run.stats / "netstat-S.txt").write_text(counters)
        assert check(run, "ecn_in_use")[0] is bool(capable)


def test_accurate_feedback_is_what_the_receiver_counted(run: RunFiles) -> None:
    manifest = read_json(run.manifest)
    manifest["expect"]["sysctl"]["S"]["net.ipv4.tcp_ecn"] = "3"
    write_json(run.manifest, manifest)
    last = 3 + 3 * read_record(run).count
    sent = "TcpExt: TCPOrigDataSent TCPDelivered TCPDeliveredCE\nTcpExt: 1000 997 {}\n"
    (run.stats / "netstat-D.txt").write_text("IpExt: InCEPkts\nIpExt: 500\n")
    for learnt, ok in ((500, True), (500 - last, True), (499 - last, False), (501, False)):
        (run.stats / "netstat-S.txt").write_text(sent.format(learnt))
        assert check(run, "feedback_matches")[0] is ok


def keep_list(run: RunFiles, *entries: tuple[int, int, int]) -> None:
    """Write the sender's list: time after the epoch, source port, cause."""
    rows = np.zeros(len(entries), log.ENTRY)
    for row, (at, port, cause) in zip(rows, entries, strict=True):
        row["time_ns"], row["sport"], row["cause"] = EPOCH + at, port, cause
    head = log.HEAD.pack(log.MAGIC, log.ENTRY.itemsize, 0, len(entries))
    (run.stats / "retransmissions-S.bin").write_bytes(head + rows.tobytes())


def change_samples(run: RunFiles, label: str, flow: int, **changes: Any) -> None:
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if (row["sample"], row["flow"]) == (label, flow):
            row.update(changes)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def forget_total_rto(run: RunFiles) -> None:
    """Make the samples those of a kernel before 6.7."""
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["total_rto"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_numbers_are_differences_of_the_readings(run: RunFiles) -> None:
    found = analyse(run)
    assert found["validity"]["reasons"] == []
    numbers = found["metrics"]
    assert numbers["timeouts"] == numbers["retransmissions"] == 1
    assert numbers["timeouts_per_flow_minute"] == 15.0
    assert numbers["utilisation"] == 0.5
    # 1200 left, 40 were dropped, 10 more wait than before.
    assert numbers["packet_loss_percent"] == 100 * 40 / 1250
    assert numbers["retransmitted_percent"] == pytest.approx(100 / 61)
    with_headers = numbers["goodput_bytes_per_s"] * 1000 / 960
    assert numbers["goodput_ip_bytes_per_s"] == pytest.approx(with_headers)
    seconds = 2.000000512
    rates = [row["goodput_bytes_per_s"] for row in found["per_flow"]]
    assert rates == pytest.approx([20 * PAYLOAD / seconds, 40 * PAYLOAD / seconds])
    assert numbers["goodput_min_max"] == pytest.approx(0.5)
    assert found["truth"]["source"] == "tcpi_total_rto"
    assert (found["truth"]["timeouts_kernel"], found["truth"]["timeouts_pcap"]) == (1, None)
    assert {name for name, value in numbers.items() if value is None} == set(found["unmeasured"])


def test_a_count_of_expiries_has_16_bits(run: RunFiles) -> None:
    change_samples(run, "start", 1, total_rto=65535)
    change_samples(run, "end", 1, total_rto=2)
    (flow,) = [row for row in analyse(run)["per_flow"] if row["flow"] == 1]
    assert flow["timeouts"] == 3


def test_arrivals_are_what_left_was_dropped_or_waits(run: RunFiles) -> None:
    window = queue_window(run, "R1-R2")
    assert (window.bytes, window.packets, window.drops) == (1_250_000, 1200, 40)
    assert window.arrivals == 1250


def test_expiries_of_the_syn_are_told_apart_by_the_kernels_list(run: RunFiles) -> None:
    change_samples(run, "end", 1, total_rto=3, total_retrans=3)
    early, late = (500 * MS, 20001, log.SYN_RTO), (1200 * MS, 20001, log.SYN_RTO)
    change_samples(run, "start", 1, total_rto=1, total_retrans=1)
    keep_list(run, early, late, (2300 * MS, 20001, log.RTO), (3500 * MS, 20001, log.SYN_RTO))
    found = analyse(run)
    (flow,) = [row for row in found["per_flow"] if row["flow"] == 1]
    assert (flow["timeouts"], flow["retransmissions"]) == (1, 1)
    assert (flow["syn_timeouts"], flow["timeouts_whole_run"]) == (2, 1)
    assert found["metrics"]["syn_timeouts"] == 2
    assert "syn_timeouts" not in found["unmeasured"]


def test_without_the_list_expiries_of_the_syn_are_unknown(run: RunFiles) -> None:
    found = analyse(run)
    assert found["metrics"]["syn_timeouts"] is None
    assert "syn_timeouts" in found["unmeasured"]


def test_kernel_that_counts_no_expiries_of_a_flow_leaves_timeouts_unmeasured(run: RunFiles) -> None:
    forget_total_rto(run)
    counters = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 7\n"
    (run.stats / "netstat-S.txt").write_text(counters)
    found = analyse(run)
    assert found["metrics"]["timeouts"] is None
    assert {"timeouts", "timeouts_per_flow_minute"} <= set(found["unmeasured"])
    assert found["truth"]["source"] == "TcpExtTCPTimeouts"
    assert found["truth"]["timeouts_kernel"] == 7


def test_damaged_list_is_an_error(run: RunFiles) -> None:
    (run.stats / "retransmissions-S.bin").write_bytes(b"nothing")
    with pytest.raises(TraceError, match="not a list of retransmissions"):
        analyse(run)


@pytest.mark.parametrize(
    ("label", "changes", "said"),
    [
        ("end", {"bytes": 999}, "bytes fell from 1000 to 999 within the window"),
        ("end", {"drops": 42}, "drops fell from 42 to 41 after the window"),
        ("start", {"qlen": 2000}, "749 packets fewer than none came"),
        ("end", {"bytes": 2_600_000}, "2599000 bytes in a window of at most 2500000"),
        ("end", {"root": False}, "the window's end shows no root qdisc"),
        ("start", {"bytes": None}, "the window's start shows no root qdisc"),
    ],
)
def test_readings_that_contradict_each_other_make_a_run_invalid(
    run: RunFiles, label: str, changes: dict[str, Any], said: str
) -> None:
    put(run, label, **changes)
    ok, detail = check(run, "window_counters")
    assert ok is False
    assert said in detail


def test_flow_that_never_came_up_is_told_by_its_sample(run: RunFiles) -> None:
    change_samples(run, "end", 0, connected=False)
    assert check(run, "all_connected") == (False, "1 of 2 flows never connected: 0")


def test_manifest_that_lost_its_captures_is_refused(run: RunFiles) -> None:
    manifest = read_json(run.manifest)
    del manifest["expect"]["window_counters"]
    write_json(run.manifest, manifest)
    with pytest.raises(TraceError, match="the manifest lacks captures"):
        analyse(run)


def test_captures_of_such_a_run_cannot_be_read(run: RunFiles) -> None:
    with pytest.raises(TraceError, match="made without captures"):
        read_captured(run)


# Which of the kernel's counts timeouts are compared with, and what iperf3 says of its flows.

COUNTERS = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 {}\n"


@pytest.fixture
def whole(tmp_path: Path) -> RunFiles:
    return build_run(tmp_path / "run")


@pytest.fixture
def iperf3(whole: RunFiles) -> RunFiles:
    make_iperf3(whole)
    return whole


def test_kernel_that_counts_each_flow_is_asked_for_each(whole: RunFiles) -> None:
    expected = "captures 1, kernel 1 (tcpi_total_rto of each flow)"
    assert check(whole, "timeouts_match_kernel") == (True, expected)


@pytest.mark.parametrize(
    ("told", "error", "ok"), [(1, 0.0, True), (4, -75.0, True), (5, -80, False)]
)
def test_older_kernel_has_a_total_only(whole: RunFiles, told: int, error: float, ok: bool) -> None:
    forget_total_rto(whole)
    (whole.stats / "netstat-S.txt").write_text(COUNTERS.format(told))
    found = analyse(whole)
    assert found["truth"] == {
        "source": "TcpExtTCPTimeouts",
        "timeouts_pcap": 1,
        "timeouts_kernel": told,
        "error_percent": error,
        "flows_exact": None,
        "flows": 2,
        "largest_flow_error": None,
    }
    detail = f"captures 1, kernel {told} (TcpExtTCPTimeouts of all connections, none of each flow)"
    assert check(whole, "timeouts_match_kernel") == (ok, detail)
    assert all("total_rto" not in row["kernel"] for row in found["per_flow"])


@pytest.mark.parametrize(("told", "wrapped"), [(7706, 73242), (40000, 105536), (73242, 73242)])
def test_a_flows_count_of_16_bits_is_taken_for_the_nearest(told: int, wrapped: int) -> None:
    row = {"timeouts_whole_run": 73242, "syn_timeouts": 0, "kernel": {"total_rto": told}}
    assert per_flow([row])["timeouts_kernel"] == wrapped
    none = {"timeouts_whole_run": 0, "syn_timeouts": 0, "kernel": {"total_rto": 40000}}
    assert per_flow([none])["timeouts_kernel"] == 40000


def test_total_counts_what_expired_after_the_window_too(whole: RunFiles) -> None:
    forget_total_rto(whole)
    (whole.stats / "netstat-S.txt").write_text(COUNTERS.format(1))
    manifest = json.loads(whole.manifest.read_text())
    whole.manifest.write_text(json.dumps(manifest | {"window_s": [1.0, 2.0]}))
    path = whole.stats / "senders-S.jsonl"
    path.write_text(path.read_text().replace("3000000512", "2000000000"))
    found = analyse(whole)
    assert found["per_flow"][1]["timeouts_whole_run"] == 0
    assert found["truth"]["timeouts_pcap"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "netstat-S.txt is missing"), ("TcpExt: A\nTcpExt: 1\n", "has no TcpExtTCPTimeouts")],
)
def test_without_any_count_there_is_no_truth(whole: RunFiles, text: str | None, said: str) -> None:
    forget_total_rto(whole)
    if text:
        (whole.stats / "netstat-S.txt").write_text(text)
    truth = analyse(whole)["truth"]
    assert (truth["source"], truth["timeouts_kernel"], truth["error_percent"]) == (None, None, None)
    ok, detail = check(whole, "timeouts_match_kernel")
    assert (ok, said in detail) == (False, True)


def test_iperf3_and_captures_agree(iperf3: RunFiles) -> None:
    expected = f"2 flows, {60 * PAYLOAD - 74} bytes, retransmissions: captures 1, iperf3 1"
    assert check(iperf3, "flows_match_iperf3") == (True, expected)
    reports = [row["iperf3"] for row in analyse(iperf3)["per_flow"]]
    assert reports[1] == {"bytes_received": 40 * PAYLOAD - 37, "retransmits": 1}


def test_rows_of_the_native_generator_know_no_iperf3(whole: RunFiles) -> None:
    assert all("iperf3" not in row for row in analyse(whole)["per_flow"])


def change(flow: int, edit: Callable[[Any], object]) -> Callable[[RunFiles], None]:
    """Change a flow's report."""

    def apply(whole: RunFiles) -> None:
        path = whole.stats / f"iperf3-{flow}.json"
        report = json.loads(path.read_text())
        edit(report)
        path.write_text(json.dumps(report))

    return apply


def stream(report: Any) -> Any:
    return report["end"]["streams"][0]


WRONG: dict[str, tuple[str, Callable[[RunFiles], None]]] = {
    "more received than acknowledged": (
        "flow 0: capture 19163 bytes, iperf3 19164",
        change(0, lambda report: stream(report)["receiver"].update(bytes=20 * PAYLOAD - 36)),
    ),
    "a block left unread": (
        "flow 1: capture 38363 bytes, iperf3 5000",
        change(
            1,
            lambda report: (
                stream(report)["receiver"].update(bytes=5000),
                report["start"]["test_start"].update(blksize=8192),
            ),
        ),
    ),
    "other retransmissions": (
        "retransmissions: captures 1, iperf3 5",
        change(0, lambda report: stream(report)["sender"].update(retransmits=4)),
    ),
    "an error instead of a report": (
        "stats/iperf3-1.json is not a report of one flow: error 'unable to connect'",
        lambda whole: (
            (whole.stats / "iperf3-1.json").write_text('{"end": {}, "error": "unable to connect"}')
            and None
        ),
    ),
    "no report": (
        "stats/iperf3-0.json is missing",
        lambda whole: (whole.stats / "iperf3-0.json").unlink(),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_iperf3_says_otherwise_is_named(iperf3: RunFiles, case: str) -> None:
    said, make = WRONG[case]
    make(iperf3)
    ok, detail = check(iperf3, "flows_match_iperf3")
    assert ok is False
    assert said in detail

"""Numbers of a run without captures, against what the small run by hand must give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_builder import EPOCH, MS, PAYLOAD, build_run

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.counters import queue_window
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
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["total_rto"]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
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

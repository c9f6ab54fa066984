"""Which of the kernel's counts timeouts are compared with, and what iperf3 says of its flows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_builder import PAYLOAD, build_run, make_iperf3

from tcpf_lab.metrics.agreement import per_flow
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles

COUNTERS = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 {}\n"


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return build_run(tmp_path / "run")


@pytest.fixture
def iperf3(run: RunFiles) -> RunFiles:
    make_iperf3(run)
    return run


def check(run: RunFiles, name: str) -> tuple[Any, str]:
    """Give a check of the verdict."""
    checks = {c["name"]: (c["ok"], c["detail"]) for c in analyse(run)["validity"]["checks"]}
    return checks[name]


def forget_total_rto(run: RunFiles) -> None:
    """Make the samples those of a kernel before 6.7."""
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["total_rto"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_kernel_that_counts_each_flow_is_asked_for_each(run: RunFiles) -> None:
    expected = "captures 1, kernel 1 (tcpi_total_rto of each flow)"
    assert check(run, "timeouts_match_kernel") == (True, expected)


@pytest.mark.parametrize(
    ("told", "error", "ok"), [(1, 0.0, True), (4, -75.0, True), (5, -80, False)]
)
def test_older_kernel_has_a_total_only(run: RunFiles, told: int, error: float, ok: bool) -> None:
    forget_total_rto(run)
    (run.stats / "netstat-S.txt").write_text(COUNTERS.format(told))
    found = analyse(run)
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
    assert check(run, "timeouts_match_kernel") == (ok, detail)
    assert all("total_rto" not in row["kernel"] for row in found["per_flow"])


@pytest.mark.parametrize(("told", "wrapped"), [(7706, 73242), (40000, 105536), (73242, 73242)])
def test_a_flows_count_of_16_bits_is_taken_for_the_nearest(told: int, wrapped: int) -> None:
    row = {"timeouts_whole_run": 73242, "syn_timeouts": 0, "kernel": {"total_rto": told}}
    assert per_flow([row])["timeouts_kernel"] == wrapped
    none = {"timeouts_whole_run": 0, "syn_timeouts": 0, "kernel": {"total_rto": 40000}}
    assert per_flow([none])["timeouts_kernel"] == 40000


def test_total_counts_what_expired_after_the_window_too(run: RunFiles) -> None:
    forget_total_rto(run)
    (run.stats / "netstat-S.txt").write_text(COUNTERS.format(1))
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"window_s": [1.0, 2.0]}))
    path = run.stats / "senders-S.jsonl"
    path.write_text(path.read_text().replace("3000000512", "2000000000"))
    found = analyse(run)
    assert found["per_flow"][1]["timeouts_whole_run"] == 0
    assert found["truth"]["timeouts_pcap"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "netstat-S.txt is missing"), ("TcpExt: A\nTcpExt: 1\n", "has no TcpExtTCPTimeouts")],
)
def test_without_any_count_there_is_no_truth(run: RunFiles, text: str | None, said: str) -> None:
    forget_total_rto(run)
    if text:
        (run.stats / "netstat-S.txt").write_text(text)
    truth = analyse(run)["truth"]
    assert (truth["source"], truth["timeouts_kernel"], truth["error_percent"]) == (None, None, None)
    ok, detail = check(run, "timeouts_match_kernel")
    assert (ok, said in detail) == (False, True)


def test_iperf3_and_captures_agree(iperf3: RunFiles) -> None:
    expected = f"2 flows, {60 * PAYLOAD - 74} bytes, retransmissions: captures 1, iperf3 1"
    assert check(iperf3, "flows_match_iperf3") == (True, expected)
    reports = [row["iperf3"] for row in analyse(iperf3)["per_flow"]]
    assert reports[1] == {"bytes_received": 40 * PAYLOAD - 37, "retransmits": 1}


def test_rows_of_the_native_generator_know_no_iperf3(run: RunFiles) -> None:
    assert all("iperf3" not in row for row in analyse(run)["per_flow"])


def change(flow: int, edit: Callable[[Any], object]) -> Callable[[RunFiles], None]:
    """Change a flow's report."""

    def apply(run: RunFiles) -> None:
        path = run.stats / f"iperf3-{flow}.json"
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
        lambda run: (
            (run.stats / "iperf3-1.json").write_text('{"end": {}, "error": "unable to connect"}')
            and None
        ),
    ),
    "no report": (
        "stats/iperf3-0.json is missing",
        lambda run: (run.stats / "iperf3-0.json").unlink(),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_iperf3_says_otherwise_is_named(iperf3: RunFiles, case: str) -> None:
    said, make = WRONG[case]
    make(iperf3)
    ok, detail = check(iperf3, "flows_match_iperf3")
    assert ok is False
    assert said in detail

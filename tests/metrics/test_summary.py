from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from run_builder import MANIFEST, PAYLOAD, SERVICE_NS, build_run, make_iperf3, samples

from tcpf_lab.base.errors import LabError, TraceError
from tcpf_lab.metrics import captured, summary
from tcpf_lab.metrics.summary import analyse, mean_ci
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import KIND_NAMES, classify


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return build_run(tmp_path / "run")


def test_run_by_hand_has_the_numbers_reckoned_by_hand(run: RunFiles) -> None:
    metrics = analyse(run)["metrics"]
    assert metrics["timeouts"] == metrics["timeout_episodes"] == 1
    assert metrics["timeouts_per_flow_minute"] == 15.0  # 1 in 2 flows and 2 s
    assert metrics["retransmissions"] == 1
    assert metrics["retransmitted_percent"] == pytest.approx(100 / 61)
    with_headers = metrics["goodput_bytes_per_s"] * 1000 / 960
    assert metrics["goodput_ip_bytes_per_s"] == pytest.approx(with_headers)
    # 20 and 40 segments of 960 bytes in 2 s (the end sample was read 512 ns late).
    assert metrics["goodput_bytes_per_s"] == pytest.approx(14400, rel=1e-6)
    assert metrics["goodput_cov"] == pytest.approx(1 / 3, rel=1e-6)
    assert metrics["goodput_jain"] == pytest.approx(0.9, rel=1e-6)
    assert metrics["goodput_min_max"] == pytest.approx(0.5, rel=1e-6)
    # 61 packets of 1000 bytes entered, 1 was lost; 60 frames of 1014 bytes left.
    assert metrics["loss_percent"] == pytest.approx(100 / 61)
    assert metrics["packet_loss_percent"] == pytest.approx(100 / 61)
    assert metrics["utilisation"] == pytest.approx(60 * 1014 * 8 / 20e6)
    assert metrics["backlog_max_bytes"] == 39 * 1014
    # The burst's packets wait 1 to 39 services, the 21 others one.
    services = sum(range(1, 40)) + 21
    assert metrics["queueing_delay_mean_s"] == pytest.approx(services / 60 * SERVICE_NS / 1e9)
    assert metrics["backlog_mean_bytes"] == pytest.approx(1014 * services * SERVICE_NS / 2e9)


def test_rows_of_the_flows(run: RunFiles) -> None:
    rows = analyse(run)["per_flow"]
    assert [row["source_port"] for row in rows] == [20000, 20001]
    assert [row["timeouts"] for row in rows] == [0, 1]
    assert [row["retransmissions"] for row in rows] == [0, 1]
    assert [row["events"]["rto"] for row in rows] == [0, 1]
    for row in rows:
        assert set(row["events"]) == set(KIND_NAMES.values())
        assert sum(row["events"].values()) == row["retransmissions"] + row["events"]["syn_rto"]
    assert rows[1]["kernel"]["total_rto"] == 1
    assert rows[1]["goodput_bytes_per_s"] == pytest.approx(40 * PAYLOAD / 2, rel=1e-6)


def test_timeouts_are_compared_with_the_kernel(run: RunFiles) -> None:
    assert analyse(run)["truth"] == {
        "source": "tcpi_total_rto",
        "timeouts_pcap": 1,
        "timeouts_kernel": 1,
        "error_percent": 0.0,
        "flows_exact": 2,
        "flows": 2,
        "largest_flow_error": 0,
    }


def test_classifier_does_not_see_the_kernels_counters(run: RunFiles) -> None:
    rows = [row | {"total_rto": 7} for row in samples()]
    (run.stats / "senders-S.jsonl").write_text("\n".join(map(json.dumps, rows)))
    truth = analyse(run)["truth"]
    assert (truth["timeouts_pcap"], truth["timeouts_kernel"]) == (1, 14)
    assert truth["error_percent"] == pytest.approx(-100 * 13 / 14)
    assert (truth["flows_exact"], truth["largest_flow_error"]) == (0, 7)


def change_manifest(run: RunFiles, *, window_s: list[float], limit: int = 60_000) -> None:
    """Give the run another window, and its bottleneck another limit."""
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"]["qdisc"]["options"]["limit"] = limit
    run.manifest.write_text(json.dumps(manifest | {"window_s": window_s}))


@pytest.mark.parametrize(
    ("limit", "end_s", "judged"),
    [
        (60_000, 2.75, 60),  # the last packet enters at 2.3 s, less than 0.5 s before the end
        (60_000, 2.85, 61),
        (1_000_000, 3.15, 60),  # a queue of 0.8 s: 0.9 s before the end are not judged
        (1_000_000, 3.25, 61),
    ],
)
def test_packets_that_may_leave_after_the_window_are_not_judged(
    run: RunFiles, limit: int, end_s: float, judged: int
) -> None:
    change_manifest(run, window_s=[1.0, end_s], limit=limit)
    found = analyse(run)
    assert found["by_dscp"]["0"]["packets"] == judged
    assert found["metrics"]["loss_percent"] == pytest.approx(100 / judged)


def test_timeouts_count_from_the_windows_start_to_before_its_end(run: RunFiles) -> None:
    windows = (([1.0, 2.3], 0), ([2.3, 3.0], 1), ([1.0, 2.300001], 1), ([2.300001, 3.0], 0))
    for window, timeouts in windows:
        change_manifest(run, window_s=window)
        result = analyse(run)
        assert result["metrics"]["timeouts"] == timeouts
        assert result["metrics"]["timeout_episodes"] == timeouts
        assert result["truth"]["timeouts_pcap"] == 1


def test_every_number_is_defined_in_the_documents(run: RunFiles) -> None:
    docs = Path(__file__).parents[2] / "docs"
    result = analyse(run)
    definitions = (docs / "metrics.md").read_text(encoding="utf-8")
    tables = definitions.split("## Definitions")[1].split("## Other sections")[0]
    verdict, others = definitions.split("## Validity checks")[1].split("### Additional checks")
    rows = re.compile(r"^\| `(\w+)` \|", flags=re.MULTILINE)
    assert sorted(rows.findall(tables)) == sorted(result["metrics"])
    assert rows.findall(verdict) == [check["name"] for check in result["validity"]["checks"]]
    code = "".join(path.read_text() for path in Path(summary.__file__).parent.glob("*.py"))
    additional = rows.findall(others.split("\n## ")[0])
    assert [name for name in additional if f'"{name}":' not in code] == []
    named = set(re.findall(r"`(\w+)`", definitions))
    assert {*result["by_dscp"]["0"], *result["per_flow"][0], *result["truth"]} <= named
    layout = (docs / "results.md").read_text(encoding="utf-8")
    section = layout.split("## metrics.json")[1].split("\n## ")[0]
    assert {*result, *result["validity"], *result["validity"]["checks"][0]} <= set(
        re.findall(r"`(\w+)`", section)
    )


def test_loss_is_split_by_code_point(run: RunFiles) -> None:
    found = analyse(run)["by_dscp"]
    assert list(found) == ["0"]
    assert (found["0"]["packets"], found["0"]["packets_lost"]) == (61, 1)


def test_valid_run_is_valid(run: RunFiles) -> None:
    validity = analyse(run)["validity"]
    assert validity["reasons"] == []
    assert validity["valid"] is True
    left = {check["name"] for check in validity["checks"] if check["ok"] is not True}
    assert left == {  # virtual, native, no impairment
        "flows_match_iperf3",
        "clocks_agree",
        "started_on_time",
        "impairments_in_force",
    }


def test_result_is_written_and_carries_the_runs_identity(run: RunFiles) -> None:
    result = analyse(run)
    assert json.loads(run.metrics.read_text()) == result
    for name in ("experiment", "config", "case", "flows", "seed", "run", "window_s"):
        assert result[name] == MANIFEST[name]


def test_analysis_is_repeated_byte_for_byte_from_packed_captures(run: RunFiles) -> None:
    analyse(run)
    first = run.metrics.read_bytes()
    for path in run.pcap.glob("*.pcap"):
        path.with_suffix(".pcap.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    run.metrics.unlink()
    analyse(run)
    assert run.metrics.read_bytes() == first


def test_flow_that_never_came_up_counts_as_zero(run: RunFiles) -> None:
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"flows": 3}))
    lost = {"event": "sample", "time_ns": 10**9, "flow": 2, "source_port": 20002}
    rows = samples()
    rows += [lost | {"sample": "start", "connected": False}]
    rows += [lost | {"sample": "end", "connected": False, "time_ns": 3 * 10**9, "total_rto": 0}]
    (run.stats / "senders-S.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = analyse(run)
    assert result["per_flow"][2]["goodput_bytes_per_s"] == 0.0
    assert result["per_flow"][2]["source_port"] == 20002
    assert result["metrics"]["goodput_bytes_per_s"] == pytest.approx(9600, rel=1e-6)
    assert result["validity"]["reasons"] == ["all_connected: 1 of 3 flows never connected: 2"]


def test_without_tcp_info_the_capture_decides(run: RunFiles) -> None:
    make_iperf3(run)
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"] |= {"source_port": None}
    run.manifest.write_text(json.dumps(manifest))
    result = analyse(run)
    assert [row["source_port"] for row in result["per_flow"]] == [20000, 20001]
    assert [row["goodput_bytes_per_s"] for row in result["per_flow"]] == [9600.0, 19200.0]
    assert result["truth"]["source"] == "TcpExtTCPTimeouts"
    checks = {check["name"]: check for check in result["validity"]["checks"]}
    assert checks["goodput_matches_tcp_info"]["ok"] is None
    assert "iperf3" in checks["goodput_matches_tcp_info"]["detail"]
    assert result["validity"]["valid"] is True


def test_run_in_which_nothing_arrived_has_no_fairness(run: RunFiles) -> None:
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"window_s": [0.5, 0.9]}))
    rows = [
        row | {"time_ns": {"start": 5, "end": 9}[row["sample"]] * 10**8, "bytes_acked": 1}
        for row in samples()
    ]
    (run.stats / "senders-S.jsonl").write_text("\n".join(map(json.dumps, rows)))
    metrics = analyse(run)["metrics"]
    assert metrics["goodput_bytes_per_s"] == 0.0
    assert metrics["goodput_cov"] is metrics["goodput_jain"] is metrics["loss_percent"] is None


def test_missing_capture_ends_the_analysis_with_its_name(run: RunFiles) -> None:
    run.capture("R1-in").unlink()
    with pytest.raises(TraceError, match="no such capture") as error:
        analyse(run)
    assert error.value.where.endswith("R1-in.pcap")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "not a manifest of format 2: format is None"),
        (b'{"format": 0}', "not a manifest of format 2: format is 0"),
        (
            b'{"format": 2, "flows": 2}',
            "the manifest lacks window_s, expect, bottleneck, port, qdisc, captures",
        ),
        (b"\xff\xfe{}", "not JSON"),
        (None, "no such file"),
    ],
)
def test_what_is_no_manifest_is_refused(run: RunFiles, content: bytes | None, message: str) -> None:
    run.manifest.unlink()
    if content is not None:
        run.manifest.write_bytes(content)
    with pytest.raises(LabError, match=message) as error:
        analyse(run)
    assert error.value.where.endswith("manifest.json")


@pytest.mark.parametrize(
    ("expect", "option", "value"),
    [
        ({"sysctl": {"S": {}}}, "probes", True),
        ({"sysctl": {"S": {"net.ipv4.tcp_sack": "1"}}}, "probes", True),
        ({"sysctl": {"S": {"net.ipv4.tcp_early_retrans": "0"}}}, "probes", False),
        ({"sysctl": {"S": {"net.ipv4.tcp_sack": "0"}}}, "probes", False),
        ({"sysctl": {"S": {"net.ipv4.tcp_reno_recovery": "0"}}}, "classic", False),
        ({"sysctl": {"S": {"net.ipv4.tcp_reno_recovery": "1"}}}, "classic", True),
        ({"routes": {"S": {"rto_min": 1000}}}, "rto_min_ns", 10**9),
        ({"routes": {"S": {"initcwnd": 2}}}, "rto_min_ns", 2 * 10**8),
        ({"routes": None}, "rto_min_ns", 2 * 10**8),
    ],
)
def test_flows_are_followed_as_their_senders_were_set(
    run: RunFiles,
    monkeypatch: pytest.MonkeyPatch,
    expect: dict[str, object],
    option: str,
    value: object,
) -> None:
    asked = []

    def spy(*words: Any, **options: Any) -> Any:
        asked.append(options[option])
        return classify(*words)

    monkeypatch.setattr(captured, "classify", spy)
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"] |= expect
    run.manifest.write_text(json.dumps(manifest))
    analyse(run)
    assert asked == [value]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("epoch.json", None, "missing"),
        ("senders-S.jsonl", "{not json\n", "not a JSON object"),
        ("senders-S.jsonl", "[1]\n", "not a JSON object"),
        ("senders-S.jsonl", json.dumps(samples()[0]), "1 flows, the plan has 2"),
    ],
)
def test_broken_record_is_named(run: RunFiles, name: str, text: str | None, message: str) -> None:
    path = run.stats / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(LabError, match=message):
        analyse(run)


def test_interval_uses_students_distribution() -> None:
    # t(0.975, 9) = 2.262157; standard deviation of 1..10 is 3.027650.
    half = pytest.approx(2.262157 * 3.027650 / 10**0.5, rel=1e-6)
    assert mean_ci([float(i) for i in range(1, 11)]) == (5.5, half)
    assert mean_ci([2.0, 2.0, 2.0]) == (2.0, 0.0)
    assert mean_ci([3.5]) == (3.5, None)


@pytest.mark.parametrize(("values", "confidence"), [([], 0.95), ([1.0, 2.0], 1.0)])
def test_undefined_interval_is_refused(values: list[float], confidence: float) -> None:
    with pytest.raises(ValueError):
        mean_ci(values, confidence)

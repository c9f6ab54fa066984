"""Several bottlenecks: the run by hand with a cross flow at R1, and counters of a second queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pcap_builder import segment
from run_builder import MS, PAYLOAD, SERVICE_NS, build_run, one_clock, timeline

from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles

RED = {"device": "R1-R2", "kind": "red", "options": {"limit": 60000, "min": 10000}}
#: What the first queue has sent and dropped by the window's start and end: two SYNs; 60 packets of
#: the two flows, of which one was dropped, and two of three cross packets.
SENT = {"start": (2, 0), "end": (2 + 60 + 2, 2)}


def put(files: RunFiles, name: str, value: Any) -> None:
    (files.stats / name).write_text(json.dumps(value), encoding="utf-8")


def cross_sample(label: str, acked: int, expiries: int) -> str:
    at = {"start": 1_000_000_000, "end": 3_000_000_000}[label]
    row = {"event": "sample", "sample": label, "time_ns": at, "flow": 2, "connected": True}
    row |= {"source_port": 20002, "bytes_acked": acked, "total_rto": expiries, "total_retrans": 0}
    return json.dumps(row) + "\n"


def root(device: str, packets: int, drops: int) -> dict[str, Any]:
    counted = {"bytes": 1014 * packets, "packets": packets, "drops": drops, "qlen": 0}
    return {"kind": "tbf", "root": True, "dev": device, **counted}


def write_counters(files: RunFiles) -> None:
    for label, (packets, drops) in SENT.items():
        put(files, f"qdisc-window-{label}-R1.json", [root("R1-R2", packets, drops)])
        second = root("R2-R3", 100 if label == "start" else 1100, 0 if label == "start" else 250)
        put(files, f"qdisc-window-{label}-R2.json", [second])
    rows = json.loads((files.stats / "qdisc-R1.json").read_text())
    for row in rows:
        if row["dev"] == "R1-R2":
            row |= {"drops": 2} | ({"bytes": 99_999, "packets": 99} if row.get("root") else {})
    put(files, "qdisc-R1.json", [{**row, "qlen": 0} for row in rows])
    red = {**RED, "dev": "R2-R3", "parent": "1:"}
    put(files, "qdisc-R2.json", [root("R2-R3", 1200, 250), red])
    put(files, "senders-X1.jsonl", None)
    (files.stats / "senders-X1.jsonl").write_text(
        cross_sample("start", 1, 1) + cross_sample("end", 2 * PAYLOAD + 1, 4)
    )


def write_captures(files: RunFiles) -> None:
    line = timeline()
    line.points["R1-in-cross"] = []
    for k, left in enumerate((2200 * MS, None, 2400 * MS)):
        frame = segment(1 + PAYLOAD * k, sport=20002, ip_id=k + 1)
        line.points["R1-in-cross"].append(((2100 + 100 * k) * MS, frame, PAYLOAD))
        if left is not None:
            line.points["R1-out"].append(((2100 + 100 * k) * MS + SERVICE_NS, frame, PAYLOAD))
    for point, count in line.write(files.pcap, one_clock).items():
        text = f"tcpdump: listening\n{count} packets captured\n0 packets dropped by kernel\n"
        (files.log / f"tcpdump-{point}.log").write_text(text, encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    files = build_run(tmp_path / "run")
    manifest = json.loads(files.manifest.read_text())
    expect = manifest["expect"]
    expect["captures"]["cross_ingress"] = "R1-in-cross"
    expect["bottleneck"]["node"] = "R1"
    first, marker = expect["bottleneck"], expect["marker"]
    second = {"node": "R2", "device": "R2-R3", "rate_bits_per_s": 10_000_000}
    expect["bottlenecks"] = [
        {**first, "qdisc": expect["qdisc"]},
        {**second, "qdisc": {**expect["qdisc"], "device": "R2-R3"}},
    ]
    expect["markers"] = [marker, {**marker, "node": "M1"}]
    expect["cross"] = [{"node": "R1", "sender": "X1", "marker": "M1", "first": 2, "flows": 1}]
    expect["window_counters"] = ["R1-R2", "R2-R3"]
    files.manifest.write_text(json.dumps(manifest))
    write_counters(files)
    write_captures(files)
    shown = json.loads((files.stats / "action-R0.json").read_text())
    shown[1]["actions"][0]["xstats"] = {"in_packets": 0, "out_packets": 3}
    put(files, "action-M1.json", shown)
    return files


def test_every_bottleneck_tells_its_use_and_loss_and_cross_traffic_its_goodput(
    run: RunFiles,
) -> None:
    found = analyse(run)
    assert found["validity"]["reasons"] == []
    first, second = found["bottlenecks"]
    assert first == {
        "node": "R1",
        "utilisation": pytest.approx(8 * 1014 * 62 / 20e6),
        "packets_dropped": 2,
        "packet_loss_percent": pytest.approx(100 * 2 / 64),
    }
    assert (second["node"], second["packets_dropped"]) == ("R2", 250)
    assert second["packet_loss_percent"] == pytest.approx(20.0)
    assert found["cross"] == [{"node": "R1", "goodput_bytes_per_s": 2 * PAYLOAD / 2, "timeouts": 3}]


def test_an_older_kernel_tells_no_timeouts_of_cross_traffic(run: RunFiles) -> None:
    for path in run.stats.glob("senders-*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        kept = ({k: v for k, v in row.items() if k != "total_rto"} for row in rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    (cross,) = analyse(run)["cross"]
    assert cross == {"node": "R1", "goodput_bytes_per_s": 2 * PAYLOAD / 2, "timeouts": None}


def test_without_captures_every_check_is_there_once(run: RunFiles) -> None:
    manifest = json.loads(run.manifest.read_text())
    del manifest["expect"]["captures"]
    run.manifest.write_text(json.dumps(manifest))
    names = [check["name"] for check in analyse(run)["validity"]["checks"]]
    assert "window_counters" in names
    assert len(names) == len(set(names))


def test_the_metrics_are_those_of_the_main_flows(run: RunFiles, tmp_path: Path) -> None:
    alone = analyse(build_run(tmp_path / "alone"))
    found = analyse(run)
    assert len(found["per_flow"]) == 2
    for name in ("goodput_bytes_per_s", "timeouts", "retransmissions"):
        assert found["metrics"][name] == alone["metrics"][name]
    assert "bottlenecks" not in alone
    # The queue is everybody's: 64 packets came to it before the last half second of the window.
    assert found["metrics"]["packet_loss_percent"] == pytest.approx(100 * 2 / 64)


def reading(label: str, packets: int) -> Callable[[RunFiles], None]:
    return lambda run: put(
        run, f"qdisc-window-{label}-R1.json", [root("R1-R2", packets, SENT[label][1])]
    )


def drop_kind(run: RunFiles) -> None:
    put(run, "qdisc-R2.json", [root("R2-R3", 1200, 250)])


def forget(run: RunFiles) -> None:
    put(run, "qdisc-window-start-R2.json", [])


def race(run: RunFiles) -> None:
    put(run, "qdisc-window-end-R2.json", [root("R2-R3", 100 + 2600, 250)])


def mark_less(run: RunFiles) -> None:
    shown = json.loads((run.stats / "action-M1.json").read_text())
    shown[1]["actions"][0]["xstats"]["out_packets"] = 2
    put(run, "action-M1.json", shown)


def never_connect(run: RunFiles) -> None:
    path = run.stats / "senders-X1.jsonl"
    path.write_text(path.read_text().replace('"connected": true', '"connected": false'))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (reading("end", 60), "window_matches_captures"),
        (drop_kind, "qdisc_in_force"),
        (forget, "window_counters"),
        (race, "no_bottleneck_too_fast"),
        (mark_less, "marks_match_marker"),
        (never_connect, "all_connected"),
        (lambda run: (run.stats / "action-M1.json").unlink(), "marker_in_force"),
    ],
)
def test_what_is_wrong_at_any_bottleneck_is_found(
    run: RunFiles, change: Callable[[RunFiles], None], name: str
) -> None:
    change(run)
    failed = {one["name"] for one in analyse(run)["validity"]["checks"] if one["ok"] is False}
    assert name in failed

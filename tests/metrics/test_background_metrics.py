"""Numbers of background, from counters by hand: 40 Mbit/s for 2 s are 10^7 bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_builder import EPOCH, MANIFEST, build_run

from tcpf_lab.metrics.counters import background_drops, given_up, longest_pause_ns, ring_of
from tcpf_lab.metrics.record import Record, read_record
from tcpf_lab.metrics.sections import background, background_sent, wires
from tcpf_lab.metrics.validity import Check
from tcpf_lab.results.layout import RunFiles

BOTTLENECK = {"node": "R1", "device": "R1-R2", "rate_bits_per_s": 40_000_000}
SOURCES: dict[str, dict[str, Any]] = {
    "ef": {
        "node": "EF",
        "device": "EF-R1",
        "into": "R1-EF",
        "packet": 1500,
        "frame": 1514,
        "share": 0.3,
        "longest_pause_s": 0.3,
        "first": True,
    },
    "udp": {
        "node": "UDP",
        "device": "UDP-R1",
        "into": "R1-UDP",
        "packet": 500,
        "frame": 514,
        "share": 0.05,
        "longest_pause_s": 0.12,
        "first": False,
    },
}
#: Packets of each source by the window's start, its end, and the run's.
SENT = {"ef": (1000, 3000, 3000), "udp": (100, 500, 500)}
#: Of UDP's, which are not first, the bottleneck drops 7.
DROPPED = 7
#: Bytes and packets of TCP behind the bottleneck, by the same instants.
TCP = {"start": (3_000_000, 5000), "end": (9_000_000, 16_000), "": (9_100_000, 16_200)}


def dev(rows: dict[str, tuple[int, int, int, int]]) -> str:
    lines = ["Inter-|   Receive | Transmit", " face |bytes packets errs | bytes packets"]
    lines += [
        f"{device:>8}: {rb} {rp} 0 0 0 0 0 0 {tb} {tp} 0 0 0 0 0 0"
        for device, (rb, rp, tb, tp) in {"lo": (9, 9, 9, 9), **rows}.items()
    ]
    return "\n".join(lines) + "\n"


def qdisc(sent: tuple[int, int], drops: int, **words: Any) -> dict[str, Any]:
    counted = {"bytes": sent[0], "packets": sent[1], "drops": drops, "qlen": 0}
    return {"kind": "tbf", "dev": "R1-R2", **counted, **words}


def build(root: Path, names: tuple[str, ...] = ("ef", "udp")) -> RunFiles:
    files = RunFiles(root)
    for directory in (files.stats, files.log):
        directory.mkdir(parents=True)
    background = {"behind": "R2-R1", "sources": {name: SOURCES[name] for name in names}}
    expect = {k: v for k, v in MANIFEST["expect"].items() if k != "captures"}
    expect |= {
        "bottleneck": BOTTLENECK,
        "background": background,
        "window_counters": ["R1-R2"],
    }
    files.manifest.write_text(json.dumps({**MANIFEST, "expect": expect}))
    (files.stats / "epoch.json").write_text(json.dumps({"epoch_ns": EPOCH}))
    for name in names:
        write_source(files, name)
    came = {SOURCES[n]["into"]: (0, SENT[n][2], 0, 0) for n in names}
    (files.stats / "dev-R1.txt").write_text(dev(came))
    ended = sum(SENT[name][2] for name in names) - (DROPPED if "udp" in names else 0)
    for label, (size, packets) in TCP.items():
        rows = {"R2-R1": (0, packets + ended, 77, 7), "R2-D0": (8, 8, size, packets)}
        name = f"dev-window-{label}-R2.txt" if label else "dev-R2.txt"
        (files.stats / name).write_text(dev(rows))
    for label, sent, waiting in (("start", (4_000_000, 6000), 0), ("end", (13_900_000, 19_000), 5)):
        root_row = qdisc(sent, 100 if waiting else 60, root=True)
        inside = qdisc((0, sent[1] - 1000), 40 if waiting else 30, parent="2:2", kind="bfifo")
        shown = [root_row, {**inside, "qlen": waiting}]
        (files.stats / f"qdisc-window-{label}-R1.json").write_text(json.dumps(shown))
    last = qdisc((13_900_000, 19_000), 100, root=True)
    (files.stats / "qdisc-R1.json").write_text(json.dumps([last]))
    return files


def write_source(files: RunFiles, name: str, drops: int = 0, **other: Any) -> None:
    source, counted = SOURCES[name], SENT[name]
    common = {"errors": 0, "late_ns": 700, "bursts": 1}
    rows = [
        {"event": "sample", "sample": "start", "packets": counted[0], **common},
        {"event": "sample", "sample": "end", "packets": counted[1], **common},
        {"event": "end", "packets": counted[2], **common, **other},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (files.stats / f"source-{source['node']}.jsonl").write_text(text)
    sent = (counted[2] * source["frame"], counted[2] - drops)
    root = qdisc(sent, drops, root=True) | {"dev": source["device"]}
    (files.stats / f"qdisc-{source['node']}.json").write_text(json.dumps([root]))


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return build(tmp_path / "run")


def record(files: RunFiles) -> Record:
    return read_record(files)


def test_shares_are_those_of_the_window(files):
    found = background(files, record(files))
    ef = found.sections["background"]["ef"]
    assert ef == {"packets": 2000, "bytes": 3_000_000, "share": pytest.approx(0.3028)}
    assert found.sections["background"]["udp"]["share"] == pytest.approx(0.02056)
    assert found.metrics["tcp_share"] == pytest.approx(0.6)
    assert found.metrics["tcp_utilisation"] == pytest.approx(0.6 / 0.65)
    assert found.metrics["tcp_utilisation_of_rest"] == pytest.approx(0.6 / (1 - 0.3028 - 0.02056))
    assert found.metrics["utilisation"] == pytest.approx(0.99)
    assert [check.ok for check in found.checks] == [True]


def test_loss_of_tcp_is_told_where_all_background_goes_first(tmp_path, files):
    assert background(files, record(files)).metrics["packet_loss_percent"] is None
    alone = build(tmp_path / "alone", ("ef",))
    # 13 000 left the queue for the others, 10 were dropped, 5 wait now.
    loss = background(alone, record(alone)).metrics["packet_loss_percent"]
    assert loss == pytest.approx(100 * 10 / 13_015)


def test_drops_of_background_are_told_from_the_flows(files):
    assert background_drops(files, record(files)) == DROPPED
    assert longest_pause_ns(record(files)) == 420_000_000


def test_run_without_background_has_nothing_of_it(files):
    run = record(files)
    plain = {k: v for k, v in run.expect.items() if k != "background"}
    run = replace(run, expect=plain)
    found = background(files, run)
    assert (found.metrics, found.sections, found.checks) == ({}, {}, [])
    assert background_drops(files, run) == 0
    assert longest_pause_ns(run) == 0


@pytest.mark.parametrize(
    ("drops", "words", "said"),
    [
        (3, {}, "ef: 3000 due, 2997 sent, 3 dropped on EF-R1"),
        (0, {"errors": 2, "error": "Network is unreachable"}, "2 packets not sent: Network is"),
        (0, {"late_ns": 3_000_000}, "ef: a burst was 3.000 ms late"),
        (0, {"packets": 3001}, "ef: 3000 of 3001 came to R1-EF"),
    ],
)
def test_what_went_wrong_is_said(files, drops, words, said):
    write_source(files, "ef", drops, **words)
    ok, detail = background_sent(files, record(files))
    assert ok is False
    assert said in detail


def test_source_that_did_not_end_and_missing_readings_are_failed_checks(files):
    (files.stats / "source-EF.jsonl").write_text("")
    (files.stats / "dev-window-end-R2.txt").unlink()
    found = background(files, record(files))
    assert [(check.name, check.ok) for check in found.checks] == [("background_sent", False)]
    assert "has no last line" in found.checks[0].detail
    assert found.metrics["tcp_share"] is None
    assert found.metrics["tcp_utilisation_of_rest"] is None
    assert found.sections["background"]["ef"]["packets"] is None


# What the stations of a shared wire counted, and the checks that it adds up.

#: 10 frames of 1514 bytes and as many acknowledgements of 66; a frame of a and b bytes takes
#: (8 + 1518) * 800 ns and (8 + 70) * 800 ns.
BUSY = 10 * (1526 + 78) * 800
WIRE = {"devices": ["R1-R2", "R2-R1"], "rate_bits_per_s": 10_000_000, "ring": 4}


def shown(sent: int, size: int, received: int, back: int, **changes: Any) -> str:
    counted = {"collisions": 7, "deferred": 3, "excessive": 0}
    times = {"busy": BUSY, "contention": 10_000, "idle": 990_000}
    link = {
        "linkinfo": {
            "info_kind": "csma",
            "info_data": {"rate": 1_250_000, "ring": 4},
            "info_xstats": {**counted, **times, **changes},
        },
        "stats64": {
            "tx": {"packets": sent, "bytes": sent * size},
            "rx": {"packets": received, "bytes": received * back},
        },
    }
    return json.dumps([link])


@pytest.fixture
def wired(tmp_path) -> RunFiles:
    made = build_run(tmp_path / "run")
    manifest = {**MANIFEST, "expect": {**MANIFEST["expect"], "wires": [WIRE]}}
    made.manifest.write_text(json.dumps(manifest))
    put(made, "-R1-R2", shown(10, 1514, 10, 66))
    put(made, "-R2-R1", shown(10, 66, 10, 1514))
    put(made, "-window-start-R1-R2", shown(0, 0, 0, 0, busy=0, contention=0, idle=500_000))
    put(made, "-window-end-R1-R2", shown(10, 1514, 10, 66))
    return made


def put(wired: RunFiles, which: str, text: str) -> None:
    (wired.stats / f"wire{which}.json").write_text(text)


def checks(wired: RunFiles) -> dict[str, Check]:
    return {check.name: check for check in wires(wired, read_record(wired)).checks}


def test_shares_are_of_the_window_and_counts_of_the_run(wired):
    (wire,) = wires(wired, read_record(wired)).sections["wires"]
    length = BUSY + 10_000 + 490_000
    assert wire["busy"] == BUSY / length
    assert wire["contention"] == 10_000 / length
    assert wire["busy"] + wire["contention"] + wire["idle"] == pytest.approx(1)
    assert wire["collisions"] == [7, 7]
    assert all(check.ok for check in checks(wired).values())


def test_run_without_wires_has_nothing_of_them(tmp_path):
    wired = build_run(tmp_path / "run")
    extra = wires(wired, read_record(wired))
    assert (extra.sections, extra.checks) == ({}, [])
    assert given_up(wired, read_record(wired), "R1-R2") == 0


@pytest.mark.parametrize(
    ("device", "text", "check", "said"),
    [
        ("R1-R2", shown(10, 1514, 9, 66), "wires_add_up", "not all that one sent"),
        ("R1-R2", shown(10, 1514, 10, 66, busy=BUSY - 8000), "wires_add_up", "busy for"),
        ("R1-R2", shown(10, 1514, 10, 66, busy=2 * BUSY), "wires_add_up", "busy for"),
        (
            "R2-R1",
            shown(10, 66, 10, 1514).replace('"ring": 4', '"ring": 5'),
            "wires_in_force",
            "R2-R1: ring is 5, not 4",
        ),
        (
            "R2-R1",
            shown(10, 66, 10, 1514).replace("csma", "veth"),
            "wires_in_force",
            "type veth, not csma",
        ),
        ("R2-R1", "[]", "wires_in_force", "does not describe a station"),
    ],
)
def test_what_does_not_add_up_is_told(wired, device, text, check, said):
    put(wired, f"-{device}", text)
    found = checks(wired)[check]
    assert found.ok is False
    assert said in found.detail


def test_a_reading_that_is_missing_leaves_no_numbers_and_fails(wired):
    (wired.stats / "wire-R1-R2.json").unlink()
    extra = wires(wired, read_record(wired))
    assert extra.sections["wires"] == [{"devices": WIRE["devices"]}]
    assert {check.ok for check in extra.checks} == {False}


def test_frames_given_up_are_allowed_for_where_they_can_be(wired):
    put(wired, "-R1-R2", shown(10, 1514, 10, 66, excessive=2))
    record = read_record(wired)
    assert ring_of(record.expect, "R1-R2") == 4
    assert given_up(wired, record, "R1-R2") == 2
    assert given_up(wired, record, "S-R0") == 0

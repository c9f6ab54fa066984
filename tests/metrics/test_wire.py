"""What the stations of a shared wire counted, and the checks that it adds up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from run_builder import MANIFEST, build_run

from tcpf_lab.metrics.counters import given_up, ring_of
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.sections import wires
from tcpf_lab.metrics.validity import Check
from tcpf_lab.results.layout import RunFiles

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
def files(tmp_path) -> RunFiles:
    made = build_run(tmp_path / "run")
    manifest = {**MANIFEST, "expect": {**MANIFEST["expect"], "wires": [WIRE]}}
    made.manifest.write_text(json.dumps(manifest))
    put(made, "-R1-R2", shown(10, 1514, 10, 66))
    put(made, "-R2-R1", shown(10, 66, 10, 1514))
    put(made, "-window-start-R1-R2", shown(0, 0, 0, 0, busy=0, contention=0, idle=500_000))
    put(made, "-window-end-R1-R2", shown(10, 1514, 10, 66))
    return made


def put(files: RunFiles, which: str, text: str) -> None:
    (files.stats / f"wire{which}.json").write_text(text)


def checks(files: RunFiles) -> dict[str, Check]:
    return {check.name: check for check in wires(files, read_record(files)).checks}


def test_shares_are_of_the_window_and_counts_of_the_run(files):
    (wire,) = wires(files, read_record(files)).sections["wires"]
    length = BUSY + 10_000 + 490_000
    assert wire["busy"] == BUSY / length
    assert wire["contention"] == 10_000 / length
    assert wire["busy"] + wire["contention"] + wire["idle"] == pytest.approx(1)
    assert wire["collisions"] == [7, 7]
    assert all(check.ok for check in checks(files).values())


def test_run_without_wires_has_nothing_of_them(tmp_path):
    files = build_run(tmp_path / "run")
    extra = wires(files, read_record(files))
    assert (extra.sections, extra.checks) == ({}, [])
    assert given_up(files, read_record(files), "R1-R2") == 0


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
def test_what_does_not_add_up_is_told(files, device, text, check, said):
    put(files, f"-{device}", text)
    found = checks(files)[check]
    assert found.ok is False
    assert said in found.detail


def test_a_reading_that_is_missing_leaves_no_numbers_and_fails(files):
    (files.stats / "wire-R1-R2.json").unlink()
    extra = wires(files, read_record(files))
    assert extra.sections["wires"] == [{"devices": WIRE["devices"]}]
    assert {check.ok for check in extra.checks} == {False}


def test_frames_given_up_are_allowed_for_where_they_can_be(files):
    put(files, "-R1-R2", shown(10, 1514, 10, 66, excessive=2))
    record = read_record(files)
    assert ring_of(record.expect, "R1-R2") == 4
    assert given_up(files, record, "R1-R2") == 2
    assert given_up(files, record, "S-R0") == 0

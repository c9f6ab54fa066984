"""Numbers of closed-loop users, against records reckoned by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from run_builder import EPOCH, MS, build_run

from tcpf_lab.metrics.sections import throughput
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.metrics.transfers import (
    FAILED,
    FINISHED,
    HEAD,
    MAGIC,
    RECORD,
    THINKING,
    UNDERWAY,
    UNTOLD,
)
from tcpf_lab.results.layout import RunFiles, read_json, write_json

ROOT = {"kind": "tbf", "root": True, "bytes": 0, "packets": 0, "drops": 0, "qlen": 0}
#: user, number, start and end in ms, size, acknowledged, packets sent again, expiries, state.
#: The window is 1 s to 3 s.
DONE = [
    (0, 0, 100, 900, 90_000, 90_000, 5, 2, FINISHED),  # before the window
    (0, 1, 950, 1450, 100_000, 100_000, 1, 0, FINISHED),  # ends in it: 1.6 Mbit/s
    (0, 2, 2000, 2200, 120_000, 120_000, 0, 0, FINISHED),  # 4.8 Mbit/s
    (1, 0, 500, 2500, 500_000, 500_000, 9, 3, FINISHED),  # 2 Mbit/s
    (1, 1, 2900, 3000, 10, 10, 0, 0, FINISHED),  # the window's end is not in it
]
LAST = [
    (0, 3, 2500, 3000, 700, 300, 0, 0, UNDERWAY),
    (1, 2, 3000, 4000, 800, 0, 0, 0, THINKING),
]


def records(rows: list[tuple[int, ...]], error: int = 0) -> bytes:
    values = np.zeros(len(rows), RECORD)
    for value, row in zip(values, rows, strict=True):
        user, number, start, end, size, acked, again, expiries, state = row
        value["user"], value["number"] = user, number
        value["start_ns"], value["end_ns"] = start * MS, end * MS
        value["size"], value["acked"], value["state"] = size, acked, state
        value["retransmissions"], value["timeouts"] = again, expiries
        value["error"] = error if state == FAILED else 0
    return HEAD.pack(MAGIC, RECORD.itemsize, 2, len(rows), EPOCH) + values.tobytes()


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    files = build_run(tmp_path / "run")
    manifest = read_json(files.manifest)
    expect = manifest["expect"]
    expect["window_counters"] = ["R1-R2"]
    for gone in ("captures", "source_port"):
        del expect[gone]
    expect["users"] = {"think_s": 1.0, "size_bytes": 80_000, "shape": 1.5, "senders": ["S0", "S1"]}
    write_json(files.manifest, manifest)
    for capture in files.pcap.iterdir():
        capture.unlink()
    (files.stats / "senders-S.jsonl").unlink()
    for label in ("start", "end"):
        (files.stats / f"qdisc-window-{label}-R1.json").write_text(json.dumps([ROOT]))
    put(files, DONE + LAST)
    return files


def put(files: RunFiles, rows: list[tuple[int, ...]], error: int = 0) -> None:
    """Write what user 0 did at S0 and user 1 at S1, in the order in which it ended."""
    for node in (0, 1):
        own = [row for row in rows if row[0] % 2 == node]
        (files.stats / f"users-S{node}.bin").write_bytes(records(own, error))


def verdict(files: RunFiles, name: str) -> tuple[bool | None, str]:
    (found,) = [c for c in analyse(files)["validity"]["checks"] if c["name"] == name]
    return found["ok"], found["detail"]


def test_transfers_that_ended_in_the_window_make_the_numbers(run: RunFiles) -> None:
    result = analyse(run)
    assert result["users"] == {
        "transfers": 3,
        "bytes": 720_000,
        "mean_size": 240_000,
        "completion_s": {"mean": 0.9, "p50": 0.5, "p95": 2.0, "p99": 2.0},
        "throughput_by_size": {
            "100kB": {"mean_bits_per_s": pytest.approx(3.2e6), "n": 2},
            "500kB": {"mean_bits_per_s": pytest.approx(2e6), "n": 1},
            "1000kB": {"mean_bits_per_s": None, "n": 0},
        },
        "failed": 0,
        "unfinished": 1,
    }
    metrics = result["metrics"]
    assert (metrics["timeouts"], metrics["retransmissions"]) == (3, 10)
    assert metrics["timeouts_per_flow_minute"] == 45.0  # 3 in 2 users and 2 s
    assert metrics["goodput_bytes_per_s"] == 180_000  # 720 000 in 2 users and 2 s
    assert metrics["goodput_cov"] is None
    assert {"goodput_cov", "syn_timeouts"} <= set(result["unmeasured"])
    assert not {"timeouts", "goodput_bytes_per_s"} & set(result["unmeasured"])


def test_every_transfer_that_was_begun_is_kept(run: RunFiles) -> None:
    analyse(run)
    content = run.transfers.read_bytes()
    with np.load(run.transfers, allow_pickle=False) as kept:
        assert kept["user"].tolist() == [0, 0, 0, 0, 1, 1]
        assert kept["number"].tolist() == [0, 1, 2, 3, 0, 1]
        assert kept["finished"].tolist() == [True, True, True, False, True, True]
        assert kept["end_ns"][1] == 1450 * MS
        assert kept["size"].dtype == np.uint64
    analyse(run)
    assert run.transfers.read_bytes() == content


def test_packed_records_are_the_same(run: RunFiles) -> None:
    plain = analyse(run)
    for path in run.stats.glob("users-*.bin"):
        path.with_suffix(".bin.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    assert analyse(run) == plain


def test_timeouts_that_the_kernel_does_not_count_are_not_none(run: RunFiles) -> None:
    put(run, [(*row[:7], UNTOLD, row[8]) for row in DONE + LAST])
    metrics = analyse(run)["metrics"]
    assert metrics["timeouts"] is None
    assert metrics["timeouts_per_flow_minute"] is None
    assert metrics["retransmissions"] == 10


def test_users_who_did_well_pass(run: RunFiles) -> None:
    assert verdict(run, "all_connected") == (True, "6 connections of 2 users")
    done = (True, "5 transfers finished, 1 under way at the end")
    assert verdict(run, "users_finished") == done
    backed_off = (0, 3, -58_000, 3000, 700, 0, 5, 4, UNDERWAY)  # after 3, 6, 12 and 24 s at most
    put(run, [*DONE, backed_off, LAST[1]])
    assert verdict(run, "users_finished") == done


@pytest.mark.parametrize(
    ("rows", "name", "said"),
    [
        (
            [*DONE[:3], (1, 0, 500, 900, 10, 0, 0, 0, FAILED), *LAST],
            "all_connected",
            "1 of 5 connections never came up: user 1 number 0 (errno 99)",
        ),
        (
            [*DONE[:3], (1, 0, 500, 900, 10, 4, 0, 0, FAILED), *LAST],
            "users_finished",
            "1 transfers failed: user 1 number 0 (errno 99)",
        ),
        (
            [(0, 0, 100, 900, 90_000, 80_000, 0, 0, FINISHED), *DONE[1:], *LAST],
            "users_finished",
            "1 transfers ended before all was acknowledged: user 0 number 0",
        ),
        (
            [*DONE, LAST[0], (1, 2, 2000, 2900, 800, 0, 0, 0, THINKING)],
            "users_finished",
            "1 users did not stop thinking: user 1 number 2",
        ),
        (
            [*DONE, (0, 3, -58_000, 3000, 700, 0, 3, 3, UNDERWAY), LAST[1]],
            "users_finished",
            "1 transfers are stuck: user 0 number 3",
        ),
        (
            [*DONE, (0, 3, -600_000, 3000, 700, 0, 8, 8, UNDERWAY), LAST[1]],  # 549 s at most
            "users_finished",
            "1 transfers are stuck: user 0 number 3",
        ),
        ([row for row in DONE if row[0] == 0], "users_finished", "1 of 2 users are in the records"),
    ],
)
def test_what_went_wrong_with_users_is_said(
    run: RunFiles, rows: list[tuple[int, ...]], name: str, said: str
) -> None:
    put(run, rows, error=99)
    assert verdict(run, name) == (False, said)
    assert analyse(run)["validity"]["valid"] is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content[:-1], "stats/users-S0.bin is cut, or of another version"),
        (lambda content: b"", "stats/users-S0.bin is not a list of transfers"),
        (lambda content: b"x" + content[1:], "stats/users-S0.bin is not a list of transfers"),
        (None, "stats/users-S0.bin is missing"),
    ],
)
def test_damaged_records_are_a_failed_check(run: RunFiles, change: Any, said: str) -> None:
    path = run.stats / "users-S0.bin"
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    assert verdict(run, "users_finished") == (False, said)
    assert verdict(run, "all_connected") == (False, said)
    result = analyse(run)
    assert "users" not in result
    assert result["metrics"]["goodput_bytes_per_s"] is None


def test_times_of_a_clock_of_its_own_are_brought_to_the_runs(run: RunFiles) -> None:
    # S0 was told an epoch 2 ms later than its clock has it by the last measurement.
    nodes = {f"S{k}": {"epoch_ns": EPOCH - 2 * MS * (k == 0), "drift_ppm": 0} for k in (0, 1)}
    nodes |= {name: {"epoch_ns": EPOCH, "drift_ppm": 0} for name in ("S", "R0", "R1", "D")}
    (run.stats / "epoch.json").write_text(json.dumps({"epoch_ns": EPOCH, "nodes": nodes}))
    analyse(run)
    with np.load(run.transfers, allow_pickle=False) as kept:
        assert kept["start_ns"].tolist()[:2] == [102 * MS, 952 * MS]
        assert kept["start_ns"].tolist()[4] == 500 * MS


def test_a_transfer_in_no_time_has_no_throughput() -> None:
    with pytest.raises(ValueError, match="took no time"):
        throughput([1], [5], [5])

"""Nodes with clocks of their own: shifted onto one, or told apart as useless."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_builder import EPOCH, MS, build_run, make_iperf3, samples

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.record import Clock, read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles

#: Each node's clock: how far ahead at the epoch, ns, and what it gains, parts in a million.
AHEAD = {"S": (37 * 10**9 + 12_345, 40.0), "R1": (-2 * 10**9, -15.5)}


def stamp(node: str, at: int) -> int:
    ahead, ppm = AHEAD[node]
    return EPOCH + ahead + at + round(at * ppm / 1e6)


def clocks() -> dict[str, Any]:
    return {
        node: {
            "epoch_ns": EPOCH + ahead,
            "offset_ns": ahead,
            "uncertainty_ns": 400_000,
            "drift_ppm": ppm,
        }
        for node, (ahead, ppm) in AHEAD.items()
    }


def measured() -> dict[str, Any]:
    """Offsets exactly on the line, but for one that a round trip of 60 ms excuses."""
    found: dict[str, Any] = {}
    for node, (ahead, ppm) in AHEAD.items():
        found[node] = [
            {
                "at_ns": EPOCH + at,
                "offset_ns": ahead + round(at * ppm / 1e6),
                "round_trip_ns": 800_000,
            }
            for at in (-3 * 10**9, 5 * 10**9)
        ]
        slow = {**found[node][0], "round_trip_ns": 60 * MS}
        found[node].append({**slow, "offset_ns": slow["offset_ns"] + 25 * MS})
    return found


def make_real(run: RunFiles) -> RunFiles:
    """Give the run real clocks, and samples as the sender's program wrote them.

    The program was told an epoch 3 us from where the second measurement puts it.
    """
    manifest = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps(manifest | {"clock": "real"}))
    (run.stats / "epoch.json").write_text(json.dumps({"epoch_ns": EPOCH, "nodes": clocks()}))
    (run.stats / "clock.json").write_text(json.dumps(measured()))
    late = {"senders-S": 0.0004, "receivers-D": 0.011}
    (run.stats / "lateness.json").write_text(json.dumps(late))
    told = EPOCH + AHEAD["S"][0] + 3000
    rows = [
        {**row, "epoch_ns": told, "time_ns": stamp("S", row["time_ns"]) - told} for row in samples()
    ]
    (run.stats / "senders-S.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return make_real(build_run(tmp_path / "run", stamp))


def test_a_group_stops_by_the_clock_of_its_sender(run: RunFiles) -> None:
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"]["groups"] = [{"first": 0, "flows": 1, "sender": "S", "stop_s": 1.5}]
    run.manifest.write_text(json.dumps(manifest))
    after = (1_500_000_000 + 3000) / (1 + 40e-6)
    assert read_record(run).stop_ns(0) == pytest.approx(EPOCH + after, abs=2)


def checks(run: RunFiles) -> dict[str, tuple[Any, str]]:
    return {c["name"]: (c["ok"], c["detail"]) for c in analyse(run)["validity"]["checks"]}


def edit(run: RunFiles, name: str, change: Callable[[Any], object]) -> None:
    path = run.stats / name
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_clocks_of_their_own_change_no_number(run: RunFiles, tmp_path: Path) -> None:
    ours = analyse(run)
    one = analyse(build_run(tmp_path / "virtual"))
    assert ours["validity"]["reasons"] == []
    assert ours["metrics"].keys() == one["metrics"].keys()
    for name, value in one["metrics"].items():
        assert ours["metrics"][name] == pytest.approx(value, rel=1e-4), name
    for name in ("timeouts", "retransmissions", "loss_percent", "syn_timeouts"):
        assert ours["metrics"][name] == one["metrics"][name]
    shares = ("goodput_bytes_per_s", "timeouts", "timeouts_whole_run")
    for mine, theirs in zip(ours["per_flow"], one["per_flow"], strict=True):
        assert [mine[name] for name in shares] == [theirs[name] for name in shares]


def test_without_the_shift_the_window_would_hold_nothing(run: RunFiles) -> None:
    edit(run, "epoch.json", lambda epoch: epoch.pop("nodes"))
    assert analyse(run)["metrics"]["goodput_bytes_per_s"] == 0


def test_an_instant_comes_back_within_a_nanosecond_and_order_is_kept() -> None:
    rng = np.random.default_rng(4)
    at = np.sort(rng.integers(-(10**10), 10**12, 10_000))
    for ahead, ppm in (*AHEAD.values(), (0, 500.0), (10**15, -500.0)):
        own = np.array([EPOCH + ahead + int(t) + round(int(t) * ppm / 1e6) for t in at])
        back = Clock(EPOCH, EPOCH + ahead, ppm * 1e-6).run_time(own)
        assert np.max(np.abs(back - EPOCH - at)) <= 1
        assert np.all(np.diff(back) >= 0)


def test_packets_of_several_processors_are_put_in_order(run: RunFiles) -> None:
    whole = run.capture("R1-in").read_bytes()
    size = 16 + 54  # of a record
    swapped = whole[: -2 * size] + whole[-size:] + whole[-2 * size : -size]
    before = analyse(run)["metrics"]
    run.capture("R1-in").write_bytes(swapped)
    assert analyse(run)["metrics"] == before


def test_node_without_a_clock_is_named(run: RunFiles) -> None:
    edit(run, "epoch.json", lambda epoch: epoch["nodes"].pop("R1"))
    with pytest.raises(TraceError, match="the clock of R1 is not known, only those of S"):
        analyse(run)


def test_epoch_of_another_form_is_refused(run: RunFiles) -> None:
    edit(run, "epoch.json", lambda epoch: epoch["nodes"]["S"].pop("drift_ppm"))
    with pytest.raises(TraceError, match="not an agreed epoch: KeyError 'drift_ppm'"):
        analyse(run)


def test_clocks_and_starts_are_told(run: RunFiles) -> None:
    found = checks(run)
    assert found["clocks_agree"] == (True, "2 clocks, known to 0.40 ms, drift up to 40.0 ppm")
    assert found["started_on_time"] == (True, "4 instants, at most 11.0 ms late")


WRONG: dict[str, tuple[str, str, str, Callable[[Any], object]]] = {
    "uncertain": (
        "clocks_agree",
        "S: known to 25.0 ms only, limit 20 ms",
        "epoch.json",
        lambda epoch: epoch["nodes"]["S"].update(uncertainty_ns=25 * MS),
    ),
    "set by hand": (
        "clocks_agree",
        "R1: 29.2 ms off a steady drift, limit 5 ms",
        "clock.json",
        lambda found: found["R1"][1].update(offset_ns=found["R1"][1]["offset_ns"] + 30 * MS),
    ),
    "much drift": (
        "clocks_agree",
        "S: drifts by 700 ppm, limit 500 ppm",
        "epoch.json",
        lambda epoch: epoch["nodes"]["S"].update(drift_ppm=700.0),
    ),
    "not measured": (
        "clocks_agree",
        "S: stats/clock.json has no measurement of it",
        "clock.json",
        lambda found: found.pop("S"),
    ),
    "no clocks": (
        "clocks_agree",
        "stats/epoch.json has no clock of any node",
        "epoch.json",
        lambda epoch: epoch.pop("nodes"),
    ),
    "late program": (
        "started_on_time",
        "receivers-D: 0.300 s late; limit 0.25 s",
        "lateness.json",
        lambda late: late.update({"receivers-D": 0.3}),
    ),
    "many late programs": (
        "started_on_time",
        "c: 9.000 s late; b: 8.000 s late; a: 7.000 s late; 1 more of 8",
        "lateness.json",
        lambda late: late.update({"a": 7, "b": 8, "c": 9, "d": 0.5}),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_the_time_is_named(run: RunFiles, case: str) -> None:
    name, detail, path, change = WRONG[case]
    edit(run, path, change)
    ok, said = checks(run)[name]
    assert ok is False
    assert detail in said


SECOND = 10**9


def steady(_at: int) -> int:
    return 0


def slewed(at: int) -> int:
    """500 parts in a million faster for 40 s, then as much slower."""
    return round(500e-6 * max(0, min(at - 10 * SECOND, 90 * SECOND - at)))


def set_and_set_back(at: int) -> int:
    return 30 * MS if 31 * SECOND < at < 44 * SECOND else 0


def beats(error: Callable[[int], int], trip: int = MS) -> list[dict[str, int]]:
    """Two measurements of R1's clock 100 s apart, and an exchange every 5 s between them."""
    ahead, ppm = AHEAD["R1"]

    def one(at: int, error_ns: int, round_trip: int) -> dict[str, int]:
        offset = ahead + round(at * ppm / 1e6) + error_ns
        return {"at_ns": EPOCH + at, "offset_ns": offset, "round_trip_ns": round_trip}

    ends = [one(at, 0, MS) for at in (0, 100 * SECOND)]
    between = [one(at, error(at), trip) for at in range(5 * SECOND, 100 * SECOND, 5 * SECOND)]
    return [ends[0], *between, ends[1]]


def noise(at: int) -> int:
    """An answer that came from anywhere within a round trip of 80 ms."""
    return 39 * MS * (-1) ** (at // (5 * SECOND))


@pytest.mark.parametrize(
    ("error", "trip", "told"),
    [
        (steady, MS, None),
        (slewed, MS, "R1: 19.1 ms off a steady drift"),
        (set_and_set_back, MS, "R1: 29.1 ms off a steady drift"),
        (noise, 80 * MS, None),
        (noise, 60 * MS, "R1: 8.6 ms off a steady drift"),
    ],
)
def test_clock_that_strayed_between_the_measurements_is_found(
    run: RunFiles, error: Callable[[int], int], trip: int, told: str | None
) -> None:
    edit(run, "clock.json", lambda found: found.update(R1=beats(error, trip)))
    ok, said = checks(run)["clocks_agree"]
    assert ok is (told is None)
    assert told is None or told in said


def test_sample_that_was_read_late_is_named(run: RunFiles) -> None:
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[3]["time_ns"] += 400 * MS
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok, said = checks(run)["started_on_time"]
    assert (ok, said.partition(" s late")[0]) == (False, "TCP_INFO at the window's end: 0.400")


def test_lateness_that_was_not_recorded_is_missed(run: RunFiles) -> None:
    (run.stats / "lateness.json").unlink()
    assert checks(run)["started_on_time"] == (False, "stats/lateness.json is missing")


@pytest.mark.parametrize(("told", "ok"), [(-960, False), (0, True), (960, True), (1920, False)])
def test_acknowledgement_near_the_reading_may_count_or_not(
    run: RunFiles, told: int, ok: bool
) -> None:
    """Flow 1 has 39 segments acknowledged by 1.3 s, and the last one at 2.5 s."""
    path = run.stats / "senders-S.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[3]["time_ns"] -= 540 * MS  # read at 2.46 s: 40 ms before that acknowledgement
    rows[3]["bytes_acked"] = 39 * 960 + 1 + told
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert checks(run)["goodput_matches_tcp_info"][0] is ok


def test_drops_from_before_the_run_do_not_count(run: RunFiles) -> None:
    path = run.stats / "dev-S.txt"
    path.write_text(path.read_text().replace("800 8 0 0", "800 8 0 4"))
    assert checks(run)["no_unplanned_loss"][0] is False
    (run.stats / "dev-before-S.txt").write_text("  S-R0: 0 0 0 0 0 0 0 0 0 0 0 4 0 0 0 0\n")
    assert checks(run)["no_unplanned_loss"] == (True, "3 devices, no drops")


def test_iperf3_on_real_clocks_needs_no_sample(run: RunFiles) -> None:
    make_iperf3(run)
    found = checks(run)
    assert found["started_on_time"] == (True, "2 instants, at most 11.0 ms late")
    assert found["timeouts_match_kernel"] == (
        True,
        "captures 1, kernel 1 (TcpExtTCPTimeouts of all connections, none of each flow)",
    )
    assert [c for c, (ok, _) in found.items() if ok is False] == []


def test_packets_in_a_machine_that_stood_still_are_not_lost(tmp_path: Path) -> None:
    """R1 halts for 3 s while the last packet is in its queue, which could keep it for 0.5 s."""

    def halted(node: str, at: int) -> int:
        return stamp(node, at + 3000 * MS if node == "R1" and at > 2300 * MS else at)

    found = checks(make_real(build_run(tmp_path / "run", halted)))
    assert found["loss_matches_qdisc"] == (
        True,
        "captures 1, qdisc 1, left without entering 0",
    )

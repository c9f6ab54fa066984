"""A box between two captures: its numbers are those of the run, whatever the clocks show."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import run_builder
import zstandard
from pcap_builder import segment
from run_builder import MS, PAYLOAD, SERVICE_NS, build_run

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.definitions import mean_run, run_lengths, tally
from tcpf_lab.metrics.device import DeviceOptions, MatchedCaptures, describe_device, match_captures
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return build_run(tmp_path / "run")


def both(files: RunFiles, asked: DeviceOptions) -> MatchedCaptures:
    return match_captures(files.capture("R1-in"), files.capture("R1-out"), asked)


def shifted(capture: Path, target: Path, seconds: int, ppm: int = 0) -> Path:
    """Write a capture again, by a clock that shows so many seconds more, and is so much faster."""
    data = capture.read_bytes()
    if data[:4] == b"\x28\xb5\x2f\xfd":
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    out, at, first = bytearray(data), 24, 0
    while at < len(out):
        time, part = (int.from_bytes(out[at + k : at + k + 4], "little") for k in (0, 4))
        first = time * 10**9 if at == 24 else first
        late = ppm * (time * 10**9 + part - first) // 10**6
        time, part = divmod((time + seconds) * 10**9 + part + late, 10**9)
        out[at : at + 8] = time.to_bytes(4, "little") + part.to_bytes(4, "little")
        at += 16 + int.from_bytes(out[at + 8 : at + 12], "little")
    target.write_bytes(bytes(out))
    return target


def as_judged(files: RunFiles) -> DeviceOptions:
    """Ask for the packets that the run's own metrics are about."""
    record = read_captured(files)
    first = int(record.captures["ingress"].packets["time_ns"][0])
    start, end = record.window_ns
    return DeviceOptions(record.max_delay_ns, 0, start - first, end - record.max_delay_ns - first)


def test_numbers_agree_with_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run_builder.timeline()  # and traffic goes on after what was measured, as in every run
    late = segment(1 + PAYLOAD * 20, sport=20000, ip_id=90)
    made.data(3300 * MS, 3300 * MS + SERVICE_NS, late)
    monkeypatch.setattr(run_builder, "timeline", lambda: made)
    run = build_run(tmp_path / "run")
    metrics = analyse(run)
    found = describe_device(both(run, as_judged(run)))
    assert found["loss"]["loss_percent"] == metrics["metrics"]["loss_percent"]
    assert found["loss"]["packet_loss_percent"] == metrics["metrics"]["packet_loss_percent"]
    told = {code: dict(row) for code, row in metrics["by_dscp"].items()}
    assert [row.pop("packets_per_s") for row in told.values()] == [61 / 1.5]
    assert found["by_dscp"] == told
    assert found["delay"]["mean_s"] == metrics["metrics"]["queueing_delay_mean_s"]
    assert found["delay"]["p95_s"] == metrics["metrics"]["queueing_delay_p95_s"]
    assert found["loss"]["packets_lost"] > 0


@pytest.mark.parametrize("seconds", [7200, -7])
def test_a_clock_that_is_hours_off_changes_no_number(
    recorded: Path, tmp_path: Path, seconds: int
) -> None:
    pcap = recorded / "pcap"
    moved = shifted(pcap / "R1-out.pcap.zst", tmp_path / "out.pcap", seconds)
    one_clock = match_captures(pcap / "R1-in.pcap.zst", pcap / "R1-out.pcap.zst")
    two_clocks = match_captures(pcap / "R1-in.pcap.zst", moved)
    a, b = describe_device(one_clock), describe_device(two_clocks)
    for name in ("packets", "loss", "by_dscp", "remarked", "runs", "delay", "flows", "over_time"):
        assert a[name] == b[name], name
    assert b["clock"]["offset_ns"] - a["clock"]["offset_ns"] == seconds * 10**9


def test_offset_and_drift_together_lose_the_same_packets(recorded: Path, tmp_path: Path) -> None:
    pcap = recorded / "pcap"
    before, after = pcap / "R1-in.pcap.zst", pcap / "R1-out.pcap.zst"
    moved = shifted(after, tmp_path / "out.pcap", 3, 40)
    one_clock, two_clocks = match_captures(before, after), match_captures(before, moved)
    a, b = one_clock.passage.transit, two_clocks.passage.transit
    assert a.lost.any()
    assert a.lost.tolist() == b.lost.tolist()
    found = describe_device(two_clocks)["clock"]
    assert found["offset_ns"] == pytest.approx(3 * 10**9, abs=10**6)


def test_captures_of_two_boxes_are_doubted(recorded: Path, tmp_path: Path) -> None:
    before, after = (recorded / "pcap" / f"R1-{side}.pcap.zst" for side in ("in", "out"))
    assert match_captures(before, after).warnings == ()
    read = zstandard.ZstdDecompressor().stream_reader(before.read_bytes()).read()
    part, at, number = bytearray(read[:24]), 24, 0
    while at < len(read):  # one of four that came
        size = 16 + int.from_bytes(read[at + 8 : at + 12], "little")
        part += read[at : at + size] if number % 4 == 0 else b""
        at, number = at + size, number + 1
    (tmp_path / "part.pcap").write_bytes(part)
    (doubt,) = match_captures(tmp_path / "part.pcap", after, DeviceOptions(offset_ns=0)).warnings
    assert "packets that left had come: are these the two sides of one box" in doubt


def test_parts_add_up_to_the_whole(recorded: Path) -> None:
    pcap = recorded / "pcap"
    asked = DeviceOptions(bin_ns=100_000_000)
    crossed = match_captures(pcap / "R1-in.pcap.zst", pcap / "R1-out.pcap.zst", asked)
    found = describe_device(crossed)
    for key in ("packets", "packets_lost"):
        whole = found["loss"][key]
        assert sum(row[key] for row in found["flows"]) == whole
        assert sum(row[key] for row in found["over_time"]) == whole
        assert sum(row[key] for row in found["by_dscp"].values()) == whole
    for runs in found["runs"].values():
        total = sum(int(length) * count for length, count in runs["lengths"].items())
        assert total == found["loss"]["packets_lost"]
    assert found["packets"]["counted"] <= found["packets"]["entered"]


def test_times_leave_out_more_and_judge_nothing_that_cannot_be(recorded: Path) -> None:
    pcap = recorded / "pcap"
    captures = (pcap / "R1-in.pcap.zst", pcap / "R1-out.pcap.zst")
    whole = match_captures(*captures, DeviceOptions(offset_ns=0))
    came = whole.passage.transit.arrival_ns - whole.passage.transit.arrival_ns[0]
    assert whole.outside == 0
    assert not whole.judged.all()
    wide = match_captures(*captures, DeviceOptions(offset_ns=0, from_ns=0, to_ns=10**15))
    assert wide.judged.tolist() == whole.judged.tolist()
    start, end = 2 * 10**9, 4 * 10**9
    part = match_captures(*captures, DeviceOptions(offset_ns=0, from_ns=start, to_ns=end))
    inside = (came >= start) & (came < end)
    assert part.judged.tolist() == (inside & whole.judged).tolist()
    assert describe_device(part)["packets"]["outside"] == part.outside == np.sum(~inside)
    with pytest.raises(TraceError, match="no packet that came in this time") as caught:
        match_captures(*captures, DeviceOptions(offset_ns=0, from_ns=10**15))
    assert "those from 0.0" in caught.value.hint


def test_empty_capture_is_named(recorded: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    with pytest.raises(TraceError, match="no IP packet") as caught:
        match_captures(recorded / "pcap" / "R1-in.pcap.zst", empty)
    assert caught.value.where == str(empty)


def test_truncated_capture_is_used_and_named(run: RunFiles, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(run.capture("R1-out").read_bytes()[:-5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = describe_device(match_captures(run.capture("R1-in"), cut))
    assert len(found["warnings"]) == 1
    assert "cut.pcap: truncated in packet" in found["warnings"][0]


def test_runs_of_lost_packets() -> None:
    lost = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], bool)
    assert run_lengths(lost).tolist() == [2, 1, 3]
    assert run_lengths(lost, [1, 2, 1, 2, 1, 1, 1, 2, 2]).tolist() == [1, 1, 4]
    assert run_lengths(np.zeros(3, bool)).tolist() == []
    assert run_lengths(np.empty(0, bool), np.empty(0, int)).tolist() == []
    assert tally(run_lengths(lost)) == {"1": 1, "2": 1, "3": 1}
    assert mean_run(run_lengths(lost)) == 2.0
    assert mean_run(run_lengths(np.zeros(3, bool))) is None

"""A box seen from both sides: clocks that differ, packets that look alike, traffic both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pcap_builder import Pcap, acknowledgement, ethernet, ip6, segment, tcp, timestamp_option

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.packet import PACKET, Packets
from tcpf_lab.trace.passage import Marks, Passage, passage

#: What one clock gains on another at most, as far as it is believed.
LARGEST_DRIFT = 5e-4
MS = 1_000_000
S = 1000 * MS
START = 10**18


def stream(count: int, gap_ns: int = 10 * MS, *, src: int = 1, dst: int = 2) -> Packets:
    """Give segments of one flow, one every ``gap_ns``; each has a number of its own."""
    packets = np.zeros(count, PACKET)
    packets["time_ns"] = START + gap_ns * np.arange(count)
    packets["src"], packets["dst"], packets["protocol"] = src, dst, 6
    packets["seq"] = 960 * np.arange(count)
    packets["ip_id"] = np.arange(count) % 65536
    packets["ip_length"], packets["wire_length"], packets["payload"] = 1000, 1014, 960
    packets["record"] = np.arange(count)
    return packets


def later(packets: Packets, by_ns: np.ndarray | int) -> Packets:
    """Give the same packets at other times, in the order of these."""
    moved = packets.copy()
    moved["time_ns"] += by_ns
    return moved[np.argsort(moved["time_ns"], kind="stable")]


def passed(first: Packets, second: Packets, **known: int) -> Passage:
    marks = Marks()
    return passage(
        marks.of(first), marks.of(second), marks.ends, **{"max_delay_ns": 2 * S, **known}
    )


def sawtooth(count: int, most_ns: int = 50 * MS) -> np.ndarray:
    """Give stays in a queue that fills over and over, and is empty in between."""
    return (np.arange(count) % 20) * (most_ns // 20) + MS


@pytest.mark.parametrize("offset", [0, 7 * 3600 * S, -5 * S, 86_400 * 365 * S])
def test_offset_of_the_clocks_may_exceed_every_delay(offset: int) -> None:
    first, stay = stream(1000), sawtooth(1000)
    kept = np.arange(1000) % 7 > 0
    found = passed(first, later(first[kept], stay[kept] + offset))
    assert found.clock.offset_ns == offset + MS  # the least delay cannot be told from it
    assert found.clock.drift == 0.0
    assert not found.clock.ambiguous
    assert found.transit.lost.tolist() == (~kept).tolist()
    delay = (found.transit.departure_ns - found.transit.arrival_ns)[kept]
    assert delay.tolist() == (stay[kept] - MS).tolist()
    assert found.foreign == 0


def test_least_delay_counts_zero_also_of_packets_that_have_equals() -> None:
    """The clocks are estimated from packets that are unlike any other, where these suffice."""
    first, stay = stream(300), np.full(300, 2 * MS)
    first["ip_id"] = 0
    first["seq"][150] = first["seq"][120]
    stay[[120, 150]] = MS
    found = passed(first, later(first, stay + 5 * S))
    assert found.clock.offset_ns == 5 * S + MS
    delay = found.transit.departure_ns - found.transit.arrival_ns
    assert delay.tolist() == (stay - MS).tolist()


def test_offset_that_is_given_leaves_delays_whole() -> None:
    first, stay = stream(100), sawtooth(100)
    found = passed(first, later(first, stay + 5 * S), offset_ns=5 * S)
    assert found.clock.given
    assert (found.transit.departure_ns - found.transit.arrival_ns).tolist() == stay.tolist()


@pytest.mark.parametrize("drift", [1e-4, -4e-5])
def test_drift_is_found_where_the_queue_is_often_empty(drift: float) -> None:
    first, stay = stream(20_000, 3 * MS), sawtooth(20_000)
    left = first["time_ns"] + stay
    gained = np.rint((left - START) * drift).astype(np.int64)
    found = passed(first, later(first, stay + gained + 3600 * S))
    assert found.clock.drift == pytest.approx(drift, rel=0.02)
    delay = found.transit.departure_ns - found.transit.arrival_ns
    assert np.max(np.abs(delay - (stay - MS))) < 200_000


def test_repeat_without_identification_is_matched_by_its_delay() -> None:
    """A sender that does not number its packets sends one again; the original was lost."""
    first = stream(300, 10 * MS)
    first["ip_id"] = 0
    first["seq"][150] = first["seq"][120]  # 300 ms later
    kept = np.arange(300) != 120
    found = passed(first, later(first[kept], 4 * MS), offset_ns=0)
    assert np.flatnonzero(found.transit.lost).tolist() == [120]


def test_time_stamps_tell_repeats_apart_if_both_captures_have_them() -> None:
    first = stream(4, 10 * MS)
    first["ip_id"], first["seq"], first["timestamps"] = 0, 7, 1
    first["tsval"] = [1, 1, 2, 3]
    left = later(first[2:], 5 * MS)
    assert passed(first, left, offset_ns=0).transit.lost.tolist() == [True, True, False, False]
    left["timestamps"] = 0  # the second capture was cut off before the options
    assert passed(first, left, offset_ns=0).foreign == 0


def test_packets_marked_underway_are_the_same_packets() -> None:
    first = stream(50)
    first["tos"], first["ttl"] = 10 << 2 | 1, 64
    left = later(first, MS)
    left["tos"][:10], left["tos"][10:], left["ttl"] = 12 << 2 | 1, 10 << 2 | 3, 63
    found = passed(first, left)
    assert not found.transit.lost.any()
    assert (found.tos_out >> 2).tolist() == [12] * 10 + [10] * 40


def test_copies_are_not_packets_that_never_came() -> None:
    first = stream(200)
    left = later(np.concatenate([first, first[50:60]]), 3 * MS)
    left["time_ns"][-1] += 1
    found = passed(first, left)
    assert (found.transit.copies, found.foreign) == (10, 0)
    assert not found.transit.lost.any()


def test_overtaken_packets_are_those_that_left_behind_later_ones() -> None:
    first = stream(200)
    stay = np.full(200, 3 * MS)
    stay[100] = 25 * MS  # 101 and 102 leave before it
    found = passed(first, later(first, stay))
    assert np.flatnonzero(found.overtaken).tolist() == [100]


def passed_both_ways(there: Packets, back: Packets) -> Passage:
    """Check 500 packets each way, 5 ms there and 2 ms back, by a second clock 9 s ahead."""
    first = np.concatenate([there, later(back, 2 * MS)])
    second = later(np.concatenate([later(there, 5 * MS), back]), 9 * S)
    found = passed(first[np.argsort(first["time_ns"])], second)
    assert found.back == (500, 500)
    assert found.transit.lost.sum() == 0
    assert found.clock.between_ns == (9 * S - 2 * MS, 9 * S + 5 * MS)
    return found


def test_traffic_back_is_told_from_loss_and_bounds_the_offset() -> None:
    there, back = stream(500), stream(500, src=2, dst=1)
    back["flags"], back["time_ns"] = 16, back["time_ns"] + 4 * MS
    found = passed_both_ways(there, back)
    assert found.clock.offset_ns == 9 * S + 5 * MS


def test_ipv6_hosts_of_one_identifier_are_two_hosts() -> None:
    """Routers' ends of two networks: both are ``::1`` below their prefixes."""
    networks = 0x20010DB8 << 32, 0x20010DB8 << 32 | 1
    there, back = stream(500, dst=1), stream(500, dst=1)
    back["flags"], back["time_ns"] = 16, back["time_ns"] + 4 * MS
    for packets, ends in ((there, networks), (back, networks[::-1])):
        packets["src_high"], packets["dst_high"] = ends
    passed_both_ways(there, back)


def test_clocks_that_drift_as_far_as_is_believed_lose_no_packet_to_the_votes() -> None:
    """Most votes are of the first second, and the last packets are far from them."""
    first = stream(4000)
    first["time_ns"][:2000] = START + np.arange(2000) * MS // 2
    first["time_ns"][2000:] = START + np.arange(2000) * 50 * MS + S
    moved = np.rint(0.9 * LARGEST_DRIFT * (first["time_ns"] - START)).astype(np.int64)
    found = passed(first, later(first, moved + MS), max_delay_ns=2 * MS)
    assert found.clock.coincidences == 4000
    assert found.clock.drift == pytest.approx(0.9 * LARGEST_DRIFT, rel=1e-3)
    assert found.transit.lost.sum() == 0


def test_copies_of_both_directions_with_one_delay_both_cross() -> None:
    """A tap hands both directions on: neither is the way back."""
    there, back = stream(300), stream(300, src=2, dst=1)
    first = later(np.concatenate([there, back]), 0)
    found = passed(first, later(first, 3 * MS))
    assert found.back == (0, 0)
    assert found.entered.size == 600
    assert not found.transit.lost.any()


def test_hosts_of_which_nothing_crossed_are_left_out() -> None:
    first = np.concatenate([stream(100), stream(40, src=8, dst=9)])
    found = passed(first[np.argsort(first["time_ns"])], later(stream(100), MS))
    assert found.elsewhere == (40, 0)
    assert found.entered.size == 100


def test_packets_near_an_end_of_the_second_capture_are_not_judged() -> None:
    first = stream(1000)
    left = later(first, np.where(np.arange(1000) == 500, 40 * MS, 25 * MS))
    found = passed(first, left[100:900], offset_ns=0)
    start, end = found.judged_ns
    judged = (first["time_ns"] >= start) & (first["time_ns"] <= end)
    assert not found.transit.lost[judged].any()
    assert judged.sum() > 780
    assert found.transit.lost.sum() == 200


def test_captures_without_a_common_packet_are_a_message() -> None:
    with pytest.raises(TraceError, match="no packet in common"):
        passed(stream(50), stream(50, src=5))


def test_captures_in_the_wrong_order_are_a_message() -> None:
    first = stream(50)
    with pytest.raises(TraceError, match="nothing goes from the first capture"):
        passed(later(first, 20 * MS), first, offset_ns=0)


def test_an_offset_that_another_equals_is_said_to_be_ambiguous() -> None:
    """Equal packets once a minute for an hour: nothing tells which minute is which."""
    packets = stream(60, 60 * S)
    packets["seq"], packets["ip_id"] = 5, 5
    assert passed(packets[:8], later(packets[:8], MS)).clock.ambiguous is False
    one_more = later(packets[:30], 30 * S)
    found = passed(packets[:30], one_more)
    assert found.clock.ambiguous


def ipv6_frames() -> Iterator[tuple[int, bytes]]:
    src, dst = (
        bytes.fromhex("20010db8" + "0" * 23 + "1"),
        bytes.fromhex("20010db8" + "0" * 23 + "2"),
    )
    for i in range(60):
        options = timestamp_option(100 + i, 7)
        head = tcp(20000, 5001, seq=960 * (i // 2), ack=1, options=options)
        yield 10 * i, ethernet(ip6(head, src=src, dst=dst, payload=960), kind=0x86DD)


def test_ipv6_is_matched_by_sequence_number_and_time_stamp(tmp_path: Path) -> None:
    entered, left = Pcap(), Pcap()
    for i, (at, frame) in enumerate(ipv6_frames()):
        entered.add(START + MS * at, frame)
        if i % 5:
            left.add(START + MS * (at + 40), frame)
    marks = Marks()
    first, _ = marks.read(entered.write(tmp_path / "in.pcap"))
    second, _ = marks.read(left.write(tmp_path / "out.pcap"))
    found = passage(first, second, marks.ends, max_delay_ns=S)
    assert np.flatnonzero(found.transit.lost).tolist() == list(range(0, 60, 5))


def test_ends_keep_their_numbers_while_their_table_grows() -> None:
    many = np.zeros(30_000, PACKET)
    many["src"], many["dst"], many["protocol"] = np.arange(30_000) // 3, 7, 17
    marks = Marks()
    assert marks.of(many)["flow"].tolist() == (np.arange(30_000) // 3).tolist()
    assert marks.of(many[::-1].copy())["flow"].tolist() == (np.arange(30_000) // 3)[::-1].tolist()
    assert marks.ends["src"].tolist() == list(range(10_000))


def test_capture_is_reduced_block_by_block(tmp_path: Path) -> None:
    capture = Pcap()
    for i in range(9000):
        capture.add(START + i, segment(960 * i, ip_id=i))
    capture.add(START + 10, acknowledgement(5))  # late: two processors handed packets over
    marks = Marks()
    found, problem = marks.read(capture.write(tmp_path / "x.pcap"))
    assert problem == ""
    assert found.size == 9001
    assert np.all(np.diff(found["time_ns"]) >= 0)
    assert found["record"][11] == 9000

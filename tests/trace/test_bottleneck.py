from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcap_builder import Pcap, conversation, segment

from tcpf_lab.metrics.capture import capture_row, flow_row, totals
from tcpf_lab.report.captures import headline, remarks
from tcpf_lab.trace.analysis import KINDS, RULES, UNKNOWN, Analysis, Options, analyse, one_way
from tcpf_lab.trace.packet import ACK, FIN, PACKET, PSH, Packets, read_capture, segments
from tcpf_lab.trace.passage import Transit, backlog, backlogged_rate, cross

MS = 1_000_000


def side(*packets: tuple[float, int, int], length: int = 960) -> Packets:
    """Give packets of (ms, sequence number, IP identification)."""
    array = np.zeros(len(packets), PACKET)
    array["time_ns"] = [round(MS * at) for at, _, _ in packets]
    array["seq"] = [seq for _, seq, _ in packets]
    array["ip_id"] = [ip_id for _, _, ip_id in packets]
    array["ip_length"], array["wire_length"], array["protocol"] = length + 40, length + 54, 6
    return array


def test_packet_that_does_not_leave_is_lost() -> None:
    transit = cross(side((0, 1, 1), (1, 2, 2), (2, 3, 3)), side((5, 1, 1), (6, 3, 3)))
    assert transit.lost.tolist() == [False, True, False]
    assert transit.departure_ns.tolist() == [5 * MS, -1, 6 * MS]
    assert transit.unmatched == 0


def test_retransmission_is_told_from_the_original_by_its_identification() -> None:
    transit = cross(side((0, 1, 1), (100, 1, 2)), side((110, 1, 2)))
    assert transit.lost.tolist() == [True, False]


def test_equal_packets_leave_in_the_order_they_came() -> None:
    transit = cross(side((0, 1, 1), (1, 1, 1), (2, 1, 1)), side((5, 1, 1), (6, 1, 1)))
    assert transit.departure_ns.tolist() == [5 * MS, 6 * MS, -1]


def test_identification_that_comes_round_again_matches_the_recent_packet() -> None:
    transit = cross(side((0, 1, 7), (2000, 1, 7)), side((2010, 1, 7)), max_delay_ns=500 * MS)
    assert transit.departure_ns.tolist() == [-1, 2010 * MS]


def test_a_packet_of_several_segments_becomes_what_a_device_sends() -> None:
    packets = side((1, 2**32 - 1448, 65535), (2, 2897, 9), length=3000)
    packets["payload"], packets["ip_length"], packets["wire_length"] = 2948, 3000, 3014
    packets["src_high"], packets["src"] = 0, 0xFFFF << 32
    packets["flags"] = FIN | PSH | ACK
    packets["record"] = [0, 1]
    packets[1]["payload"], packets[1]["ip_length"] = 1448, 1500
    found = segments(packets, mtu=1500)
    assert found["payload"].tolist() == [1448, 1448, 52, 1448]
    assert found["ip_length"].tolist() == [1500, 1500, 104, 1500]
    assert found["wire_length"].tolist() == [1514, 1514, 118, 3014]
    assert found["seq"].tolist() == [2**32 - 1448, 0, 1448, 2897]
    assert found["ip_id"].tolist() == [65535, 0, 1, 9]
    assert found["flags"].tolist() == [ACK, ACK, FIN | PSH | ACK, FIN | PSH | ACK]
    assert found["record"].tolist() == [0, 0, 0, 1]
    assert segments(packets, mtu=1500, mss=1012)["payload"][:3].tolist() == [1000, 1000, 948]


def test_packet_does_not_leave_before_it_came() -> None:
    transit = cross(side((10, 1, 1)), side((9, 1, 1)))
    assert transit.lost.tolist() == [True]
    assert transit.unmatched == 1


def test_packet_that_stays_too_long_is_no_match() -> None:
    entered, left = side((0, 1, 1)), side((600, 1, 1))
    assert cross(entered, left).unmatched == 1
    assert cross(entered, left, max_delay_ns=700 * MS).unmatched == 0


def test_marker_may_change_the_code_point() -> None:
    left = side((5, 1, 1))
    left["tos"] = 40
    assert cross(side((0, 1, 1)), left).lost.tolist() == [False]


def test_of_equal_packets_one_of_the_same_code_point_is_the_match() -> None:
    entered = side((0, 1, 1), (1, 1, 1))
    entered["tos"] = [12 << 2, 10 << 2 | 2]
    left = side((5, 1, 1))
    left["tos"] = 10 << 2 | 3  # ECN's bits may change on the way
    assert cross(entered, left).departure_ns.tolist() == [-1, 5 * MS]


@pytest.mark.parametrize("column", ["sport", "dport", "src", "dst", "flags", "ip_length", "ip_id"])
def test_every_part_of_the_key_counts(column: str) -> None:
    left = side((5, 1, 1))
    left[column] += 1
    transit = cross(side((0, 1, 1)), left)
    assert (transit.lost.tolist(), transit.unmatched) == ([True], 1)


def test_captures_of_frames_are_matched(tmp_path: Path) -> None:
    entered, left = Pcap(), Pcap()
    for i in range(70_000):  # more than there are identifications
        frame = segment(1 + 960 * (i % 3), ip_id=i % 65536)
        entered.add(1000 * i, frame)
        if i % 10:
            left.add(1000 * i + 500, frame)
    a = read_capture(entered.write(tmp_path / "in.pcap")).packets
    b = read_capture(left.write(tmp_path / "out.pcap")).packets
    transit = cross(a, b, max_delay_ns=5000)
    assert np.flatnonzero(transit.lost).tolist() == list(range(0, 70_000, 10))
    assert transit.unmatched == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_every_departure_is_accounted_for(drawn: list[tuple[int, bool]]) -> None:
    entered = side(*[(i, seq, 1) for i, (seq, _) in enumerate(drawn)])
    left = side(*[(i + 30.5, seq, 1) for i, (seq, stays) in enumerate(drawn) if stays])
    transit = cross(entered, left)
    assert transit.unmatched == 0
    assert int(np.sum(~transit.lost)) == left.size
    for seq in range(4):
        mine = entered["seq"] == seq
        assert np.sum(~transit.lost[mine]) == np.sum(left["seq"] == seq)


def paced(count: int, gap_ms: float, service_ms: float) -> Transit:
    """Give packets that come every ``gap_ms`` to a server that needs ``service_ms`` for each."""
    left, at = [], 0.0
    for i in range(count):
        at = max(at, i * gap_ms) + service_ms
        left.append((at, i, i))
    return cross(
        side(*[(i * gap_ms, i, i) for i in range(count)]), side(*left), max_delay_ns=10**12
    )


def test_rate_is_measured_while_packets_wait() -> None:
    # 1014 bytes in 0.8112 ms are 10 Mbit/s; they come twice as fast.
    found = backlogged_rate(paced(200, 0.4056, 0.8112))
    assert found is not None
    assert found[0] == pytest.approx(10e6, rel=1e-5)
    assert found[1] > 150


def test_idle_queue_has_no_rate() -> None:
    assert backlogged_rate(paced(200, 2.0, 0.8112)) is None


def test_empty_queue_has_no_rate() -> None:
    assert backlogged_rate(cross(side(), side())) is None


def test_burst_at_the_start_of_a_busy_period_is_left_out() -> None:
    # The bucket lets 4 packets pass at once, then one per 0.8112 ms; 60 busy periods.
    came, left = [], []
    for period in range(60):
        base = 100.0 * period
        for i in range(40):
            came.append((base, 40 * period + i, i))
            left.append((base + max(0, i - 3) * 0.8112, 40 * period + i, i))
    found = backlogged_rate(cross(side(*came), side(*left)))
    assert found is not None
    assert found[0] == pytest.approx(10e6, rel=1e-5)


def test_backlog_counts_frames_and_forgets_dropped_packets() -> None:
    transit = cross(side((0, 1, 1), (1, 2, 2), (2, 3, 3)), side((3, 1, 1), (4, 3, 3)))
    line = backlog(transit)
    assert (line.time_ns // MS).tolist() == [0, 2, 3, 4]
    assert line.size.tolist() == [1014, 2028, 1014, 0]


# Captures of one direction: what they cannot tell is not told.

#: Of a retransmission in a flow without acknowledgements.
NOTHING_BACK = 22
Lab = Callable[..., tuple[int, str, str]]
#: A SYN and two segments are sent again; then there is new data.
SENT = """
0.0     > SYN
1.0     > SYN
1.2     > 1:961
1.2     > 961:1921
1.4     > 1921:2881
2.5     > 961:1921
2.6     > 1:961
3.0     > 2881:3841
"""
BACK = "0.2 < SYN-ACK\n0.4 < ack 961\n0.6 < ack 1921"


def analysed(tmp_path: Path, *tables: str) -> Analysis:
    made = Pcap()
    for port, table in enumerate(tables, 20000):
        conversation(table, sport=port, into=made)
    return analyse(made.write(tmp_path / "x.pcap"), options=Options(probes=False))


def said(analysis: Analysis) -> str:
    flows = [flow_row(analysis, row) for row in range(analysis.flows.size)]
    told = {**capture_row(analysis), "flows": flows, "totals": totals(flows)}
    return "\n".join(map(str, (headline(told), *remarks(told))))


@pytest.mark.parametrize("first", [0, 2], ids=["with its SYN", "from the middle on"])
def test_data_without_acknowledgements_is_sent_again_for_an_unknown_reason(
    tmp_path: Path, first: int
) -> None:
    analysis = analysed(tmp_path, "\n".join(SENT.split("\n")[1 + first :]))
    assert (analysis.at, one_way(analysis.flows).tolist()) == ("between", [True])
    data = analysis.events[analysis.events["length"] > 0]
    assert data["kind"].tolist() == [UNKNOWN] * 2
    assert data["rule"].tolist() == [NOTHING_BACK] * 2
    assert NOTHING_BACK in RULES
    row = flow_row(analysis, 0)
    assert (row["one_way"], row["retransmissions"]) == (True, 2)
    assert [row[name] for name in ("timeouts", "timeout_episodes", "acked_bytes")] == [None] * 3
    assert row["syn_timeouts"] == (1 if first == 0 else 0), "a SYN is sent again by its timer only"
    assert totals([row])["timeouts"] is None
    assert "taken where only one direction passes" in said(analysis)
    assert "no acknowledgements: causes of retransmissions are unknown" in said(analysis)


def test_acknowledgements_without_their_data_are_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, BACK)
    assert (analysis.at, analysis.flows["data_packets"].tolist()) == ("between", [0])
    assert "acknowledgements only" in said(analysis)
    middle = analysed(tmp_path, "0.4 < ack 961\n0.6 < ack 1921")
    assert middle.flows.size == 0
    assert "none of its TCP packets carries data, or begins a connection" in said(middle)


def test_sender_that_is_cut_off_has_timeouts(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, "0.0 > 1:961\n0.0 > 961:1921\n3.1 > 1:961\n9.2 > 1:961")
    assert [KINDS[int(kind)] for kind in analysis.events["kind"]] == ["rto", "rto"]
    assert not np.any(one_way(analysis.flows))
    assert analysis.at == "sender"
    assert "no handshake" in said(analysis)


def test_flows_of_both_directions_are_told_from_those_of_one(tmp_path: Path) -> None:
    whole = "0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.4 < ack 961\n1 > 961:1921"
    analysis = analysed(tmp_path, whole + "\n1.2 < ack 1921", SENT, "0 > SYN\n1 > SYN")
    assert one_way(analysis.flows).tolist() == [False, True, False]
    row = capture_row(analysis)
    assert (row["flow_count"], row["one_way_count"], row["handshake_count"]) == (3, 1, 1)
    assert "no acknowledgements of 1 of 3 flows" in said(analysis)
    rows = [flow_row(analysis, flow) for flow in range(3)]
    assert [row["timeouts"] for row in rows] == [0, None, 0]
    assert totals(rows)["acked_bytes"] == 1920


def test_capture_before_the_queue_has_one_direction(lab: Lab, recorded: Path) -> None:
    files = [recorded / "pcap" / f"{name}.pcap.zst" for name in ("S", "R1-in")]
    sender, before = (analyse(path, options=Options(probes=False)) for path in files)
    assert (sender.at, before.at) == ("sender", "between")
    again = sender.flows["counts"][:, : UNKNOWN + 1].sum(axis=1)
    assert before.flows["counts"][:, UNKNOWN].tolist() == again.tolist()
    status, text, _ = lab("analyze", files[1])
    assert status == 0
    assert "taken where only one direction passes" in text.replace("\n", " ")
    assert "timeouts" in text

from __future__ import annotations

from pathlib import Path

import pytest
from pcap_builder import D, Pcap, S, acknowledgement, conversation, ethernet, ip4, segment, tcp

from tcpf_lab.trace.packet import Packets, find_flows, read_capture


def packets(tmp_path: Path, *frames: bytes) -> Packets:
    capture = Pcap()
    for i, frame in enumerate(frames):
        capture.add(i, frame)
    return read_capture(capture.write(tmp_path / "x.pcap")).packets


def test_data_sender_is_the_source_whoever_comes_first(tmp_path: Path) -> None:
    flows = find_flows(packets(tmp_path, acknowledgement(1), segment(1), acknowledgement(961)))
    assert flows.count == 1
    assert (flows.sport[0], flows.dport[0]) == (20000, 5001)
    own, back = flows.split(0)
    assert (own.tolist(), back.tolist()) == ([1], [0, 2])


def test_connection_without_data_runs_from_its_syn(tmp_path: Path) -> None:
    answer = acknowledgement(1, flags=18)
    flows = find_flows(packets(tmp_path, answer, segment(0, 0, flags=2)))
    assert (flows.sport.tolist(), flows.dport.tolist()) == ([20000], [5001])


def test_connection_with_data_both_ways_makes_two_flows(tmp_path: Path) -> None:
    answer = ethernet(ip4(tcp(5001, 20000), src=D, dst=S, payload=100))
    flows = find_flows(packets(tmp_path, segment(1), answer))
    assert flows.sport.tolist() == [20000, 5001]
    assert flows.connection.tolist() == [0, 0]
    assert [part.tolist() for part in flows.split(1)] == [[1], [0]]


def test_interleaved_connections_are_told_apart_by_all_four_fields(tmp_path: Path) -> None:
    frames = [segment(1, sport=20000 + i % 3) for i in range(9)]
    swapped = ethernet(ip4(tcp(20000, 5001), src=D, dst=S, payload=10))
    flows = find_flows(packets(tmp_path, *frames, swapped))
    assert flows.sport.tolist() == [20000, 20001, 20002, 20000]
    assert flows.split(1)[0].tolist() == [1, 4, 7]
    assert flows.split(3)[0].tolist() == [9]


def test_packets_of_other_protocols_belong_to_no_flow(tmp_path: Path) -> None:
    flows = find_flows(packets(tmp_path, ethernet(ip4(bytes(8), protocol=17)), segment(1)))
    assert flows.count == 1
    assert flows.order.tolist() == [1]


def test_no_packets_no_flows(tmp_path: Path) -> None:
    assert find_flows(packets(tmp_path)).count == 0


@pytest.mark.parametrize("count", [1, 1024, 3000])
def test_many_connections_are_all_found(tmp_path: Path, count: int) -> None:
    frames = [segment(1, sport=10000 + i) for i in range(count)] * 2
    flows = find_flows(packets(tmp_path, *frames))
    assert flows.sport.tolist() == [10000 + i for i in range(count)]
    assert flows.split(count - 1)[0].tolist() == [count - 1, 2 * count - 1]


def test_conversation_table_is_one_flow(tmp_path: Path) -> None:
    capture, _ = conversation("0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.4 < ack 961")
    flows = find_flows(read_capture(capture.write(tmp_path / "x.pcap")).packets)
    assert flows.count == 1

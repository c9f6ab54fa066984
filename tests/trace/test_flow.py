from __future__ import annotations

from pathlib import Path

import dpkt
import pytest
from pcap_builder import D, Pcap, S, acknowledgement, conversation, ethernet, ip4, ip6, segment, tcp
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli.main import app
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


# From an event to its packets: a second opinion by dpkt on what the analysis read.

SENDERS = Path(__file__).parents[1] / "data" / "senders"


@pytest.mark.parametrize("sender", ["modern", "bbr", "newreno"])
def test_events_are_what_dpkt_sees_sent_again(sender: str) -> None:
    path = SENDERS / f"{sender}.pcap.zst"
    events = tcpf_lab.analyze(path).events
    assert len(events) > 9
    for _, event in events.iloc[:: len(events) // 9].iterrows():
        frames = tcpf_lab.packets(path, event, around=400)
        (own,) = (frame for frame in frames if frame.record == event["record"])
        assert own.forward
        assert own.time_ns == event["time_ns"]
        assert (own.payload, own.tcp.sport) == (event["payload_bytes"], event["sport"])
        before = [f for f in frames if f.forward and f.record < own.record]
        assert any(f.tcp.seq == own.tcp.seq and f.payload for f in before)
        assert all(f.tcp.dport == event["sport"] for f in frames if not f.forward)


def test_frames_of_ipv6_and_of_no_event(tmp_path: Path) -> None:
    hosts = {"src": bytes(15) + b"\x01", "dst": bytes(15) + b"\x02"}
    frame = ethernet(ip6(tcp(7, 8, seq=1), payload=5, **hosts), kind=0x86DD)
    path = Pcap().add(0, frame).add(10**9, frame).write(tmp_path / "x.pcap")
    event = tcpf_lab.analyze(path).events.iloc[0]
    frames = tcpf_lab.packets(path, event)
    assert [type(frame.packet) for frame in frames] == [dpkt.ethernet.Ethernet] * 2
    with pytest.raises(RequestError, match="no packet of this connection is record 77"):
        tcpf_lab.packets(path, {**event, "record": 77})


def test_frames_that_dpkt_cannot_read_are_refused(tmp_path: Path) -> None:
    hdlc = Pcap(link=104)
    for frame in conversation("0.0 > 1:961\n1.0 > 1:961")[0].records:
        hdlc.add(0, b"\x0f\x00\x08\x00" + frame[16 + 14 :])
    path = hdlc.write(tmp_path / "x.pcap")
    event = tcpf_lab.analyze(path).events.iloc[0]
    with pytest.raises(RequestError, match="cannot read frames of link type 104"):
        tcpf_lab.packets(path, event)


def test_packets_around_an_event_are_shown(tmp_path: Path) -> None:
    talk = "0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.2 > 961:1921\n0.4 < ack 1 sack 961:1921\n"
    path = conversation(talk + "1.0 > 1:961")[0].write(tmp_path / "x.pcap")
    done = CliRunner().invoke(app, ["analyze", str(path), "--packets", "0"])
    assert done.exit_code == 0
    (own,) = (line for line in done.output.splitlines() if line.startswith("*"))
    assert own.split()[1:] == ["5", "+0.000", ">", "1", "960", "A"]
    assert "961-1921" in done.output


@pytest.mark.parametrize("words", [["--packets", "1"], ["--packets", "0", "--json"]])
def test_packets_of_no_event_or_in_another_form_are_refused(
    words: list[str], tmp_path: Path
) -> None:
    path = conversation("0.0 > 1:961\n1.0 > 1:961")[0].write(tmp_path / "x.pcap")
    done = CliRunner().invoke(app, ["analyze", str(path), *words])
    assert done.exit_code != 0


def test_a_cut_end_is_told_beside_the_packets(tmp_path: Path) -> None:
    path = conversation("0.0 > 1:961\n1.0 > 1:961\n2.0 > 961:1921")[0].write(tmp_path / "x.pcap")
    path.write_bytes(path.read_bytes()[:-4])
    done = CliRunner().invoke(app, ["analyze", str(path), "--packets", "0"])
    assert done.exit_code == 0
    assert f"warning: {path}: truncated in packet 3" in done.stderr

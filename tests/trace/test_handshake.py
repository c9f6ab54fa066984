"""What the handshake tells: SACK, distances, who asked for a SYN-ACK, a new connection."""

from __future__ import annotations

from pathlib import Path

import dpkt
import numpy as np
import pytest
from pcap_builder import (
    ACK,
    SYN,
    D,
    Pcap,
    S,
    acknowledgement,
    conversation,
    ethernet,
    ip4,
    ip6,
    segment,
    tcp,
    timestamp_option,
)
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli.main import app
from tcpf_lab.trace.analysis import KINDS, SYN_RTO, Analysis, Options, analyse
from tcpf_lab.trace.follow import KIND_NAMES, classify, follow
from tcpf_lab.trace.packet import Packets, find_flows, read_capture

SECOND = 10**9
START = 10**18
PERMITTED = b"\x04\x02\x01\x01"
AT_SENDER = Options(probes=False, at="sender")


def syn(made: Pcap, at: float, options: bytes = b"", *, back: bool = False) -> Pcap:
    """Append the SYN of S, or the SYN-ACK of D."""
    if back:
        head = tcp(5001, 20000, seq=0, ack=1, flags=SYN | ACK, options=options)
        return made.add(START + round(at * SECOND), ethernet(ip4(head, src=D, dst=S)))
    head = tcp(20000, 5001, seq=0, flags=SYN, options=options)
    return made.add(START + round(at * SECOND), ethernet(ip4(head, src=S, dst=D)))


def analysed(made: Pcap, tmp_path: Path, options: Options = AT_SENDER) -> Analysis:
    return analyse(made.write(tmp_path / "x.pcap"), options=options)


def kinds(analysis: Analysis) -> list[str]:
    return [KINDS[int(kind)] for kind in analysis.events["kind"]]


# --- SACK --------------------------------------------------------------------

#: A timeout, an ACK of all that was outstanding then, and a loss behind it: with SACK the recovery
#: is over, without it one byte more would have to be acknowledged.
RECOVERED = """
0.2     > 1:961
0.81    > 1:961
1.01    < ack 961
1.01    > 961:1921
1.02    > 1921:2881
1.03    > 2881:3841
1.04    > 3841:4801
1.22    < ack 961 sack 1921:2881
1.23    < ack 961 sack 1921:3841
1.24    < ack 961 sack 1921:4801
1.24    > 961:1921
"""


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (PERMITTED, PERMITTED, "fast"),
        (PERMITTED, b"", "post_rto"),
        (b"", PERMITTED, "post_rto"),
    ],
    ids=["both", "only the opener", "only the answer"],
)
def test_sack_is_on_from_the_syns_on_if_both_agree(
    tmp_path: Path, ours: bytes, theirs: bytes, kind: str
) -> None:
    made = syn(syn(Pcap(), 0.0, ours), 0.2, theirs, back=True)
    conversation(RECOVERED, into=made)
    assert kinds(analysed(made, tmp_path)) == ["rto", kind]
    packets = read_capture(tmp_path / "x.pcap").packets
    found = classify(packets).kind
    assert [KIND_NAMES[int(each)] for each in found[found > 0]] == ["rto", kind]


def test_sack_is_on_for_the_side_that_answers(tmp_path: Path) -> None:
    """The roles of `RECOVERED` with the data coming from D."""
    made = syn(syn(Pcap(), 0.0, PERMITTED), 0.0001, PERMITTED, back=True)
    made.add(START + SECOND // 5, segment(1, 0))
    for line in RECOVERED.strip().splitlines():
        at, way, what, *rest = line.split()
        time = START + round(float(at) * SECOND)
        if way == ">":
            low, high = map(int, what.split(":"))
            head = tcp(5001, 20000, seq=low, ack=1)
            made.add(time, ethernet(ip4(head, src=D, dst=S, payload=high - low)))
        else:
            blocks = [tuple(map(int, rest[2].split(":")))] if len(rest) > 1 else []
            made.add(time, answer(int(rest[0]), blocks))
    assert kinds(analysed(made, tmp_path)) == ["rto", "fast"]


def answer(number: int, blocks: list[tuple[int, ...]]) -> bytes:
    """Make an ACK of S with SACK blocks."""
    flat = b"".join(value.to_bytes(4, "big") for block in blocks for value in block)
    options = b"\x01\x01\x05" + bytes([2 + len(flat)]) + flat if flat else b""
    return ethernet(ip4(tcp(20000, 5001, seq=1, ack=number, options=options), src=S, dst=D))


# --- Distances ---------------------------------------------------------------


def at_receiver(again: float, ack: float) -> Pcap:
    """Begin at the receiver, 100 ms from the sender; the SYN-ACK is sent twice."""
    made = syn(syn(Pcap(), 0.0), 0.0, back=True)
    syn(made, again, back=True)
    made.add(START + round(ack * SECOND), segment(1, 0))
    return conversation(f"{ack} > 1:961\n{ack} < ack 961", into=made)[0]


def test_distance_runs_from_the_last_synack(tmp_path: Path) -> None:
    made = at_receiver(1.0, 1.1)
    (flow,) = analysed(made, tmp_path, Options(probes=False)).flows
    assert flow["rtt_min_ns"] == SECOND // 10
    packets = read_capture(tmp_path / "x.pcap").packets
    seen = follow(packets, find_flows(packets), 0, Options(probes=False))
    assert seen.away_ns == SECOND // 10


def test_answer_as_late_as_no_path_is_long_tells_no_distance(tmp_path: Path) -> None:
    made = at_receiver(1.0, 9.0)
    made = conversation("9.1 > 961:1921\n9.1 < ack 1921", into=made)[0]
    packets = read_capture(made.write(tmp_path / "x.pcap")).packets
    assert follow(packets, find_flows(packets), 0, Options(probes=False)).away_ns == 0


# --- Time stamps -------------------------------------------------------------


def test_echo_of_zero_is_no_round_trip(tmp_path: Path) -> None:
    clock = 1_000_000_000
    made = syn(Pcap(), 0.0, timestamp_option(clock, 0))
    syn(made, 0.2, timestamp_option(5, clock), back=True)

    def data(at: float, start: int) -> None:
        options = timestamp_option(clock + round(1000 * at), 5)
        head = tcp(20000, 5001, seq=start, ack=1, options=options)
        made.add(START + round(at * SECOND), ethernet(ip4(head, payload=960)))

    def ack(at: float, number: int, echo: int) -> None:
        head = tcp(5001, 20000, seq=1, ack=number, options=timestamp_option(5, echo))
        made.add(START + round(at * SECOND), ethernet(ip4(head, src=D, dst=S)))

    data(0.2, 1)
    ack(0.4, 961, clock + 200)
    data(0.4, 961)
    data(1.0, 961)
    ack(1.2, 1921, 0)
    data(1.3, 1921)
    packets = read_capture(made.write(tmp_path / "x.pcap")).packets
    seen = follow(packets, find_flows(packets), 0, AT_SENDER)
    assert seen.rtt_ns[-2] == -1
    assert np.max(seen.rto_ns) < 2 * SECOND


# --- SYN-ACKs ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"), [((1.0,), []), ((), ["syn_rto"])], ids=["asked", "by its timer"]
)
def test_synack_is_sent_again_by_a_timer_only_if_no_syn_asked_for_it(
    tmp_path: Path, asked: tuple[float, ...], expected: list[str]
) -> None:
    made = syn(syn(Pcap(), 0.0), 0.0001, back=True)
    for at in asked:
        syn(made, at)
    syn(made, 1.0001, back=True)
    made.add(START + 11 * SECOND // 10, segment(1, 0))
    head = tcp(5001, 20000, seq=1, ack=1)
    made.add(START + 12 * SECOND // 10, ethernet(ip4(head, src=D, dst=S, payload=500)))
    analysis = analysed(made, tmp_path)
    (flow,) = analysis.flows[analysis.flows["sport"] == 5001]
    assert int(flow["counts"][SYN_RTO]) == len(expected)


# --- Another connection ------------------------------------------------------


def test_syn_begins_another_connection_where_only_the_other_side_had_sent(tmp_path: Path) -> None:
    """First a download whose handshake the capture missed; the client's port is then used again."""
    made = Pcap()
    head = tcp(5001, 20000, seq=7000, ack=1)
    made.add(START, ethernet(ip4(head, src=D, dst=S, payload=500)))
    made.add(START + SECOND // 10, ethernet(ip4(tcp(20000, 5001, seq=1, ack=7500), src=S, dst=D)))
    syn(syn(made, 5.0), 5.2, back=True)
    made.add(START + 52 * SECOND // 10, segment(1, 0))
    head = tcp(5001, 20000, seq=1, ack=1)
    made.add(START + 53 * SECOND // 10, ethernet(ip4(head, src=D, dst=S, payload=500)))
    made.add(
        START + 54 * SECOND // 10, ethernet(ip4(tcp(20000, 5001, seq=1, ack=501), src=S, dst=D))
    )
    flows = analysed(made, tmp_path).flows
    assert flows["payload_bytes"].tolist() == [500, 500]
    assert flows["acked_bytes"].tolist() == [500, 500]


def test_data_before_its_own_synack_is_of_the_same_connection(tmp_path: Path) -> None:
    made = syn(syn(Pcap(), 0.0), 0.2, back=True)
    made.add(START + SECOND // 5, segment(1))
    syn(made, 0.21)
    made.add(START + SECOND // 2, acknowledgement(961))
    assert analysed(made, tmp_path).flows["acked_bytes"].tolist() == [960]


#


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

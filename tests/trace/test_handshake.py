"""What the handshake tells: SACK, distances, who asked for a SYN-ACK, a new connection."""

from __future__ import annotations

from pathlib import Path

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
    segment,
    tcp,
    timestamp_option,
)

from tcpf_lab.trace.analysis import KINDS, SYN_RTO, Analysis, Options, analyse
from tcpf_lab.trace.follow import KIND_NAMES, classify, follow
from tcpf_lab.trace.packet import find_flows, read_capture

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

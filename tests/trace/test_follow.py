"""One flow packet by packet: left edge, flight, RTT and timer by hand."""

from __future__ import annotations

from collections.abc import Container
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import dpkt
import numpy as np
import pytest
import zstandard
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
)
from test_analysis import Talk, distant

from tcpf_lab.trace.analysis import RTO, Options, analyse
from tcpf_lab.trace.follow import Followed, classify, follow
from tcpf_lab.trace.packet import find_flows, read_capture

MS = 1_000_000
SENDERS = Path(__file__).parents[1] / "data" / "senders"
TABLE = """
0.0     > SYN
0.2     < SYN-ACK
0.2     > 1:961
0.2     > 961:1921
0.4     < ack 1 sack 961:1921
1.0     > 1:961
1.2     < ack 1921
"""


def test_every_packet_of_a_flow_has_the_state_behind_it(tmp_path: Path) -> None:
    capture, _ = conversation(TABLE, isn=2**32 - 3)
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    seen = follow(packets, find_flows(packets), 0, Options(probes=False))
    assert seen.forward.tolist() == [True, False, True, True, False, True, False]
    assert seen.end.tolist() == [1, -1, 961, 1921, -1, 961, -1]
    assert seen.una.tolist() == [0, 1, 1, 1, 1, 1, 1921]
    assert seen.in_flight.tolist() == [1, 0, 960, 1920, 960, 960, 0]
    assert seen.rtt_ns.tolist() == [-1, 200 * MS, -1, -1, 200 * MS, -1, -1]
    assert seen.srtt_ns[1:].tolist() == [200 * MS] * 6
    # SRTT 200 ms, variance 4 * 100 ms at first: 600 ms; doubled by the expiry.
    assert seen.rto_ns[1:4].tolist() == [600 * MS] * 3
    assert seen.rto_ns[5] == 2 * seen.rto_ns[4]
    assert seen.expires_ns[2] - seen.time_ns[2] == 600 * MS
    assert seen.expires_ns[-1] == -1
    assert np.flatnonzero(seen.kind).tolist() == [5]
    assert seen.kind[5] == RTO


def repeated(
    capture: Path, tmp_path: Path, *, only: Container[int] | None = None, later_ns: int = 0
) -> Path:
    """Write a capture that has frames twice: those of some records, or all."""
    target = tmp_path / "twice.pcap"
    with zstandard.open(capture) as packed, target.open("wb") as file:
        reader = dpkt.pcap.Reader(BytesIO(packed.read()))
        writer = dpkt.pcap.Writer(file, linktype=reader.datalink(), nano=True)
        for record, (time, frame) in enumerate(reader):
            writer.writepkt(frame, time)
            if only is None or record in only:
                writer.writepkt(frame, time + Decimal(later_ns) / 10**9)
    return target


@pytest.mark.parametrize("sender", ["modern", "newreno"])
def test_packets_that_were_captured_twice_are_one_packet_to_the_sender(
    sender: str, tmp_path: Path
) -> None:
    single = SENDERS / f"{sender}.pcap.zst"
    # As by a mirror port with both sides of a bridge.
    double = repeated(single, tmp_path, later_ns=20_000)
    told = [analyse(path) for path in (single, double)]
    for field in ("time_ns", "flow", "start", "kind", "rule", "spurious"):
        assert np.array_equal(told[0].events[field], told[1].events[field]), field
    once, twice = (read_capture(path).packets for path in (single, double))
    assert [one.copies for one in told] == [0, np.sum(once["ip_id"] > 0)]
    for flow in range(find_flows(once).count):
        seen, again = (follow(packets, find_flows(packets), flow) for packets in (once, twice))
        assert np.array_equal(again.kind[::2], seen.kind)
        assert not again.kind[1::2].any()
        assert np.array_equal(again.una[1::2], seen.una)


@pytest.mark.parametrize("sender", ["modern", "newreno"])
def test_acknowledgements_that_the_network_duplicated_have_come_twice(
    sender: str, tmp_path: Path
) -> None:
    single = SENDERS / f"{sender}.pcap.zst"
    once = read_capture(single).packets
    double = repeated(single, tmp_path, only=once["record"][once["sport"] == 5001].tolist())
    assert analyse(double).copies == 0
    twice = read_capture(double).packets
    flows = find_flows(twice)
    found = classify(twice)
    for flow in range(flows.count):
        back = flows.split(flow)[1]
        assert np.all(np.diff(found.acked[back]) >= 0)
    assert found.acked.max() == classify(once).acked.max() > 0


def test_acknowledged_bytes_never_fall_where_packets_were_captured_twice() -> None:
    twice = np.repeat(read_capture(SENDERS / "modern.pcap.zst").packets, 2)
    flows = find_flows(twice)
    found = classify(twice)
    for flow in range(flows.count):
        assert np.all(np.diff(found.acked[flows.split(flow)[1]]) >= 0)


# A flow followed from a capture that was not taken at its sender.


def followed(talk: Talk | Pcap, tmp_path: Path, options: Options | None = None) -> Followed:
    capture = talk.capture if isinstance(talk, Talk) else talk
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    return follow(packets, find_flows(packets), 0, options or Options(probes=False))


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.1999])
def test_what_comes_back_is_where_the_sender_has_it(tmp_path: Path, delay: float) -> None:
    seen = followed(distant(delay), tmp_path)
    assert seen.away_ns == round(1000 * delay * MS)
    assert np.all(np.diff(seen.time_ns) >= 0)
    assert set(seen.rtt_ns[seen.rtt_ns >= 0].tolist()) == {200 * MS}


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.1999])
def test_events_are_those_of_the_analysis(tmp_path: Path, delay: float) -> None:
    seen = followed(distant(delay), tmp_path)
    analysis = analyse(tmp_path / "x.pcap", options=Options(probes=False))
    assert seen.kind[seen.kind > 0].tolist() == analysis.events["kind"].tolist()
    assert seen.start[seen.kind > 0].tolist() == analysis.events["start"].tolist()


def test_place_that_is_given_is_believed(tmp_path: Path) -> None:
    seen = followed(distant(0.1), tmp_path, Options(probes=False, at="sender"))
    assert seen.away_ns == 0
    assert seen.row.tolist() == list(range(seen.row.size))


def shaken(ours: int, theirs: int) -> Pcap:
    """Return a flow whose SYNs offer these shifts (-1: none) and whose receiver says 1000."""
    option = [b"" if shift < 0 else bytes([3, 3, shift, 1]) for shift in (ours, theirs)]
    asks = tcp(20000, 5001, seq=0, flags=SYN, options=option[0])
    answers = tcp(5001, 20000, seq=0, ack=1, flags=SYN | ACK, options=option[1], window=1000)
    made = Pcap().add(10**18, ethernet(ip4(asks, src=S, dst=D)))
    made.add(10**18 + 200 * MS, ethernet(ip4(answers, src=D, dst=S)))
    made.add(10**18 + 200 * MS, segment(1, 960), missing=960)
    return made.add(10**18 + 400 * MS, acknowledgement(961))


@pytest.mark.parametrize(
    ("ours", "theirs", "scale"), [(7, 3, 3), (7, -1, 0), (-1, 3, 0), (-1, -1, 0)]
)
def test_window_is_scaled_as_both_syns_agree(
    tmp_path: Path, ours: int, theirs: int, scale: int
) -> None:
    seen = followed(shaken(ours, theirs), tmp_path)
    assert seen.scale == scale
    assert seen.window.tolist() == [-1, 1000, 1000, 1000 << scale], "that of a SYN is not scaled"


def test_window_without_a_syn_is_unknown(tmp_path: Path) -> None:
    made, _ = conversation("0.0 > 1:961\n0.2 < ack 961\n0.2 > 961:1921\n0.4 < ack 1921")
    seen = followed(made, tmp_path)
    assert seen.scale == -1
    assert set(seen.window.tolist()) == {-1}

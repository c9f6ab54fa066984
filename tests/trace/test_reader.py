from __future__ import annotations

import struct
import warnings
from collections.abc import Container
from contextlib import suppress
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import dpkt
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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
from pcapng_builder import Pcapng
from test_analysis import Talk, distant

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import RTO, Options, analyse
from tcpf_lab.trace.follow import Followed, classify, follow
from tcpf_lab.trace.packet import Capture, Packets, find_flows, read_capture

PCAP_HEADER = 24

FRAMES = [
    segment(1),
    ethernet(b"who has", kind=0x0806),
    acknowledgement(961, sack=[(1921, 2881)]),
    segment(961) + bytes(333),
    segment(1921),
]


def made_pcap() -> tuple[bytes, list[int]]:
    """Give a capture and where its records end."""
    capture, ends = Pcap(), [PCAP_HEADER]
    for i, frame in enumerate(FRAMES):
        ends.append(ends[-1] + len(capture.add(i, frame).records[-1]))
    return capture.data(), ends


def made_pcapng() -> tuple[bytes, list[int]]:
    """Give a capture of two sections and where each of its blocks ends."""
    capture = Pcapng().interface(resolution=9)
    for i, frame in enumerate(FRAMES):
        if i == 2:
            capture.section(big=True, options=True).interface(resolution=9)
        capture.enhanced(i, frame, options=True)
    return capture.data(), np.cumsum([0, *map(len, capture.blocks)]).tolist()


MADE = {"pcap": made_pcap(), "pcapng": made_pcapng()}


def read(path: Path) -> Capture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_capture(path, accept_truncated=True)


def rows(packets: Packets) -> list[tuple[int, int, int]]:
    """Give what tells the packets apart."""
    return [(int(p["time_ns"]), int(p["record"]), int(p["seq"])) for p in packets]


WHOLE = [(0, 0, 1), (2, 2, 1), (3, 3, 961), (4, 4, 1921)]

fresh = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@fresh
@given(st.sampled_from(list(MADE)), st.data())
def test_cutting_anywhere_gives_what_is_before_and_says_where(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    whole, ends = MADE[form]
    cut = data.draw(st.integers(ends[0] or 4, len(whole)), label="cut")
    path = tmp_path / "x"
    path.write_bytes(whole[:cut])
    if cut < ends[1]:
        with suppress(TraceError):
            assert read(path).packets.size == 0
        return
    found = read(path)
    records = found.records
    assert rows(found.packets) == [row for row in WHOLE if row[1] < records]
    last = max(end for end in ends if end <= cut)
    if last == cut:
        assert found.truncated == ""
    else:
        left = f"{cut - last} bytes are" if cut - last > 1 else "1 byte is"
        place = f"packet {records + 1} at byte {last}: {left} left of it"
        assert place in found.truncated


def test_pcap_cut_within_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for cut in range(PCAP_HEADER):
        path.write_bytes(MADE["pcap"][0][:cut])
        with pytest.raises(TraceError, match=r"empty|not a pcap|truncated in the file header"):
            read(path)


@fresh
@given(st.sampled_from(list(MADE)), st.data())
def test_any_changed_bytes_end_in_packets_or_one_message(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    changed = bytearray(MADE[form][0])
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=6)
    ):
        changed[at] = value
    path = tmp_path / "x"
    path.write_bytes(bytes(changed))
    with suppress(TraceError):
        found = read(path)
        assert found.packets.size <= found.records


def test_packets_before_damage_are_given_first(tmp_path: Path) -> None:
    whole, ends = MADE["pcap"]
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[3]] + b"\xff" * 40)
    assert read(path).packets.size == 2
    with pytest.raises(TraceError, match=f"packet 4 at byte {ends[3]}: its header gives") as error:
        read_capture(path)
    assert error.value.hint == f"keep what is before it: head -c {ends[3]} {path} > whole"


def test_packets_around_a_damaged_description_are_given(tmp_path: Path) -> None:
    whole, ends = MADE["pcapng"]
    damaged = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 24)  # its lengths differ
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[4]] + damaged + whole[ends[4] :])
    found = read(path)
    assert rows(found.packets) == WHOLE
    assert f"damaged: packet 3 at byte {ends[4]}" in found.truncated
    assert found.skipped == len(damaged)


def long_capture(form: str) -> tuple[bytes, list[int]]:
    """Give a capture of forty packets, a second apart, and where each ends."""
    second = 10**9
    if form == "pcap":
        capture, ends = Pcap(), [PCAP_HEADER]
        for i in range(40):
            frame = segment(1 + 960 * i) + bytes(i)
            ends.append(ends[-1] + len(capture.add((10**9 + i) * second, frame).records[-1]))
        return capture.data(), ends
    blocks = Pcapng().interface(resolution=9)
    for i in range(40):
        blocks.enhanced((10**9 + i) * second, segment(1 + 960 * i) + bytes(i))
    return blocks.data(), np.cumsum([0, *map(len, blocks.blocks)]).tolist()[2:]


@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"noise", None])
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_reading_goes_on_behind_damage(tmp_path: Path, form: str, fill: bytes | None) -> None:
    whole, ends = long_capture(form)
    first, last = ends[9], ends[15] + 5  # records 9 to 15 are damaged, the last one in its header
    hole = last - first
    middle = b"" if fill is None else (fill * hole)[:hole]  # None: they are missing
    path = tmp_path / "x"
    path.write_bytes(whole[:first] + middle + whole[last:])
    found = read(path)
    assert (found.packets["seq"] // 960).tolist() == [*range(9), *range(16, 40)]
    assert found.packets["record"].tolist() == list(range(33))
    assert found.skipped == len(middle) + ends[16] - last
    size = path.stat().st_size
    assert found.read_share == pytest.approx(1 - found.skipped / size)
    assert f"damaged: packet 10 at byte {first}:" in found.truncated
    assert f"{found.skipped} bytes skipped: " in found.truncated


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_length_beyond_the_end_is_damage_if_records_follow_and_a_cut_end_if_not(
    tmp_path: Path, form: str
) -> None:
    whole, ends = long_capture(form)
    at = ends[30] + (8 if form == "pcap" else 4)
    path = tmp_path / "x"
    path.write_bytes(whole[:at] + struct.pack("<I", 100_000) + whole[at + 4 :])
    found = read(path)
    assert (found.packets["seq"] // 960).tolist() == [*range(30), *range(31, 40)]
    assert found.skipped == ends[31] - ends[30]
    path.write_bytes(whole[: ends[38] + 20])
    found = read(path)
    assert found.packets.size == 38
    assert (found.skipped, found.read_share) == (0, 1.0)
    assert found.truncated.startswith("truncated in packet 39")


@pytest.mark.parametrize("far", [0, 2 * 86_400])
def test_records_of_another_day_are_not_where_reading_goes_on(tmp_path: Path, far: int) -> None:
    whole, ends = long_capture("pcap")
    later = Pcap()
    for i in range(5):
        later.add((10**9 + 50 + i + far) * 10**9, segment(1))
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[5]] + b"\xff" * 50 + b"".join(later.records))
    assert read(path).packets.size == (5 if far else 10)


def test_damage_before_the_first_packet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE["pcap"][0][:PCAP_HEADER] + b"\xff" * 40)
    with pytest.raises(TraceError, match="packet 1 at byte 24"):
        read(path)


def test_more_interfaces_than_room_was_made_for_are_kept(tmp_path: Path) -> None:
    capture = Pcapng()
    for i in range(300):
        capture.interface(101 if i % 2 else 1, resolution=9)
    for i in (0, 1, 254, 255, 298, 299):
        capture.enhanced(i, FRAMES[0][14 * (i % 2) :], number=i)
    found = read(capture.write(tmp_path / "x"))
    assert found.packets["time_ns"].tolist() == [0, 1, 254, 255, 298, 299]
    assert found.packets["interface"].tolist() == [0, 1, 254, 255, 255, 255]
    assert found.link_types == (1, 101)


def test_records_without_a_time_are_counted(tmp_path: Path) -> None:
    capture = Pcapng().interface().simple(FRAMES[0])
    path = capture.write(tmp_path / "x")
    assert rows(read(path).packets) == [(0, 0, 1)]
    assert "1 of 1 packet without a time of their own" in analyse(path).capture.truncated


def test_directory_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read the capture"):
        read(tmp_path)


# One flow packet by packet: left edge, flight, RTT and timer by hand.

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

from __future__ import annotations

import os
import socket
import struct
import tty
from collections.abc import Callable
from pathlib import Path

import dpkt
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pcap_builder import (
    Pcap,
    ethernet,
    ip4,
    ip6,
    sack_option,
    segment,
    tcp,
    timestamp_option,
)

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import analyse
from tcpf_lab.trace.packet import address_text, read_capture
from tcpf_lab.trace.passage import Marks

SECOND = 10**9


@pytest.fixture
def three(tmp_path: Path) -> Path:
    capture = Pcap()
    for i in range(3):
        capture.add(i * SECOND, segment(1 + 960 * i))
    return capture.write(tmp_path / "three.pcap")


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("nano", [False, True], ids=["micro", "nano"])
def test_both_byte_orders_and_both_resolutions_give_the_same_packet(
    tmp_path: Path, big: bool, nano: bool
) -> None:
    time_ns = 1_000_000_003 * SECOND + 123_456_000
    frame = ethernet(ip4(tcp(20000, 5001, seq=7, ack=9, window=55), payload=960, ip_id=77, tos=40))
    path = Pcap(big=big, nano=nano).add(time_ns, frame, missing=960).write(tmp_path / "x.pcap")
    p = read_capture(path).packets[0]
    assert (p["time_ns"], p["wire_length"], p["ip_length"]) == (time_ns, 1014, 1000)
    assert (p["seq"], p["ack"], p["window"], p["payload"]) == (7, 9, 55, 960)
    assert (p["ip_id"], p["tos"], p["protocol"], p["flags"]) == (77, 40, 6, 16)
    assert address_text(p["src_high"], p["src"]) == "10.0.0.1"
    assert address_text(p["dst_high"], p["dst"]) == "10.0.3.2"


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    path = Pcap().add(5 * SECOND + 123_456_789, segment(1)).write(tmp_path / "x.pcap")
    assert read_capture(path).packets["time_ns"].tolist() == [5 * SECOND + 123_456_789]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_sack_blocks_are_read(tmp_path: Path, count: int) -> None:
    blocks = [(100 * i, 100 * i + 50) for i in range(1, count + 1)]
    frame = ethernet(ip4(tcp(1, 2, options=sack_option(blocks))))
    p = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap")).packets[0]
    assert p["sacks"] == count
    assert p["sack"][: 2 * count].tolist() == [edge for block in blocks for edge in block]


def test_sack_blocks_cut_off_by_the_snapshot_length_are_not_read(tmp_path: Path) -> None:
    frame = ethernet(ip4(tcp(1, 2, options=sack_option([(1, 2), (3, 4)]))))[:-4]
    p = read_capture(Pcap().add(0, frame, missing=4).write(tmp_path / "x.pcap")).packets[0]
    assert p["sacks"] == 0


def test_timestamps_are_read(tmp_path: Path) -> None:
    frame = ethernet(ip4(tcp(1, 2, options=timestamp_option(11, 22))))
    p = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap")).packets[0]
    assert (p["timestamps"], p["tsval"], p["tsecr"]) == (1, 11, 22)


@pytest.mark.parametrize("options", [b"\x00\x00\x00\x00", b"\x05\x00\x01\x01", b"\x02\x60\x01\x01"])
def test_broken_tcp_options_end_the_list_of_options(tmp_path: Path, options: bytes) -> None:
    frame = ethernet(ip4(tcp(1, 2, seq=5, options=options), payload=10))
    p = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap")).packets[0]
    assert (p["seq"], p["payload"], p["sacks"]) == (5, 10, 0)


INNER = ip4(tcp(1, 2, seq=42), payload=8)
SIX = ip6(tcp(1, 2, seq=42), src=bytes(15) + b"\x01", dst=bytes(15) + b"\x02", payload=8)
LINKS = {
    "ethernet": (1, ethernet(INNER)),
    "vlan": (1, ethernet(INNER, tags=(0x8100,))),
    "two vlan tags": (1, ethernet(INNER, tags=(0x88A8, 0x8100))),
    "ethernet with ipv6": (1, ethernet(SIX, kind=0x86DD)),
    "raw": (101, INNER),
    "raw bsd": (12, INNER),
    "raw ipv4": (228, INNER),
    "raw ipv6": (229, SIX),
    "loopback": (0, b"\x02\x00\x00\x00" + INNER),
    "openbsd loopback": (108, b"\x00\x00\x00\x02" + INNER),
    "linux cooked": (113, bytes(14) + b"\x08\x00" + INNER),
    "linux cooked with vlan": (113, bytes(14) + b"\x81\x00\x00\x07\x08\x00" + INNER),
    "linux cooked 2": (276, b"\x08\x00" + bytes(18) + INNER),
    "linux cooked 2 with vlan": (276, b"\x81\x00" + bytes(18) + b"\x00\x07\x08\x00" + INNER),
    "pppoe on ethernet": (1, ethernet(bytes(6) + b"\x00\x21" + INNER, kind=0x8864)),
    "pppoe": (51, bytes(6) + b"\x00\x57" + SIX),
    "ppp": (9, b"\x00\x21" + INNER),
    "ppp, compressed": (9, b"\xff\x03\x57" + SIX),
    "ppp in hdlc": (50, b"\xff\x03\x00\x21" + INNER),
    "ppp with direction": (204, b"\x01\xff\x03\x00\x21" + INNER),
    "cisco hdlc": (104, b"\x0f\x00\x86\xdd" + SIX),
    "mpls": (1, ethernet(b"\0\0\0\x40\0\0\1\x40" + INNER, kind=0x8847)),
    "snap": (1, ethernet(b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER, kind=56)),
    "openbsd encapsulated": (109, bytes(12) + INNER),
}


@pytest.mark.parametrize("name", LINKS)
def test_link_types(tmp_path: Path, name: str) -> None:
    link, frame = LINKS[name]
    p = read_capture(Pcap(link=link).add(0, frame).write(tmp_path / "x.pcap")).packets
    assert p["seq"].tolist() == [42]
    assert p["payload"].tolist() == [8]


def test_ipv6_addresses_are_written_the_usual_way(tmp_path: Path) -> None:
    src = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    frame = ethernet(ip6(tcp(1, 2), src=src, dst=bytes(16), tclass=0xB8), kind=0x86DD)
    capture = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap"))
    p = capture.packets[0]
    assert address_text(p["src_high"], p["src"]) == "2001:db8::1"
    assert address_text(p["dst_high"], p["dst"]) == "::"
    assert p["tos"] == 0xB8


def test_what_is_not_ip_or_is_cut_off_is_counted(tmp_path: Path) -> None:
    arp = ethernet(bytes(28), kind=0x0806)
    short = ethernet(INNER)[:40]
    empty = b""
    capture = Pcap().add(0, arp).add(1, short).add(2 * 10**9, empty).add(3, ethernet(INNER))
    found = read_capture(capture.write(tmp_path / "x.pcap"))
    assert (found.records, found.not_ip, found.short, found.packets.size) == (4, 2, 1, 1)


def test_later_fragment_has_no_ports(tmp_path: Path) -> None:
    frame = ethernet(ip4(b"\x11" * 40, fragment=100))
    p = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap")).packets[0]
    assert (p["sport"], p["dport"], p["payload"]) == (0, 0, 40)


def test_udp_ports_are_read(tmp_path: Path) -> None:
    frame = ethernet(ip4(struct.pack(">HHHH", 53, 54, 8, 0), protocol=17, payload=100))
    p = read_capture(Pcap().add(0, frame).write(tmp_path / "x.pcap")).packets[0]
    assert (p["sport"], p["dport"], p["payload"], p["protocol"]) == (53, 54, 100, 17)


def test_more_packets_than_their_size_suggests_are_all_read(tmp_path: Path) -> None:
    capture = Pcap(link=101)
    for i in range(500):
        capture.add(i, ip4(b"", protocol=1))
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    assert packets["time_ns"].tolist() == list(range(500))


def test_zstd_capture_is_read(three: Path, tmp_path: Path) -> None:
    packed = tmp_path / "three.pcap.zst"
    packed.write_bytes(zstandard.compress(three.read_bytes()))
    assert read_capture(packed).packets.tobytes() == read_capture(three).packets.tobytes()


def test_dash_is_standard_input(three: Path, standard_input: Callable[[bytes], None]) -> None:
    standard_input(three.read_bytes())
    found = read_capture("-")
    assert (found.name, found.records) == ("-", 3)


@pytest.mark.parametrize("left", [1, 15, 16, 40])
def test_truncated_capture_names_packet_and_byte(three: Path, left: int) -> None:
    whole = three.read_bytes()
    record = (len(whole) - 24) // 3
    third = 24 + 2 * record
    three.write_bytes(whole[: third + left])
    told = "1 byte is left" if left == 1 else f"{left} bytes are left"
    with pytest.raises(TraceError, match=f"packet 3 at byte {third}: {told} of it") as error:
        read_capture(three)
    assert error.value.where == str(three)
    assert "2 packets before it are whole" in str(error.value)


def test_truncated_end_can_be_accepted_with_a_warning(three: Path) -> None:
    three.write_bytes(three.read_bytes()[:-5])
    with pytest.warns(UserWarning, match="truncated in packet 3"):
        found = read_capture(three, accept_truncated=True)
    assert found.packets["seq"].tolist() == [1, 961]
    assert "packet 3" in found.truncated


def test_garbage_between_packets_ends_the_capture_like_a_truncation(three: Path) -> None:
    whole = bytearray(three.read_bytes())
    record = (len(whole) - 24) // 3
    whole[24 + record : 24 + record + 16] = b"\xff" * 16
    three.write_bytes(bytes(whole))
    said = f"packet 2 at byte {24 + record}: its header gives"
    with pytest.raises(TraceError, match=said) as error:
        read_capture(three)
    assert error.value.hint == f"keep what is before it: head -c {24 + record} {three} > whole"
    with pytest.warns(UserWarning, match=said):
        found = read_capture(three, accept_truncated=True)
    assert found.packets["seq"].tolist() == [1]
    assert "1 packet before it is whole" in found.truncated
    marks, problem = Marks().read(three)
    assert marks["seq"].tolist() == [1]
    assert problem == f"{three}: {found.truncated}"
    analysis = analyse(three)
    assert (analysis.capture.records, analysis.capture.truncated) == (1, found.truncated)


def test_capture_that_cannot_be_read_on_ends_there(
    three: Path, standard_input: Callable[[int], None]
) -> None:
    def failing(data: bytes) -> int:
        """Give a terminal that has these bytes; behind them nothing can be read."""
        terminal, other = os.openpty()
        tty.setraw(other)
        os.write(other, data)
        os.close(other)
        return terminal

    whole = three.read_bytes()
    standard_input(failing(whole))
    with pytest.warns(UserWarning, match="cannot read the capture: Input/output error"):
        found = read_capture("-", accept_truncated=True)
    assert found.packets["seq"].size == 3
    standard_input(failing(whole[:30]))
    with pytest.raises(TraceError, match="Input/output error"):
        read_capture("-", accept_truncated=True)


@pytest.mark.usefixtures("standard_input")
def test_closed_standard_input_is_a_message() -> None:
    os.close(0)
    with pytest.raises(TraceError, match="standard input is closed") as error:
        read_capture("-")
    assert str(error.value) == "-: standard input is closed (name a file, or give one: - < FILE)"


def test_directory_is_a_message_that_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read the capture: Is a directory") as error:
        read_capture(tmp_path)
    assert error.value.hint == "name a capture in it"


BAD = {
    "empty": (b"", "empty"),
    "garbage": (
        b"hello world, this is no capture",
        "not a pcap capture: it begins with 68 65 6c 6c",
    ),
    "pcapng": (b"\x0a\x0d\x0d\x0a" + bytes(40), "its byte-order magic is 00 00 00 00"),
    "damaged gzip": (b"\x1f\x8b\x08\x00" + bytes(40), "damaged gzip"),
    "damaged xz": (b"\xfd7zXZ\0" + bytes(40), "damaged xz"),
    "damaged bzip2": (b"BZh9" + bytes(40), "damaged bzip2"),
    "damaged lz4": (b"\x04\x22\x4d\x18" + b"\xff" * 40, "damaged lz4"),
    "half a header": (b"\xd4\xc3\xb2\xa1\x02\x00", "6 of 24 bytes"),
    "damaged zstd": (b"\x28\xb5\x2f\xfd" + b"\xff" * 30, "damaged zstd"),
    "unknown link type": (Pcap(link=147).data(), "unknown link type 147"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_capture_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    path = tmp_path / "bad.pcap"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message) as error:
        read_capture(path)
    assert error.value.where == str(path)


def test_missing_capture_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such capture"):
        read_capture(tmp_path / "none.pcap")


def test_capture_without_packets_is_whole(tmp_path: Path) -> None:
    found = read_capture(Pcap().write(tmp_path / "x.pcap"))
    assert (found.records, found.packets.size, found.truncated) == (0, 0, "")


packets = st.builds(
    dict,
    src=st.tuples(*[st.integers(0, 255)] * 4).map(lambda t: ".".join(map(str, t))),
    sport=st.integers(0, 65535),
    dport=st.integers(0, 65535),
    seq=st.integers(0, 2**32 - 1),
    ack=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 255),
    window=st.integers(0, 65535),
    blocks=st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 2), max_size=4),
    ip_id=st.integers(0, 65535),
    tos=st.integers(0, 255),
    payload=st.binary(max_size=40),
    ip_options=st.sampled_from([b"", b"\x01" * 4, b"\x01" * 40]),
    time_ns=st.integers(0, (2**32 - 1) * SECOND),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(packets, max_size=8), st.booleans(), st.booleans())
def test_scanner_reads_what_dpkt_reads(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[dict], big: bool, nano: bool
) -> None:
    capture = Pcap(big=big, nano=nano)
    for d in drawn:
        options = sack_option(d["blocks"])
        options = options if len(options) <= 40 else options[2:]
        head = tcp(
            d["sport"],
            d["dport"],
            seq=d["seq"],
            ack=d["ack"],
            flags=d["flags"],
            window=d["window"],
            options=options + b"\x01" * (-len(options) % 4),
        )
        inner = ip4(
            head + d["payload"],
            src=d["src"],
            ip_id=d["ip_id"],
            tos=d["tos"],
            options=d["ip_options"],
        )
        capture.add(d["time_ns"], ethernet(inner))
    path = capture.write(tmp_path_factory.mktemp("random") / "x.pcap")
    ours = read_capture(path).packets
    theirs = [dpkt.ethernet.Ethernet(frame) for _, frame in dpkt.pcap.Reader(path.open("rb"))]
    assert len(theirs) == ours.size
    for p, frame, d in zip(ours, theirs, drawn, strict=True):
        ip, segment_ = frame.data, frame.data.data
        assert (int(p["src"]) & 0xFFFFFFFF).to_bytes(4, "big") == ip.src
        assert (p["ip_id"], p["tos"], p["ip_length"]) == (ip.id, ip.tos, ip.len)
        assert (p["sport"], p["dport"]) == (segment_.sport, segment_.dport)
        assert (p["seq"], p["ack"], p["window"]) == (segment_.seq, segment_.ack, segment_.win)
        assert p["flags"] == segment_.flags & 255
        assert p["payload"] == len(segment_.data)
        kept = [v for k, v in dpkt.tcp.parse_opts(segment_.opts) if k == dpkt.tcp.TCP_OPT_SACK]
        edges = struct.unpack(f">{len(kept[0]) // 4}I", kept[0]) if kept else ()
        assert tuple(p["sack"][: 2 * p["sacks"]].tolist()) == edges
        assert p["time_ns"] == (d["time_ns"] if nano else d["time_ns"] // 1000 * 1000)


def test_packets_are_plain_numpy_columns(three: Path) -> None:
    packets = read_capture(three).packets
    later = packets[packets["time_ns"] >= SECOND]
    assert np.array_equal(later["seq"], [961, 1921])

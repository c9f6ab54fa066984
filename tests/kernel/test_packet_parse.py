"""The packet parser against packets that dpkt has made, and under the fuzzer."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import dpkt
import pytest
from harness import make
from hypothesis import given
from hypothesis import strategies as st
from run_maker import locked

UNPARSEABLE, IP, TCP = range(3)
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60


#: Of ``struct flow_key``.
KEY_BYTES = 40


class Parsed(ctypes.Structure):
    """``struct drive_parsed``."""

    _fields_ = (
        ("key", ctypes.c_uint8 * KEY_BYTES),
        *((name, ctypes.c_uint32) for name in ("len", "seq", "ack_seq", "payload")),
        ("mss", ctypes.c_uint16),
        *((name, ctypes.c_uint8) for name in ("flags", "dscp", "timestamps", "fragment")),
    )


class Parser:
    """The parser, and the keys that it should find."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __call__(self, packet: bytes) -> tuple[int, Parsed]:
        parsed = Parsed()
        length = len(packet)
        kind = self.library.drive_parse(packet, length, length, ctypes.byref(parsed))
        return kind, parsed

    def key(self, version: int, addresses: bytes, tcp: dpkt.tcp.TCP) -> bytes:
        key = (ctypes.c_uint8 * KEY_BYTES)()
        ports = struct.pack(">HH", tcp.sport, tcp.dport)
        self.library.drive_key(version, dpkt.ip.IP_PROTO_TCP, addresses, ports, key)
        return bytes(key)


@pytest.fixture(scope="session")
def parse(drive: Callable[[str], ctypes.CDLL]) -> Parser:
    """Return the parser."""
    return Parser(drive("packet_parse"))


options = st.lists(
    st.sampled_from(
        (
            b"\x01",
            b"\x03\x03\x07",
            b"\x04\x02",
            b"\x08\x0a" + bytes(8),
            b"\x02\x04\x05\xb4",
            b"\x05\x0a" + bytes(8),
        )
    ),
    max_size=4,
    unique=True,
)
port, word = st.integers(0, 65535), st.integers(0, 2**32 - 1)


@st.composite
def segments(draw: st.DrawFn) -> tuple[dpkt.tcp.TCP, list[bytes]]:
    """Draw a segment and its options."""
    opts = draw(options)
    encoded = b"".join(opts)
    encoded += bytes(-len(encoded) % 4)
    tcp = dpkt.tcp.TCP(sport=draw(port), dport=draw(port), seq=draw(word), ack=draw(word))
    tcp.flags = draw(st.integers(0, 255))
    tcp.off = 5 + len(encoded) // 4
    tcp.opts = encoded
    tcp.data = draw(st.binary(max_size=50))
    return tcp, opts


def check_tcp(parsed: Parsed, tcp: dpkt.tcp.TCP, opts: list[bytes]) -> None:
    assert (parsed.seq, parsed.ack_seq, parsed.flags) == (tcp.seq, tcp.ack, tcp.flags)
    assert parsed.payload == len(tcp.data)
    offered = any(option[0] == 2 for option in opts) and tcp.flags & dpkt.tcp.TH_SYN
    assert parsed.mss == (1460 if offered else 0)
    assert parsed.timestamps == any(option[0] == 8 for option in opts)
    assert not parsed.fragment


@given(
    segment=segments(),
    tos=st.integers(0, 255),
    addresses=st.binary(min_size=8, max_size=8),
    ip_options=st.integers(0, 10),
    padding=st.integers(0, 6),
)
def test_tcp_over_ipv4_is_read(parse: Parser, segment, tos, addresses, ip_options, padding) -> None:
    tcp, opts = segment
    ip = dpkt.ip.IP(
        src=addresses[:4],
        dst=addresses[4:],
        p=dpkt.ip.IP_PROTO_TCP,
        tos=tos,
        opts=b"\x01" * 4 * ip_options,
        data=tcp,
    )
    ip.hl = 5 + ip_options
    ip.len = len(ip)
    kind, parsed = parse(bytes(ip) + bytes(padding))
    assert kind == TCP
    assert (parsed.len, parsed.dscp) == (len(ip), tos >> 2)
    assert bytes(parsed.key) == parse.key(4, addresses, tcp)
    check_tcp(parsed, tcp, opts)


def chain(headers: list[tuple[int, int]], last: int) -> tuple[int, bytes]:
    """Return extension headers, ``(kind, further eight bytes)`` each, and the kind of the first."""
    encoded = b""
    for kind, more in reversed(headers):
        size = 8 if kind == FRAGMENT else 8 * (1 + more)
        length = {FRAGMENT: 0, AUTHENTICATION: size // 4 - 2}.get(kind, size // 8 - 1)
        encoded = bytes((last, length)).ljust(size, b"\0") + encoded
        last = kind
    return last, encoded


kinds = st.sampled_from((HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION))


@given(
    segment=segments(),
    traffic_class=st.integers(0, 255),
    addresses=st.binary(min_size=32, max_size=32),
    headers=st.lists(st.tuples(kinds, st.integers(0, 3)), max_size=8),
)
def test_tcp_over_ipv6_is_read(parse: Parser, segment, traffic_class, addresses, headers) -> None:
    tcp, opts = segment
    first, encoded = chain(headers, 6)
    data = encoded + bytes(tcp)
    fixed = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | 0x12345, len(data), first, 64)
    kind, parsed = parse(fixed + addresses + data)
    assert kind == TCP
    assert (parsed.len, parsed.dscp) == (40 + len(data), traffic_class >> 2)
    assert bytes(parsed.key) == parse.key(6, addresses, tcp)
    check_tcp(parsed, tcp, opts)


@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(parse: Parser, packet: bytes) -> None:
    kind, parsed = parse(packet)
    assert kind in (UNPARSEABLE, IP, TCP)
    assert kind == UNPARSEABLE or 20 <= parsed.len <= len(packet)


@pytest.mark.parametrize("seed", [1, 2])
def test_fuzz(products: Path, seed: int) -> None:
    """A slice; ``fuzz_packet_parse`` takes any number of inputs."""
    program = products / "fuzz_packet_parse"
    with locked(products):
        made = make(products, str(program))
    assert made.returncode == 0, made.stdout
    ran = subprocess.run([program, "500000", str(seed)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    counts = [int(word) for word in ran.stdout.replace(":", "").split() if word.isdigit()]
    assert sum(counts[1:]) == counts[0] == 500_000
    assert min(counts[1:]) > 10_000, "the mutations no longer reach every answer"

"""Captures that are damaged, odd or hostile, made by hand: each by its name, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

from pcap_builder import (
    ACK,
    FIN,
    RST,
    SYN,
    Pcap,
    acknowledgement,
    conversation,
    ethernet,
    ip4,
    ip6,
    segment,
    tcp,
    timestamp_option,
)
from pcapng_builder import SECOND, Pcapng

#: A flow with a timeout, a fast retransmission and a recovery with SACK.
LOSSES = """
0.0 > SYN
0.1 < SYN-ACK
0.1 > 1:961
0.11 > 961:1921
0.2 < ack 961
0.21 > 1921:2881
0.22 > 2881:3841
0.23 > 3841:4801
0.24 > 4801:5761
0.30 < ack 961 sack 1921:2881
0.31 < ack 961 sack 1921:3841
0.32 < ack 961 sack 1921:4801
0.33 > 961:1921
0.43 < ack 4801
0.44 > 5761:6721
0.9 > 4801:5761
1.7 > 4801:5761
1.8 < ack 6721
1.9 > 6721:6721F
2.0 < ack 6722
"""
START = 10**18
#: Where the 32 bits of a sequence number end, as seen from an initial one.
BEFORE_WRAP = 2**32 - 3000


def captures() -> Iterator[tuple[str, bytes]]:
    """Yield every capture with the name of its file."""
    plain = conversation(LOSSES)[0]
    yield "losses.pcap", plain.data()
    yield from _lengths(plain.data(), _places(plain))
    yield from _sequence_numbers()
    yield from _times(plain)
    yield from _headers()
    yield from _containers(plain)


def _places(capture: Pcap) -> list[int]:
    """Where each record begins."""
    places = [24]
    for record in capture.records:
        places.append(places[-1] + len(record))
    return places


def _lengths(data: bytes, at: list[int]) -> Iterator[tuple[str, bytes]]:
    """Cut off, overwritten, and with lengths that cannot be."""
    yield "empty.pcap", b""
    yield "only-magic.pcap", data[:4]
    yield "only-header.pcap", data[:24]
    yield "cut-in-record-header.pcap", data[: at[5] + 7]
    yield "cut-in-frame.pcap", data[: at[6] - 3]
    yield "garbage-in-the-middle.pcap", data[: at[7]] + bytes(range(1, 200)) + data[at[7] :]
    yield "zeros-at-the-end.pcap", data + bytes(1000)
    yield "text.pcap", b"not a capture at all\n" * 20
    for name, size in (("huge", 2**31 - 1), ("negative", 2**32 - 1), ("longer-than-file", 5000)):
        spoilt = bytearray(data)
        struct.pack_into("<I", spoilt, at[4] + 8, size)
        yield f"captured-{name}.pcap", bytes(spoilt)
    shorter = bytearray(data)
    struct.pack_into("<I", shorter, at[4] + 12, 10)
    yield "wire-shorter-than-captured.pcap", bytes(shorter)
    swapped = bytearray(data)
    swapped[at[3] : at[5]] = data[at[4] : at[5]] + data[at[3] : at[4]]
    yield "two-records-swapped.pcap", bytes(swapped)


def _sequence_numbers() -> Iterator[tuple[str, bytes]]:
    """Wrapped, repeated, jumping, and acknowledged without having been sent."""
    yield "wrapped.pcap", conversation(LOSSES, isn=BEFORE_WRAP)[0].data()
    yield "wrapped-at-syn.pcap", conversation(LOSSES, isn=2**32 - 1)[0].data()
    both = conversation(LOSSES)[0]
    yield "two-flows.pcap", conversation(LOSSES, sport=20001, isn=77, into=both)[0].data()
    again = conversation(LOSSES)[0]
    for record in conversation(LOSSES, isn=5_000_000)[0].records:
        seconds = struct.unpack_from("<I", record)[0]
        again.records.append(struct.pack("<I", seconds + 100) + record[4:])
    yield "port-used-again.pcap", again.data()
    jump = "0.0 > SYN\n0.1 < SYN-ACK\n0.1 > 1:961\n0.2 < ack 961\n"
    yield "jump-ahead.pcap", conversation(f"{jump}0.3 > 2000000001:2000000961")[0].data()
    yield "ack-of-unsent.pcap", conversation(f"{jump}0.3 < ack 99999\n0.4 > 961:1921")[0].data()
    sacked = f"{jump}0.3 > 961:1921\n0.4 < ack 961 sack 5000:4000 961:1921 1:961\n0.9 > 961:1921"
    yield "sack-upside-down.pcap", conversation(sacked)[0].data()
    yield "no-handshake.pcap", conversation(LOSSES.split("SYN-ACK")[1])[0].data()
    one_way = [line for line in LOSSES.splitlines() if "<" not in line]
    yield "one-way.pcap", conversation("\n".join(one_way))[0].data()
    acks = [line for line in LOSSES.splitlines() if ">" not in line]
    yield "other-way.pcap", conversation("\n".join(acks))[0].data()
    reset = f"{jump}0.3 > RST\n0.4 > 961:1921\n0.9 > 961:1921"
    yield "data-after-reset.pcap", conversation(reset)[0].data()
    retried = "0.0 > SYN\n1.0 > SYN\n3.0 > SYN\n3.1 < SYN-ACK\n3.1 > 1:961\n3.2 < ack 961"
    yield "syn-timeouts.pcap", conversation(retried)[0].data()
    probe = f"{jump}0.3 > 961:1921\n0.5 > 961:1921\n0.6 < ack 1921 sack 961:1921"
    yield "spurious.pcap", conversation(probe)[0].data()


def _times(plain: Pcap) -> Iterator[tuple[str, bytes]]:
    """Going back, all the same, and of microseconds."""
    stamps = [struct.unpack_from("<II", record) for record in plain.records]
    for name, order in (("backwards", stamps[::-1]), ("standing-still", stamps[:1] * len(stamps))):
        turned = Pcap()
        pairs = zip(order, plain.records, strict=True)
        turned.records = [struct.pack("<II", *stamp) + record[8:] for stamp, record in pairs]
        yield f"time-{name}.pcap", turned.data()
    for name, form in (("micro", {"nano": False}), ("big-endian", {"big": True})):
        other = Pcap(**form)
        for (seconds, rest), record in zip(stamps, plain.records, strict=True):
            other.add(seconds * SECOND + rest, record[16:], missing=_missing(record))
        yield f"{name}.pcap", other.data()


def _missing(record: bytes) -> int:
    captured, on_wire = struct.unpack_from("<II", record, 8)
    return int(on_wire - captured)


def _headers() -> Iterator[tuple[str, bytes]]:
    """What stands before the payload: cut, of other protocols, of wrong lengths."""
    whole = segment(1, 960)
    odd = (
        Pcap().add(START, segment(0, 0, flags=SYN)).add(START, acknowledgement(1, flags=SYN | ACK))
    )
    for number, frame in enumerate((whole[:n] for n in (0, 13, 14, 20, 33, 40, 53)), 1):
        odd.add(START + number, frame, missing=len(whole) - len(frame))
    yield "frames-cut.pcap", odd.data()
    kinds = Pcap()
    a, b = bytes(15) + b"\1", bytes(15) + b"\2"
    frames = [
        ethernet(b"\0" * 28, kind=0x0806),
        ethernet(ip4(b"\0" * 8, protocol=17)),
        ethernet(ip4(tcp(20000, 5001, seq=1, ack=1), payload=9, fragment=0x2000)),
        ethernet(ip4(tcp(20000, 5001, seq=1, ack=1), payload=9, options=b"\1" * 8)),
        ethernet(ip4(tcp(20000, 5001, seq=1, flags=SYN | FIN | RST), tos=184)),
        ethernet(ip6(tcp(1, 2, flags=SYN), src=a, dst=b), kind=0x86DD),
        ethernet(ip4(tcp(20000, 5001, seq=1, ack=1), payload=9), tags=(0x8100, 0x88A8)),
        ethernet(ip4(tcp(20000, 5001, options=timestamp_option(1, 2)), payload=65000)),
        ethernet(ip4(tcp(20000, 5001, options=b"\2\0\4\377\5\1\0\0"), payload=10)),
        ethernet(b"\x4f" + bytes(60)),
        ethernet(b"\x41" + bytes(60)),
        ethernet(ip4(struct.pack(">HHIIBBHHH", 20000, 5001, 1, 1, 0xF0, 16, 9, 0, 0), payload=5)),
    ]
    for number, frame in enumerate(frames):
        kinds.add(START + number * 1000, frame)
    yield "other-protocols.pcap", kinds.data()
    for link in (0, 12, 101, 113, 276, 147):
        bare = Pcap(link=link).add(START, whole[14:], missing=960)
        yield f"link-type-{link}.pcap", bare.data()


def _containers(plain: Pcap) -> Iterator[tuple[str, bytes]]:
    """The same packets as pcapng, and what is wrong with such blocks."""
    frames = [(record[16:], _missing(record)) for record in plain.records]
    times = [a * SECOND + b for a, b in (struct.unpack_from("<II", r) for r in plain.records)]

    def written(**form: int) -> Pcapng:
        capture = Pcapng().interface(**form)
        for time, (frame, missing) in zip(times, frames, strict=True):
            capture.enhanced(time // 1000, frame, missing=missing)
        return capture

    good = written()
    yield "good.pcapng", good.data()
    cuts = [sum(map(len, good.blocks[:count])) for count in range(len(good.blocks) + 1)]
    yield "cut-between-blocks.pcapng", good.data()[: cuts[9]]
    yield "cut-in-block.pcapng", good.data()[: cuts[9] - 6]
    for name, size in (("zero", 0), ("odd", 33), ("huge", 2**31), ("too-short", 8)):
        spoilt = bytearray(good.data())
        struct.pack_into("<I", spoilt, cuts[7] + 4, size)
        yield f"block-length-{name}.pcapng", bytes(spoilt)
    spoilt = bytearray(good.data())
    struct.pack_into("<I", spoilt, cuts[7] + 20, 60000)
    yield "captured-beyond-block.pcapng", bytes(spoilt)
    spoilt = bytearray(good.data())
    struct.pack_into("<I", spoilt, 8, 0xDEADBEEF)
    yield "no-byte-order.pcapng", bytes(spoilt)
    yield "resolution-of-10-to-127.pcapng", written(resolution=127).data()
    yield "resolution-of-2-to-10.pcapng", written(resolution=0x8A).data()
    yield "offset-of-years.pcapng", written(offset=2**40).data()
    unknown = written().block(0x0BADBEEF, b"nobody knows this block.")
    yield "unknown-block.pcapng", unknown.enhanced(times[-1] // 1000, frames[-1][0]).data()
    yield "unknown-interface.pcapng", written().enhanced(1, frames[0][0], number=9).data()
    turned = written().section(big=True).interface()
    turned.enhanced(times[-1] // 1000 + 10, segment(7000, 10))
    yield "two-byte-orders.pcapng", turned.data()
    simple = Pcapng().interface()
    for frame, missing in frames[:4]:
        simple.simple(frame, missing=missing)
    yield "without-times.pcapng", simple.data()
    old = Pcapng().interface()
    for (before, after), (frame, missing) in zip(pairwise(times), frames, strict=False):
        old.obsolete(max(before, after) // 1000, frame, missing=missing)
    yield "obsolete-blocks.pcapng", old.data()

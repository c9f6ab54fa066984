"""Load the compiled functions once, so that worker processes forked afterwards have them."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.bottleneck import backlog, backlogged_rate, cross
from tcpf_lab.trace.flow import find_flows
from tcpf_lab.trace.pcap import read_capture
from tcpf_lab.trace.recovery import classify

_SYN, _SYN_ACK, _ACK = 0x02, 0x12, 0x10


def warm_up() -> None:
    """Put a capture of four packets through every step of the analysis."""
    with TemporaryDirectory(prefix="tcpf-lab-") as directory:
        path = Path(directory) / "four.pcap"
        path.write_bytes(_capture())
        packets = read_capture(path).packets
        analyse(path, options=Options(at="sender"))
    classify(packets, find_flows(packets))
    crossing = cross(packets, packets)
    backlog(crossing)
    backlogged_rate(crossing)


def _capture() -> bytes:
    """Return a pcap of a handshake and one segment."""
    header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1)
    packets = (
        _packet(0, True, 99, 0, _SYN),
        _packet(1, False, 499, 100, _SYN_ACK),
        _packet(2, True, 100, 500, _ACK),
        _packet(3, True, 100, 500, _ACK, payload=100),
    )
    return header + b"".join(packets)


def _packet(
    second: int, forward: bool, seq: int, ack: int, flags: int, *, payload: int = 0
) -> bytes:
    ends = (0x0A000001, 0x0A000002) if forward else (0x0A000002, 0x0A000001)
    ports = (20000, 5001) if forward else (5001, 20000)
    ethernet = bytes(12) + b"\x08\x00"
    length = 40 + payload
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, length, second, 0x4000, 64, 6, 0, *ends)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 65535, 0, 0)
    frame = ethernet + ip + tcp
    return struct.pack("<IIII", second, 0, len(frame), 14 + length) + frame

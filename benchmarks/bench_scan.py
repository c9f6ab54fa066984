"""Packets per second of the scanner against dpkt, on a capture made for the purpose.

``python -m benchmarks.bench_scan [PACKETS] [--runs N]`` prints one JSON object.  Both read the same
bytes from memory, on one core.  The scanner fills every column of a packet, SACK blocks included;
dpkt makes its Ethernet, IP and TCP objects and the options are parsed.  Compilation is not timed.
Seconds are those of the processor, user and system, so that a busy machine gives the same rate.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpkt

from tcpf_lab.trace.pcap import read_capture

PACKETS = 1_000_000
RUNS = 5
SNAPLEN = 94
#: dpkt reads a part only: it would need half a minute for the whole.
DPKT_SHARE = 20


def make_capture(packets: int) -> bytes:
    """Make a nanosecond capture of data packets and ACKs, every third ACK with two SACK blocks."""
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, 1)
    kinds = [_frame(960, b""), _frame(0, b""), _frame(960, b""), _frame(0, _sack())]
    parts = [head]
    for i in range(packets):
        frame, missing = kinds[i % 4]
        seconds, fraction = divmod(i * 500_000, 10**9)
        sizes = (len(frame), len(frame) + missing)
        parts += [struct.pack("<IIII", seconds, fraction, *sizes), frame]
    return b"".join(parts)


def _sack() -> bytes:
    return b"\x01\x01\x05\x12" + struct.pack(">IIII", 1000, 2000, 3000, 4000)


def _frame(payload: int, options: bytes) -> tuple[bytes, int]:
    """Give an Ethernet frame cut off at the snapshot length, and how much of it is missing."""
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack(">HHIIBBHHH", 20000, 5001, 1, 1, offset, 16, 1000, 0, 0) + options
    size = 20 + len(tcp) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 1, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\3\2")
    frame = b"\x02" * 12 + b"\x08\x00" + ip + tcp + bytes(payload)
    return frame[:SNAPLEN], len(frame) - len(frame[:SNAPLEN])


def read_with_dpkt(data: bytes) -> int:
    """Parse as much as the scanner does; the number of packets."""
    count = 0
    for _, frame in dpkt.pcap.Reader(io.BytesIO(data)):
        segment = dpkt.ethernet.Ethernet(frame).data.data
        dpkt.tcp.parse_opts(segment.opts)
        count += 1
    return count


def median_rate(read: Callable[[], int], runs: int) -> float:
    """Packets per processor second, the median of several runs."""
    rates = []
    for _ in range(runs):
        begin = time.process_time()
        packets = read()
        rates.append(packets / (time.process_time() - begin))
    return statistics.median(rates)


def main(packets: int = PACKETS, runs: int = RUNS) -> dict[str, Any]:
    """Measure both readers on ``packets`` packets.

    Returns
    -------
    dict
        Packets per processor second of each, and their ratio.
    """
    data = make_capture(packets)
    part = make_capture(max(1, packets // DPKT_SHARE))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "generated.pcap"
        path.write_bytes(data)
        read_capture(path)  # compiles, and brings the file into memory
        ours = median_rate(lambda: read_capture(path).records, runs)
    theirs = median_rate(lambda: read_with_dpkt(part), runs)
    return {
        "packets": packets,
        "capture_bytes": len(data),
        "runs": runs,
        "scanner_packets_per_s": round(ours),
        "dpkt_packets_per_s": round(theirs),
        "ratio": round(ours / theirs, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packets", nargs="?", type=int, default=PACKETS)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    print(json.dumps(main(options.packets, options.runs), indent=1))

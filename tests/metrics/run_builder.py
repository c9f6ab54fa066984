"""A small run by hand: two flows, one lost packet, one timeout; every number can be reckoned.

Flow 0 sends 20 segments, one each 10 ms from 1.5 s on.  Flow 1 sends 40 at once at 1.0 s, which
leave the bottleneck one per 811.2 us (1014 bytes at 10 Mbit/s); the last is lost and sent again at
2.3 s.  The window is 1 s to 3 s.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pcap_builder import SYN, Pcap, acknowledgement, segment

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.results.layout import RunFiles

EPOCH = 10**18
MS = 1_000_000
SERVICE_NS = 811_200
PAYLOAD = 960
DEVICES = ["S-R0", "R0-R1", "R1-R0"]

MANIFEST: dict[str, Any] = {
    "format": 2,
    "experiment": "byhand",
    "testbed": "fake",
    "run": "nomark+red-flows2-seed1",
    "config": "A",
    "case": "NoMark+RED",
    "flows": 2,
    "seed": 1,
    "window_s": [1.0, 3.0],
    "expect": {
        "captures": {"sender": "S", "ingress": "R1-in", "egress": "R1-out"},
        "bottleneck": {"device": "R1-R2", "rate_bits_per_s": 10_000_000},
        "port": 5001,
        "source_port": 20000,
        "generator": "native",
        "qdisc": {"device": "R1-R2", "kind": "red", "options": {"limit": 60000, "min": 10000}},
        "marker": {
            "node": "R0",
            "kind": "tcpf",
            "index": 1,
            "bind": 2,
            "options": {"interval": 400000, "in": 10, "out": 0, "retransmits": "protect"},
        },
        "routes": {"S": {"initcwnd": 2, "rto_min": 200}},
        "lossless_devices": DEVICES,
        "sysctl": {"S": {"net.ipv4.tcp_sack": "1", "net.ipv4.tcp_rmem": "4096 1000 2000"}},
        "offloads_off": {"devices": ["S-R0"], "features": ["tcp-segmentation-offload"]},
    },
}

#: What the marker shows: it found nothing to mark, so all 63 packets carry the code point 0.
MARKED = {
    "interval": 400000,
    "in": 10,
    "out": 0,
    "retransmits": "protect",
    "xstats": {"in_packets": 0, "out_packets": 63},
}


#: What the clock of a node shows so many nanoseconds after the epoch.
Stamp = Callable[[str, int], int]


def one_clock(_node: str, at: int) -> int:
    return EPOCH + at


class Timeline:
    """Frames at three points, written in the order of time."""

    def __init__(self) -> None:
        self.points: dict[str, list[tuple[int, bytes, int]]] = {"S": [], "R1-in": [], "R1-out": []}

    def data(self, sent: int, left: int | None, frame: bytes, payload: int = PAYLOAD) -> None:
        """Send a packet at ``sent`` that leaves the bottleneck at ``left`` or never."""
        self.points["S"].append((sent, frame, payload))
        self.points["R1-in"].append((sent, frame, payload))
        if left is not None:
            self.points["R1-out"].append((left, frame, payload))

    def back(self, at: int, frame: bytes) -> None:
        self.points["S"].append((at, frame, 0))

    def write(self, directory: Path, stamp: Stamp) -> dict[str, int]:
        """Write a capture per point; ``stamp`` gives the time that the point's node shows."""
        for point, frames in self.points.items():
            capture = Pcap()
            for at, frame, payload in sorted(frames, key=lambda item: item[0]):
                capture.add(stamp(point.partition("-")[0], at), frame, missing=payload)
            capture.write(directory / f"{point}.pcap")
        return {point: len(frames) for point, frames in self.points.items()}


def timeline() -> Timeline:
    line = Timeline()
    for flow in range(2):
        port = 20000 + flow
        line.data(200 * MS, 201 * MS + flow, segment(0, 0, sport=port, flags=SYN), 0)
        line.back(400 * MS, acknowledgement(1, sport=port, flags=18))
    for k in range(40):
        left = 1000 * MS + (k + 1) * SERVICE_NS
        frame = segment(1 + PAYLOAD * k, sport=20001, ip_id=k + 1)
        line.data(1000 * MS, left if k < 39 else None, frame)
        if k < 39:
            line.back(left + 200 * MS, acknowledgement(1 + PAYLOAD * (k + 1), sport=20001))
    again = segment(1 + PAYLOAD * 39, sport=20001, ip_id=41)
    line.data(2300 * MS, 2300 * MS + SERVICE_NS, again)
    line.back(2500 * MS, acknowledgement(1 + PAYLOAD * 40, sport=20001))
    for k in range(20):
        at = 1500 * MS + 10 * MS * k
        line.data(at, at + SERVICE_NS, segment(1 + PAYLOAD * k, sport=20000, ip_id=k + 1))
        line.back(at + 200 * MS, acknowledgement(1 + PAYLOAD * (k + 1), sport=20000))
    return line


def sample(label: str, flow: int, acked: int, rto: int) -> dict[str, Any]:
    at = {"start": 1_000_000_000, "end": 3_000_000_512}[label]
    row = {"event": "sample", "sample": label, "time_ns": at, "flow": flow, "connected": True}
    row |= {"source_port": 20000 + flow, "bytes_acked": acked, "total_rto": rto}
    again = rto * PAYLOAD
    row |= {"bytes_sent": acked - 1 + again, "bytes_retrans": again, "snd_mss": PAYLOAD}
    return row | {"total_retrans": rto}


def samples() -> list[dict[str, Any]]:
    ends = [(20 * PAYLOAD + 1, 0), (40 * PAYLOAD + 1, 1)]
    rows = [sample("start", flow, 1, 0) for flow in range(2)]
    return rows + [sample("end", flow, acked, rto) for flow, (acked, rto) in enumerate(ends)]


def write_stats(files: RunFiles) -> None:
    def put(name: str, text: str) -> None:
        (files.stats / name).write_text(text, encoding="utf-8")

    put("epoch.json", json.dumps({"epoch_ns": EPOCH}))
    put("senders-S.jsonl", "".join(json.dumps(row) + "\n" for row in samples()))
    put("sysctl-S.txt", "net.ipv4.tcp_sack = 1\nnet.ipv4.tcp_rmem = 4096\t1000\t2000\n")
    put("offload-S-R0.txt", "Features for S-R0:\ntcp-segmentation-offload: off\n")
    quiet = {"kind": "tbf", "root": True, "drops": 0}
    red = {"kind": "red", "options": {"limit": 60000, "min": 10000}, "drops": 1}
    queues = {
        "S": [{**quiet, "dev": "S-R0"}],
        "R0": [{**quiet, "dev": "R0-R1"}],
        "R1": [{**quiet, "dev": "R1-R0"}, {**quiet, "dev": "R1-R2", "drops": 1}],
    }
    queues["R1"].append({**red, "dev": "R1-R2", "parent": "1:"})
    marker = {"kind": "tcpf", "index": 1, "ref": 3, "bind": 2, **MARKED}
    put("action-R0.json", json.dumps([{"total acts": 1}, {"actions": [marker]}]))
    far = {
        "dst": "10.0.3.0/24",
        "gateway": "10.0.0.2",
        "metrics": [{"initcwnd": 2, "rto_min": 200}],
    }
    put("route-S.json", json.dumps([{"dst": "10.0.0.0/24", "dev": "S-R0"}, far]))
    for node, rows in queues.items():
        put(f"qdisc-{node}.json", json.dumps(rows))
        names = sorted({str(row["dev"]) for row in rows})
        received, sent = "900 9 0 0 0 0 0 0", "800 8 0 0 0 0 0 0"
        put(f"dev-{node}.txt", "".join(f"{name:>6}: {received} {sent}\n" for name in names))


def make_iperf3(files: RunFiles) -> None:
    """Turn the run into one whose traffic iperf3 made, on a kernel that counts a total only."""
    (files.stats / "senders-S.jsonl").unlink()
    manifest = json.loads(files.manifest.read_text(encoding="utf-8"))
    manifest["expect"]["generator"] = "iperf3"
    files.manifest.write_text(json.dumps(manifest), encoding="utf-8")
    for flow, (received, again) in enumerate([(20 * PAYLOAD - 37, 0), (40 * PAYLOAD - 37, 1)]):
        stream = {"sender": {"retransmits": again}, "receiver": {"bytes": received}}
        report = {"start": {"test_start": {"blksize": 131072}}, "end": {"streams": [stream]}}
        path = files.stats / f"iperf3-{flow}.json"
        path.write_text(json.dumps(report), encoding="utf-8")
    counters = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 1\nIpExt: InOctets\nIpExt: 7\n"
    (files.stats / "netstat-S.txt").write_text(counters, encoding="utf-8")


def build_run(root: Path, stamp: Stamp = one_clock) -> RunFiles:
    """Write a run that passes every check."""
    files = RunFiles(root)
    files.create()
    files.manifest.write_text(json.dumps(MANIFEST), encoding="utf-8")
    for point, count in timeline().write(files.pcap, stamp).items():
        text = f"tcpdump: listening\n{count} packets captured\n0 packets dropped by kernel\n"
        (files.log / f"tcpdump-{point}.log").write_text(text, encoding="utf-8")
    write_stats(files)
    return files


# Entries of the kernel's list of retransmissions, made by hand.

S, D = ([*[0] * 10, 255, 255, 10, 0, 0, last] for last in (1, 2))


def entry(cause: int, seq: int, **other: Any) -> NDArray[Any]:
    """Give one entry of flow 10.0.0.1:20000 > 10.0.0.2:5001, a segment of 1000 bytes, sent."""
    made = np.zeros(1, log.ENTRY)
    values = {"src": S, "dst": D, "sport": 20000, "dport": 5001, "segments": 1} | {
        "cause": cause,
        "seq": seq,
        "end": (seq + 1000) & 0xFFFFFFFF,
        "marks": log.SENT,
        **other,
    }
    for name, value in values.items():
        made[name] = value
    return made


def as_file(*entries: NDArray[Any], missing: int = 0) -> bytes:
    """Give what /proc/net/tcp_retransmissions would hold."""
    head = log.HEAD.pack(log.MAGIC, log.ENTRY.itemsize, missing, len(entries))
    return head + b"".join(made.tobytes() for made in entries)

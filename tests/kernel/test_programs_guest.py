"""The programs that make traffic in a guest, where every instant is exact; its senders, its queues.

S - D, 10 Mbit/s and 5 ms each way, IPv4 and IPv6.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_maker import locked
from test_programs import ANSWERED, DATAGRAM, EXCHANGE, INFO

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import (
    EPOCH,
    PROGRAMS,
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    End,
    Finish,
    Offloads,
    Phase,
    Ready,
    Start,
    Stop,
)
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

pytestmark = [pytest.mark.uml, pytest.mark.full]

CONGESTION = (
    *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv"),
    *("reno", "scalable", "vegas", "veno", "westwood", "yeah"),
)
QDISCS = ["fq_codel", "cake", "codel", "pie", "fq_pie", "fq", "sfq", "choke", "red"]
NEEDS = {
    "choke": "limit 100 min 10 max 50 avpkt 1000 bandwidth 10mbit",
    "red": "limit 100000 min 10000 max 50000 avpkt 1000",
}
#: Prints the default, and what a socket has after each name was set.
READ_CONGESTION = (
    "import json, socket; s = socket.socket(); "
    "read = lambda name: open('/proc/sys/net/ipv4/tcp_' + name).read().split(); "
    "change = lambda name: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode()); "
    "now = lambda: s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16); "
    "found = {name: (change(name), now().rstrip(bytes(1)).decode())[1] "
    "for name in read('available_congestion_control')}; "
    "print(json.dumps({'default': read('congestion_control'), 'set': found}))"
)
V4, V6 = "10.0.0.2", "fd00::2"
#: Frames of 100 bytes and 14 more at 10 Mbit/s: queues are empty, and a burst lets them pass.
DELAY_NS = 5_000_000


def program(node: str, name: str, *words: str, listens: bool = False) -> Start:
    output = f"stats/{name}.jsonl"
    argv = (f"{PROGRAMS}/{words[0]}", *words[1:], "--epoch", EPOCH)
    ready = Ready(output, "listening") if listens else None
    return Start(node, name, argv, output, f"log/{name}.log", ready=ready)


def network() -> tuple[Any, ...]:
    ends = (End("S", "S-D", "02:00:00:00:00:01"), End("D", "D-S", "02:00:00:00:00:02"))
    nodes = (AddNode("S"), AddNode("D"), AddLink(ends, 1500, 10_000_000))
    off = ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload")
    steps: list[Any] = []
    for number, end in enumerate(ends, 1):
        queue = ("tc", "qdisc", "add", "dev", end.device)
        steps += [
            Command(end.node, ("ip", "addr", "add", f"10.0.0.{number}/24", "dev", end.device)),
            Command(
                end.node, ("ip", "addr", "add", f"fd00::{number}/64", "dev", end.device, "nodad")
            ),
            Command(end.node, ("ip", "link", "set", end.device, "up")),
            Offloads(end.node, end.device, off, f"stats/offload-{end.node}.txt"),
            Command(
                end.node, (*queue, "root", "handle", "1:", "netem", "delay", "5ms", "limit", "1000")
            ),
            Command(
                end.node,
                (
                    *(*queue, "parent", "1:", "handle", "2:", "tbf"),
                    *("rate", "10mbit", "burst", "3000", "limit", "100000"),
                ),
            ),
        ]
    return (*nodes, *steps)


def tcp(number: int, address: str, *words: str) -> tuple[Start, Start]:
    common = (
        *("--port", str(5000 + number), "--source-port", str(20000 + number)),
        *("--sample", "start=0.5,end=4"),
    )
    receive = ("tcpf-traffic", "recv", "--listen", address, "--flows", "2", *common)
    send = ("tcpf-traffic", "send", "--connect", address, "--start", "0.1,0.2", *common, *words)
    return (
        program("D", f"recv{number}", *receive, listens=True),
        program("S", f"send{number}", *send),
    )


def udp(name: str, address: str) -> tuple[Start, Start]:
    receive = ("tcpf-probe", "udp-recv", "--listen", address, "--records", f"stats/udp{name}.bin")
    send = ("tcpf-probe", "udp-send", "--connect", address, "--every", "0.01", "--size", "100")
    return (
        program("D", f"udp{name}", *receive, "--until", "9", listens=True),
        program("S", f"udp-send{name}", *send, "--from", "5", "--until", "8"),
    )


def ask(name: str, begin: int, *words: str) -> Start:
    sizes = ("--request", "100", "--response", "1000", "--think", "0.05", "--flows", "1")
    return program(
        *("S", name, "tcpf-probe", "ask", "--connect", V6, *sizes, "--seed", "1"),
        *(
            "--from",
            str(begin),
            "--until",
            str(begin + 1),
            "--records",
            f"stats/{name}.bin",
            *words,
        ),
    )


def plan() -> Plan:
    watched = ("--interval", "0.1", "--info", "stats/info.bin", "--congestion", "bbr")
    chunks = ("--volume", "3000", "--chunk", "1000", "--every", "0.25", "--nodelay")
    answer = ("tcpf-probe", "answer", "--listen", V6, "--until", "12")
    pairs = (
        tcp(0, V4, "--stop", "2", *watched),
        tcp(10, V6, "--volume", "50000"),
        tcp(20, V6, *chunks),
        udp("4", V4),
        udp("6", V6),
    )
    started = (
        *(pair[0] for pair in pairs),
        program("D", "answer", *answer, listens=True),
        *(pair[1] for pair in pairs),
        ask("ask-new", 9),
        ask("ask-reuse", 10, "--reuse"),
    )
    capture = Start(
        *("S", "tcpdump", ("tcpdump", "-i", "S-D", "-n", "-s", "100", "-w", "pcap/S.pcap")),
        *("log/tcpdump.out", "log/tcpdump.log", Ready("log/tcpdump.log", "listening on")),
    )
    queues = (
        Command("S", ("tc", "qdisc", "replace", "dev", "lo", "root", kind, *words.split()))
        for kind in QDISCS
        for words in [NEEDS.get(kind, "")]
    )
    read = Command(None, (sys.executable, "-I", "-S", "-c", READ_CONGESTION), "stats/cc.json")
    return Plan(
        (
            Phase("network", network()),
            Phase("senders and queues", (read, *queues)),
            Phase("capture", (capture,)),
            Phase("epoch", (AgreeEpoch(2, "stats/epoch.json"),)),
            Phase("traffic", started),
            Phase("end", (Finish(tuple(start.name for start in started), 30.0),)),
            Phase("capture's end", (Stop(("tcpdump",)),)),
        ),
        {},
        (0.0, 14.0),
        ("tcpdump",),
    )


@pytest.fixture(scope="module")
def run(uml: UmlTestbed, shared: Path) -> Path:
    """Return the directory of a run; the workers of a session boot one guest together."""
    return executed(uml, shared, "programs-guest")


def executed(uml: UmlTestbed, shared: Path, name: str) -> Path:
    root = shared / name
    with locked(shared):
        if not root.exists():
            files = RunFiles(root)
            files.create()
            uml.execute(plan(), files, seed=1)
    return root


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    text = (run / "stats" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def at_end(run: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in lines(run, name) if row.get("sample") == "end"]


def test_every_congestion_control_can_be_set_and_the_default_is_cubic(run):
    found = json.loads((run / "stats/cc.json").read_text())
    assert found == {"default": ["cubic"], "set": {name: name for name in CONGESTION}}


def test_flows_stop_at_the_instant(run):
    end = at_end(run, "send0")
    assert all(row["stopped"] and "error" not in row for row in end)
    info = np.fromfile(run / "stats/info.bin", INFO)
    assert np.unique(info["time_ns"] // 10_000).tolist() == list(range(20_000, 200_001, 10_000))
    assert info["flow"].tolist() == [0, *[0, 1] * 18]
    last = info[-2:]
    assert last["bytes_acked"].tolist() == [row["bytes_acked"] for row in end]
    assert last["cwnd"].tolist() == [row["snd_cwnd"] for row in end]
    # 10 Mbit/s less headers for 1.9 s, of both.
    assert 1.5e6 < sum(last["bytes_acked"]) < 2.4e6


def test_volume_has_arrived_when_the_fin_comes(run):
    rows = [row for row in lines(run, "send10") if row["event"] == "finished"]
    assert [row["start_ns"] // 100_000 for row in rows] == [1000, 2000]
    assert all(10_000_000 < row["time_ns"] - row["start_ns"] < 2_000_000_000 for row in rows)
    assert [row["bytes_received"] for row in at_end(run, "recv10")] == [50_001] * 2


def test_chunks_leave_at_exact_instants(run):
    rows = [row for row in lines(run, "send20") if row["event"] == "finished"]
    # The third chunk leaves two periods after the start.
    assert all(row["time_ns"] - row["start_ns"] >= 510_000_000 for row in rows)
    assert [row["missed_chunks"] for row in at_end(run, "send20")] == [0, 0]


@pytest.mark.parametrize("family", ["4", "6"])
def test_datagrams_leave_and_arrive_exactly(run, family):
    found = np.fromfile(run / f"stats/udp{family}.bin", DATAGRAM)
    assert found["number"].tolist() == list(range(300))
    due = 5_000_000_000 + 10_000_000 * found["number"].astype(np.int64)
    assert np.all((found["sent_ns"] >= due) & (found["sent_ns"] < due + 2000))
    delay = found["received_ns"] - found["sent_ns"]
    # Two datagrams leave at one instant: one may wait for the other.
    assert np.all((delay >= DELAY_NS) & (delay < DELAY_NS + 200_000))
    assert np.ptp(delay) < 3000
    (_, end) = lines(run, f"udp{family}")
    assert (end["received"], end["duplicates"], end["reordered"]) == (300, 0, 0)


def test_exchange_takes_one_round_trip_or_two_with_a_handshake(run):
    for name, trips in (("-new", 2), ("-reuse", 1)):
        found = np.fromfile(run / f"stats/ask{name}.bin", EXCHANGE)
        took = (found["end_ns"] - found["start_ns"])[found["state"] == ANSWERED]
        assert took.size > 5
        assert np.all((took >= trips * 10_000_000) & (took < trips * 10_000_000 + 200_000))
        assert found["start_ns"][0] > (9e9 if trips == 2 else 10e9)


def test_the_same_again_gives_the_same_bytes(uml, shared, run):
    again = executed(uml, shared, "programs-guest-again")
    for path in ("pcap/S.pcap", "stats/info.bin", "stats/udp6.bin", "stats/ask-new.bin"):
        one, two = (hashlib.sha256((root / path).read_bytes()).digest() for root in (run, again))
        assert one == two, path

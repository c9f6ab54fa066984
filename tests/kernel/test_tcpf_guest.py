"""The marker in a guest: real TCP over IPv4 and IPv6, judged by captures of both ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import dpkt
import pytest
from run_maker import locked

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

pytestmark = [pytest.mark.uml, pytest.mark.full]

GUEST = Path(__file__).with_name("tcpf_guest.py")
IN, OUT = 10, 12
OF_TCP = (
    *("control", "ack", "retransmission", "new", "tiny", "allocated"),
    *("spaced", "no_tokens", "no_spare"),
)
SENDER = ("10.0.1.2", "fd01::2")


@pytest.fixture(scope="module")
def run(uml: UmlTestbed, products: Path) -> Path:
    """Return the directory of a run; the workers of a session boot one guest together."""
    root = products / "tcpf-guest"
    with locked(products):
        if not root.exists():
            files = RunFiles(root)
            files.create()
            python = Command(None, (sys.executable, "-I", "-S", str(GUEST)))
            modules = Phase("modules", (LoadModule("R1", "act_tcpf"),))
            plan = Plan((modules, Phase("traffic", (python,))), {}, (0.0, 200.0), ())
            uml.execute(plan, files, seed=1)
    return root


def packets(path: Path) -> list[tuple[bool, int, int, Any]]:
    """Return ``(of the sender, codepoint, ECN, packet)`` of all packets but ICMP's."""
    found = []
    with path.open("rb") as file:
        for _, frame in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(frame).data
            ours = isinstance(ip, dpkt.ip.IP | dpkt.ip6.IP6)
            if not ours or isinstance(ip.data, dpkt.icmp.ICMP | dpkt.icmp6.ICMP6):
                continue
            tos = ip.tos if isinstance(ip, dpkt.ip.IP) else ip.fc
            source = dpkt.utils.inet_to_str(ip.src)
            found.append((source in SENDER, tos >> 2, tos & 3, ip))
    return found


@pytest.fixture(scope="module")
def xstats(run: Path) -> dict[str, Any]:
    shown = json.loads((run / "stats/action.json").read_text())
    (action,) = [a for part in shown for a in part.get("actions", [])]
    return dict(action["xstats"])


def test_every_packet_of_the_data_direction_is_marked_and_no_other(run: Path) -> None:
    arrived = packets(run / "pcap/D.pcap")
    assert Counter(dscp for forward, dscp, _, _ in arrived if forward).keys() == {IN, OUT}
    assert Counter(dscp for forward, dscp, _, _ in arrived if not forward).keys() == {0}
    returned = packets(run / "pcap/S.pcap")
    assert {dscp for forward, dscp, _, _ in returned if not forward} == {0}


def test_ecn_stays_and_fragments_and_udp_are_out(run: Path) -> None:
    arrived = packets(run / "pcap/D.pcap")
    others = [(dscp, ecn, ip) for forward, dscp, ecn, ip in arrived if forward and ecn]
    assert {(dscp, ecn) for dscp, ecn, _ in others} == {(OUT, 1)}
    assert len(others) == 2 * (1 + 3), "one packet and three fragments of each"


@pytest.mark.parametrize("node", ["S", "D"])
def test_checksums_are_right(run: Path, node: str) -> None:
    shown = subprocess.run(
        ["tcpdump", "-v", "-n", "-r", run / f"pcap/{node}.pcap"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len(re.findall(r"tos 0x.*\n.*cksum 0x\w+ \(correct\)", shown)) > 300
    assert len(re.findall(r"IP6 \(.*cksum 0x\w+ \(correct\)", shown)) > 300
    assert re.findall(r".*(?:incorrect|bad cksum).*", shown) == []


def test_counters_add_up(run: Path, xstats: dict[str, Any]) -> None:
    left = [ip for forward, _, _, ip in packets(run / "pcap/S.pcap") if forward]
    tcp = [ip for ip in left if isinstance(ip.data, dpkt.tcp.TCP)]
    counted = sum(xstats[reason]["packets"] for reason in OF_TCP)
    assert counted == len(tcp)
    flags = [ip.data.flags for ip in tcp if not ip.data.data]
    control = sum(bool(f & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_FIN | dpkt.tcp.TH_RST)) for f in flags)
    assert xstats["control"]["packets"] == control
    assert xstats["ack"]["packets"] == len(flags) - control
    assert xstats["in_packets"] + xstats["out_packets"] == counted + xstats["other"]["packets"]
    assert xstats["retransmission"]["packets"] == retransmissions(tcp) > 0
    assert xstats["unwritable"] == xstats["evicted"] == 0


def retransmissions(segments: list[Any]) -> int:
    """Count segments that begin before the highest byte seen of their flow."""
    highest: dict[tuple[bytes, int], int] = {}
    number = 0
    for ip in segments:
        tcp, key = ip.data, (ip.src, ip.data.sport)
        if not tcp.data:
            continue
        at = highest.get(key, tcp.seq)
        number += (tcp.seq - at) % 2**32 >= 2**31
        end = (tcp.seq + len(tcp.data)) % 2**32
        highest[key] = end if (end - at) % 2**32 < 2**31 else at
    return number


def test_long_run_share_is_what_the_tokens_pay_for(xstats: dict[str, Any]) -> None:
    """Allocations, new flows and retransmissions together never exceed M for each interval."""
    paid = ("retransmission", "new", "tiny", "allocated", "control")
    used = sum(xstats[reason]["bytes"] for reason in paid)
    assert used <= (xstats["ticks"] + 1) * 100_000 + 2 * 100_000

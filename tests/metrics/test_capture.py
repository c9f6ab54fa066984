"""What a capture says by itself, and which of its flows are wanted."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pcap_builder import Pcap, conversation, ethernet, ip6, tcp

from tcpf_lab.metrics.capture import FlowChoice, describe
from tcpf_lab.trace.analysis import KINDS, Analysis, analyse

TABLE = """
0.0     > SYN
1.0     > SYN
1.2     < SYN-ACK
1.2     > 1:961
1.2     > 961:1921
1.4     < ack 961
1.4     > 1921:2881
2.5     > 961:1921
2.7     < ack 2881
"""


def described(analysis: Analysis) -> dict:
    return describe(analysis, np.arange(analysis.flows.size))


def test_flow_is_described(tmp_path: Path) -> None:
    path = conversation(TABLE)[0].write(tmp_path / "x.pcap")
    found = described(analyse(path))
    assert found["file"] == str(path)
    assert (found["format"], found["packets"], found["at"]) == ("pcap", 9, "sender")
    assert (found["start_ns"], found["duration_s"]) == (10**18, 2.7)
    (flow,) = found["flows"]
    words = {
        "flow": 0,
        "src": "10.0.0.1",
        "sport": 20000,
        "dst": "10.0.3.2",
        "dport": 5001,
        "start_s": 0.0,
        "duration_s": 2.5,
        "packets": 6,
        "data_packets": 4,
        "payload_bytes": 3840,
        "acked_bytes": 2880,
        "acks": 3,
        "retransmissions": 1,
        "timeouts": 1,
        "syn_timeouts": 1,
        "timeout_episodes": 1,
        "syn": 2,
        "fin": 0,
        "rst": 0,
    }
    assert {name: flow[name] for name in words} == words
    assert {kind for kind, count in flow["events"].items() if count} == {"rto", "syn_rto"}
    assert set(flow["events"]) == set(KINDS[1:])
    assert flow["spurious"] == {}
    assert (flow["sack"], flow["timestamps"], flow["dscp"]) == (False, False, 0)


def test_totals_add_up_and_all_is_json(tmp_path: Path) -> None:
    capture = Pcap()
    for port in (20000, 20001, 20002):
        conversation(TABLE, sport=port, into=capture)
    found = described(analyse(capture.write(tmp_path / "x.pcap")))
    totals = json.loads(json.dumps(found))["totals"]
    events = totals.pop("events")
    assert totals == {
        "flows": 3,
        "data_packets": 12,
        "payload_bytes": 11520,
        "acked_bytes": 8640,
        "retransmissions": 3,
        "timeouts": 3,
        "syn_timeouts": 3,
        "timeout_episodes": 3,
        "spurious": {},
        "unknown_share": 0.0,
    }
    assert (events["rto"], events["syn_rto"], sum(events.values())) == (3, 3, 6)


def test_only_the_flows_that_are_asked_for_are_described(tmp_path: Path) -> None:
    capture = Pcap()
    for port in (20000, 20001, 20002):
        conversation(TABLE, sport=port, into=capture)
    found = describe(analyse(capture.write(tmp_path / "x.pcap")), [2, 0])
    assert [(row["flow"], row["sport"]) for row in found["flows"]] == [(2, 20002), (0, 20000)]
    assert found["totals"]["timeouts"] == 2


def test_ipv6_ends_are_written_in_the_direction_of_the_data(tmp_path: Path) -> None:
    a, b = bytes(15) + b"\x01", bytes(15) + b"\x02"
    back = ethernet(ip6(tcp(5001, 20000, ack=1), src=b, dst=a), kind=0x86DD)
    data = ethernet(ip6(tcp(20000, 5001, seq=1), src=a, dst=b, payload=9), kind=0x86DD)
    path = Pcap().add(0, back).add(1, data).write(tmp_path / "x.pcap")
    (flow,) = described(analyse(path))["flows"]
    assert (flow["src"], flow["dst"]) == ("::1", "::2")


def test_dash_reads_standard_input(standard_input: Callable[[bytes], None]) -> None:
    standard_input(conversation(TABLE)[0].data())
    assert described(analyse("-"))["totals"]["timeouts"] == 1


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Three flows from 10.0.0.1 to 10.0.3.2."""
    capture = Pcap()
    for port in (20000, 20001, 20002):
        conversation(TABLE, sport=port, into=capture)
    return analyse(capture.write(tmp_path_factory.mktemp("three") / "x.pcap"))


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        (FlowChoice(), [0, 1, 2]),
        (FlowChoice(ports=(20001,)), [1]),
        (FlowChoice(ports=(20001, 20002)), [1, 2]),
        (FlowChoice(ports=(5001,)), [0, 1, 2]),
        (FlowChoice(ports=(20001,), flows=(0, 2)), []),
        (FlowChoice(flows=(2, 0)), [0, 2]),
        (FlowChoice(dscps=(0,)), [0, 1, 2]),
        (FlowChoice(dscps=(10,)), []),
        (FlowChoice(hosts=(ipaddress.ip_network("10.0.3.2"),)), [0, 1, 2]),
        (FlowChoice(hosts=(ipaddress.ip_network("10.0.0.0/24"),)), [0, 1, 2]),
        (FlowChoice(hosts=(ipaddress.ip_network("10.0.4.0/24"),)), []),
        (FlowChoice(hosts=(ipaddress.ip_network("0.0.0.0/0"),)), [0, 1, 2]),
        (FlowChoice(hosts=(ipaddress.ip_network("2001:db8::/32"),)), []),
    ],
    ids=lambda value: str(value),
)
def test_flows_are_chosen_by_all_of_what_is_asked(
    three: Analysis, choice: FlowChoice, rows: list[int]
) -> None:
    assert choice.rows(three).tolist() == rows


def test_an_address_of_the_other_family_is_no_match(three: Analysis) -> None:
    """::ffff:0:0 as a network of IPv4 must not match 2001:db8:: because its tail is 0."""
    flows = three.flows.copy()
    address = ipaddress.IPv6Address("2001:db8:0:0:0:ffff:a00:1").packed
    flows["src"] = flows["dst"] = np.frombuffer(address, np.uint8)
    other = Analysis(three.capture, flows, three.events, three.at, 0, 0)
    assert FlowChoice(hosts=(ipaddress.ip_network("10.0.0.1"),)).rows(other).size == 0
    assert FlowChoice(hosts=(ipaddress.ip_network("2001:db8::/32"),)).rows(other).size == 3

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from pcap_builder import Pcap, conversation, ethernet, ip6, tcp

from tcpf_lab.errors import TraceError
from tcpf_lab.metrics.capture import describe_capture, describe_captures

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


def test_flow_is_described(tmp_path: Path) -> None:
    path = conversation(TABLE)[0].write(tmp_path / "x.pcap")
    found = describe_capture(path)
    assert found["file"] == str(path)
    assert found["packets"] == 9
    assert found["flows"] == [
        {
            "src": "10.0.0.1",
            "sport": 20000,
            "dst": "10.0.3.2",
            "dport": 5001,
            "data_packets": 4,
            "acked_bytes": 2880,
            "retransmissions": 1,
            "timeouts": 1,
            "syn_timeouts": 1,
        }
    ]


def test_totals_add_up_and_all_is_json(tmp_path: Path) -> None:
    capture = Pcap()
    for port in (20000, 20001, 20002):
        conversation(TABLE, sport=port, into=capture)
    found = describe_captures([capture.write(tmp_path / "x.pcap")])
    totals = json.loads(json.dumps(found))["captures"][0]["totals"]
    assert totals == {
        "flows": 3,
        "data_packets": 12,
        "acked_bytes": 8640,
        "retransmissions": 3,
        "timeouts": 3,
        "syn_timeouts": 3,
    }


def test_ipv6_ends_are_written_in_the_direction_of_the_data(tmp_path: Path) -> None:
    a, b = bytes(15) + b"\x01", bytes(15) + b"\x02"
    back = ethernet(ip6(tcp(5001, 20000, ack=1), src=b, dst=a), kind=0x86DD)
    data = ethernet(ip6(tcp(20000, 5001, seq=1), src=a, dst=b, payload=9), kind=0x86DD)
    path = Pcap().add(0, back).add(1, data).write(tmp_path / "x.pcap")
    (flow,) = describe_capture(path)["flows"]
    assert (flow["src"], flow["dst"]) == ("::1", "::2")


def test_several_captures_keep_their_order(tmp_path: Path) -> None:
    paths = [conversation(TABLE)[0].write(tmp_path / f"{name}.pcap") for name in "ba"]
    found = describe_captures(paths)
    assert [one["file"] for one in found["captures"]] == [str(path) for path in paths]


def test_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = conversation(TABLE)[0].data()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert describe_capture("-")["totals"]["timeouts"] == 1


def test_truncated_capture_is_refused_unless_accepted(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(conversation(TABLE)[0].data()[:-3])
    with pytest.raises(TraceError, match="truncated in packet 9"):
        describe_capture(path)
    with pytest.warns(UserWarning, match="truncated"):
        assert describe_capture(path, accept_truncated=True)["packets"] == 8

"""Captures of one direction: what they cannot tell is not told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pcap_builder import Pcap, conversation

from tcpf_lab.metrics.capture import capture_row, flow_row, totals
from tcpf_lab.report.captures import headline, remarks
from tcpf_lab.trace.analysis import KINDS, RULES, UNKNOWN, Analysis, Options, analyse, one_way

#: Of a retransmission in a flow without acknowledgements.
NOTHING_BACK = 22
Lab = Callable[..., tuple[int, str, str]]
#: A SYN and two segments are sent again; then there is new data.
SENT = """
0.0     > SYN
1.0     > SYN
1.2     > 1:961
1.2     > 961:1921
1.4     > 1921:2881
2.5     > 961:1921
2.6     > 1:961
3.0     > 2881:3841
"""
BACK = "0.2 < SYN-ACK\n0.4 < ack 961\n0.6 < ack 1921"


def analysed(tmp_path: Path, *tables: str) -> Analysis:
    made = Pcap()
    for port, table in enumerate(tables, 20000):
        conversation(table, sport=port, into=made)
    return analyse(made.write(tmp_path / "x.pcap"), options=Options(probes=False))


def said(analysis: Analysis) -> str:
    flows = [flow_row(analysis, row) for row in range(analysis.flows.size)]
    told = {**capture_row(analysis), "flows": flows, "totals": totals(flows)}
    return "\n".join(map(str, (headline(told), *remarks(told))))


@pytest.mark.parametrize("first", [0, 2], ids=["with its SYN", "from the middle on"])
def test_data_without_acknowledgements_is_sent_again_for_an_unknown_reason(
    tmp_path: Path, first: int
) -> None:
    analysis = analysed(tmp_path, "\n".join(SENT.split("\n")[1 + first :]))
    assert (analysis.at, one_way(analysis.flows).tolist()) == ("between", [True])
    data = analysis.events[analysis.events["length"] > 0]
    assert data["kind"].tolist() == [UNKNOWN] * 2
    assert data["rule"].tolist() == [NOTHING_BACK] * 2
    assert NOTHING_BACK in RULES
    row = flow_row(analysis, 0)
    assert (row["one_way"], row["retransmissions"]) == (True, 2)
    assert [row[name] for name in ("timeouts", "timeout_episodes", "acked_bytes")] == [None] * 3
    assert row["syn_timeouts"] == (1 if first == 0 else 0), "a SYN is sent again by its timer only"
    assert totals([row])["timeouts"] is None
    assert "taken where one direction passes only" in said(analysis)
    assert "nothing comes back: what was sent again is seen, but not why" in said(analysis)


def test_acknowledgements_without_their_data_are_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, BACK)
    assert (analysis.at, analysis.flows["data_packets"].tolist()) == ("between", [0])
    assert "acknowledgements only" in said(analysis)
    middle = analysed(tmp_path, "0.4 < ack 961\n0.6 < ack 1921")
    assert middle.flows.size == 0
    assert "none of its TCP packets carries data, or begins a connection" in said(middle)


def test_sender_that_is_cut_off_has_timeouts(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, "0.0 > 1:961\n0.0 > 961:1921\n3.1 > 1:961\n9.2 > 1:961")
    assert [KINDS[int(kind)] for kind in analysis.events["kind"]] == ["rto", "rto"]
    assert not np.any(one_way(analysis.flows))
    assert analysis.at == "sender"
    assert "no handshake in it tells where it was taken" in said(analysis)


def test_flows_of_both_directions_are_told_from_those_of_one(tmp_path: Path) -> None:
    whole = "0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.4 < ack 961\n1 > 961:1921"
    analysis = analysed(tmp_path, whole + "\n1.2 < ack 1921", SENT, "0 > SYN\n1 > SYN")
    assert one_way(analysis.flows).tolist() == [False, True, False]
    row = capture_row(analysis)
    assert (row["flow_count"], row["one_way_count"], row["handshake_count"]) == (3, 1, 1)
    assert "nothing comes back of 1 of 3 flows" in said(analysis)
    rows = [flow_row(analysis, flow) for flow in range(3)]
    assert [row["timeouts"] for row in rows] == [0, None, 0]
    assert totals(rows)["acked_bytes"] == 1920


def test_capture_before_the_queue_has_one_direction(lab: Lab, recorded: Path) -> None:
    files = [recorded / "pcap" / f"{name}.pcap.zst" for name in ("S", "R1-in")]
    sender, before = (analyse(path, options=Options(probes=False)) for path in files)
    assert (sender.at, before.at) == ("sender", "between")
    again = sender.flows["counts"][:, : UNKNOWN + 1].sum(axis=1)
    assert before.flows["counts"][:, UNKNOWN].tolist() == again.tolist()
    status, text, _ = lab("analyze", files[1])
    assert status == 0
    assert "taken where one direction passes only" in text.replace("\n", " ")
    assert "timeouts" in text

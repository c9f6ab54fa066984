"""Events of a capture against the kernel's list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from run_builder import D, S, entry

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.trace import analysis as seen
from tcpf_lab.trace.analysis import EVENT, FLOW, Analysis, CaptureInfo
from tools.accuracy.agreement import (
    NO_ENTRY,
    NO_EVENT,
    compare,
    confusion_table,
    expected_kinds,
)

MS = 1_000_000
#: Number of relative byte 0: data soon passes the end of the numbers.
ISN = 2**32 - 2001
CAPTURE = CaptureInfo("made", "pcap", 0, 0, 0, 0, 0, "", (1,))


def flow(sport: int = 20000, begins: int = 0) -> NDArray[Any]:
    made = np.zeros(1, FLOW)
    for name, value in (("src", S), ("dst", D), ("sport", sport), ("dport", 5001)):
        made[name] = value
    made["isn"], made["first_ns"] = ISN, begins
    return made


def event(kind: int, start: int, time_ns: int, of: int = 0) -> NDArray[Any]:
    return np.array([(time_ns, of, 0, start, 1000, kind, 1, 0, 0)], EVENT)


def analysis(flows: list[Any], events: list[Any]) -> Analysis:
    every = np.concatenate([*events, np.zeros(0, EVENT)])
    return Analysis(CAPTURE, np.concatenate(flows), every, "sender", 0, 0)


def wire(start: int) -> int:
    """Give the number of a relative byte."""
    return (ISN + start) & 0xFFFFFFFF


def test_repetitions_of_a_packet_are_matched_in_order() -> None:
    times = (0, 30 * MS)
    entries = np.concatenate([entry(log.FAST, wire(1001), time_ns=time) for time in times])
    events = [event(seen.FAST, 1001, time + 50 * MS) for time in times]
    assert compare(analysis([flow()], events), entries).pairs.tolist() == [[0, 0], [1, 1]]


def test_same_packets_are_matched_across_the_wrap() -> None:
    entries = np.concatenate(
        [
            entry(log.FAST, wire(1001), time_ns=5 * MS),
            entry(log.RECOVERY, wire(4001), time_ns=6 * MS, marks=log.SENT | log.SACK),
            entry(log.RTO, wire(1001), time_ns=900 * MS),
        ]
    )
    events = [
        event(seen.FAST, 1001, 5 * MS + 200),
        event(seen.SACK_RECOVERY, 4001, 8 * MS),
        event(seen.RTO, 1001, 900 * MS - 500),
    ]
    found = compare(analysis([flow()], events), entries)
    assert sorted(found.pairs.tolist()) == [[0, 0], [1, 1], [2, 2]]
    assert found.share_right == 1.0
    assert found.timeouts.tolist() == [[1, 1]]
    assert confusion_table(found.confusion) == {
        "rto": {"rto": 1},
        "fast": {"fast": 1},
        "recovery": {"sack_recovery": 1},
    }


def test_wrong_names_and_what_one_side_lacks_are_counted() -> None:
    entries = np.concatenate(
        [
            entry(log.RTO, wire(1), time_ns=1000 * MS),
            entry(log.POST_RTO, wire(1001), time_ns=1100 * MS),
            entry(log.TLP_NEW, wire(9001), time_ns=1200 * MS),
        ]
    )
    events = [event(seen.FAST, 1, 1000 * MS), event(seen.RTO, 5001, 1300 * MS)]
    found = compare(analysis([flow()], events), entries)
    assert found.confusion[log.RTO, seen.FAST] == 1
    assert found.confusion[log.POST_RTO, NO_EVENT] == 1
    assert found.confusion[NO_ENTRY, seen.RTO] == 1
    assert found.right.sum() == found.right[log.TLP_NEW, NO_EVENT] == 1
    assert found.share_right == 0.25
    assert found.flow_errors.tolist() == [0]  # one missed, one too many
    assert confusion_table(found.confusion)["not_logged"] == {"rto": 1}


def test_packet_of_another_time_or_flow_is_another_packet() -> None:
    entries = np.concatenate(
        [
            entry(log.RTO, wire(1), time_ns=1000 * MS),
            entry(log.RTO, wire(1), time_ns=1000 * MS, sport=20001),
        ]
    )
    found = compare(analysis([flow()], [event(seen.RTO, 1, 1150 * MS)]), entries)
    assert found.pairs.size == 0
    assert found.elsewhere == 1
    patient = compare(
        analysis([flow()], [event(seen.RTO, 1, 1150 * MS)]), entries, delay_ns=200 * MS
    )
    assert patient.pairs.tolist() == [[0, 0]]


def test_lost_entry_does_not_shift_the_others() -> None:
    times = [1000 * MS, 1400 * MS, 2200 * MS]
    events = [event(seen.RTO, 1, time) for time in times]
    entries = np.concatenate([entry(log.RTO, wire(1), time_ns=time) for time in times[1:]])
    found = compare(analysis([flow()], events), entries)
    assert found.pairs.tolist() == [[0, 1], [1, 2]]
    assert found.confusion[NO_ENTRY, seen.RTO] == 1


def test_expiries_of_a_reused_pair_of_ports_go_to_their_connection() -> None:
    flows = [flow(begins=0), flow(begins=5000 * MS)]
    events = [event(seen.SYN_RTO, 0, 1000 * MS), event(seen.RTO, 1, 6000 * MS, of=1)]
    entries = np.concatenate(
        [
            entry(log.SYN_RTO, wire(0), time_ns=1000 * MS, tcp_flags=log.SYN),
            entry(log.RTO, wire(1), time_ns=6000 * MS),
            entry(log.RTO, wire(1), time_ns=7000 * MS, marks=0),  # an expiry that sent nothing
        ]
    )
    found = compare(analysis(flows, events), entries)
    assert found.timeouts.tolist() == [[1, 1], [1, 2]]
    assert found.share_right == 1.0


def test_synack_counts_as_an_expiry_if_its_timer_sent_it() -> None:
    times = {log.SYNACK_RTO: 1000 * MS, log.SYNACK_ASKED: 1500 * MS}
    entries = np.concatenate([entry(cause, wire(0), time_ns=time) for cause, time in times.items()])
    found = compare(analysis([flow()], [event(seen.SYN_RTO, 0, 1000 * MS)]), entries)
    assert found.timeouts.tolist() == [[1, 1]]
    assert found.share_right == 1.0


def test_capture_and_list_without_anything() -> None:
    found = compare(analysis([flow()], []), np.zeros(0, log.ENTRY))
    assert np.isnan(found.share_right)
    assert found.confusion.sum() == 0


@pytest.mark.parametrize(
    ("cause", "marks", "kind"),
    [
        (log.RTO, 0, seen.RTO),
        (log.FAST, log.FIRST | log.SACK, seen.FAST),
        (log.RECOVERY, log.SACK, seen.SACK_RECOVERY),
        (log.RECOVERY, 0, seen.PARTIAL_ACK),
        (log.REORDERING_TIMER, log.FIRST | log.SACK, seen.FAST),
        (log.REORDERING_TIMER, log.SACK, seen.SACK_RECOVERY),
        (log.TLP, log.SACK, seen.TLP),
        (log.SYNACK_RTO, 0, seen.SYN_RTO),
        (log.SYNACK_ASKED, 0, NO_EVENT),
        (log.WINDOW_RTO, log.SACK, seen.WINDOW_PROBE),
        (log.KEEPALIVE, 0, seen.KEEPALIVE),
        (log.NOT_CONGESTION, 0, seen.UNKNOWN),
    ],
)
def test_kind_that_a_cause_calls_for(cause: int, marks: int, kind: int) -> None:
    assert expected_kinds(entry(cause, 0, marks=marks)).tolist() == [kind]

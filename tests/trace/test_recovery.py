"""Scenarios of loss recovery at a Linux sender: what follows ``#`` is the kind to be found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pcap_builder import Pcap, conversation

from tcpf_lab.trace.analysis import FAST, PARTIAL_ACK, Options, Profile
from tcpf_lab.trace.follow import KIND_NAMES, RTO, Recovery, classify, follow
from tcpf_lab.trace.packet import find_flows, read_capture
from tools.parts import read_parts

# A first RTT sample of 200 ms makes the timer 200 + 400 ms; it shrinks with further samples.
START = """
0.0     > SYN
0.2     < SYN-ACK
"""

SCENARIOS = read_parts(Path(__file__).with_name("recovery_scenarios.txt"))


def run(
    capture: Pcap, tmp_path: Path, *, linux22: tuple[str, ...] = (), **known: bool
) -> tuple[list[str], Recovery]:
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    recovery = classify(packets, linux22=linux22, **known)
    kinds = recovery.kind[packets["dport"] == 5001]
    return [KIND_NAMES.get(int(kind), "new") for kind in kinds], recovery


def table(name: str) -> str:
    return SCENARIOS[name] if name.startswith("SYN") else START + SCENARIOS[name]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(tmp_path: Path, name: str) -> None:
    capture, expected = conversation(table(name))
    assert run(capture, tmp_path)[0] == expected


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("isn", [2**32 - 1, 2**32 - 1500, 2**31 - 1000])
def test_sequence_numbers_that_wrap_change_nothing(tmp_path: Path, name: str, isn: int) -> None:
    capture, expected = conversation(table(name), isn=isn)
    assert run(capture, tmp_path)[0] == expected


def test_without_probes_the_same_packet_is_not_explained(tmp_path: Path) -> None:
    capture, _ = conversation(START + "0.2 > 1:961\n0.2 > 961:1921\n0.606 > 961:1921")
    assert run(capture, tmp_path, probes=False)[0][-1] == "unknown"


#: Eight segments, of which the first and the fourth are lost: each is found by three duplicates.
TWO_HOLES = """
0.2     > 1:961
0.2     > 961:1921
0.2     > 1921:2881
0.2     > 2881:3841
0.2     > 3841:4801
0.2     > 4801:5761
0.2     > 5761:6721
0.2     > 6721:7681
0.401   < ack 1
0.402   < ack 1
0.403   < ack 1
0.403   > 1:961
0.404   < ack 1
0.404   > 7681:8641
0.405   < ack 1
0.405   > 8641:9601
0.406   < ack 1
0.406   > 9601:10561
0.603   < ack 2881
0.604   < ack 2881
0.605   < ack 2881
0.606   < ack 2881
0.606   > 2881:3841
"""


@pytest.mark.parametrize(("classic", "second"), [(True, "fast"), (False, "partial_ack")])
def test_in_classic_reno_a_second_hole_is_a_recovery_of_its_own(
    tmp_path: Path, classic: bool, second: str
) -> None:
    capture, _ = conversation(START + TWO_HOLES.strip("\n"))
    kinds, _ = run(capture, tmp_path, classic=classic)
    assert [kind for kind in kinds if kind != "new"] == ["fast", second]


@pytest.mark.parametrize(("profile", "second"), [("classic", FAST), ("linux", PARTIAL_ACK)])
def test_a_flow_that_is_followed_recovers_in_the_same_way(
    tmp_path: Path, profile: Profile, second: int
) -> None:
    capture, _ = conversation(START + TWO_HOLES.strip("\n"))
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    options = Options(probes=False, profile=profile, at="sender")
    kind = follow(packets, find_flows(packets), 0, options).kind
    assert kind[kind > 0].tolist() == [FAST, second]


#: The head is lost again; what the timer sends comes late out of the sender's own queue, right
#: after a duplicate.
HEAD_LOST_TWICE = """
0.2     > 1:961
0.2     > 961:1921
0.2     > 1921:2881
0.2     > 2881:3841
0.2     > 3841:4801
0.401   < ack 1
0.402   < ack 1
0.403   < ack 1
0.403   > 1:961
0.404   < ack 1
0.404   > 4801:5761
0.604   < ack 1
0.604   > 5761:6721
1.3     < ack 1
1.3     > 1:961
"""


def test_in_classic_reno_no_ack_sends_the_head_twice_in_a_recovery(tmp_path: Path) -> None:
    capture, _ = conversation(START + HEAD_LOST_TWICE.strip("\n"))
    kinds, _ = run(capture, tmp_path, classic=True)
    assert [kind for kind in kinds if kind != "new"] == ["fast", "rto"]


#: The fifth segment waits in the sender's own queue while the third duplicate comes, and is lost.
QUEUED = """
0.2     > 1:961
0.2     > 961:1921
0.2     > 1921:2881
0.2     > 2881:3841
0.401   < ack 1
0.402   < ack 1
0.403   < ack 1
0.4031  > 3841:4801
0.4032  > 1:961
0.6032  < ack 3841
0.6032  > 3841:4801
"""


@pytest.mark.parametrize("linux22", [(), ("fast_retransmit",)])
def test_what_the_sender_had_queued_belongs_to_the_recovery(
    tmp_path: Path, linux22: tuple[str, ...]
) -> None:
    capture, _ = conversation(START + QUEUED.strip("\n"))
    kinds, _ = run(capture, tmp_path, linux22=linux22)
    assert [kind for kind in kinds if kind != "new"] == ["fast", "partial_ack"]


def test_two_duplicates_ask_a_sender_as_linux22_for_nothing(tmp_path: Path) -> None:
    again = "3.3 < ack 1\n3.3 < ack 1\n3.3 > 1:961"  # 3 s: no RTT sample yet
    capture, _ = conversation(START + segments(0.2, 1, 3) + "\n" + again)
    assert run(capture, tmp_path, linux22=("rto", "fast_retransmit"))[0][-1] == "rto"


def segments(at: float, first: int, last: int) -> str:
    """Write the packets ``first`` to ``last``, counted from 1."""
    return "\n".join(f"{at} > {960 * k + 1}:{960 * (k + 1) + 1}" for k in range(first - 1, last))


@pytest.mark.parametrize("told", ["", " sack 961:4801"])
def test_a_timer_that_expires_just_after_a_duplicate_is_no_second_answer_to_it(
    tmp_path: Path, told: str
) -> None:
    duplicates = [f"{at} < ack 1{told}" for at in (0.401, 0.402, 0.403)]
    again = ["0.403 > 1:961", f"3.4199 < ack 1{told}", "3.42 > 1:961"]  # 3 s: no RTT sample yet
    text = START + "\n".join([segments(0.2, 1, 5), *duplicates, *again])
    kinds, _ = run(conversation(text)[0], tmp_path, linux22=("rto", "fast_retransmit"))
    assert [kind for kind in kinds if kind != "new"] == ["fast", "rto"]


def test_a_recovery_without_anything_to_send_ends_where_it_began(tmp_path: Path) -> None:
    def dup(at: float, una: int, first: int, last: int) -> str:
        return f"{at} < ack {960 * (una - 1) + 1} sack {960 * (first - 1) + 1}:{960 * last + 1}"

    text = [segments(0.2, 1, 4), *(dup(0.4 + k / 1e3, 1, 2, k) for k in (2, 3, 4))]
    text += [segments(0.404, 1, 1), segments(0.405, 5, 10)]
    text += [*(dup(0.6 + k / 1e3, 1, 6, k) for k in (6, 7, 8)), segments(0.609, 5, 5)]
    # The fifth is sent again already when its duplicates begin a recovery; new data follow.
    text += [dup(0.61, 5, 6, 8), dup(0.62, 5, 6, 9), segments(0.63, 11, 13)]
    text += [f"0.81 < ack {9 * 960 + 1}", segments(0.811, 14, 15)]
    text += [*(dup(0.82 + k / 1e3, 10, 11, k) for k in (11, 12, 13)), segments(0.834, 10, 10)]
    text += [f"1.03 < ack {13 * 960 + 1}", segments(1.031, 16, 19)]
    text += [*(dup(1.2 + k / 1e3, 14, 15, k) for k in (15, 16, 17, 18)), segments(1.219, 14, 14)]
    kinds, _ = run(conversation(START + "\n".join(text))[0], tmp_path, linux22=("fast_retransmit",))
    assert [kind for kind in kinds if kind != "new"] == ["fast", "sack_recovery", "fast", "fast"]


def paced(*answers: str, last: str) -> str:
    """Write a sender that lets a packet go every 100 ms; the fourth is lost, and most after it."""
    sent = [f"{2 + k:02} > {1 + 960 * k}:{961 + 960 * k}" for k in range(11)]
    lines = [f"{line[0]}.{line[1:]}" for line in sent]
    lines += ["0.45 < ack 961", "0.55 < ack 1921", "0.65 < ack 2881", *answers, last]
    return START + "\n".join(sorted(lines, key=lambda line: float(line.split()[0])))


def test_paced_retransmission_that_is_due_with_the_timer_is_no_timeout(tmp_path: Path) -> None:
    text = paced("1.25 < ack 2881 sack 7681:8641", last="1.3 > 2881:3841")
    assert run(conversation(text)[0], tmp_path)[0][-1] == "fast"


def test_half_of_what_a_paced_packet_came_late_is_made_good(tmp_path: Path) -> None:
    """The last one was due at 1.2 and left with an ACK at 1.26: the next is due at 1.31."""
    first, second = "1.26 < ack 2881 sack 7681:8641", "1.265 < ack 2881 sack 7681:9601"
    text = paced(first, second, last="1.31 > 2881:3841")
    late = text.replace("1.2 > 9601:10561\n", "").replace(first, f"{first}\n1.26 > 9601:10561")
    assert run(conversation(late)[0], tmp_path)[0][-1] == "fast"


def test_paced_sender_times_out_between_two_turns(tmp_path: Path) -> None:
    text = paced("1.25 < ack 2881 sack 7681:8641", last="1.33 > 2881:3841")
    assert run(conversation(text)[0], tmp_path)[0][-1] == "rto"


def test_what_went_out_since_the_last_ack_tells_a_timeout_from_a_turn(tmp_path: Path) -> None:
    text = paced("1.15 < ack 2881 sack 6721:7681", last="1.3 > 2881:3841")
    assert run(conversation(text)[0], tmp_path)[0][-1] == "rto"


def test_back_offs_count_from_the_last_progress(tmp_path: Path) -> None:
    lines = ["0.2 > 1:961", "0.2 > 961:1921", "0.81 > 1:961", "2.01 > 1:961", "4.42 > 1:961"]
    lines += ["4.62 < ack 961", "4.62 > 961:1921", "7.1 > 961:1921"]
    capture, _ = conversation(START + "\n".join(lines))
    _, recovery = run(capture, tmp_path)
    assert recovery.backoff[recovery.kind == RTO].tolist() == [0, 1, 2, 0]


def test_acknowledged_payload_counts_neither_syn_nor_fin(tmp_path: Path) -> None:
    lines = ["0.2 > 1:961", "0.2 > 961:1000F", "0.4 < ack 961", "0.5 < ack 1001"]
    capture, _ = conversation(START + "\n".join(lines), isn=2**32 - 500)
    _, recovery = run(capture, tmp_path)
    assert recovery.acked.tolist() == [0, 0, 0, 0, 960, 999]


def test_port_that_is_used_again_adds_up(tmp_path: Path) -> None:
    first = START + "0.2 > 1:961\n0.4 < ack 961\n0.4 > RST"
    second = "5.0 > SYN\n5.2 < SYN-ACK\n5.2 > 1:961\n5.4 < ack 961"
    capture, _ = conversation(first, isn=1000)
    conversation(second, isn=2_000_000, into=capture)
    kinds, recovery = run(capture, tmp_path)
    assert set(kinds) == {"new"}
    assert int(np.max(recovery.acked)) == 1920


def test_capture_that_begins_in_the_middle_is_understood(tmp_path: Path) -> None:
    lines = ["0.2 > 5000:5960", "0.4 < ack 5960", "0.4 > 5960:6920", "1.5 > 5960:6920"]
    capture, _ = conversation("\n".join(lines), isn=77)
    kinds, recovery = run(capture, tmp_path)
    assert kinds == ["new", "new", "rto"]
    assert int(np.max(recovery.acked)) == 960


def test_flows_do_not_disturb_each_other(tmp_path: Path) -> None:
    names = ["third duplicate ACK liberates the head", "lost FIN is sent again by the timer"]
    lines = []
    for port, name in enumerate(names, 20000):
        lines += [(float(line.split()[0]), port, line) for line in table(name).strip().splitlines()]
    capture = Pcap()
    for _, port, line in sorted(lines, key=lambda item: item[0]):
        conversation(line, sport=port, into=capture)
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    recovery = classify(packets)
    for port, name in enumerate(names, 20000):
        kinds = recovery.kind[packets["sport"] == port]
        expected = conversation(table(name))[1]
        assert [KIND_NAMES.get(int(kind), "new") for kind in kinds] == expected

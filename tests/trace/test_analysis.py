"""The streaming engine: the same kinds as for packets in memory, and what only it tells."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from pcap_builder import (
    ACK,
    SYN,
    D,
    Pcap,
    S,
    conversation,
    ethernet,
    ip4,
    sack_option,
    tcp,
)
from pcap_builder import timestamp_option as stamps
from test_recovery import SCENARIOS, START, table

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import (
    FLOW,
    KINDS,
    RULES,
    SPURIOUS,
    Analysis,
    Options,
    analyse,
    ip_text,
)

SECOND = 10**9
ISN = 2**32 - 700


class Talk:
    """A conversation between S and D with everything that tables leave out; times in seconds."""

    def __init__(self) -> None:
        self.capture = Pcap()

    def _add(self, at: float, head: bytes, *, back: bool = False, **ip: int) -> Talk:
        ends = {"src": D, "dst": S} if back else {"src": S, "dst": D}
        self.capture.add(10**18 + round(at * SECOND), ethernet(ip4(head, **ends, **ip)))  # type: ignore[arg-type]
        return self

    def data(self, at: float, start: int, end: int, *, tsval: int = 0, ip_id: int = 0) -> Talk:
        options = stamps(tsval, 1) if tsval else b""
        head = tcp(20000, 5001, seq=(ISN + start) % 2**32, ack=1, options=options)
        return self._add(at, head, payload=end - start, ip_id=ip_id)

    def ack(
        self,
        at: float,
        number: int,
        *sack: tuple[int, int],
        tsecr: int = 0,
        window: int = 1000,
    ) -> Talk:
        blocks = sack_option([(ISN + a, ISN + b) for a, b in sack])
        options = blocks + (stamps(1, tsecr) if tsecr else b"")
        number = (ISN + number) % 2**32
        head = tcp(5001, 20000, seq=1, ack=number, window=window, options=options)
        return self._add(at, head, back=True)

    def syn(self, at: float, *, back: bool = False, mss: int = 1460) -> Talk:
        options = bytes([2, 4, mss >> 8, mss & 255, 3, 3, 7, 1, 4, 2, 1, 1])
        if back:
            head = tcp(5001, 20000, seq=0, ack=(ISN + 1) % 2**32, flags=SYN | ACK, options=options)
        else:
            head = tcp(20000, 5001, seq=ISN, flags=SYN, options=options)
        return self._add(at, head, back=back)

    def opened(self, *, mss: int = 1460) -> Talk:
        """Begin with a handshake of 200 ms at the sender."""
        return self.syn(0.0, mss=mss).syn(0.2, back=True, mss=mss).ack_of_sender(0.2)

    def ack_of_sender(self, at: float) -> Talk:
        return self._add(at, tcp(20000, 5001, seq=(ISN + 1) % 2**32, ack=1))

    def segments(self, at: float, count: int, *, first: int = 1, tsval: int = 0) -> Talk:
        for k in range(count):
            self.data(at, first + 1000 * k, first + 1000 * (k + 1), tsval=tsval)
        return self


def analysed(talk: Talk | Pcap, tmp_path: Path, options: Options | None = None) -> Analysis:
    capture = talk.capture if isinstance(talk, Talk) else talk
    return analyse(capture.write(tmp_path / "x.pcap"), options=options or Options(probes=False))


def told(analysis: Analysis) -> list[tuple[str, int, str]]:
    """Kind, start and evidence of every event."""
    return [
        (KINDS[int(e["kind"])], int(e["start"]), SPURIOUS[int(e["spurious"])])
        for e in analysis.events
    ]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("isn", [0, 2**32 - 1500])
def test_scenario_has_the_kinds_that_packets_in_memory_have(
    tmp_path: Path, name: str, isn: int
) -> None:
    capture, expected = conversation(table(name), isn=isn)
    analysis = analysed(capture, tmp_path)
    kinds = [KINDS[int(e["kind"])] for e in analysis.events]
    wanted = [note for note in expected if note != "new"]
    assert [kind for kind in kinds if kind != "keepalive"] == wanted
    assert all(int(e["rule"]) in RULES and e["rule"] > 0 for e in analysis.events)


def test_row_of_a_flow_counts_and_names_what_was_agreed(tmp_path: Path) -> None:
    talk = Talk().opened(mss=1400).segments(0.2, 3).ack(0.4, 3001)
    analysis = analysed(talk, tmp_path)
    (flow,) = analysis.flows
    assert (ip_text(flow["src"]), ip_text(flow["dst"])) == (S, D)
    assert (flow["sport"], flow["dport"]) == (20000, 5001)
    assert (flow["packets"], flow["data_packets"], flow["payload_bytes"]) == (5, 3, 3000)
    assert (flow["acked_bytes"], flow["acks"], flow["syn"]) == (3000, 2, 1)
    assert (flow["mss"], flow["sack"], flow["window_scale"]) == (1400, 1, 7)
    assert (flow["rtt_min_ns"], flow["rtt_count"], flow["isn"]) == (SECOND // 5, 2, ISN)
    assert analysis.at == "sender"
    assert analysis.last_ns - analysis.first_ns == 4 * SECOND // 10


def test_keepalive_and_window_probe_are_no_retransmissions(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 1).ack(0.4, 1001).data(60.4, 1000, 1000)
    talk.ack(60.6, 1001).ack(61.0, 1001, window=0).data(62.0, 1000, 1000)
    assert [event[0] for event in told(analysed(talk, tmp_path))] == ["keepalive", "window_probe"]


def test_retransmission_is_needless_by_dsack(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 4).data(0.85, 1, 1001).ack(1.05, 4001, (1, 1001))
    assert told(analysed(talk, tmp_path)) == [("rto", 1, "dsack")]


def test_dsack_that_comes_after_the_ack_is_still_counted(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 4).data(0.85, 1, 1001).ack(0.98, 4001)
    analysis = analysed(talk.ack(1.05, 4001, (1, 1001)), tmp_path)
    assert told(analysis) == [("rto", 1, "dsack")]
    assert analysis.flows["spurious"].sum() == 1


def test_dsack_of_a_retransmission_that_the_network_doubled_marks_nothing(tmp_path: Path) -> None:
    """The first copy is acknowledged a round trip after it left, and then arrives once more."""
    talk = Talk().opened().segments(0.2, 4).data(0.85, 1, 1001).ack(1.05, 4001)
    assert told(analysed(talk.ack(1.06, 4001, (1, 1001)), tmp_path)) == [("rto", 1, "")]


def test_dsack_long_after_the_ack_is_of_the_retransmission(tmp_path: Path) -> None:
    """The original was answered late, by a long queue; two copies of one packet come together."""
    talk = Talk().opened().segments(0.2, 1).data(0.85, 1, 1001).ack(1.05, 1001)
    assert told(analysed(talk.ack(1.65, 1001, (1, 1001)), tmp_path)) == [("rto", 1, "dsack")]


def test_dsack_counts_where_no_round_trip_is_known(tmp_path: Path) -> None:
    talk = Talk().segments(0.2, 1).data(0.85, 1, 1001).ack(0.86, 1001).ack(0.87, 1001, (1, 1001))
    assert [evidence for _, _, evidence in told(analysed(talk, tmp_path))] == ["dsack"]


@pytest.mark.parametrize("again", [1850, 350], ids=["later", "past 2^32"])
def test_retransmission_is_needless_by_time_stamp(tmp_path: Path, again: int) -> None:
    sent = (again - 650) % 2**32
    talk = Talk().opened().segments(0.2, 2, tsval=sent).data(0.85, 1, 1001, tsval=again)
    assert told(analysed(talk.ack(1.05, 2001, tsecr=sent), tmp_path)) == [("rto", 1, "timestamp")]


def test_needed_retransmission_echoes_its_own_time_stamp(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 2, tsval=1200).data(0.85, 1, 1001, tsval=1850)
    assert told(analysed(talk.ack(1.05, 2001, tsecr=1850), tmp_path)) == [("rto", 1, "")]


def test_retransmission_is_needless_by_an_ack_before_any_round_trip(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 2).data(0.85, 1, 1001).ack(0.87, 2001)
    assert told(analysed(talk, tmp_path)) == [("rto", 1, "early_ack")]


@pytest.mark.parametrize(("answered", "evidence"), [(0.54, "early_ack"), (0.56, "")])
def test_behind_the_left_edge_an_ack_is_early_before_three_quarters_of_a_round_trip(
    tmp_path: Path, answered: float, evidence: str
) -> None:
    talk = Talk().opened().segments(0.2, 5).ack(0.4, 1, (2001, 3001)).ack(0.4, 1, (2001, 5001))
    talk.data(0.4, 1, 1001).data(0.4, 1001, 2001).ack(answered, 1, (1001, 5001))
    found = {start: mark for _, start, mark in told(analysed(talk, tmp_path))}
    assert found == {1: "", 1001: evidence}


def refill(at: float, *acks: int, duplicates: int = 0) -> Talk:
    """Lose two of seven segments without SACK, and send three again after the timer expired.

    The copies of the second and the third leave together; what is answered to them follows.
    """
    talk = Talk()
    talk.capture, _ = conversation("0.0 > SYN\n0.2 < SYN-ACK", isn=ISN)
    talk.segments(0.2, 7)
    for _ in range(duplicates):
        talk.ack(0.4, 1)
    talk.data(0.85, 1, 1001).ack(1.05, 2001)
    talk.data(1.05, 2001, 3001).data(1.05, 3001, 4001)
    for number in acks:
        talk.ack(at, number)
    return talk


def test_without_sack_an_ack_that_jumps_shows_what_was_there(tmp_path: Path) -> None:
    """The copy at the left edge fills the gap; the one behind it was needless."""
    assert told(analysed(refill(1.25, 7001), tmp_path)) == [
        ("rto", 1, ""),
        ("post_rto", 2001, ""),
        ("post_rto", 3001, "ack_jump"),
    ]


@pytest.mark.parametrize("acks", [(4001,), (3001, 7001)], ids=["delayed ACK", "ACK of each"])
def test_an_ack_as_far_as_arrivals_move_it_shows_nothing(
    tmp_path: Path, acks: tuple[int, ...]
) -> None:
    found = told(analysed(refill(1.25, *acks), tmp_path))
    assert [evidence for _, _, evidence in found] == ["", "", ""]


@pytest.mark.parametrize(("duplicates", "evidence"), [(1, ""), (2, "ack_jump")])
def test_a_receiver_that_holds_more_does_not_delay_the_ack_of_a_gap_filled(
    tmp_path: Path, duplicates: int, evidence: str
) -> None:
    """One that is held is the second; of two there is another when the third is sent again."""
    found = told(analysed(refill(1.25, 4001, duplicates=duplicates), tmp_path))
    assert found[-1] == ("post_rto", 3001, evidence)


def test_a_jump_shows_nothing_of_what_was_sent_before_the_left_edge(tmp_path: Path) -> None:
    """The copy of the third arrived and was needed; that of the second was lost once more."""
    talk = refill(1.25).data(2.4, 2001, 3001).ack(2.6, 7001)
    assert [evidence for _, _, evidence in told(analysed(talk, tmp_path))] == [""] * 4


def test_a_jump_shows_nothing_if_acks_of_new_data_jump_as_far(tmp_path: Path) -> None:
    """The receiver joins what arrives together, or acknowledgements are lost."""
    talk = Talk()
    talk.capture, _ = conversation("0.0 > SYN\n0.2 < SYN-ACK", isn=ISN)
    talk.segments(0.2, 4).ack(0.4, 4001).segments(0.4, 7, first=4001)
    talk.data(1.3, 4001, 5001).ack(1.5, 5001)
    talk.data(1.5, 5001, 6001).data(1.5, 6001, 7001).ack(1.7, 11001)
    found = told(analysed(talk, tmp_path))
    assert [evidence for _, _, evidence in found] == ["", "", ""]


def test_a_delayed_ack_of_small_segments_is_no_jump(tmp_path: Path) -> None:
    """All seven were lost; a receiver may wait for two full-sized segments."""
    talk = Talk()
    talk.capture, _ = conversation("0.0 > SYN\n0.2 < SYN-ACK", isn=ISN)
    talk.segments(0.2, 2).ack(0.4, 2001).data(0.4, 2001, 2101).ack(0.64, 2101)
    small = [(2101 + 100 * k, 2201 + 100 * k) for k in range(7)]
    for k, (start, end) in enumerate(small):
        talk.data(0.7 + 1e-4 * k, start, end)
    for at, part, answer in (
        (1.4, small[:1], 0.2),
        (1.6, small[1:3], 0.24),
        (1.84, small[3:], 0.24),
    ):
        for start, end in part:
            talk.data(at, start, end)
        talk.ack(at + answer, part[-1][1])
    assert [evidence for _, _, evidence in told(analysed(talk, tmp_path))] == [""] * 7


def test_a_flow_has_sack_from_its_first_block_on_also_in_an_old_ack(tmp_path: Path) -> None:
    """The handshake is not in the capture, and the ACK with the block was overtaken."""
    talk = Talk().segments(0.2, 2).ack(0.4, 2001).segments(0.4, 6, first=2001)
    talk.data(1.2, 2001, 3001).ack(1.4, 4001).data(1.4, 4001, 5001).data(1.4, 5001, 6001)
    talk.ack(1.62, 5001).ack(1.6201, 4001, (5001, 6001)).ack(1.63, 8001)
    analysis = analysed(talk, tmp_path)
    assert analysis.flows["sack"].tolist() == [1]
    assert {evidence for _, _, evidence in told(analysis)} == {""}


def test_an_ack_after_half_a_round_trip_may_be_that_of_the_left_edge(tmp_path: Path) -> None:
    """Queues are shorter after a timeout than in the round trips that were measured."""
    talk = Talk().opened().segments(0.2, 2).data(0.85, 1, 1001).ack(0.97, 2001)
    assert told(analysed(talk, tmp_path)) == [("rto", 1, "")]


def test_dsack_of_what_was_sent_once_marks_nothing(tmp_path: Path) -> None:
    """Only the first segment was sent again, and it was needed; the fourth came twice."""
    talk = Talk().opened().segments(0.2, 4)
    talk.ack(0.4, 1, (1001, 2001)).ack(0.4001, 1, (1001, 4001)).ack(0.4002, 1, (3001, 4001))
    talk.data(0.4002, 1, 1001).ack(0.6002, 4001).ack(0.6003, 4001, (3001, 4001))
    assert [evidence for _, _, evidence in told(analysed(talk, tmp_path))] == [""]


def test_reordering_timer_sends_what_later_segments_overtook(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 4).ack(0.4, 1, (1001, 2001)).data(0.4, 1, 1001)
    talk.data(0.41, 4001, 5001).ack(0.45, 1, (1001, 2001), (3001, 4001)).data(0.45, 2001, 3001)
    talk.ack(0.66, 4001).data(0.672, 4001, 5001)
    analysis = analysed(talk, tmp_path, Options())
    assert [event[0] for event in told(analysis)] == ["fast", "sack_recovery", "fast"]
    assert analysis.events["rule"].tolist() == [7, 9, 12]


def test_segment_captured_late_is_no_retransmission(tmp_path: Path) -> None:
    talk = Talk().opened().data(0.2, 1, 1001, ip_id=7).data(0.2001, 2001, 3001, ip_id=9)
    talk.data(0.2002, 1001, 2001, ip_id=8).ack(0.4, 3001)
    assert told(analysed(talk, tmp_path)) == [("reordering", 1001, "")]


def test_segment_missed_and_sent_again_is_one(tmp_path: Path) -> None:
    talk = Talk().opened().data(0.2, 1, 1001, ip_id=7).data(0.2001, 2001, 3001, ip_id=9)
    talk.ack(0.4, 1001, (2001, 3001)).data(0.4, 1001, 2001, ip_id=10)
    assert [event[0] for event in told(analysed(talk, tmp_path))] == ["fast"]


def test_offloaded_packet_is_as_many_segments_as_the_receiver_sees(tmp_path: Path) -> None:
    talk = Talk().opened(mss=1000).data(0.2, 1, 10001)
    talk.ack(0.4, 2001, (3001, 10001)).data(0.4, 2001, 3001).ack(0.6, 10001)
    analysis = analysed(talk, tmp_path)
    assert [event[0] for event in told(analysis)] == ["fast"]
    assert analysis.flows["acked_bytes"].tolist() == [10000]


def test_holes_of_a_long_scoreboard_are_found(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 3000)
    holes = [k for k in range(1, 2900) if k % 7 == 0]
    for k in range(1, 2900):
        if k % 7 == 6:
            blocks = (1 + 1000 * (k - 5), 1 + 1000 * (k + 1))
            talk.ack(0.4 + k * 1e-6, 1 + 1000 * 0, blocks)
    talk.data(0.41, 1, 1001)
    for k in holes:
        talk.data(0.41, 1 + 1000 * k, 1001 + 1000 * k)
    found = told(analysed(talk, tmp_path))
    assert [start for _, start, _ in found] == [1, *(1 + 1000 * k for k in holes)]
    assert {kind for kind, _, _ in found} == {"fast", "sack_recovery"}


def test_port_that_is_used_again_is_another_flow(tmp_path: Path) -> None:
    capture, _ = conversation(START + "0.2 > 1:961\n0.4 < ack 961", isn=1000)
    conversation("5.0 > SYN\n5.2 < SYN-ACK\n5.2 > 1:961\n5.4 < ack 961", isn=77, into=capture)
    analysis = analysed(capture, tmp_path)
    assert analysis.flows["acked_bytes"].tolist() == [960, 960]
    assert analysis.flows["isn"].tolist() == [1000, 77]


def test_more_flows_than_there_was_room_for(tmp_path: Path) -> None:
    capture = Pcap()
    for k in range(1500):
        conversation("0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.8 > 1:961", sport=k, into=capture)
    analysis = analysed(capture, tmp_path)
    assert analysis.flows["sport"].tolist() == list(range(1500))
    assert analysis.flows["counts"][:, KINDS.index("rto")].tolist() == [1] * 1500
    assert analysis.events["flow"].tolist() == list(range(1500))


def test_more_events_than_there_was_room_for(tmp_path: Path) -> None:
    talk = Talk().opened()
    for k in range(6000):
        talk.segments(0.2 + k, 1, first=1 + 1000 * k).segments(0.8 + k, 1, first=1 + 1000 * k)
        talk.ack(0.95 + k, 1001 + 1000 * k)
    analysis = analysed(talk, tmp_path)
    assert analysis.events.size == 6000
    unlisted = analyse(tmp_path / "x.pcap", options=Options(probes=False), events=False)
    assert unlisted.events.size == 0
    assert unlisted.flows["counts"].tolist() == analysis.flows["counts"].tolist()


def test_capture_without_acks_keeps_a_bounded_number_of_segments(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 20_000)
    talk.data(2.0, 1 + 1000 * 19_999, 1 + 1000 * 20_000)
    analysis = analysed(talk, tmp_path)
    assert analysis.flows["data_packets"].tolist() == [20_001]
    assert [start for _, start, _ in told(analysis)] == [1 + 1000 * 19_999]


def test_what_was_given_up_counts_as_acknowledged_when_an_ack_covers_it(tmp_path: Path) -> None:
    """An ACK of what was long given up acknowledges none of what came behind it."""
    talk = Talk().segments(0.2, 20_000)
    for k, segments in enumerate((1, 15_000, 15_900, 19_000)):
        talk.ack(0.5 + 0.1 * k, 1 + 1000 * segments)
        assert analysed(talk, tmp_path).flows["acked_bytes"].tolist() == [1000 * segments]


def answered(*answers: tuple[int, tuple[tuple[int, int], ...]]) -> Talk:
    """Send five segments; ``answers`` (flags, SACK blocks) repeat the ACK of the first of them.

    The second is sent again with the last answer.
    """
    talk = Talk().opened().segments(0.2, 5).ack(0.4, 1001)
    for k, (flags, blocks) in enumerate(answers):
        options = sack_option([(ISN + a, ISN + b) for a, b in blocks])
        number = (ISN + 1001) % 2**32
        head = tcp(5001, 20000, seq=1, ack=number, window=1000, flags=flags, options=options)
        talk._add(0.4001 + k * 1e-4, head, back=True)
    return talk.data(0.4001 + len(answers) * 1e-4, 1001, 2001)


@pytest.mark.parametrize(
    ("flags", "kind"), [(ACK, "fast"), (ACK | 1, "unknown"), (ACK | 4, "unknown")]
)
def test_an_ack_with_fin_or_rst_is_no_duplicate(tmp_path: Path, flags: int, kind: str) -> None:
    talk = answered((ACK, ()), (ACK, ()), (flags, ()))
    assert [event[0] for event in told(analysed(talk, tmp_path))] == [kind]


@pytest.mark.parametrize(
    ("blocks", "kind"), [((), "fast"), (((1, 1001),), "unknown")], ids=["bare", "DSACK"]
)
def test_an_ack_with_a_dsack_only_is_no_duplicate(
    tmp_path: Path, blocks: tuple[tuple[int, int], ...], kind: str
) -> None:
    talk = answered(*[(ACK, blocks)] * 3)
    assert [event[0] for event in told(analysed(talk, tmp_path))] == [kind]


def distant(delay: float) -> Talk:
    """Return what a capture ``delay`` from a sender shows of a lost segment and a lost flight."""
    there, back = delay, 0.2 - delay
    talk = Talk().syn(there).syn(there + back, back=True).ack_of_sender(0.2 + there)
    for k in (0, 2, 3, 4):
        talk.data(0.2 + there, 1 + 1000 * k, 1001 + 1000 * k)
    for k in (3, 4, 5):
        talk.ack(0.2 + there + back, 1001, (2001, 1 + 1000 * k))
    talk.data(0.4 + there, 1001, 2001)
    return talk.ack(0.4 + there + back, 5001)


@pytest.mark.parametrize(
    ("delay", "place", "rule"), [(0.1, "between", 19), (0.1999, "receiver", 19)]
)
def test_capture_elsewhere_lets_acks_reach_the_sender_first(
    tmp_path: Path, delay: float, place: str, rule: int
) -> None:
    analysis = analysed(distant(delay), tmp_path)
    assert analysis.at == place
    assert told(analysis) == [("fast", 1001, "")]
    assert analysis.events["rule"].tolist() == [rule]
    assert analysis.flows["acked_bytes"].tolist() == [5000]
    assert 190_000_000 <= analysis.flows["rtt_min_ns"][0] <= 210_000_000


def test_place_can_be_given(tmp_path: Path) -> None:
    analysis = analysed(distant(0.1), tmp_path, Options(probes=False, at="sender"))
    assert analysis.at == "sender"


def test_timer_of_rfc_6298_waits_a_second_at_least(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 1).ack(0.4, 1001).segments(0.4, 1, first=1001)
    talk.data(1.41, 1001, 2001)
    linux = analysed(talk, tmp_path)
    foreign = analysed(talk, tmp_path, Options(probes=False, profile="rfc6298"))
    assert [event[0] for event in told(linux)] == [event[0] for event in told(foreign)] == ["rto"]
    assert foreign.events["rule"].tolist() == [1]


def test_truncated_capture_gives_what_is_there(tmp_path: Path) -> None:
    talk = Talk().opened().segments(0.2, 3)
    path = talk.capture.write(tmp_path / "x.pcap")
    path.write_bytes(path.read_bytes()[:-5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = analyse(path)
    assert analysis.flows["data_packets"].tolist() == [2]
    assert "packet 6" in analysis.capture.truncated


def test_missing_capture_is_one_readable_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such capture"):
        analyse(tmp_path / "none.pcap")


def test_later_fragments_belong_to_no_flow(tmp_path: Path) -> None:
    capture = Pcap()
    for k in range(3):
        head = tcp(20000, 5001, seq=1 + 1000 * k, ack=1)
        first = ip4(head, payload=480, ip_id=k, fragment=0x2000)
        rest = ip4(b"\0" * 40, payload=480, ip_id=k, fragment=500 // 8)
        capture.add(k * SECOND, ethernet(first)).add(k * SECOND + 1, ethernet(rest))
    assert analysed(capture, tmp_path).flows["sport"].tolist() == [20000]


def test_capture_without_packets_has_no_flows(tmp_path: Path) -> None:
    analysis = analyse(Pcap().write(tmp_path / "x.pcap"))
    assert (analysis.flows.size, analysis.events.size) == (0, 0)
    assert (analysis.first_ns, analysis.last_ns) == (0, 0)
    assert analysis.flows.dtype == FLOW
    assert np.sum(analysis.flows["packets"]) == 0


@pytest.mark.parametrize(
    ("back", "said"), [(0.5, ""), (2.0, "back by a second"), (-9e4, "ahead by a day")]
)
def test_a_clock_that_is_set_is_told(tmp_path: Path, back: float, said: str) -> None:
    talk = Talk().opened().segments(5.0, 1)
    talk.data(5.0 - back, 1001, 2001).data(5.1 - back, 2001, 3001)
    told = analysed(talk, tmp_path).capture.truncated
    assert said in told
    assert bool(said) == bool(told)

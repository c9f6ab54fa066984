"""Tail loss probes: when they are due, and that they are no timeouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pcap_builder import Pcap, conversation
from test_handshake import PERMITTED, kinds, syn

from tcpf_lab.trace.analysis import Options, analyse

#: One segment on its own: two RTTs and 200 ms, the least time that the timer adds to the RTT.
ALONE = "0.35 > 1:961\n1.25 > 1:961"
#: Two are sent, one is acknowledged; two and the timer's 300 ms after the last ACK.
SHORT = """
0.1     > 1:961
0.1     > 961:1921
0.2     < ack 961
0.2     > 1921:2881
0.2     > 2881:3841
0.3     < ack 1921
0.3     < ack 2881
0.6     > 2881:3841
"""
TWO = "0.2 > 1:961\n0.2 > 961:1921\n0.606 > 961:1921"


def found(tmp_path: Path, rtt: float, table: str, options: bytes = PERMITTED) -> list[str]:
    made = syn(syn(Pcap(), 0.0, options), rtt, options, back=True)
    conversation(table, into=made)
    return kinds(analyse(made.write(tmp_path / "x.pcap"), options=Options(at="sender")))


@pytest.mark.parametrize(
    ("rtt", "table"),
    [(0.35, ALONE), (0.1, SHORT), (0.2, TWO)],
    ids=["one segment, long path", "after ACKs, capped by the timer", "two segments"],
)
def test_probe_is_due_after_the_last_packet_or_ack(tmp_path: Path, rtt: float, table: str) -> None:
    assert found(tmp_path, rtt, table) == ["tlp"]


def test_without_sack_nothing_probes(tmp_path: Path) -> None:
    assert found(tmp_path, 0.1, SHORT, b"") == ["rto"]


def test_timer_runs_once_a_probe_has_been_sent(tmp_path: Path) -> None:
    assert found(tmp_path, 0.35, ALONE + "\n2.31 > 1:961\n4.43 > 1:961") == ["tlp", "rto", "rto"]


def steady(rounds: int) -> str:
    """Write a segment and its ACK each second, so that the timer comes near to the RTT of 1 s."""
    sent = (f"{k}.0 > {960 * k - 959}:{960 * k + 1}" for k in range(1, rounds + 1))
    return "\n".join(f"{line}\n{k}.9999 < ack {960 * k + 1}" for k, line in enumerate(sent, 1))


#: The last of four is probed; its ACK and those of the others come late.
PROBED = f"""
{steady(9)}
10.0    > 8641:9601
10.0    > 9601:10561
10.0    > 10561:11521
10.0    > 11521:12481
11.52   > 11521:12481
11.53   < ack 9601
11.54   < ack 10561
"""


@pytest.mark.parametrize(
    ("data", "kind"), [("11.54 > 12481:13441\n", "rto"), ("", "unknown")], ids=["data", "none"]
)
def test_the_timer_takes_the_place_of_a_second_probe_that_new_data_makes_due(
    tmp_path: Path, data: str, kind: str
) -> None:
    table = f"{PROBED}{data}11.9 > 10561:11521"
    assert found(tmp_path, 1.0, table) == ["tlp", kind]


#: Segments the last of which is probed, and some that are not.
TAIL, CALM = (
    f"""
    10.0    > 8641:9601
    10.0    > 9601:10561
    {probe}
    {at}    < ack 10561
    """.replace("\n    \n", "\n")
    for probe, at in (("11.52   > 9601:10561", "11.53"), ("", "10.9999"))
)


@pytest.mark.parametrize(
    ("before", "told", "kinds"),
    [
        (TAIL, "sack 12481:13441", ["tlp", "fast"]),
        (TAIL, "", ["tlp", "rto"]),
        (CALM, "sack 12481:13441", ["rto"]),
    ],
    ids=["probed", "no SACK", "no RACK"],
)
def test_the_reordering_timer_runs_in_place_of_the_other(
    tmp_path: Path, before: str, told: str, kinds: list[str]
) -> None:
    """The head and what left 0.1 s later are one SACK apart; the timer is due a little later.

    Who has never probed a tail is not taken for a sender with RACK.
    """
    table = f"""{steady(9)}
    {before.strip()}
    20.0    > 10561:11521
    20.1    > 11521:12481
    20.1    > 12481:13441
    21.3    < ack 10561 {told}
    21.45   > 10561:11521
    """
    assert found(tmp_path, 1.0, table) == kinds


def test_nothing_probes_while_a_recovery_lasts(tmp_path: Path) -> None:
    """A sender without RACK waits for its timer: no SACK block lies above what is lost last."""
    table = """
    0.1     > 1:961
    0.1     > 961:1921
    0.1     > 1921:2881
    0.1     > 2881:3841
    0.1     > 3841:4801
    0.2     < ack 1 sack 961:1921
    0.2     < ack 1 sack 961:2881
    0.2     < ack 1 sack 961:3841
    0.2     > 1:961
    0.3     < ack 3841
    0.6     > 3841:4801
    """
    assert found(tmp_path, 0.1, table) == ["fast", "rto"]

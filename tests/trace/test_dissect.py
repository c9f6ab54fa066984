from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from pcap_builder import Pcap, conversation, ethernet, ip4, ip6, sack_option, tcp, timestamp_option
from test_handshake import PERMITTED, kinds, syn

from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.packet import FIRST, LATER, WHOLE, Capture, find_flows, read_capture

RAW = 101
HEAD = tcp(1, 2, seq=42)


def capture_of(tmp_path: Path, *packets: bytes, link: int = RAW) -> Capture:
    made = Pcap(link=link)
    for packet in packets:
        made.add(0, packet)
    return read_capture(made.write(tmp_path / "x.pcap"))


def one(tmp_path: Path, packet: bytes) -> Any:
    found = capture_of(tmp_path, packet).packets
    assert found.size == 1
    return found[0]


def six(kind: int, inner: bytes, *, payload: int = 0) -> bytes:
    packet = bytearray(ip6(inner, src=bytes(16), dst=bytes(16), payload=payload))
    packet[6] = kind
    return bytes(packet)


def extension(following: int, size: int = 8) -> bytes:
    return bytes([following, size // 8 - 1]) + bytes(size - 2)


def fragment(following: int, offset: int, more: int) -> bytes:
    return struct.pack(">BBHI", following, 0, offset << 3 | more, 0x12345678)


EXTENSIONS = {
    "hop by hop": six(0, extension(6) + HEAD, payload=8),
    "routing": six(43, extension(6, 24) + HEAD, payload=8),
    "destination": six(60, extension(6, 16) + HEAD, payload=8),
    "authentication": six(51, bytes([6, 4]) + bytes(22) + HEAD, payload=8),
    "atomic fragment": six(44, fragment(6, 0, 0) + HEAD, payload=8),
    "four of them": six(
        0,
        extension(43) + extension(60) + extension(51) + bytes([6, 1]) + bytes(10) + HEAD,
        payload=8,
    ),
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_tcp_is_found_behind_ipv6_extension_headers(name: str, tmp_path: Path) -> None:
    p = one(tmp_path, EXTENSIONS[name])
    assert (p["protocol"], p["seq"], p["payload"], p["fragment"]) == (6, 42, 8, WHOLE)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_headers_that_are_cut_off_are_counted(name: str, tmp_path: Path) -> None:
    found = capture_of(tmp_path, EXTENSIONS[name][:47])
    assert (found.short, found.packets.size) == (1, 0)


def test_fragments_of_ipv6(tmp_path: Path) -> None:
    first = six(44, fragment(6, 0, 1) + HEAD, payload=12)
    later = six(44, fragment(6, 4, 0) + bytes(16))
    found = capture_of(tmp_path, first, later)
    assert found.packets["fragment"].tolist() == [FIRST, LATER]
    assert found.packets["seq"].tolist() == [42, 0]
    assert found.packets["payload"].tolist() == [12, 16]
    assert found.packets["ip_id"].tolist() == [0x5678, 0x5678]
    assert found.fragments == 1


def test_later_fragment_makes_no_flow(tmp_path: Path) -> None:
    first, later = ip4(HEAD, payload=12, fragment=0x2000), ip4(bytes(32), fragment=4)
    found = capture_of(tmp_path, first, later)
    assert found.packets["fragment"].tolist() == [FIRST, LATER]
    assert (found.fragments, find_flows(found.packets).count) == (1, 1)


def test_options_of_a_syn(tmp_path: Path) -> None:
    options = struct.pack(">BBH", 2, 4, 1460) + b"\x04\x02" + timestamp_option(7, 0)[2:]
    p = one(tmp_path, ip4(tcp(1, 2, flags=2, options=options + b"\x01\x03\x03\x07")))
    assert (p["mss"], p["window_scale"], p["sack_permitted"]) == (1460, 7, 1)
    assert (p["timestamps"], p["tsval"]) == (1, 7)


def test_packet_has_not_the_options_of_the_one_before(tmp_path: Path) -> None:
    options = (
        struct.pack(">BBH", 2, 4, 1460)
        + b"\x04\x02\x03\x03\x07\x01\x01\x01"
        + timestamp_option(7, 8)
    )
    rich = ip4(tcp(1, 2, flags=2, options=options + sack_option([(1, 2)])))
    path = Pcap(link=RAW).add(0, rich).add(1, ip4(HEAD)).write(tmp_path / "x.pcap")
    before, bare = read_capture(path).packets
    names = ["mss", "window_scale", "sack_permitted", "timestamps", "tsval", "tsecr", "sacks"]
    assert before[names].tolist() == (1460, 7, 1, 1, 7, 8, 1)
    assert bare[[*names, "seq"]].tolist() == (0, -1, 0, 0, 0, 0, 0, 42)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_timestamps_and_sack_blocks_together(count: int, tmp_path: Path) -> None:
    blocks = [(100 * i, 100 * i + 50) for i in range(1, count + 1)]
    options = timestamp_option(7, 8) + sack_option(blocks)
    p = one(tmp_path, ip4(tcp(1, 2, options=options)))
    assert (p["timestamps"], p["tsval"], p["tsecr"], p["sacks"]) == (1, 7, 8, count)
    assert p["sack"][: 2 * count].tolist() == [edge for block in blocks for edge in block]


def test_packet_whose_options_are_cut_off_is_kept(tmp_path: Path) -> None:
    packet = ip4(tcp(1, 2, seq=42, options=timestamp_option(1, 2)))[:-8]
    path = Pcap(link=RAW).add(0, packet, missing=8).write(tmp_path / "x.pcap")
    (found,) = read_capture(path).packets
    assert (found["seq"], found["timestamps"]) == (42, 0)


CONTRADICTIONS = {
    "ip header of 16 bytes": b"\x44" + ip4(HEAD)[1:],
    "ip length below its headers": ip4(HEAD, payload=-10),
    "tcp header of 16 bytes": ip4(HEAD[:12] + b"\x40" + HEAD[13:]),
    "tcp header longer than the packet": ip4(HEAD[:12] + b"\xf0" + HEAD[13:]),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_headers_that_contradict_themselves_are_counted(name: str, tmp_path: Path) -> None:
    found = capture_of(tmp_path, CONTRADICTIONS[name], ip4(HEAD))
    assert (found.short, found.packets.size) == (1, 1)


def test_offloaded_packet_has_the_length_of_its_frame(tmp_path: Path) -> None:
    packet = bytearray(ip4(HEAD))
    packet[2:4] = b"\0\0"
    frame = ethernet(bytes(packet))
    path = Pcap().add(0, frame, missing=70_000).write(tmp_path / "x.pcap")
    p = read_capture(path).packets[0]
    assert (p["ip_length"], p["payload"]) == (70_040, 70_000)


def test_ttl_and_protocols_are_read(tmp_path: Path) -> None:
    found = capture_of(tmp_path, ip4(bytes(8), protocol=1), ip4(HEAD))
    assert found.packets["ttl"].tolist() == [64, 64]
    assert found.not_tcp == 1


# Tail loss probes: when they are due, and that they are no timeouts.

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


@pytest.mark.parametrize(("at", "kind"), [("21.36", "rto"), ("21.2", "fast")])
def test_the_timer_of_a_recovery_that_could_send_nothing_counts_from_when_the_head_was_sent(
    tmp_path: Path, at: str, kind: str
) -> None:
    """As of BBR in ProbeRTT: what was sent later has arrived, and a small window held the head."""
    table = f"""{steady(9)}
    20.0    > 8641:9601
    20.0    > 9601:10561
    20.001  > 10561:11521
    20.001  > 11521:12481
    20.6    < ack 9601
    20.61   < ack 9601 sack 10561:11521
    20.9    < ack 9601 sack 10561:12481
    {at}   > 9601:10561
    """
    assert found(tmp_path, 1.0, table) == [kind]


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

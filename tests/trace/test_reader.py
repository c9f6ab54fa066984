from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pcap_builder import Pcap, acknowledgement, ethernet, segment
from pcapng_builder import Pcapng

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.layout import PCAP_HEADER
from tcpf_lab.trace.packet import PACKET, Packets
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.scan import NOT_IP, RECORDS, UNTIMED

FRAMES = [
    segment(1),
    ethernet(b"who has", kind=0x0806),
    acknowledgement(961, sack=[(1921, 2881)]),
    segment(961) + bytes(333),
    segment(1921),
]


def made_pcap() -> tuple[bytes, list[int]]:
    """Give a capture and where its records end."""
    capture, ends = Pcap(), [PCAP_HEADER]
    for i, frame in enumerate(FRAMES):
        ends.append(ends[-1] + len(capture.add(i, frame).records[-1]))
    return capture.data(), ends


def made_pcapng() -> tuple[bytes, list[int]]:
    """Give a capture of two sections and where each of its blocks ends."""
    capture = Pcapng().interface(resolution=9)
    for i, frame in enumerate(FRAMES):
        if i == 2:
            capture.section(big=True, options=True).interface(resolution=9)
        capture.enhanced(i, frame, options=True)
    return capture.data(), np.cumsum([0, *map(len, capture.blocks)]).tolist()


MADE = {"pcap": made_pcap(), "pcapng": made_pcapng()}


def blocks(reader: Reader, size: int) -> Iterator[Packets]:
    block = np.zeros(size, PACKET)
    while count := reader.fill(block):
        yield block[:count].copy()


def rows(found: list[Packets]) -> list[tuple[int, int, int]]:
    """Give what tells the packets apart."""
    every = np.concatenate([np.zeros(0, PACKET), *found])
    return [(int(p["time_ns"]), int(p["record"]), int(p["seq"])) for p in every]


WHOLE = [(0, 0, 1), (2, 2, 1), (3, 3, 961), (4, 4, 1921)]

fresh = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@fresh
@given(st.sampled_from(list(MADE)), st.integers(1, 700), st.integers(1, 6))
def test_chunks_and_blocks_of_any_size_give_the_same_packets(
    tmp_path: Path, form: str, chunk: int, size: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE[form][0])
    with Reader(path, chunk=chunk) as reader:
        assert rows(list(blocks(reader, size))) == WHOLE
        assert (reader.counters[RECORDS], reader.counters[NOT_IP], reader.truncated) == (5, 1, "")
        assert reader.format == form


@fresh
@given(st.sampled_from(list(MADE)), st.data(), st.integers(1, 700))
def test_cutting_anywhere_gives_what_is_before_and_says_where(
    tmp_path: Path, form: str, data: st.DataObject, chunk: int
) -> None:
    whole, ends = MADE[form]
    cut = data.draw(st.integers(ends[0] or 4, len(whole)), label="cut")
    path = tmp_path / "x"
    path.write_bytes(whole[:cut])
    with Reader(path, chunk=chunk) as reader:
        found = rows(list(blocks(reader, 3)))
        records = int(reader.counters[RECORDS])
    assert found == [row for row in WHOLE if row[1] < records]
    last = max(end for end in ends if end <= cut)
    if last == cut:
        assert reader.truncated == ""
    else:
        left = f"{cut - last} bytes are" if cut - last > 1 else "1 byte is"
        place = f"packet {records + 1} at byte {last}: {left} left of it"
        assert place in reader.truncated


def test_pcap_cut_within_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for cut in range(PCAP_HEADER):
        path.write_bytes(MADE["pcap"][0][:cut])
        with pytest.raises(TraceError, match=r"empty|not a pcap|truncated in the file header"):
            Reader(path)


@fresh
@given(st.sampled_from(list(MADE)), st.data())
def test_any_changed_bytes_end_in_packets_or_one_message(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    changed = bytearray(MADE[form][0])
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=6)
    ):
        changed[at] = value
    path = tmp_path / "x"
    path.write_bytes(bytes(changed))
    found, where = 0, ""
    try:
        with Reader(path) as reader:
            for block in blocks(reader, 2):
                found += block.size
                assert found <= reader.counters[RECORDS]
    except TraceError as error:
        where = error.where
    assert where in ("", str(path))


def test_packets_before_damage_are_given_first(tmp_path: Path) -> None:
    whole, ends = MADE["pcap"]
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[3]] + b"\xff" * 40)
    with Reader(path) as reader:
        block = np.zeros(64, PACKET)
        assert reader.fill(block) == 2
        assert reader.fill(block) == 0
        assert f"packet 4 at byte {ends[3]}: it is said to have" in reader.truncated
        assert reader.hint == f"keep what is before it: head -c {ends[3]} {path} > whole"


@pytest.mark.parametrize("chunk", [24, 100, 1 << 19])
def test_packets_around_a_damaged_description_are_given(tmp_path: Path, chunk: int) -> None:
    whole, ends = MADE["pcapng"]
    damaged = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 24)  # its lengths differ
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[4]] + damaged + whole[ends[4] :])
    with Reader(path, chunk=chunk) as reader:
        assert rows(list(blocks(reader, 64))) == WHOLE
        assert f"damaged: packet 3 at byte {ends[4]}" in reader.truncated
        assert reader.skipped == len(damaged)


def long_capture(form: str) -> tuple[bytes, list[int]]:
    """Give a capture of forty packets, a second apart, and where each ends."""
    second = 10**9
    if form == "pcap":
        capture, ends = Pcap(), [PCAP_HEADER]
        for i in range(40):
            frame = segment(1 + 960 * i) + bytes(i)
            ends.append(ends[-1] + len(capture.add((10**9 + i) * second, frame).records[-1]))
        return capture.data(), ends
    blocks = Pcapng().interface(resolution=9)
    for i in range(40):
        blocks.enhanced((10**9 + i) * second, segment(1 + 960 * i) + bytes(i))
    return blocks.data(), np.cumsum([0, *map(len, blocks.blocks)]).tolist()[2:]


@pytest.mark.parametrize("chunk", [100, 1 << 19])
@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"noise", None])
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_reading_goes_on_behind_damage(
    tmp_path: Path, form: str, fill: bytes | None, chunk: int
) -> None:
    whole, ends = long_capture(form)
    first, last = ends[9], ends[15] + 5  # records 9 to 15 are damaged, the last one in its header
    hole = last - first
    middle = b"" if fill is None else (fill * hole)[:hole]  # None: they are missing
    path = tmp_path / "x"
    path.write_bytes(whole[:first] + middle + whole[last:])
    with Reader(path, chunk=chunk) as reader:
        found = np.concatenate(list(blocks(reader, 7)))
    assert (found["seq"] // 960).tolist() == [*range(9), *range(16, 40)]
    assert found["record"].tolist() == list(range(33))
    assert reader.skipped == len(middle) + ends[16] - last
    size = path.stat().st_size
    assert reader.read_share == pytest.approx(1 - reader.skipped / size)
    assert f"damaged: packet 10 at byte {first}:" in reader.truncated
    assert f"{reader.skipped} bytes skipped: " in reader.truncated


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_length_beyond_the_end_is_damage_if_records_follow_and_a_cut_end_if_not(
    tmp_path: Path, form: str
) -> None:
    whole, ends = long_capture(form)
    at = ends[30] + (8 if form == "pcap" else 4)
    path = tmp_path / "x"
    path.write_bytes(whole[:at] + struct.pack("<I", 100_000) + whole[at + 4 :])
    with Reader(path) as reader:
        found = np.concatenate(list(blocks(reader, 64)))
    assert (found["seq"] // 960).tolist() == [*range(30), *range(31, 40)]
    assert reader.skipped == ends[31] - ends[30]
    path.write_bytes(whole[: ends[38] + 20])
    with Reader(path) as reader:
        assert sum(block.size for block in blocks(reader, 64)) == 38
    assert (reader.skipped, reader.read_share) == (0, 1.0)
    assert reader.truncated.startswith("truncated in packet 39")


@pytest.mark.parametrize("far", [0, 2 * 86_400])
def test_records_of_another_day_are_not_where_reading_goes_on(tmp_path: Path, far: int) -> None:
    whole, ends = long_capture("pcap")
    later = Pcap()
    for i in range(5):
        later.add((10**9 + 50 + i + far) * 10**9, segment(1))
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[5]] + b"\xff" * 50 + b"".join(later.records))
    with Reader(path) as reader:
        assert sum(block.size for block in blocks(reader, 64)) == (5 if far else 10)


def test_damage_before_the_first_packet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE["pcap"][0][:PCAP_HEADER] + b"\xff" * 40)
    with Reader(path) as reader, pytest.raises(TraceError, match="packet 1 at byte 24"):
        reader.fill(np.zeros(4, PACKET))


def test_more_interfaces_than_room_was_made_for_are_kept(tmp_path: Path) -> None:
    capture = Pcapng()
    for i in range(300):
        capture.interface(101 if i % 2 else 1, resolution=9)
    for i in (0, 1, 254, 255, 298, 299):
        capture.enhanced(i, FRAMES[0][14 * (i % 2) :], number=i)
    with Reader(capture.write(tmp_path / "x")) as reader:
        found = np.concatenate(list(blocks(reader, 4)))
    assert found["time_ns"].tolist() == [0, 1, 254, 255, 298, 299]
    assert found["interface"].tolist() == [0, 1, 254, 255, 255, 255]
    assert reader.link_types == (1, 101)


def test_records_without_a_time_are_counted(tmp_path: Path) -> None:
    capture = Pcapng().interface().simple(FRAMES[0])
    with Reader(capture.write(tmp_path / "x")) as reader:
        assert rows(list(blocks(reader, 4))) == [(0, 0, 1)]
        assert reader.counters[UNTIMED] == 1


def test_directory_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read the capture"):
        Reader(tmp_path)

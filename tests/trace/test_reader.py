from __future__ import annotations

import struct
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pcap_builder import Pcap, acknowledgement, ethernet, segment
from pcapng_builder import Pcapng

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import analyse
from tcpf_lab.trace.packet import Capture, Packets, read_capture

PCAP_HEADER = 24

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


def read(path: Path) -> Capture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_capture(path, accept_truncated=True)


def rows(packets: Packets) -> list[tuple[int, int, int]]:
    """Give what tells the packets apart."""
    return [(int(p["time_ns"]), int(p["record"]), int(p["seq"])) for p in packets]


WHOLE = [(0, 0, 1), (2, 2, 1), (3, 3, 961), (4, 4, 1921)]

fresh = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@fresh
@given(st.sampled_from(list(MADE)), st.data())
def test_cutting_anywhere_gives_what_is_before_and_says_where(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    whole, ends = MADE[form]
    cut = data.draw(st.integers(ends[0] or 4, len(whole)), label="cut")
    path = tmp_path / "x"
    path.write_bytes(whole[:cut])
    if cut < ends[1]:
        with suppress(TraceError):
            assert read(path).packets.size == 0
        return
    found = read(path)
    records = found.records
    assert rows(found.packets) == [row for row in WHOLE if row[1] < records]
    last = max(end for end in ends if end <= cut)
    if last == cut:
        assert found.truncated == ""
    else:
        left = f"{cut - last} bytes are" if cut - last > 1 else "1 byte is"
        place = f"packet {records + 1} at byte {last}: {left} left of it"
        assert place in found.truncated


def test_pcap_cut_within_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for cut in range(PCAP_HEADER):
        path.write_bytes(MADE["pcap"][0][:cut])
        with pytest.raises(TraceError, match=r"empty|not a pcap|truncated in the file header"):
            read(path)


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
    with suppress(TraceError):
        found = read(path)
        assert found.packets.size <= found.records


def test_packets_before_damage_are_given_first(tmp_path: Path) -> None:
    whole, ends = MADE["pcap"]
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[3]] + b"\xff" * 40)
    assert read(path).packets.size == 2
    with pytest.raises(
        TraceError, match=f"packet 4 at byte {ends[3]}: it is said to have"
    ) as error:
        read_capture(path)
    assert error.value.hint == f"keep what is before it: head -c {ends[3]} {path} > whole"


def test_packets_around_a_damaged_description_are_given(tmp_path: Path) -> None:
    whole, ends = MADE["pcapng"]
    damaged = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 24)  # its lengths differ
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[4]] + damaged + whole[ends[4] :])
    found = read(path)
    assert rows(found.packets) == WHOLE
    assert f"damaged: packet 3 at byte {ends[4]}" in found.truncated
    assert found.skipped == len(damaged)


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


@pytest.mark.parametrize("fill", [b"\xff", b"\0", b"noise", None])
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_reading_goes_on_behind_damage(tmp_path: Path, form: str, fill: bytes | None) -> None:
    whole, ends = long_capture(form)
    first, last = ends[9], ends[15] + 5  # records 9 to 15 are damaged, the last one in its header
    hole = last - first
    middle = b"" if fill is None else (fill * hole)[:hole]  # None: they are missing
    path = tmp_path / "x"
    path.write_bytes(whole[:first] + middle + whole[last:])
    found = read(path)
    assert (found.packets["seq"] // 960).tolist() == [*range(9), *range(16, 40)]
    assert found.packets["record"].tolist() == list(range(33))
    assert found.skipped == len(middle) + ends[16] - last
    size = path.stat().st_size
    assert found.read_share == pytest.approx(1 - found.skipped / size)
    assert f"damaged: packet 10 at byte {first}:" in found.truncated
    assert f"{found.skipped} bytes skipped: " in found.truncated


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_length_beyond_the_end_is_damage_if_records_follow_and_a_cut_end_if_not(
    tmp_path: Path, form: str
) -> None:
    whole, ends = long_capture(form)
    at = ends[30] + (8 if form == "pcap" else 4)
    path = tmp_path / "x"
    path.write_bytes(whole[:at] + struct.pack("<I", 100_000) + whole[at + 4 :])
    found = read(path)
    assert (found.packets["seq"] // 960).tolist() == [*range(30), *range(31, 40)]
    assert found.skipped == ends[31] - ends[30]
    path.write_bytes(whole[: ends[38] + 20])
    found = read(path)
    assert found.packets.size == 38
    assert (found.skipped, found.read_share) == (0, 1.0)
    assert found.truncated.startswith("truncated in packet 39")


@pytest.mark.parametrize("far", [0, 2 * 86_400])
def test_records_of_another_day_are_not_where_reading_goes_on(tmp_path: Path, far: int) -> None:
    whole, ends = long_capture("pcap")
    later = Pcap()
    for i in range(5):
        later.add((10**9 + 50 + i + far) * 10**9, segment(1))
    path = tmp_path / "x"
    path.write_bytes(whole[: ends[5]] + b"\xff" * 50 + b"".join(later.records))
    assert read(path).packets.size == (5 if far else 10)


def test_damage_before_the_first_packet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE["pcap"][0][:PCAP_HEADER] + b"\xff" * 40)
    with pytest.raises(TraceError, match="packet 1 at byte 24"):
        read(path)


def test_more_interfaces_than_room_was_made_for_are_kept(tmp_path: Path) -> None:
    capture = Pcapng()
    for i in range(300):
        capture.interface(101 if i % 2 else 1, resolution=9)
    for i in (0, 1, 254, 255, 298, 299):
        capture.enhanced(i, FRAMES[0][14 * (i % 2) :], number=i)
    found = read(capture.write(tmp_path / "x"))
    assert found.packets["time_ns"].tolist() == [0, 1, 254, 255, 298, 299]
    assert found.packets["interface"].tolist() == [0, 1, 254, 255, 255, 255]
    assert found.link_types == (1, 101)


def test_records_without_a_time_are_counted(tmp_path: Path) -> None:
    capture = Pcapng().interface().simple(FRAMES[0])
    path = capture.write(tmp_path / "x")
    assert rows(read(path).packets) == [(0, 0, 1)]
    assert "1 of 1 packet without a time of their own" in analyse(path).capture.truncated


def test_directory_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read the capture"):
        read(tmp_path)

"""One capture written in every format gives the same packets."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pcap_builder import SYN, Pcap, acknowledgement, ethernet, ip6, segment, tcp
from pcapng_builder import Pcapng

from tcpf_lab.base.errors import TraceError
from tcpf_lab.trace.analysis import analyse
from tcpf_lab.trace.packet import Packets, read_capture

SECOND = 10**9
START = 1_700_000_000 * SECOND
ADDRESS = bytes(15)
#: Whole microseconds, because not every format keeps more.
TIMES = [START + 1000 * t for t in (0, 1, 999_999, 1_000_000, 5_000_001)]
FRAMES = [
    segment(0, 0, flags=SYN),
    acknowledgement(1, flags=SYN | 16),
    segment(1, 960, ip_id=7, tos=40),
    acknowledgement(961, sack=[(1921, 2881), (4000, 5000)]),
    ethernet(ip6(tcp(1, 2), src=ADDRESS + b"\1", dst=ADDRESS + b"\2", payload=5), kind=0x86DD),
]
MISSING = [0, 0, 960, 0, 5]
RECORDS = list(zip(TIMES, FRAMES, MISSING, strict=True))


def classic(**form: bool) -> bytes:
    capture = Pcap(**form)
    for time_ns, frame, missing in RECORDS:
        capture.add(time_ns, frame, missing=missing)
    return capture.data()


def modified(*, big: bool) -> bytes:
    """Write the variant whose record headers end in eight bytes more."""
    order = ">" if big else "<"
    parts = [struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)]
    for time_ns, frame, missing in RECORDS:
        seconds, rest = divmod(time_ns, SECOND)
        sizes = (len(frame), len(frame) + missing)
        parts += [struct.pack(order + "IIIIIHBB", seconds, rest // 1000, *sizes, 2, 8, 0, 0), frame]
    return b"".join(parts)


def blocks(*, big: bool = False, resolution: int = 6, offset: int = 0, old: bool = False) -> bytes:
    capture = Pcapng(big=big).interface(resolution=resolution, offset=offset)
    scale = 1 << (resolution & 127) if resolution & 128 else 10**resolution
    for time_ns, frame, missing in RECORDS:
        units = -(-(time_ns - offset * SECOND) * scale // SECOND)  # rounded up: read rounded down
        write = capture.obsolete if old else capture.enhanced
        write(units, frame, missing=missing)
        capture.block(0x0EAD0000, b"no block that anybody knows.")
    return capture.data()


def sections() -> bytes:
    """Every packet in a section of its own, in turns of both byte orders."""
    capture = Pcapng()
    for i, (time_ns, frame, missing) in enumerate(RECORDS):
        capture.section(big=i % 2 == 1, options=True)
        capture.interface(resolution=9).enhanced(time_ns, frame, missing=missing, options=True)
    return capture.data()


PLAIN: dict[str, bytes] = {
    "pcap": classic(),
    "pcap, big-endian": classic(big=True),
    "pcap, microseconds": classic(nano=False),
    "pcap, microseconds, big-endian": classic(nano=False, big=True),
    "pcap, modified": modified(big=False),
    "pcap, modified, big-endian": modified(big=True),
    "pcapng": blocks(),
    "pcapng, big-endian": blocks(big=True),
    "pcapng, nanoseconds": blocks(resolution=9),
    "pcapng, 10^-12 s": blocks(resolution=12, offset=START // SECOND - 7),
    "pcapng, 2^-32 s": blocks(resolution=128 + 32),
    "pcapng, 2^-31 s": blocks(resolution=128 + 31),
    "pcapng, 2^-50 s": blocks(resolution=128 + 50, offset=START // SECOND),
    "pcapng, offset": blocks(offset=-86400),
    "pcapng, obsolete block": blocks(old=True),
    "pcapng, obsolete block, big-endian": blocks(old=True, big=True),
    "pcapng, sections": sections(),
}


def comparable(packets: Packets) -> Packets:
    """Clear what does not count."""
    found = packets.copy()
    for row in found:
        row["sack"][2 * row["sacks"] :] = 0
    return found


def rows(path: Path) -> bytes:
    return comparable(read_capture(path).packets).tobytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("plain") / "x.pcap"
    path.write_bytes(PLAIN["pcap"])
    found = read_capture(path).packets
    assert found["time_ns"].tolist() == TIMES
    assert found["payload"].tolist() == [0, 0, 960, 0, 5]
    assert found["wire_length"].tolist() == [54, 54, 1014, 74, 79]
    assert found["sack"][3][:4].tolist() == [1921, 2881, 4000, 5000]
    assert found["record"].tolist() == [0, 1, 2, 3, 4]
    return comparable(found).tobytes()


@pytest.mark.parametrize("name", PLAIN)
def test_every_format_gives_the_same_packets(name: str, tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(PLAIN[name])
    assert rows(path) == expected
    assert read_capture(path).format == name.partition(",")[0]


def zstd_in_frames(data: bytes) -> bytes:
    """Pack in two frames with a skippable one between them; the first tells neither size."""
    packer = zstandard.ZstdCompressor(write_checksum=True)
    writer = packer.compressobj()
    first = writer.compress(data[:99]) + writer.flush()
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"hello"
    return first + skipped + zstandard.compress(data[99:])


def lz4(data: bytes) -> bytes:
    return bytes(pa.Codec("lz4").compress(data, asbytes=True))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": zstandard.compress,
    "zstd in frames": zstd_in_frames,
    "gzip": gzip.compress,
    "gzip in members": lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:]),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "lz4": lz4,
}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("name", ["pcap", "pcapng"])
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_packed_captures_give_the_same_packets(
    packer: str,
    name: str,
    stdin: bool,
    tmp_path: Path,
    expected: bytes,
    standard_input: Callable[[bytes], None],
) -> None:
    data, path = PACKERS[packer](PLAIN[name]), tmp_path / "x"
    path.write_bytes(data)
    if stdin:
        standard_input(data)
    assert rows(Path("-") if stdin else path) == expected


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_capture_that_ends_early_gives_what_is_there(packer: str, tmp_path: Path) -> None:
    """What was unpacked before the damage is kept; lz4 gives it in pieces of 4096 bytes."""
    capture, path = Pcap(), tmp_path / "x"
    noise = np.random.default_rng(1)
    for i in range(1200):  # more than a block of bzip2, which has 900 kB
        capture.add(START + i, segment(0, 946)[:54] + noise.bytes(946))
    data = capture.data()
    path.write_bytes(PACKERS[packer](data)[:-3])
    with pytest.warns(
        UserWarning, match=rf"truncated in packet \d+ at byte \d+.*damaged {packer[:3]}"
    ):
        found = read_capture(path, accept_truncated=True)
    times = found.packets["time_ns"] - START
    assert np.array_equal(times, np.arange(times.size))
    least = 1200 - (300_000 if packer == "bzip2" else 140_000) // 1016
    assert least <= times.size <= 1200
    if packer in ("gzip", "xz"):
        assert times.size == 1200  # only what checks them is cut off


def test_simple_blocks_have_the_time_of_the_packet_before(tmp_path: Path) -> None:
    capture = Pcapng().interface(snaplen=60).enhanced(5_000_000, FRAMES[0])
    capture.simple(FRAMES[2][:54] + bytes(6), missing=954)
    packets = read_capture(capture.write(tmp_path / "x")).packets
    assert packets["time_ns"].tolist() == [5 * SECOND] * 2
    assert packets["wire_length"].tolist() == [54, 1014]
    assert packets["payload"].tolist() == [0, 960]


def test_interfaces_differ_in_link_type_and_resolution(tmp_path: Path) -> None:
    capture = Pcapng().interface(1, resolution=9).interface(101).interface(147)
    capture.enhanced(START + 1, FRAMES[0]).enhanced(START // 1000, FRAMES[1][14:], number=1)
    capture.enhanced(START // 1000, b"who knows", number=2)
    found = read_capture(capture.write(tmp_path / "x"))
    assert found.packets["time_ns"].tolist() == [START + 1, START]
    assert found.packets["interface"].tolist() == [0, 1]
    assert (found.link_types, found.records, found.not_ip) == ((1, 101, 147), 3, 1)


@pytest.mark.parametrize("writer", ["enhanced", "obsolete"])
def test_packet_of_an_interface_that_was_not_described_is_damage(
    writer: str, tmp_path: Path
) -> None:
    capture = Pcapng().interface().enhanced(1, FRAMES[0])
    getattr(capture.section(), writer)(1, FRAMES[0])
    with pytest.raises(TraceError, match=r"packet 2 at byte \d+: it names interface 0"):
        read_capture(capture.write(tmp_path / "x"))


def test_cause_of_damage_is_named(tmp_path: Path) -> None:
    """Each of these breaks one thing of the second packet."""
    frame = FRAMES[0]
    first = Pcapng().interface().enhanced(1, frame).data()
    second = first[-88:]
    broken = {
        "it names interface 3": {8: 3},
        "gives 4000 bytes, it has room for 56": {20: 4000},
        "time stamp of 18446744069414584321 units": {12: 0xFFFFFFFF},
        "its length of 20 bytes is too short for an enhanced": {4: 20, 16: 20},
        "its length of 7 bytes is not credible": {4: 7},
        "its lengths differ: 88 and 12 bytes": {84: 12},
    }
    for message, words in broken.items():
        data = bytearray(first + second)
        for at, value in words.items():
            struct.pack_into("<I", data, len(first) + at, value)
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(TraceError, match=f"packet 2 at byte {len(first)}: .*{message}"):
            read_capture(tmp_path / "x")


def test_simple_block_before_every_interface_is_damage(tmp_path: Path) -> None:
    capture = Pcapng().simple(FRAMES[0])
    with pytest.raises(TraceError, match="packet 1 at byte 28: it names interface 0"):
        read_capture(capture.write(tmp_path / "x"))


def test_capture_of_unknown_interfaces_only_is_refused(tmp_path: Path) -> None:
    capture = Pcapng().interface(147).enhanced(1, b"what")
    path = capture.write(tmp_path / "x")
    for read in (read_capture, analyse):
        with pytest.raises(TraceError, match="unknown link type 147"):
            read(path)


@pytest.mark.parametrize(
    ("resolution", "offset", "message"),
    [(28, 0, "units of 10"), (128 + 64, 0, "units of 2"), (6, 1 << 40, "offset by")],
)
def test_time_stamps_out_of_all_reason_are_damage(
    resolution: int, offset: int, message: str, tmp_path: Path
) -> None:
    capture = Pcapng().interface(resolution=resolution, offset=offset)
    with pytest.raises(TraceError, match=message):
        read_capture(capture.write(tmp_path / "x"))


def test_block_whose_lengths_differ_is_damage(tmp_path: Path) -> None:
    capture = Pcapng().interface().enhanced(1, FRAMES[0])
    capture.blocks[-1] = capture.blocks[-1][:-4] + capture.pack("I", 12)
    with pytest.raises(TraceError, match="packet 1 at byte"):
        read_capture(capture.write(tmp_path / "x"))


@pytest.mark.parametrize("form", ["pcap", "nsecpcap", "modpcap", "pcapng"])
def test_what_editcap_writes_gives_the_same_packets(
    form: str, tmp_path: Path, expected: bytes
) -> None:
    if not shutil.which("editcap"):
        pytest.skip("editcap is not installed")
    given, path = tmp_path / "given", tmp_path / "x"
    given.write_bytes(PLAIN["pcap, microseconds"])
    subprocess.run(["editcap", "-F", form, str(given), str(path)], check=True)
    assert rows(path) == expected


@pytest.mark.parametrize("name", ["pcapng", "pcapng, big-endian", "pcapng, sections"])
def test_tshark_reads_the_same_times_and_lengths(name: str, tmp_path: Path) -> None:
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed")
    path = tmp_path / "x"
    path.write_bytes(PLAIN[name])
    fields = ["-e", "frame.time_epoch", "-e", "frame.len", "-e", "tcp.len"]
    done = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", *fields],
        check=True,
        capture_output=True,
        text=True,
    )
    packets = read_capture(path).packets
    ours = [
        [f"{p['time_ns'] // SECOND}.{p['time_ns'] % SECOND:09d}", f"{p['wire_length']}"]
        for p in packets
    ]
    assert [line.split()[:2] for line in done.stdout.splitlines()] == ours
    assert [int(line.split()[2]) for line in done.stdout.splitlines()] == packets[
        "payload"
    ].tolist()

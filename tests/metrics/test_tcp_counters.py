"""TCP's counters against the list of retransmissions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import zstandard
from expected_counters import expected_counters
from run_builder import as_file, entry

from tcpf_lab.base.errors import TraceError
from tcpf_lab.base.shipped import directory
from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.record import UnreadableError, kernel_counters
from tcpf_lab.results.layout import RunFiles

LOSS, RECOVERY, OPEN = 4, 3, 0


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    files = RunFiles(tmp_path / "run")
    files.create()
    return files


def test_counters_are_read_by_section(run: RunFiles) -> None:
    text = "TcpExt: SyncookiesSent TCPTimeouts TCPDSACKRecv\nTcpExt: 5 17 3\nIpExt: A\nIpExt: 1\n"
    (run.stats / "netstat-S.txt").write_text(text)
    counted = {"SyncookiesSent": 5, "TCPTimeouts": 17, "TCPDSACKRecv": 3}
    assert kernel_counters(run, "S", "TcpExt") == counted


def test_node_without_counters_is_told(run: RunFiles) -> None:
    with pytest.raises(UnreadableError, match=r"netstat-S\.txt is missing"):
        kernel_counters(run, "S", "TcpExt")
    (run.stats / "netstat-S.txt").write_text("IpExt: A\nIpExt: 1\n")
    with pytest.raises(UnreadableError, match="has no TcpExt"):
        kernel_counters(run, "S", "TcpExt")


def test_list_adds_up_to_the_counters_that_it_determines() -> None:
    entries = np.concatenate(
        [
            entry(log.SYN_RTO, 0, tcp_flags=log.SYN, state=LOSS),
            entry(log.RTO, 1, state=LOSS),
            entry(log.RTO, 1, state=LOSS, marks=0),  # refused by the device, and yet an expiry
            entry(log.WINDOW_RTO, 1, state=LOSS),
            entry(log.FAST, 1, state=RECOVERY),
            entry(log.RECOVERY, 1, state=RECOVERY, segments=2),
            entry(log.REORDERING_TIMER, 1, state=RECOVERY),
            entry(log.POST_RTO, 1, state=LOSS, segments=3),
            entry(log.NOT_CONGESTION, 1, state=LOSS),
            entry(log.TLP, 1, state=OPEN),
            entry(log.TLP_NEW, 1, state=OPEN),
            entry(log.KEEPALIVE, 1, state=OPEN),
        ]
    )
    assert expected_counters(entries) == {
        "TCPTimeouts": 3,
        "TCPFastRetrans": 4,
        "TCPSlowStartRetrans": 4,
        "TCPSynRetrans": 1,
        "TCPLossProbes": 2,
        "TCPKeepAlive": 1,
    }


# Binary lists: as they were written or packed, and never more than a run can have.


def test_a_list_is_the_same_packed_or_not(tmp_path: Path) -> None:
    plain, packed = tmp_path / "users-S.bin", tmp_path / "users-S.bin.zst"
    written = bytes(range(256)) * 1000
    plain.write_bytes(written)
    packed.write_bytes(zstandard.compress(written))
    assert log.unpacked(plain) == log.unpacked(packed) == written


def test_what_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST", 10**6)
    path = tmp_path / "retransmissions-S.bin.zst"
    path.write_bytes(zstandard.compress(bytes(10**6)))
    assert len(log.unpacked(path)) == 10**6
    path.write_bytes(zstandard.compress(bytes(10**8)))
    assert path.stat().st_size < 10_000
    with pytest.raises(UnreadableError, match="unpacks to more than 1000000 bytes"):
        log.unpacked(path)


def test_what_is_no_packed_list_is_told(tmp_path: Path) -> None:
    path = tmp_path / "users-S.bin.zst"
    path.write_bytes(b"no list")
    with pytest.raises(UnreadableError, match="cannot be read"):
        log.unpacked(path)
    with pytest.raises(FileNotFoundError):
        log.unpacked(tmp_path / "other.bin")


# The kernel's list of retransmissions as arrays.

TWO = (entry(log.FAST, 5000, time_ns=7, cwnd=12), entry(log.RTO, 9000, backoff=2))


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "list.bin"
    path.write_bytes(as_file(*TWO, missing=3))
    found = log.read_log(path)
    assert found.missing == 3
    assert found.entries.tobytes() == np.concatenate(TWO).tobytes()
    assert found.entries["backoff"].tolist() == [0, 2]


def test_entries_that_were_added_while_the_list_was_read_are_given(tmp_path: Path) -> None:
    path = tmp_path / "list.bin"
    path.write_bytes(as_file(TWO[0]) + TWO[1].tobytes())
    assert log.read_log(path).entries.size == 2


def test_lists_of_a_run_are_found_packed_and_plain(run: RunFiles) -> None:
    content = as_file(*TWO)
    (run.stats / "retransmissions-S.bin.zst").write_bytes(zstandard.compress(content))
    (run.stats / "retransmissions-S-2.bin").write_bytes(as_file())
    found = log.read_logs(run)
    assert {node: part.entries.size for node, part in found.items()} == {"S": 2, "S-2": 0}


def test_kernel_without_the_list_leaves_nothing(run: RunFiles) -> None:
    assert log.read_logs(run) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with b''"),
        (b"TcpExt: SyncookiesSent TCPTimeouts", "begins with b'TcpExt: '"),
        (as_file(*TWO)[:-1], "175 bytes after the head are not entries of 88 bytes"),
        (as_file(*TWO)[:-88], "cut: 1 of 2 entries"),
        (as_file(*TWO)[:-176], "cut: 0 of 2 entries"),
        (as_file(*TWO)[:20], "cut: 20 of 24 bytes of its head"),
        (b"tcpretr2\x60" + bytes(15), "header: 96 bytes each"),
        (b"tcpretr1\x58" + bytes(7), "of another version: b'tcpretr1', not b'tcpretr2'"),
    ],
)
def test_file_that_is_no_list_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "list.bin"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=re.escape(message)) as caught:
        log.read_log(path)
    assert "list.bin" in caught.value.where


def test_damaged_compression_is_told(tmp_path: Path) -> None:
    path = tmp_path / "list.bin.zst"
    path.write_bytes(b"no zstandard")
    with pytest.raises(TraceError, match="cannot be read"):
        log.read_log(path)


def test_entry_of_several_segments_becomes_as_many_packets_across_the_wrap() -> None:
    made = entry(log.RECOVERY, 2**32 - 1000, end=1500, segments=3, segment_size=1000)
    packets = log.as_packets(np.concatenate([made, entry(log.RTO, 70)]))
    assert packets["seq"].tolist() == [2**32 - 1000, 0, 1000, 70]
    assert packets["end"].tolist() == [0, 1000, 1500, 1070]
    assert packets["cause"].tolist() == [log.RECOVERY] * 3 + [log.RTO]


def test_what_the_device_refused_is_no_packet() -> None:
    assert log.as_packets(entry(log.RTO, 70, marks=log.SACK)).size == 0


def kernel_words(pattern: str) -> list[tuple[str, ...]]:
    """Find a pattern in the header that the patch adds to the kernel."""
    (patch,) = (directory("kernel") / "uml/patches").glob("0007-*.patch")
    header = patch.read_text().split("include/net/tcp_retrans_log.h\n")[-1].split("\ndiff ")[0]
    return re.findall(pattern, header, re.MULTILINE)


def test_lists_begin_as_the_kernel_has_them_begin(tmp_path: Path) -> None:
    (magic,) = kernel_words(r'^\+#define TCP_RETRANS_MAGIC\t"(\w+)"')
    assert str(magic).encode() == log.MAGIC
    head = kernel_words(r"^\+\t(char|u32|u64)\t(\w+)(?:\[\w+\])?;")[:4]
    assert [word[1] for word in head] == ["magic", "entry_size", "missing", "entries"]
    widths = {"char": len(log.MAGIC), "u32": 4, "u64": 8}
    assert sum(widths[word[0]] for word in head) == log.HEAD.size
    path = tmp_path / "list.bin"
    path.write_bytes(as_file())
    assert log.read_log(path).entries.size == 0


def test_causes_have_the_kernels_numbers() -> None:
    body = kernel_words(r"^\+\tTCP_RETRANS_(\w+),\t")
    names = {"REORDERING": "reordering_timer"}
    assert [names.get(word, word.lower()) for word in body] == list(log.CAUSES)


def test_marks_have_the_kernels_bits() -> None:
    bits = dict(kernel_words(r"^\+#define TCP_RETRANS_(SENT|FIRST|SACK)\t(\d)"))
    assert {name: int(bit) for name, bit in bits.items()} == {
        "SENT": log.SENT,
        "FIRST": log.FIRST,
        "SACK": log.SACK,
    }


def test_entry_has_the_kernels_fields_in_its_order() -> None:
    fields = kernel_words(r"^\+\t(u8|u16|u32|u64)\t(\w+)(?:\[(\d+)\])?;")
    fields = fields[1 + [name for _, name, _ in fields].index("entries") :]
    sizes = [int(kind[1:]) // 8 * int(count or 1) for kind, _, count in fields]
    assert sizes == [log.ENTRY[name].itemsize for name in log.ENTRY.names]
    assert sum(sizes) == log.ENTRY.itemsize == 88

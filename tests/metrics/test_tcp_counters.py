"""TCP's counters against the list of retransmissions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zstandard
from expected_counters import expected_counters
from retransmission_entries import entry

from tcpf_lab.metrics import retransmission_log
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
    assert retransmission_log.unpacked(plain) == retransmission_log.unpacked(packed) == written


def test_what_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retransmission_log, "MOST", 10**6)
    path = tmp_path / "retransmissions-S.bin.zst"
    path.write_bytes(zstandard.compress(bytes(10**6)))
    assert len(retransmission_log.unpacked(path)) == 10**6
    path.write_bytes(zstandard.compress(bytes(10**8)))
    assert path.stat().st_size < 10_000
    with pytest.raises(UnreadableError, match="unpacks to more than 1000000 bytes"):
        retransmission_log.unpacked(path)


def test_what_is_no_packed_list_is_told(tmp_path: Path) -> None:
    path = tmp_path / "users-S.bin.zst"
    path.write_bytes(b"no list")
    with pytest.raises(UnreadableError, match="cannot be read"):
        retransmission_log.unpacked(path)
    with pytest.raises(FileNotFoundError):
        retransmission_log.unpacked(tmp_path / "other.bin")

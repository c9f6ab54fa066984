"""Binary lists: as they were written or packed, and never more than a run can have."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from tcpf_lab.metrics import retransmission_log
from tcpf_lab.metrics.record import UnreadableError


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

"""Directories as bytes: what goes in comes out, and nothing leaves the directory."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from tcpf_lab.results import storage
from tcpf_lab.results.storage import ArchiveError


@pytest.fixture
def full(tmp_path: Path) -> Path:
    root = tmp_path / "full"
    (root / "log").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "log" / "console.txt").write_bytes(b"booting\n" * 1000)
    (root / "program").write_bytes(b"\x7fELF")
    (root / "program").chmod(0o700)
    return root


def repacked(root: Path) -> bytes:
    """Pack it as if nobody else could run its program, which is what arrives elsewhere."""
    (root / "program").chmod(0o755)
    return storage.pack(root, storage.contents(root))


def packed_by_hand(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return zstandard.compress(buffer.getvalue())


def link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_everything_comes_back_and_is_smaller_meanwhile(full: Path, tmp_path: Path) -> None:
    packed = storage.pack(full, storage.contents(full))
    assert len(packed) < 1000
    back = tmp_path / "back"
    back.mkdir()
    storage.unpack(packed, back)
    assert storage.contents(back) == storage.contents(full)
    assert (back / "log" / "console.txt").read_bytes() == b"booting\n" * 1000
    assert (back / "program").stat().st_mode & 0o100
    assert not (back / "log" / "console.txt").stat().st_mode & 0o100
    assert storage.pack(back, storage.contents(back)) == repacked(full)


def test_links_are_not_packed(full: Path) -> None:
    (full / "link").symlink_to("/etc/hostname")
    (full / "directory").symlink_to("/etc")
    assert {str(path) for path in storage.contents(full)} == {
        "empty",
        "log",
        "log/console.txt",
        "program",
    }


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "log/../../outside", ".."])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ArchiveError, match="leads elsewhere"):
        storage.unpack(packed_by_hand((tarfile.TarInfo(name), b"x")), root)
    assert list(tmp_path.rglob("*")) == [root]


@pytest.mark.parametrize(
    "member",
    [
        link("a", tarfile.SYMTYPE, "/etc"),
        link("a", tarfile.LNKTYPE, "b"),
        link("a", tarfile.FIFOTYPE, ""),
        link("a", tarfile.CHRTYPE, ""),
    ],
    ids=["symlink", "hard link", "fifo", "device"],
)
def test_what_is_neither_file_nor_directory_is_refused(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    with pytest.raises(ArchiveError, match="neither a file nor a directory"):
        storage.unpack(packed_by_hand((member, b"")), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced(tmp_path: Path) -> None:
    twice = packed_by_hand((tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2"))
    with pytest.raises(ArchiveError, match="occurs twice"):
        storage.unpack(twice, tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_cut_archive_is_told(full: Path, tmp_path: Path, cut: int) -> None:
    packed = storage.pack(full, storage.contents(full))
    back = tmp_path / "back"
    back.mkdir()
    with pytest.raises(ArchiveError, match="damaged"):
        storage.unpack(packed[:cut], back)

"""Archives, read back by the program that has always read them."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tcpf_lab.testbed.vm import root

ENTRIES = {
    "init": root.program(b"#!/bin/sh\n"),
    "etc/keys/secret": root.private(b"k" * 33),
    "run": root.link("var/run"),
    "empty": root.private(b""),
}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    reader = shutil.which("busybox")
    assert reader, "./lab test installs busybox-static"
    archive = root.cpio(ENTRIES, ("proc",))
    subprocess.run([reader, "cpio", "-idm"], input=archive, cwd=tmp_path, check=True)
    return tmp_path


def test_files_come_back_with_content_and_mode(unpacked: Path) -> None:
    assert (unpacked / "init").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((unpacked / "init").stat().st_mode) == 0o755
    assert (unpacked / "etc/keys/secret").read_bytes() == b"k" * 33
    assert stat.S_IMODE((unpacked / "etc/keys/secret").stat().st_mode) == 0o600
    assert (unpacked / "empty").read_bytes() == b""


def test_links_and_empty_directories_come_back(unpacked: Path) -> None:
    assert (unpacked / "run").readlink() == Path("var/run")
    assert list((unpacked / "proc").iterdir()) == []


def test_same_entries_give_the_same_bytes() -> None:
    assert root.cpio(ENTRIES) == root.cpio(dict(ENTRIES))


def test_directories_stand_before_what_is_in_them() -> None:
    archive = root.cpio({"a/b/c": root.program(b"")})
    places = [archive.index(name) for name in (b"a\0", b"a/b\0", b"a/b/c\0")]
    assert places == sorted(places)

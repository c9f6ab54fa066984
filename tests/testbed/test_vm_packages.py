"""Packages for the guests, from an archive of our own: real packages, a stand-in for apt."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError, TestbedError
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm import kernel as vm_packages
from tcpf_lab.testbed.vm import root

APT_CACHE = """#!/bin/sh
[ "$1" = depends ] && echo "$2" && cat "{home}/depends/$2"
"""
APT_GET = """#!/bin/sh
case "$*" in *install*) exec cat "{home}/simulated" ;; esac
while [ "$1" != download ]; do shift; done
shift
for package; do
    cp "{home}/$package.deb" . || {{ echo "E: Unable to locate package $package"; exit 100; }}
done
"""
RELEASE = "6.12.9+deb12-amd64"
HEADERS = f"linux-headers-{RELEASE}"


def silent(_phase: str, _share: float) -> None:
    pass


class Archive:
    """A directory of packages and of what is known of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "depends").mkdir(parents=True)
        for name, script in (("apt-cache", APT_CACHE), ("apt-get", APT_GET)):
            (home / name).write_text(script.format(home=home))
            (home / name).chmod(0o755)

    def add(self, name: str, files: Mapping[str, bytes], depends: Sequence[str] = ()) -> None:
        tree = self.home / "trees" / name
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        for path, content in {**files, "DEBIAN/control": control.encode()}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(content)
        # What `--root-owner-group` is for: the tests may run as anybody.
        build = ["dpkg-deb", "--root-owner-group", "-b", str(tree), str(self.home / f"{name}.deb")]
        subprocess.run(build, check=True, capture_output=True)
        self.depends(name, *depends)

    def depends(self, name: str, *depends: str) -> None:
        lines = [f"  Depends: {other}\n" for other in depends]
        (self.home / "depends" / name).write_text("".join([*lines, "  Suggests: a-manual\n"]))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    found = Archive(tmp_path / "archive")
    monkeypatch.setattr(vm_packages, "TOOL_PATH", f"{found.home}:{vm_packages.TOOL_PATH}")
    return found


@pytest.fixture
def kernels(archive: Archive) -> Archive:
    """Return an archive that has one kernel of 6.12 and knows of one of 6.1."""
    archive.depends("linux-image-amd64", "linux-image-6.1.0-56-amd64")
    archive.depends("linux-image-6.12-amd64", f"linux-image-{RELEASE}")
    module = f"lib/modules/{RELEASE}/kernel/net/veth.ko"
    archive.add(f"linux-image-{RELEASE}", {f"boot/vmlinuz-{RELEASE}": b"bz", module: b""})
    makefile = f"usr/src/{HEADERS}/Makefile"
    archive.add(HEADERS, {makefile: b"all:\n"}, ["linux-kbuild-6.12.9", "linux-compiler-gcc"])
    archive.add("linux-kbuild-6.12.9", {"usr/lib/linux-kbuild-6.12.9/fixdep": b""})
    return archive


def test_kernel_is_a_tree_of_image_modules_and_headers(kernels: Archive, tmp_path: Path) -> None:
    phases: list[str] = []
    kernel = vm_kernel.fetch("6.12", lambda phase, _: phases.append(phase), tmp_path / "cache")
    assert kernel.release == RELEASE
    assert kernel.image.read_bytes() == b"bz"
    assert (kernel.modules / "kernel/net/veth.ko").exists()
    assert (kernel.modules / "modules.dep").exists()
    assert (kernel.directory / f"usr/src/{HEADERS}/Makefile").exists()
    assert (kernel.directory / "usr/lib/linux-kbuild-6.12.9/fixdep").exists()
    # A directory there would hide the link of the machine's root.
    assert not (kernel.directory / "lib").exists()
    assert phases[0] == f"download linux-image-{RELEASE}"
    assert [path.name for path in (tmp_path / "cache/kernels").iterdir()] == [RELEASE]
    (kernels.home / "apt-get").unlink()
    assert vm_kernel.fetch("6.12", silent, tmp_path / "cache") == kernel


def test_distribution_without_the_series_says_what_it_has(archive: Archive, tmp_path: Path) -> None:
    archive.depends("linux-image-amd64", "linux-image-6.1.0-56-amd64")
    with pytest.raises(TestbedError, match=r"no Linux 6\.12 .*; it has 6\.1\.0-56-amd64"):
        vm_kernel.fetch("6.12", silent, tmp_path)


def test_failed_download_leaves_only_its_log(kernels: Archive, tmp_path: Path) -> None:
    (kernels.home / f"{HEADERS}.deb").unlink()
    with pytest.raises(LabError, match=re.escape(f"Unable to locate package {HEADERS}")):
        vm_kernel.fetch("6.12", silent, tmp_path / "cache")
    left = [path.name for path in (tmp_path / "cache/kernels").iterdir()]
    assert left == [f"fetch-{RELEASE}.log"]


def test_machine_without_room_is_told_so(kernels: Archive, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"1000000\.0 GB are needed"):
        vm_packages.obtain(tmp_path / "entry", [HEADERS], 10**15, silent)
    assert not (tmp_path / ".making-entry").exists()


def test_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_packages, "TOOL_PATH", "/nowhere")
    with pytest.raises(TestbedError, match="apt-get, dpkg-deb, depmod is not installed"):
        vm_packages.require_tools()


def test_missing_programs_come_with_what_they_need(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        root, "PACKAGES", {"openssh-server": lambda: False, "busybox-static": lambda: True}
    )
    archive.add("openssh-server", {"usr/sbin/sshd": b"the sshd"})
    archive.add("libwrap0", {"lib/libwrap.so.0": b"a library", "bin/odd": b""})
    (archive.home / "simulated").write_text(
        "Reading package lists...\n"
        "Inst openssh-client [1:9.2p1-1] (1:9.2p1-2 Debian:12 [amd64]) []\n"
        "Inst libwrap0 (7.6 Debian:12 [amd64])\n"
        "Inst openssh-server (1:9.2p1-2 Debian:12 [amd64])\n"
        "Conf libwrap0 (7.6 Debian:12 [amd64])\n"
    )
    tree = root.fetch(silent, tmp_path / "cache")
    assert tree.name == "openssh-server"
    assert (tree / "usr/sbin/sshd").read_bytes() == b"the sshd"
    assert (tree / "usr/lib/libwrap.so.0").read_bytes() == b"a library"
    assert (tree / "usr/bin/odd").exists()
    assert sorted(path.name for path in tree.iterdir()) == ["packages.json", "usr"]
    (archive.home / "apt-get").unlink()
    assert root.fetch(silent, tmp_path / "cache") == tree


def test_machine_that_has_everything_gets_an_empty_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "PACKAGES", {"openssh-server": lambda: True})
    assert list(root.fetch(silent, tmp_path).iterdir()) == []


def test_tree_has_precedence_over_the_machine(tmp_path: Path) -> None:
    own = tmp_path / "usr/bin/busybox"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"the tree's")
    own.chmod(0o755)
    assert root.busybox(tmp_path) == b"the tree's"

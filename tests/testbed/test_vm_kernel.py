"""Kernels in the cache: which is found, and which modules come in which order."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm import kernel as vm_packages
from tcpf_lab.testbed.vm.kernel import GuestKernel

RELEASE = "6.12.9-amd64"


@pytest.fixture
def kernel(tmp_path: Path) -> GuestKernel:
    """Return a kernel whose modules are names only."""
    kernel = GuestKernel(tmp_path / "kernels" / RELEASE, RELEASE)
    kernel.modules.mkdir(parents=True)
    (kernel.modules / "modules.dep").write_text(
        "kernel/fs/9p/9p.ko.xz: kernel/net/9pnet.ko.xz kernel/fs/netfs.ko.xz\n"
        "kernel/net/9pnet.ko.xz: kernel/fs/netfs.ko.xz\n"
        "kernel/net/9pnet-virtio.ko.xz: kernel/net/9pnet.ko.xz kernel/fs/netfs.ko.xz\n"
        "kernel/fs/netfs.ko.xz:\n"
    )
    (kernel.modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (kernel.directory / vm_packages.FACTS).write_text("{}")
    return kernel


def test_modules_come_after_those_that_they_need(kernel: GuestKernel) -> None:
    files = kernel.module_files("virtio_pci", "9p", "9pnet_virtio")
    names = [vm_kernel.module_name(file) for file in files]
    assert names == ["netfs", "9pnet", "9p", "9pnet_virtio"]


def test_missing_module_is_named(kernel: GuestKernel) -> None:
    with pytest.raises(TestbedError, match=f"Linux {RELEASE} has no module 'zfs'"):
        kernel.module_files("9p", "zfs")


def test_compressed_modules_are_unpacked(tmp_path: Path) -> None:
    plain, packed, odd = tmp_path / "a.ko", tmp_path / "b.ko.xz", tmp_path / "c.ko.gz"
    plain.write_bytes(b"a module")
    packed.write_bytes(lzma.compress(b"a module"))
    odd.touch()
    assert vm_kernel.module_content(plain) == vm_kernel.module_content(packed) == b"a module"
    with pytest.raises(TestbedError, match="unknown way"):
        vm_kernel.module_content(odd)


def test_build_is_read_from_the_image(kernel: GuestKernel) -> None:
    text = f"{RELEASE} (who@where) #1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2026-01-02)".encode()
    head = bytearray(0x3000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x2A00).to_bytes(2, "little")
    head[0x2C00 : 0x2C00 + len(text)] = text
    kernel.image.parent.mkdir()
    kernel.image.write_bytes(head)
    assert kernel.build == "#1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2026-01-02)"
    kernel.image.write_bytes(b"MZ" + bytes(0x3000))
    assert kernel.build is None


def test_cached_kernel_is_found_by_its_series(kernel: GuestKernel, tmp_path: Path) -> None:
    assert vm_kernel.find("6.12", tmp_path) == kernel
    assert vm_kernel.find("6.1", tmp_path) is None
    no_work = vm_kernel.fetch("6.12", lambda *_: pytest.fail("there is nothing to do"), tmp_path)
    assert no_work == kernel


def test_unknown_series_is_refused() -> None:
    with pytest.raises(RequestError, match=r"'5\.10'; allowed: 6\.12, 6\.1"):
        vm_kernel.fetch("5.10", lambda *_: None)

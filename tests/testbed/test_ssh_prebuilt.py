"""Modules built here for a kernel that runs elsewhere, from packages unpacked anywhere."""

from __future__ import annotations

import shutil

import pytest

from tcpf_lab.base.errors import KernelBuildError
from tcpf_lab.testbed.ssh import builds
from tcpf_lab.testbed.vm import kernel as vm_kernel

RELEASE, MACHINE = "6.12.0-test", "x86_64"
KERNEL = (RELEASE, "#1 SMP Debian 6.12.0-1", MACHINE)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tcpf-lab/hosts"


def quietly(_phase, _share):
    pass


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_headers_are_used_where_they_are_unpacked(cache, tmp_path):
    root = tmp_path / "root"
    for name in ("common", RELEASE):
        (root / f"usr/src/linux-headers-{name}").mkdir(parents=True)
    (root / f"usr/src/linux-headers-{RELEASE}/Makefile").write_text(
        "include /usr/src/linux-headers-common/Makefile\n"
    )
    (root / "usr/src/linux-headers-common/Makefile").write_text(
        "modules:\n\techo made > $(M)/sch_rio.ko\n\techo >> count\n"
    )
    for _ in range(2):
        builds.build_modules(root, KERNEL, quietly)
    (entry,) = cache.iterdir()
    assert entry.name == builds.key(builds.sources(), *KERNEL)
    assert (entry / "sch_rio.ko").read_text() == "made\n"
    assert (entry / "tc/q_rio.so").exists()
    assert (root / f"usr/src/linux-headers-{RELEASE}/count").read_text() == "\n" * 2, "built once"


def test_missing_headers_are_named(cache, tmp_path):
    with pytest.raises(KernelBuildError, match="no headers of that kernel"):
        builds.build_modules(tmp_path, KERNEL, quietly)


@pytest.mark.nightly
@pytest.mark.parametrize("series", vm_kernel.SERIES)
def test_modules_are_of_the_guests_kernel(series, monkeypatch, tmp_path):
    kernel = vm_kernel.fetch(series, quietly)
    assert kernel.build.startswith("#1 SMP PREEMPT_DYNAMIC Debian ")
    monkeypatch.setattr(builds, "cache", lambda: tmp_path)
    builds.build_modules(kernel.directory, (kernel.release, "#1", MACHINE), quietly)
    (entry,) = tmp_path.iterdir()
    for name in ("sch_rio", "sch_frio", "act_tcpf", "act_token", "csma"):
        assert f"vermagic={kernel.release} ".encode() in (entry / f"{name}.ko").read_bytes()

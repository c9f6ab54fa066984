"""Modules and plugins for hosts: built once, kept, sent, taken from DKMS."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fake_agent import FakeHost

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, TestbedError
from tcpf_lab.testbed.ssh import builds, hosts
from tcpf_lab.testbed.vm import kernel as vm_kernel

MACHINE = os.uname().machine
KERNEL = ("6.12.0-test", "#1 SMP Debian 6.12.0-1", MACHINE)
#: Stands for the build directory of a kernel: `make M=DIR modules` there "compiles".
KERNEL_MAKEFILE = """
modules:
\tfor file in $(M)/*.c; do name=$$(basename $$file .c); echo $$name > $(M)/$$name.ko; done
\tcase $(M) in */sched) echo built >> $(M)/../../../../count;; esac
"""


@pytest.fixture
def host():
    return FakeHost("alpha")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tcpf-lab/hosts"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Give the host a kernel's build directory, and let plugins be made of nothing."""
    tree = tmp_path / "kernel"
    tree.mkdir()
    (tree / "Makefile").write_text(KERNEL_MAKEFILE)
    build = builds._BUILD.replace("/lib/modules/$(uname -r)/build", str(tree))
    monkeypatch.setattr(builds, "_BUILD", build)
    return tree


@pytest.fixture
def state(tmp_path):
    return str(tmp_path / "state")


def provide(host, state):
    return builds.provide_modules(host, ("sch_rio",), KERNEL, state, "five")


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_modules_are_built_on_the_host_once_and_kept_here(host, kernel, state, cache, tmp_path):
    products = provide(host, state)
    key = builds.key(builds.sources(), *KERNEL)
    assert products.modules == f"{state}/modules/{key}"
    assert products.plugins == f"{state}/modules/{key}/tc"
    assert set(products.hashes) == {
        *("sch_rio", "sch_frio", "sch_delivery", "act_tcpf", "act_token", "csma"),
        *("q_rio", "q_frio", "q_delivery", "q_dualpi2", "m_tcpf", "m_token", "link_csma"),
    }
    assert [each.name for each in Path(state, "modules").iterdir()] == [key], "no workshop is left"
    assert (cache / key / "sch_rio.ko").read_text() == "sch_rio\n"
    assert provide(host, state) == products
    assert provide(host, f"{state}-of-another-host").hashes == products.hashes
    assert (tmp_path / "count").read_text() == "built\n"


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
@pytest.mark.parametrize("file", ["sch_rio.ko", "tc/q_rio.so"])
def test_product_that_was_changed_on_the_host_is_sent_again(host, kernel, state, tmp_path, file):
    products = provide(host, state)
    product = Path(products.modules, file)
    good = product.read_bytes()
    product.write_bytes(b"something else")
    (product.parent / "more.so").write_bytes(b"nobody knows")
    assert provide(host, state) == products
    assert product.read_bytes() == good
    assert not (product.parent / "more.so").exists()
    assert (tmp_path / "count").read_text() == "built\n"


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_product_of_which_nothing_is_kept_here_is_built_again(host, kernel, state, cache, tmp_path):
    products = provide(host, state)
    shutil.rmtree(cache)
    assert provide(host, state) == products
    assert (tmp_path / "count").read_text() == "built\nbuilt\n"


@pytest.mark.full
def test_kernel_without_headers_is_named_with_the_cure(host, kernel, state):
    (kernel / "Makefile").unlink()
    with pytest.raises(TestbedError, match="modules cannot be built") as caught:
        provide(host, state)
    assert "linux-headers-$(uname -r)" in caught.value.hint
    assert not any(Path(state, "modules").iterdir())


@pytest.mark.full
def test_build_that_fails_shows_what_the_compiler_said(host, kernel, state):
    (kernel / "Makefile").write_text(
        "modules:\n\t@echo 'sch_rio.c:7: error: no such thing'; false\n"
    )
    with pytest.raises(TestbedError, match=r"sch_rio\.c:7: error: no such thing") as caught:
        provide(host, state)
    assert caught.value.where == "host alpha"


@pytest.mark.full
def test_key_is_of_sources_and_kernel():
    files = builds.sources()
    mine = builds.key(files, *KERNEL)
    assert mine == builds.key(dict(reversed(files.items())), *KERNEL)
    assert mine != builds.key(files, "6.1.0", *KERNEL[1:])
    assert mine != builds.key(files, KERNEL[0], "#2 SMP Debian 6.12.0-1", MACHINE)
    assert mine != builds.key({**files, "sched/new.c": b""}, *KERNEL)
    assert "sched/sch_rio.c" in files
    assert not any(name.endswith((".o", ".ko")) for name in files)


@pytest.mark.full
def test_module_without_sources_is_missing():
    files = builds.sources()
    assert builds.missing(("sch_rio", "csma", "sch_nonsense"), files) == ("sch_nonsense",)


def dkms(monkeypatch, reply):
    real = hosts.run

    def run(host, argv, *rest, **words):
        if argv[2:3] == (builds._DKMS,):
            return hosts.Reply(0, reply.encode(), "")
        return real(host, argv, *rest, **words)

    monkeypatch.setattr(builds, "run", run)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_modules_of_dkms_are_used_if_they_are_of_the_same_sources(host, state, monkeypatch):
    root = shipped.directory("kernel")
    sums = os.popen(
        f"cd {root} && find sched drivers include -name '*.[ch]' -exec sha256sum {{}} +"
    ).read()
    dkms(monkeypatch, sums)
    products = provide(host, state)
    assert products.modules is None
    plugins = ("q_rio", "q_frio", "q_delivery", "q_dualpi2", "m_tcpf", "m_token", "link_csma")
    assert set(products.hashes) == set(plugins)


@pytest.mark.full
def test_modules_of_dkms_of_other_sources_are_not_used(host, kernel, state, monkeypatch):
    dkms(monkeypatch, "0123  sched/sch_rio.c\n")
    (kernel / "Makefile").unlink()
    with pytest.raises(TestbedError, match="modules cannot be built"):
        provide(host, state)


# Modules built here for a kernel that runs elsewhere, from packages unpacked anywhere.

RELEASE, ELSEWHERE = "6.12.0-test", "x86_64"
ITS_KERNEL = (RELEASE, "#1 SMP Debian 6.12.0-1", ELSEWHERE)


@pytest.fixture
def builds_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tcpf-lab/hosts"


def quietly(_phase, _share):
    pass


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_headers_are_used_where_they_are_unpacked(builds_cache, tmp_path):
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
        builds.build_modules(root, ITS_KERNEL, quietly)
    (entry,) = builds_cache.iterdir()
    assert entry.name == builds.key(builds.sources(), *ITS_KERNEL)
    assert (entry / "sch_rio.ko").read_text() == "made\n"
    assert (entry / "tc/q_rio.so").exists()
    assert (root / f"usr/src/linux-headers-{RELEASE}/count").read_text() == "\n" * 2, "built once"


def test_missing_headers_are_named(builds_cache, tmp_path):
    with pytest.raises(KernelBuildError, match="no headers for this kernel"):
        builds.build_modules(tmp_path, ITS_KERNEL, quietly)


@pytest.mark.nightly
@pytest.mark.parametrize("series", vm_kernel.SERIES)
def test_modules_are_of_the_guests_kernel(series, monkeypatch, tmp_path):
    kernel = vm_kernel.fetch(series, quietly)
    assert kernel.build.startswith("#1 SMP PREEMPT_DYNAMIC Debian ")
    monkeypatch.setattr(builds, "cache", lambda: tmp_path / "built")
    builds.build_modules(kernel.directory, (kernel.release, "#1", ELSEWHERE), quietly)
    (entry,) = (tmp_path / "built").iterdir()
    for name in ("sch_rio", "sch_frio", "sch_delivery", "act_tcpf", "act_token", "csma"):
        assert f"vermagic={kernel.release} ".encode() in (entry / f"{name}.ko").read_bytes()

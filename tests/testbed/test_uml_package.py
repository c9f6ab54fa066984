"""A kernel on its way to a machine that has no compiler."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tcpf_lab.results.storage import ArchiveError
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import package as uml_package
from tcpf_lab.testbed.uml.kernel import Kernel
from tcpf_lab.testbed.uml.package import Package


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Return an entry of the cache as a build leaves it, with small files for large ones."""
    entry = tmp_path / "cache" / "kernel" / "0123456789abcdef"
    for name in ("modules", "tc", "tree/include"):
        (entry / name).mkdir(parents=True)
    for name in ("linux", "tcpf-guest", "tcpf-traffic"):
        (entry / name).write_bytes(name.encode() * 100)
        (entry / name).chmod(0o755)
    (entry / "modules" / "sch_rio.ko").write_bytes(b"module")
    (entry / "tc" / "q_rio.so").write_bytes(b"plugin")
    (entry / "tree" / "include" / "large.h").write_bytes(b"source")
    (entry / "build.log").write_text("make\n")
    (entry / "kernel.json").write_text(json.dumps({"recipe": "x"}))
    return Kernel(entry / "linux", entry.name, "m", "standard", "6.12", "s", (), {}, {}, {})


@pytest.fixture
def received(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "received"


def test_what_runs_a_kernel_arrives_and_what_builds_modules_does_not(
    kernel: Kernel, received: Path
) -> None:
    package = uml_package.pack(kernel)
    entry = uml_package.receive(package, received)
    assert {str(p.relative_to(entry)) for p in entry.rglob("*") if p.is_file()} == {
        "linux",
        "tcpf-guest",
        "tcpf-traffic",
        "modules/sch_rio.ko",
        "tc/q_rio.so",
        "kernel.json",
    }
    there = uml_package.at(kernel, entry)
    assert there.path.stat().st_mode & 0o111 == 0o111
    assert there.path.read_bytes() == kernel.path.read_bytes()
    assert replace(there, path=kernel.path) == kernel
    assert uml_package.received(package.digest, received) == entry
    assert [path.name for path in received.iterdir()] == [package.digest]


def test_a_received_kernel_is_not_taken_for_one_that_was_built(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    uml_package.receive(uml_package.pack(kernel))
    assert uml_package.received_directory().is_dir()
    assert list(uml_kernel.cache_directory().glob("*/kernel.json")) == []


def test_other_content_is_another_package(kernel: Kernel) -> None:
    before = uml_package.pack(kernel).digest
    (kernel.directory / "modules" / "sch_rio.ko").write_bytes(b"another")
    after = uml_package.pack(kernel).digest
    assert before != after
    (kernel.directory / "tcpf-guest").chmod(0o644)
    assert uml_package.pack(kernel).digest not in (before, after)


def test_the_log_of_the_build_is_no_part_of_it(kernel: Kernel) -> None:
    before = uml_package.pack(kernel)
    (kernel.directory / "build.log").write_text("on another day\n")
    assert uml_package.pack(kernel) == before


@pytest.mark.parametrize("damage", ["content", "missing", "mode"])
def test_a_damaged_package_is_replaced(kernel: Kernel, received: Path, damage: str) -> None:
    package = uml_package.pack(kernel)
    entry = uml_package.receive(package, received)
    if damage == "content":
        (entry / "linux").write_bytes(b"half")
    elif damage == "missing":
        (entry / "tc" / "q_rio.so").unlink()
    else:
        (entry / "linux").chmod(0o644)
    assert uml_package.received(package.digest, received) is None
    uml_package.receive(package, received)
    assert uml_package.received(package.digest, received) == entry


def test_content_that_is_not_what_it_is_said_to_be_is_refused(
    kernel: Kernel, received: Path
) -> None:
    package = uml_package.pack(kernel)
    with pytest.raises(ArchiveError, match="arrived damaged"):
        uml_package.receive(Package("0" * 32, package.packed), received)
    with pytest.raises(ArchiveError, match="damaged"):
        uml_package.receive(Package(package.digest, package.packed[:-9]), received)
    assert list(received.iterdir()) == []


def test_several_may_receive_it_at_a_time(kernel: Kernel, received: Path) -> None:
    package = uml_package.pack(kernel)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: uml_package.receive(package, received), range(16)))
    assert found == {received / package.digest}
    assert [path.name for path in received.iterdir()] == [package.digest]

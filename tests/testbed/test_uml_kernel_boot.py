"""What the project's patches promise, asked of the kernel itself."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from test_guest_process import ended

from tcpf_lab.results.storage import ArchiveError
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import package as uml_package
from tcpf_lab.testbed.uml.kernel import Kernel
from tcpf_lab.testbed.uml.package import Package

SCRIPT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec > /dev/console 2>&1
mount -t proc proc /proc
mount -t devtmpfs dev /dev
echo BEGIN
echo $(od -An -N16 -tx1 /dev/urandom)
cat /proc/sys/kernel/random/boot_id /proc/sys/net/ipv4/tcp_mem
echo $(od -An -tx1 -N16 -j0 /dev/random)
case "$(cat /proc/cmdline)" in *random_seed*) echo the seed is on the command line ;; esac
head -n 2 /proc/meminfo
cat /proc/uptime
echo END
{guest} poweroff
"""


@pytest.fixture(scope="module")
def kernel() -> uml_kernel.Kernel:
    found = uml_kernel.find()
    assert found, "run `tcpf-lab kernel build` first"
    return found


def boot(
    kernel: uml_kernel.Kernel, directory: Path, *words: str, environment: dict[str, str]
) -> list[str]:
    """Boot in ``directory`` and return what the guest's script printed."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "init.sh"
    script.write_text(SCRIPT.format(guest=kernel.directory / "tcpf-guest"))
    script.chmod(0o755)
    command = [
        *(str(kernel.path), "mem=256M", "time-travel=inf-cpu", "time-travel-start=0"),
        *("rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
        *("con=null", "con0=null,fd:1", "ssl=null", f"init={script}"),
        *words,
    ]
    reply = subprocess.run(
        command,
        cwd=directory,
        env={"HOME": str(directory), "PATH": os.defpath, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    text = reply.stdout.decode("utf-8", "replace").replace("\r", "")
    assert "END" in text, text + reply.stderr.decode("utf-8", "replace")
    return text.partition("BEGIN\n")[2].partition("END")[0].splitlines()


@pytest.mark.uml
@pytest.mark.full
def test_guest_depends_on_nothing_but_the_seed(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path / "a", "random_seed=7", environment={})
    deep = tmp_path / "a-much-longer-name" / "and" / "deeper"
    other = {"HOME": "/tmp", "LANG": "de_DE.UTF-8", "FILL": "x" * 50_000}
    second = boot(kernel, deep, "random_seed=7", "some.unknown=parameter", environment=other)
    assert [line for line in first if not line.startswith("MemFree")] == [
        line for line in second if not line.startswith("MemFree")
    ]


@pytest.mark.uml
@pytest.mark.full
def test_seeds_give_different_randomness(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path, "random_seed=1", environment={})
    second = boot(kernel, tmp_path, "random_seed=2", environment={})
    differing = [number for number in range(len(first)) if first[number] != second[number]]
    assert {0, 1, 3} <= set(differing)


@pytest.mark.uml
@pytest.mark.full
def test_seed_is_not_on_the_guests_command_line(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    lines = boot(kernel, tmp_path, "random_seed=1", environment={})
    assert "the seed is on the command line" not in lines


@pytest.mark.uml
@pytest.mark.full
def test_without_a_seed_randomness_is_the_hosts(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path, environment={})
    second = boot(kernel, tmp_path, environment={})
    assert first[0] != second[0]


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("seed", ["", "x", "1x", "-1", "99999999999999999999"])
def test_wrong_seed_is_refused_before_boot(kernel: uml_kernel.Kernel, seed: str) -> None:
    reply = subprocess.run(
        [kernel.path, f"random_seed={seed}"], capture_output=True, text=True, check=False
    )
    assert reply.returncode == 1
    assert f"random_seed={seed}: not a number from 0 to 2^64 - 1" in reply.stderr


@pytest.mark.uml
@pytest.mark.full
def test_module_is_built_against_what_was_kept(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    (tmp_path / "toy.c").write_text(
        "#include <linux/module.h>\n#include <net/pkt_sched.h>\n"
        'MODULE_DESCRIPTION("nothing");\nMODULE_LICENSE("GPL");\n'
    )
    (tmp_path / "Makefile").write_text("obj-m := toy.o\n")
    command = ["make", "-C", str(kernel.tree), "ARCH=um", f"M={tmp_path}", "modules"]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "toy.ko").exists()


@pytest.mark.uml
@pytest.mark.full
def test_no_process_survives_a_kernel_killed_in_its_first_milliseconds(
    kernel: uml_kernel.Kernel, tmp_path: Path
) -> None:
    """It tries ptrace with children then, one of which waits for it, stopped."""
    killed = 0
    for _ in range(1000):  # on a busy machine most have gone on before anyone looks
        guest = subprocess.Popen(
            [kernel.path, "mem=64M", "quiet", "con=null", "con0=null", "random_seed=1"],
            env={"HOME": str(tmp_path), "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        children = Path(f"/proc/{guest.pid}/task/{guest.pid}/children")
        found: list[str] = []
        while not found and guest.poll() is None:
            found = children.read_text().split()
        guest.kill()
        guest.wait()
        assert all(ended(int(child), within_s=60) for child in found)
        killed += bool(found)
        if killed == 20:
            return
    pytest.fail(f"only {killed} were killed in time")


# A kernel on its way to a machine that has no compiler.


@pytest.fixture
def kept(tmp_path: Path) -> Kernel:
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
    kept: Kernel, received: Path
) -> None:
    package = uml_package.pack(kept)
    entry = uml_package.receive(package, received)
    assert {str(p.relative_to(entry)) for p in entry.rglob("*") if p.is_file()} == {
        "linux",
        "tcpf-guest",
        "tcpf-traffic",
        "modules/sch_rio.ko",
        "tc/q_rio.so",
        "kernel.json",
    }
    there = uml_package.at(kept, entry)
    assert there.path.stat().st_mode & 0o111 == 0o111
    assert there.path.read_bytes() == kept.path.read_bytes()
    assert replace(there, path=kept.path) == kept
    assert uml_package.received(package.digest, received) == entry
    assert [path.name for path in received.iterdir()] == [package.digest]


def test_a_received_kernel_is_not_taken_for_one_that_was_built(
    kept: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    uml_package.receive(uml_package.pack(kept))
    assert uml_package.received_directory().is_dir()
    assert list(uml_kernel.cache_directory().glob("*/kernel.json")) == []


def test_other_content_is_another_package(kept: Kernel) -> None:
    before = uml_package.pack(kept).digest
    (kept.directory / "modules" / "sch_rio.ko").write_bytes(b"another")
    after = uml_package.pack(kept).digest
    assert before != after
    (kept.directory / "tcpf-guest").chmod(0o644)
    assert uml_package.pack(kept).digest not in (before, after)


def test_the_log_of_the_build_is_no_part_of_it(kept: Kernel) -> None:
    before = uml_package.pack(kept)
    (kept.directory / "build.log").write_text("on another day\n")
    assert uml_package.pack(kept) == before


@pytest.mark.parametrize("damage", ["content", "missing", "mode"])
def test_a_damaged_package_is_replaced(kept: Kernel, received: Path, damage: str) -> None:
    package = uml_package.pack(kept)
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


def test_content_that_is_not_what_it_is_said_to_be_is_refused(kept: Kernel, received: Path) -> None:
    package = uml_package.pack(kept)
    with pytest.raises(ArchiveError, match="is corrupted"):
        uml_package.receive(Package("0" * 32, package.packed), received)
    with pytest.raises(ArchiveError, match="damaged"):
        uml_package.receive(Package(package.digest, package.packed[:-9]), received)
    assert list(received.iterdir()) == []


def test_several_may_receive_it_at_a_time(kept: Kernel, received: Path) -> None:
    package = uml_package.pack(kept)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: uml_package.receive(package, received), range(16)))
    assert found == {received / package.digest}
    assert [path.name for path in received.iterdir()] == [package.digest]

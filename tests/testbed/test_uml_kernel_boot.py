"""What the project's patches promise, asked of the kernel itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from test_guest_process import ended

from tcpf_lab.testbed.uml import kernel as uml_kernel

pytestmark = [pytest.mark.uml, pytest.mark.full]

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


def test_guest_depends_on_nothing_but_the_seed(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path / "a", "random_seed=7", environment={})
    deep = tmp_path / "a-much-longer-name" / "and" / "deeper"
    other = {"HOME": "/tmp", "LANG": "de_DE.UTF-8", "FILL": "x" * 50_000}
    second = boot(kernel, deep, "random_seed=7", "some.unknown=parameter", environment=other)
    assert [line for line in first if not line.startswith("MemFree")] == [
        line for line in second if not line.startswith("MemFree")
    ]


def test_seeds_give_different_randomness(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path, "random_seed=1", environment={})
    second = boot(kernel, tmp_path, "random_seed=2", environment={})
    differing = [number for number in range(len(first)) if first[number] != second[number]]
    assert {0, 1, 3} <= set(differing)


def test_seed_is_not_on_the_guests_command_line(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    lines = boot(kernel, tmp_path, "random_seed=1", environment={})
    assert "the seed is on the command line" not in lines


def test_without_a_seed_randomness_is_the_hosts(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    first = boot(kernel, tmp_path, environment={})
    second = boot(kernel, tmp_path, environment={})
    assert first[0] != second[0]


@pytest.mark.parametrize("seed", ["", "x", "1x", "-1", "99999999999999999999"])
def test_wrong_seed_is_refused_before_boot(kernel: uml_kernel.Kernel, seed: str) -> None:
    reply = subprocess.run(
        [kernel.path, f"random_seed={seed}"], capture_output=True, text=True, check=False
    )
    assert reply.returncode == 1
    assert f"random_seed={seed}: not a number from 0 to 2^64 - 1" in reply.stderr


def test_module_is_built_against_what_was_kept(kernel: uml_kernel.Kernel, tmp_path: Path) -> None:
    (tmp_path / "toy.c").write_text(
        "#include <linux/module.h>\n#include <net/pkt_sched.h>\n"
        'MODULE_DESCRIPTION("nothing");\nMODULE_LICENSE("GPL");\n'
    )
    (tmp_path / "Makefile").write_text("obj-m := toy.o\n")
    command = ["make", "-C", str(kernel.tree), "ARCH=um", f"M={tmp_path}", "modules"]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "toy.ko").exists()


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

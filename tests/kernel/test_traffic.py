"""The traffic generator, on this machine's kernel and on one made to look older."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.testbed.uml.recipe import TRAFFIC_PROGRAMS

KERNEL = Path(tcpf_lab.__file__).parent.parent / "kernel"
SOURCES = tuple(name for name in TRAFFIC_PROGRAMS["tcpf-traffic"] if name.endswith(".c"))
#: Gives as much of struct tcp_info as Linux 6.1 has: up to tcpi_snd_wnd.
OLDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    int (*real)(int, int, int, void *, socklen_t *) = dlsym(RTLD_NEXT, "getsockopt");

    if (level == IPPROTO_TCP && name == TCP_INFO && *length > 232)
        *length = 232;
    return real(fd, level, name, value, length);
}
"""
EPOCH = 1_600_000_000


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("traffic")
    (place / "older.c").write_text(OLDER)
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread"]
    sources = [str(KERNEL / name) for name in SOURCES]
    subprocess.run([*words, "-o", str(place / "tcpf-traffic"), *sources], check=True)
    shared = ["-shared", "-fPIC", "-o", str(place / "older.so"), str(place / "older.c"), "-ldl"]
    subprocess.run([*words, *shared], check=True)
    return place


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def samples(programs: Path, environment: dict[str, str]) -> list[dict[str, object]]:
    """Let two flows send for a moment; give what the senders say at its end."""
    port, source = free_port(), free_port()
    program = str(programs / "tcpf-traffic")
    common = ("--port", str(port), "--source-port", str(min(source, 60000)), "--sample", "end=1")
    receiver = subprocess.Popen(
        [program, "recv", "--listen", "127.0.0.1", "--flows", "2", *common],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    assert "listening" in receiver.stdout.readline()
    send = [program, "send", "--connect", "127.0.0.1", "--start", "0,0.01", *common]
    done = subprocess.run(send, env=environment, capture_output=True, text=True, timeout=30)
    receiver.communicate(timeout=30)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_older_kernel_tells_no_number_that_it_does_not_have(programs):
    new, old = samples(programs, {}), samples(programs, {"LD_PRELOAD": str(programs / "older.so")})
    assert [row["flow"] for row in old] == [0, 1]
    counts = {"total_rto", "total_rto_recoveries", "total_rto_time_ms"}
    # Whichever end is first may leave the other with an error.
    more = [set(a) - set(b) - {"error"} for a, b in zip(new, old, strict=True)]
    assert more == [counts, counts]
    assert all(int(str(row["bytes_acked"])) > 0 for row in old)


def test_sample_says_which_epoch_it_counts_from(programs):
    rows = samples(programs, {})
    assert len({row["epoch_ns"] for row in rows}) == 1
    assert 0.3e9 <= int(str(rows[0]["time_ns"])) < 3e9

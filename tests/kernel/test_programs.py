"""The programs that send in a guest, on this machine's kernel: generator, source, users."""

from __future__ import annotations

import errno
import itertools
import json
import math
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpf_lab
from tcpf_lab.metrics.transfers import (
    FAILED,
    FINISHED,
    HEAD,
    MAGIC,
    RECORD,
    THINKING,
    UNDERWAY,
)
from tcpf_lab.testbed.uml.recipe import TRAFFIC_PROGRAMS

KERNEL = Path(tcpf_lab.__file__).parent.parent / "kernel"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread")
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


def compiled(place: Path, name: str, *flags: str) -> Path:
    """Compile one of the guest's programs for this machine."""
    sources = [KERNEL / part for part in TRAFFIC_PROGRAMS[name] if part.endswith(".c")]
    subprocess.run(["gcc", *FLAGS, *flags, "-o", place / name, *sources], check=True)
    return place / name


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("traffic")
    compiled(place, "tcpf-traffic")
    (place / "older.c").write_text(OLDER)
    shared = ["-shared", "-fPIC", "-o", place / "older.so", place / "older.c", "-ldl"]
    subprocess.run(["gcc", *FLAGS, *shared], check=True)
    return place


@pytest.fixture(scope="module")
def source_program(tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("source")
    return str(compiled(place, "tcpf-source", "-fsanitize=address,undefined"))


@pytest.fixture(scope="module")
def users_program(tmp_path_factory) -> str:
    return str(compiled(tmp_path_factory.mktemp("users"), "tcpf-users"))


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


# The source of background packets: its schedule, and that it keeps to it.

RATE = 40_000_000
#: A packet of 1500 bytes with its frame's header at that rate, ns.
PACKET_NS = 302_800
ON_NS = 4_000_000
#: Makes the source a share of 0.3.
GAP_NS = 9_333_333


def onoff(on: int = ON_NS, gap: int = GAP_NS) -> tuple[str, ...]:
    return ("--burst", str(on), "--gap", str(gap), "--rate", str(RATE))


def said(source_program: str, *words: str) -> list[dict[str, int]]:
    reply = subprocess.run([source_program, *words], capture_output=True, text=True, timeout=60)
    assert (reply.returncode, reply.stderr) == (0, "")
    return [json.loads(line) for line in reply.stdout.splitlines()]


def schedule(
    source_program: str, *words: str, seed: int = 1, name: str = "ef", until: str = "600"
) -> list[dict[str, int]]:
    common = ("--print-schedule", "--seed", str(seed), "--name", name, "--until", until)
    return said(source_program, *common, *words)


def test_schedule_depends_on_seed_and_name_alone(source_program):
    first = schedule(source_program, *onoff(), until="5")
    assert schedule(source_program, *onoff(), until="5") == first
    assert schedule(source_program, *onoff(), seed=2, until="5") != first
    assert schedule(source_program, *onoff(), name="udp", until="5") != first
    longer = schedule(source_program, *onoff(), until="6")
    assert longer[: len(first) - 1] == first[:-1]


def test_longer_bursts_are_the_same_draws_on_another_scale(source_program):
    """Cases that differ in the mean alone are compared with the same random numbers."""
    short = schedule(source_program, *onoff(), until="10")
    long = schedule(source_program, *onoff(10 * ON_NS, 10 * GAP_NS), until="100")
    pairs = list(zip(short, long, strict=False))[:600]
    assert len(pairs) == 600
    assert max(abs(10 * a["at_ns"] - b["at_ns"]) for a, b in pairs) < 10 * 2 * len(pairs)


@pytest.mark.parametrize("on", [400_000, ON_NS, 400_000_000])
def test_share_is_what_was_asked_for(source_program, on):
    seconds = 100 * on * 10 / 3 / 1e9 * 100
    gap = on * 7 // 3
    found = schedule(source_program, *onoff(on, gap), until=f"{seconds:.3f}")
    share = sum(row["packets"] for row in found) * PACKET_NS / (seconds * 1e9)
    # 10^4 bursts of a standard deviation as large as their mean, and gaps of the same.
    assert share == pytest.approx(0.3, abs=4 * 0.3 * 0.7 * (2 / 1e4) ** 0.5)


def test_lengths_and_gaps_are_exponential(source_program):
    found = schedule(source_program, *onoff())
    packets = sorted(row["packets"] for row in found)
    n = len(packets)
    mean = ON_NS / PACKET_NS
    assert n == pytest.approx(600e9 / (ON_NS + GAP_NS), rel=0.02)
    assert sum(packets) / n == pytest.approx(mean, rel=0.02)
    # floor(X + U) of an exponential X of mean m is 0 with probability 1 - m (1 - exp(-1/m)).
    none = 1 - mean * (1 - math.exp(-1 / mean))
    assert packets.count(0) / n == pytest.approx(none, abs=4 * (none / n) ** 0.5)
    for share in (0.5, 0.9, 0.99):
        expected = -mean * math.log(1 - share)
        assert packets[int(share * n)] == pytest.approx(expected, rel=0.05, abs=1)
    between = [b["at_ns"] - a["at_ns"] for a, b in itertools.pairwise(found)]
    cycle = sum(between) / len(between)
    variance = sum((x - cycle) ** 2 for x in between) / len(between)
    assert variance == pytest.approx(ON_NS**2 + GAP_NS**2, rel=0.05)


def test_lengths_do_not_depend_on_those_before_nor_on_another_source(source_program):
    found = [row["packets"] for row in schedule(source_program, *onoff())]
    other = [row["packets"] for row in schedule(source_program, *onoff(), name="udp")]
    bound = 4 / len(found) ** 0.5
    assert abs(correlation(found[:-1], found[1:])) < bound
    assert abs(correlation(found, other)) < bound


def correlation(a: list[int], b: list[int]) -> float:
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    mean_a, mean_b = sum(a) / n, sum(b) / n
    covariance = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    spread_a = sum((x - mean_a) ** 2 for x in a)
    spread_b = sum((y - mean_b) ** 2 for y in b)
    return float(covariance / (spread_a * spread_b) ** 0.5)


def test_last_burst_ends_with_the_source(source_program):
    ends = [
        found[-1]["at_ns"] + (found[-1]["packets"] - 1) * PACKET_NS
        for seed in range(40)
        if (
            found := schedule(source_program, *onoff(400_000_000, 40_000_000), seed=seed, until="3")
        )
    ]
    assert max(ends) < 3e9
    assert max(ends) > 2.9e9, "some burst goes on at the end"


def test_period_begins_anywhere_and_is_kept(source_program):
    found = [
        schedule(source_program, "--every", "1009333", seed=seed, until="0.1") for seed in range(20)
    ]
    firsts = {rows[0]["at_ns"] for rows in found}
    assert len(firsts) == 20
    assert max(firsts) < 1_009_333
    for rows in found:
        assert {b["at_ns"] - a["at_ns"] for a, b in itertools.pairwise(rows)} == {1_009_333}
        assert {row["packets"] for row in rows} == {1}


@pytest.mark.parametrize("words", [onoff(ON_NS, ON_NS), ("--every", "2000000")])
def test_what_is_due_is_sent_and_counted(source_program, words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.2", 0))
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        port = str(sink.getsockname()[1])
        common = ("--seed", "3", "--name", "ef", "--packet", "300", "--until", "0.2")
        rows = said(
            source_program,
            *(*common, *words, "--to", "127.0.0.2", "--port", port, "--tos", "184"),
            *("--sample", "start=0.05,end=0.2"),
        )
        sink.setblocking(False)
        received = []
        while True:
            try:
                received.append(len(sink.recv(2000)))
            except BlockingIOError:
                break
    due = said(source_program, "--print-schedule", *common, *words)
    total = sum(row["packets"] for row in due)
    assert total > 20
    assert [row["packets"] for row in rows[1:]] == [total, total]
    assert set(received) == {300 - 28}
    assert len(received) == total
    packet = 314 * 8e9 / RATE
    before = sum(
        min(row["packets"], -(-(50_000_000 - row["at_ns"]) // packet) if len(words) > 2 else 1)
        for row in due
        if row["at_ns"] < 50_000_000
    )
    assert rows[0]["packets"] == before
    assert rows[2]["bytes"] == 300 * total
    assert rows[2]["errors"] == 0
    assert rows[2]["event"] == "end"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--until is missing"),
        (("--until", "1"), "needs --every, or --burst"),
        (("--until", "1", "--every", "1000", "--burst", "7"), "needs --every, or --burst"),
        (("--until", "1", "--burst", "1000"), "--burst needs --gap and --rate"),
        (("--until", "1", "--every", "1000", "--packet", "28"), "leave nothing behind"),
        (("--until", "1", "--every", "1000"), "--to is missing"),
        (("--until", "1", "--every", "x"), "--every: 'x' is not a number"),
        (("--until", "1", "--every", "1000", "stray"), "'stray' is not an option"),
    ],
)
def test_wrong_words_are_refused(source_program, words, sentence):
    reply = subprocess.run([source_program, *words], capture_output=True, text=True, timeout=10)
    assert reply.returncode == 2
    assert sentence in reply.stderr


# Closed-loop users: what they draw, and what they do on this machine's kernel.

WORD = 2**64 - 1
#: Mean think 2 s, mean size 90 kB: the least size is 30 kB.
DRAWN = ("--think", "2", "--size", "90000", "--shape", "1.5")


def drawn(users_program: str, users: int, count: int, *words: str) -> list[dict[str, int]]:
    command = (users_program, "plan", "--users", str(users), "--count", str(count), *DRAWN, *words)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def column(rows: list[dict[str, int]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows], np.float64)


def units(seed: int, user: int) -> Iterator[float]:
    """The uniform numbers of one user, written from the papers of their authors."""

    def mix(state: int) -> tuple[int, int]:
        state = z = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return state, z ^ (z >> 31)

    def rotate(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & WORD

    state = mix(mix(seed)[1] ^ user)[1]
    s = []
    for _ in range(4):
        state, word = mix(state)
        s.append(word)
    while True:
        result = (rotate((s[1] * 5) & WORD, 7) * 9) & WORD
        t = (s[1] << 17) & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        yield ((result >> 11) + 1) * 2.0**-53


@pytest.mark.parametrize(("seed", "user"), [(1, 0), (1, 4095), (2**31 - 1, 17)])
def test_draws_are_those_of_the_published_generator(users_program, seed, user):
    rows = drawn(users_program, 1, 200, "--seed", str(seed), "--first", str(user), "--spread", "10")
    stream = units(seed, user)
    assert rows[0]["start_ns"] == int((1 - next(stream)) * 10e9)
    for row in rows:
        assert row["think_ns"] == pytest.approx(-2e9 * math.log(next(stream)), abs=1)
        assert row["size"] == pytest.approx(30000 * next(stream) ** (-1 / 1.5), rel=1e-12, abs=1)


def test_think_times_are_exponential(users_program):
    think = column(drawn(users_program, 50, 2000, "--seed", "3"), "think_ns") / 2e9
    assert think.mean() == pytest.approx(1, abs=4 / math.sqrt(think.size))
    for x in (0.1, 0.5, 1, 2, 4):
        share = math.exp(-x)
        assert np.mean(think > x) == pytest.approx(
            share, abs=4 * math.sqrt(share * (1 - share) / think.size)
        )


def test_sizes_are_pareto_with_the_mean_asked_for(users_program):
    size = column(drawn(users_program, 50, 2000, "--seed", "3"), "size")
    assert size.min() == 30000
    for x in (1.1, 2, 10, 100, 1000):
        share = x**-1.5
        assert np.mean(size > 30000 * x) == pytest.approx(
            share, abs=4 * math.sqrt(share / size.size)
        )
    # The variance is infinite: the mean is held where it is not, at a larger shape.
    milder = column(drawn(users_program, 50, 2000, "--seed", "3", "--shape", "4"), "size")
    assert milder.mean() == pytest.approx(90000, rel=0.01)


def test_no_size_is_above_the_largest(users_program):
    free = column(drawn(users_program, 20, 500, "--seed", "5"), "size")
    cut = column(drawn(users_program, 20, 500, "--seed", "5", "--largest", "200000"), "size")
    assert cut.tolist() == np.minimum(free, 200000).tolist()
    assert np.sum(cut == 200000) > 100


def test_starts_are_uniform_over_the_spread(users_program):
    start = (
        column(drawn(users_program, 4000, 1, "--seed", "3", "--spread", "10"), "start_ns") / 10e9
    )
    assert 0 <= start.min() < 0.01
    assert 0.99 < start.max() < 1
    assert start.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * 4000))


def test_a_user_is_the_same_whoever_else_there_is(users_program):
    together = drawn(users_program, 40, 5, "--seed", "9")
    alone = drawn(users_program, 1, 5, "--seed", "9", "--first", "23")
    assert [row for row in together if row["user"] == 23] == alone


def test_users_and_seeds_are_independent(users_program):
    think = column(drawn(users_program, 200, 500, "--seed", "7"), "think_ns").reshape(200, 500)
    between = np.corrcoef(think)[np.triu_indices(200, 1)]
    assert np.abs(between).max() < 6 / math.sqrt(500)
    assert np.std(between) == pytest.approx(1 / math.sqrt(500), rel=0.05)
    other = column(drawn(users_program, 200, 500, "--seed", "8"), "think_ns")
    assert abs(np.corrcoef(think.ravel(), other)[0, 1]) < 4 / math.sqrt(other.size)


def fetched(users_program: str, port: str, *words: str) -> np.ndarray[Any, Any]:
    common = ("send", "--connect", "127.0.0.1", "--port", port, "--seed", "1", "--think", "0.1")
    command = (users_program, *common, "--size", "50000", *words)
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    magic, size, users, count, _ = HEAD.unpack_from(done.stdout)
    assert (magic, size) == (MAGIC, RECORD.itemsize)
    records = np.frombuffer(done.stdout, RECORD, offset=HEAD.size)
    assert count == records.size
    assert users == np.unique(records["user"]).size
    return records


@pytest.mark.full
def test_users_fetch_what_they_drew_one_after_the_other(users_program):
    port = str(free_port())
    receiver = subprocess.Popen(
        (
            users_program,
            "recv",
            "--listen",
            "127.0.0.1",
            "--port",
            port,
            "--users",
            "8",
            "--until",
            "4",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    assert "listening" in receiver.stdout.readline()
    largest = ("--largest", "3000000")
    records = fetched(users_program, port, "--users", "8", "--first", "3", "--until", "2", *largest)
    receiver.communicate(timeout=30)
    words = ("--seed", "1", "--first", "3", "--think", "0.1", "--size", "50000", *largest)
    rows = drawn(users_program, 8, 200, *words)
    assert set(records["user"]) == set(range(3, 11))
    for user in range(3, 11):
        mine = np.sort(records[records["user"] == user], order="number")
        wanted = [row for row in rows if row["user"] == user][: mine.size]
        assert mine["number"].tolist() == list(range(mine.size))
        assert mine["size"].tolist() == [row["size"] for row in wanted]
        done = mine[:-1]
        assert done.size >= 1
        assert set(done["state"]) == {FINISHED}
        assert done["acked"].tolist() == done["size"].tolist()
        thought = mine["start_ns"][1:] - done["end_ns"]
        at_work = mine["state"][1:] != THINKING
        asked = np.array([row["think_ns"] for row in wanted[1:]])
        assert np.all(thought[at_work] >= asked[at_work])
        assert mine["state"][-1] in (THINKING, UNDERWAY)


def test_a_connection_that_does_not_come_up_is_recorded(users_program):
    records = fetched(users_program, str(free_port()), "--users", "2", "--until", "1")
    failed = records[records["state"] == FAILED]
    assert failed.size >= 2
    assert set(failed["error"]) == {errno.ECONNREFUSED}
    assert set(records["user"]) == {0, 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("send", "--connect", "1.2.3.4", "--users", "1"), "--until is missing"),
        (("recv", "--users", "1", "--until", "1"), "--listen is missing"),
        (("plan", "--users", "1", "--think", "1"), "--size is missing"),
        (("plan", "--users", "1", "--size", "1"), "--think is missing"),
        (("plan", "--users", "5000"), "--users: '5000' is not a number from 0 to 4096"),
        (("plan", "--users", "1", "--shape", "1"), "--shape: '1' is not a number above 1"),
    ],
)
def test_what_is_missing_or_wrong_is_said(users_program, words, said):
    done = subprocess.run((users_program, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tcpf-users: {said}")

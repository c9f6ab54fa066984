"""The programs that send in a guest, on this machine's kernel: generator, source, users."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import socket
import struct
import subprocess
import time
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


#: Below the ports that the system gives to other programs meanwhile.
PORTS = itertools.count(10_000 + os.getpid() % 11 * 2000, 20)


def free_port() -> int:
    """Give the first of 20 ports that no other call gets."""
    return next(PORTS)


def samples(programs: Path, environment: dict[str, str]) -> list[dict[str, object]]:
    """Let two flows send for a moment; give what the senders say at its end."""
    port, source = free_port(), free_port()
    program = str(programs / "tcpf-traffic")
    common = ("--port", str(port), "--source-port", str(source), "--sample", "end=1")
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


# Flows that end early, are held back, or are watched.

#: `struct info_record` of ``kernel/traffic/tcpf-traffic.c``.
INFO = np.dtype(
    [("time_ns", "<i8")]
    + [(name, "<u4") for name in ("flow", "cwnd", "ssthresh", "rtt_us", "rttvar_us", "rto_us")]
    + [(name, "<u8") for name in ("pacing_rate", "delivery_rate", "bytes_acked", "bytes_retrans")]
    + [
        (name, "<u4")
        for name in (
            *("min_rtt_us", "unacked", "delivered", "delivered_ce"),
            *("total_retrans", "ca_state"),
        )
    ]
)
ENDS = "mid=0.3,late=0.7,end=0.9"


def flows(
    programs: Path,
    flows: int,
    *words: str,
    at: str = ENDS,
    address: str = "127.0.0.1",
    first: str = "0",
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Let flows send for a second; give what the sender and what the receiver prints."""
    program, port = str(programs / "tcpf-traffic"), str(free_port())
    source = str(free_port())
    epoch = f"{time.time() + 0.4:.9f}"
    common = (
        "--port",
        port,
        "--source-port",
        source,
        "--sample",
        at,
        "--epoch",
        epoch,
        "--first",
        first,
    )
    receiver = subprocess.Popen(
        [program, "recv", "--listen", address, "--flows", str(flows), *common],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    assert "listening" in receiver.stdout.readline()
    starts = ",".join(f"{0.01 * i:.2f}" for i in range(flows))
    send = [program, "send", "--connect", address, "--start", starts, *common, *words]
    done = subprocess.run(send, capture_output=True, text=True, timeout=30)
    received, _ = receiver.communicate(timeout=30)
    assert done.stderr == ""
    both = (text.splitlines() for text in (done.stdout, received))
    sent, got = ([json.loads(line) for line in lines] for lines in both)
    return sent, got


def at(rows: list[dict[str, Any]], sample: str) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("sample") == sample]


def test_stopped_flow_is_reset_and_keeps_its_last_counters(programs):
    sent, received = flows(programs, 2, "--stop", "0.5", "--pace", "8000000")
    middle, late, end = (at(sent, name) for name in ("mid", "late", "end"))
    assert not any("stopped" in row for row in middle)
    for before, after, last in zip(middle, late, end, strict=True):
        assert (after["stopped"], last["stopped"], "error" in last) == (True, True, False)
        assert after["bytes_acked"] > before["bytes_acked"] > 0
        assert {**after, "time_ns": 0, "sample": ""} == {**last, "time_ns": 0, "sample": ""}
    assert {row["error"] for row in at(received, "end")} == {"Connection reset by peer"}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_flow_that_has_sent_its_volume_finishes_and_stays_readable(programs, address):
    sent, received = flows(programs, 2, "--volume", "3000000", "--nodelay", address=address)
    finished = {row["flow"]: row for row in sent if row["event"] == "finished"}
    assert sorted(finished) == [0, 1]
    for flow, row in finished.items():
        assert row["bytes"] == 3_000_000
        assert 0.01e9 * flow <= row["start_ns"] < row["time_ns"] < 0.9e9
    # SYN and FIN are bytes there; a state of 7 is CLOSE.
    assert [(r["bytes_acked"], r["tcp_state"]) for r in at(sent, "end")] == [(3_000_002, 7)] * 2
    assert [r["bytes_received"] for r in at(received, "end")] == [3_000_001] * 2
    assert not any("error" in row for row in (*sent, *received))


def test_stop_does_not_touch_what_has_finished(programs):
    sent, _ = flows(programs, 2, "--volume", "1000", "--stop", "0.5")
    assert sum(row["event"] == "finished" for row in sent) == 2
    assert not any("stopped" in row for row in sent)


def test_chunks_are_sent_one_each_period(programs):
    words = ("--volume", "1000000", "--chunk", "100000", "--every", "0.05")
    sent, _ = flows(programs, 1, *words, at="early=0.03,end=0.9")
    (early,), (end,) = at(sent, "early"), at(sent, "end")
    (finished,) = (row for row in sent if row["event"] == "finished")
    assert early["bytes_sent"] <= 100_000
    assert end["bytes_sent"] == 1_000_000
    # The last of ten chunks is due after nine periods, and after each one that was missed.
    assert finished["time_ns"] >= (9 + end["missed_chunks"]) * 0.05e9


def test_blocked_flow_skips_chunks_but_one(programs):
    words = ("--chunk", "100000", "--every", "0.01", "--pace", "4000000", "--buffer", "20000")
    sent, _ = flows(programs, 1, *words)
    (end,) = at(sent, "end")
    # 90 chunks are due; 500 kB/s are five of them, and some wait in buffers.
    assert 40 <= end["missed_chunks"] <= 88
    assert end["bytes_sent"] < 2_000_000


def test_counters_are_recorded_at_multiples_of_the_interval(programs, tmp_path):
    assert INFO.itemsize == 88
    info = tmp_path / "info.bin"
    words = ("--interval", "0.05", "--info", str(info), "--stop", "0.72")
    sent, _ = flows(programs, 2, *words, "--pace", "80000000", first="7")
    records = np.fromfile(info, INFO)
    assert set(records["flow"]) <= {7, 8}
    for flow in (7, 8):
        mine = records[records["flow"] == flow]
        ticks = mine["time_ns"] // 50_000_000
        assert np.all(np.diff(ticks) >= 1)
        assert 5 <= mine.size <= 15
        assert ticks.max() <= 14
        assert np.all(np.diff(mine["bytes_acked"].astype(np.int64)) >= 0)
        assert set(mine["pacing_rate"]) == {10_000_000}
        end = at(sent, "end")[flow - 7]
        assert mine["bytes_acked"][-1] <= end["bytes_acked"]
        assert np.all(mine["cwnd"] > 0)
        assert np.all(mine["min_rtt_us"] <= mine["rtt_us"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recv", "--flows", "1", "--stop", "1"), "--stop is for senders"),
        (("send", "--start", "0", "--chunk", "1"), "--chunk and --every need each other"),
        (("send", "--start", "0", "--interval", "1"), "--interval and --info need each other"),
        (("send", "--start", "0,2", "--stop", "2"), "--stop: flow 1 would stop before it starts"),
        (("send", "--start", "0", "--pace", "7"), "--pace: '7' is less than 8 bit/s"),
        (("send", "--start", "0", "--volume", "0"), "--volume: '0' is not a number from 1"),
        (("send", "--start", "0", "--every", "0.0"), "--every: '0.0' is no time at all"),
    ],
)
def test_options_that_do_not_fit_are_refused(programs, words, message):
    address = "--listen" if words[0] == "recv" else "--connect"
    command = (programs / "tcpf-traffic", *words, address, "::1", "--sample", "end=3")
    reply = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert (reply.returncode, reply.stderr.startswith(f"tcpf-traffic: {message}")) == (2, True)


# Probes: datagrams at instants, requests and responses.

DATAGRAM = np.dtype(
    [("number", "<u4"), ("zero", "<u4"), ("sent_ns", "<i8"), ("received_ns", "<i8")]
)
EXCHANGE = np.dtype([("flow", "<u4"), ("state", "<u4"), ("start_ns", "<i8"), ("end_ns", "<i8")])
ANSWERED, CUT_OFF, NO_ANSWER = range(3)


@pytest.fixture(scope="module")
def probe(tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("probe")
    return str(compiled(place, "tcpf-probe", "-fsanitize=undefined", "-fno-sanitize-recover"))


class Listener:
    """A part of the program that is ready, and what it prints at its end."""

    def __init__(self, *command: str) -> None:
        self._program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._program.stdout is not None
        assert json.loads(self._program.stdout.readline())["event"] == "listening"

    def end(self) -> dict[str, int]:
        text, _ = self._program.communicate(timeout=30)
        assert self._program.returncode == 0
        return dict(json.loads(text))


def last_line(*command: str) -> dict[str, int]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(("address", "headers"), [("127.0.0.1", 28), ("::1", 48)])
def test_datagrams_have_their_size_class_number_and_time(probe, address, headers):
    v6 = ":" in address
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind((address, 0))
        if v6:
            sink.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        else:
            sink.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        port = str(sink.getsockname()[1])
        common = ("udp-send", "--connect", address, "--port", port, "--size", "200")
        epoch = f"{time.time() + 0.1:.9f}"
        times = ("--epoch", epoch, "--from", "0.1", "--until", "0.3", "--every", "0.02")
        end = last_line(probe, *common, *times, "--tos", "184")
        sink.setblocking(False)
        got = [sink.recvmsg(2000, 100) for _ in range(10)]
        with pytest.raises(BlockingIOError):
            sink.recv(2000)
    assert (end["sent"], end["errors"]) == (10, 0)
    for number, (data, ((_, _, tos),), _, _) in enumerate(got):
        assert len(data) == 200 - headers
        assert tos[0] == 184
        found, _, sent = struct.unpack_from("<IIq", data)
        assert found == number
        assert 0 <= sent - (100_000_000 + number * 20_000_000) <= end["late_ns"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_received_datagrams_are_counted_and_recorded(probe, tmp_path, address):
    port, epoch = free_port(), time.time()
    records = tmp_path / "udp.bin"
    words = ("--epoch", f"{epoch:.9f}", "--until", "1.0", "--records", str(records))
    listener = Listener(probe, "udp-recv", "--listen", address, "--port", str(port), *words)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # More than one system call takes.
    numbers = [*range(100), 101, 100, 100, 104, 3]
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        for number in numbers:
            sender.sendto(struct.pack("<IIq", number, 0, number * 7), (address, port))
        sender.sendto(b"short", (address, port))
    end = listener.end()
    assert (end["received"], end["duplicates"], end["reordered"]) == (105, 2, 1)
    found = np.fromfile(records, DATAGRAM)
    assert found["number"].tolist() == numbers
    assert found["sent_ns"].tolist() == [number * 7 for number in numbers]
    assert np.all(np.diff(found["received_ns"]) >= 0)
    assert 0 <= found["received_ns"][0] < 1e9


@pytest.mark.parametrize("reuse", [(), ("--reuse",)])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_every_request_is_answered(probe, tmp_path, address, reuse):
    common = ("--port", str(free_port()), "--epoch", f"{time.time():.9f}")
    listener = Listener(probe, "answer", "--listen", address, *common, "--until", "1.2")
    records = tmp_path / "ask.bin"
    sizes = ("--request", "5000", "--response", "200000", "--think", "0.02")
    flows = ("--flows", "5", "--first", "3", "--seed", "2", "--records", str(records))
    times = ("--from", "0.2", "--until", "1")
    end = last_line(probe, "ask", "--connect", address, *common, *sizes, *flows, *times, *reuse)
    found = np.fromfile(records, EXCHANGE)
    assert found.size == end["finished"] + end["cut_off"]
    assert end["failed"] == 0
    assert end["finished"] >= 10
    assert end["finished"] <= listener.end()["answered"] <= found.size
    assert set(found["flow"]) <= set(range(3, 8))
    assert np.all(found["start_ns"] >= 0.2e9)
    assert np.all(found["end_ns"] <= 1e9)
    assert np.all(found["end_ns"][found["state"] == ANSWERED] > 0.2e9)


def test_think_times_are_drawn_for_each_flow_from_the_seed(probe, tmp_path):
    common = ("--port", str(free_port()), "--epoch", f"{time.time():.9f}")
    listener = Listener(probe, "answer", "--listen", "127.0.0.1", *common, "--until", "1.5")
    records = tmp_path / "ask.bin"
    words = ("--request", "16", "--response", "1", "--think", "0.2", "--flows", "3")
    last_line(
        *(probe, "ask", "--connect", "127.0.0.1", *common, *words, "--seed", "5", "--from", "0.1"),
        *("--until", "1.4", "--records", str(records)),
    )
    listener.end()
    found = np.fromfile(records, EXCHANGE)
    name = 0xCBF29CE484222325
    for letter in b"ask":
        name = ((name ^ letter) * 0x100000001B3) & WORD
    for flow in range(3):
        mine = found[found["flow"] == flow]
        due, stream = 0.1e9, units(5, name ^ flow)
        for record in mine:
            due += -0.2e9 * math.log(next(stream))
            assert due - 2 <= record["start_ns"]
            due = float(record["end_ns"])
    firsts = [found["start_ns"][found["flow"] == flow] for flow in range(3)]
    assert sum(map(len, firsts)) >= 3


def test_exchange_under_way_at_the_end_is_cut_off(probe, tmp_path):
    records = tmp_path / "ask.bin"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        end = last_line(
            *(probe, "ask", "--connect", "127.0.0.1", "--port", port, "--flows", "2"),
            *("--request", "16", "--response", "1", "--think", "0", "--until", "0.3"),
            *("--records", str(records)),
        )
    assert (end["finished"], end["cut_off"], end["failed"]) == (0, 2, 0)
    found = np.fromfile(records, EXCHANGE)
    assert found["state"].tolist() == [CUT_OFF] * 2
    assert found["end_ns"].tolist() == [300_000_000] * 2


@pytest.mark.parametrize("reuse", [(), ("--reuse",)])
def test_failed_exchange_is_recorded_and_tried_again_after_a_pause(probe, tmp_path, reuse):
    records = tmp_path / "ask.bin"
    end = last_line(
        *(probe, "ask", "--connect", "127.0.0.1", "--port", str(free_port()), "--flows", "1"),
        *("--request", "16", "--response", "1", "--think", "0", "--until", "0.55"),
        *("--records", str(records), *reuse),
    )
    found = np.fromfile(records, EXCHANGE)
    assert set(found["state"]) == {NO_ANSWER}
    assert 1 <= found.size == end["failed"] <= 6
    assert np.all(found["start_ns"][1:] - found["end_ns"][:-1] >= 100_000_000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("udp-recv", "--listen", "::1", "--until", "1"), "--records is missing"),
        (("answer", "--until", "1"), "--listen is missing"),
        (("answer", "--listen", "1.2.3", "--until", "1"), "--listen: '1.2.3' is not an IPv4 or"),
        (("answer", "--flows", "1"), "--flows is not an option of answer"),
        (("ask", "--request", "15"), "--request: 15 is less than 16"),
        (
            *(("udp-send", "--connect", "::1", "--until", "1", "--every", "1", "--size", "63"),),
            "--size: 63 bytes leave no room for number and time; at least 64",
        ),
    ],
)
def test_probe_names_the_option_that_is_missing_or_wrong(probe, words, message):
    reply = subprocess.run((probe, *words), capture_output=True, text=True, timeout=10)
    assert (reply.returncode, reply.stderr.startswith(f"tcpf-probe: {message}")) == (2, True)

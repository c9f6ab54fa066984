"""Closed-loop users: what they draw, and what they do on this machine's kernel."""

from __future__ import annotations

import errno
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
SOURCES = tuple(name for name in TRAFFIC_PROGRAMS["tcpf-users"] if name.endswith(".c"))
WORD = 2**64 - 1
#: Mean think 2 s, mean size 90 kB: the least size is 30 kB.
DRAWN = ("--think", "2", "--size", "90000", "--shape", "1.5")


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    target = tmp_path_factory.mktemp("users") / "tcpf-users"
    words = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread"]
    subprocess.run(
        [*words, "-o", str(target), *(str(KERNEL / name) for name in SOURCES)], check=True
    )
    return str(target)


def drawn(program: str, users: int, count: int, *words: str) -> list[dict[str, int]]:
    command = (program, "plan", "--users", str(users), "--count", str(count), *DRAWN, *words)
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
def test_draws_are_those_of_the_published_generator(program, seed, user):
    rows = drawn(program, 1, 200, "--seed", str(seed), "--first", str(user), "--spread", "10")
    stream = units(seed, user)
    assert rows[0]["start_ns"] == int((1 - next(stream)) * 10e9)
    for row in rows:
        assert row["think_ns"] == pytest.approx(-2e9 * math.log(next(stream)), abs=1)
        assert row["size"] == pytest.approx(30000 * next(stream) ** (-1 / 1.5), rel=1e-12, abs=1)


def test_think_times_are_exponential(program):
    think = column(drawn(program, 50, 2000, "--seed", "3"), "think_ns") / 2e9
    assert think.mean() == pytest.approx(1, abs=4 / math.sqrt(think.size))
    for x in (0.1, 0.5, 1, 2, 4):
        share = math.exp(-x)
        assert np.mean(think > x) == pytest.approx(
            share, abs=4 * math.sqrt(share * (1 - share) / think.size)
        )


def test_sizes_are_pareto_with_the_mean_asked_for(program):
    size = column(drawn(program, 50, 2000, "--seed", "3"), "size")
    assert size.min() == 30000
    for x in (1.1, 2, 10, 100, 1000):
        share = x**-1.5
        assert np.mean(size > 30000 * x) == pytest.approx(
            share, abs=4 * math.sqrt(share / size.size)
        )
    # The variance is infinite: the mean is held where it is not, at a larger shape.
    milder = column(drawn(program, 50, 2000, "--seed", "3", "--shape", "4"), "size")
    assert milder.mean() == pytest.approx(90000, rel=0.01)


def test_no_size_is_above_the_largest(program):
    free = column(drawn(program, 20, 500, "--seed", "5"), "size")
    cut = column(drawn(program, 20, 500, "--seed", "5", "--largest", "200000"), "size")
    assert cut.tolist() == np.minimum(free, 200000).tolist()
    assert np.sum(cut == 200000) > 100


def test_starts_are_uniform_over_the_spread(program):
    start = column(drawn(program, 4000, 1, "--seed", "3", "--spread", "10"), "start_ns") / 10e9
    assert 0 <= start.min() < 0.01
    assert 0.99 < start.max() < 1
    assert start.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * 4000))


def test_a_user_is_the_same_whoever_else_there_is(program):
    together = drawn(program, 40, 5, "--seed", "9")
    alone = drawn(program, 1, 5, "--seed", "9", "--first", "23")
    assert [row for row in together if row["user"] == 23] == alone


def test_users_and_seeds_are_independent(program):
    think = column(drawn(program, 200, 500, "--seed", "7"), "think_ns").reshape(200, 500)
    between = np.corrcoef(think)[np.triu_indices(200, 1)]
    assert np.abs(between).max() < 6 / math.sqrt(500)
    assert np.std(between) == pytest.approx(1 / math.sqrt(500), rel=0.05)
    other = column(drawn(program, 200, 500, "--seed", "8"), "think_ns")
    assert abs(np.corrcoef(think.ravel(), other)[0, 1]) < 4 / math.sqrt(other.size)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def fetched(program: str, port: str, *words: str) -> np.ndarray[Any, Any]:
    common = ("send", "--connect", "127.0.0.1", "--port", port, "--seed", "1", "--think", "0.1")
    command = (program, *common, "--size", "50000", *words)
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    magic, size, users, count, _ = HEAD.unpack_from(done.stdout)
    assert (magic, size) == (MAGIC, RECORD.itemsize)
    records = np.frombuffer(done.stdout, RECORD, offset=HEAD.size)
    assert count == records.size
    assert users == np.unique(records["user"]).size
    return records


@pytest.mark.full
def test_users_fetch_what_they_drew_one_after_the_other(program):
    port = free_port()
    receiver = subprocess.Popen(
        (program, "recv", "--listen", "127.0.0.1", "--port", port, "--users", "8", "--until", "4"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    assert "listening" in receiver.stdout.readline()
    largest = ("--largest", "3000000")
    records = fetched(program, port, "--users", "8", "--first", "3", "--until", "2", *largest)
    receiver.communicate(timeout=30)
    words = ("--seed", "1", "--first", "3", "--think", "0.1", "--size", "50000", *largest)
    rows = drawn(program, 8, 200, *words)
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


def test_a_connection_that_does_not_come_up_is_recorded(program):
    records = fetched(program, free_port(), "--users", "2", "--until", "1")
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
def test_what_is_missing_or_wrong_is_said(program, words, said):
    done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tcpf-users: {said}")

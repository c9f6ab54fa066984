"""The source of background packets: its schedule, and that it keeps to it."""

from __future__ import annotations

import itertools
import json
import math
import socket
import subprocess
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.testbed.uml.recipe import TRAFFIC_PROGRAMS

KERNEL = Path(tcpf_lab.__file__).parent.parent / "kernel"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror")
RATE = 40_000_000
#: A packet of 1500 bytes with its frame's header at that rate, ns.
PACKET_NS = 302_800
ON_NS = 4_000_000
#: Makes the source a share of 0.3.
GAP_NS = 9_333_333


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    target = tmp_path_factory.mktemp("source") / "tcpf-source"
    sources = [
        str(KERNEL / name) for name in TRAFFIC_PROGRAMS["tcpf-source"] if name.endswith(".c")
    ]
    sanitizers = "-fsanitize=address,undefined"
    subprocess.run(["gcc", *FLAGS, sanitizers, "-o", str(target), *sources], check=True)
    return str(target)


def onoff(on: int = ON_NS, gap: int = GAP_NS) -> tuple[str, ...]:
    return ("--burst", str(on), "--gap", str(gap), "--rate", str(RATE))


def said(program: str, *words: str) -> list[dict[str, int]]:
    reply = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    assert (reply.returncode, reply.stderr) == (0, "")
    return [json.loads(line) for line in reply.stdout.splitlines()]


def schedule(
    program: str, *words: str, seed: int = 1, name: str = "ef", until: str = "600"
) -> list[dict[str, int]]:
    common = ("--print-schedule", "--seed", str(seed), "--name", name, "--until", until)
    return said(program, *common, *words)


def test_schedule_depends_on_seed_and_name_alone(program):
    first = schedule(program, *onoff(), until="5")
    assert schedule(program, *onoff(), until="5") == first
    assert schedule(program, *onoff(), seed=2, until="5") != first
    assert schedule(program, *onoff(), name="udp", until="5") != first
    longer = schedule(program, *onoff(), until="6")
    assert longer[: len(first) - 1] == first[:-1]


def test_longer_bursts_are_the_same_draws_on_another_scale(program):
    """Cases that differ in the mean alone are compared with the same random numbers."""
    short = schedule(program, *onoff(), until="10")
    long = schedule(program, *onoff(10 * ON_NS, 10 * GAP_NS), until="100")
    pairs = list(zip(short, long, strict=False))[:600]
    assert len(pairs) == 600
    assert max(abs(10 * a["at_ns"] - b["at_ns"]) for a, b in pairs) < 10 * 2 * len(pairs)


@pytest.mark.parametrize("on", [400_000, ON_NS, 400_000_000])
def test_share_is_what_was_asked_for(program, on):
    seconds = 100 * on * 10 / 3 / 1e9 * 100
    gap = on * 7 // 3
    found = schedule(program, *onoff(on, gap), until=f"{seconds:.3f}")
    share = sum(row["packets"] for row in found) * PACKET_NS / (seconds * 1e9)
    # 10^4 bursts of a standard deviation as large as their mean, and gaps of the same.
    assert share == pytest.approx(0.3, abs=4 * 0.3 * 0.7 * (2 / 1e4) ** 0.5)


def test_lengths_and_gaps_are_exponential(program):
    found = schedule(program, *onoff())
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


def test_lengths_do_not_depend_on_those_before_nor_on_another_source(program):
    found = [row["packets"] for row in schedule(program, *onoff())]
    other = [row["packets"] for row in schedule(program, *onoff(), name="udp")]
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


def test_last_burst_ends_with_the_source(program):
    ends = [
        found[-1]["at_ns"] + (found[-1]["packets"] - 1) * PACKET_NS
        for seed in range(40)
        if (found := schedule(program, *onoff(400_000_000, 40_000_000), seed=seed, until="3"))
    ]
    assert max(ends) < 3e9
    assert max(ends) > 2.9e9, "some burst goes on at the end"


def test_period_begins_anywhere_and_is_kept(program):
    found = [schedule(program, "--every", "1009333", seed=seed, until="0.1") for seed in range(20)]
    firsts = {rows[0]["at_ns"] for rows in found}
    assert len(firsts) == 20
    assert max(firsts) < 1_009_333
    for rows in found:
        assert {b["at_ns"] - a["at_ns"] for a, b in itertools.pairwise(rows)} == {1_009_333}
        assert {row["packets"] for row in rows} == {1}


@pytest.mark.parametrize("words", [onoff(ON_NS, ON_NS), ("--every", "2000000")])
def test_what_is_due_is_sent_and_counted(program, words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.2", 0))
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        port = str(sink.getsockname()[1])
        common = ("--seed", "3", "--name", "ef", "--packet", "300", "--until", "0.2")
        rows = said(
            program,
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
    due = said(program, "--print-schedule", *common, *words)
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
def test_wrong_words_are_refused(program, words, sentence):
    reply = subprocess.run([program, *words], capture_output=True, text=True, timeout=10)
    assert reply.returncode == 2
    assert sentence in reply.stderr

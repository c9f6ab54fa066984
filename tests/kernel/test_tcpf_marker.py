"""The TCP-friendly marker against its model: equal verdicts and equal state after every packet.

S and count are fixed point there and floats here. Where they differ by less than rounding allows
(see the model), the model follows the header; how seldom that is, is asserted too.
"""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models.markers import ACK, FIN, RST, SECOND, SYN, Packet, max_min
from tcpf_packets import REASONS, Pair, Setting, Traffic, declare

PROFILES = [
    pytest.param(paper, plain, id=f"{'paper' if paper else 'recommended'}-{word}")
    for paper in (False, True)
    for plain, word in ((False, "protect"), (True, "plain"))
]
MARKED = set(REASONS) - {"unparseable"}


@pytest.fixture(scope="session")
def library(drive: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    return declare(drive("tcpf_marker"))


@contextmanager
def pair_of(library: ctypes.CDLL, setting: Setting, seed: int, now: int) -> Iterator[Pair]:
    pair = Pair(library, setting, seed, now)
    yield pair
    pair.close()


# ---- random steps: a million in the full tier

ALL_STEPS = 62_500


@pytest.mark.parametrize("steps", [10_000, pytest.param(ALL_STEPS, marks=pytest.mark.full)])
@pytest.mark.parametrize(("paper", "plain"), PROFILES)
@pytest.mark.parametrize(
    ("tokens", "connections", "flows"),
    [(30_000, 12, 64), (30_000, 12, 8), (296_000, 40, 64), (2_000, 12, 64)],
)
def test_random_traffic(
    library: ctypes.CDLL,
    tokens: int,
    connections: int,
    flows: int,
    paper: bool,
    plain: bool,
    steps: int,
) -> None:
    traffic = Traffic(random.Random(tokens + flows), connections)
    setting = Setting(tokens=tokens, paper=paper, plain=plain, flows=flows)
    reasons: Counter[str] = Counter()
    with pair_of(library, setting, 1, traffic.now) as pair:
        for number in range(steps):
            packet, now, reverse = next(traffic)
            ours, wanted = pair.step(packet, now, reverse=reverse)
            assert ours == wanted, f"step {number}: {packet} at {now}"
            assert pair.differences(packet.flow) == [], f"step {number}: {packet} at {now}"
            reasons[ours] += 1
        assert pair.totals().ticks > steps // 120
        assert pair.model.ties < 50
        assert (pair.totals().evicted > 0) == (flows < connections)
    if steps == ALL_STEPS:
        expected = MARKED - ({"retransmission"} if plain else set())
        assert set(reasons) == expected | {""}


# ---- generated sequences, whose edges are those of the algorithm

INTERVAL = Setting().interval
GAPS = st.sampled_from(
    (
        *(0, 0, 0, 1, 10**6, INTERVAL // 5, INTERVAL // 2 - 1, INTERVAL // 2, INTERVAL // 2 + 1),
        *(INTERVAL - 1, INTERVAL, INTERVAL + 1, 2 * INTERVAL, 5 * INTERVAL, 40 * INTERVAL),
        *(120 * SECOND - 1, 120 * SECOND, 1000 * SECOND),
    )
)
#: Where a segment starts, from the highest byte seen.
OFFSETS = st.sampled_from(
    (
        *(0, 0, 0, 0, 0, 0, 0, 0, -1, -2, -500, -1000, -1000, -3000, 1, 1000),
        *(2**30, 2**31 - 1, 2**31, 2**31 + 1, -(2**30)),
    )
)
SIZES = st.sampled_from([1000, 1000, 1000, 1460, 1, 2, 536, 0])
#: What is acknowledged: so many bytes below the highest seen.
BEHIND = st.sampled_from([0, 0, 0, 1, 1000, 3000, -1, 2**31])
FLOWS = st.integers(0, 3)


def forward(gap: int, flow: int, offset: int, size: int, flags: int) -> tuple[object, ...]:
    return ("forward", gap, flow, offset, size, flags, 0)


def backward(gap: int, flow: int, behind: int, flags: int, mss: int) -> tuple[object, ...]:
    return ("reverse", gap, flow, behind, 0, flags, mss)


EVENTS = st.one_of(
    st.builds(forward, GAPS, FLOWS, OFFSETS, SIZES, st.just(ACK)),
    st.builds(forward, st.just(0), FLOWS, st.just(0), st.just(1000), st.just(ACK)),
    st.builds(
        forward,
        GAPS,
        FLOWS,
        OFFSETS,
        SIZES,
        st.sampled_from([SYN, FIN | ACK, RST, SYN | ACK, SYN | FIN, 0]),
    ),
    st.builds(backward, GAPS, FLOWS, BEHIND, st.just(ACK), st.just(0)),
    st.builds(
        backward,
        GAPS,
        FLOWS,
        BEHIND,
        st.sampled_from([SYN, SYN | ACK, FIN | ACK, RST, 0]),
        st.sampled_from([0, 1, 88, 1460, 65535]),
    ),
)
ISNS = st.sampled_from([0, 1, 12345, 2**31 - 1, 2**32 - 1, 2**32 - 2500])


def event_packet(pair: Pair, event: tuple, isn: int) -> tuple[Packet, bool]:
    """Return the packet that an event stands for, as things stand in the model."""
    direction, _, flow, offset, size, flags, mss = event
    known = pair.model.flows.get(flow)
    highest = known.snd_max if known else isn
    if direction == "reverse":
        ack = (highest - offset) % 2**32
        return Packet(flow, ack=ack, length=40, flags=flags, mss=mss if flags & SYN else 0), True
    seq = (highest + offset) % 2**32
    timestamps = bool(flow % 2)
    return Packet(flow, seq, 0, size, 40 + size, flags, timestamps=timestamps), False


@pytest.mark.parametrize(("paper", "plain"), PROFILES)
@settings(max_examples=50)
@given(
    events=st.lists(EVENTS, max_size=120),
    isn=ISNS,
    tokens=st.sampled_from([1, 1039, 1040, 3000, 10_000, 100_000]),
    flows=st.sampled_from([1, 2, 3, 64]),
)
def test_generated_sequences(
    library: ctypes.CDLL, events, isn: int, tokens: int, flows: int, paper: bool, plain: bool
) -> None:
    setting = Setting(tokens=tokens, paper=paper, plain=plain, flows=flows)
    now = 1000 * SECOND
    with pair_of(library, setting, 1, now) as pair:
        for event in events:
            now += event[1]
            packet, reverse = event_packet(pair, event, isn)
            ours, wanted = pair.step(packet, now, reverse=reverse)
            assert ours == wanted
            assert pair.differences(packet.flow) == []


@given(
    capacity=st.integers(0, 2**40),
    demands=st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 2000), max_size=60),
)
def test_max_min_is_the_textbook_division(library: ctypes.CDLL, capacity, demands) -> None:
    array = ctypes.c_uint32 * max(1, len(demands))
    shares = array()
    total = min(capacity, 2 * sum(demands) + 1)
    library.drive_max_min(
        ctypes.c_uint64(total), array(*demands), ctypes.c_uint64(len(demands)), shares
    )
    wanted = max_min(total, dict(enumerate(demands)))
    assert list(shares[: len(demands)]) == [wanted[i] for i in range(len(demands))]


# ---- what the model cannot show


@pytest.mark.parametrize("flows", [5, 200])
def test_resizing_and_changing_keeps_what_is_known(library: ctypes.CDLL, flows: int) -> None:
    traffic = Traffic(random.Random(3), 12)
    with pair_of(library, Setting(flows=50), 1, traffic.now) as pair:
        for number in range(6000):
            packet, now, reverse = next(traffic)
            ours, wanted = pair.step(packet, now, reverse=reverse)
            assert ours == wanted
            assert pair.differences(packet.flow) == []
            if number % 1000 == 500:
                capacity = flows if number < 3000 else 50
                library.drive_resize(pair.handle, capacity)
                pair.model.capacity = capacity
                pair.model.handshakes.clear()
                while len(pair.model.flows) > capacity:
                    pair.model.flows.popitem(last=False)
            if number % 1000 == 700:
                tokens = 10_000 + number * 10
                library.drive_change(pair.handle, INTERVAL, tokens, False, False, now)
                pair.model.tokens = tokens


def test_the_seed_of_the_hash_decides_nothing(library: ctypes.CDLL) -> None:
    answers = []
    for seed in (1, 2):
        traffic = Traffic(random.Random(5), 12)
        with pair_of(library, Setting(), seed, traffic.now) as pair:
            answers.append([])
            for _ in range(3000):
                packet, now, reverse = next(traffic)
                answers[-1].append(pair.step(packet, now, reverse=reverse)[0])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_million_syns_cost_no_data_flow_its_record(library: ctypes.CDLL, reverse: bool) -> None:
    flows, active = 1024, 1000
    with pair_of(library, Setting(flows=flows, tokens=2 * 10**6), 1, 0) as pair:
        for flow in range(active):
            library_step(pair, Packet(flow, 1000, 0, 1000, 1040), flow)
        marker = pair.totals()
        assert (marker.flows, marker.active) == (active, active)
        library.drive_syns(pair.handle, 10**6, 10**6, reverse, INTERVAL // 2)
        marker = pair.totals()
        assert (marker.flows, marker.active, marker.evicted) == (active, active, 0)
        assert marker.handshakes == (64 if reverse else 0)
        assert marker.debt == 0
        assert all(pair.look(flow) is not None for flow in range(active))
        # The flood has cost at most what was spare; what flows get at the tick is untouched.
        reason = library_step(pair, Packet(0, 2000, 0, 1000, 1040), INTERVAL + 1)
        assert reason == "tiny"
        assert pair.totals().tiny == active


def library_step(pair: Pair, packet: Packet, now: int) -> str:
    """Give a packet to the header's marker alone."""
    return REASONS[pair.library.drive_step(pair.handle, ctypes.byref(pair.encode(packet, now)))]

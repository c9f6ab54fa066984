"""A wire of type csma in a guest: line rate, stations that always have a frame, its sums."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from models import csma_cd
from run_maker import locked

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

GUEST = Path(__file__).with_name("csma_guest.py")
#: Headers of UDP, IP and Ethernet, bytes.
HEADERS = 42
COUNT = 500
PAYLOADS = (1, 18, 19, 1472)
#: Half a slot of 10 Mbit/s, the longest wire, ns.
LONGEST = 25600
#: Stations, propagation (ns), payload, seconds.
SATURATED = (
    (2, 0, 18, 20),
    (2, 0, 1472, 20),
    (10, 0, 18, 10),
    (10, 0, 1472, 10),
    (10, LONGEST, 18, 10),
    (10, LONGEST, 1472, 10),
)
WORDS = ("stations", "propagation", "payload", "seconds")
REQUESTS = (
    *({"stations": 2, "propagation": 0, "payload": each, "count": COUNT} for each in PAYLOADS),
    *(dict(zip(WORDS, each, strict=True)) for each in SATURATED),
)
all_saturated = pytest.mark.parametrize(
    "number",
    range(len(PAYLOADS), len(REQUESTS)),
    ids=["-".join(map(str, each[:3])) for each in SATURATED],
)

pytestmark = [pytest.mark.uml, pytest.mark.full]


@pytest.fixture(scope="session")
def results(uml: UmlTestbed, products: Path) -> list[dict[str, Any]]:
    """Return what came of each of `REQUESTS`; the workers of a session boot one guest together."""
    run = RunFiles(products / "csma")
    with locked(products):
        if not run.root.exists():
            run.create()
            (run.root / "log/request.json").write_text(json.dumps(REQUESTS))
            files = ("log/request.json", "log/result.json")
            python = Command(None, (sys.executable, "-I", "-S", str(GUEST), *files))
            phases = (Phase("modules", (LoadModule("R1", "csma"),)), Phase("wire", (python,)))
            uml.execute(Plan(phases, {}, (0.0, 120.0), ()), run, seed=1)
    return json.loads((run.root / "log/result.json").read_text())


@pytest.mark.parametrize("number", range(len(PAYLOADS)), ids=lambda number: PAYLOADS[number])
def test_one_station_sends_at_line_rate(number, results):
    result = results[number]
    frame = csma_cd.frame_ns(PAYLOADS[number] + HEADERS)
    assert result["arrived"] == COUNT
    # A clock is read 256 ns late.
    expected = (COUNT - 1) * (frame + csma_cd.GAP)
    assert result["last"] - result["first"] == pytest.approx(expected, abs=1000)
    station, other = result["stations"]
    assert station["busy"] == COUNT * frame
    assert station["contention"] == 0
    assert (station["collisions"], station["excessive"]) == (0, 0)
    assert station["tx"]["packets"] == other["rx"]["packets"] == COUNT


def measured(result: dict[str, Any], payload: int) -> dict[str, float]:
    """Give what a wire did while all its stations had a frame: shares of time, and per frame."""
    first, last = result["window"]
    parts = {part: last[0][part] - first[0][part] for part in ("busy", "contention", "idle")}
    collisions = sum(b["collisions"] - a["collisions"] for a, b in zip(first, last, strict=True))
    shares = {part: time / sum(parts.values()) for part, time in parts.items()}
    return shares | {"collisions": collisions * csma_cd.frame_ns(payload + HEADERS) / parts["busy"]}


@all_saturated
def test_stations_that_always_have_a_frame_do_as_the_model(number, results):
    stations, propagation, payload, _ = REQUESTS[number].values()
    length = payload + HEADERS
    model = csma_cd.saturated(length, 50 * 10**9, 1, stations, propagation)
    found = measured(results[number], payload)
    share = model.sent * csma_cd.frame_ns(length) / model.now
    assert found["busy"] == pytest.approx(share, rel=0.005)
    assert found["collisions"] == pytest.approx(model.collisions / model.sent, rel=0.05)
    assert found["contention"] == pytest.approx(model.contention / model.now, rel=0.05)


@pytest.mark.parametrize(
    ("wire", "ratio"),
    [((0, 18), 2.0), ((0, 1472), 1.037), ((LONGEST, 18), 1.915), ((LONGEST, 1472), 1.004)],
    ids=["short", "long", "longest-short", "longest-long"],
)
def test_ten_stations_against_the_closed_form_of_1976(wire, ratio, results):
    """Ten stations send more than the formula gives, by the measured `ratio`.

    Metcalfe and Boggs, "Ethernet: Distributed Packet Switching for Local Computer Networks", 1976,
    section 6: E = (P/C) / (P/C + W T), W = (1 - A) / A, A = (1 - 1/Q)^(Q-1). With Q = 10, T a slot
    of 51.2 us and P a frame with its preamble, W is 1.58 and E 0.416 with frames of 64 bytes, 0.938
    with 1518. It takes all ten to try in every slot with probability 1/10, whatever was before, a
    vain try to cost a slot, and no gap. So it is right, within half a percent, where frames outlast
    most backoffs and a collision takes a slot: long frames, half a slot of propagation (0.942; per
    frame 1.29 slots and a gap). Without length a collision takes a fifth of a slot (0.973). Of
    short frames many fit into a backoff, few stations contend, and it is half of what is sent
    (0.831, 0.796; 0.04 and 0.10 slots).

    Boggs, Mogul and Kent, "Measured Capacity of an Ethernet: Myths and Reality", 1988, measured far
    more than the formula, too: the axis of their figure 12, with frames of 64 bytes alone in curve
    8/0, is from 7 to 10 Mbit/s. It is a drawing, without numbers to hold this against.
    """
    stations, frame = 10, csma_cd.frame_ns(wire[1] + HEADERS)
    acquired = (1 - 1 / stations) ** (stations - 1)
    closed = frame / (frame + (1 - acquired) / acquired * csma_cd.SLOT)
    number = REQUESTS.index(dict(zip(WORDS, (stations, *wire, 10), strict=True)))
    assert measured(results[number], wire[1])["busy"] / closed == pytest.approx(ratio, rel=0.005)


@all_saturated
def test_counts_add_up(number, results):
    result, request = results[number], REQUESTS[number]
    stations = result["stations"]
    length = request["payload"] + HEADERS
    sent = sum(station["tx"]["packets"] for station in stations)
    collisions = sum(station["collisions"] for station in stations)
    # Each sends to the next one, and receives what is addressed to it alone.
    before = (stations[-1], *stations[:-1])
    for given, station, source in zip(result["given"], stations, before, strict=True):
        assert given == station["tx"]["packets"] + station["excessive"]
        assert station["tx"]["bytes"] == length * station["tx"]["packets"]
        for what in ("packets", "bytes"):
            assert station["rx"][what] == source["tx"][what]
        assert station["tx"]["collisions"] == station["collisions"]
        assert station["tx"]["errors"] == station["excessive"]
        assert station["tx"]["dropped"] == station["rx"]["dropped"] == 0
        assert station["busy"] == csma_cd.frame_ns(length) * sent
        assert station["contention"] == stations[0]["contention"]
        shortest, longest = result["elapsed"]
        assert shortest <= sum(station[part] for part in ("busy", "contention", "idle")) <= longest
    if request["propagation"] == 0:
        # A collision lasts as long as its preamble and jam, which is a gap; two or more are in it.
        times, rest = divmod(stations[0]["contention"], csma_cd.GAP)
        assert rest == 0
        assert 2 * times <= collisions
        assert max(station["collisions"] for station in stations) <= times

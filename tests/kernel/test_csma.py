"""A wire of type csma in a guest: line rate, two stations that always have a frame, its sums."""

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
from tcpf_lab.results import RunFiles
from tcpf_lab.testbed.uml import UmlTestbed

GUEST = Path(__file__).with_name("csma_guest.py")
#: Headers of UDP, IP and Ethernet, bytes.
HEADERS = 42
COUNT = 500
SECONDS = 20
PAYLOADS = (1, 18, 19, 1472)
REQUESTS = (
    *({"payload": payload, "count": COUNT} for payload in PAYLOADS),
    *({"payload": payload, "seconds": SECONDS} for payload in (18, 1472)),
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


@pytest.mark.parametrize("number", range(len(PAYLOADS), len(REQUESTS)), ids=["short", "long"])
def test_two_stations_that_always_have_a_frame_do_as_the_model(number, results):
    stations = results[number]["stations"]
    length = REQUESTS[number]["payload"] + HEADERS
    model = csma_cd.saturated(length, 200 * 10**9, seed=1)
    sent = sum(station["tx"]["packets"] for station in stations)
    share = sent * csma_cd.frame_ns(length) / (SECONDS * 10**9)
    assert share == pytest.approx(model.sent * csma_cd.frame_ns(length) / model.now, rel=0.02)
    collisions = stations[0]["collisions"] / sent
    assert collisions == pytest.approx(model.collisions / model.sent, rel=0.05)


@pytest.mark.parametrize("number", range(len(PAYLOADS), len(REQUESTS)), ids=["short", "long"])
def test_counts_add_up(number, results):
    result = results[number]
    stations = result["stations"]
    frame = csma_cd.frame_ns(REQUESTS[number]["payload"] + HEADERS)
    # Of two stations on a wire without length, both are in every collision.
    assert stations[0]["collisions"] == stations[1]["collisions"]
    assert stations[0]["tx"]["packets"] == stations[1]["rx"]["packets"]
    assert stations[1]["tx"]["packets"] == stations[0]["rx"]["packets"]
    for station in stations:
        assert station["tx"]["collisions"] == station["collisions"]
        assert station["tx"]["errors"] == station["excessive"]
        assert station["tx"]["dropped"] == 0
        assert station["busy"] == frame * sum(each["tx"]["packets"] for each in stations)
        assert station["contention"] == csma_cd.GAP * station["collisions"]
        shortest, longest = result["elapsed"]
        whole = sum(station[part] for part in ("busy", "contention", "idle"))
        assert shortest <= whole <= longest

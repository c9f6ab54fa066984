"""Markers on real frames in a guest: codepoints by the model, all else as it was, sums right."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import frames
import pytest
from frames import Frame
from harness import locked
from models.token_marker import MODES, TokenMarker

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results import RunFiles
from tcpf_lab.testbed.uml import UmlTestbed

GUEST = Path(__file__).with_name("frames_guest.py")
DIRECTIONS = ("egress", "ingress")
COUNT = 400
INTERVAL = 400_000_000  # ns
#: Bytes; about a third of what is sent, of all or of one flow.
TOKENS = {"reset": 10_000, "continuous": 10_000, "flow": 800}
IN, OUT = 18, 20
WORDS = f"interval 400ms in {IN} out {OUT} flows 8"
TOKEN = {mode: f"token {WORDS} tokens {TOKENS[mode]} mode {mode}" for mode in MODES}
MARKERS = (*TOKEN.values(), f"tcpf {WORDS} tokens 10000")
RUNS = [(direction, words) for direction in DIRECTIONS for words in MARKERS]


def sent(words: str) -> list[Frame]:
    return frames.mixture(COUNT, MARKERS.index(words))


@pytest.fixture(scope="session")
def results(uml: UmlTestbed, products: Path) -> list[dict[str, Any]]:
    """Return what came of each of `RUNS`; the workers of a session boot one guest together."""
    run = RunFiles(products / "marker-frames")
    with locked(products):
        if not run.root.exists():
            run.create()
            requests = [
                {
                    "direction": direction,
                    "words": words,
                    "frames": [f.data.hex() for f in sent(words)],
                }
                for direction, words in RUNS
            ]
            (run.root / "log/request.json").write_text(json.dumps(requests))
            loads = tuple(LoadModule("R1", name) for name in ("act_token", "act_tcpf"))
            files = ("log/request.json", "log/result.json")
            python = Command(None, (sys.executable, "-I", "-S", str(GUEST), *files))
            phases = (Phase("modules", loads), Phase("frames", (python,)))
            uml.execute(Plan(phases, {}, (0.0, 60.0), ()), run, seed=1)
    return json.loads((run.root / "log/result.json").read_text())


@pytest.fixture(params=RUNS, ids=lambda run: f"{run[0]}-{run[1].split()[0]}-{run[1].split()[-1]}")
def case(request, results) -> tuple[str, str, dict[str, Any]]:
    return *request.param, results[RUNS.index(request.param)]


def in_by_model(mode: str, result: dict[str, Any], packets: list[Frame]) -> list[bool | None]:
    """Say of each packet whether it is IN; None: it is not the marker's business."""
    model = TokenMarker(mode, INTERVAL, TOKENS[mode], 8, result["start"], Fraction)
    verdicts: list[bool | None] = []
    for packet, now in zip(packets, result["sent"], strict=True):
        if packet.flow < 0:
            verdicts.append(None)
            continue
        inside, _ = model.packet(now, packet.length, packet.flow)
        if inside:
            model.take(packet.length, packet.flow)
        verdicts.append(inside)
    return verdicts


@pytest.mark.uml
def test_nothing_but_codepoint_and_checksum_changes(case):
    _, words, result = case
    arrived = [bytes.fromhex(frame) for frame in result["marked"]]
    assert len(arrived) == COUNT
    codepoints = {IN: 0, OUT: 0}
    for packet, frame in zip(sent(words), arrived, strict=True):
        if packet.flow < 0:
            assert frame == packet.data
            continue
        version = frame[14] >> 4
        dscp = frame[15] >> 2 if version == 4 else (frame[14] << 4 | frame[15] >> 4) >> 2 & 63
        codepoints[dscp] += 1
        expected = frames.remarked(packet.data, dscp)
        if version == 4 and expected[24:26] != frame[24:26]:
            # The two forms of zero in ones' complement; the sum is right with either.
            assert {expected[24:26], frame[24:26]} == {b"\0\0", b"\xff\xff"}
            expected = expected[:24] + frame[24:26] + expected[26:]
        assert frame == expected
        if version == 4:
            assert frames.total(frame[14 : 14 + (frame[14] & 15) * 4]) == 0xFFFF
    assert min(codepoints.values()) > COUNT / 10


@pytest.mark.uml
def test_captures_beside_the_marker_have_the_frames_as_they_were_sent(case):
    direction, words, result = case
    if direction == "ingress":
        assert result["tap"] == [packet.data.hex() for packet in sent(words)]
    else:
        assert result["tap"] == result["marked"]


@pytest.mark.uml
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_token_marks_as_the_model_does(mode, direction, results):
    words = TOKEN[mode]
    result = results[RUNS.index((direction, words))]
    packets = sent(words)
    verdicts = in_by_model(mode, result, packets)
    expected = [
        packet.data if inside is None else frames.remarked(packet.data, IN if inside else OUT)
        for packet, inside in zip(packets, verdicts, strict=True)
    ]
    differing = [
        number
        for number, (frame, marked) in enumerate(zip(expected, result["marked"], strict=True))
        if frame[:24] + frame[26:] != bytes.fromhex(marked)[:24] + bytes.fromhex(marked)[26:]
    ]
    assert differing == []
    counted = result["shown"][-1]["actions"][0]["xstats"]
    assert counted["in_packets"] == verdicts.count(True)
    assert counted["out_packets"] == verdicts.count(False)
    assert counted["in_bytes"] == sum(
        packet.length for packet, inside in zip(packets, verdicts, strict=True) if inside
    )
    assert counted["untouched"] == verdicts.count(None)
    assert (counted["evicted"] > 0, counted["flows_now"]) == (
        (True, 8) if mode == "flow" else (False, 0)
    )

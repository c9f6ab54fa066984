"""Markers on real frames in a guest: codepoints by the model, all else as it was, sums right.

And what a VLAN tag that stands in a frame still hides, from markers and queues.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import frames
import pytest
from frames import Frame
from models.markers import MODES, TokenMarker
from run_maker import locked

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

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
@pytest.mark.full
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
@pytest.mark.full
def test_captures_beside_the_marker_have_the_frames_as_they_were_sent(case):
    direction, words, result = case
    if direction == "ingress":
        assert result["tap"] == [packet.data.hex() for packet in sent(words)]
    else:
        assert result["tap"] == result["marked"]


@pytest.mark.uml
@pytest.mark.full
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


#: A packet of AF11, without a VLAN tag and with one that stands in the frame.
IP = b"\x08\x00" + frames.ipv4(frames.tcp(100), 10 << 2)
PLAIN, TAGGED = frames.LINK + IP, frames.LINK + b"\x81\x00\x00\x07" + IP
EACH = 10  #: frames of either kind that the guest sends past each

#: Thresholds that drop nothing of so few frames.
RED = "in_min 20kb in_max 40kb in_probability 0.1 out_min 20kb out_max 40kb out_probability 0.1"
MARKER = "interval 400ms tokens 100000 forward egress"
SET_UP = {
    "rio": (f"tc qdisc add dev v0 root rio limit 60000 {RED}",),
    "frio": (f"tc qdisc add dev v0 root frio limit 60000 {RED}",),
    **{
        kind: (
            "tc qdisc add dev v0 clsact",
            f"tc filter add dev v0 egress matchall action {kind} {MARKER}",
        )
        for kind in ("token", "tcpf")
    },
}

#: A program of the guest; what was counted and what arrived goes to its output.
TAGS_GUEST = """
import json, select, socket, subprocess, time
from pathlib import Path

request = json.loads(Path("log/request.json").read_text())
Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")

def do(line):
    return subprocess.run(line.split(), check=True, capture_output=True, text=True).stdout

do("ip link add v0 type veth peer name v1")
do("ip link set v0 up")
do("ip link set v1 up")
found = {}
for name, lines in request["set_up"].items():
    for frame in ("plain", "tagged"):
        for line in lines:
            do(line)
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        tap.bind(("v1", 3))
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sender.bind(("v0", 0))
        for _ in range(request["each"]):
            sender.send(bytes.fromhex(request[frame]))
        time.sleep(0.5)
        arrived = []
        while select.select([tap], [], [], 0.1)[0]:
            arrived.append(tap.recv(65535).hex())
        kind = "qdisc" if len(lines) == 1 else "actions"
        ask = "qdisc show dev v0" if kind == "qdisc" else f"actions list action {name}"
        shown = json.loads(do(f"tc -s -j {ask}"))
        found[f"{name} {frame}"] = {"shown": shown, "arrived": arrived}
        do("tc qdisc del dev v0 " + ("root" if kind == "qdisc" else "clsact"))
print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def by_tag(uml: UmlTestbed, products: Path) -> dict[str, Any]:
    run = RunFiles(products / "tagged-frames")
    with locked(products):
        if not run.root.exists():
            run.create()
            request = {"set_up": SET_UP, "each": EACH, "plain": PLAIN.hex(), "tagged": TAGGED.hex()}
            (run.root / "log/request.json").write_text(json.dumps(request))
            (run.root / "log/guest.py").write_text(TAGS_GUEST)
            words = (sys.executable, "-I", "-S", "log/guest.py")
            python = Command(None, words, "stats/found.json")
            modules = ("sch_rio", "sch_frio", "act_token", "act_tcpf")
            loads = tuple(LoadModule("R1", name) for name in modules)
            phases = (Phase("modules", loads), Phase("frames", (python,)))
            uml.execute(Plan(phases, {}, (0.0, 60.0), ()), run, seed=1)
    return dict(json.loads((run.stats / "found.json").read_text()))


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("queue", ["rio", "frio"])
def test_queues_take_what_has_a_tag_still_in_it_for_out(by_tag: dict[str, Any], queue: str) -> None:
    for kind, inside in (("plain", EACH), ("tagged", 0)):
        (shown,) = (q for q in by_tag[f"{queue} {kind}"]["shown"] if q["kind"] == queue)
        enqueued = [shown[part]["enqueued"] for part in ("in", "out")]
        assert enqueued == [inside, EACH - inside]
        assert len(by_tag[f"{queue} {kind}"]["arrived"]) == EACH


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("marker", ["token", "tcpf"])
def test_markers_leave_what_has_a_tag_still_in_it_alone(
    by_tag: dict[str, Any], marker: str
) -> None:
    for kind, marked in (("plain", EACH), ("tagged", 0)):
        parts = by_tag[f"{marker} {kind}"]["shown"]
        (action,) = [a for part in parts for a in part.get("actions", [])]
        counted = action["xstats"]
        assert counted["in_packets"] + counted["out_packets"] == marked
        left_alone = (
            counted["untouched"] if marker == "token" else counted["unparseable"]["packets"]
        )
        assert left_alone == EACH - marked
        assert len(by_tag[f"{marker} {kind}"]["arrived"]) == EACH
    # The device at the other end takes the tag out; behind it the packet is as it was sent.
    assert {frame[28:] for frame in by_tag[f"{marker} tagged"]["arrived"]} == {IP[2:].hex()}

"""Linux 2.2's TCP, behaviour by behaviour: a scripted peer, and the kernel's answers to a tick.

Each scenario is played with the switches that it names off, which is today's kernel, and on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tcp_scenario
from run_maker import locked

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml.guest import UmlTestbed

pytestmark = pytest.mark.uml

GUEST = Path(__file__).with_name("tcp_scenario_guest.py")
SCENARIOS = tcp_scenario.read_all()
PLAYED = [played for one in SCENARIOS for played in one.variants()]
SWITCHES = ("rto", "rto_age", "go_back_n", "fast_retransmit", "delayed_ack", "growth")
BEGUN = "initcwnd 4\n+0 write 8\n+0 > 0-3\n"
#: What is not so, and what is said of it.
WRONG = {
    "+0.1 < ack 4\n+0.01 > 4": "'4' at +0.000001 already",
    "+0.1 < ack 4\n+0 > 5": "'4' at +0.000001, not '5'",
    "+0.1 < ack 2\n+0.1 < ack 4": "unexpected '4' at +0.000001",
    "+0.1 < ack 4\n+0 > 4-6": "the end: unexpected '7'",
    "+0 > 4": "nothing by +0.000100, not '4'",
    "+0.29t > 0": "nothing by +0.300000, not '0'",
    "+0.31t > 0": "'0' at +0.30",
    "+0 info snd_cwnd=5": "snd_cwnd is 4",
    "+0.2 < ack 0\n+0.2 quiet": "unexpected '0' at +0.106",
}
REFUTED = [
    tcp_scenario.read(f"wrong-{number}", BEGUN + text).played(on=False)
    for number, text in enumerate(WRONG)
]
REQUEST, OUTCOMES = "log/scenarios.json", "log/outcomes.jsonl"


def play(uml: UmlTestbed, run: RunFiles, played: list[dict[str, Any]]) -> None:
    """Play scenarios one after the other in one guest."""
    run.create()
    (run.root / REQUEST).write_text(json.dumps(played), encoding="ascii")
    words = (sys.executable, "-E", "-S", "-B", str(GUEST), REQUEST, OUTCOMES)
    phase = Phase("scenarios", (Command(None, words),))
    uml.execute(Plan((phase,), {}, (0.0, 100.0), ()), run, seed=1)


@pytest.fixture(scope="module")
def outcomes(uml: UmlTestbed, products: Path) -> dict[str, dict[str, Any]]:
    """Return what came of each scenario; the workers of a session boot one guest together."""
    run = RunFiles(products / "tcp-scenarios")
    with locked(products):
        if not run.root.exists():
            play(uml, run, [*REFUTED, *PLAYED])
    lines = (run.root / OUTCOMES).read_text(encoding="ascii").splitlines()
    return {outcome["id"]: outcome for outcome in map(json.loads, lines)}


def told(outcome: dict[str, Any]) -> str:
    """Write down what was sent and when, for whoever has to find out why."""
    lines = [f"{one['ns'] / 1e9:11.6f} {one['way']} {one['text']}" for one in outcome["log"]]
    return "\n".join([str(outcome["failure"]), *lines, str(outcome["info"])])


@pytest.mark.parametrize(
    ("played", "said"), list(zip(REFUTED, WRONG.values(), strict=True)), ids=WRONG.keys()
)
def test_what_is_not_so_is_said(
    played: dict[str, Any], said: str, outcomes: dict[str, dict[str, Any]]
) -> None:
    outcome = outcomes[played["id"]]
    assert said in str(outcome["failure"]), told(outcome)


def test_every_switch_is_shown_and_off_unless_set(outcomes: dict[str, dict[str, Any]]) -> None:
    assert {name for one in SCENARIOS for name in one.switches} == set(SWITCHES)
    found = outcomes["all_off-off"]["switches"]
    assert found == {f"tcp_linux22_{name}": "0" for name in SWITCHES}


@pytest.mark.parametrize("played", PLAYED, ids=lambda played: played["id"])
def test_kernel_answers_as_written(
    played: dict[str, Any], outcomes: dict[str, dict[str, Any]]
) -> None:
    outcome = outcomes[played["id"]]
    assert outcome["failure"] is None, told(outcome)

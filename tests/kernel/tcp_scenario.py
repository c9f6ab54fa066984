"""Read the scenarios of ``tcp_scenarios.txt``: plain data for ``tcp_scenario_guest.py``.

A scenario begins with ``=== NAME``, the behaviour that it shows, as a comment, and settings, a line
each::

    switch rto go_back_n    the scenario is played with net.ipv4.tcp_linux22_... off and on
    open passive            the peer has connected (or active: the kernel has; syn, synack:
                            the handshake is in the script, after the peer's SYN if there is one)
    sack 1                  timestamps 0, initcwnd 2, rtt 0.1 (of the handshake, s), rto_min 500ms,
    window 64000            (announced by the peer), sysctl NAME=VALUE below net.ipv4

Then come steps. ``off`` or ``on`` before one is for that case only; the time is in seconds since
what happened last. Numbers are segments of 1000 bytes, from 0 in each direction::

    +0 write 10             the program behind the kernel's socket sends ten segments
    +0 > 0-3                the kernel sends these four, at this time and nothing before them
    +0.39t > 0              a timer's doing: it may be as late as the kernel's wheel of timers lets
                            it be, which is a tick below 640 ms and 80 ms below 5 s
    +0.1 < ack 2 sack 4-5 7 the peer has all before 2 (and with timestamps echoes that of the latest
                            transmission of what it awaited, or of the first: echo first)
    +0.1 < 0-1              the peer sends data, and the program behind the kernel's socket reads
    +0.1 < push 2           pushed (PSH); +0.1 < small 2: of 100 bytes, too, and the last to come
    +0.1 < ack 2 window 0   what it announces from now on, after what it SACKs
    +0 close                the program sends no more: > fin, alone or with the last of the data
    +0 > ack 2 sack 4       the kernel acknowledges; acks 3 5: once each
    > syn, > synack, < synack
    +0.1 exchange 20        twenty times: write a segment, have it acknowledged after 0.1 s
    +0.5 quiet              nothing comes from the kernel for so long
    +0 info snd_cwnd=5      the socket's own word (``INFO`` in ``tcp_peer.py``)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.parts import read_parts

SCENARIOS = Path(__file__).with_name("tcp_scenarios.txt")
#: What every scenario begins from: today's TCP without what sysctls can take away.
SYSCTLS = {
    "tcp_recovery": "0",
    "tcp_early_retrans": "0",
    "tcp_frto": "0",
    "tcp_dsack": "0",
    "tcp_ecn": "0",
    "tcp_no_metrics_save": "1",
    "tcp_slow_start_after_idle": "0",
    "tcp_congestion_control": "reno",
}
DEFAULTS = {"sack": "1", "timestamps": "0", "initcwnd": "2", "rtt": "0.1", "open": "passive"}
SETTINGS = {*DEFAULTS, "switch", "rto_min", "window"}
STEP = re.compile(r"(?:(?P<only>on|off) +)?\+(?P<after>\d+(?:\.\d+)?)(?P<timer>t?) +(?P<what>\S.*)")


@dataclass(frozen=True)
class Scenario:
    """A scenario as it is written; ``switches`` are what is off once and on once."""

    name: str
    behaviour: str
    switches: tuple[str, ...]
    settings: dict[str, str]
    sysctls: dict[str, str]
    steps: tuple[dict[str, Any], ...]

    def played(self, on: bool) -> dict[str, Any]:
        """Return what the guest is told to play with the switches on or off."""
        switches = {f"tcp_linux22_{name}": "1" for name in self.switches if on}
        common = {name: self.settings[name] for name in ("sack", "timestamps")}
        own = {f"tcp_{name}": value for name, value in common.items()}
        left_out = "off" if on else "on"
        return {
            "id": f"{self.name}-{'on' if on else 'off'}",
            "settings": self.settings,
            "sysctls": {**SYSCTLS, **own, **self.sysctls, **switches},
            "steps": [step for step in self.steps if step["only"] != left_out],
        }

    def variants(self) -> list[dict[str, Any]]:
        """Return the scenario with its switches off and on, if it has steps for that case."""
        today = any(step["only"] != "on" for step in self.steps)
        return [self.played(on) for on in (False, True) if (self.switches if on else today)]


def read(name: str, text: str) -> Scenario:
    """Read one scenario; raise ValueError with the line that is not understood."""
    behaviour: list[str] = []
    settings, sysctls = dict(DEFAULTS), {}
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.split("#")[0].strip()
        word, _, value = said.partition(" ")
        if not said:
            if line.startswith("#") and not steps:
                behaviour.append(line.lstrip("# "))
        elif matched := STEP.fullmatch(said):
            steps.append({"line": f"{name}:{number}: {said}"} | step(**matched.groupdict()))
        elif word == "sysctl":
            key, _, setting = value.partition("=")
            sysctls[key] = setting
        elif word in SETTINGS and not steps:
            settings[word] = value
        else:
            raise ValueError(f"{name}:{number}: not understood: {said}")
    switches = tuple(settings.pop("switch", "").split())
    return Scenario(name, " ".join(behaviour), switches, settings, sysctls, tuple(steps))


def step(only: str | None, after: str, timer: str, what: str) -> dict[str, Any]:
    """Take one step apart; times become ns."""
    verb, _, rest = what.partition(" ")
    return {
        "only": only,
        "after_ns": round(float(after) * 1e9),
        "timer": bool(timer),
        "verb": verb,
        "rest": rest,
    }


def read_all() -> list[Scenario]:
    return [read(name, text) for name, text in read_parts(SCENARIOS).items()]

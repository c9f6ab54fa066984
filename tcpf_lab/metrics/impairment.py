"""Whether a path impaired on purpose lost what it was to lose, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tcpf_lab.metrics.evidence import link_drops, qdiscs
from tcpf_lab.metrics.in_force import Finding, differences, verdict
from tcpf_lab.metrics.record import Record
from tcpf_lab.metrics.wire_counters import given_up
from tcpf_lab.results import RunFiles

#: tc counts time in 64 ns and cuts what it shows to whole microseconds.
_TIME_STEP_S = 1e-6
#: How far the lost packets may be from their expected number: no chance deviates so much.
_DEVIATIONS = 6.0


def impairments_in_force(files: RunFiles, run: Record) -> Finding:
    """Every impaired device must have the ``netem`` asked for, and its losses must be netem's."""
    wanted = run.expect.get("impaired_devices")
    if not wanted:
        return None, "nothing is impaired"
    problems, lost = [], 0
    for device, asked in wanted.items():
        found = qdiscs(files, device)
        roots = [q for q in found if q.get("root") and q["kind"] == "netem"]
        if not roots:
            problems.append(f"{device} has no netem")
            continue
        below = sum(int(q["drops"]) for q in found if not q.get("root"))
        below += link_drops(files, device) - given_up(files, run, device)
        lost += int(roots[0]["drops"])
        problems += _options(device, roots[0].get("options", {}), asked["options"])
        problems += [f"{device}: {below} lost behind netem"] if below else []
        # netem counts a packet twice that it has to take back; the queue behind it does not.
        passed = min(int(q["packets"]) for q in found)
        problems += _share(device, int(roots[0]["drops"]), passed, asked)
    return verdict(problems, f"{len(wanted)} devices, {lost} packets lost on purpose")


def _options(device: str, found: dict[str, Any], asked: dict[str, Any]) -> Iterator[str]:
    for name, values in asked.items():
        shown = dict(found.get(name) or {})
        if name == "delay":
            shown |= {key: value for key, value in values.items() if _same_time(shown, key, value)}
        yield from differences(f"{device}: netem {name}", shown, values)


def _same_time(shown: dict[str, Any], key: str, asked: float) -> bool:
    return key in shown and abs(float(shown[key]) - asked) <= 1.01 * _TIME_STEP_S


def _share(device: str, lost: int, passed: int, asked: dict[str, Any]) -> Iterator[str]:
    """Compare the lost packets with their expected number.

    Losses in bursts of mean length b vary as if there were 2 b - 1 times fewer trials.  netem does
    not count a packet that it both loses and duplicates as lost.
    """
    loss, trials = float(asked["loss"]), passed + lost
    spread = math.sqrt(trials * loss * (1 - loss) * (2 * float(asked["loss_burst"]) - 1))
    most = trials * loss + _DEVIATIONS * spread
    least = trials * loss * (1 - float(asked["duplicate"])) - _DEVIATIONS * spread
    if not least <= lost <= most:
        yield f"{device}: {lost} of {trials} packets lost, asked for a share of {loss:g}"

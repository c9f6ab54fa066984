"""The points of a run at which it is killed, and what is written down of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import AgreeEpoch
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.steps import Placement, Translator, groups
from tcpf_lab.testbed.vm import layout
from tcpf_lab.testbed.vm.layout import ROLES

CONTROLLER, CONNECTION, SILENCE, SSHD = "controller", "connection", "silence", "sshd"


@dataclass(frozen=True)
class Step:
    """Requests that a run makes together, and how many have been answered before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Point:
    """Where a run is killed, and what is killed."""

    kind: str  #: CONTROLLER, CONNECTION (ended), SILENCE (nothing passes any more) or SSHD
    role: str  #: whose connection or sshd
    step: str
    answers: int  #: so many requests have been answered
    traffic: bool = False  #: and so many packets have come through that it is under way


@dataclass
class Outcome:
    """What has become of it."""

    point: Point
    status: int | None
    said: str
    answered: int  #: requests that were answered when it had been done
    differences: list[str]
    undone_s: float  #: from the kill until the hosts were seen to be what they were
    took_s: float

    def as_json(self) -> dict[str, Any]:
        return {
            "killed": self.point.kind,
            "role": self.point.role,
            "step": self.point.step,
            "after_requests": self.point.answers,
            "answered": self.answered,
            "status": self.status,
            "differences": self.differences,
            "undone_s": round(self.undone_s, 1),
            "took_s": round(self.took_s, 1),
        }


def steps_of(plan: Plan, inventory: Inventory) -> Iterator[Step]:
    """Give the steps of a run in order, those before and after the plan's among them."""
    first = {role: guest.roles[0] for guest in layout.GUESTS for role in guest.roles}
    owner_of = {layout.host_name(a): layout.host_name(b) for a, b in first.items()}
    anything = dict.fromkeys(owner_of, "here")
    placement = Placement(inventory, owner_of, anything, agents=dict.fromkeys(owner_of, 1))
    translator = Translator(plan, placement)
    epochs = dict.fromkeys(owner_of, 0)
    counts = [("facts", len(ROLES)), ("begin", len(ROLES))]
    for group in groups(plan):
        if isinstance(group.steps[0], AgreeEpoch):
            counts.append((group.phase, len(ROLES)))  # what the interfaces have counted so far
            continue
        requests = translator.requests(group, epochs)
        counts.append((group.phase, sum(map(len, requests.values()))))
    counts += [("lateness", len(ROLES)), ("undo", len(ROLES))]
    answered = 0
    for name, count in counts:
        yield Step(name, answered, answered + count)
        answered += count


def points(steps: tuple[Step, ...]) -> Iterator[Point]:
    """Give every kind of kill at every step: at its beginning, in its middle, at its end.

    Silence takes longest to be noticed, and comes at every fourth step.
    """
    for kind in (CONTROLLER, CONNECTION, SSHD):
        yield Point(kind, ROLES[0], "connect", 0)
    for number, step in enumerate(steps):
        roles = [ROLES[(number + kind) % len(ROLES)] for kind in range(4)]
        middle = (step.before + step.after + 1) // 2
        yield Point(CONTROLLER, roles[0], step.name, step.before + 1)
        yield Point(CONNECTION, roles[1], step.name, middle)
        yield Point(SSHD, roles[2], step.name, step.after)
        if number % 4 == 1:
            yield Point(SILENCE, roles[3], step.name, middle)
        if step.name == "senders":
            for kind, role in ((CONTROLLER, "S"), (CONNECTION, "R1"), (SSHD, "R0"), (SILENCE, "D")):
                yield Point(kind, role, "traffic", step.after, traffic=True)


def mixed(steps: tuple[Step, ...]) -> list[Point]:
    """Give all of them in an order of which any beginning has seen all parts of a run."""
    found = list(points(steps))
    return [point for start in range(7) for point in found[start::7]]


def slice_of(steps: tuple[Step, ...]) -> list[Point]:
    """Give a kill of an sshd while there is traffic, and one of the controller before that."""
    (under_way,) = (p for p in points(steps) if p.traffic and p.kind == SSHD)
    early = (p for p in points(steps) if p.step == "rates, delays and queues")
    return [under_way, next(p for p in early if p.kind == CONTROLLER)]


def write(path: Path, outcomes: list[Outcome], seconds: float, **facts: Any) -> dict[str, Any]:
    """Write what was found as JSON; return it."""
    kinds = [outcome.point.kind for outcome in outcomes]
    undone = sorted(outcome.undone_s for outcome in outcomes)
    found = {
        **facts,
        "kill_points": len(outcomes),
        "by_kind": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        "different": sum(bool(outcome.differences) for outcome in outcomes),
        "undone_s": {"median": undone[len(undone) // 2], "longest": undone[-1]},
        "seconds": round(seconds, 1),
        "points": [outcome.as_json() for outcome in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return found

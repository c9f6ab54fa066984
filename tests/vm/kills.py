"""The points of a run at which it is killed, and what is written down of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import host_picture
from guest_hosts import Hosts

from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import AgreeEpoch
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.testbed.inventory import Inventory, load_inventory
from tcpf_lab.testbed.ssh.run import REQUESTS
from tcpf_lab.testbed.ssh.steps import Placement, Translator, groups
from tcpf_lab.testbed.vm import layout
from tcpf_lab.testbed.vm.layout import HERE, ROLES

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


# A place between us and the hosts' sshds where connections are cut, or fall silent.

_AT_ONCE = struct.pack("ii", 1, 0)
_PIECE = 1 << 16


class Relay:
    """Passes connections on to a port.

    Parameters
    ----------
    target : int
        The port of this machine that they lead to.

    Attributes
    ----------
    port : int
        Where they come in.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server((HERE, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def used(self) -> bool:
        """Whether a connection has come in since the last `cut`."""
        with self._lock:
            return bool(self._ends)

    def cut(self) -> None:
        """End all connections at both ends, as a firewall does that has forgotten them."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                end.shutdown(socket.SHUT_RD)  # wakes whoever reads
            end.close()
        self._passes.set()

    def silence(self) -> None:
        """Let nothing pass any more, as if the cable were out; `cut` puts an end to it."""
        self._passes.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection((HERE, self._target))
        except OSError:
            near.close()
            return
        with self._lock:
            self._ends += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                self._passes.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


# Runs that are killed: where, by what, and what becomes of controller and hosts.

#: Two flows for two seconds, through everything that a run can bring onto a host.
SPEC = "smoke.yaml"
CHOICE = "case=TCPF+FRIO"
SETTINGS = (
    "matrix.flows=2",
    "traffic.start_spread=200 ms",
    "traffic.warmup=500 ms",
    "traffic.duration=2 s",
    "topology.chain.delay=40 ms",
    "topology.chain.duplex=half",
)
#: All is undone so soon after a kill, s: an agent may hear nothing for 90 s before it undoes
#: anything, and does so on an emulated machine.
UNDONE_S = 240.0
#: The controller takes an agent that says nothing for lost after 135 s, and then lets the others
#: undo, s.
ENDED_S = 480.0
#: A step is reached so soon, s.
REACHED_S = 600.0
#: So much has come to the receiver when the traffic is in full swing, bytes.
FLOWING = 100_000
_WAIT_FOR_TRAFFIC = f"""
file=/sys/class/net/D-R2/statistics/rx_bytes
ip netns exec tcpf-D sh -c 'until [ "$(cat '$file')" -gt {FLOWING} ]; do sleep 0.05; done'
"""


@dataclass
class Killing:
    """Makes runs on hosts, through relays, and kills them.

    Parameters
    ----------
    hosts : Hosts
        The hosts.
    directory : Path
        For inventory and results.
    """

    hosts: Hosts
    directory: Path
    relays: dict[str, Relay] = field(init=False)
    before: host_picture.Picture = field(init=False)

    def __post_init__(self) -> None:
        self.relays = {role: Relay(port) for role, port in self.hosts.ports.items()}
        ports = {role: relay.port for role, relay in self.relays.items()}
        state = self.hosts.state
        keys = {role: (state.keys / f"{role}.pub").read_text().rsplit(maxsplit=1)[0]
                for role in ROLES}  # fmt: skip
        (self.directory / "keys").symlink_to(state.keys)
        written = {
            "ssh_config": layout.ssh_config(ports, self.directory),
            "known_hosts": layout.known_hosts(ports, keys),
            "inventory.yaml": layout.inventory(ports, str(self.hosts.facts["release"])),
        }
        for name, text in written.items():
            (self.directory / name).write_text(text)
        self.before = host_picture.settle_in(self.hosts)

    @property
    def inventory(self) -> Path:
        """The hosts as they are reached through the relays."""
        return self.directory / "inventory.yaml"

    @property
    def words(self) -> list[str]:
        """The command line of the run."""
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        where = ("--testbed", str(self.inventory))
        return ["run", SPEC, "--keep-pcaps", "--only", CHOICE, *settings, *where]

    @property
    def partial(self) -> Path:
        """The run's directory while it is made."""
        return self.files.root.with_name(f"{self.files.root.name}.partial")

    @cached_property
    def files(self) -> RunFiles:
        """The run's directory."""
        name = f"{Path(SPEC).stem}/{layout.NAME}/{self._run.id}"
        return RunFiles(self.directory / "results" / name)

    @cached_property
    def _run(self) -> Any:
        results = self.directory / "results"
        asked = RunRequest(SPEC, str(self.inventory), results, (CHOICE,), None, tuple(SETTINGS))
        (run,) = choose(asked).runs
        return run

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of a run in order."""
        return tuple(steps_of(compose(self._run), load_inventory(self.inventory)))

    def complete(self) -> str:
        """Make a whole run; return what `tcpf-lab` has said."""
        process = self._start()
        said = process.communicate(timeout=REACHED_S)[0]
        assert self.files.root.is_dir(), said
        return said

    def kill_at(self, point: Point) -> Outcome:
        """Make a run, kill what is to be killed, wait until all is quiet, and look."""
        began = time.monotonic()
        strike = self._prepare(point)
        process = self._start()
        try:
            self._reach(point, process)
            strike(process)
            killed, answered = time.monotonic(), self.answered()
            said = process.communicate(timeout=ENDED_S)[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        # A silent host undoes the run in silence; its sshd learns of the end of the connection when
        # the cable is in again.
        host_picture.until_quiet(self.hosts, UNDONE_S)
        for relay in self.relays.values():
            relay.cut()
        found = host_picture.until_same(self.hosts, self.before, UNDONE_S)
        now = time.monotonic()
        status = process.returncode
        return Outcome(point, status, said, answered, found, now - killed, now - began)

    def answered(self) -> int:
        """Count the requests that have been answered."""
        for root in (self.partial, self.files.root):  # renamed once it is whole
            with suppress(FileNotFoundError):
                return (root / REQUESTS).read_bytes().count(b"\n")
        return 0

    def look_again(self) -> None:
        """Take the hosts as they are now for what they have to be after the next kill."""
        self.before = host_picture.take(self.hosts)

    def close(self) -> None:
        for relay in self.relays.values():
            relay.close()

    def _start(self) -> subprocess.Popen[str]:
        for relay in self.relays.values():
            relay.cut()
        shutil.rmtree(self.directory / "results", ignore_errors=True)
        return self.hosts.lab(*self.words, directory=self.directory)

    def _reach(self, point: Point, process: subprocess.Popen[str]) -> None:
        until = time.monotonic() + REACHED_S
        while not self._reached(point):
            if process.poll() is not None or time.monotonic() > until:
                os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(f"{point} is not reached: {process.communicate()[0]}")
            time.sleep(0.002)
        if point.traffic:
            self.hosts("D", _WAIT_FOR_TRAFFIC)

    def _reached(self, point: Point) -> bool:
        if point.answers == 0:
            return all(relay.used for relay in self.relays.values())
        return self.answered() >= point.answers

    def _prepare(self, point: Point) -> Callable[[subprocess.Popen[str]], None]:
        """Return what kills."""
        relay = self.relays[point.role]
        if point.kind == CONTROLLER:
            return lambda process: process.kill()
        if point.kind == CONNECTION:
            return lambda _: relay.cut()
        if point.kind == SILENCE:
            return lambda _: relay.silence()
        # The listener, which is started again, and every session on the host.
        killer = self.hosts.armed(point.role, "exec pkill -KILL --ns $$ --nslist net '^sshd'")

        def strike(_process: subprocess.Popen[str]) -> None:
            assert killer.stdin is not None
            killer.stdin.write(b"now\n")
            killer.stdin.close()
            killer.wait(30)

        return strike

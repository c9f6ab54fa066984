"""Runs that are killed: where, by what, and what becomes of controller and hosts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import host_picture
from guest_hosts import Hosts
from kill_points import CONNECTION, CONTROLLER, SILENCE, Outcome, Point, Step, steps_of
from relay import Relay

from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run.selection import RunsAsked, choose
from tcpf_lab.testbed.inventory import load_inventory
from tcpf_lab.testbed.ssh.run import REQUESTS
from tcpf_lab.testbed.vm import layout
from tcpf_lab.testbed.vm.layout import ROLES

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
        asked = RunsAsked(SPEC, str(self.inventory), results, (CHOICE,), None, tuple(SETTINGS))
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

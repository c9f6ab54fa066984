"""Play TCP scenarios inside a guest; started there by ``test_linux22_tcp.py``.

``python tcp_scenario_guest.py SCENARIOS OUTCOMES``: SCENARIOS is a JSON list of what
``tcp_scenario.Scenario.played`` gives. For each, OUTCOMES gets a line of JSON: ``id``, ``failure``
(what was otherwise than written, or null), ``log`` (every segment in either direction, with ns
since the scenario's beginning), ``info`` (the socket's state at the end) and ``switches`` (their
values in a new namespace).

A scenario has a network namespace of its own, in which the kernel's only way out is a tun device.
The peer behind it is this program. What it sends leaves 4 ms after a tick (of 10 ms), and what the
kernel's own program writes 6 ms after one: no timer is due at the same time, and a round trip is a
little below the round number that the scenario says, so that rounding up always gives that number.
The kernel's answer, if it is due at once, has the same time to some microseconds.
"""

import ctypes
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

from tcp_peer import ACK, HERE, SIZE, SYN, Connection, decode, encode, numbers

TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001
SYSCTLS, SWITCHES = Path("/proc/sys/net/ipv4"), "tcp_linux22_*"
CLONE_NEWNET = 0x40000000
TICK = 10_000_000
SENT, WRITTEN = 4_000_000, 6_000_000  # ns after a tick
AT_ONCE = 100_000  # ns
#: How long the log goes on when something was otherwise, ns.
AFTERWARDS = 2_000_000_000

libc = ctypes.CDLL(None, use_errno=True)


class MismatchError(Exception):
    """The kernel did otherwise than the scenario says."""


def texts(rest):
    """List the segments that are to come: ``0 2-4`` and ``acks 1 3`` are several."""
    word, *many = rest.split()
    if word == "acks":
        return [f"ack {number}" for number in numbers(many)]
    return list(map(str, numbers([word, *many]))) if word[0].isdigit() else [rest]


def wheel_delay(after):
    """Say how late a timer of the kernel's wheel may be, ns (kernel/time/timer.c).

    Below 63 ticks to the next tick, then to the next eighth, then to the next 64th.
    """
    ticks = after // TICK
    return TICK * (1 if ticks < 63 else 8 if ticks < 504 else 64 if ticks < 4032 else 512)


class Device:
    """A tun device, and a clock that wakes at an exact time."""

    def __init__(self):
        self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN_NO_PI))
        self.timer = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK)

    def next(self, until):
        """Return the next segment and its time; None if none came before ``until``."""
        libc.timerfd_settime(self.timer, 1, struct.pack("4q", 0, 0, *divmod(until, 10**9)), None)
        while True:
            ready, _, _ = select.select([self.fd, self.timer], [], [])
            now = time.monotonic_ns()
            if self.fd in ready:
                segment = decode(os.read(self.fd, 65536))
                if segment:
                    return segment, now
            elif self.timer in ready:
                return None

    def close(self):
        os.close(self.timer)
        os.close(self.fd)


class Player:
    """Plays one scenario, step by step; raises `MismatchError` at the first difference."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.log = []
        self.line = "the handshake"
        self.device = Device()
        self.prepare()
        self.connection = Connection(scenario["settings"])
        now = time.monotonic_ns()
        self.start = self.at = now - now % TICK + 10 * TICK + WRITTEN

    def prepare(self):
        settings = self.scenario["settings"]
        for name, value in self.scenario["sysctls"].items():
            path = SYSCTLS / name
            if not path.exists():
                raise MismatchError(f"this kernel has no net.ipv4.{name}")
            path.write_text(value, encoding="ascii")
        route = f"initcwnd {settings['initcwnd']}"
        if "rto_min" in settings:
            route += f" rto_min {settings['rto_min']}"
        commands = (
            f"addr add {HERE}/32 dev tun0\n"
            "link set tun0 gso_max_segs 1 up\n"
            f"route add 10.7.0.0/24 dev tun0 src {HERE} {route}\n"
        )
        subprocess.run(["ip", "-batch", "-"], input=commands.encode(), check=True)

    # --- what happens

    def note(self, way, text, segment, at):
        fields = {name: value for name, value in vars(segment).items() if value}
        self.log.append({"ns": at - self.start, "way": way, "text": text} | fields)

    def next(self, until):
        found = self.device.next(until)
        if found is None:
            return None
        segment, at = found
        text = self.connection.describe(segment)
        self.note(">", text, segment, at)
        return text, at

    def fail(self, text):
        raise MismatchError(f"{self.line}: {text}")

    def since(self, at):
        return f"+{(at - self.at) / 1e9:.6f}"

    def wait(self, after, phase=None):
        """Let time pass, to ``phase`` of a tick if given; nothing may come from the kernel."""
        until = self.at + after
        if phase:
            until = max(self.at, until - until % TICK + phase)
        found = self.next(until)
        if found:
            self.fail(f"unexpected '{found[0]}' at {self.since(found[1])}")
        self.at = until

    def send(self, segment, text):
        self.note("<", text, segment, time.monotonic_ns())
        os.write(self.device.fd, encode(segment))

    def expect(self, wanted, after, late):
        found = self.next(self.at + after + late)
        if found is None:
            self.fail(f"nothing by {self.since(self.at + after + late)}, not '{wanted}'")
        text, at = found
        if text != wanted:
            self.fail(f"'{text}' at {self.since(at)}, not '{wanted}'")
        if at < self.at + after - 1000:
            self.fail(f"'{text}' at {self.since(at)} already")
        self.at = at

    # --- steps

    def handshake(self):
        how = self.scenario["settings"]["open"]
        rtt = round(float(self.scenario["settings"]["rtt"]) * 1e9)
        if how in ("passive", "synack"):
            self.connection.listen()
            self.wait(0)
            self.connection.here_isn = 0
            self.send(self.connection.begin(SYN), "syn")
        else:
            self.wait(0)
            self.connection.connect()
        if how == "passive":
            self.expect("synack", 0, AT_ONCE)
            self.wait(rtt, SENT)
            self.send(self.connection.segment(), "ack 0")
        elif how == "active":
            self.expect("syn", 0, AT_ONCE)
            self.wait(rtt, SENT)
            self.send(self.connection.begin(SYN | ACK), "synack")
            self.expect("ack 0", 0, AT_ONCE)

    def do_expect(self, step):
        late = wheel_delay(step["after_ns"]) if step["timer"] else AT_ONCE
        after = step["after_ns"]
        for text in texts(step["rest"]):
            self.expect(text, after, late)
            after, late = 0, AT_ONCE

    def do_inject(self, step):
        self.wait(step["after_ns"], SENT)
        rest, connection = step["rest"], self.connection
        if rest == "synack":
            self.send(connection.begin(SYN | ACK), rest)
        elif rest.startswith("ack "):
            self.send(connection.acknowledge(rest.removeprefix("ack ")), rest)
        else:
            for segment, text in connection.data(rest):
                self.send(segment, text)
                connection.read()

    def do_quiet(self, step):
        self.wait(step["after_ns"])

    def do_write(self, step):
        self.wait(step["after_ns"], WRITTEN)
        data = bytes(int(step["rest"]) * SIZE)
        if self.connection.established().send(data) != len(data):
            self.fail("the socket did not take it all")

    def do_close(self, step):
        self.wait(step["after_ns"], WRITTEN)
        self.connection.finish()

    def do_exchange(self, step):
        """Send segments one after the other, each acknowledged after the time given."""
        for _ in range(int(step["rest"])):
            number = self.connection.acked
            self.do_write({"after_ns": 0, "rest": "1"})
            self.expect(str(number), 0, AT_ONCE)
            self.do_inject({"after_ns": step["after_ns"], "rest": f"ack {number + 1}"})

    def do_info(self, step):
        self.wait(step["after_ns"])
        found = self.connection.info()
        for word in step["rest"].split():
            name, _, value = word.partition("=")
            if found[name] != int(value):
                self.fail(f"{name} is {found[name]}")

    VERBS = {  # noqa: RUF012
        ">": do_expect,
        "<": do_inject,
        "quiet": do_quiet,
        "write": do_write,
        "close": do_close,
        "exchange": do_exchange,
        "info": do_info,
    }

    def play(self):
        self.handshake()
        for step in self.scenario["steps"]:
            self.line = step["line"]
            self.VERBS[step["verb"]](self, step)
        self.line = "the end"
        self.wait(0)

    def outcome(self):
        failure = None
        try:
            self.play()
        except MismatchError as mismatch:
            failure = str(mismatch)
            until = time.monotonic_ns() + AFTERWARDS
            while self.next(until):
                pass
        return {"failure": failure, "log": self.log, "info": self.connection.info()}

    def close(self):
        self.connection.close()
        self.device.close()


def played(scenario):
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot have a network namespace")
    found = {path.name: path.read_text(encoding="ascii").strip() for path in SYSCTLS.glob(SWITCHES)}
    try:
        player = Player(scenario)
    except MismatchError as mismatch:
        return {"failure": str(mismatch), "log": [], "info": {}, "switches": found}
    outcome = player.outcome()
    player.close()
    return outcome | {"switches": found}


def main(scenarios, outcomes):
    with Path(outcomes).open("w", encoding="ascii") as file:
        for scenario in json.loads(Path(scenarios).read_text(encoding="ascii")):
            file.write(json.dumps({"id": scenario["id"]} | played(scenario)) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A private host: namespaces of this kernel with interfaces, processes and files of their own."""

from __future__ import annotations

import difflib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STATE = "/run/state"

#: Gives a program namespaces of its own; in a bare chroot the root cannot be made private.
APART = (
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
)
#: The host's first process: makes what a host has, and takes note of the end of orphans.
INIT = r"""
import os, signal, subprocess, sys
subprocess.run(["sh", "-ec", sys.argv[1]], check=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.write(1, b"made\n")
os.close(1)
os.read(0, 1)
"""

MAKE = """
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/netns /run/state
ip netns add cable
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv4.tcp_retries2=11
ip link set lo up
for number in 0 1 2 3 4; do
    name=eth$number
    [ $number = 3 ] && name=R0-S
    ip link add name $name address 02:11:00:00:00:0$number type veth \
        peer name p$number address 02:12:00:00:00:0$number netns cable
    ip -n cable link set p$number up
done
ip -n cable address add 192.0.2.2/24 dev p0
ip -batch - <<END
address add 192.0.2.1/24 dev eth0
link set eth0 up
link set eth1 mtu 1400 txqueuelen 500
link set eth1 gso_max_segs 100 gso_max_size 30000
link set eth1 multicast off
link property add dev eth1 altname data1
link set eth1 up
link set eth4 up
address add 198.51.100.1/24 brd + dev eth4 label eth4:main
address add 198.51.100.7/24 dev eth4
address add 203.0.113.1/32 peer 203.0.113.2 dev eth4
address add 198.18.0.1/16 dev eth4 noprefixroute metric 7
address add 198.51.100.9/24 dev eth4 valid_lft 4000 preferred_lft 3000
address add fd00:1::1/64 dev eth4
address add fd00:2::1/64 dev eth4 noprefixroute
route add default via 198.51.100.254 dev eth4 metric 50 initcwnd 10
route add 10.9.0.0/16 via 198.51.100.253 dev eth4 src 198.51.100.7 mtu 1200
route add 10.10.0.0/16 via 10.9.0.1 dev eth4 onlink
route add 10.11.0.0/16 dev eth4 table 100 proto static
route add 10.12.0.0/16 nexthop via 198.51.100.2 dev eth4 weight 2 nexthop via 192.0.2.2 dev eth0
route add blackhole 10.13.0.0/16
route add default via fd00:1::254 dev eth4 metric 80
route add fd00:a::/48 nexthop via fd00:1::252 dev eth4 nexthop via fd00:1::251 dev eth4
neighbour add 198.51.100.254 lladdr 02:12:00:00:00:01 dev eth4 nud permanent
neighbour add fd00:1::254 lladdr 02:12:00:00:00:01 dev eth4 nud permanent
link set R0-S up
END
ethtool -K eth1 tso off gro on >/dev/null
sysctl -qw net.ipv4.conf.eth1.rp_filter=2 net.ipv6.conf.eth1.accept_ra=0
sysctl -qw net.ipv4.neigh.eth1.gc_stale_time=77
# The kernel takes up to a second to notice a link, and only then an address is its own.
until [ $(ip -br link | grep -Ec '(eth[014]|R0-S).* UP ') = 4 ]; do sleep 0.02; done
until ip route add fd00:9::/48 via fd00:1::253 dev eth4 src fd00:1::1 2>/dev/null; do
    sleep 0.02
done
"""

SHOWN = """
ip -d link show
ip -d address show
ip -d route show table all | sort
ip -6 -d route show table all | sort
ip neighbour show nud permanent
tc qdisc show | sort
ip netns list
ip rule show
for name in eth0 eth1 eth2 eth4 R0-S; do ethtool -k $name; done
cd /proc/sys/net; grep -rs . ipv[46]/conf/[eR]* ipv[46]/neigh/[eR]*
sysctl net.ipv4.tcp_retries2
find /run | sort
cat /proc/self/mountinfo | wc -l
"""


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes namespaces and interfaces")
    made = subprocess.run(["unshare", "-n", "ip", "link", "add", "v0", "type", "veth"])
    if made.returncode:
        pytest.skip("this kernel has no network namespaces or no veth")
    apart = subprocess.run([*APART, "true"], capture_output=True, text=True)
    if apart.returncode:
        pytest.skip(f"no mounts of its own can be given to a host here: {apart.stderr.strip()}")


class Host:
    """What a host looks like from within; its processes are also seen from outside."""

    def __init__(self, make=MAKE):
        needs_root()
        self._init = subprocess.Popen(
            [*APART, sys.executable, "-c", INIT, make],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._init.stdout.readline() == b"made\n"
        self.before = ""
        self.pid = children(self._init.pid)[0]
        self._number = Path(f"/proc/{self.pid}/ns/pid").stat().st_ino

    def close(self):
        self._init.kill()
        self._init.wait()

    @property
    def enter(self):
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid"]

    def run(self, *argv, check=True):
        return subprocess.run(
            [*self.enter, *argv], capture_output=True, text=True, check=check
        ).stdout

    def sh(self, text):
        return self.run("sh", "-c", text, check=False)

    def by_hand(self, *words, state=STATE):
        """Run `undo` or `list`; give its status and what it says."""
        said = subprocess.run(
            [
                *self.enter,
                sys.executable,
                "-m",
                "tcpf_lab.testbed.ssh.agent",
                *words,
                "--state",
                state,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return said.returncode, json.loads(said.stdout)

    def path(self, path):
        return Path(f"/proc/{self.pid}/root{path}")

    def processes(self):
        """Give pid (outside) and command of all but the first."""
        found = {}
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and int(path.name) != self.pid:
                with suppress(OSError):
                    if (path / "ns/pid").stat().st_ino == self._number:
                        command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        found[int(path.name)] = command or (path / "comm").read_text()
        return found

    def snapshot(self):
        """Describe the host, without what changes by itself."""
        text = self.run("sh", "-c", SHOWN)
        return re.sub(r"(valid_lft|preferred_lft) \d+sec", r"\1 Nsec", text)

    def settled_snapshot(self, seconds=5.0):
        """Describe the host once it stays as it is: a link that is put up has its carrier later."""
        until = time.monotonic() + seconds
        seen = self.snapshot()
        while time.monotonic() < until:
            time.sleep(0.2)
            last, seen = seen, self.snapshot()
            if seen == last and "NO-CARRIER" not in seen:
                break
        return seen

    def assert_same(self, seconds=15.0):
        """Compare with how it was; a busy kernel tells the state of a link seconds late."""
        until = time.monotonic() + seconds
        while (now := self.snapshot()) != self.before and time.monotonic() < until:
            time.sleep(0.1)
        pair = (text.splitlines() for text in (self.before, now))
        different = "\n".join(difflib.unified_diff(*pair, n=0, lineterm=""))
        assert not different, different

    def settled(self, seconds=20.0):
        """Await that no process but the first is left."""
        until = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < until, left
            time.sleep(0.005)


def children(pid):
    for _ in range(1000):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        if text.strip():
            return [int(word) for word in text.split()]
        time.sleep(0.002)
    raise AssertionError(f"{pid} has no children")


def status_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


class Talk:
    """A conversation with an agent on a host."""

    def __init__(
        self,
        host,
        program=("-m", "tcpf_lab.testbed.ssh.agent"),
        silence=20,
        python=sys.executable,
        env=(),
        state=STATE,
    ):
        self._process = subprocess.Popen(
            [*host.enter, python, *program, "serve", "--state", state, "--silence", str(silence)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **dict(env)},
        )  # fmt: skip
        self._host = host
        self._count = 0
        self._errors = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.ready = self._line()
        self.pid = children(self._process.pid)[0]

    def _listen(self):
        for line in self._process.stderr:
            self._errors.append(line.decode())

    @property
    def errors(self):
        return "".join(self._errors)

    def _line(self):
        line = self._process.stdout.readline()
        assert line, f"the agent said nothing more: {self.errors}"
        return json.loads(line)

    def send(self, do, **words):
        self._count += 1
        message = {"id": self._count, "do": do, **words}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return self._count

    def write(self, data):
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def reply(self, number=None):
        line = self._line()
        assert number is None or line["id"] == number, line
        return line

    def ask(self, do, **words):
        reply = self.reply(self.send(do, **words))
        assert reply["ok"], reply["error"]
        return reply.get("value")

    def refused(self, do, **words):
        reply = self.reply(self.send(do, **words))
        assert not reply["ok"], reply
        return reply["error"]

    def kill(self, number=signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_other(self, pid, number=signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def watch(self):
        """Find the watch process: of the agent's program, but without children or parent here."""
        found = [pid for pid, words in self._host.processes().items() if " serve " in words]
        return next(pid for pid in found if pid not in (self.pid, self._process.pid))

    def hang_up(self):
        self._process.stdin.close()

    def status(self, timeout=20):
        """Await the end; `nsenter` stops with the agent, and has to be continued after it."""
        until = time.monotonic() + timeout
        while self._process.poll() is None and time.monotonic() < until:
            if status_of(self.pid) == "Z":
                self._process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        return self._process.wait(0)

    def close(self):
        with suppress(OSError):
            self._process.stdin.close()
        self.status()
        self._process.stdout.close()

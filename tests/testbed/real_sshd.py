"""A real sshd on 127.0.0.1 with throw-away keys; nothing of anybody's ``~/.ssh`` is touched.

It runs in namespaces of its own for network, mounts and processes if asked to, joined to this
machine by a pair of virtual interfaces: the "host" is then this machine with another network,
another ``/run`` and no process of anybody else.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SSHD = "/usr/sbin/sshd"
#: Runs a command as the first process of a machine of its own, which ends with it.
_APART = ("unshare", "-n", "-m", "-p", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True)
class Server:
    """A running sshd."""

    directory: Path
    address: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def identity(self) -> Path:
        return self.directory / "user"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def ssh(self) -> dict[str, str]:
        """Give the words of an inventory's ``ssh``."""
        empty = self.directory / "ssh_config"
        empty.touch()
        return {
            "config": str(empty),
            "known_hosts": str(self.known_hosts),
            "identity": str(self.identity),
        }


def why_not(*, namespaces: bool = False) -> str | None:
    """Say why no sshd, or none in namespaces of its own, can be started here."""
    if os.geteuid() != 0:
        return "sshd lets in nobody but root here: run as root"
    if namespaces and subprocess.run([*_APART, "true"], check=False).returncode:
        return "no namespaces can be made here (in a container: --privileged)"
    missing = [name for name in (SSHD, "ssh-keygen") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)} (openssh-server)" if missing else None


def make_key(path: Path) -> str:
    """Make a key pair; return the public half."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serve(
    directory: Path, address: str = "127.0.0.1", prefix: tuple[str, ...] = ()
) -> Iterator[Server]:
    """Run an sshd until the block ends; ``prefix`` is a command that runs another."""
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    host_key = make_key(directory / "host")
    (directory / "authorized_keys").write_text(make_key(directory / "user"))
    name = f"[{address}]:{port}"
    (directory / "known_hosts").write_text(f"{name} {' '.join(host_key.split()[:2])}\n")
    config = directory / "sshd_config"
    config.write_text(
        f"""
        ListenAddress {address}:{port}
        HostKey {directory}/host
        AuthorizedKeysFile {directory}/authorized_keys
        PidFile {directory}/sshd.pid
        PermitRootLogin prohibit-password
        PasswordAuthentication no
        KbdInteractiveAuthentication no
        StrictModes no
        UsePAM no
        MaxStartups 100
        MaxSessions 100
        """
    )
    log = (directory / "sshd.log").open("wb")
    process = subprocess.Popen(
        [*prefix, SSHD, "-D", "-e", "-f", str(config)], stderr=log, start_new_session=True
    )
    try:
        _await(address, port, process, directory / "sshd.log")
        yield Server(directory, address, port, process)
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def _await(address: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"sshd does not listen: {log.read_text()}")


#: The interface by which a host is reached.
CONTROL = "control"
_OWN_PLACES = """
set -e
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/sshd /run/mount
exec python3 -c "$FIRST"
"""
#: Whatever is left to the first process is not kept as a zombie.
_FIRST = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""


@dataclass(frozen=True)
class HostServer(Server):
    """An sshd in namespaces of its own."""

    holder: int  #: a process in the namespaces

    def inside(self, *argv: str) -> str:
        """Run a program on the host, not by SSH; return its output."""
        command = [*_enter(self.holder), *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def snapshot(self) -> dict[str, str]:
        """Describe everything that a run may change on the host."""
        looks = {
            "links": "ip -o link",
            "addresses": "ip -o address",
            "routes": "ip route show table all",
            "neighbours": "ip -o neighbour show nud permanent",
            "queues": "tc qdisc show",
            "namespaces": "ip netns list; ls /run",
            "sysctl": "sysctl -e net.ipv4.ip_forward net.core.wmem_max net.ipv4.tcp_sack",
            # One in brackets has no memory of its own any more: it is about to end.
            "processes": r"ps -e -o args= | grep -v -e sshd -e ps -e grep -e nsenter -e '^\['",
        }
        # The order in which the kernel lists what has come back is not what is asked here.
        return {
            name: "\n".join(sorted(self.inside("sh", "-c", command).splitlines()))
            for name, command in looks.items()
        }

    def settled_snapshot(self, seconds: float = 5.0) -> dict[str, str]:
        """Describe the host once it stays as it is: a process that ends is seen for a moment."""
        until = time.monotonic() + seconds
        last, seen = None, self.snapshot()
        while seen != last and time.monotonic() < until:
            time.sleep(0.1)
            last, seen = seen, self.snapshot()
        return seen


def _enter(holder: int) -> tuple[str, ...]:
    return ("nsenter", "-t", str(holder), "-n", "-m", "-p")


_NUMBERS = itertools.count()


def _link(number: int) -> str:
    """Name our end of the link to a host; several processes of tests may be at work."""
    return f"tcpf{number}-{os.getpid()}"


def _addresses(number: int) -> tuple[str, str]:
    """Give our address and a host's on the link between, of the range for tests of networks."""
    block = (8 * os.getpid() + number % 8) % (1 << 15)
    base = int(ipaddress.IPv4Address("198.18.0.0")) + 4 * block
    return str(ipaddress.IPv4Address(base + 1)), str(ipaddress.IPv4Address(base + 2))


@contextlib.contextmanager
def host(directory: Path) -> Iterator[HostServer]:
    """Run an sshd in namespaces of its own until the block ends."""
    number = next(_NUMBERS)  # fixtures of several modules may be in use at once
    holder = subprocess.Popen(
        [*_APART, "sh", "-c", _OWN_PLACES],
        env={**os.environ, "FIRST": _FIRST},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
        first = int(children.split()[0])
        _join(first, number)
        with serve(directory, _addresses(number)[1], _enter(first)) as server:
            words = (server.directory, server.address, server.port, server.process)
            yield HostServer(*words, first)
    finally:
        holder.kill()
        holder.wait()
        subprocess.run(["ip", "link", "delete", _link(number)], check=False, capture_output=True)


def cable(near: HostServer, near_name: str, far: HostServer, far_name: str) -> None:
    """Give each of two hosts an interface, and join them."""
    ends = (f"name {near_name} netns {near.holder}", f"{far_name} netns {far.holder}")
    command = f"ip link add {ends[0]} type veth peer name {ends[1]}"
    subprocess.run(command.split(), check=True)


def _join(pid: int, number: int) -> None:
    here, (ours, theirs) = _link(number), _addresses(number)
    for command in (
        f"ip link add {here} type veth peer name {CONTROL} netns {pid}",
        f"ip address add {ours}/30 dev {here}",
        f"ip link set {here} up",
        # An IPv6 address would change by itself while it is being verified.
        f"nsenter -t {pid} -n sysctl -q -w net.ipv6.conf.all.disable_ipv6=1",
        f"nsenter -t {pid} -n ip address add {theirs}/30 dev {CONTROL}",
        f"nsenter -t {pid} -n ip link set {CONTROL} up",
        f"nsenter -t {pid} -n ip link set lo up",
    ):
        subprocess.run(command.split(), check=True)

"""Guests of the VM testbed, booted for real: five hosts that SSH reaches, joined as described.

Each test boots once and looks at everything: a boot takes longer than all that is asked of it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.testbed.vm import guests, layout
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm.guests import State
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES, WIRES

pytestmark = pytest.mark.nightly

QDISCS = {
    "netem": "delay 10ms limit 1000",
    "tbf": "rate 10mbit burst 3000 limit 30000",
    "red": "limit 60000 min 5000 max 20000 avpkt 1000 burst 20 bandwidth 10mbit probability 0.1",
    "bfifo": "limit 30000",
}
# Over each wire, and the seconds that each of them, and an ARP request before it, may take.
ECHOES = 3
PATIENCE = 20


def silent(_phase: str, _share: float) -> None:
    pass


class Hosts:
    """The five hosts of guests that are up."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.ports: dict[str, int] = state.read_facts()["ports"]

    def __call__(self, role: str, script: str) -> str:
        """Run a script on the host of ``role``; return what it prints."""
        host = layout.host_name(role)
        reply = subprocess.run(
            ["ssh", "-F", str(self.state.ssh_config), host, f"set -e; {script}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert reply.returncode == 0, f"{role}: {script}: {reply.stderr}"
        return reply.stdout.strip()

    def everywhere(self, script: str | dict[str, str]) -> dict[str, str]:
        """Run a script, or for each its own, on all hosts at once."""
        scripts = dict.fromkeys(ROLES, script) if isinstance(script, str) else script
        with ThreadPoolExecutor(len(ROLES)) as pool:
            return dict(zip(scripts, pool.map(self, scripts, scripts.values()), strict=True))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """Return a cache of its own, so that the user's guests are left alone; packages are shared."""
    for name in ("kernels", "programs"):
        shared = vm_kernel.cache_directory() / name
        shared.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(shared)
    yield tmp_path
    guests.down(silent, tmp_path)


@pytest.mark.parametrize("series", vm_kernel.SERIES)
def test_five_hosts_come_up_as_described_and_go_without_trace(series: str, cache: Path) -> None:
    found = guests.up(guests.Request(series), silent, cache)
    state = guests.here(cache)
    hosts = Hosts(state)
    check_identity(hosts, found["release"])
    check_clocks(hosts)
    check_isolation(hosts)
    check_wires(hosts)
    check_kernel(hosts)
    check_sshd_comes_back(hosts)
    check_second_up(series, cache)
    check_down(hosts, cache)


def check_identity(hosts: Hosts, release: str) -> None:
    """Every role answers with its own key, under its own name, with its own interfaces."""
    for role, port in hosts.ports.items():
        reply = subprocess.run(
            ["ssh-keyscan", "-T", "20", "-t", "ed25519", "-p", str(port), layout.HERE],
            capture_output=True,
            text=True,
            check=True,
        )
        expected = (hosts.state.keys / f"{role}.pub").read_text().split()[1]
        assert reply.stdout.split()[2] == expected
    said = hosts.everywhere(
        "hostname; uname -r; id -u; cat /proc/sys/kernel/random/boot_id; ls /sys/class/net; "
        "cat /sys/class/net/data0/address"
    )
    boots = {}
    for role, text in said.items():
        name, kernel, user, boot, *interfaces, address = text.splitlines()
        assert (name, kernel, user) == (layout.host_name(role), release, "0")
        single = ["control", "data0", "lo"]
        assert sorted(interfaces) == (single if role in "SD" else sorted([*single, "data1"]))
        assert address == layout.mac(role, 1)
        boots[role] = boot
    kernels = [{boots[role] for role in guest.roles} for guest in GUESTS]
    assert [len(kernel) for kernel in kernels] == [1, 1]
    assert kernels[0] != kernels[1]


def check_clocks(hosts: Hosts) -> None:
    """One guest's clock is ahead, and runs faster."""
    bounds = []
    for role in ("S", "R1"):
        before = time.time()
        there = float(hosts(role, "date +%s.%N"))
        bounds.append((there - time.time(), there - before))
    (least, most), (least_ahead, most_ahead) = bounds
    # Ahead or not: a busy machine may start a guest late after its clock was set.
    assert least_ahead - most > 37 / 2
    assert most_ahead - least < 37 * 2
    kernel_unit = 2**16
    for role, ppm in (("D", 0), ("R2", 40)):
        said = hosts(role, "busybox adjtimex")
        adjustment = next(line for line in said.splitlines() if "freq.adjust" in line)
        assert int(adjustment.split()[2]) == ppm * kernel_unit


def check_isolation(hosts: Hosts) -> None:
    """Hosts of one guest share nothing that hosts have of their own; the machine's root is safe."""
    mark = f"made-by-{hosts.state.cache.name}"
    places = "/var/lib/tcpf-lab /tmp /run /root"
    hosts("S", f"for place in {places}; do touch $place/{mark}; done; ip netns add {mark}")
    assert mark not in hosts("D", f"ls -A {places} /run/netns")
    assert hosts("S", "ip netns list; ip netns del " + mark) == mark
    hosts("S", f"touch /usr/bin/{mark}; ls /usr/bin/{mark}")
    assert not Path("/usr/bin", mark).exists()
    # What belongs to the machine's users is not there, and no network but its own.
    assert hosts("D", "ls -A /root /home") == "/home:\n\n/root:"
    assert hosts("D", "ip route show default") == ""


def check_wires(hosts: Hosts) -> None:
    """Every wire leads to the neighbour that the inventory names, in both directions.

    Guests may stand still for seconds where the machine is busy. Of several echoes, busybox's ping
    waits a second for the last whatever -W says; for a single one it waits as long as it is told.
    """
    prepare, ask = dict.fromkeys(ROLES, ""), dict.fromkeys(ROLES, "")
    for number, ends in enumerate(WIRES):
        for place, end in enumerate(ends):
            own, other = f"10.77.{number}.{1 + place}/24", f"10.77.{number}.{2 - place}"
            prepare[end.role] += f"ip link set {end.interface} up;"
            prepare[end.role] += f"ip address add {own} dev {end.interface};"
            solicit = f"/proc/sys/net/ipv4/neigh/{end.interface}/mcast_solicit"
            prepare[end.role] += f"echo {PATIENCE} > {solicit};"
            echo = f"busybox ping -q -c 1 -W {PATIENCE} -I {end.interface} {other};"
            ask[end.role] += ECHOES * echo
    hosts.everywhere(prepare)
    answers = hosts.everywhere(ask)
    answered = sum(answer.count(" 0% packet loss") for answer in answers.values())
    assert answered == ECHOES * 2 * len(WIRES)


def check_kernel(hosts: Hosts) -> None:
    """The kernel has the queues of the plans, and what building modules for it needs."""
    for kind, arguments in QDISCS.items():
        change = f"tc qdisc add dev data0 root {kind} {arguments}; tc qdisc show dev data0 root"
        for shown in hosts.everywhere(f"{change}; tc qdisc del dev data0 root").values():
            assert shown.startswith(f"qdisc {kind} ")
    hosts("R1", "test -e /lib/modules/$(uname -r)/build/Makefile")


def check_sshd_comes_back(hosts: Hosts) -> None:
    """An sshd that was killed is started again; those of other roles go on."""
    port = hosts.ports["R1"]
    listener = hosts("R1", "pgrep -f 'sshd.*keys/R1'").split()[0]
    hosts("R1", f"kill -9 {listener}")
    end = time.monotonic() + 30
    while not guests.greets(port):
        assert time.monotonic() < end
    assert hosts("R1", "pgrep -f 'sshd.*keys/R1'").split()[0] != listener


def check_second_up(series: str, cache: Path) -> None:
    """Guests that are up are taken as they are, unless others are wanted."""
    before = guests.status(cache)
    assert guests.up(guests.Request(series), silent, cache)["keeper"] == before["keeper"]
    assert guests.ensure_up(cache=cache) == Path(before["inventory"])
    other = next(each for each in vm_kernel.SERIES if each != series)
    with pytest.raises(RequestError, match=f"up already, with series {series}"):
        guests.up(guests.Request(other), silent, cache)


def check_down(hosts: Hosts, cache: Path) -> None:
    """Nothing is left: no process, no file, no port."""
    found = guests.status(cache)
    processes = [found["keeper"], *(guest["pid"] for guest in found["guests"].values())]
    assert all(runs(pid) for pid in processes)
    assert guests.down(silent, cache)
    assert not any(runs(pid) for pid in processes)
    assert sorted(path.name for path in cache.iterdir()) == [
        "keeper",
        "kernels",
        "lock",
        "programs",
    ]
    assert not any(guests.greets(port) for port in hosts.ports.values())
    assert guests.status(cache) == {"up": False, "crashed": False, "files": None}


def runs(pid: int) -> bool:
    """Whether there is such a process, and not only its end that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

"""What hosts look like: all that a run may change on them, in a form that can be compared."""

from __future__ import annotations

import difflib
import re
import time

from guest_hosts import Hosts

from tcpf_lab.testbed.vm.layout import GUESTS

STATE = "/var/lib/tcpf-lab"
#: Gives every host what a run could destroy: interfaces that are in use, with settings of their
#: own.
SETTLE_IN = """
ip link set data0 mtu 1400 txqueuelen 500  # first: the queue's parameters follow from them
for each in /sys/class/net/data*; do ip link set ${each##*/} up; done
ip -batch - <<END
rule add from 203.0.113.0/24 lookup 100
END
ethtool -K data0 tso off
sysctl -qw net.ipv4.conf.data0.rp_filter=2
mkdir /tmp/kept
"""
#: Name -> what shows it on each host; few programs, each of which takes its time there.
OF_HOSTS = {
    "network": "ip -o -d -batch - <<END\nlink show\naddress show\nroute show table all\nrule show\n"
    "neighbour show nud permanent\nnetns list\nEND",
    "network6": "ip -o -6 -d -batch - <<END\nroute show table all\nrule show\nEND",
    "queues": "(echo qdisc show; for each in /sys/class/net/*; do "
    "for at in ingress egress root; do echo filter show dev ${each##*/} $at; done; done) "
    "| tc -d -force -batch - || true",
    "offloads": "for each in /sys/class/net/data*; do ethtool -k ${each##*/}; done",
    "sysctls": "cd /proc/sys/net; grep -rs '' . || true",
    "files": f"find /tmp /run /var/tmp /root {STATE} -xdev "
    f"-path {STATE}/agent -prune -o -path {STATE}/modules -prune -o "
    f"-path {STATE}/programs -prune -o -print",
    "mounts": "cut -d' ' -f5 /proc/self/mountinfo",
    "sockets": "grep -h ' 0A ' /proc/net/tcp /proc/net/tcp6 | cut -c6-20 | sort -u",
}
#: The same of what the hosts of a guest share, seen while nothing else is looked at.
OF_GUESTS = {
    "modules": "cut -d' ' -f1-4 /proc/modules",
    "processes": "ps -e -o args=",
}
#: Tells that an agent, or its watch, or a run's directory is there.
BUSY = f"ls {STATE}/runs 2>/dev/null || true; pgrep -f '[.]pyz|tcpf_lab[.]agent' || true"
_MARK = "=== "
#: Not compared: threads of the kernel, `ps` itself; the number by which an interface's namespace
#: knows that of its other end, which the kernel gives anew whenever it is asked; a command that
#: `tc` says has failed: there is nothing of the kind.
_NOT_COMPARED = re.compile(r"^\[.*\]$|^ps -e.*| link-netnsid \d+|^Command failed.*", re.MULTILINE)
_LOOK_EVERY_S = 1.0

Picture = dict[str, str]


def take(hosts: Hosts) -> Picture:
    """Describe all hosts: (host or guest, what) -> text."""
    found = {
        f"{role} {name}": text
        for role, said in hosts.everywhere(_script(OF_HOSTS)).items()
        for name, text in _parts(said)
    }
    for guest in GUESTS:
        said = hosts(guest.roles[0], _script(OF_GUESTS))
        found |= {f"{guest.name} {name}": text for name, text in _parts(said)}
    return found


def differences(before: Picture, now: Picture) -> list[str]:
    """Give the lines that differ, each with where it is."""
    return [
        f"{name}: {line}"
        for name in before
        for line in difflib.unified_diff(
            before[name].splitlines(), now[name].splitlines(), n=0, lineterm=""
        )
        if not line.startswith(("---", "+++", "@@"))
    ]


def until_quiet(hosts: Hosts, seconds: float) -> None:
    """Wait until no agent is there and no run; for at most so many seconds."""
    until = time.monotonic() + seconds
    while any(text for text in hosts.everywhere(BUSY).values()) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)


def until_same(hosts: Hosts, before: Picture, seconds: float) -> list[str]:
    """Wait until the hosts are what they were; return what still differs after ``seconds``."""
    until = time.monotonic() + seconds
    until_quiet(hosts, seconds)
    while (found := differences(before, take(hosts))) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    return found


def settle_in(hosts: Hosts) -> Picture:
    """Let every host have something to lose; return the picture of that."""
    hosts.everywhere(SETTLE_IN)
    seen = take(hosts)
    for _ in range(10):  # a link that has come up is told of late
        time.sleep(1.0)
        last, seen = seen, take(hosts)
        if seen == last:
            return seen
    raise AssertionError(differences(last, seen))


def _script(looks: dict[str, str]) -> str:
    return "\n".join(f"echo '{_MARK}{name}'\n{command}" for name, command in looks.items())


def _parts(said: str) -> list[tuple[str, str]]:
    """Split what a script said; the order of lines, each of which is complete, means nothing."""
    pieces = re.split(rf"^{_MARK}(\w+)$", _NOT_COMPARED.sub("", said), flags=re.MULTILINE)[1:]
    named = zip(pieces[::2], pieces[1::2], strict=True)
    return [(name, "\n".join(sorted(filter(str.strip, text.splitlines())))) for name, text in named]

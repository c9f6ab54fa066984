"""A disk that is full or has become read-only does not keep a run from being undone."""

from __future__ import annotations

import signal
import sys

import pytest
from private_host import ROOT as PROJECT
from private_host import Talk

pytestmark = pytest.mark.full

DISK = "/run/disk"
STATE = f"{DISK}/state"
ROOT = f"{STATE}/runs/run-1"
REQUESTS = [
    {"do": "sysctl", "node": None, "key": "net.ipv4.tcp_retries2", "value": "7"},
    {"do": "node", "node": "S"},
    {"do": "node", "node": "R0"},
    {"do": "nic", "interface": "eth1", "node": "S", "device": "S-R0", "mac": "02:00:00:00:00:01",
     "mtu": 1000},
    {"do": "start", "starts": [
        {"node": "S", "name": "p", "argv": ["sleep", "600"], "output": None}
    ]},
]  # fmt: skip
RECORDS = 5  #: modules, sysctl, two nodes, interface


@pytest.fixture
def disk(host):
    """Mount a small disk; afterwards nothing but it may have changed."""
    host.sh(f"mkdir {DISK}; mount -t tmpfs -o size=256k tmpfs {DISK}")
    yield
    host.settled()
    host.sh(f"umount {DISK}; rm -r {DISK} /run/mount")  # where `umount` keeps its notes
    host.assert_same()


def begun(host):
    talk = Talk(host, state=STATE)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    for request in REQUESTS:
        talk.ask(**request)
    return talk


def fill(host, path):
    """Fill the disk, and the journal's last block, so that it has no room for a single line."""
    said = host.sh(
        f"size=$(stat -c %s {ROOT}/journal.jsonl)\n"
        f"head -c $(( (4096 - size % 4096) % 4096 )) /dev/zero | tr '\\0' '\\n' "
        f">> {ROOT}/journal.jsonl\n"
        f"dd if=/dev/zero of={path} bs=4096 2>&1\n"
        f"echo >> {ROOT}/journal.jsonl && echo there is room"
    )
    assert "No space left on device" in said
    assert "there is room" not in said


@pytest.mark.parametrize("path", [f"{ROOT}/files/big", f"{DISK}/big"], ids=["by-run", "by-others"])
@pytest.mark.parametrize("how", ["end", "hang up", "kill"])
def test_full_disk(host, disk, path, how):
    talk = begun(host)
    fill(host, path)
    if how == "end":
        assert talk.ask("end") == {"undone": RECORDS, "left": [], "lost": []}
    elif how == "hang up":
        talk.hang_up()
    else:
        talk.kill()
    assert talk.status() == (-signal.SIGKILL if how == "kill" else 0)
    assert talk.errors == ""
    host.settled()
    assert host.sh(f"ls {STATE}") == ""


@pytest.mark.parametrize("path", [f"{ROOT}/files/big", f"{DISK}/big"], ids=["by-run", "by-others"])
def test_what_is_left_of_a_run_with_a_full_disk_is_undone_later(host, disk, path):
    """Files that the run has filled the disk with are gone by then, and what is left is noted."""
    talk = begun(host)
    host.sh("ip link add name eth1 type veth peer name eth9")
    fill(host, path)
    talk.kill_other(talk.watch())
    talk.status()
    assert "interface S-R0, formerly eth1" in talk.errors
    assert "Traceback" not in talk.errors
    (run,) = host.by_hand("list", state=STATE)[1]
    by_run = path.startswith(ROOT)
    assert bool(run["left"]) is by_run
    kinds = [record["kind"] for record in run["records"]]
    assert kinds[-1] == "run"
    assert ("sysctl" in kinds) is not by_run
    assert host.sh(f"ls {ROOT}/files") == ""
    host.sh("ip link delete eth9")
    status, (report,) = host.by_hand("undo", state=STATE)
    assert (status, report["left"]) == (0, [])
    assert host.by_hand("list", state=STATE) == (0, [])


def test_read_only_disk(host, disk):
    """Everything is undone; the journal stays, and says so, until it can be removed."""
    talk = begun(host)
    watch = talk.watch()
    talk.kill_other(watch, signal.SIGSTOP)
    talk.kill()
    talk.status()
    host.run("mount", "-o", "remount,ro", DISK)
    talk.kill_other(watch, signal.SIGCONT)
    host.settled()
    for _ in range(2):
        status, (report,) = host.by_hand("undo", state=STATE)
        assert status == 1
        assert report["undone"] == RECORDS
        assert report["left"] == [f"the journal {ROOT}: Read-only file system"]
    assert "tcpf-S" not in host.sh("ip netns list")
    assert host.sh("sysctl -n net.ipv4.tcp_retries2") == "11\n"
    host.run("mount", "-o", "remount,rw", DISK)
    status, (report,) = host.by_hand("undo", state=STATE)
    assert (status, report["left"]) == (0, [])
    assert host.by_hand("list", state=STATE) == (0, [])


def test_agent_on_a_disk_that_becomes_read_only(host, disk):
    """It is the agent itself that undoes: by request, then in its place."""
    talk = begun(host)
    talk.kill_other(talk.watch(), signal.SIGSTOP)
    host.sh(f"mount --bind {DISK} {DISK}; mount -o remount,bind,ro {DISK}")
    value = talk.ask("end")
    left = value["left"]
    assert value["undone"] == RECORDS
    assert left == [f"the journal {ROOT}: Read-only file system"]
    assert talk.status() == 1
    for pid in host.processes():
        talk.kill_other(pid)
    host.settled()
    host.sh(f"umount {DISK}")


def test_state_directory_that_is_none_is_told_without_a_traceback(host, disk):
    host.sh(f"mkdir {STATE}; touch {STATE}/runs")
    for word in ("list", "undo"):
        said = host.sh(
            f"cd {PROJECT}; {sys.executable} -m tcpf_lab.testbed.ssh.agent {word}"
            f" --state {STATE} 2>&1"
        )
        assert said == f"tcpf-agent: [Errno 20] Not a directory: '{STATE}/runs'\n"

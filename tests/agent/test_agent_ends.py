"""However the conversation ends, the run is undone, and the agent says what is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from private_host import ROOT, STATE, Host, Talk, needs_root

from tcpf_lab.testbed.ssh.session import packed

pytestmark = pytest.mark.full

#: No Python path: this project is not to be found but in the packed agent.
NOTHING = [("PYTHONPATH", "")]
NODES = [{"do": "node", "node": "S"}, {"do": "node", "node": "R0"}]
NIC = {
    "do": "nic", "interface": "eth1", "node": "S", "device": "S-R0", "mac": "02:00:00:00:00:01",
    "mtu": 1000,
}  # fmt: skip
SLEEPER = {"node": "S", "name": "p", "argv": ["sleep", "600"], "output": "log/p"}
PROGRAM = {"do": "start", "starts": [SLEEPER]}


@pytest.fixture
def busy(host):
    """Return a function that gives a conversation with nodes, an interface and a program."""
    talks = []

    def make(**more):
        talk = Talk(host, **more)
        talks.append(talk)
        talk.ask("begin", token="run-1", owner=True, plugins=None)
        for request in (*NODES, NIC, PROGRAM):
            talk.ask(**request)
        return talk

    yield make
    for talk in talks:
        talk.close()
    host.settled()
    host.assert_same()


def test_end_of_input(host, busy):
    talk = busy()
    talk.hang_up()
    assert talk.status() == 0
    assert talk.errors == ""
    assert "tcpf-S" not in host.sh("ip netns list")


def test_packed_agent_undoes_even_if_its_file_is_gone(host, busy):
    """Its input ends, so it becomes another program of the same file; or the watch does it all."""
    for removed in (False, True):
        path = host.path("/run/agent.pyz")
        path.write_bytes(packed())
        talk = busy(program=("/run/agent.pyz",), python=sys._base_executable, env=NOTHING)
        if removed:
            path.unlink()
        talk.hang_up()
        assert (talk.status() == 0) is not removed
        path.unlink(missing_ok=True)
        host.settled()
        host.assert_same()


def test_end_of_input_while_a_request_is_under_way(host, busy):
    talk = busy()
    talk.send("finish", names=["p"], deadline_ns=time.time_ns() + 10**12)
    talk.send("run", node="S", argv=["sleep", "600"], output=None)
    talk.hang_up()
    assert talk.status() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals(busy, number):
    talk = busy()
    talk.kill(number)
    assert talk.status() == 0


def test_silence(busy):
    talk = busy(silence=2.0)
    for _ in range(8):
        time.sleep(0.4)
        talk.write(b'{"do":"beat"}\n')
    assert talk.ask("clock")
    begun = time.monotonic()
    assert talk.status() == 0
    assert 1.6 < time.monotonic() - begun < 10


def test_agent_that_hangs_is_ended_by_its_watch(host, busy, monkeypatch):
    code = "from tcpf_lab.testbed.ssh.agent import serve; serve._GRACE_S = 0.2\n"
    code += "from tcpf_lab.testbed.ssh.agent.__main__ import main; main()"
    talk = busy(silence=2.0, program=("-c", code))
    talk.kill(signal.SIGSTOP)
    assert talk.status() == -signal.SIGKILL


def test_agent_leaves_when_its_watch_has_died(host, busy):
    talk = busy()
    talk.kill_other(talk.watch())
    assert talk.status() == 0


def test_watch_survives_what_ends_a_session(host, busy):
    talk = busy()
    watch = talk.watch()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        talk.kill_other(watch, number)
    talk.kill()


def test_controller_that_does_not_read_holds_nothing_up(busy):
    talk = busy()
    for _ in range(3000):
        talk.send("clock")
    talk.hang_up()
    assert talk.status() == 0


def test_end_interrupts_what_is_under_way(busy):
    talk = busy()
    first = talk.send("finish", names=["p"], deadline_ns=time.time_ns() + 10**12)
    second = talk.send("run", node="S", argv=["sleep", "600"], output=None)
    last = talk.send("end")
    replies = [talk.reply() for _ in range(3)]
    assert [reply["id"] for reply in replies] == [first, second, last]
    assert [reply["ok"] for reply in replies] == [False, False, True]
    assert "the run is ending" in replies[0]["error"]["message"]
    assert replies[2]["value"] == {"undone": 4, "left": [], "lost": []}
    assert talk.status() == 0


def test_end_interrupts_a_command(busy):
    talk = busy()
    talk.send("run", node="S", argv=["sh", "-c", "sleep 600; true"], output=None)
    time.sleep(0.2)
    talk.send("end")
    assert "the run is ending" in talk.reply()["error"]["message"]
    assert talk.reply()["value"]["left"] == []


def test_agents_of_one_run_and_kernel_leave_each_other_alone(host, busy):
    """As on a kernel with several roles, each of which has an agent and files of its own."""
    talk = busy()
    other = Talk(host, state="/run/other")
    other.ask("begin", token="run-1", owner=False, plugins=None)
    other.ask("node", node="D")
    other.ask("start", starts=[{**SLEEPER, "node": "D"}])
    talk.ask("end")
    assert host.sh("ip netns list").split()[0] == "tcpf-D"
    assert [words for words in host.processes().values() if words.endswith("sleep 600 ")]
    assert other.ask("end") == {"undone": 1, "left": [], "lost": []}
    other.close()
    host.sh("rmdir /run/other")


def test_end_without_a_run(host):
    talk = Talk(host)
    assert talk.ask("end") == {"undone": 0, "left": [], "lost": []}
    assert talk.status() == 0
    host.settled()


def test_list_and_undo_by_hand(host, busy):
    assert host.by_hand("list") == (0, [])
    talk = busy()
    status, runs = host.by_hand("list")
    assert status == 0
    assert [(run["token"], run["alive"], run["this_boot"]) for run in runs] == [
        ("run-1", True, True)
    ]
    status, reports = host.by_hand("undo")
    assert status == 1
    assert "the run's agent still runs" in reports[0]["refused"]
    assert talk.ask("lateness") == {}
    status, reports = host.by_hand("undo", "--run", "run-1", "--force")
    assert reports[0]["left"] == []
    assert status == 0
    assert talk.status() == -signal.SIGKILL
    assert host.by_hand("list") == (0, [])


def test_status_after_end_tells_whether_anything_is_left(host, busy):
    talk = busy()
    host.sh("ip link add name eth1 type veth peer name eth9")
    assert "interface S-R0, formerly eth1" in talk.ask("end")["left"][0]
    assert talk.status(60) == 1
    host.sh("ip link delete eth9")
    host.settled()  # the watch has tried again
    if host.by_hand("list")[1]:
        assert host.by_hand("undo")[0] == 0


def test_undo_by_hand_when_the_watch_has_died_too(host, busy):
    talk = busy()
    watch = talk.watch()
    talk.kill_other(talk.pid, signal.SIGSTOP)
    talk.kill_other(watch)
    talk.kill()
    assert talk.status() == -signal.SIGKILL
    assert [run["alive"] for run in host.by_hand("list")[1]] == [False]
    other = Talk(host)
    error = other.refused("begin", token="run-1", owner=True, plugins=None)
    assert error["message"] == "run run-1 is not undone on this host"
    other.close()
    status, reports = host.by_hand("undo")
    assert (status, reports[0]["left"]) == (0, [])
    assert reports[0]["undone"] == 4


def test_what_is_left_is_said_and_undone_later(host, busy):
    """Somebody has taken the interface's name; it comes back under another, and gets its own."""
    talk = busy()
    host.sh("ip link add name eth1 type veth peer name eth9")
    talk.hang_up()
    assert talk.status(60) == 1
    assert "interface S-R0, formerly eth1" in talk.errors
    assert "interface S-R0, formerly eth1" in host.by_hand("list")[1][0]["left"][0]
    host.sh("ip link delete eth9")
    host.settled()  # the watch has tried again, and again
    if host.by_hand("list")[1]:
        assert host.by_hand("undo")[0] == 0


def test_run_of_another_boot_leaves_nothing_to_undo_but_files(host):
    root = host.path(f"{STATE}/runs/old")
    root.mkdir(parents=True)
    record = {"n": 0, "kind": "run", "token": "old", "pid": 1, "started": 1, "boot_id": "other",
              "namespace": 1, "began_ns": 0}  # fmt: skip
    (root / "journal.jsonl").write_text(json.dumps(record) + '\n{"n":1,"kind":"name')
    assert host.by_hand("undo") == (0, [{"token": "old", "undone": 0, "left": [], "lost": []}])
    host.assert_same()


def test_run_is_undone_from_the_namespace_of_its_agent(host, busy):
    talk = busy()
    talk.kill_other(talk.pid, signal.SIGSTOP)
    agent = [sys.executable, "-m", "tcpf_lab.testbed.ssh.agent"]
    code = [*host.enter, "unshare", "--net", *agent, "undo", "--force", "--state", STATE]
    watch = talk.watch()
    talk.kill_other(watch)
    said = subprocess.run(code, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 1
    assert "must be undone from the network namespace" in said.stdout
    assert host.by_hand("undo")[0] == 0


BARE = """
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/state
"""


@pytest.mark.parametrize("there", ["", "mkdir /run/netns\n"], ids=["absent", "empty"])
def test_directory_of_named_namespaces_is_as_it_was(there):
    """With the first namespace `ip` makes the directory and mounts it on itself."""
    needs_root()
    host = Host(BARE + there)
    look = "find /run; cut -d' ' -f5 /proc/self/mountinfo"
    before = host.sh(look)
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=True, plugins=None)
    for node in NODES:
        talk.ask(**node)
    assert host.sh(look) != before
    assert talk.ask("end")["left"] == []
    talk.close()
    host.settled()
    assert host.sh(look) == before
    host.close()


@pytest.mark.parametrize("first", [0, 1], ids=["first-in-first-out", "last-in-first-out"])
def test_directory_of_named_namespaces_is_released_by_the_last(first):
    """Agents of one host have names in it at the same time, and leave one after the other."""
    needs_root()
    host = Host(BARE)
    look = "find /run -path /run/other -prune -o -print; cut -d' ' -f5 /proc/self/mountinfo"
    before = host.sh(look)
    talks = [Talk(host), Talk(host, state="/run/other")]
    for talk, node in zip(talks, NODES, strict=True):
        talk.ask("begin", token="run-1", owner=talk is talks[0], plugins=None)
        talk.ask(**node)
    for talk in (talks[first], talks[1 - first]):
        assert "/run/netns" in host.sh(look)
        assert talk.ask("end")["left"] == []
        assert talk.status() == 0
    host.settled()
    assert host.sh(look) == before
    host.close()

"""Every request of the conversation, on a private host; after each test the host is what it was."""

from __future__ import annotations

import time

import pytest
from private_host import STATE, Talk

pytestmark = pytest.mark.full

NSEC = 10**9
VETH = [
    {"node": "S", "device": "S-R0", "mac": "02:00:00:00:00:01"},
    {"node": "R0", "device": "R0-S", "mac": "02:00:00:00:00:02"},
]


def start(node, name, *argv, at_ns=None, ready=None, output=None, errors=None):
    return {
        "node": node, "name": name, "argv": argv, "output": output, "errors": errors,
        "at_ns": at_ns, "ready": ready,
    }  # fmt: skip


@pytest.fixture
def pair(talk):
    """Return a conversation with nodes S and R0, joined."""
    talk.ask("node", node="S")
    talk.ask("node", node="R0")
    talk.ask("veth", ends=VETH, mtu=1000)
    return talk


def content(host, name):
    return host.path(f"{STATE}/runs/run-1/files/{name}").read_text()


def test_first_line_and_clock(host, talk):
    assert talk.ready["ready"] is True
    assert talk.ready["protocol"] == 1
    assert talk.ready["boot_id"] == host.sh("cat /proc/sys/kernel/random/boot_id").strip()
    value = talk.ask("clock")
    assert abs(value["time_ns"] - time.time_ns()) < NSEC
    assert abs(value["monotonic_ns"] - time.monotonic_ns()) < NSEC


def test_clock_is_told_while_a_request_is_under_way(talk):
    passing = talk.send("pass", seconds=0.3)
    asked = talk.send("clock")
    assert [talk.reply()["id"], talk.reply()["id"]] == [asked, passing]


def test_facts_need_no_run_and_change_nothing(host):
    talk = Talk(host)
    facts = talk.ask("facts")
    talk.hang_up()
    assert talk.status() == 0
    assert {link["ifname"] for link in facts["links"]} >= {"lo", "eth0", "eth1", "eth2", "R0-S"}
    assert facts["offloads"]["eth1"]["tcp-segmentation-offload"] == {"on": False, "fixed": False}
    assert facts["tools"]["tc"]["version"].startswith("tc utility")
    assert facts["uname"]["release"] == host.sh("uname -r").strip()
    assert facts["unfinished"] == []
    host.settled()
    host.assert_same()


def test_what_is_no_request_is_refused(talk):
    talk.write(b"hello\n")
    assert "not a request" in talk.reply()["error"]["message"]
    assert talk.refused("dance")["message"] == "unknown request 'dance'"
    assert talk.refused("node")["message"] == "the request 'node' lacks 'node'"
    assert "cannot be the name" in talk.refused("node", node="../x")["message"]
    assert "has begun already" in talk.refused("begin", token="run-2", owner=True)["message"]
    assert "no node 'D'" in talk.refused("run", node="D", argv=["true"], output=None)["message"]


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("run", {"argv": ["true"], "output": None}),
        ("batch", {"program": "tc", "lines": []}),
        ("sysctls", {"keys": [], "output": "x"}),
        ("read", {"path": "/proc/net/dev", "output": "x"}),
        ("offloads", {"device": "eth0", "features": [], "output": "x"}),
        ("drained", {"device": "eth0", "timeout": 1}),
        ("start", {"starts": [{"node": None, "name": "p", "argv": ["true"], "output": None}]}),
        ("nic", {"interface": "eth1", "device": "x", "mac": "02:00:00:00:00:01", "mtu": 1000}),
    ],
)
def test_nothing_is_done_outside_of_all_nodes(pair, do, words):
    message = pair.refused(do, node=None, **words)["message"]
    assert message == "the run has no node None, only R0, S"


def test_a_second_run_on_the_same_host_is_refused(host, talk):
    other = Talk(host)
    error = other.refused("begin", token="run-2", owner=True, plugins=None)
    assert "run run-1 is under way (process" in error["message"]
    other.close()


def test_pair_of_nodes(host, pair):
    pair.ask("batch", node="S", program="ip", lines=[["link", "set", "S-R0", "up"]])
    shown = host.sh("ip -n tcpf-S -br link show S-R0; ip -n tcpf-R0 -br link show R0-S")
    assert "02:00:00:00:00:01" in shown
    assert "02:00:00:00:00:02" in shown
    assert "has an interface S-R0 already" in pair.refused("veth", ends=VETH, mtu=1000)["message"]
    assert "the namespace tcpf-S exists already" in pair.refused("node", node="S")["message"]


class Beside:
    """A host of the same kernel with a network and files of its own, as a role of a guest has."""

    def __init__(self, host):
        make = 'mount -n -t tmpfs tmpfs /run && mkdir /run/netns /run/state && exec "$@"'
        self.enter = [*host.enter, "unshare", "--net", "--mount", "sh", "-c", make, "sh"]


def test_link_leads_to_a_node_of_another_agent_and_goes_with_either(host, talk):
    beside = Talk(Beside(host))
    beside.ask("begin", token="run-1", owner=False, plugins=None)
    talk.ask("node", node="S")
    ends = [VETH[0], {**VETH[1], "agent": beside.ready["pid"]}]
    assert "R0" in talk.refused("veth", ends=ends, mtu=1000)["output"], "it has no node yet"
    beside.ask("node", node="R0")
    talk.ask("veth", ends=ends, mtu=1000)
    show = {"argv": ["ip", "link"], "output": None}
    assert "02:00:00:00:00:02" in beside.ask("run", node="R0", **show)["output"]
    assert beside.ask("end")["left"] == []
    beside.close()
    until = time.monotonic() + 10  # the kernel takes its time for a namespace
    while "S-R0" in talk.ask("run", node="S", **show)["output"]:
        assert time.monotonic() < until


def test_run_gives_output_or_writes_it(host, pair):
    assert pair.ask("run", node="R0", argv=["echo", "a"], output=None) == {"output": "a\n"}
    assert "S-R0" in pair.ask("run", node="S", argv=["ip", "link"], output=None)["output"]
    pair.ask("run", node="S", argv=["cat", "/proc/thread-self/net/dev"], output="stats/dev")
    assert "S-R0" in content(host, "stats/dev")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", ""])
def test_files_outside_of_the_run_are_refused(pair, name):
    wish = start("S", "p", "true", output=name or "../")
    assert "not a path within" in pair.refused("start", starts=[wish])["message"]


def test_failed_command_is_quoted(pair):
    error = pair.refused("run", node="S", argv=["sh", "-c", "seq 30 >&2; exit 3"], output=None)
    assert error["command"] == ["sh", "-c", "seq 30 >&2; exit 3"]
    assert error["status"] == 3
    assert error["output"].splitlines() == [str(n) for n in range(11, 31)]
    error = pair.refused("run", node="S", argv=["no-such-program"], output=None)
    assert error["status"] == 127
    assert "there is no program 'no-such-program'" in error["message"]


def test_failed_line_of_a_batch_is_quoted(pair):
    lines = [["link", "set", "lo", "up"], ["link", "set", "S-D", "up"], ["link", "set", "x", "up"]]
    error = pair.refused("batch", node="S", program="ip", lines=lines)
    assert error["message"] == "command 2 of 3 failed in node S"
    assert error["command"] == ["ip", "link", "set", "S-D", "up"]
    assert error["output"] == 'Cannot find device "S-D"'
    tbf = ["qdisc", "add", "dev", "S-R0", "root", "tbf", "rate", "1mbit", "burst"]
    error = pair.refused("batch", node="S", program="tc", lines=[tbf])
    assert error["command"] == ["tc", *tbf]
    good = ["qdisc", "show", "dev", "S-R0"]
    error = pair.refused("batch", node="S", program="tc", lines=[good, tbf])
    assert error["message"] == "a batch of 2 commands ended with status 255 in node S"
    assert "Command line is not complete" in error["output"]
    assert "allowed: ip, tc" in pair.refused("batch", node="S", program="sh", lines=[])["message"]


def test_sysctls(host, pair):
    pair.ask("sysctl", node="S", key="net.ipv4.tcp_sack", value="0")
    pair.ask("sysctl", node=None, key="net.ipv4.tcp_retries2", value="6")
    pair.ask("sysctl", node=None, key="net.ipv4.tcp_retries2", value="5")
    assert host.sh("sysctl -n net.ipv4.tcp_retries2") == "5\n"
    keys = ["net.ipv4.tcp_sack", "net.ipv4.tcp_rmem"]
    pair.ask("sysctls", node="S", keys=keys, output="stats/sysctl")
    first, second = content(host, "stats/sysctl").splitlines()
    assert first == "net.ipv4.tcp_sack = 0"
    assert second.startswith("net.ipv4.tcp_rmem = ")
    assert len(second.split(" ")) == 5
    assert host.sh("sysctl -n net.ipv4.tcp_sack") == "1\n"
    refused = pair.refused("sysctl", node="S", key="net.ipv4.tcp_no_such", value="0")
    assert "cannot set net.ipv4.tcp_no_such" in refused["message"]
    assert "not the name" in pair.refused("sysctl", node="S", key="../x", value="0")["message"]


def test_only_the_owner_sets_what_exists_once(host):
    talk = Talk(host)
    talk.ask("begin", token="run-1", owner=False, plugins=None)
    error = talk.refused("sysctl", node=None, key="net.ipv4.tcp_retries2", value="6")
    assert "another agent manages this kernel" in error["message"]
    assert "another agent" in talk.refused("module", path=None, name="sch_tbf")["message"]
    talk.ask("end")
    assert talk.status() == 0


def test_read_is_of_the_node(host, pair):
    pair.ask("read", node="S", path="/proc/net/dev", output="stats/dev")
    assert "S-R0" in content(host, "stats/dev")
    assert "eth1" not in content(host, "stats/dev")
    pair.ask("read", node="S", path="/proc/net/none", output="stats/none", optional=True)
    assert not host.path(f"{STATE}/runs/run-1/files/stats/none").exists()
    error = pair.refused("read", node="S", path="/proc/net/none", output="x")
    assert error["message"] == "cannot read /proc/net/none: No such file or directory"


def test_offloads(host, pair):
    features = ["tcp-segmentation-offload", "generic-receive-offload"]
    pair.ask("offloads", node="S", device="S-R0", features=features, output="stats/offload")
    said = content(host, "stats/offload")
    assert "\ntcp-segmentation-offload: off\n" in said
    assert "\ngeneric-receive-offload: off" in said
    error = pair.refused("offloads", node="S", device="none", features=features, output="x")
    assert error["command"] == ["ethtool", "-k", "none"]


def test_module_that_is_not_there(pair):
    error = pair.refused("module", path="/none/act_none.ko", name="act_none")
    assert error["command"] == ["insmod", "/none/act_none.ko"]
    assert error["status"] != 0


def test_programs_are_ready_finish_and_stop(host, pair):
    ready = {"path": "log/b", "text": "listening", "timeout": 5}
    pair.ask(
        "start",
        starts=[
            start("S", "a", "sh", "-c", "sleep 0.1; echo done", output="log/a"),
            start("R0", "b", "sh", "-c", "echo listening >&2; exec sleep 60", errors="log/b",
                  ready=ready),
            start("R0", "c", "sh", "-c", "trap 'echo end; exit 0' INT; while :; do sleep .1; done",
                  output="log/c"),
        ],
    )  # fmt: skip
    assert content(host, "log/b") == "listening\n"
    pair.ask("finish", names=["a"], deadline_ns=time.time_ns() + 5 * NSEC)
    assert content(host, "log/a") == "done\n"
    pair.ask("stop", names=["b", "c"])
    assert content(host, "log/c") == "end\n"
    assert pair.ask("lateness") == {}
    assert (
        "'a' has been started" in pair.refused("start", starts=[start("S", "a", "true")])["message"]
    )
    assert "no program called 'x'" in pair.refused("stop", names=["x"])["message"]


def test_program_that_fails_is_quoted(pair):
    wish = start("S", "a", "sh", "-c", "echo why >&2; exit 4", errors="log/a")
    pair.ask("start", starts=[wish, start("S", "b", "sleep", "60")])
    begun = time.monotonic()
    deadline = time.time_ns() + 30 * NSEC
    error = pair.refused("finish", names=["b", "a"], deadline_ns=deadline)
    assert time.monotonic() - begun < 5
    assert error["message"] == "a ended with status 4"
    assert (error["status"], error["output"]) == (4, "why")
    assert "ended with status 4" in pair.refused("stop", names=["a"])["message"]


def test_program_that_does_not_finish_in_time(pair):
    pair.ask("start", starts=[start("S", "a", "sleep", "60"), start("S", "b", "sleep", "60")])
    error = pair.refused("finish", names=["a", "b"], deadline_ns=time.time_ns() + NSEC // 10)
    assert error["message"] == "a did not end in time, nor did 1 more"


def test_program_that_is_never_ready(pair):
    ready = {"path": "log/a", "text": "ready", "timeout": 0.2}
    error = pair.refused(
        "start", starts=[start("S", "a", "sleep", "60", errors="log/a", ready=ready)]
    )
    assert error["message"] == "a did not print 'ready' within 0.2 s"
    wish = start("S", "b", "sh", "-c", "echo no >&2; exit 1", errors="log/b",
                 ready={**ready, "path": "log/b", "timeout": 10})  # fmt: skip
    error = pair.refused("start", starts=[wish])
    assert (error["message"], error["output"]) == ("b ended with status 1", "no")
    error = pair.refused("start", starts=[start("S", "c", "no-such-program")])
    assert "no program 'no-such-program'" in error["message"]


def test_programs_start_at_their_instant(host, pair):
    at = time.time_ns() + 5 * NSEC  # time enough for a busy machine to make the processes
    wishes = [
        start("S", f"p{n}", "date", "+%s%N", output=f"log/{n}", at_ns=at + n * 1_000_000)
        for n in range(50)
    ]
    pair.ask("start", starts=wishes)
    assert time.time_ns() < at
    names = [wish["name"] for wish in wishes]
    pair.ask("finish", names=names, deadline_ns=at + 30 * NSEC)
    lateness = pair.ask("lateness")
    assert sorted(lateness) == sorted(names)
    assert min(lateness.values()) >= 0
    assert sorted(lateness.values())[25] < 0.1  # 0.2 ms on a machine that has time for it
    for wish in wishes:
        assert int(content(host, wish["output"])) >= wish["at_ns"]


def test_program_of_an_instant_that_cannot_be_started(host, pair):
    host.path(f"{STATE}/runs/run-1/files/x").write_text("\x7fELF nothing")
    host.path(f"{STATE}/runs/run-1/files/x").chmod(0o755)
    program = f"{STATE}/runs/run-1/files/x"
    pair.ask("start", starts=[start("S", "a", program, at_ns=time.time_ns() + NSEC // 20)])
    error = pair.refused("finish", names=["a"], deadline_ns=time.time_ns() + 5 * NSEC)
    assert error["message"] == "a cannot be started: Exec format error"


def test_drained(pair):
    pair.ask("drained", node="S", device="S-R0", timeout=5)
    tbf = "qdisc add dev S-R0 root tbf rate 800bit burst 2000 limit 100000"
    up = [["link", "set", "S-R0", "up"], ["address", "add", "10.0.0.1/24", "dev", "S-R0"]]
    up.append(["neighbour", "add", "10.0.0.2", "lladdr", VETH[1]["mac"], "dev", "S-R0"])
    pair.ask("batch", node="S", program="ip", lines=up)
    pair.ask("batch", node="R0", program="ip", lines=[["link", "set", "R0-S", "up"]])
    pair.ask("batch", node="S", program="tc", lines=[tbf.split()])
    send = "import socket; s = socket.socket(2, 2); "
    send += "[s.sendto(b'x' * 900, ('10.0.0.2', 9)) for _ in range(9)]"
    pair.ask("run", node="S", argv=["python3", "-c", send], output=None)
    error = pair.refused("drained", node="S", device="S-R0", timeout=0.3)
    assert "the queue on S-R0 is not empty after 0.3 s" in error["message"]
    assert "packets in tbf" in error["message"]

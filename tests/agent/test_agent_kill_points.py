"""Whenever the agent is killed, at every request and record, the host is what it was before."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from private_host import Host, Talk, needs_root

pytestmark = pytest.mark.full

NSEC = 10**9

#: An agent that kills itself before or after the n-th call of a method of its journal.
FATAL = """
import os, signal, sys
from tcpf_lab.testbed.ssh.agent import journal
from tcpf_lab.testbed.ssh.agent.__main__ import main
method, moment, number = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
real, agent, count = getattr(journal.Journal, method), os.getpid(), 0
def fatal(*arguments, **more):
    global count
    hit = os.getpid() == agent and count == number
    count += 1
    if hit and moment == "before":
        os.kill(agent, signal.SIGKILL)
    real(*arguments, **more)
    if hit and moment == "after":
        os.kill(agent, signal.SIGKILL)
setattr(journal.Journal, method, fatal)
main()
"""


def words(line):
    return line.split()


def end(node, device, number):
    return {"node": node, "device": device, "mac": f"02:00:00:00:00:{number:02x}"}


def start(node, name, *argv, **more):
    return {"node": node, "name": name, "argv": argv, "output": f"log/{name}", **more}


def script():
    """Return the requests of a whole run on one host."""
    gone = "setsid sh -c 'trap \"\" INT TERM HUP; while :; do sleep 5; done' & env -i sleep 99 &"
    later = time.time_ns() + 60 * NSEC
    return [
        {"do": "begin", "token": "run-1", "owner": True, "plugins": "/none"},
        {"do": "sysctl", "node": None, "key": "net.ipv4.tcp_retries2", "value": "7"},
        {"do": "node", "node": "S"},
        {"do": "node", "node": "R0"},
        {"do": "veth", "ends": [end("S", "S-R0", 1), end("R0", "R0-S", 2)], "mtu": 1000},
        {"do": "nic", "interface": "eth1", "node": "R0", "device": "R0-R1",
         "mac": "02:00:00:00:01:01", "mtu": 1000},
        # Its name is one that the host's interface R0-S must not meet there, nor on the way back.
        {"do": "nic", "interface": "R0-S", "node": "R0", "device": "eth1",
         "mac": "02:00:00:00:01:02", "mtu": 1000},
        {"do": "nic", "interface": "eth2", "node": "S", "device": "S-D",
         "mac": "02:00:00:00:01:03", "mtu": 9000},
        {"do": "sysctl", "node": "R0", "key": "net.ipv6.conf.all.disable_ipv6", "value": "1"},
        {"do": "batch", "node": "R0", "program": "ip", "lines": [
            words("address add 10.0.0.2/24 dev R0-S"),
            words("link set R0-S gso_max_segs 1 up"),
            words("address add 10.0.1.1/24 dev R0-R1"),
            words("link set R0-R1 gso_max_segs 1 txqueuelen 10 promisc on up"),
            words("neighbour add 10.0.1.2 lladdr 02:00:00:00:09:09 dev R0-R1 nud permanent"),
            words("route add 10.0.2.0/24 via 10.0.1.2"),
        ]},
        {"do": "batch", "node": "S", "program": "ip", "lines": [
            words("address add 10.0.0.1/24 dev S-R0"), words("link set S-R0 up"),
            words("link set S-D up"),
        ]},
        {"do": "offloads", "node": "R0", "device": "R0-R1", "output": "stats/offload",
         "features": ["generic-segmentation-offload", "generic-receive-offload"]},
        {"do": "offloads", "node": "R0", "device": "eth1", "output": "stats/offload",
         "features": ["tcp-segmentation-offload", "generic-receive-offload"]},
        {"do": "batch", "node": "R0", "program": "tc", "lines": [
            words("qdisc add dev R0-R1 root handle 1: tbf rate 10mbit burst 4056 limit 100000"),
        ]},
        {"do": "sysctls", "node": "S", "keys": ["net.ipv4.tcp_sack"], "output": "stats/sysctl"},
        {"do": "read", "node": "S", "path": "/proc/net/snmp", "output": "stats/snmp"},
        {"do": "start", "starts": [
            start("S", "orphans", "sh", "-c", gone + " echo on; wait",
                  ready={"path": "log/orphans", "text": "on", "timeout": 5}),
            start("R0", "capture", "sleep", "60"),
        ]},
        {"do": "start", "starts": [start("S", "later", "sleep", "9", at_ns=later)]},
        {"do": "start", "starts": [start("R0", "short", "true")]},
        {"do": "run", "node": "R0", "argv": ["ip", "-s", "link"], "output": "stats/links"},
        {"do": "finish", "names": ["short"], "deadline_ns": later},
        {"do": "drained", "node": "R0", "device": "R0-R1", "timeout": 5},
        {"do": "stop", "names": ["capture"]},
        {"do": "lateness"},
        {"do": "pass", "seconds": 0.01},
    ]  # fmt: skip


def play(talk, requests):
    """Ask for everything in turn until the agent dies."""
    for request in requests:
        talk.ask(**request)


def after_replies(host, number):
    """Kill the agent when it has answered the first requests."""
    talk = Talk(host)
    play(talk, script()[:number])
    talk.kill()
    return talk


def within_request(host, number):
    """Kill the agent while it carries a request out, sooner or later."""
    talk = Talk(host)
    play(talk, script()[:number])
    talk.send(**script()[number])
    time.sleep(0.001 * (number * 7 % 12))
    talk.kill()
    return talk


def at_record(host, method, moment, number):
    """Kill the agent before or after it writes a record, or notes one as undone."""
    talk = Talk(host, program=("-c", FATAL, method, moment, str(number)))
    with pytest.raises((AssertionError, BrokenPipeError)):
        play(talk, [*script(), {"do": "end"}])
    return talk


def watch_too(host, milliseconds):
    """Kill the agent, then the watch while it undoes; a person does the rest."""
    talk = Talk(host)
    play(talk, script())
    watch = talk.watch()
    talk.kill_other(watch, signal.SIGSTOP)
    talk.kill()
    talk.status()
    talk.kill_other(watch, signal.SIGCONT)
    time.sleep(milliseconds / 1000)
    talk.kill_other(watch)
    host.by_hand("undo")
    return talk


REQUESTS = len(script())
RECORDS = (
    10  #: run, modules, sysctl, two nodes, pair, three interfaces; the last number is too high
)


def points():
    for number in range(REQUESTS + 1):
        yield f"after {number} requests", after_replies, (number,)
    for number in range(REQUESTS):
        yield f"within request {number}", within_request, (number,)
    for milliseconds in range(2, 80, 8):
        yield f"{milliseconds} ms into the watch's undoing", watch_too, (milliseconds,)
    for moment in ("before", "after"):
        for number in range(RECORDS - 1):
            yield f"{moment} record {number}", at_record, ("add", moment, number)
            if number < RECORDS - 2:
                yield f"{moment} undoing {number}", at_record, ("done", moment, number)


@pytest.fixture(scope="module")
def hosts():
    """Return several hosts, so that one's waiting is another's time."""
    needs_root()
    hosts = [Host() for _ in range(5)]
    for host in hosts:
        host.before = host.settled_snapshot()
    yield hosts
    for host in hosts:
        host.close()


def test_host_is_what_it_was_wherever_the_agent_is_killed(hosts, record_property):
    left, lock, differences = list(points()), threading.Lock(), {}
    total = len(left)

    def work(host):
        while True:
            with lock:
                if not left:
                    return
                name, kill, arguments = left.pop()
            try:
                kill(host, *arguments).close()
                host.settled()
                host.assert_same()
            except BaseException as error:  # noqa: BLE001 - told with all the others
                differences[name] = error
                host.before = host.settled_snapshot()

    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(work, hosts))
    record_property("kill points", total)
    print(f"{total} kill points")
    assert differences == {}
    assert total > 90


def test_script_is_a_whole_run(hosts):
    """The sweep kills a run that would have ended well, and the numbers cover all its records."""
    host = hosts[0]
    talk = Talk(host)
    play(talk, script())
    records = host.sh("wc -l < /run/state/runs/run-1/journal.jsonl")
    assert int(records) == RECORDS - 1
    value = talk.ask("end")
    assert value == {"undone": RECORDS - 2, "left": [], "lost": []}
    assert talk.status() == 0
    host.settled()
    host.assert_same()

"""The testbed of real hosts against agents that only record what they are asked."""

from __future__ import annotations

import errno
import json
import os
import pickle
import threading
import time

import pytest
from fake_agent import FakeHost, FakeNetwork

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import (
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    End,
    Finish,
    LoadModule,
    Phase,
    Start,
    Stop,
    Sysctl,
)
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import builds, channel, hosts
from tcpf_lab.testbed.ssh import clock as ssh_clock
from tcpf_lab.testbed.ssh import run as ssh_probe
from tcpf_lab.testbed.ssh import session as ssh_session
from tcpf_lab.testbed.ssh.run import SshTestbed
from tcpf_lab.testbed.uml import guest

NSEC = 10**9
HOSTS = {
    "ends": {
        "control": "lo",
        "roles": ["S", "D"],
        "interfaces": {"S-R0": "eth1", "D-R2": "eth2"},
    },
    "routers": {
        "control": "lo",
        "roles": ["R0", "R1", "R2"],
        "interfaces": {"R0-S": "eth1", "R2-D": "eth2"},
    },
}


@pytest.fixture
def inventory(tmp_path):
    state = str(tmp_path / "state")
    return Inventory.model_validate({"name": "two", "hosts": HOSTS, "state_directory": state})


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setattr(ssh_probe, "problems", lambda *_: iter(()))
    return FakeNetwork(FakeHost("ends"), FakeHost("routers", ahead_ns=37 * NSEC))


@pytest.fixture
def bed(inventory, network):
    return SshTestbed(inventory, connect=network)


@pytest.fixture
def run(tmp_path):
    files = RunFiles(tmp_path / "TCPF+RIO-20-1.partial")
    files.create()
    return files


def plan(*phases):
    named = (Phase(f"phase {number}", steps) for number, steps in enumerate(phases))
    return Plan(tuple(named), {}, (0.0, 1.0), ())


def whole(recorded, generator="iperf3", flows=5):
    settings = [f"traffic.generator={generator}", f"matrix.flows=[{flows}]"]
    return compose(expand(apply_overrides(load(recorded / "experiment.yaml"), settings))[0])


def test_whole_run_brings_every_file_and_undoes_everything(bed, network, run, recorded):
    a_plan = whole(recorded)
    bed.execute(a_plan, run, seed=1)
    named = {
        path
        for step in a_plan.steps
        for path in (getattr(step, "output", None), getattr(step, "errors", None))
        if path
    }
    assert {path for path in named if not (run.root / path).exists()} == set()
    assert {path.name for path in run.root.iterdir()} == {"log", "pcap", "stats"}
    for host in network.hosts.values():
        assert host.requests[-1]["do"] == "end"
        assert host.closed


def test_clocks_and_facts_of_the_hosts_are_recorded(bed, network, run, recorded):
    network["ends"].lateness = {"client-0": 0.001}
    bed.execute(whole(recorded), run, seed=1)
    epoch = read_json(run.stats / "epoch.json")
    assert set(epoch["nodes"]) == {"S", "D", "R0", "R1", "R2"}
    assert epoch["nodes"]["R1"]["offset_ns"] == pytest.approx(37 * NSEC, abs=NSEC // 20)
    assert abs(epoch["nodes"]["S"]["offset_ns"]) < NSEC // 20
    for node in epoch["nodes"].values():
        assert node["epoch_ns"] == epoch["epoch_ns"] + node["offset_ns"]
    clock = read_json(run.stats / "clock.json")
    assert set(clock["D"][0]) == {"at_ns", "offset_ns", "round_trip_ns"}
    assert read_json(run.stats / "lateness.json") == {"client-0": 0.001}
    assert read_json(run.stats / "hosts.json")["routers"]["roles"] == ["R0", "R1", "R2"]
    facts = bed.facts(whole(recorded))
    assert facts["hosts"]["ends"]["uname"]["release"] == "6.12.0-fake"
    assert json.loads(json.dumps(facts)) == facts


def test_programs_are_told_the_epoch_as_their_host_has_it(bed, network, run, recorded):
    bed.execute(whole(recorded), run, seed=1)
    epoch = read_json(run.stats / "epoch.json")["epoch_ns"]
    (servers, clients) = (r for r in network["ends"].done("start") if len(r["starts"]) == 5)
    assert all(start["at_ns"] is None for start in servers["starts"])
    for start in clients["starts"]:
        assert 0 <= start["at_ns"] - epoch < 3 * NSEC
    (finish,) = network["ends"].done("finish")
    assert finish["deadline_ns"] > epoch


def test_one_agent_of_each_kernel_owns_it(bed, network, run):
    bed.execute(plan((Sysctl(None, "net.core.wmem_max", "1"),)), run, seed=1)
    assert [host.done("begin")[0]["owner"] for host in network.hosts.values()] == [True, False]
    assert len(network["ends"].done("sysctl")) == 1
    assert network["routers"].done("sysctl") == []


def test_kernels_are_told_apart_by_their_boot(bed, network, run):
    network["routers"].boot_id = "another kernel"
    bed.execute(plan((Sysctl(None, "net.core.wmem_max", "1"),)), run, seed=1)
    for host in network.hosts.values():
        assert host.done("begin")[0]["owner"] is True
        assert len(host.done("sysctl")) == 1


def failing(action, **fault):
    def answer(request):
        return fault if request["do"] == action else None

    return answer


def test_failed_command_is_reported_with_host_role_status_output_and_cure(bed, network, run):
    network["routers"].faults.append(
        failing(
            "run",
            message="it failed",
            command=["tc", "qdisc", "add", "dev", "R1-R2", "rio"],
            status=2,
            output="Error: Specified qdisc kind is unknown.",
        )
    )
    with pytest.raises(TestbedError) as caught:
        bed.execute(plan((Command("R1", ("tc", "qdisc"), "stats/x"),)), run, seed=1)
    text = str(caught.value)
    assert text.startswith("host routers (role R1): `tc qdisc add dev R1-R2 rio` ended with status")
    assert "status 2:\n  | Error: Specified qdisc kind is unknown." in text
    assert "modprobe" in caught.value.hint
    assert str(run.log) in text
    assert [host.requests[-1]["do"] for host in network.hosts.values()] == ["end", "end"]


def test_nothing_more_is_begun_after_a_failure(bed, network, run):
    network["ends"].faults.append(failing("sysctl", message="refused"))
    steps = (Sysctl("S", "a", "1"), Sysctl("S", "b", "2"), Sysctl("D", "c", "3"))
    with pytest.raises(TestbedError, match="refused"):
        bed.execute(plan(steps, (Sysctl("R1", "d", "4"),)), run, seed=1)
    assert [request["key"] for request in network["ends"].done("sysctl")] == ["a"]
    assert network["routers"].done("sysctl") == []


def test_first_error_wins_and_what_is_left_is_added(bed, network, run):
    network["ends"].faults.append(failing("sysctl", message="the first error"))
    network["routers"].left = ["interface eth1 is not back"]
    with pytest.raises(TestbedError) as caught:
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    assert "the first error" in str(caught.value).splitlines()[0]
    assert "host routers: not undone: interface eth1 is not back" in str(caught.value)
    assert "tcpf-lab clean --testbed two" in caught.value.hint


def test_what_is_lost_is_not_promised_to_be_undone(bed, network, run):
    network["ends"].lost = ["interface eth1: it is gone"]
    with pytest.raises(TestbedError, match="some changes could not be undone") as caught:
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    assert "host ends: not undone: undo by hand: interface eth1" in caught.value.message
    assert "tcpf-lab clean" not in caught.value.hint
    assert "by hand" in caught.value.hint


def test_run_after_which_something_is_left_has_failed(bed, network, run):
    network["ends"].left = ["process 17 still runs"]
    with pytest.raises(TestbedError, match="process 17 still runs"):
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)


def test_host_that_is_busy_is_told_to_end_when_another_fails(bed, network, run):
    network["ends"].deaf.add("finish")
    network["routers"].faults.append(failing("finish", message="a program ended with status 1"))
    programs = (Start("S", "long", ("x",)), Start("R1", "short", ("x",)))
    steps = ((AgreeEpoch(0, "stats/epoch.json"),), programs, (Finish(("long", "short"), 300.0),))
    began = time.monotonic()
    with pytest.raises(TestbedError, match="ended with status 1") as caught:
        bed.execute(plan(*steps), run, seed=1)
    assert time.monotonic() - began < 10
    assert network["ends"].requests[-1]["do"] == "end"
    assert not network["ends"].hung_up
    assert "not undone" not in str(caught.value)


def test_agent_that_does_not_answer_is_hung_up_on(bed, network, run, monkeypatch):
    monkeypatch.setattr(ssh_session, "UNDO_S", 0.3)
    network["ends"].deaf.add("end")
    bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    assert network["ends"].hung_up


@pytest.mark.parametrize(("status", "words"), [(None, "connection broke"), (137, "status 137")])
def test_agent_that_dies_is_named_and_the_other_host_is_told(bed, network, run, status, words):
    network["routers"].dies_at["sysctl"] = status
    network["routers"].last_words = "MemoryError"
    steps = ((Sysctl("R1", "net.ipv4.ip_forward", "1"),),)
    with pytest.raises(TestbedError) as caught:
        bed.execute(plan(*steps), run, seed=1)
    assert caught.value.where == "host routers"
    assert words in str(caught.value)
    assert "host routers does not answer" in str(caught.value)
    assert network["ends"].requests[-1]["do"] == "end"


def test_answer_that_does_not_come_is_an_error(bed, network, run, monkeypatch):
    monkeypatch.setattr(channel.Request, "patience", 0.3)
    network["ends"].deaf.add("stop")
    programs = (Start("S", "tcpdump", ("x",)),)
    a_plan = plan((AgreeEpoch(0, "stats/epoch.json"),), programs, (Stop(("tcpdump",)),))
    monkeypatch.setattr("tcpf_lab.testbed.ssh.steps.PATIENCE_S", 0.3)
    monkeypatch.setattr("tcpf_lab.testbed.ssh.steps._of.__defaults__", (0.3,))
    with pytest.raises(TestbedError, match=r"`stop tcpdump` did not finish within 0\.3 s"):
        bed.execute(a_plan, run, seed=1)


@pytest.mark.full
def test_silent_host_is_lost(bed, network, run, monkeypatch):
    monkeypatch.setattr(channel, "LOST_AFTER", 0.2)
    monkeypatch.setattr(channel, "BEAT_S", 0.05)
    network["ends"].silent_from = "sysctl"
    with pytest.raises(TestbedError, match="no data for too long during `sysctl"):
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)


@pytest.mark.full
def test_agent_hears_beats_while_it_works(bed, network, run, monkeypatch):
    monkeypatch.setattr(channel, "BEAT_S", 0.05)
    monkeypatch.setattr(channel, "LOST_AFTER", 0.1)
    network["ends"].deaf.add("sysctl")
    threading.Timer(5.0, lambda: network["ends"].agent.exit(3)).start()
    with pytest.raises(TestbedError, match="status 3"):  # not lost: its clock answered all the time
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    beats = [r for r in network["ends"].agent.requests if r["do"] == "beat"]
    assert len(beats) > 5


def test_interrupt_has_everything_undone(bed, network, run, monkeypatch):
    network["ends"].deaf.add("sysctl")
    begun = time.monotonic()
    monkeypatch.setattr(guest, "_should_stop", lambda: time.monotonic() - begun > 1.0)
    with pytest.raises(KeyboardInterrupt):
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    assert [host.requests[-1]["do"] for host in network.hosts.values()] == ["end", "end"]


def test_host_that_cannot_be_reached_ends_the_run_before_anything_is_begun(bed, network, run):
    network["routers"].unreachable = TestbedError("connection refused", where="host routers")
    with pytest.raises(TestbedError, match="connection refused"):
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    deadline = time.monotonic() + 5
    while not network["ends"].closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert network["ends"].closed
    assert not network["ends"].done("begin")


def test_programs_that_are_not_ready_in_time_end_the_run(bed, network, run, monkeypatch):
    monkeypatch.setattr("tcpf_lab.testbed.ssh.run.LEAD_MORE_S", -5.0)
    steps = ((AgreeEpoch(2, "stats/epoch.json"),), (Start("S", "late", ("x",)),))
    with pytest.raises(TestbedError, match="after their start time"):
        bed.execute(plan(*steps), run, seed=1)


def test_a_hundred_flows_of_iperf3_are_started_by_two_requests(bed, network, run, recorded):
    bed.execute(whole(recorded, flows=100), run, seed=1)
    sizes = [len(request["starts"]) for request in network["ends"].done("start")]
    assert sizes.count(100) == 2
    assert len(list(run.log.glob("iperf3-server-*.log"))) == 100


def test_native_generator_is_sent_to_the_hosts_that_run_it(bed, network, run, recorded, tmp_path):
    bed.execute(whole(recorded, "native"), run, seed=1)
    (program,) = (tmp_path / "state/programs").glob("*/tcpf-traffic")
    assert program.stat().st_mode & 0o111
    words = [s["argv"][0] for r in network["ends"].done("start") for s in r["starts"]]
    assert str(program) in words
    assert network["routers"].closed


def test_log_tells_what_each_host_was_asked(bed, network, run):
    bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    records = [json.loads(line) for line in (run.log / "requests.jsonl").read_text().splitlines()]
    (sysctl,) = (record for record in records if record["do"] == "sysctl")
    assert sysctl["host"] == "ends"
    assert sysctl["text"] == "sysctl -w a=1"
    assert sysctl["seconds"] >= 0


def test_log_that_cannot_be_written_is_told_as_that(bed, network, run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/results/requests.jsonl")

    monkeypatch.setattr("tcpf_lab.testbed.ssh.run.RequestLog.__call__", full)
    with pytest.raises(TestbedError, match="cannot write the request log: No space") as caught:
        bed.execute(plan((Sysctl("S", "a", "1"),)), run, seed=1)
    assert caught.value.where == "/results/requests.jsonl"
    assert network["ends"].hung_up, "the hosts undo everything all the same"


def test_clocks_are_asked_during_the_run(bed, run, monkeypatch):
    monkeypatch.setattr(channel, "BEAT_S", 0.05)
    slow = {"do": lambda request: time.sleep(0.5) if request["do"] == "sysctl" else None}
    bed.connect["ends"].faults.append(slow["do"])
    bed.execute(plan((AgreeEpoch(0, "stats/epoch.json"),), (Sysctl("S", "a", "1"),)), run, seed=1)
    found = read_json(run.stats / "clock.json")["S"]
    assert len(found) > 2 * ssh_clock.EXCHANGES
    assert [each["at_ns"] for each in found] == sorted(each["at_ns"] for each in found)


def test_clock_that_was_set_there_and_back_during_the_run_is_told(bed, network, run, monkeypatch):
    monkeypatch.setattr(channel, "BEAT_S", 0.05)

    def set_clock(request):
        if request["do"] == "sysctl":
            for step in (2 * NSEC, -2 * NSEC):
                network["ends"].set_ns += step
                time.sleep(0.3)

    network["ends"].faults.append(set_clock)
    with pytest.raises(TestbedError, match=r"clock was stepped by \+2\.000 s") as caught:
        bed.execute(
            plan((AgreeEpoch(0, "stats/epoch.json"),), (Sysctl("S", "a", "1"),)), run, seed=1
        )
    assert caught.value.where == "host ends"


def test_what_comes_after_the_end_of_a_session_is_let_go(inventory, network):
    session = ssh_session.Session(inventory, "a-run", network, lambda *_: None)
    agent = ssh_session.start_agent(network["ends"], inventory)
    assert session.keep_host("ends", network["ends"])
    assert session.keep_agent("ends", agent)
    assert session.end() == ()
    assert network["ends"].requests[-1]["do"] == "end"
    late = ssh_session.start_agent(network["routers"], inventory)
    assert not session.keep_host("routers", network["routers"])
    assert not session.keep_agent("routers", late)
    assert network["routers"].closed
    assert not late.usable
    assert [*session.agents] == ["ends"]


def test_hosts_may_begin_a_run_while_those_that_have_are_gone_through(inventory, network):
    go_on = threading.Event()

    def hold(request):
        if request["do"] == "begin":
            go_on.wait(5.0)

    network["routers"].faults.append(hold)
    session = ssh_session.Session(inventory, "a-run", network, lambda *_: None)
    session.open()
    begin = threading.Thread(target=session.begin, args=({},))
    begin.start()
    while not session.files:
        time.sleep(0.01)
    for _ in session.files:
        go_on.set()
        begin.join()
    assert [*session.files] == ["ends", "routers"]
    session.end()


def test_agent_that_is_ready_after_it_was_given_up_stays_lost(inventory, network):
    network["ends"].mute = True
    agent = ssh_session.start_agent(network["ends"], inventory)
    agent.give_up(TestbedError("lost", where="host ends"))
    network["ends"].agent.say_ready()
    for _ in range(2):
        with pytest.raises(TestbedError, match="lost"):
            agent.ready(5.0)
        agent._receive({"ready": True})
    agent.close()


def test_testbed_goes_to_another_process(bed, network):
    copy = pickle.loads(pickle.dumps(SshTestbed(bed.inventory)))
    assert copy == SshTestbed(bed.inventory)
    assert (copy.name, copy.clock, copy.generator, copy.parallel) == (
        "two",
        "real",
        "iperf3",
        False,
    )


def test_identity_and_facts_ask_no_host(bed, network, recorded):
    a_plan = whole(recorded)
    assert bed.identity(a_plan) == bed.identity(a_plan)
    assert bed.facts(a_plan)["hosts"] == {}
    assert not network.connected


def changed(inventory, **changes):
    return SshTestbed(Inventory.model_validate({**inventory.model_dump(), **changes}))


def test_identity_is_of_what_can_change_results(bed, inventory, recorded):
    a_plan = whole(recorded)
    same = {
        **HOSTS,
        "ends": {**HOSTS["ends"], "user": "somebody", "port": 2222, "control": "eth7"},
    }
    other = {
        **HOSTS,
        "ends": {**HOSTS["ends"], "interfaces": {"S-R0": "eth9", "D-R2": "eth2"}},
    }
    mine = bed.identity(a_plan)
    assert changed(inventory, title="five nice machines").identity(a_plan) == mine
    assert changed(inventory, hosts=same).identity(a_plan) == mine
    assert changed(inventory, hosts=other).identity(a_plan) != mine


def test_identity_is_of_the_modules_and_programs_that_a_plan_uses(bed, recorded, monkeypatch):
    plain, marked = whole(recorded), plan((LoadModule("R1", "sch_rio"),))
    before = bed.identity(plain), bed.identity(marked)
    files = {**builds.sources(), "sched/sch_rio.c": b"another"}
    monkeypatch.setattr(builds, "sources", lambda: files)
    assert bed.identity(plain) == before[0]
    assert bed.identity(marked) != before[1]
    assert bed.identity(whole(recorded, "native")) != before[0]


def test_check_names_missing_roles_modules_and_hosts_all_at_once(bed, network):
    network["routers"].unreachable = TestbedError("refused", where="host routers", hint="sshd?")
    found = bed.check(plan((AddNode("S"), AddNode("S7"), LoadModule("R1", "sch_nonsense"))))
    assert len(found) == 3
    assert "no host plays S7" in found[0]
    assert "sch_nonsense" in found[1]
    assert found[2] == "host routers: refused (sshd?)"
    assert network["ends"].agent is None, "checking starts nothing"
    assert network["ends"].closed


def test_a_link_faster_than_its_cable_is_refused(tmp_path, network):
    cables = {"hosts": HOSTS, "links": {"rate": "100 Mbit"}}
    bed = SshTestbed(Inventory.model_validate({"name": "two", **cables}), connect=network)
    (near, far) = (End("R0", "R0-S", "02:00:00:00:00:02"), End("S", "S-R0", "02:00:00:00:00:01"))
    assert not bed.check(plan((AddLink((far, near), 1500, 10**8),)))
    (found,) = bed.check(plan((AddLink((far, near), 1500, 10**9),)))
    assert found == "link S-R0 needs 1 Gbit/s, its cable carries 100 Mbit/s"


def test_half_duplex_link_between_hosts_is_refused(network):
    bed = SshTestbed(Inventory.model_validate({"name": "two", "hosts": HOSTS}), connect=network)
    ends = (End("S", "S-R0", "02:00:00:00:00:01"), End("R0", "R0-S", "02:00:00:00:00:02"))
    assert not bed.check(plan((AddLink(ends, 1500, 10**7),)))
    (found,) = bed.check(plan((AddLink(ends, 1500, 10**7, ring=4),)))
    assert found.startswith("half duplex is not possible between hosts (S-R0)")
    assert "full_duplex.yaml" in found


@pytest.mark.parametrize(
    ("mode", "above", "told"),
    [
        (0o755, 0o755, None),
        (0o1777, 0o1777, None),
        (0o777, 0o755, "others may write to .*state"),
        (0o775, 0o755, "others may write to .*state"),
        (0o755, 0o777, "others may write to .*place"),
        (None, 0o777, "others may write to .*place"),
        (None, 0o1777, None),
    ],
)
def test_nothing_is_sent_where_others_may_write(network, tmp_path, mode, above, told):
    place = tmp_path / "place"
    state = place / "state"
    state.mkdir(parents=True)
    words = {"name": "two", "hosts": HOSTS, "state_directory": str(state)}
    inventory = Inventory.model_validate(words)
    if mode is None:
        state.rmdir()
    else:
        state.chmod(mode)
    place.chmod(above)
    if told is None:
        ssh_session.agent_path(network["ends"], inventory)
        assert (state / "agent").is_dir()
        return
    with pytest.raises(TestbedError, match=told) as caught:
        ssh_session.agent_path(network["ends"], inventory)
    assert caught.value.where == "host ends"
    assert not state.exists() or not any(state.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_nothing_is_sent_into_somebody_elses_directory(network, inventory, tmp_path):
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 12345, 12345)
    with pytest.raises(TestbedError, match="it belongs to user 12345, not to"):
        ssh_session.agent_path(network["ends"], inventory)
    assert not any((tmp_path / "state").iterdir())


def test_agents_program_is_sent_once(inventory, network, tmp_path):
    host = network["ends"]
    first = ssh_session.agent_path(host, inventory)
    written = (tmp_path / "state/agent").iterdir().__next__().stat().st_mtime_ns
    assert ssh_session.agent_path(host, inventory) == first
    assert (tmp_path / "state/agent").iterdir().__next__().stat().st_mtime_ns == written


# Messages about commands that failed on hosts: what happened, and what to try.

#: What programs really say -> a word of the advice that fits.
SAID = {
    "Error: Specified qdisc kind is unknown.": "modprobe sch_NAME",
    "Error: TC classifier not found.\nWe have an error talking to the kernel": "modprobe",
    "Error: Failed to load TC action module.": "modprobe",
    "RTNETLINK answers: File exists": "tcpf-lab clean --testbed five",
    "run 2024-7 is not undone on this host": "tcpf-lab clean --testbed five",
    'Cannot create namespace file "/run/netns/S": File exists': "tcpf-lab clean",
    'Cannot find device "enp1s0f0"': "ip -br link",
    "insmod: ERROR: could not insert module sch_rio.ko: Invalid module format": "linux-headers",
    "insmod: ERROR: could not insert module x.ko: Key was rejected by service": "Secure Boot",
    "modprobe: FATAL: Module sch_netem not found in directory /lib/modules/6.1": "doctor",
    "iperf3: error - unable to start listener: Address already in use": "ss -ltnp",
    "RTNETLINK answers: Operation not permitted": "user: root",
    "sudo: a password is required": "NOPASSWD",
    "write: No space left on device": "df -h",
    "sh: 1: iperf3: not found in PATH": "names its package",
    "something nobody has seen": "checks all hosts",
}


@pytest.mark.parametrize(("said", "advice"), SAID.items())
def test_advice_fits_what_was_said(said, advice):
    assert advice in hosts.likely(said, 1, "five")


def test_module_that_does_not_fit_has_its_directories_named(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    place = "/var/lib/tcpf-lab/modules/0123456789abcdef"
    said = "insmod: ERROR: could not insert module sch_rio.ko: Invalid module format"
    error = hosts.failed("host a", "five", ("insmod", f"{place}/sch_rio.ko"), 1, said)
    assert (
        f"{place} on the host and /cache/tcpf-lab/hosts/0123456789abcdef on this machine"
        in error.hint
    )
    assert error.status == 1
    said = "modprobe: ERROR: could not insert 'sch_rio': Exec format error, version magic"
    error = hosts.failed("host a", "five", ("modprobe", "sch_rio"), 1, said)
    assert "`modules` in the state directory of the host" in error.hint


def test_advice_about_a_host_needs_no_home_here(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    assert "df -h" in hosts.likely("write: No space left on device", 1, "five")


def test_missing_program_is_seen_by_its_status():
    assert "program is missing" in hosts.likely("", 127, "five")


def test_last_lines_are_shown_and_no_more():
    said = "\n".join(f"line {number}" for number in range(100))
    error = hosts.failed("host alpha", "five", ("tc", "a b"), 2, said)
    shown = str(error).splitlines()
    assert shown[0] == "host alpha: `tc 'a b'` ended with status 2:"
    assert shown[1] == "  | line 80"
    assert shown[20] == "  | line 99"
    assert shown[21].startswith("  try: ")


def test_signal_and_silence_are_told():
    error = hosts.failed("host alpha", "five", "the agent", -9, "")
    assert str(error).startswith("host alpha: `the agent` ended with signal 9, without output")


def test_reply_without_a_status_is_its_message():
    reply = {"message": "not ready within 10 s", "command": ["iperf3", "-s"], "status": None}
    error = hosts.refused("host alpha", "five", "start server", {**reply, "output": "x"})
    assert error.message == "`iperf3 -s`: not ready within 10 s\n  | x"


def test_reply_without_a_command_names_the_step():
    error = hosts.refused("host alpha", "five", "await an empty queue", {"message": "no"})
    assert error.message == "`await an empty queue`: no"

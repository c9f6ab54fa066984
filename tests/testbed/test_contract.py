"""What every testbed keeps to; a new one is added to ``BEDS``."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import (
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    Drained,
    End,
    Finish,
    LetPass,
    LoadModule,
    Offloads,
    Phase,
    ReadFile,
    ReadSysctls,
    Ready,
    Start,
    Stop,
    Sysctl,
)
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import base, registry
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.vm import guests

BEDS = [
    "fake",
    pytest.param("uml", marks=[pytest.mark.uml, pytest.mark.full]),
    pytest.param("ssh", marks=pytest.mark.full),
]
#: Of these a whole experiment can be carried out wherever the tests run.
CARRIES_EXPERIMENTS = BEDS[:2]
FAILING = ("sh", "-c", "echo 'cannot do that' >&2; exit 3")
UNTIL_STOPPED = "trap 'echo stopped; exit 0' INT; echo listening; while :; do sleep 0.05; done"


@pytest.fixture(params=BEDS)
def bed(request) -> base.Testbed:
    made = request.getfixturevalue(request.param)
    if request.param == "fake":
        return replace(made, failing={FAILING: (3, "cannot do that")})
    return made


@pytest.fixture
def untouched(bed, request):
    """Return a function that fails unless the testbed is as it was before the test."""
    if bed.name != "one-host":
        return lambda: None  # what they make is the run directory alone
    server = request.getfixturevalue("one_host")
    before = server.settled_snapshot()

    def check() -> None:
        deadline = time.monotonic() + 10  # a process that is ending may take a moment
        while server.snapshot() != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.snapshot() == before

    return check


@pytest.fixture
def run(tmp_path):
    files = RunFiles(tmp_path / "run.partial")
    files.create()
    return files


@pytest.fixture
def recorded_plan(recorded_experiment):
    return compose(expand(recorded_experiment)[0])


def of(*phases) -> Plan:
    named = (Phase(f"phase {number}", steps) for number, steps in enumerate(phases))
    return Plan(tuple(named), {}, (0.0, 1.0), ())


LINK = (
    AddNode("S"),
    AddNode("R0"),
    AddLink(
        (End("S", "S-R0", "02:00:00:00:00:01"), End("R0", "R0-S", "02:00:00:00:00:02")), 1500, 10**7
    ),
)
ADDRESSES = tuple(
    Command(node, ("ip", *words.split()))
    for node, device, address in (("S", "S-R0", "10.0.0.1"), ("R0", "R0-S", "10.0.0.2"))
    for words in (f"address add {address}/24 dev {device}", f"link set {device} up")
)
SETTINGS = (
    Sysctl("S", "net.ipv4.tcp_sack", "0"),
    ReadSysctls("S", ("net.ipv4.tcp_sack",), "stats/sysctl-S.txt"),
    Offloads("S", "S-R0", ("generic-receive-offload",), "stats/offload-S-R0.txt"),
)
PROGRAMS = (
    Start(
        *("R0", "watch", ("sh", "-c", UNTIL_STOPPED), "log/watch.log", "log/watch.err"),
        Ready("log/watch.log", "listening"),
    ),
    Start(
        *("R0", "server", ("iperf3", "-s", "-1", "-B", "10.0.0.2", "--forceflush")),
        *("log/server.log", None, Ready("log/server.log", "Server listening")),
    ),
)
CLIENT = ("iperf3", "-c", "10.0.0.2", "-n", "100K", "--json")
CLIENTS = (Start("S", "client", CLIENT, "stats/client.json", at=0.1),)
TINY = of(
    LINK,
    (*ADDRESSES, *SETTINGS),
    (AgreeEpoch(1, "stats/epoch.json"),),
    PROGRAMS,
    CLIENTS,
    (Finish(("client", "server"), 30.0),),
    (LetPass(0.1, "to see that it does"), Stop(("watch",))),
    (
        ReadFile("R0", "/proc/net/dev", "stats/dev-R0.txt"),
        ReadFile("R0", "/proc/net/snmp", "stats/snmp-R0.txt", optional=True),
        ReadFile("R0", "/proc/net/no_kernel_has_it", "stats/none.txt", optional=True),
        Command("R0", ("ip", "-j", "address", "show"), "stats/address-R0.json"),
    ),
)


def outputs(plan: Plan) -> set[str]:
    return {
        path
        for step in plan.steps
        for path in (getattr(step, "output", None), getattr(step, "errors", None))
        if path and not getattr(step, "optional", False)
    }


def missing(plan: Plan, run: RunFiles) -> set[str]:
    return {
        path
        for path in outputs(plan)
        if not (run.root / path).exists() and not (run.root / f"{path}.zst").exists()
    }


def test_testbed_that_is_ready_has_no_problems(bed, untouched):
    assert bed.check(TINY) == ()
    untouched()


def test_checking_touches_nothing(bed, request, untouched):
    bed.check(TINY)
    untouched()
    if bed.name == "one-host":
        assert not (request.getfixturevalue("one_host").directory / "state").exists()


def test_facts_and_identity_can_be_written_down(bed):
    assert json.loads(json.dumps(bed.facts(TINY))) == bed.facts(TINY)
    assert bed.name
    assert bed.clock in ("virtual", "real")
    assert bed.generator in ("native", "iperf3")
    assert bed.parallel in (True, False)


def another(bed):
    """Return a testbed of the same kind on which results may be others."""
    if bed.name == "fake":
        return replace(bed, kernel="another")
    if bed.name == "uml":
        return replace(bed, memory_mb=bed.memory_mb + 1)
    return replace(bed, kernel="another")


def test_identity_is_stable_and_tells_testbeds_apart(bed):
    assert bed.identity(TINY) == bed.identity(TINY)
    assert pickle.loads(pickle.dumps(bed)).identity(TINY) == bed.identity(TINY)
    assert another(bed).identity(TINY) != bed.identity(TINY)


def test_every_file_that_the_plan_names_is_there_afterwards(bed, run, untouched):
    bed.execute(TINY, run, seed=1)
    assert missing(TINY, run) == set()
    assert {path.name for path in run.root.iterdir()} == {"log", "pcap", "stats"}
    untouched()


def test_files_say_what_was_done(bed, run):
    bed.execute(TINY, run, seed=1)
    assert read_json(run.stats / "epoch.json")["epoch_ns"] > 0
    if bed.name == "fake":
        return  # it has done nothing
    assert (run.log / "watch.log").read_text() == "listening\nstopped\n"
    assert read_json(run.stats / "client.json")["end"]["sum_sent"]["bytes"] >= 100_000
    assert (run.stats / "sysctl-S.txt").read_text() == "net.ipv4.tcp_sack = 0\n"
    assert "generic-receive-offload: off" in (run.stats / "offload-S-R0.txt").read_text()
    assert "R0-S" in (run.stats / "dev-R0.txt").read_text()
    assert "RetransSegs" in (run.stats / "snmp-R0.txt").read_text()
    assert not (run.stats / "none.txt").exists()
    (device,) = (
        entry
        for entry in json.loads((run.stats / "address-R0.json").read_text())
        if entry["ifname"] == "R0-S"
    )
    assert device["address"] == "02:00:00:00:00:02"
    assert device["addr_info"][0]["local"] == "10.0.0.2"


def test_failing_command_is_named_with_its_status_and_what_it_said(bed, run, untouched):
    plan = of(LINK, (*ADDRESSES, *PROGRAMS[:1], Command("R0", FAILING)))
    with pytest.raises(TestbedError) as caught:
        bed.execute(plan, run, seed=1)
    text = str(caught.value)
    assert "R0" in text
    assert "exit 3" in text
    assert "status 3" in text
    assert "cannot do that" in text
    untouched()


@pytest.mark.parametrize("bed", BEDS[1:], indirect=True)
def test_queue_is_awaited_and_named_if_it_does_not_empty(bed, run):
    slow = "tc qdisc add dev S-R0 root tbf rate 8kbit burst 1600 limit 100000"
    send = "import socket; s = socket.socket(2, 2); "
    send += "[s.sendto(bytes(958), ('10.0.0.2', 9)) for _ in range(4)]"
    queue = (*ADDRESSES, Command("S", tuple(slow.split())))
    packets = Command("S", (sys.executable, "-c", send))
    bed.execute(of(LINK, (*queue, packets, Drained("S", "S-R0", 10.0))), run, seed=1)
    with pytest.raises(TestbedError, match=r"the queue on S-R0 is not empty after 0\.5 s"):
        bed.execute(of(LINK, (*queue, packets, Drained("S", "S-R0", 0.5))), run, seed=1)


def test_module_that_does_not_exist_is_named_before_anything_is_touched(bed, untouched):
    plan = of(LINK, (LoadModule("R0", "sch_nonsense"),))
    found = bed.check(plan)
    assert any("sch_nonsense" in problem for problem in found)
    untouched()


def test_two_runs_one_after_the_other(bed, run, tmp_path, untouched):
    bed.execute(TINY, run, seed=1)
    other = RunFiles(tmp_path / "other.partial")
    other.create()
    bed.execute(TINY, other, seed=2)
    assert missing(TINY, other) == set()
    untouched()


@pytest.fixture(params=CARRIES_EXPERIMENTS)
def able(request):
    return request.getfixturevalue(request.param)


def test_every_file_of_an_experiments_run_is_there(able, recorded_plan, run):
    assert able.check(recorded_plan) == ()
    able.execute(recorded_plan, run, seed=1)
    assert missing(recorded_plan, run) == set()
    assert {path.name for path in run.root.iterdir()} == {"log", "pcap", "stats"}


# Testbeds by name, and which of them are inventories.

INVENTORY = """
name: mine
hosts:
  one: {control: eth0, roles: [S, R0, R1, R2, D]}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "testbeds").mkdir()
    (tmp_path / "testbeds/mine.yaml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["mine", "testbeds/mine.yaml", "./testbeds/mine.yaml"])
def test_inventory_is_a_testbed_whose_results_have_its_name(mine, name):
    assert registry.require(name) == "mine"
    bed = registry.testbed(name)
    assert (bed.name, bed.clock, bed.parallel) == ("mine", "real", False)
    assert registry.generator(name) == bed.generator == "iperf3"
    assert registry.inventory(name) == bed.inventory


def test_testbed_in_virtual_time_has_no_hosts(fake):
    for name in ("uml", "fake"):
        assert registry.require(name) == name
        assert registry.generator(name) == "native"
        assert registry.inventory(name) is None


def test_unknown_name_is_refused_with_what_there_is(mine):
    with pytest.raises(RequestError, match=r"unknown testbed 'nine'; allowed: uml, vm.*, mine"):
        registry.require("nine")
    with pytest.raises(RequestError, match="no such file"):
        registry.testbed("elsewhere/mine.yaml")


def test_identity_needs_nothing_that_runs(mine, monkeypatch):
    assert registry.identity("mine") is not None
    for name in ("find", "any_built"):
        monkeypatch.setattr(kernel, name, lambda: None)
    assert registry.identity("uml") is None

    def down():
        raise TestbedError("not up")

    monkeypatch.setattr(guests, "require_up", down)
    assert registry.identity("vm") is None
    assert registry.generator("vm") == "iperf3"


def test_command_line_does_not_load_the_ssh_library_for_the_virtual_testbed():
    code = (
        "import sys; from tcpf_lab.cli import main; [main.load(name) for name in main.VERBS];"
        "assert 'paramiko' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

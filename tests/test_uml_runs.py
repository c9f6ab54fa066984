"""Real guests: repeatable to the byte, and every way to fail ends in a sentence."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from run_maker import make_run

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule, Phase
from tcpf_lab.results.layout import ExperimentFiles, RunFiles, read_json
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Task, carry_out
from tcpf_lab.spec.load import apply_overrides
from tcpf_lab.spec.sweep import expand

pytestmark = pytest.mark.uml


def make(uml, experiment, where: Path, *, seed="1", settings=()):
    """Carry one run out; return its files."""
    run = expand(apply_overrides(experiment, settings), {"seed": seed})[0]
    return make_run(where, uml, run)


def contents(files: RunFiles) -> dict[str, str]:
    paths = [*sorted(files.pcap.iterdir()), *sorted(files.stats.iterdir()), files.metrics]
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def test_same_run_in_another_place_and_environment_gives_the_same_bytes(
    uml, guest_run, recorded_experiment, tmp_path, monkeypatch
):
    one = guest_run(recorded_experiment, seed="1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("A_LONG_VARIABLE", "x" * 5000)
    two = make(uml, recorded_experiment, tmp_path / "another place" / "with, a longer path")
    assert contents(one) == contents(two)


def test_another_seed_gives_another_run(guest_run, recorded_experiment):
    one, two = (guest_run(recorded_experiment, seed=seed) for seed in "12")
    assert contents(one)["S.pcap.zst"] != contents(two)["S.pcap.zst"]
    assert contents(one)["metrics.json"] != contents(two)["metrics.json"]


@pytest.mark.full
def test_transfers_of_users_have_the_same_bytes_for_the_same_seed(
    uml, guest_run, recorded_experiment, tmp_path
):
    words = "think: 500 ms, size: 30 kB, shape: 1.5, largest: 1 MB"
    users = [f"traffic.users={{{words}}}", "traffic.captures=false"]
    one, another = (guest_run(recorded_experiment, *users, seed=seed) for seed in "12")
    two = make(uml, recorded_experiment, tmp_path, settings=users)
    for name in ("stats/users-S.bin.zst", "transfers.npz"):
        first, second, third = ((run.root / name).read_bytes() for run in (one, two, another))
        assert first == second != third


def test_recorded_run_is_still_what_the_kernel_does(guest_run, recorded_experiment):
    """The goodput of the recording, within what another compiler or kernel patch may change."""
    metrics = read_json(guest_run(recorded_experiment, seed="1").metrics)["metrics"]
    assert 0.8 < metrics["utilisation"] <= 1.01
    assert metrics["loss_percent"] > 1


@pytest.mark.full
def test_iperf3_makes_the_same_kind_of_run_and_its_json_is_kept(guest_run, recorded_experiment):
    done = guest_run(recorded_experiment, "traffic.generator=iperf3", seed="1")
    reports = [json.loads((done.stats / f"iperf3-{flow}.json").read_text()) for flow in range(3)]
    assert all(report["end"]["sum_sent"]["bytes"] > 0 for report in reports)
    found = read_json(done.metrics)
    assert 0.8 < found["metrics"]["utilisation"] <= 1.01
    assert found["validity"]["reasons"] == []
    checks = {check["name"]: check["ok"] for check in found["validity"]["checks"]}
    assert (checks["flows_match_iperf3"], checks["goodput_matches_tcp_info"]) == (True, None)
    assert found["truth"]["source"] == "TcpExtTCPTimeouts"
    assert found["truth"]["timeouts_pcap"] == found["truth"]["timeouts_kernel"]


@pytest.mark.full
def test_several_senders_and_receivers_share_the_bottleneck(guest_run, recorded_experiment):
    dumbbell = "{access: 10 Mbit, bottleneck: 1 Mbit, delay: 100 ms, pairs: 2}"
    done = guest_run(recorded_experiment, f"topology={{dumbbell: {dumbbell}}}", seed="1")
    assert (done.stats / "senders-S1.jsonl").exists()
    assert 0.8 < read_json(done.metrics)["metrics"]["utilisation"] <= 1.01


@pytest.mark.parametrize("sack", [True, False])
def test_acknowledgements_that_the_network_duplicates_make_a_valid_run(
    guest_run, recorded_experiment, sack
):
    settings = ("topology.chain.reverse={duplicate: 0.2}", f"tcp.sack={str(sack).lower()}")
    done = guest_run(recorded_experiment, *settings, seed="1")
    assert read_json(done.metrics)["validity"]["reasons"] == []


CHAIN = "access: 100 Mbit, bottleneck: 10 Mbit, delay: 100 ms"
SHARED = "duplex: half, access_duplex: half"
CROSS = "cross_flows: 2, cross_delay: 50 ms"
LATE = "reverse: {delay: 10 ms, jitter: 2 ms, loss: 0.01}"


@pytest.mark.parametrize(
    ("topology", "captures"),
    [
        (f"chain: {{{CHAIN}, {SHARED}, ring: 2, ack_queue: 2 kB}}", True),
        (f"chain: {{{CHAIN}, duplex: half}}", True),
        (f"dumbbell: {{{CHAIN}, duplex: half, pairs: 2, {LATE}}}", True),
        (
            f"parking_lot: {{{CHAIN}, {SHARED}, bottlenecks: 2, {CROSS}}}",
            False,
        ),
    ],
    ids=["chain", "bottleneck alone", "dumbbell", "parking_lot"],
)
def test_half_duplex_links_carry_a_valid_run(guest_run, recorded_experiment, topology, captures):
    settings = (f"topology={{{topology}}}", f"traffic.captures={str(captures).lower()}")
    done = guest_run(recorded_experiment, *settings, seed="1")
    found = read_json(done.metrics)
    assert found["validity"]["reasons"] == []
    assert all(0 < wire["busy"] + wire["contention"] < 1 for wire in found["wires"])
    assert any(sum(wire["collisions"]) for wire in found["wires"])


@pytest.fixture
def files(tmp_path):
    run = RunFiles(tmp_path / "a-run.partial")
    run.create()
    return run


def plan_of(*argv):
    return Plan((Phase("a phase", (Command(None, argv),)),), {}, (0.0, 1.0), ())


def failure(uml, plan, files):
    with pytest.raises(TestbedError) as caught:
        uml.execute(plan, files, 1)
    error = caught.value
    assert error.where == "run a-run"
    assert str(files.log / "console.txt") in error.message
    assert guests() == []
    return error


def guests():
    """Process ids of all guests that this test's process has started and that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if int(parent) == os.getpid() and b"time-travel" in command:
            found.append(int(process.name))
    return found


def test_failing_command_is_named(uml, files):
    error = failure(uml, plan_of("ls", "/no/such/file"), files)
    assert (
        "failed in the guest: a phase: - ls /no/such/file: ls ended with status 2" in error.message
    )
    assert "No such file or directory" in error.message


@pytest.mark.full
def test_missing_program_is_named(uml, files):
    error = failure(uml, plan_of("no-such-program"), files)
    assert "cannot run no-such-program: No such file or directory" in error.message


def plan_of_steps(*steps):
    return Plan((Phase("a phase", steps),), {}, (0.0, 1.0), ())


def with_module(uml, where, name, content):
    """Return a testbed whose kernel has one more module, a file of this content."""
    directory = where / "entry"
    shutil.copytree(uml.kernel.directory, directory, copy_function=os.link, symlinks=True)
    (directory / "modules" / f"{name}.ko").write_bytes(content)
    modules = uml.kernel.modules | {name: "new"}
    return replace(uml, kernel=replace(uml.kernel, path=directory / "linux", modules=modules))


@pytest.mark.full
def test_loaded_module_and_its_words_are_there(uml, files):
    words = "limit 60000 in_min 20000 in_max 40000 in_probability 0.1 out_min 1 out_max 2"
    add = f"tc qdisc add dev lo root rio {words} out_probability 0.1".split()
    steps = (
        LoadModule("R1", "sch_rio"),
        LoadModule("R2", "sch_rio"),  # of the same kernel: it is there, and that is fine
        Command(None, tuple(add)),
        Command(None, ("tc", "-j", "qdisc", "show", "dev", "lo"), "stats/qdisc.json"),
    )
    uml.execute(plan_of_steps(*steps), files, 1)
    (qdisc,) = json.loads((files.stats / "qdisc.json").read_text())
    assert (qdisc["kind"], qdisc["options"]["limit"]) == ("rio", 60000)


@pytest.mark.full
def test_module_that_has_not_been_built_is_named_before_and_in_the_guest(uml, files):
    plan = plan_of_steps(LoadModule("R1", "sch_none"))
    assert uml.check(plan) == (
        "not built: sch_none, q_none (tcpf-lab doctor lists the built modules)",
    )
    error = failure(uml, plan, files)
    assert "load module sch_none: no module sch_none has been built" in error.message


@pytest.mark.full
def test_module_that_the_kernel_refuses_is_named_with_what_it_says(uml, files, tmp_path):
    broken = with_module(uml, tmp_path, "sch_broken", b"no module")
    error = failure(broken, plan_of_steps(LoadModule("R1", "sch_broken")), files)
    assert "the kernel refuses module sch_broken: Exec format error" in error.message
    assert "it says: Invalid ELF header" in error.message


@pytest.mark.full
def test_module_that_needs_what_is_not_there_is_told_the_symbol(uml, files, tmp_path):
    module = (uml.kernel.directory / "modules/sch_rio.ko").read_bytes()
    content = module.replace(b"register_qdisc", b"registre_qdisc")
    broken = with_module(uml, tmp_path, "sch_broken", content)
    error = failure(broken, plan_of_steps(LoadModule("R1", "sch_broken")), files)
    assert "Unknown symbol registre_qdisc" in error.message


def test_identity_and_facts_have_the_modules_that_a_plan_loads_and_no_other(uml, tmp_path):
    rio, plain = plan_of_steps(LoadModule("R1", "sch_rio")), plan_of("true")
    assert set(uml.facts(rio)["modules"]) == {"sch_rio", "q_rio"}
    wire = plan_of_steps(LoadModule("R1", "csma"))
    assert set(uml.facts(wire)["modules"]) == {"csma", "link_csma"}
    assert uml.facts(plain)["modules"] == {}
    for kind, names in (("modules", ("sch_rio", "sch_frio")), ("plugins", ("q_rio", "q_frio"))):
        for name in names:
            changed = {kind: getattr(uml.kernel, kind) | {name: "another"}}
            other = replace(uml, kernel=replace(uml.kernel, **changed))
            assert other.identity(plain) == uml.identity(plain)
            assert (other.identity(rio) == uml.identity(rio)) == ("frio" in name)


@pytest.mark.full
def test_reading_a_clock_costs_256_ns(uml, files):
    code = "from time import monotonic_ns as now; print(*[now() for _ in range(50)])"
    read = Command(None, (sys.executable, "-I", "-S", "-c", code), "stats/readings")
    uml.execute(plan_of_steps(read), files, 1)
    readings = [int(word) for word in (files.stats / "readings").read_text().split()]
    steps = [later - earlier for earlier, later in itertools.pairwise(readings)]
    assert len(steps) == 49
    assert set(steps) == {256}


@pytest.mark.full
def test_hanging_guest_is_ended_by_the_watchdog(uml, files):
    spin = plan_of("sh", "-c", "while :; do :; done")
    error = failure(replace(uml, watchdog_base=1.0), spin, files)
    assert "the guest hung" in error.message


@pytest.mark.full
def test_guest_out_of_memory_is_told(uml, files):
    eat = plan_of("sh", "-c", "x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo ${#x}")
    error = failure(replace(uml, memory_mb=48), eat, files)
    assert "ran out of memory (48 MB)" in error.message


@pytest.mark.full
def test_killed_guest_is_told(uml, files):
    def kill():
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if found := guests():
                os.kill(found[0], signal.SIGKILL)
                return
            time.sleep(0.02)

    threading.Thread(target=kill).start()
    error = failure(uml, plan_of("sh", "-c", "while :; do :; done"), files)
    assert "killed by SIGKILL" in error.message


@pytest.mark.full
def test_guest_can_write_to_nothing_but_its_run_directory(uml, files, tmp_path):
    (tmp_path / "precious").write_text("as it was")
    for target in (tmp_path / "precious", tmp_path / "new", Path("/etc/new"), Path("/usr/new")):
        error = failure(uml, plan_of("sh", "-c", f"echo x > {target}"), files)
        assert "Read-only file system" in error.message
        (files.log / "failed").unlink()
    assert (tmp_path / "precious").read_text() == "as it was"


def test_problems_seen_before_a_boot_are_all_listed(uml, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    plan = replace(plan_of("true"), programs=("no-such-generator",))
    problems = replace(uml, memory_mb=10**9).check(plan)
    assert any("no-such-generator" in problem for problem in problems)
    assert any("no directory can hold guest memory" in problem for problem in problems)


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_full_disk_is_told_and_nothing_is_called_complete(
    uml, recorded_experiment, tmp_path, monkeypatch
):
    monkeypatch.setattr(runner, "require_room", lambda *_, **__: None)  # others fill it meanwhile
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500k", "small", tmp_path], check=True)
    try:
        files = ExperimentFiles(tmp_path, "tiny", "uml")
        run = expand(recorded_experiment)[0]
        event = carry_out(Task(run, uml, files, keep_pcaps=False, commit="test"))
        assert event.kind == "failed"
        assert "the disk is full" in event.detail or "No space left on device" in event.detail
        assert list(files.runs()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def interrupted(tmp_path, interrupts, number=signal.SIGINT):
    """Start a long experiment by the command line and interrupt it; return what it said."""
    command = [sys.executable, "-m", "tcpf_lab", "run", "configA.yaml", "--results", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Tests that are run in the background have inherited an ignored interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    partial = tmp_path / "configA" / "uml"
    deadline = time.monotonic() + 60
    while not any(partial.glob("*.partial/log/console.txt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(interrupts):
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        time.sleep(0.3)
    said, _ = process.communicate(timeout=30)
    return process, said


def remaining(tmp_path):
    """Return the processes whose working directory is inside ``tmp_path``."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(link.readlink()).startswith(str(tmp_path)):
                found.append(link)
        except OSError:
            continue
    return found


@pytest.mark.full
def test_interrupt_leaves_no_process_and_no_half_run(uml, tmp_path):
    process, said = interrupted(tmp_path, 1)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert remaining(tmp_path) == []
    assert list((tmp_path / "configA" / "uml").glob("*.partial")) == []


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_interrupt_stops_at_once_and_leaves_no_process(uml, tmp_path, number):
    process, said = interrupted(tmp_path, 2, number)
    assert process.returncode == 130
    assert "Traceback" not in said
    gone_by = time.monotonic() + 5  # a loaded machine takes its time to bury the killed
    while remaining(tmp_path) and time.monotonic() < gone_by:
        time.sleep(0.05)
    assert remaining(tmp_path) == []


@pytest.mark.full
def test_killed_program_takes_its_guests_along(uml, tmp_path):
    command = [sys.executable, "-m", "tcpf_lab", "run", "configA.yaml", "--results", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not remaining(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while remaining(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert remaining(tmp_path) == []
    shutil.rmtree(tmp_path)

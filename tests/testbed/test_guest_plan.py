"""The plan as instructions for the guest's first process."""

import subprocess
from pathlib import Path

import pytest
from shipped_experiments import SHIPPED, experiments_of

from tcpf_lab.base import shipped
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import (
    Command,
    LoadModule,
    Offloads,
    Phase,
    ReadSysctls,
    Ready,
    Start,
    Sysctl,
)
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.uml.guest_plan import render

UP = Command("S", ("ip", "link", "set", "lo", "up"))
INTERPRETER = shipped.directory("kernel") / "uml" / "guest_plan.c"


def plan_of(*steps):
    return Plan((Phase("a phase", steps),), {}, (0.0, 1.0), ())


def instructions(*steps):
    return [line.split("\t") for line in render(plan_of(*steps)).splitlines()]


def without_steps(lines):
    return [words for words in lines if words[0] != "step"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_interpreter_knows_every_instruction_of_every_shipped_experiment(path: Path):
    known = INTERPRETER.read_text().split("instructions[] = {")[1].split("};")[0]
    for run in run_of_each_case(path):
        lines = iter(render(compose(run)).splitlines())
        for line in lines:
            word, *rest = line.split("\t")
            assert word == "step" or f'"{word}"' in known
            if word == "batch":
                for _ in range(int(rest[1])):
                    assert "\t" not in next(lines)


def run_of_each_case(path: Path) -> list[Run]:
    return [
        run
        for experiment in experiments_of(path)
        for run in {run.case_name: run for run in expand(experiment, seeds=1)}.values()
    ]


def test_neighbouring_ip_commands_of_a_node_are_one_batch():
    lines = without_steps(instructions(UP, UP, Command("D", UP.argv)))
    assert lines == [
        ["batch", "S", "2", "ip", "-batch", "-"],
        ["link set lo up"],
        ["link set lo up"],
        ["batch", "D", "1", "ip", "-batch", "-"],
        ["link set lo up"],
    ]


def test_command_whose_output_is_kept_is_not_put_into_a_batch():
    show = Command("S", ("tc", "qdisc", "show"), "stats/q.json")
    assert without_steps(instructions(show)) == [
        ["run", "S", "stats/q.json", "tc", "qdisc", "show"]
    ]


def test_every_instruction_is_preceded_by_what_it_is_for():
    lines = instructions(Sysctl("S", "net.ipv4.tcp_sack", "0"))
    assert lines == [
        ["step", "a phase: S sysctl -w net.ipv4.tcp_sack=0"],
        ["sysctl", "S", "net.ipv4.tcp_sack", "0"],
    ]


def test_what_needs_no_program_starts_none():
    lines = without_steps(
        instructions(
            Sysctl(None, "net.core.wmem_max", "1"),
            ReadSysctls("S", ("a", "b"), "out.txt"),
            Offloads("S", "S-R0", ("generic-receive-offload",), "off.txt"),
        )
    )
    assert lines == [
        ["sysctl", "-", "net.core.wmem_max", "1"],
        ["sysctls", "S", "out.txt", "a", "b"],
        ["offloads", "S", "off.txt", "S-R0", "off", "generic-receive-offload"],
    ]


def test_module_is_loaded_by_the_guest_itself_whatever_the_node():
    assert instructions(LoadModule("R1", "sch_rio")) == [
        ["step", "a phase: R1 load module sch_rio"],
        ["module", "sch_rio"],
    ]


def test_programs_are_all_started_before_the_first_is_awaited():
    ready = Ready("log/x", "listening on", 5)
    starts = [Start("S", name, ("tcpdump",), "a", "log/x", ready) for name in ("one", "two")]
    lines = without_steps(instructions(*starts))
    assert [line[0] for line in lines] == ["start", "start", "await", "await"]
    assert lines[2] == ["await", "one", "log/x", "5", "listening on"]


def test_placeholders_become_what_the_guest_knows():
    start = Start("S", "x", ("{programs}/tcpf-traffic", "--epoch", "{epoch}"), "a", "b")
    assert without_steps(instructions(start)) == [
        ["start", "x", "S", "a", "b", "/run/bin/tcpf-traffic", "--epoch", "{epoch}"]
    ]


def test_program_with_a_start_time_waits_for_the_instant_not_for_a_duration():
    (line,) = without_steps(instructions(Start("S", "c", ("iperf3",), at=0.25)))
    assert line[5:] == ["/run/bin/tcpf-guest", "at", "{epoch}", "0.250000000", "iperf3"]


@pytest.mark.parametrize("word", ["a\tb", "a\nb", ""])
def test_word_that_would_be_read_as_something_else_is_refused(word):
    with pytest.raises(ValueError, match="not a word"):
        render(plan_of(Command("S", ("echo", word))))


#: What the interpreter calls and an ordinary process needs none of.
OTHERS = """
#include <stdlib.h>
#include "guest.h"
int64_t nanoseconds(const char *text) { return atoll(text) * NSEC; }
void sleep_until(int64_t realtime_ns) { (void)realtime_ns; }
void power_off(void) { exit(0); }
void run_program(const char *node, int input, const char *output, char **argv)
{ (void)node; (void)input; (void)output; (void)argv; }
void start_program(const char *name, const char *node, const char *output, const char *errors,
                   char **argv)
{ (void)name; (void)node; (void)output; (void)errors; (void)argv; }
void check_running(const char *name) { (void)name; }
void finish_programs(char **names, int64_t seconds) { (void)names; (void)seconds; }
void stop_programs(char **names) { (void)names; }
void enter_node(const char *node) { (void)node; }
void write_sysctl(const char *key, const char *value) { (void)key; (void)value; }
void print_sysctl(FILE *to, const char *key) { (void)to; (void)key; }
void switch_offloads(const char *device, bool on, char **features, FILE *to)
{ (void)device; (void)on; (void)features; (void)to; }
uint32_t packets_queued(const char *device) { (void)device; return 0; }
void load_module(const char *name) { (void)name; }
int main(void) { carry_out_plan(); }
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter as a program of this machine, without what only a guest can do."""
    folder = tmp_path_factory.mktemp("interpreter")
    (folder / "others.c").write_text(OTHERS)
    sources = [f"-I{INTERPRETER.parent}", INTERPRETER, "others.c", "-o", "interpreter"]
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", *sources], cwd=folder, check=True)
    return folder / "interpreter"


@pytest.mark.parametrize("word", ["read", "read-if"])
def test_file_that_opens_but_cannot_be_read_fails_the_run(
    interpreter: Path, tmp_path: Path, word: str
) -> None:
    for name in ("log", "out"):
        (tmp_path / name).mkdir()
    plan = tmp_path / "log" / "guest.plan"

    def carried_out(file: str) -> None:
        plan.write_text(f"step\tcounters\n{word}\tS\t{file}\tout/copy\n")
        subprocess.run([interpreter], cwd=tmp_path, check=True)

    (tmp_path / "file").write_bytes(bytes(range(256)) * 1000)
    carried_out("file")
    assert (tmp_path / "out" / "copy").read_bytes() == bytes(range(256)) * 1000
    assert not (tmp_path / "log" / "failed").exists()
    carried_out("out")
    said = (tmp_path / "log" / "failed").read_text()
    assert said == "counters: cannot read out: Is a directory\n"

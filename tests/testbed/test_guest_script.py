"""The plan as a shell script."""

import subprocess

import pytest

from tcpf_lab import shipped
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import Command, Phase, ReadSysctls, Start, Sysctl
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.guest_script import render


def plan_of(*steps):
    return Plan((Phase("a phase", steps),), {}, (0.0, 1.0), ())


@pytest.mark.parametrize(
    "path", sorted(shipped.directory("experiments").glob("*.yaml")), ids=lambda p: p.name
)
def test_script_of_every_shipped_experiment_is_a_shell_script(path):
    script = render(compose(expand(load(path))[0]))
    subprocess.run(["/bin/sh", "-n"], input=script.encode(), check=True)


def test_neighbouring_ip_commands_of_a_node_are_one_batch():
    up = Command("S", ("ip", "link", "set", "lo", "up"))
    script = render(plan_of(up, up, Command("D", ("ip", "link", "set", "lo", "up"))))
    assert script.count("ip -n S -batch") == 1
    assert script.count("ip -n D -batch") == 1
    assert script.splitlines().count("link set lo up") == 3


def test_command_whose_output_is_kept_is_not_put_into_a_batch():
    script = render(plan_of(Command("S", ("tc", "qdisc", "show"), "stats/q.json")))
    assert "tc qdisc show > stats/q.json" in script
    assert "tc -n S -batch" not in script


def test_words_of_a_command_reach_the_shell_quoted():
    script = render(plan_of(Command("S", ("echo", "a b", "$HOME", "it's"))))
    assert """echo 'a b' '$HOME' 'it'"'"'s'""" in script


def test_sysctls_are_written_without_starting_a_program():
    script = render(plan_of(Sysctl("S", "net.ipv4.tcp_sack", "0")))
    assert "echo 0 > /proc/sys/net/ipv4/tcp_sack" in script


def test_parameters_read_back_look_as_sysctl_prints_them(tmp_path):
    read = ReadSysctls(None, ("kernel.ostype", "net.ipv4.ip_local_port_range"), "out.txt")
    script = render(plan_of(read)).split("/bin/sh <<'END'")[1].split("\nEND")[0]
    body = script.split("\n", 1)[1].replace("log/failed", "failed")
    subprocess.run(["/bin/sh"], input=body.encode(), cwd=tmp_path, check=True)
    first, second = (tmp_path / "out.txt").read_text().splitlines()
    assert first == "kernel.ostype = Linux"
    key, _, value = second.partition(" = ")
    assert key == "net.ipv4.ip_local_port_range"
    assert len(value.split(" ")) == 2


def test_placeholders_become_what_the_guest_knows():
    start = Start("S", "x-1", ("{programs}/tcpf-traffic", "--epoch", "{epoch}"), "a", "b")
    script = render(plan_of(start))
    assert "/run/bin/tcpf-traffic --epoch $epoch > a 2> b < /dev/null &" in script
    assert "pid_x_1=$!" in script


def test_program_with_a_start_time_waits_for_the_instant_not_for_a_duration():
    script = render(plan_of(Start("S", "c", ("iperf3",), at=0.25)))
    assert "/run/bin/tcpf-guest at $epoch 0.250000000 nsenter" in script

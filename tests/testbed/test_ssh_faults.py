"""Messages about commands that failed on hosts: what happened, and what to try."""

from __future__ import annotations

import pytest

from tcpf_lab.testbed.ssh import hosts

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
    "something nobody has seen": "looks at every host",
}


@pytest.mark.parametrize(("said", "advice"), SAID.items())
def test_advice_fits_what_was_said(said, advice):
    assert advice in hosts.likely(said, 1, "five")


def test_module_that_does_not_fit_has_its_directories_named(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    place = "/var/lib/tcpf-lab/modules/0123456789abcdef"
    said = "insmod: ERROR: could not insert module sch_rio.ko: Invalid module format"
    error = hosts.failed("host a", "five", ("insmod", f"{place}/sch_rio.ko"), 1, said)
    assert f"{place} there and /cache/tcpf-lab/hosts/0123456789abcdef here" in error.hint
    assert error.status == 1
    said = "modprobe: ERROR: could not insert 'sch_rio': Exec format error, version magic"
    error = hosts.failed("host a", "five", ("modprobe", "sch_rio"), 1, said)
    assert "below `modules` of the state directory there" in error.hint


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
    assert str(error).startswith("host alpha: `the agent` ended with signal 9, and said nothing")


def test_reply_without_a_status_is_its_message():
    reply = {"message": "not ready within 10 s", "command": ["iperf3", "-s"], "status": None}
    error = hosts.refused("host alpha", "five", "start server", {**reply, "output": "x"})
    assert error.message == "`iperf3 -s`: not ready within 10 s\n  | x"


def test_reply_without_a_command_names_the_step():
    error = hosts.refused("host alpha", "five", "await an empty queue", {"message": "no"})
    assert error.message == "`await an empty queue`: no"

"""Testbeds by name, and which of them are inventories."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.vm import guests

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
    monkeypatch.setattr(kernel, "find", lambda: None)
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

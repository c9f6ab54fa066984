"""The programs that make traffic, for hosts: sent or built, and sent again where changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fake_agent import FakeHost

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.ssh import builds, hosts

pytestmark = pytest.mark.full

MACHINE = os.uname().machine


@pytest.fixture
def host():
    return FakeHost("alpha")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def state(tmp_path):
    return str(tmp_path / "state")


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_source_that_does_not_compile_there_is_shown_and_leaves_nothing(host, state, monkeypatch):
    sources = builds.program_sources()
    broken = {**sources, "traffic/tcpf-traffic.c": b"#error no such thing\n"}
    monkeypatch.setattr(builds, "program_sources", lambda: broken)
    with pytest.raises(TestbedError, match="no such thing") as caught:
        builds.provide_programs(host, MACHINE, state, "five", build=True)
    assert caught.value.where == "host alpha"
    assert not any(Path(state, "programs").iterdir())
    monkeypatch.undo()
    assert builds.program_sources() == sources


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_generator_that_was_changed_on_the_host_is_sent_again(host, state):
    directory = builds.provide_programs(host, MACHINE, state, "five", build=False)
    program = Path(directory, "tcpf-traffic")
    good = program.read_bytes()
    program.write_bytes(b"something else")
    assert builds.provide_programs(host, MACHINE, state, "five", build=False) == directory
    assert program.read_bytes() == good


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
@pytest.mark.parametrize("build", [False, True])
def test_generator_runs_where_it_was_sent_or_built(host, state, build):
    directory = builds.provide_programs(host, MACHINE, state, "five", build=build)
    assert directory.startswith(f"{state}/programs/")
    reply = hosts.run(host, (f"{directory}/tcpf-traffic", "--help"))
    assert "--epoch" in reply.text + reply.errors
    assert builds.provide_programs(host, MACHINE, state, "five", build=build) == directory


def test_generator_is_not_sent_to_another_kind_of_machine(host, state):
    with pytest.raises(TestbedError, match="do not run on riscv64") as caught:
        builds.provide_programs(host, "riscv64", state, "five", build=False)
    assert "programs: build" in caught.value.hint

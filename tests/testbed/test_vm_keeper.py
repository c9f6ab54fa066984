"""The process that keeps guests, with programs in the place of emulators."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_guest_process import alive

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.vm import guests
from tcpf_lab.testbed.vm import keeper as vm_keeper
from tcpf_lab.testbed.vm.guests import State

SLEEP = ["sleep", "300"]


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for what must come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    found = State(tmp_path / "cache")
    found.create()
    yield found
    guests.down(lambda *_: None, found.cache)


def keep(state: State, **commands: list[str]) -> dict[str, int]:
    """Start a keeper; return its programs' process numbers."""
    (state.directory / vm_keeper.COMMANDS).write_text(json.dumps(commands))
    guests._start_keeper(state)
    until(lambda: len(state.processes()) == len(commands))
    return state.processes()


def test_keeper_is_known_as_long_as_it_lives(state: State) -> None:
    assert state.keeper() is None
    programs = keep(state, ends=SLEEP, routers=SLEEP)
    keeper = state.keeper()
    assert keeper is not None
    assert os.getsid(keeper) != os.getsid(0)
    assert all(alive(pid) for pid in programs.values())
    assert guests.down(lambda *_: None, state.cache)
    assert state.keeper() is None
    assert not any(alive(pid) for pid in (keeper, *programs.values()))
    assert not state.directory.exists()
    assert not guests.down(lambda *_: None, state.cache)


def test_one_program_that_ends_takes_the_other_along(state: State) -> None:
    programs = keep(state, ends=["sh", "-c", "echo no luck; exec sleep 300"], routers=SLEEP)
    until(lambda: state.emulator("ends").read_text() != "")
    os.kill(programs["ends"], signal.SIGKILL)
    until(lambda: state.keeper() is None)
    assert not alive(programs["routers"])
    assert (state.directory / vm_keeper.ENDED).read_text() == (
        "the emulator of 'ends' with status -9\n"
    )
    state.console("ends").write_text("its last words\n")
    error = guests.ended(state)
    assert "of 'ends' with status -9" in str(error)
    assert "no luck" in str(error)
    assert "its last words" in str(error)
    assert (state.failed / "ends.console").read_text() == "its last words\n"


def test_programs_end_with_the_directory(state: State) -> None:
    programs = keep(state, ends=SLEEP, routers=SLEEP)
    shutil.rmtree(state.directory)
    until(lambda: state.keeper() is None)
    assert not any(alive(pid) for pid in programs.values())


def test_killed_keeper_takes_its_programs_along(state: State) -> None:
    programs = keep(state, ends=SLEEP, routers=SLEEP)
    keeper = state.keeper()
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in programs.values()))
    assert state.keeper() is None
    assert guests.status(state.cache) == {
        "up": False,
        "crashed": True,
        "files": str(state.directory),
    }
    with pytest.raises(TestbedError, match="the virtual machines are not up"):
        guests.require_up(state.cache)
    state.inventory.touch()
    with pytest.raises(TestbedError, match="the virtual machines have ended"):
        guests.require_up(state.cache)


def test_program_that_does_not_listen_is_killed(state: State) -> None:
    deaf = ["sh", "-c", 'trap "" TERM; echo deaf; while :; do sleep 1; done']
    programs = keep(state, ends=deaf)
    until(lambda: state.emulator("ends").read_text() != "")
    guests.down(lambda *_: None, state.cache)
    assert not alive(programs["ends"])


def test_wire_leads_from_one_program_to_the_other(state: State) -> None:
    talk = ["sh", "-c", "echo over the wire >&{wire0}; exec sleep 300"]
    listen = ["sh", "-c", "exec head -n 1 <&{wire0}"]
    (state.directory / vm_keeper.COMMANDS).write_text(json.dumps({"ends": talk, "routers": listen}))
    guests._start_keeper(state)
    until(lambda: state.keeper() is None)  # `listen` has ended
    assert state.emulator("routers").read_text() == "over the wire\n"


def test_port_that_was_taken_is_recognised(state: State) -> None:
    state.emulator("routers").write_text("Could not set up host forwarding rule 'tcp:...'\n")
    assert isinstance(guests.ended(state), guests.PortTakenError)


def test_second_one_waits_for_the_first(state: State) -> None:
    phases: list[str] = []
    script = (
        "import sys; from pathlib import Path; from tcpf_lab.testbed.vm import guests\n"
        "with guests.working(guests.State(Path(sys.argv[1])), print): \n"
        "    print('has it', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(state.cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout
    assert other.stdin
    assert other.stdout.readline() == b"has it\n"

    def waiting(phase: str, _share: float) -> None:
        phases.append(phase)
        assert other.stdin
        other.stdin.close()

    with guests.working(state, waiting):
        assert phases == ["wait for another `tcpf-lab vm`"]
    assert other.wait(10) == 0
    other.stdout.close()

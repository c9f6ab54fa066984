"""A guest's kernel as a host process, with shell scripts in its place."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcpf_lab.testbed.base import bound
from tcpf_lab.testbed.uml import guest


@pytest.fixture
def console(tmp_path):
    with (tmp_path / "console.txt").open("wb") as sink:
        yield sink


@pytest.fixture(autouse=True)
def never_stop():
    yield
    guest.stop_when(lambda: False)


def alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def ended(pid, within_s):
    until = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def run(script, directory, console, deadline=20.0):
    environment = {"PATH": os.environ["PATH"], "HERE": "x"}
    return guest.run_guest(["/bin/sh", "-c", script], directory, environment, console, deadline)


def test_exit_status_and_output_are_kept(tmp_path, console):
    assert run("echo hello; pwd; exit 3", tmp_path, console) == 3
    assert (tmp_path / "console.txt").read_text() == f"hello\n{tmp_path}\n"


def test_signal_is_a_negative_status(tmp_path, console):
    assert run("kill -ABRT $$", tmp_path, console) == -6


def test_hanging_guest_is_killed_with_its_children(tmp_path, console):
    script = "sleep 600 & echo $! > child; wait"
    assert run(script, tmp_path, console, deadline=0.5) is None
    child = int((tmp_path / "child").read_text())
    time.sleep(0.1)
    assert not alive(child)


def test_stop_condition_ends_the_guest_and_its_children(tmp_path, console):
    guest.stop_when(lambda: (tmp_path / "child").exists())
    with pytest.raises(KeyboardInterrupt):
        run("sleep 600 & echo $! > child; wait", tmp_path, console)
    child = int((tmp_path / "child").read_text())
    time.sleep(0.1)
    assert not alive(child)


def test_guest_sees_only_the_environment_it_is_given(tmp_path, console):
    run("env | grep -v ^_ | grep -v ^PWD= | cut -d= -f1 | sort | tr '\\n' ' '", tmp_path, console)
    assert (tmp_path / "console.txt").read_text().split() == ["HERE", "PATH"]


def test_it_is_not_run_where_its_parent_had_gone_before_the_signal_was_asked_for(monkeypatch):
    here = bound(["echo", "it ran"])
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: 0)
        another = bound(["echo", "it ran"])
    ran, not_run = (subprocess.run(c, capture_output=True, text=True) for c in (here, another))
    assert (ran.returncode, ran.stdout) == (0, "it ran\n")
    assert (not_run.returncode, not_run.stdout) == (1, "")


@pytest.mark.parametrize(("signal", "said"), [("KILL", ""), ("TERM", "asked to end\n")])
def test_it_gets_the_signal_when_its_parent_ends(tmp_path, signal, said):
    script = "trap 'echo asked to end; kill $!; exit' TERM; sleep 600 & echo $$ > pid; wait"
    program = (
        "import os, subprocess, sys, time\n"
        "from tcpf_lab.testbed.base import bound\n"
        f"subprocess.Popen(bound(['sh', '-c', {script!r}], {signal!r}), start_new_session=True)\n"
        "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(__file__).parents[2])
    with (tmp_path / "said").open("wb") as sink:
        command, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": root}
        subprocess.run(command, cwd=tmp_path, stdout=sink, env=environment, check=False)
    assert ended(int((tmp_path / "pid").read_text()), within_s=60)
    assert (tmp_path / "said").read_text() == said

"""A guest's kernel as a host process, with shell scripts in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcpf_lab.testbed.base import bound
from tcpf_lab.testbed.steal import CpuTicks, RunQueueWait, TimeWithoutSteal
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


# Time limits exclude CPU steal.


def stat(path: Path, used: int, stolen: int) -> Path:
    path.write_text(f"cpu  {used} 1 2 1000 50 3 4 {stolen} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    return path


def test_steal_is_a_share_of_used_and_stolen_time(tmp_path: Path) -> None:
    path = stat(tmp_path / "stat", 100, 40)
    before = CpuTicks.read(path)
    assert before == CpuTicks(110, 40)
    after = CpuTicks.read(stat(path, 130, 130))
    assert before.steal_share(after) == pytest.approx(90 / 120)
    assert before.steal_share(before) == 0


def test_this_machine_can_be_read() -> None:
    assert CpuTicks.read().used > 0


def test_time_passes_slowly_with_full_steal() -> None:
    seen = [CpuTicks(0, 0), CpuTicks(0, 90)]
    times = [0.0, 100.0]
    assert TimeWithoutSteal(lambda: seen.pop(0), lambda: times.pop(0)).seconds() == pytest.approx(2)


def test_stolen_time_does_not_count() -> None:
    seen = [CpuTicks(0, 0), CpuTicks(100, 0), CpuTicks(110, 90), CpuTicks(110, 90)]
    times = [50.0, 60.0, 70.0, 71.0]
    clock = TimeWithoutSteal(lambda: seen.pop(0), lambda: times.pop(0))
    assert clock.seconds() == 10
    assert clock.seconds() == pytest.approx(11)
    assert clock.seconds() == pytest.approx(12), "an idle machine's time is its own"


def test_a_clock_that_jumps_counts_as_one_late_look() -> None:
    times = [50.0, 51.0, 90051.0, 51.5, 52.5]
    clock = TimeWithoutSteal(lambda: CpuTicks(0, 0), lambda: times.pop(0), longest=2.0)
    assert [clock.seconds() for _ in range(4)] == [1.0, 3.0, 3.0, 4.0]


def process(proc: Path, pid: int, waited_ns: int, children: str = "") -> None:
    (proc / str(pid) / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "schedstat").write_text(f"12345 {waited_ns} 7\n")
    (proc / str(pid) / "task" / str(pid) / "children").write_text(children)


def test_waiting_for_a_processor_is_summed_over_a_process_and_its_children(tmp_path: Path) -> None:
    queued = RunQueueWait(10, tmp_path)
    assert queued.seconds() == 0, "no schedstat, or the process has ended"
    process(tmp_path, 10, 1_000_000_000, "11 12 ")
    process(tmp_path, 11, 500_000_000)
    assert queued.seconds() == pytest.approx(1.5)
    process(tmp_path, 10, 1_250_000_000, "11 ")
    assert queued.seconds() == pytest.approx(1.75)


def test_this_machine_has_schedstat() -> None:
    import os

    assert RunQueueWait(os.getpid()).seconds() > 0

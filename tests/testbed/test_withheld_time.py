"""Time passes for a patience as far as the machine has its processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.testbed.withheld import GivenTime, Processors, QueuedTime


def stat(path: Path, given: int, withheld: int) -> Path:
    path.write_text(f"cpu  {given} 1 2 1000 50 3 4 {withheld} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    return path


def test_share_is_of_what_was_wanted(tmp_path: Path) -> None:
    path = stat(tmp_path / "stat", 100, 40)
    before = Processors.read(path)
    assert before == Processors(110, 40)
    after = Processors.read(stat(path, 130, 130))
    assert before.share_withheld(after) == pytest.approx(90 / 120)
    assert before.share_withheld(before) == 0


def test_this_machine_can_be_read() -> None:
    assert Processors.read().given > 0


def test_time_passes_slowly_where_everything_is_withheld() -> None:
    seen = [Processors(0, 0), Processors(0, 90)]
    times = [0.0, 100.0]
    assert GivenTime(lambda: seen.pop(0), lambda: times.pop(0)).seconds() == pytest.approx(2)


def test_what_is_withheld_does_not_pass() -> None:
    seen = [Processors(0, 0), Processors(100, 0), Processors(110, 90), Processors(110, 90)]
    times = [50.0, 60.0, 70.0, 71.0]
    clock = GivenTime(lambda: seen.pop(0), lambda: times.pop(0))
    assert clock.seconds() == 10
    assert clock.seconds() == pytest.approx(11)
    assert clock.seconds() == pytest.approx(12), "an idle machine's time is its own"


def test_a_clock_that_jumps_counts_as_one_late_look() -> None:
    times = [50.0, 51.0, 90051.0, 51.5, 52.5]
    clock = GivenTime(lambda: Processors(0, 0), lambda: times.pop(0), longest=2.0)
    assert [clock.seconds() for _ in range(4)] == [1.0, 3.0, 3.0, 4.0]


def process(proc: Path, pid: int, waited_ns: int, children: str = "") -> None:
    (proc / str(pid) / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "schedstat").write_text(f"12345 {waited_ns} 7\n")
    (proc / str(pid) / "task" / str(pid) / "children").write_text(children)


def test_waiting_for_a_processor_is_summed_over_a_process_and_its_children(tmp_path: Path) -> None:
    queued = QueuedTime(10, tmp_path)
    assert queued.seconds() == 0, "a kernel that does not tell, or a process that has ended"
    process(tmp_path, 10, 1_000_000_000, "11 12 ")
    process(tmp_path, 11, 500_000_000)
    assert queued.seconds() == pytest.approx(1.5)
    process(tmp_path, 10, 1_250_000_000, "11 ")
    assert queued.seconds() == pytest.approx(1.75)


def test_this_machine_tells_of_waiting() -> None:
    import os

    assert QueuedTime(os.getpid()).seconds() > 0

"""Time passes for a patience as far as the machine has its processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.testbed.withheld import GivenTime, Processors


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

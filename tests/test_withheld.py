"""Tests with limits of a wall clock are done again if the machine was withheld, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from withheld import OF_REAL_TIME, Watch, is_of_real_time

from tcpf_lab.testbed.withheld import Processors

#: A fixture that times out once; whether processors were withheld meanwhile is the suite's choice.
SUITE = """
import pathlib
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="module")
def service():
    with (HERE / "begun").open("a") as file:
        file.write("x")
    if len((HERE / "begun").read_text()) == 1:
        (HERE / "stat").write_text("cpu 100 0 0 0 0 0 0 {withheld} 0 0")
        raise TimeoutError("not ready")

def test_of_the_service(service):
    pass
"""
CONFTEST = """
import pathlib
import sys
import pytest
sys.path.insert(0, {tests!r})
from tcpf_lab.testbed.withheld import Processors
from withheld import Watch

STAT = pathlib.Path(__file__).parent / "stat"
STAT.write_text("cpu 0 0 0 0 0 0 0 0 0 0")
watch = Watch(lambda: Processors.read(STAT))

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=2, condition=watch.starved))

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    watch.begin()
"""


@pytest.mark.parametrize(
    ("given", "withheld", "starved"),
    [(1000, 0, False), (801, 199, False), (790, 210, True), (1, 90, False)],
)
def test_watch_counts_from_where_it_began(given: int, withheld: int, starved: bool) -> None:
    seen = [Processors(0, 0), Processors(0, 5000), Processors(given, 5000 + withheld)]
    watch = Watch(lambda: seen.pop(0))
    watch.begin()
    assert watch.starved() is starved


@pytest.mark.parametrize(("withheld", "begun"), [(900, 2), (0, 1)])
def test_a_fixture_that_timed_out_is_made_again_only_on_a_starved_machine(
    tmp_path: Path, withheld: int, begun: int
) -> None:
    tests = str(Path(__file__).parent)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(tests=tests))
    (tmp_path / "test_it.py").write_text(SUITE.format(withheld=withheld))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-raR", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert len((tmp_path / "begun").read_text()) == begun
    assert done.returncode == (0 if begun == 2 else 1), done.stdout
    assert ("RERUN" in done.stdout) is (begun == 2)


def test_only_what_has_limits_of_a_wall_clock_is_done_again() -> None:
    tests = Path(__file__).parent
    assert all((tests / name).exists() for name in OF_REAL_TIME)
    assert is_of_real_time(tests / "agent" / "test_agent_ends.py", tests)
    for name in ("kernel/test_smp.py", "test_uml_runs.py", "test_fuzz.py", "trace/test_formats.py"):
        assert (tests / name).exists()
        assert not is_of_real_time(tests / name, tests)

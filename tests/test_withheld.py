"""Tests are done again because the machine was withheld, and for no other reason."""

from __future__ import annotations

import pytest
from withheld import Processors, Watch

SUITE = """
import pathlib
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="module")
def service():
    begun = HERE / "begun"
    begun.write_text(begun.read_text() + "x" if begun.exists() else "x")
    if {starving} and len(begun.read_text()) < 2:
        (HERE / "stat").write_text("cpu 10 0 0 0 0 0 0 90 0 0")
        raise TimeoutError("not ready")
    if not {starving}:
        raise TimeoutError("not ready")

def test_of_the_service(service):
    pass
"""

PLUGIN = """
import pathlib
import sys
sys.path.insert(0, {tests!r})
import pytest
from withheld import Watch

STAT = pathlib.Path(__file__).parent / "stat"
STAT.write_text("cpu 0 0 0 0 0 0 0 0 0 0")
watch = Watch(STAT)

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=2, condition=watch.starved))

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    watch.begin()
"""


def stat(path, given, withheld):
    path.write_text(f"cpu  {given} 1 2 1000 50 3 4 {withheld} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    return path


def test_share_is_of_what_was_wanted(tmp_path):
    path = stat(tmp_path / "stat", 100, 40)
    before = Processors.read(path)
    assert before == Processors(110, 40)
    after = Processors.read(stat(path, 130, 130))
    assert before.share_withheld(after) == pytest.approx(90 / 120)
    assert before.share_withheld(before) == 0


@pytest.mark.parametrize(("given", "withheld", "starved"), [(100, 0, False), (80, 21, True)])
def test_watch_counts_from_where_it_began(tmp_path, given, withheld, starved):
    path = stat(tmp_path / "stat", 0, 1000)
    watch = Watch(path)
    stat(path, 0, 5000)
    watch.begin()
    stat(path, given, 5000 + withheld)
    assert watch.starved() is starved


@pytest.mark.parametrize("starving", [True, False])
def test_a_fixture_that_timed_out_is_tried_again_only_on_a_starved_machine(
    tmp_path, starving, pytestconfig
):
    import subprocess
    import sys

    tests = str(pytestconfig.rootpath / "tests")
    (tmp_path / "conftest.py").write_text(PLUGIN.format(tests=tests))
    (tmp_path / "test_it.py").write_text(SUITE.format(starving=starving))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -raR\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    begun = len((tmp_path / "begun").read_text())
    if starving:
        assert done.returncode == 0, done.stdout
        assert begun == 2
        assert "RERUN" in done.stdout
    else:
        assert done.returncode == 1
        assert begun == 1

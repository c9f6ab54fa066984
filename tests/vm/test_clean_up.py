"""Whenever controller, connection or sshd of a run is killed, the hosts are what they were before.

The run goes through real sshds to the hosts of the guests; it loads modules of the project, takes
interfaces that are in use, sets queues, a marker and kernel parameters, captures, and sends.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import guest_hosts
import host_picture
import kills
import pytest
from guest_hosts import ROOT, Hosts
from kills import CONTROLLER, SSHD, Killing, Outcome

from tcpf_lab.testbed.vm.layout import host_name

pytestmark = pytest.mark.nightly
RESULT = ROOT / "results" / "vm" / "clean-up.json"


@pytest.fixture(scope="module")
def killing(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killing]:
    found = Killing(hosts, tmp_path_factory.mktemp("runs"))
    yield found
    found.close()


def test_nothing_is_left_by_a_run_nor_by_kills_amid_it(killing: Killing) -> None:
    said = killing.complete()
    assert "failed" not in said
    left = host_picture.until_same(killing.hosts, killing.before, kills.UNDONE_S)
    assert not left, "\n".join(left)
    guest_hosts.check_whole(killing.files)
    assert killing.answered() == killing.steps[-1].after
    for point in kills.slice_of(killing.steps):
        check(killing.kill_at(point))


def test_nothing_is_left_wherever_a_run_is_killed(killing: Killing) -> None:
    """Every kind of kill at every step; the same guests throughout, so that remains add up."""
    points = kills.mixed(killing.steps)
    began, outcomes, wrong = time.monotonic(), [], []
    facts = {"kernel": killing.hosts.facts["release"], "points_in_all": len(points)}
    for point in points:
        try:
            outcomes.append(killing.kill_at(point))
            found = kills.write(RESULT, outcomes, time.monotonic() - began, **facts)
            check(outcomes[-1])
        except AssertionError as error:
            wrong.append(f"{point}: {error}")
            killing.look_again()
    print(f"{found['kill_points']} kill points {found['by_kind']}, {found['different']} different, "
          f"undone after {found['undone_s']} s, in {found['seconds']} s: {RESULT}")  # fmt: skip
    assert not wrong, "\n".join(wrong)


def check(outcome: Outcome) -> None:
    """Check that the hosts are unchanged, and that the user was told what has happened."""
    assert not outcome.differences, "\n".join([*outcome.differences, outcome.said])
    assert "Traceback" not in outcome.said
    if outcome.point.kind == CONTROLLER:
        assert outcome.status == -9
        return
    told = any(word in outcome.said for word in ("failed: ", "not ready:"))
    if outcome.status == 0 or not told:
        # Whoever is killed when it has done its part is not missed.
        assert outcome.point.step in ("lateness", "undo")
        return
    assert host_name(outcome.point.role) in outcome.said
    assert re.search(r"try: .*(up|connect|clean|doctor)", outcome.said, re.DOTALL)
    if outcome.point.kind == SSHD:
        assert outcome.answered >= outcome.point.answers

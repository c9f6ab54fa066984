"""A results directory that never holds more than it may, and a disk that is full."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import zstandard
from test_runner import Here, kinds

from tcpf_lab import checksums
from tcpf_lab.disk_budget import REPORT, DiskBudget, kept_to, parse_budget, planned
from tcpf_lab.errors import DiskFullError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results import ExperimentFiles, RunFiles, read_json, write_json
from tcpf_lab.run_state import State, state
from tcpf_lab.runner import run_all
from tcpf_lab.spec.load import load
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.storage import occupied
from tcpf_lab.testbed import guest_process
from tcpf_lab.testbed.fake import FakeTestbed

MB = 1_000_000


@dataclass(frozen=True)
class Filling(FakeTestbed):
    """Write some more into the directory of captures, and note what the results take then."""

    filler: int = 0
    results: Path = Path()
    sizes: list[int] = field(default_factory=list)

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        super().execute(plan, run, seed)
        (run.pcap / "filler").write_bytes(b"x" * self.filler)
        self.sizes.append(occupied(self.results))


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def runs(recorded_experiment) -> tuple[Run, ...]:
    return expand(recorded_experiment.on("native"))


@pytest.fixture
def filling(recorded: Path, files: ExperimentFiles) -> Callable[[int], Filling]:
    return lambda size: Filling(recorded, filler=size, results=files.results)


def make(runs, testbed: Filling, size: int, **options):
    """Make runs with so much room besides what is held back for the report."""
    budget = DiskBudget(REPORT + size, testbed.results, at_a_time=1)
    events = list(run_all(runs, testbed, testbed.results, Here(), budget=budget, **options))
    assert max([occupied(testbed.results), *testbed.sizes]) <= REPORT + size
    return events


def test_runs_without_a_limit_and_with_a_large_one_are_the_same(files, runs, filling) -> None:
    events = make(runs, filling(0), 100 * MB, keep_pcaps=True)
    assert kinds(events) == dict.fromkeys((1, 2, 3), "finished")
    assert not any(event.captures_dropped for event in events)
    assert all(list(files.run(run.id).pcap.glob("*.zst")) for run in runs)


def test_captures_are_dropped_before_a_run_is_given_up(files, runs, filling) -> None:
    events = make(runs, filling(3 * MB), 9 * MB, keep_pcaps=True)
    assert kinds(events) == dict.fromkeys((1, 2, 3), "finished")
    assert [event.captures_dropped for event in events] == [False, True, False]
    kept = [files.run(run.id).pcap.exists() for run in runs]
    assert kept == [True, False, True]


def test_what_does_not_fit_is_not_begun_and_goes_on_with_more(files, runs, filling) -> None:
    events = make(runs, filling(2_500_000), 4 * MB)
    assert kinds(events) == {1: "finished", 2: "failed", 3: "failed"}
    assert "not begun: it may take 4." in events[1].detail
    assert "of --disk-budget 14.0 MB are left" in events[1].detail
    assert not files.partial(runs[1].id).root.exists()
    first = files.run(runs[0].id).metrics
    before = first.stat().st_mtime_ns
    again = make(runs, filling(2_500_000), 10 * MB)
    assert kinds(again) == {1: "skipped", 2: "finished", 3: "finished"}
    assert first.stat().st_mtime_ns == before


def test_first_run_is_measured_by_its_plan(files, runs, filling) -> None:
    events = make(runs, filling(0), planned(runs[0]).wanted - 1)
    assert kinds(events) == dict.fromkeys((1, 2, 3), "failed")
    assert list(files.root.iterdir()) == []


def test_plan_says_no_less_than_the_captures_are_and_not_much_more(recorded, runs) -> None:
    packed = (recorded / "pcap").glob("*.zst")
    captured = sum(
        len(zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()) for path in packed
    )
    expected = planned(runs[0]).peak - planned(runs[0]).bare
    assert captured <= expected <= 4 * captured


def test_run_that_takes_more_than_its_share_is_ended_and_makes_room(files, runs, filling) -> None:
    testbed = filling(5 * MB)
    budget = DiskBudget(REPORT + 4 * MB, files.results, at_a_time=1)
    events = list(run_all(runs, testbed, files.results, Here(), budget=budget))
    assert kinds(events) == dict.fromkeys((1, 2, 3), "failed")
    assert "ended: it has written 5." in events[0].detail
    assert ["not begun" in event.detail for event in events] == [False, True, True]
    left = files.partial(runs[0].id)
    assert left.log.is_dir()
    assert not left.pcap.exists()


def test_run_whose_captures_have_no_room_is_not_made_again_for_them(files, runs, filling) -> None:
    make(runs[:1], filling(0), 9 * MB)
    events = make(runs, filling(0), 4 * MB, keep_pcaps=True)
    assert [(event.kind, event.captures_dropped) for event in events][:1] == [("skipped", True)]
    (event,) = make(runs[:1], filling(0), 20 * MB, keep_pcaps=True)
    assert (event.kind, event.captures_dropped) == ("finished", False)


def test_complete_runs_stay_so_where_no_run_finds_room_with_captures(files, runs, filling) -> None:
    make(runs, filling(0), 9 * MB)
    first = files.run(runs[0].id).metrics
    before = first.stat().st_mtime_ns
    taken = occupied(files.results)
    events = make(runs, filling(0), taken - REPORT + planned(runs[0]).wanted // 2, keep_pcaps=True)
    assert [(event.kind, event.captures_dropped) for event in events] == [("skipped", True)] * 3
    assert first.stat().st_mtime_ns == before
    forced = make(runs, filling(0), 0, keep_pcaps=True, force=True)
    assert kinds(forced) == dict.fromkeys((1, 2, 3), "failed")


@pytest.mark.parametrize("old", ["of another kernel", "complete", "without captures"])
def test_runs_that_replace_others_find_the_room_that_new_ones_do(
    files, filling, recorded_experiment, old: str
) -> None:
    settings = [f"matrix.seed={list(range(1, 9))}"]
    runs = expand(apply_overrides(recorded_experiment, settings).on("native"))
    testbed = filling(3 * MB)
    fresh = make(runs, testbed, 14 * MB, keep_pcaps=True)
    assert {event.kind for event in fresh} == {"finished"}
    shutil.rmtree(files.results)
    make(runs, filling(0), 14 * MB)
    if old == "of another kernel":
        testbed = replace(testbed, kernel="another kernel")
    again = make(runs, testbed, 14 * MB, keep_pcaps=True, force=old == "complete")
    kept = [not event.captures_dropped for event in again]
    assert kept == [not event.captures_dropped for event in fresh]
    as_it_was = "skipped" if old == "without captures" else "finished"
    assert [event.kind for event in again] == ["finished" if k else as_it_was for k in kept]


def test_run_that_fails_at_once_does_not_say_what_others_take(files, runs, filling) -> None:
    testbed = replace(filling(2_500_000), failing_seeds=(1,))
    budget = DiskBudget(REPORT + 100 * MB, files.results, at_a_time=1)
    by_plan = budget.need(runs[0])
    (failed, *_) = run_all(runs[:1], testbed, files.results, Here(), budget=budget)
    assert 0 < failed.peak < by_plan.peak
    assert budget.need(runs[1]) == by_plan
    list(run_all(runs[1:2], testbed, files.results, Here(), budget=budget))
    seen = budget.need(runs[2])
    assert seen.peak > 2_500_000
    list(run_all(runs[:1], testbed, files.results, Here(), budget=budget))
    assert budget.need(runs[2]) == seen


def test_run_that_was_ended_says_that_others_may_take_as_much(files, runs, filling) -> None:
    budget = DiskBudget(REPORT + 4 * MB, files.results, at_a_time=1)
    (ended,) = run_all(runs[:1], filling(5 * MB), files.results, Here(), budget=budget)
    assert "ended: it has written" in ended.detail
    assert budget.need(runs[1]).peak == ended.peak > 5 * MB


def test_run_that_is_given_up_costs_the_others_no_captures(files, runs) -> None:
    budget = DiskBudget(REPORT + planned(runs[0]).wanted + MB, files.results, at_a_time=1)
    places = [files.run(run.id).root for run in runs]
    budget.expect(places)
    first = budget.share(runs[0], files, keep_pcaps=True)
    budget.ended(runs[0], files, 0, finished=True)
    for place in places:
        budget.not_needed(place)
    last = budget.share(runs[0], files, keep_pcaps=True)
    assert first
    assert last
    assert (first.keep_pcaps, last.keep_pcaps) == (False, True)


def test_run_that_is_not_begun_costs_those_of_others_no_captures(
    files, recorded_experiment, filling
) -> None:
    settings = ["name=long", "traffic.duration=100 s", "matrix.seed=1"]
    long = expand(apply_overrides(recorded_experiment, settings).on("native"))
    short = expand(apply_overrides(recorded_experiment, ["matrix.seed=2"]).on("native"))
    events = make([*short, *long], filling(0), planned(*short).wanted + MB // 10, keep_pcaps=True)
    assert kinds(events) == {1: "failed", 2: "finished"}
    assert not any(event.captures_dropped for event in events)


def test_what_a_run_replaces_is_counted_once(files, runs) -> None:
    for run in runs:
        files.run(run.id).root.mkdir(parents=True)
        (files.run(run.id).root / "old").write_bytes(b"x" * planned(run).bare)
    need = planned(runs[0])
    room = occupied(files.results) + need.kept + need.wanted
    budget = DiskBudget(REPORT + room, files.results, at_a_time=1)
    budget.expect(files.run(run.id).root for run in runs)
    share = budget.share(runs[0], files, keep_pcaps=True)
    assert share
    assert share.keep_pcaps


@pytest.mark.parametrize(("room", "ends"), [(9 * MB, "finished"), (0, "failed")])
def test_run_whose_counters_cannot_be_read_is_made_only_where_there_is_room(
    files, recorded_experiment, filling, room: int, ends: str
) -> None:
    settings = ["traffic.captures=false"]
    runs = expand(apply_overrides(recorded_experiment, settings).on("native"))
    make(runs, filling(0), 9 * MB)
    for run in runs[:2]:
        done = files.run(run.id)
        write_json(done.metrics, {**read_json(done.metrics), "analysis": "another"})
        checksums.renew(done)
        assert state(run, files, filling(0).identity) is State.OUTDATED
    damaged = files.run(runs[0].id).stats / "epoch.json"
    damaged.unlink()
    checksums.write(files.run(runs[0].id))
    limit = room or occupied(files.results) - REPORT + MB
    events = make(runs, filling(0), limit)
    assert kinds(events) == {1: ends, 2: "analysed", 3: "skipped"}
    assert damaged.exists() == (ends == "finished")
    assert ("not begun: it may take" in events[-1].detail) == (ends == "failed")


def test_runs_at_a_time_share_what_is_left(files, runs) -> None:
    budget = DiskBudget(REPORT + 100 * MB, files.results, at_a_time=2)
    budget.expect(files.run(run.id).root for run in runs)
    first = budget.share(runs[0], files, keep_pcaps=True)
    second = budget.share(runs[1], files, keep_pcaps=True)
    assert first
    assert second
    assert 99 * MB < first.allowance + second.allowance <= 100 * MB
    assert budget.share(runs[2], files, keep_pcaps=True) is None
    budget.ended(runs[0], files, 0, finished=True)
    assert budget.share(runs[2], files, keep_pcaps=True)


def test_what_others_write_meanwhile_counts(files, runs) -> None:
    budget = DiskBudget(REPORT + 100 * MB, files.results, 2, clock=iter(range(10**6)).__next__)
    before = budget.free()
    files.root.mkdir(parents=True)
    (files.root / "other").write_bytes(b"x" * 5 * MB)
    for _ in range(100):
        budget.free()
    assert before - budget.free() >= 5 * MB


def test_guest_is_killed_that_writes_more_than_it_may(tmp_path: Path) -> None:
    partial = RunFiles(tmp_path / "run.partial")
    partial.create()
    writer = ["/bin/sh", "-c", "while :; do head -c 100000; done </dev/zero >pcap/S.pcap"]
    with (
        (tmp_path / "console").open("wb") as console,
        pytest.raises(Exception, match=r"run run: ended: it has written .* may take 2.00 MB"),
        kept_to(2 * MB, partial),
    ):
        guest_process.run(writer, partial.root, {}, console, 600)
    size = (partial.pcap / "S.pcap").stat().st_size
    assert guest_process.stopping() is False
    assert (partial.pcap / "S.pcap").stat().st_size == size


@pytest.mark.parametrize(
    ("text", "size"), [("10GB", 10**10), ("1.5 TB", 15 * 10**11), ("2 GiB", 2**31), ("1B", 1)]
)
def test_budget_is_written_as_other_sizes_are(text: str, size: int) -> None:
    assert parse_budget(text) == size


@pytest.mark.parametrize(
    ("text", "says"), [("10", "10 lacks a unit"), ("10gb", "unknown unit 'gb'"), ("much", "'much'")]
)
def test_budget_that_is_no_size_is_a_wrong_request(lab, spec, text: str, says: str) -> None:
    status, _, complaints = lab("run", spec, "--testbed", "fake", "--disk-budget", text)
    assert status == 2
    assert complaints.startswith(f"error: --disk-budget {text}: {says}")


def test_command_says_what_was_not_begun(lab, spec, tmp_path: Path) -> None:
    status, _, complaints = lab("run", spec, "--testbed", "fake", "--disk-budget", "11MB")
    assert status == 1
    assert "not begun: it may take" in complaints
    assert "3 of 3 runs failed" in complaints
    assert not list((tmp_path / "results" / "tiny" / "fake").iterdir())


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_disk_budget import on_a_small_disk
on_a_small_disk(Path(sys.argv[1]), Path(sys.argv[2]) / "data" / "recorded-run")
"""


def on_a_small_disk(disk: Path, recorded: Path) -> None:
    """Make one run that fits and one that does not, behind which no other is made."""
    runs = expand(load(recorded / "experiment.yaml").on("native"))
    files = ExperimentFiles(disk, "tiny", "fake")
    (first,) = run_all(runs[:1], FakeTestbed(recorded), disk, Here())
    large = Filling(recorded, filler=50 * MB, results=disk)
    happening = run_all(runs, large, disk, Here())
    events = [next(happening), next(happening)]
    with pytest.raises(DiskFullError, match="stopped: the disk is full; 1 of 3 runs") as caught:
        next(happening)
    assert caught.value.where == str(disk)
    assert [event.kind for event in (first, *events)] == ["finished", "skipped", "failed"]
    assert "No space left on device" in events[1].detail
    states = [state(run, files, large.identity) for run in runs]
    assert states == [State.COMPLETE, State.MISSING, State.MISSING]
    assert shutil.disk_usage(disk).free > MB
    print("as expected")


def test_full_disk_fails_the_run_and_leaves_the_others_whole(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=4m none "$1"'
    if subprocess.run(["unshare", "-m", "sh", "-c", mount, "sh", tmp_path], check=False).returncode:
        pytest.skip("a small disk takes the right to mount one: run as root")
    python = f'{mount} && exec "$2" -c "$3" "$1" "$4"'
    words = [str(tmp_path), sys.executable, ON_A_SMALL_DISK, str(Path(__file__).parent)]
    made = subprocess.run(
        ["unshare", "-m", "sh", "-c", python, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.stdout, made.returncode) == ("as expected\n", 0), made.stderr

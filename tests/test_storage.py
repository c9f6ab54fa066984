"""What results take on disk, and that `status` says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from test_runner import Here, kinds

from tcpf_lab.base.errors import DiskFullError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.results.storage import KINDS, inventory, occupied, readable
from tcpf_lab.run.runner import State, planned, run_all, state
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.fake import FakeTestbed

BLOCK = 4096


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return one complete run, one that failed, and a report of a collection."""
    results = tmp_path / "results"
    files = ExperimentFiles(results, "tiny", "fake")
    done, failed = files.run("done"), files.partial("failed")
    for run in (done, failed):
        run.create()
    done.spec.write_bytes(b"x" * 10)
    done.metrics.write_bytes(b"x" * 3 * BLOCK)
    done.series.write_bytes(b"x" * 2 * BLOCK)
    (done.stats / "qdisc.json").write_bytes(b"x" * 7 * BLOCK)
    (done.pcap / "S.pcap.zst").write_bytes(b"x" * 100 * BLOCK)
    (done.log / "console.txt").write_bytes(b"x" * BLOCK)
    (failed.pcap / "S.pcap").write_bytes(b"x" * 50 * BLOCK)
    files.table("csv").write_bytes(b"x" * 5 * BLOCK)
    both = results / "both" / "fake"
    both.mkdir(parents=True)
    (both / "report.pdf").write_bytes(b"x" * 20 * BLOCK)
    return results


def on_disk(*paths: Path) -> int:
    """Ask the system's own program."""
    sizes = subprocess.run(
        ["du", "--summarize", "--block-size=1", "--count-links", *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum(int(line.split()[0]) for line in sizes.stdout.splitlines())


def test_every_byte_is_counted_once_and_where_it_belongs(results: Path) -> None:
    found = inventory(results)
    (tiny,) = found.stored
    run = results / "tiny" / "fake" / "done"
    assert (tiny.experiment, tiny.testbed, tiny.complete, tiny.failed) == ("tiny", "fake", 1, 1)
    assert tiny.sizes["captures"] == on_disk(run / "pcap")
    assert tiny.sizes["counters"] == on_disk(run / "stats")
    assert tiny.sizes["logs"] == on_disk(run / "log")
    assert tiny.sizes["metrics"] == on_disk(run / "metrics.json", run / "series.npz")
    assert tiny.sizes["unfinished"] == on_disk(results / "tiny" / "fake" / "failed.partial")
    assert tiny.total == on_disk(results / "tiny" / "fake")
    assert found.total + os.stat(results).st_blocks * 512 == on_disk(results)  # noqa: PTH116
    assert occupied(results) == on_disk(results)


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert occupied(tmp_path / "nowhere") == 0
    assert inventory(tmp_path / "nowhere").total == 0


def test_link_that_leads_elsewhere_is_not_followed(results: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(b"x" * 1000 * BLOCK)
    before = occupied(results)
    (results / "tiny" / "fake" / "done" / "link").symlink_to(elsewhere)
    assert occupied(results) < before + 10 * BLOCK


def test_directory_can_be_left_out(results: Path) -> None:
    failed = results / "tiny" / "fake" / "failed.partial"
    assert occupied(results, {str(failed)}) == occupied(results) - occupied(failed)


def test_status_shows_sizes_and_clean_frees_what_it_says(lab, results: Path) -> None:
    found = json.loads(lab("status", "--json")[1])
    (tiny,) = found["experiments"]
    assert set(tiny["bytes"]) == {"total", *KINDS}
    assert found["bytes"] == tiny["bytes"]["total"] + found["bytes_elsewhere"]
    shown = lab("status")[1]
    assert readable(tiny["bytes"]["captures"]) in shown
    freed = readable(found["bytes_freed_by_clean"])
    assert f"`tcpf-lab clean` would free {freed}" in shown
    before = occupied(results)
    lab("clean")
    assert before - occupied(results) == found["bytes_freed_by_clean"]


def test_status_of_an_experiment_has_the_size_of_its_runs(
    quick, spec: Path, tmp_path: Path
) -> None:
    quick("run", spec, "--testbed", "fake", "--seeds", "1", "--json")
    rows = json.loads(quick("status", spec, "--testbed", "fake", "--json")[1])
    made = tmp_path / "results" / "tiny" / "fake" / rows[0]["run"]
    assert [row["bytes"] for row in rows] == [occupied(made), 0, 0]
    assert readable(occupied(made)) in quick("status", spec, "--testbed", "fake")[1]


# Free space is checked before runs are made, and a full disk loses none that is finished.

MB = 1_000_000


@dataclass(frozen=True)
class Filling(FakeTestbed):
    """Write some more into the directory of captures."""

    filler: int = 0

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        super().execute(plan, run, seed)
        (run.pcap / "filler").write_bytes(b"x" * self.filler)


@pytest.fixture
def runs(recorded_experiment) -> tuple[Run, ...]:
    return expand(recorded_experiment.on("native"))


def test_plan_says_no_less_than_the_captures_are_and_not_much_more(recorded, runs) -> None:
    packed = (recorded / "pcap").glob("*.zst")
    captured = sum(
        len(zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()) for path in packed
    )
    kept, bare = (planned(compose(runs[0]), keep_pcaps=keep) for keep in (True, False))
    assert captured <= kept.peak - bare.after <= 4 * captured
    assert bare.after < kept.after < kept.peak == bare.peak


def test_nothing_is_begun_that_does_not_find_room(
    recorded, runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ExperimentFiles(tmp_path / "results", "tiny", "fake")
    testbed = FakeTestbed(recorded)
    list(run_all(runs[:1], testbed, files.results, Here()))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 * MB))
    with pytest.raises(DiskFullError, match=r"the runs take some .* MB, 5.00 MB are free"):
        list(run_all(runs, testbed, files.results, Here()))
    assert [path.name for path in files.root.glob(f"{runs[0].id[:4]}*")] == [runs[0].id]
    assert kinds(run_all(runs[:1], testbed, files.results, Here())) == {1: "skipped"}


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_storage import on_a_small_disk
on_a_small_disk(Path(sys.argv[1]), Path(sys.argv[2]) / "data" / "recorded-run")
"""


def on_a_small_disk(disk: Path, recorded: Path) -> None:
    """Make one run that fits and one that does not, behind which no other is made."""
    runs = expand(load(recorded / "experiment.yaml").on("native"))
    files = ExperimentFiles(disk, "tiny", "fake")
    (first,) = run_all(runs[:1], FakeTestbed(recorded), disk, Here())
    large = Filling(recorded, filler=50 * MB)
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
    mount = 'mount -t tmpfs -o size=40m none "$1"'
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

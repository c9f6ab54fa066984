"""Free space is checked before runs are made, and a full disk loses none that is finished."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from test_runner import Here, kinds

from tcpf_lab.base.errors import DiskFullError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.run.runner import State, planned, run_all, state
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.fake import FakeTestbed

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
    kept, bare = (planned(runs[0], keep_pcaps=keep) for keep in (True, False))
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
from test_free_space import on_a_small_disk
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

"""What results take on disk, and that `status` says so."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from test_runner import Here, kinds

from tcpf_lab.base.errors import DiskFullError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results import checksums, storage
from tcpf_lab.results.layout import REPLACED, ExperimentFiles, RunFiles, complete
from tcpf_lab.results.storage import KINDS, ArchiveError, inventory, occupied, readable
from tcpf_lab.run import campaign
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
    with pytest.raises(DiskFullError, match=r"the runs need about .* MB, 5.00 MB are free"):
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


# Directories as bytes: what goes in comes out, and nothing leaves the directory.


@pytest.fixture
def full(tmp_path: Path) -> Path:
    root = tmp_path / "full"
    (root / "log").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "log" / "console.txt").write_bytes(b"booting\n" * 1000)
    (root / "program").write_bytes(b"\x7fELF")
    (root / "program").chmod(0o700)
    return root


def repacked(root: Path) -> bytes:
    """Pack it as if nobody else could run its program, which is what arrives elsewhere."""
    (root / "program").chmod(0o755)
    return storage.pack(root, storage.contents(root))


def packed_by_hand(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return zstandard.compress(buffer.getvalue())


def link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_everything_comes_back_and_is_smaller_meanwhile(full: Path, tmp_path: Path) -> None:
    packed = storage.pack(full, storage.contents(full))
    assert len(packed) < 1000
    back = tmp_path / "back"
    back.mkdir()
    storage.unpack(packed, back)
    assert storage.contents(back) == storage.contents(full)
    assert (back / "log" / "console.txt").read_bytes() == b"booting\n" * 1000
    assert (back / "program").stat().st_mode & 0o100
    assert not (back / "log" / "console.txt").stat().st_mode & 0o100
    assert storage.pack(back, storage.contents(back)) == repacked(full)


def test_links_are_not_packed(full: Path) -> None:
    (full / "link").symlink_to("/etc/hostname")
    (full / "directory").symlink_to("/etc")
    assert {str(path) for path in storage.contents(full)} == {
        "empty",
        "log",
        "log/console.txt",
        "program",
    }


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "log/../../outside", ".."])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ArchiveError, match="outside its directory"):
        storage.unpack(packed_by_hand((tarfile.TarInfo(name), b"x")), root)
    assert list(tmp_path.rglob("*")) == [root]


@pytest.mark.parametrize(
    "member",
    [
        link("a", tarfile.SYMTYPE, "/etc"),
        link("a", tarfile.LNKTYPE, "b"),
        link("a", tarfile.FIFOTYPE, ""),
        link("a", tarfile.CHRTYPE, ""),
    ],
    ids=["symlink", "hard link", "fifo", "device"],
)
def test_what_is_neither_file_nor_directory_is_refused(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    with pytest.raises(ArchiveError, match="neither a file nor a directory"):
        storage.unpack(packed_by_hand((member, b"")), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced(tmp_path: Path) -> None:
    twice = packed_by_hand((tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2"))
    with pytest.raises(ArchiveError, match="holds a name twice"):
        storage.unpack(twice, tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_cut_archive_is_told(full: Path, tmp_path: Path, cut: int) -> None:
    packed = storage.pack(full, storage.contents(full))
    back = tmp_path / "back"
    back.mkdir()
    with pytest.raises(ArchiveError, match="damaged"):
        storage.unpack(packed[:cut], back)


# Files of a run that are not what they were are told, and the run is made again.


@pytest.fixture
def files(tmp_path):
    return ExperimentFiles(tmp_path / "results", "tiny", "fake")


@pytest.fixture
def run(fake, files, recorded_experiment):
    """A complete run with its captures."""
    only = expand(recorded_experiment)[0]
    list(run_all([only], fake, files.results, Here(), keep_pcaps=True))
    return only


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def test_record_is_one_that_sha256sum_reads(files, run):
    root = files.run(run.id).root
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=root, check=True)
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    listed = {line.partition("  ")[2] for line in (root / "SHA256SUMS").read_text().splitlines()}
    assert listed == names - {"SHA256SUMS"}


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "metrics.json",
        "run.yaml",
        "series.npz",
        "stats/qdisc-R1.json",
        "SHA256SUMS",
    ],
)
def test_one_wrong_bit_makes_a_run_stale_and_it_is_made_again(fake, files, run, name):
    done = files.run(run.id)
    before = (done.root / name).read_bytes()
    flip(done.root / name)
    assert state(run, files, fake.identity) is State.STALE
    list(run_all([run], fake, files.results, Here(), keep_pcaps=True))
    assert (done.root / name).read_bytes() == before
    assert checksums.damaged(done, captures=True) == []


def test_captures_are_looked_at_where_they_are_wanted(fake, files, run):
    done = files.run(run.id)
    flip(done.capture("S"))
    assert state(run, files, fake.identity) is State.COMPLETE
    assert state(run, files, fake.identity, need_pcaps=True) is State.STALE
    assert checksums.damaged(done, captures=True) == ["pcap/S.pcap.zst"]


def test_numbers_are_not_made_of_a_damaged_capture(files, run):
    done = files.run(run.id)
    before = done.metrics.read_bytes()
    flip(done.capture("S"))
    (problem,) = campaign.rebuild([done])
    assert "damaged: pcap/S.pcap.zst" in str(problem)
    assert done.metrics.read_bytes() == before


def test_damaged_numbers_are_made_again_from_sound_captures(fake, files, run):
    done = files.run(run.id)
    before = done.metrics.read_bytes()
    flip(done.metrics)
    assert list(campaign.rebuild([done])) == [done.metrics]
    assert done.metrics.read_bytes() == before
    assert state(run, files, fake.identity) is State.COMPLETE


def test_a_wrong_bit_in_a_packed_capture_is_told_by_the_capture_itself(files, run, lab):
    """Without the run's record: a capture may be anywhere."""
    done = files.run(run.id)
    packed = done.capture("R1-out")  # as it was recorded
    plain = zstandard.ZstdDecompressor().stream_reader(packed.read_bytes()).read()
    packed.with_suffix("").write_bytes(plain)
    packed.unlink()
    (path,) = storage.compress(done)
    sound = path.read_bytes()
    rng = random.Random(1)
    for _ in range(20):
        content = bytearray(sound)
        content[rng.randrange(len(content) // 4, len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        status, _, said = lab("analyze", path)
        assert status == 2
        assert "R1-out.pcap.zst" in said


def test_taken_away_log_and_unpacked_capture_are_no_damage(files, run):
    done = files.run(run.id)
    for path in done.log.iterdir():
        path.unlink()
    packed = done.capture("S")
    packed.with_suffix("").write_bytes(b"unpacked")
    packed.unlink()
    assert checksums.damaged(done, captures=True) == []
    packed.with_suffix("").unlink()
    (done.stats / "qdisc-R1.json").unlink()
    assert checksums.damaged(done, captures=True) == ["pcap/S.pcap.zst", "stats/qdisc-R1.json"]


def test_run_without_a_record_is_taken_as_it_is(fake, files, run):
    done = files.run(run.id)
    done.checksums.unlink()
    flip(done.root / "run.yaml")
    assert state(run, files, fake.identity) is State.COMPLETE
    checksums.renew(done)
    assert not done.checksums.exists()


@pytest.mark.parametrize("text", ["", "\0\0", "x", "a  ../..\n", f"{'0' * 64}  a\0b\n"])
def test_damaged_record_fits_nothing(files, run, text):
    done = files.run(run.id)
    done.checksums.write_text(text)
    assert checksums.damaged(done, captures=False) != []


def test_what_an_end_by_force_has_left_is_gone_after_the_next_run(fake, files, run):
    for left in (files.partial(run.id).root, files.run(run.id + REPLACED).root):
        left.mkdir()
        (left / "half").write_text("a file")
    (event,) = run_all([run], fake, files.results, Here())
    assert event.kind == "skipped"
    assert [path.name for path in files.root.iterdir()] == [run.id]


def test_run_takes_its_place_where_an_earlier_replacement_was_cut_short(tmp_path):
    partial, final = RunFiles(tmp_path / "a.partial"), RunFiles(tmp_path / "a")
    partial.create()
    (tmp_path / f"a{REPLACED}").mkdir()
    complete(partial, final)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_cut_record_does_not_hide_a_change(files, run):
    """A record that is cut at the end of a line is well-formed."""
    done = files.run(run.id)
    first, *_ = done.checksums.read_text().splitlines(keepends=True)
    done.checksums.write_text(first)
    flip(done.stats / "qdisc-R1.json")
    assert "stats/qdisc-R1.json" in checksums.damaged(done, captures=False)


def test_interrupted_analysis_damages_nothing(fake, files, run, monkeypatch):
    done = files.run(run.id)
    monkeypatch.setattr(checksums, "renew", lambda _run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(campaign.rebuild([done]))
    assert state(run, files, fake.identity, need_pcaps=True) is State.COMPLETE


def test_no_run_takes_the_place_of_one_that_is_analysed(files, run):
    done = files.run(run.id)
    with files.locked():
        (refused,) = campaign.rebuild([done])
    assert "another tcpf-lab process" in str(refused)


def test_capture_as_it_was_kept_goes_before_an_unpacked_one(files, run):
    done = files.run(run.id)
    (done.pcap / "S.pcap").write_bytes(b"cut while it was unpacked")
    assert done.capture("S").name == "S.pcap.zst"

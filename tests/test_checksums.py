"""Files of a run that are not what they were are told, and the run is made again."""

from __future__ import annotations

import random
import subprocess

import pytest
import zstandard
from test_runner import Here

from tcpf_lab.results import checksums, storage
from tcpf_lab.results.layout import REPLACED, ExperimentFiles, RunFiles, complete
from tcpf_lab.run import campaign
from tcpf_lab.run.runner import State, run_all, state
from tcpf_lab.spec.sweep import expand


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
    assert "another tcpf-lab is at work" in str(refused)


def test_capture_as_it_was_kept_goes_before_an_unpacked_one(files, run):
    done = files.run(run.id)
    (done.pcap / "S.pcap").write_bytes(b"cut while it was unpacked")
    assert done.capture("S").name == "S.pcap.zst"

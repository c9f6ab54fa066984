"""Nothing of ours is made through a symbolic link, and what stands in the way is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_runner import Here

from tcpf_lab.base import making
from tcpf_lab.base.errors import LabError
from tcpf_lab.results.layout import ExperimentFiles, locked, write_text
from tcpf_lab.run.runner import run_all
from tcpf_lab.spec.sweep import expand


def link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize("name", ["f", "f.new"])
@pytest.mark.parametrize("target", ["precious", "nowhere"])
def test_no_file_is_written_through_a_link(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "precious").write_text("as it was")
    link(tmp_path / name, tmp_path / target)
    with pytest.raises(LabError, match="symbolic link") as caught:
        write_text(tmp_path / "f", "new")
    assert caught.value.where == str(tmp_path / name)
    assert (tmp_path / "precious").read_text() == "as it was"
    assert not (tmp_path / "nowhere").exists()


def test_neither_a_pipe_nor_a_link_is_a_lock_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    link(tmp_path / "link", tmp_path / "made")
    for name in ("pipe", "link"):
        with pytest.raises(LabError, match=name):
            making.opened(tmp_path / name, "a")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda top: link(top / "results", top / "gone"), "gone, which does not exist"),
        (lambda top: link(top / "results/x", Path("gone")), "gone, which does not exist"),
        (lambda top: (top / "results").write_text(""), "is a file, not a directory"),
    ],
)
def test_what_is_in_the_way_of_results_is_named(tmp_path: Path, make, says: str) -> None:
    make(tmp_path)
    with pytest.raises(LabError, match=says), locked(tmp_path / "results" / "x" / "uml"):
        pass


def test_results_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link(tmp_path / "results", tmp_path / "disk")
    with locked(tmp_path / "results" / "x" / "uml"):
        assert (tmp_path / "disk" / "x" / "uml").is_dir()


@pytest.mark.parametrize("suffix", ["", ".partial", ".replaced.partial"])
def test_run_is_made_through_no_link_and_no_foreign_file_is_recorded(
    fake, recorded_experiment, tmp_path: Path, suffix: str
) -> None:
    files = ExperimentFiles(tmp_path / "results", "tiny", "fake")
    run = expand(recorded_experiment)[0]
    (tmp_path / "elsewhere" / "pcap").mkdir(parents=True)
    (tmp_path / "elsewhere" / "foreign").write_text("as it was")
    link(files.root / f"{run.id}{suffix}", tmp_path / "elsewhere")
    (event,) = run_all([run], fake, files.results, Here())
    if suffix == ".partial":
        assert event.kind == "failed"
        assert "symbolic link" in event.detail
    else:  # what is to be replaced: the link is, not what it leads to
        assert event.kind == "finished"
        assert files.run(run.id).checksums.is_file()
        assert [path.name for path in files.root.iterdir()] == [run.id]
    assert sorted(p.name for p in (tmp_path / "elsewhere").iterdir()) == ["foreign", "pcap"]


def test_record_has_the_files_of_the_run_alone(fake, recorded_experiment, tmp_path: Path) -> None:
    def execute(plan, run, seed):
        type(fake).execute(fake, plan, run, seed)
        (run.root / "foreign").write_text("x")
        link(run.log / "foreign", tmp_path)

    class Bed(type(fake)):
        pass

    Bed.execute = lambda self, *words: execute(*words)
    files = ExperimentFiles(tmp_path / "results", "tiny", "fake")
    run = expand(recorded_experiment)[0]
    (event,) = run_all([run], Bed(fake.recorded), files.results, Here())
    assert event.kind == "finished"
    record = files.run(run.id).checksums.read_text()
    assert "foreign" not in record
    assert "  manifest.json" in record


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("missing/deep", "missing: no such directory\n  try: `mkdir -p missing`"),
        ("file/x", "file: is a file, not a directory"),
        ("link", "link: is a symbolic link to nowhere, which does not exist"),
        ("pipe", "pipe: exists and is not a "),
    ],
)
@pytest.mark.parametrize(
    ("verb", "option", "suffix"),
    [
        ("analyze c", "-o", ".csv"),
        ("device c c", "-o", ".csv"),
        ("plot rtt c", "-o", ".png"),
        ("model rio", "--page", ".md"),
        ("model rio", "--figures", ""),
        ("report tiny.yaml", "--reference", ""),
    ],
)
def test_place_that_cannot_be_written_is_refused_before_any_work(
    lab, tmp_path: Path, verb: str, option: str, suffix: str, place: str, says: str
) -> None:
    (tmp_path / "file").write_text("")
    for name in ("", suffix):
        (tmp_path / f"link{name}").unlink(missing_ok=True)
        link(tmp_path / f"link{name}", Path("nowhere"))
        if not (tmp_path / f"pipe{name}").exists():
            os.mkfifo(tmp_path / f"pipe{name}")
    status, said, complaints = lab(*verb.split(), option, f"{place}{suffix}")
    name, rest = says.split(":", 1)
    assert complaints.startswith(f"error: {name}{suffix if name == place else ''}:{rest}")
    assert (status > 0, said) == (True, "")
    assert not (tmp_path / "missing").exists()


def test_place_that_is_read_only_is_named_with_the_file(lab, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, _, complaints = lab("analyze", "c", "-o", "x.csv")
    assert (status, complaints.splitlines()[0]) == (
        1,
        "error: x.csv: cannot be written: . is read-only",
    )

"""Runs of other versions of the layout: read, brought up to date on disk, or refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab import checksums, migration
from tcpf_lab.formats import FORMAT, STEPS, FormatError, present
from tcpf_lab.metrics import summary
from tcpf_lab.results import RunFiles, read_json, write_json

OLD = Path(__file__).parent / "data" / "run-of-format-1"
RUN = "nomark+red-flows3-seed1"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a results directory with a run as the first version of all made it."""
    results = tmp_path / "results"
    shutil.copytree(OLD, results / "tiny" / "fake" / RUN)
    return results


@pytest.fixture
def old(results: Path) -> RunFiles:
    return RunFiles(results / "tiny" / "fake" / RUN)


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_there_is_a_step_from_every_earlier_format() -> None:
    assert sorted(STEPS) == list(range(1, FORMAT))


def test_old_run_is_loaded_as_it_is(results: Path) -> None:
    before = content(results)
    loaded = tcpf_lab.load(results)
    assert list(loaded.runs["analysis"]) == ["unknown"]
    assert len(loaded.flows) == 3
    assert content(results) == before


def test_old_run_is_valid_again_once_it_is_migrated(results: Path, old: RunFiles) -> None:
    verdict = summary.analyse(old)["validity"]
    assert verdict["reasons"] == ["no_unplanned_loss: stats/dev-S.txt is missing"]
    assert [path.name for path in migration.migrate(results)] == [RUN]
    assert summary.analyse(old)["validity"]["valid"]


def test_migrated_counters_are_those_of_the_old_file(results: Path, old: RunFiles) -> None:
    links = {link["ifname"]: link["stats64"] for link in read_json(old.stats / "link-R1.json")}
    list(migration.migrate(results))
    lines = (old.stats / "dev-R1.txt").read_text().splitlines()[2:]
    found = {name.strip(): rest.split() for name, _, rest in (x.partition(":") for x in lines)}
    assert found.keys() == links.keys() == {"lo", "R1-R0", "R1-R2"}
    for device, counted in links.items():
        numbers = [int(number) for number in found[device]]
        assert len(numbers) == 16
        assert numbers[:2] == [counted["rx"]["bytes"], counted["rx"]["packets"]]
        assert numbers[8:10] == [counted["tx"]["bytes"], counted["tx"]["packets"]]
    assert int(found["R1-R2"][9]) > 0
    assert not list(old.stats.glob("link-*"))


def test_migrating_twice_changes_nothing_more(results: Path, old: RunFiles) -> None:
    captures = content(old.pcap)
    list(migration.migrate(results))
    once = content(results)
    assert list(migration.migrate(results)) == []
    assert content(results) == once
    assert content(old.pcap) == captures
    for record in (old.manifest, old.metrics):
        assert json.loads(record.read_text())["format"] == FORMAT


@pytest.mark.parametrize("writes", range(7))
def test_interrupted_migration_is_taken_up_again(
    results: Path, old: RunFiles, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    done = 0

    def interrupted(write):
        def call(*words):
            nonlocal done
            if done == writes:
                raise KeyboardInterrupt
            done += 1
            write(*words)

        return call

    with monkeypatch.context() as patch:
        for name in ("write_text", "write_json"):
            patch.setattr(migration, name, interrupted(getattr(migration, name)))
        with pytest.raises(KeyboardInterrupt):
            list(migration.migrate(results))
    assert list(migration.migrate(results)) == [old.root]
    assert summary.analyse(old)["validity"]["valid"]


def test_migrate_is_a_verb_with_a_dry_run(lab, results: Path) -> None:
    before = content(results)
    assert lab("migrate", "--dry-run")[1] == f"would migrate results/tiny/fake/{RUN}\n"
    assert content(results) == before
    assert json.loads(lab("migrate", "--json")[1]) == [f"results/tiny/fake/{RUN}"]
    assert lab("migrate")[1] == f"every run in results is of format {FORMAT}\n"
    status, _, complaints = lab("migrate", "--results", "nowhere")
    assert (status, complaints) == (2, "error: nowhere: no such results directory\n")


@pytest.mark.parametrize("name", ["manifest.json", "metrics.json"])
def test_later_format_is_refused_by_every_reader_and_the_run_is_left_alone(
    lab, spec: Path, results: Path, old: RunFiles, name: str
) -> None:
    write_json(old.root / name, {**read_json(old.root / name), "format": FORMAT + 1})
    before = content(results)
    refusal = (
        f"{name}: is of format {FORMAT + 1}; this version of tcpf-lab reads formats 1 to {FORMAT}\n"
        "  try: upgrade tcpf-lab\n"
    )
    fake = ("--testbed", "fake")
    for words in (("run", spec, *fake), ("status", spec, *fake), ("report", spec, *fake)):
        status, _, complaints = lab(*words)
        assert (status, complaints.endswith(refusal)) == (2, True), (words, complaints)
    assert lab("migrate")[2].endswith(refusal)
    assert content(results) == before


@pytest.mark.parametrize("value", [[], {}, {"format": "1"}, {"format": 0}, {"format": True}])
def test_what_names_no_version_is_left_to_who_reads_it(value: object) -> None:
    assert present("manifest.json", value) == value


def test_only_records_have_a_version() -> None:
    assert present("facts.json", {"format": FORMAT + 1}) == {"format": FORMAT + 1}
    with pytest.raises(FormatError):
        present("manifest.json", {"format": FORMAT + 1})


def test_damaged_run_is_told_and_stays_what_it_is_and_the_others_are_migrated(
    lab, results: Path, old: RunFiles
) -> None:
    other = RunFiles(old.root.with_name("another-run"))
    shutil.copytree(old.root, other.root)
    checksums.write(old)
    counter = old.stats / "qdisc-R1.json"
    counter.write_bytes(counter.read_bytes().replace(b"1", b"2", 1))
    before = content(old.root)
    status, said, complaints = lab("migrate")
    assert status == 1
    assert "another-run" in said
    assert "damaged: stats/qdisc-R1.json" in complaints
    assert content(old.root) == before
    assert read_json(other.manifest)["format"] == FORMAT


@pytest.mark.parametrize("text", ["{}", "[]", "[1]", '[{"ifname": "lo"}]'])
def test_counters_that_are_none_are_told_and_kept(
    lab, results: Path, old: RunFiles, text: str
) -> None:
    (old.stats / "link-R1.json").write_text(text)
    status, _, complaints = lab("migrate")
    assert status == 1
    assert "link-R1.json: not counters of that version" in complaints
    assert (old.stats / "link-R1.json").read_text() == text


def test_migrated_run_has_a_record_even_if_it_was_ended_before_that(
    results: Path, old: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(checksums, "write", lambda _run: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(migration.migrate(results))
    assert list(migration.migrate(results)) == [old.root]
    assert old.checksums.exists()
    assert checksums.damaged(old, captures=True) == []
    assert list(migration.migrate(results)) == []

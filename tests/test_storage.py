"""What results take on disk, and that `status` says so."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.results.storage import KINDS, inventory, occupied, readable

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

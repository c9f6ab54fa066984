"""What the queue under test counts of itself, beside the captures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_builder import build_run

from tcpf_lab.metrics import queue_counters
from tcpf_lab.metrics.captured import with_captures
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles


def counted(root: Path, counters: dict[str, Any], **shown: Any) -> RunFiles:
    run = build_run(root / "run")
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"]["qdisc"]["counters"] = counters
    run.manifest.write_text(json.dumps(manifest))
    path = run.stats / "qdisc-R1.json"
    rows = json.loads(path.read_text())
    for row in rows:
        if row["kind"] == "red":
            row.update({"bytes": 3000, "packets": 4, "drops": 2, **shown})
    path.write_text(json.dumps(rows))
    return run


def test_a_queue_without_counters_has_no_section(tmp_path: Path) -> None:
    found = analyse(build_run(tmp_path / "run"))
    assert "queue" not in found
    assert "queue_marks" not in found["metrics"]


def test_counters_are_given_by_common_names_and_by_the_kernels(tmp_path: Path) -> None:
    tins = [{"ecn_mark": 1}, {"ecn_mark": 0}]
    run = counted(tmp_path, {"marks": ["marked", "tins.ecn_mark"]}, marked=1, tins=tins, early=2)
    found = analyse(run)
    section = found["queue"]
    assert (section["device"], section["kind"]) == ("R1-R2", "red")
    assert [section[name] for name in ("bytes", "packets", "drops", "marks")] == [3000, 4, 2, 2]
    assert {"marked": 1, "tins": tins, "early": 2}.items() <= section["kernel"].items()
    metrics = found["metrics"]
    assert (metrics["queue_drops"], metrics["queue_marks"]) == (2, 2)
    assert metrics["marked_percent"] == 50


@pytest.mark.parametrize(
    ("seen", "came", "shown", "ok"),
    [
        (3, 0, {"marked": 3}, True),
        (3, 1, {"marked": 3}, False),
        (3, 1, {"marked": 2}, True),
        (3, 0, {"marked": 4}, False),
        (3, 0, {"marked": 4, "pdrop": 1}, True),
        (3, 0, {"marked": 5, "pdrop": 1}, False),
        (3, 0, {"marked": 2, "pdrop": 9}, False),
        (3, 0, {"marked": 4, "twice": 1, "other": 0}, False),
        (3, 0, {"marked": 4, "twice": 1, "other": 2}, True),
        (0, 0, {"marked": 2, "pdrop": 9}, None),
        (1, 0, {"marked": 2, "pdrop": 2}, None),
        (2, 0, {"marked": 2, "pdrop": 2}, True),
    ],
)
def test_marks_in_the_captures_are_those_that_the_queue_counts(
    tmp_path: Path, seen: int, came: int, shown: dict[str, int], ok: bool | None
) -> None:
    counters = {"marks": ["marked"], "uncertain": [["pdrop"], ["twice", "other"]]}
    run = counted(tmp_path, counters, **shown)
    record = with_captures(run, read_record(run))
    record.captures["egress"].packets["tos"][:seen] |= 3
    left = np.flatnonzero(~record.transit.lost)
    record.transit.tos[left[:came]] |= 3
    (check,) = queue_counters.queue(run, record).checks
    assert (check.name, check.ok) == ("marks_match_qdisc", ok)


def test_a_missing_or_damaged_counter_is_a_check_that_fails(tmp_path: Path) -> None:
    run = counted(tmp_path, {"marks": ["marked"]})
    rows = json.loads((run.stats / "qdisc-R1.json").read_text())
    without_packets = [{k: v for k, v in row.items() if k != "packets"} for row in rows]
    for damaged in ([], without_packets):
        (run.stats / "qdisc-R1.json").write_text(json.dumps(damaged))
        record = read_record(run)
        for one in (record, with_captures(run, record)):
            extra = queue_counters.queue(run, one)
            assert extra.sections == {}
            assert [(one.name, one.ok) for one in extra.checks] == [("marks_match_qdisc", False)]


def test_without_captures_nothing_is_compared(tmp_path: Path) -> None:
    run = counted(tmp_path, {"marks": ["marked"]}, marked=3)
    extra = queue_counters.queue(run, read_record(run))
    assert extra.sections["queue"]["marks"] == 3
    assert [check.ok for check in extra.checks] == [None]

"""A whole calibration in virtual time: what it is to find is a setting that made the numbers."""

from __future__ import annotations

import csv
import json

import pytest
from run_maker import make_runs

from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import apply_overrides, load

pytestmark = [pytest.mark.uml, pytest.mark.full]

EXPERIMENT = """\
name: {name}
topology: {{chain: {{access: 100 Mbit, bottleneck: 5 Mbit, delay: 100 ms}}}}
tcp: {{profile: linux-2.2, sack: true, rto_min: {rto}}}
traffic: {{start_spread: 500 ms, warmup: 1 s, duration: 4 s}}
cases:
  NoMark+RED:
    queue: {{kind: red, limit: 500 kB, min: 5 kB, max: {max}, probability: 0.25, burst: 20}}
matrix: {{case: all, flows: 8, seed: [1, 2]}}
"""
CALIBRATION = """\
name: found
fit: here
test: there
published: numbers.csv
design: {points: 5}
search: {rounds: 1, batch: 2}
check: {seeds: 2, settings: 2}
tolerance: {timeouts: 25 %, loss_percent: 10 %}
unknowns:
  minimum RTO: {set: tcp.rto_min, from: 200 ms, to: 1 s, scale: log, round: 50 ms}
  packet size: {set: topology.chain.mtu, levels: [576 B, 1000 B]}
"""


@pytest.fixture
def measured(uml, tmp_path):
    """Publish what runs with other settings give, and write the calibration that is to see it."""
    rows = []
    for name, top in (("here", "100 kB"), ("there", "20 kB")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(EXPERIMENT.format(name=name, rto="600 ms", max=top))
        true = apply_overrides(load(path), ["topology.chain.mtu=576 B"])
        make_runs(tmp_path / "true", uml, true)
        runs = (tmp_path / "true" / name / "uml").glob("*/metrics.json")
        found = [read_json(run) for run in runs]
        assert len(found) == 2
        means = [sum(one["metrics"][m] for one in found) / 2 for m in ("timeouts", "loss_percent")]
        rows.append([name, "NoMark+RED", 8, *means])
        path.write_text(EXPERIMENT.format(name=name, rto="200 ms", max=top))
    with (tmp_path / "numbers.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("experiment", "case", "flows", "timeouts", "loss_percent"), *rows]
        )
    (tmp_path / "found.yaml").write_text(CALIBRATION)
    return tmp_path


def test_a_calibration_comes_closer_to_what_is_held_out(lab, measured):
    status, said, complaints = lab("calibrate", measured / "found.yaml", "--json")
    assert status == 0, complaints
    told = json.loads(said)
    assert told["best"]["values"]["packet size"] == "576 B"
    test = told["held_out"]["test"]["loss_percent"]
    assert test["calibrated"]["error"] < test["default"]["error"]
    path = measured / "results" / "found" / "calibration" / "calibration.json"
    wanted = path.read_bytes()
    assert lab("calibrate", measured / "found.yaml", "--only-report")[0] == 0
    assert path.read_bytes() == wanted
    assert "held out: there" in lab("calibrate", measured / "found.yaml")[1]

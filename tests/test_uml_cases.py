"""The cases of the papers on real guests: what is marked, what is dropped, what must not differ."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tcpf_lab import shipped
from tcpf_lab.results import ExperimentFiles, RunFiles, read_json
from tcpf_lab.runner import Task, carry_out
from tcpf_lab.spec.load import load
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.spec.sweep import expand

pytestmark = pytest.mark.uml

SHORT = ["traffic.duration=4 s", "matrix.flows=20", "matrix.seed=1"]
DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 2}}"


@pytest.fixture
def make(uml, tmp_path):
    def run_case(case, *settings, place="here") -> RunFiles:
        experiment = load(shipped.directory("experiments") / "configA.yaml")
        run = expand(apply_overrides(experiment, [*SHORT, *settings]), {"case": case})[0]
        files = ExperimentFiles(tmp_path / place, experiment.name, "uml")
        event = carry_out(Task(run, uml, files, keep_pcaps=True, commit="test"))
        assert (event.kind, event.detail) == ("finished", "")
        return files.run(run.id)

    return run_case


def checks(run: RunFiles) -> dict[str, bool | None]:
    return {check["name"]: check["ok"] for check in read_json(run.metrics)["validity"]["checks"]}


@pytest.mark.parametrize(
    "case",
    ["TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "TB+RIO", "NoMark+FRED"],
)
def test_every_case_of_the_papers_is_valid_and_marks_what_its_marker_says(make, case):
    run = make(case)
    metrics = read_json(run.metrics)
    assert metrics["validity"]["valid"] is True
    marked = not case.startswith("NoMark")
    assert checks(run)["marker_in_force"] is (True if marked else None)
    assert checks(run)["marks_match_marker"] is (True if marked else None)
    assert set(metrics["by_dscp"]) == ({"10", "12"} if marked else {"0"})
    if marked:
        inside, outside = (metrics["by_dscp"][dscp]["loss_percent"] for dscp in ("10", "12"))
        assert inside < outside


def test_no_more_is_marked_in_than_there_are_tokens(make):
    """The token bucket to the letter: 296 kB in each of the intervals that have begun."""
    run = make("TB+RIO")
    parts = read_json(run.stats / "action-R0.json")
    (action,) = next(part["actions"] for part in parts if "actions" in part)
    intervals = 1 + 20 // 0.4  # the traffic ends at 14 s, and nothing is sent long after
    assert 0 < action["xstats"]["in_bytes"] <= 296_000 * intervals


def test_several_senders_are_marked_where_they_have_joined(make):
    run = make("TCPF+RIO", DUMBBELL)
    assert checks(run)["marks_match_marker"] is True
    assert set(read_json(run.metrics)["by_dscp"]) == {"10", "12"}


def test_the_same_run_gives_the_same_bytes_with_every_module_loaded(make):
    for case in ("TCPF+FRIO", "TB+RIO"):
        digests = [
            [hashlib.sha256(path.read_bytes()).hexdigest() for path in data_of(make(case, place=p))]
            for p in ("one", "two")
        ]
        assert digests[0] == digests[1]


def data_of(run: RunFiles) -> list[Path]:
    return [*sorted(run.pcap.iterdir()), *sorted(run.stats.iterdir()), run.metrics]


def test_least_timeout_and_initial_window_asked_for_are_in_force(make):
    run = make("NoMark+RED", "tcp.rto_min=1 s", "tcp.initcwnd=4")
    assert checks(run)["routes_in_force"] is True
    samples = (run.stats / "senders-S.jsonl").read_text().splitlines()
    timers = [int(line.split('"rto_us":')[1].split(",")[0]) for line in samples if "rto_us" in line]
    assert min(timers) >= 1_000_000

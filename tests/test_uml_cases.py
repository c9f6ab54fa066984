"""The cases of the papers on real guests: what is marked, what is dropped, what must not differ."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from run_maker import make_run, make_runs

from tcpf_lab.base import shipped
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.counters import queue_window
from tcpf_lab.metrics.from_counters import from_counters
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import from_packets
from tcpf_lab.plan import collect
from tcpf_lab.plan.step import LoadModule, Phase
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.trace.follow import SYN_RTO

MODULES = ("csma", "sch_rio", "sch_frio", "sch_delivery", "act_tcpf", "act_token")
SHORT = ["traffic.duration=4 s", "matrix.flows=20", "matrix.seed=1"]
DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 2}}"


@pytest.fixture
def make(guest_run: Callable[..., RunFiles]) -> Callable[..., RunFiles]:
    experiment = load(shipped.directory("experiments") / "configA.yaml")
    return lambda case, *settings: guest_run(experiment, *SHORT, *settings, case=case)


def checks(run: RunFiles) -> dict[str, bool | None]:
    return {check["name"]: check["ok"] for check in read_json(run.metrics)["validity"]["checks"]}


@pytest.mark.uml
@pytest.mark.parametrize(
    "case",
    [
        *("TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "TB+RIO"),
        *("NoMark+FRED", "NoMark+TailDrop", "NoMark+RED"),
    ],
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


@pytest.mark.uml
def test_no_more_is_marked_in_than_there_are_tokens(make):
    """The token bucket to the letter: 296 kB in each of the intervals that have begun."""
    run = make("TB+RIO", "marker.tokens=296 kB", "traffic.warmup=10 s")
    parts = read_json(run.stats / "action-R0.json")
    (action,) = next(part["actions"] for part in parts if "actions" in part)
    # Shown in whole seconds, rounded down: the last packet came less than so long after the first
    # interval began, which was when the action was made. An interval is 400 ms, 5 of them are 2 s.
    seconds = action["installed"] + 1 - action["last_used"]
    assert 14 < seconds < 20
    begun = (5 * seconds + 1) // 2
    assert 0 < action["xstats"]["in_bytes"] <= 296_000 * begun


@pytest.mark.uml
@pytest.mark.full
def test_several_senders_are_marked_where_they_have_joined(make):
    run = make("TCPF+RIO", DUMBBELL)
    assert checks(run)["marks_match_marker"] is True
    assert set(read_json(run.metrics)["by_dscp"]) == {"10", "12"}


@pytest.mark.uml
@pytest.mark.full
def test_the_same_run_gives_the_same_bytes_with_every_module_loaded(uml, tmp_path, monkeypatch):
    def all_of_them(run: Run, graph: Graph) -> Phase:
        (node,) = graph.having("marker")
        return Phase("kernel modules", tuple(LoadModule(node.name, name) for name in MODULES))

    monkeypatch.setattr("tcpf_lab.plan.compose.modules", all_of_them)
    experiment = load(shipped.directory("experiments") / "configA.yaml")
    for case in ("TCPF+FRIO", "TB+RIO"):
        run = expand(apply_overrides(experiment, SHORT), {"case": case})[0]
        one, two = (make_run(tmp_path / place, uml, run) for place in ("one", "two"))
        assert set(MODULES) <= set(read_json(one.manifest)["facts"]["modules"])
        assert digests(one) == digests(two)


def digests(run: RunFiles) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in data_of(run)]


def data_of(run: RunFiles) -> list[Path]:
    return [*sorted(run.pcap.iterdir()), *sorted(run.stats.iterdir()), run.metrics]


@pytest.mark.uml
@pytest.mark.full
def test_least_timeout_and_initial_window_asked_for_are_in_force(make):
    run = make("NoMark+RED", "tcp.rto_min=1 s", "tcp.initcwnd=4")
    assert checks(run)["routes_in_force"] is True
    samples = (run.stats / "senders-S.jsonl").read_text().splitlines()
    timers = [int(line.split('"rto_us":')[1].split(",")[0]) for line in samples if "rto_us" in line]
    assert min(timers) >= 1_000_000


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("captures", ["true", "false"])
def test_a_queue_marks_if_the_ends_negotiate_ecn(make, captures):
    words = "red limit 500000 min 10000 max 90000 avpkt 1000 burst 55 probability 0.1 ecn"
    queue = f"cases.NoMark+RED.queue={{kind: tc, limit: 500 kB, words: {words}}}"
    run = make("NoMark+RED", queue, "tcp.ecn=classic", f"traffic.captures={captures}")
    assert checks(run)["ecn_in_use"] is True
    assert any(queue.get("marked", 0) > 0 for queue in read_json(run.stats / "qdisc-R1.json"))


# A whole calibration in virtual time: what it is to find is a setting that made the numbers.

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


@pytest.mark.uml
@pytest.mark.full
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


# Runs without captures in guests: the numbers are those that captures give of the same packets.

#: The reviewed plan of the chapter, for a shorter time.
CHAPTER = ("matrix.flows=100", "matrix.seed=1", "traffic.duration=20 s")


@pytest.fixture
def counted_anyway(
    uml: UmlTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunFiles]:
    """Return a function that makes a run whose queue is read at the window's ends in any case.

    Starting the programs that read draws random numbers, of which the queue then gets others.
    """
    monkeypatch.setattr(collect, "needed", lambda _run: True)

    def carried(place: str, *settings: str) -> RunFiles:
        experiment = load(shipped.directory("experiments") / "configA.yaml")
        experiment = apply_overrides(experiment, [*CHAPTER, *settings])
        run = expand(experiment, {"case": "NoMark+RED"})[0]
        return make_run(tmp_path / place, uml, run)

    return carried


@pytest.mark.uml
@pytest.mark.full
def test_captures_change_no_packet_and_counters_give_the_same_numbers(
    counted_anyway: Callable[..., RunFiles],
) -> None:
    with_captures, without = (
        counted_anyway("with"),
        counted_anyway("without", "traffic.captures=false"),
    )
    for name in ("senders-S.jsonl", "qdisc-window-start-R1.json", "qdisc-window-end-R1.json"):
        one, other = ((run.stats / name).read_bytes() for run in (with_captures, without))
        assert one == other
    assert not list(without.pcap.glob("*"))

    run = read_captured(with_captures)
    seen = from_packets(with_captures, run)
    told = from_counters(without, read_record(without))
    assert read_json(without.metrics)["validity"]["valid"] is True
    for name in ("goodput_bytes_per_s", "timeouts_whole_run", "syn_timeouts"):
        assert [row[name] for row in told.per_flow] == [row[name] for row in seen.per_flow]
    for name in ("goodput_bytes_per_s", "goodput_cov", "goodput_jain", "goodput_min_max"):
        assert told.metrics[name] == seen.metrics[name]

    # A timer that fires at the very instant of a reading comes before it or after it.
    packets, kind = run.captures["sender"].packets, run.recovery.kind
    again = (kind > 0) & (kind != SYN_RTO)
    at_the_ends = int(np.sum(again & np.isin(packets["time_ns"], run.window_ns)))
    assert told.metrics["timeouts"] > 100
    for name in ("timeouts", "retransmissions"):
        apart = [abs(a[name] - b[name]) for a, b in zip(told.per_flow, seen.per_flow, strict=True)]
        assert sum(apart) <= at_the_ends

    window = queue_window(without, "R1-R2")
    start, end = run.window_ns
    came, left = run.transit.arrival_ns, run.transit.departure_ns
    largest = int(run.transit.wire_length.max())
    within = (left >= start) & (left < end)
    assert abs(window.bytes - int(run.transit.wire_length[within].sum())) <= largest
    lost = int(np.sum(run.transit.lost & (came >= start) & (came < end)))
    assert abs(window.drops - lost) <= 1
    rate = 10e6 * (end - start) / 8e9
    assert told.metrics["utilisation"] == pytest.approx(
        seen.metrics["utilisation"], abs=1.01 * largest / rate
    )

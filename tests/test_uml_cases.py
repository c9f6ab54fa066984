"""The cases of the papers on real guests: what is marked, what is dropped, what must not differ."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from run_maker import make_run

from tcpf_lab.base import shipped
from tcpf_lab.plan.step import LoadModule, Phase
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand

pytestmark = pytest.mark.uml

MODULES = ("csma", "sch_rio", "sch_frio", "act_tcpf", "act_token")
SHORT = ["traffic.duration=4 s", "matrix.flows=20", "matrix.seed=1"]
DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 2}}"


@pytest.fixture
def make(guest_run: Callable[..., RunFiles]) -> Callable[..., RunFiles]:
    experiment = load(shipped.directory("experiments") / "configA.yaml")
    return lambda case, *settings: guest_run(experiment, *SHORT, *settings, case=case)


def checks(run: RunFiles) -> dict[str, bool | None]:
    return {check["name"]: check["ok"] for check in read_json(run.metrics)["validity"]["checks"]}


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


@pytest.mark.full
def test_several_senders_are_marked_where_they_have_joined(make):
    run = make("TCPF+RIO", DUMBBELL)
    assert checks(run)["marks_match_marker"] is True
    assert set(read_json(run.metrics)["by_dscp"]) == {"10", "12"}


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


@pytest.mark.full
def test_least_timeout_and_initial_window_asked_for_are_in_force(make):
    run = make("NoMark+RED", "tcp.rto_min=1 s", "tcp.initcwnd=4")
    assert checks(run)["routes_in_force"] is True
    samples = (run.stats / "senders-S.jsonl").read_text().splitlines()
    timers = [int(line.split('"rto_us":')[1].split(",")[0]) for line in samples if "rto_us" in line]
    assert min(timers) >= 1_000_000


@pytest.mark.full
@pytest.mark.parametrize("captures", ["true", "false"])
def test_a_queue_marks_if_the_ends_negotiate_ecn(make, captures):
    words = "red limit 500000 min 10000 max 90000 avpkt 1000 burst 55 probability 0.1 ecn"
    queue = f"cases.NoMark+RED.queue={{kind: tc, limit: 500 kB, words: {words}}}"
    run = make("NoMark+RED", queue, "tcp.ecn=classic", f"traffic.captures={captures}")
    assert checks(run)["ecn_in_use"] is True
    assert any(queue.get("marked", 0) > 0 for queue in read_json(run.stats / "qdisc-R1.json"))

"""Background in a plan: golden text, the way of its packets, and what is left as it was."""

from __future__ import annotations

import pytest

from tcpf_lab.base import shipped
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import AddNode, Command, Finish, Start
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand


def run_of(case: str, *settings: str) -> Run:
    path = shipped.directory("experiments") / "ef_count.yaml"
    experiment = apply_overrides(load(path), settings) if settings else load(path)
    return expand(experiment, {"case": case, "flows": "8"}, seeds=1)[0]


def started(plan: Plan, name: str) -> list[Start]:
    return [s for s in plan.steps if isinstance(s, Start) and s.name.startswith(name)]


def test_plan_of_a_run_with_background_is_the_reviewed_one(golden):
    run = run_of("TCP+UDP+EF", "topology.dumbbell.pairs=1", "topology.dumbbell.delay=8 ms")
    golden("background", str(compose(run)))


def test_packets_end_behind_the_bottleneck_without_a_word():
    routes = [
        (step.node, step.argv[3:])
        for step in compose(run_of("TCP+EF")).steps
        if isinstance(step, Command) and any("198.18" in word for word in step.argv)
    ]
    assert [node for node, _ in routes] == ["EF", "R1", "R2"]
    assert routes[-1][1] == ("blackhole", "198.18.0.0/15")


def test_each_packet_leaves_a_source_by_itself():
    shapers = [
        step.argv
        for step in compose(run_of("TCP+UDP+EF")).steps
        if isinstance(step, Command) and step.node in ("EF", "UDP") and step.argv[0] == "tc"
    ]
    bursts = {words[4]: words[words.index("burst") + 1] for words in shapers if "burst" in words}
    assert bursts == {"EF-R1": "1514", "UDP-R1": "514"}


def test_same_source_draws_the_same_whatever_else_is_there():
    alone, beside = (started(compose(run_of(c)), "source-EF")[0] for c in ("TCP+EF", "TCP+UDP+EF"))
    words = [list(step.argv) for step in (alone, beside)]
    for each in words:
        del each[each.index("--to") + 1]
    assert words[0] == words[1]


def test_all_programs_are_awaited_and_read_at_the_ends_of_the_window():
    plan = compose(run_of("TCP+EF"))
    awaited = {name for step in plan.steps if isinstance(step, Finish) for name in step.names}
    readings = started(plan, "dev-window")
    assert [(step.node, step.at) for step in readings] == [("R2", t) for t in plan.window]
    assert {step.name for step in (*readings, *started(plan, "source-"))} <= awaited
    assert plan.expect["window_counters"] == ["R1-R2"]


@pytest.mark.parametrize("captures", ["true", "false"])
def test_case_without_background_has_nothing_of_it(captures):
    plan = compose(run_of("TCP", f"traffic.captures={captures}"))
    assert not any("198.18" in str(step) for step in plan.steps)
    assert "background" not in plan.expect
    assert not started(plan, "dev-window")
    assert "EF" not in [step.node for step in plan.steps if isinstance(step, AddNode)]


def test_expectations_say_which_way_the_packets_take():
    expect = compose(run_of("TCP+UDP+EF")).expect
    assert expect["background"]["behind"] == "R2-R1"
    ef, udp = (expect["background"]["sources"][name] for name in ("ef", "udp"))
    assert (ef["device"], ef["into"], ef["frame"], ef["first"]) == ("EF-R1", "R1-EF", 1514, True)
    assert (udp["device"], udp["share"], udp["first"]) == ("UDP-R1", 0.05, False)
    assert {"EF-R1", "R1-EF", "UDP-R1"} <= {*expect["lossless_devices"]}
    assert expect["mss"] == 496

"""Background in a plan: golden text, the way of its packets, and what is left as it was."""

from __future__ import annotations

from typing import get_args

import pytest

from tcpf_lab.base import shipped
from tcpf_lab.plan import queues
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import AddNode, Command, Finish, Start
from tcpf_lab.plan.traffic import GENERATORS
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.spec.traffic import Generator


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


# The marker: one action that both directions of an interface pass.

DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 3}}"


def marked(case, *settings):
    experiment = load(shipped.directory("experiments") / "configA.yaml")
    return expand(apply_overrides(experiment, settings), {"case": case})[0]


def commands(run):
    return [" ".join(step.argv) for phase in queues.build_marker(run) for step in phase.steps]


def test_one_action_is_bound_to_both_directions_of_the_interface_towards_the_sender():
    words = (
        "tcpf interval 400000us tokens 296000 in 10 out 12 flows 65536 "
        "profile recommended retransmits protect forward ingress index 1"
    )
    settings = ("marker.tokens=296 kB", "marker.profile=recommended")
    assert commands(marked("TCPF+RIO", *settings)) == [
        "tc qdisc add dev R0-S clsact",
        f"tc actions add action {words}",
        "tc filter add dev R0-S ingress matchall action tcpf index 1",
        "tc filter add dev R0-S egress matchall action tcpf index 1",
    ]


def test_the_marker_is_installed_at_its_node_behind_the_queues_of_its_devices():
    plan = compose(marked("TB+RIO"))
    names = [phase.name for phase in plan.phases]
    assert names.index("marker") == names.index("rates, delays and queues") + 1
    (phase,) = queues.build_marker(marked("TB+RIO"))
    assert {step.node for step in phase.steps} == {"R0"}


def test_several_senders_are_marked_where_they_have_joined():
    here = commands(marked("TB+RIO", DUMBBELL))
    assert here[0] == "tc qdisc add dev R0-R1 clsact"
    assert "forward egress index 1" in here[1]


def test_where_nothing_is_marked_nothing_is_installed_or_read():
    run = marked("NoMark+FRED")
    assert (queues.build_marker(run), queues.counters(run), queues.expect(run)) == ((), (), ())
    assert compose(run).expect["marker"] is None


def test_what_the_marker_counted_is_read_at_the_end():
    plan = compose(marked("TCPF+FRIO"))
    last = plan.phases[-1].steps[-1]
    assert isinstance(last, Command)
    assert (last.node, last.output) == ("R0", "stats/action-R0.json")


def test_what_the_marker_must_show_is_what_it_was_told():
    (found,) = queues.expect(marked("TCPF(O)+RIO"))
    assert (found["node"], found["kind"], found["index"], found["bind"]) == ("R0", "tcpf", 1, 2)
    assert found["options"]["retransmits"] == "plain"
    assert found["options"]["forward"] == "ingress"


def test_every_generator_of_the_specification_can_be_planned():
    assert set(GENERATORS) == set(get_args(Generator))

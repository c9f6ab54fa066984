"""The marker: one action that both directions of an interface pass."""

from typing import get_args

from tcpf_lab.base import shipped
from tcpf_lab.plan import queues
from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import Command
from tcpf_lab.plan.traffic import GENERATORS
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.spec.traffic import Generator

DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 3}}"


def run_of(case, *settings):
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
    assert commands(run_of("TCPF+RIO", *settings)) == [
        "tc qdisc add dev R0-S clsact",
        f"tc actions add action {words}",
        "tc filter add dev R0-S ingress matchall action tcpf index 1",
        "tc filter add dev R0-S egress matchall action tcpf index 1",
    ]


def test_the_marker_is_installed_at_its_node_behind_the_queues_of_its_devices():
    plan = compose(run_of("TB+RIO"))
    names = [phase.name for phase in plan.phases]
    assert names.index("marker") == names.index("rates, delays and queues") + 1
    (phase,) = queues.build_marker(run_of("TB+RIO"))
    assert {step.node for step in phase.steps} == {"R0"}


def test_several_senders_are_marked_where_they_have_joined():
    here = commands(run_of("TB+RIO", DUMBBELL))
    assert here[0] == "tc qdisc add dev R0-R1 clsact"
    assert "forward egress index 1" in here[1]


def test_where_nothing_is_marked_nothing_is_installed_or_read():
    run = run_of("NoMark+FRED")
    assert (queues.build_marker(run), queues.counters(run), queues.expect(run)) == ((), (), ())
    assert compose(run).expect["marker"] is None


def test_what_the_marker_counted_is_read_at_the_end():
    plan = compose(run_of("TCPF+FRIO"))
    last = plan.phases[-1].steps[-1]
    assert isinstance(last, Command)
    assert (last.node, last.output) == ("R0", "stats/action-R0.json")


def test_what_the_marker_must_show_is_what_it_was_told():
    (found,) = queues.expect(run_of("TCPF(O)+RIO"))
    assert (found["node"], found["kind"], found["index"], found["bind"]) == ("R0", "tcpf", 1, 2)
    assert found["options"]["retransmits"] == "plain"
    assert found["options"]["forward"] == "ingress"


def test_every_generator_of_the_specification_can_be_planned():
    assert set(GENERATORS) == set(get_args(Generator))

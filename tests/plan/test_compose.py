"""The plan of a run: golden text for one, properties for all shipped experiments."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from shipped_experiments import SHIPPED, experiments_of

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.captured import max_delay_ns
from tcpf_lab.plan import collect, effect, queues
from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import (
    AgreeEpoch,
    Command,
    Drained,
    Finish,
    LoadModule,
    Offloads,
    ReadSysctls,
    Start,
    Stop,
)
from tcpf_lab.plan.topology import interfaces, paths, toward
from tcpf_lab.plan.traffic import pairs, start_times
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.spec.changing import Schedule
from tcpf_lab.spec.load import apply_overrides, dump, load
from tcpf_lab.spec.sweep import expand


def run_of(name, *settings, **only):
    experiment = apply_overrides(load(shipped.directory("experiments") / f"{name}.yaml"), settings)
    return expand(experiment, only)[0]


@pytest.mark.parametrize("case", ["TCPF+FRIO", "TB+RIO", "NoMark+RED", "NoMark+TailDrop"])
def test_plan_of_the_smoke_experiment_is_the_reviewed_one(case, golden):
    run = run_of("smoke", "matrix.flows=3", case=case)
    golden(run.id, str(compose(run)))


IMPAIRED = (
    "topology.chain.forward={loss: 0.01, loss_burst: 3, duplicate: 0.005, reorder: 0.02, "
    "delay: 5 ms, jitter: 1 ms}",
    "topology.chain.reverse={loss: 0.02}",
    "tcp.quickack=true",
    "tcp.timestamps=true",
    "tcp.window_scaling=false",
    "matrix.flows=3",
)


def test_plan_of_an_impaired_path_is_the_reviewed_one(golden):
    golden("impaired", str(compose(run_of("smoke", *IMPAIRED, case="NoMark+RED"))))


GROUPS = """
name: groups
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 40 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 2 s
  duration: 4 s
  start_spread: 500 ms
  groups:
    ecn: {flows: 2, congestion: cubic, ecn: classic}
    late: {congestion: bbr, start: 3 s, start_spread: 0 s, rtt: 10 ms}
    down: {flows: 2, direction: down, ip: 6}
  probes:
    ping: {kind: icmp, interval: 50 ms, ip: 6}
    call: {kind: udp, interval: 20 ms, direction: down, dscp: EF}
    page: {kind: request, response: 20 kB, think: 100 ms}
cases: {FQ-CoDel: {queue: {kind: fq_codel}}}
matrix: {seed: 1}
"""


def test_plan_of_groups_in_both_directions_is_the_reviewed_one(golden, tmp_path):
    path = tmp_path / "groups.yaml"
    path.write_text(GROUPS)
    (run,) = expand(load(path))
    golden("groups", str(compose(run)))


def test_request_probes_think_at_times_of_their_own_and_have_the_settings_of_tcp(tmp_path):
    path = tmp_path / "groups.yaml"
    more = "    twin: {kind: request, response: 20 kB, think: 100 ms, flows: 2}\ncases:"
    found = GROUPS.replace("cases:", more).replace("modern}", "modern, initcwnd: 4}")
    path.write_text(
        found.replace("    page:", "    first: {kind: request, response: 1 kB}\n    page:")
    )
    (run,) = expand(load(path))
    text = str(compose(run))
    loops = {step.name: step.argv for step in compose(run).steps if isinstance(step, Start)}
    numbers = {
        name: loops[f"probe-{name}-client"][loops[f"probe-{name}-client"].index("--first") + 1]
        for name in ("first", "page", "twin")
    }
    assert numbers == {"first": "0", "page": "1", "twin": "2"}
    for node in ("Spage", "Dpage"):
        assert re.search(rf"^{node} +sysctl -w net.ipv4.tcp_sack=1$", text, re.MULTILINE)
        assert re.search(rf"^{node} +ip route add .* initcwnd 4$", text, re.MULTILINE)


def groups_with(tmp_path, *settings):
    path = tmp_path / "groups.yaml"
    path.write_text(GROUPS)
    return apply_overrides(load(path), settings)


def test_groups_are_made_by_the_native_generator_on_every_testbed(tmp_path):
    assert groups_with(tmp_path).on("iperf3").traffic.generator == "native"


def test_both_queues_under_test_get_the_module_of_their_kind(tmp_path):
    queue = load(shipped.directory("experiments") / "smoke.yaml").cases["TB+RIO"].queue
    rio = f"cases.FQ-CoDel.queue={queue.model_dump_json(exclude_none=True, by_alias=True)}"
    quiet = ["traffic.groups.ecn.ecn=off"]
    (run,) = expand(groups_with(tmp_path, rio, *quiet))
    loads = [step for step in compose(run).steps if isinstance(step, LoadModule)]
    assert [step.node for step in loads if step.name == queue.modules[-1]] == ["R1", "R2"]


def test_flows_of_groups_are_an_axis(tmp_path):
    path = tmp_path / "groups.yaml"
    axis = "matrix: {seed: 1, traffic.groups.late.flows: [0, 3]}"
    path.write_text(GROUPS.replace("matrix: {seed: 1}", axis))
    runs = expand(load(path))
    assert [run.flows for run in runs] == [4, 7]
    alone, beside = (start_times(run) for run in runs)
    assert alone[:2] == beside[:2]
    assert beside[2:5] == (3.0, 3.0, 3.0)
    assert [len(pairs(run)) for run in runs] == [2, 3]
    assert expand(load_text(tmp_path, runs[1]))[0].flows == 7


def test_cells_without_any_flow_are_left_out(tmp_path):
    names = ("ecn", "late", "down")
    axes = [f"matrix.traffic.groups.{name}.flows=[0, 1]" for name in names]
    experiment = groups_with(tmp_path, *axes)
    assert [run.flows for run in expand(experiment)] == [1, 1, 2, 1, 2, 2, 3]
    effect.refuse_idle_axes([experiment], axes, tmp_path / "groups.yaml")
    nothing = {f"traffic.groups.{name}.flows": "0" for name in names}
    assert expand(experiment, nothing) == ()


def load_text(directory, run):
    path = directory / "run.yaml"
    path.write_text(dump(run.experiment))
    return load(path)


def test_plan_over_shared_wires_is_the_reviewed_one(golden):
    wires = ["duplex", "access_duplex"]
    halves = [f"topology.chain.{key}=half" for key in wires]
    run = run_of("smoke", *halves, "matrix.flows=3", case="NoMark+RED")
    golden("half-duplex", str(compose(run)))


def test_a_lone_sender_before_a_half_duplex_bottleneck_is_captured_before_its_queue():
    plan = str(compose(run_of("smoke", "topology.chain.duplex=half", case="NoMark+RED")))
    mirrored = plan.index("tc filter add dev S-R0 egress matchall action mirred egress mirror")
    assert mirrored < plan.index("tcpdump -n -i S-R0-seen -Q inout")


def test_plan_without_captures_is_the_reviewed_one(golden):
    run = run_of("smoke", "traffic.captures=false", "matrix.flows=3", case="TCPF+FRIO")
    golden("without-captures", str(compose(run)))


def test_without_captures_the_queue_is_read_when_the_generator_reads_tcp_info():
    run = run_of("smoke", "traffic.captures=false", case="NoMark+RED")
    plan = compose(run)
    assert not any("tcpdump" in str(step) for step in plan.steps)
    read = [s for s in plan.steps if isinstance(s, Start) and s.name.startswith("qdisc-window")]
    assert [(step.node, step.at, step.output) for step in read] == [
        ("R1", plan.window[0], "stats/qdisc-window-start-R1.json"),
        ("R1", plan.window[1], "stats/qdisc-window-end-R1.json"),
    ]
    awaited = {name for step in plan.steps if isinstance(step, Finish) for name in step.names}
    assert {step.name for step in read} <= awaited
    assert "captures" not in plan.expect
    assert plan.expect["window_counters"] == ["R1-R2"]


def test_saying_that_packets_are_captured_changes_nothing_but_the_spec():
    said, left_out = (
        compose(run_of("smoke", *word, case="NoMark+RED"))
        for word in (["traffic.captures=true"], [])
    )
    assert said == left_out
    assert "window_counters" not in said.expect


def test_what_is_impaired_is_not_expected_to_be_lossless():
    expect = compose(run_of("smoke", *IMPAIRED, case="NoMark+RED")).expect
    assert set(expect["impaired_devices"]) == {"R2-D", "R2-R1"}
    assert not {"R2-D", "R2-R1", "R1-R2"} & set(expect["lossless_devices"])
    assert len(expect["lossless_devices"]) == 5
    asked = expect["impaired_devices"]["R2-D"]
    assert (asked["loss"], asked["loss_burst"], asked["duplicate"]) == (0.01, 3, 0.005)
    assert asked["options"]["delay"] == {"delay": 0.005, "jitter": 0.001}
    assert expect["receiver_routes"] == {"D": {"initcwnd": 2, "quickack": 1}}


def test_the_segment_size_asked_for_is_announced_by_both_ends_where_a_packet_is_larger():
    plan = compose(run_of("smoke", "tcp.mss=496 B", case="NoMark+RED"))
    routes = [str(step) for step in plan.steps if "advmss 496" in str(step)]
    assert {line.split()[3] if "netns" in line else line.split(":")[0] for line in routes}
    assert plan.expect["mss"] == 496
    metrics = {"initcwnd": 2, "advmss": 496}
    assert (plan.expect["routes"], plan.expect["receiver_routes"]) == (
        {"S": metrics},
        {"D": metrics},
    )
    large = compose(run_of("smoke", "tcp.mss=8960 B", case="NoMark+RED")).expect
    assert large["mss"] == compose(run_of("smoke", case="NoMark+RED")).expect["mss"]


def test_the_recovery_of_1990_is_read_back_at_both_ends():
    settings = ("tcp.sack=false", "tcp.recovery=reno")
    expect = compose(run_of("smoke", *settings, case="NoMark+RED")).expect
    for end in ("S", "D"):
        assert expect["sysctl"][end]["net.ipv4.tcp_reno_recovery"] == "1"
        assert expect["sysctl"][end]["net.ipv4.tcp_max_reordering"] == "3"


def test_an_impaired_link_is_awaited_empty_and_never_loses_for_want_of_room():
    run = run_of("smoke", *IMPAIRED, case="NoMark+RED")
    graph = run.experiment.topology.graph()
    drained = [step.device for step in compose(run).steps if isinstance(step, Drained)]
    assert drained == ["R1-R2", "R2-D", "D-R2"]
    impaired = next(i for i in interfaces(graph) if i.device == "R2-D")
    # 6 ms at 100 Mbit/s and a full queue of a megabyte, in the shortest frames, all twice.
    assert queues.netem_limit(graph, impaired) == 2 * math.ceil((100e6 * 0.006 / 8 + 1e6) / 54)


def test_netem_holds_what_arrives_at_the_highest_rate_of_a_schedule():
    graph = run_of("smoke", *IMPAIRED, case="NoMark+RED").experiment.topology.graph()
    impaired = next(i for i in interfaces(graph) if i.device == "R2-D")
    links = list(graph.links)
    faster = Schedule(((0.0, 10**6), (1.0, 10**9)))
    links[impaired.subnet] = replace(links[impaired.subnet], changing=faster)
    graph = replace(graph, links=tuple(links))
    assert queues.netem_limit(graph, impaired) == 2 * math.ceil((1e9 * 0.006 / 8 + 1e6) / 54)


LOT = (
    "topology={parking_lot: {bottlenecks: 2, access: 100 Mbit, bottleneck: 4 Mbit, delay: 200 ms, "
    "cross_flows: 2, cross_delay: 100 ms}}"
)


def test_plan_of_a_parking_lot_is_the_reviewed_one(golden):
    run = run_of("smoke", LOT, "matrix.flows=3", case="TB+RIO")
    golden("parking-lot", str(compose(run)))


def test_cross_traffic_has_the_numbers_behind_and_a_marker_of_its_own():
    run = run_of("smoke", LOT, "matrix.flows=3", case="TB+RIO")
    shares = [(p.sender, p.receiver, p.first, p.flows) for p in pairs(run)]
    assert shares == [("S", "D", 0, 3), ("X1", "Y1", 3, 2), ("X2", "Y2", 5, 2)]
    alone = run_of("smoke", "matrix.flows=3", case="TB+RIO")
    assert start_times(run)[:3] == start_times(alone)
    expect = compose(run).expect
    assert expect["cross"] == [
        {"node": "R1", "sender": "X1", "marker": "M1", "first": 3, "flows": 2},
        {"node": "R2", "sender": "X2", "marker": "M2", "first": 5, "flows": 2},
    ]
    assert [m["node"] for m in expect["markers"]] == ["R0", "M1", "M2"]
    assert {m["options"]["forward"] for m in expect["markers"]} == {"ingress"}
    assert expect["marker"] == expect["markers"][0]


def test_every_bottleneck_has_the_queue_with_a_seed_of_its_own_and_may_drop():
    run = run_of("smoke", LOT, "matrix.flows=3", case="TB+RIO")
    expect = compose(run).expect
    first, second = expect["bottlenecks"]
    assert (first["device"], second["device"]) == ("R1-R2", "R2-R3")
    assert expect["qdisc"] == first["qdisc"]
    seeds = [one["qdisc"]["options"].pop("seed") for one in (first, second)]
    assert seeds[0] == run.seed != seeds[1]
    assert first["qdisc"]["options"] == second["qdisc"]["options"]
    assert not {"R1-R2", "R2-R3"} & set(expect["lossless_devices"])
    assert expect["window_counters"] == ["R1-R2", "R2-R3"]
    other = run_of("smoke", LOT, "matrix.flows=3", case="TB+RIO", seed="1")
    assert queues.seed_of(run.experiment.topology.graph(), "R2", other.seed) == seeds[1]
    drained = [step.device for step in compose(run).steps if isinstance(step, Drained)]
    assert drained[:2] == ["R1-R2", "R2-R3"]


def test_cross_traffic_is_captured_where_it_enters_the_first_bottleneck():
    points = collect.points(run_of("smoke", LOT).experiment.topology.graph())
    assert {role: (p.name, p.device, p.direction) for role, p in points.items()} == {
        "sender": ("S", "S-R0", "inout"),
        "ingress": ("R1-in", "R1-R0", "in"),
        "cross_ingress": ("R1-in-cross", "R1-M1", "in"),
        "egress": ("R1-out", "R1-R2", "out"),
    }


USERS = ("topology.dumbbell.pairs=2", "matrix.flows=5", "matrix.seed=1", "matrix.queue.limit=40 kB")


def test_plan_with_users_is_the_reviewed_one(golden):
    golden("users", str(compose(run_of("buffers_tenth", *USERS))))


def test_users_are_shared_out_and_have_numbers_of_their_own():
    plan = compose(run_of("buffers_tenth", *USERS))
    sent = [s.argv for s in plan.steps if isinstance(s, Start) and s.name.startswith("users-")]
    values = [dict(zip(argv[2::2], argv[3::2], strict=True)) for argv in sent]
    assert [(v["--first"], v["--users"], v["--seed"]) for v in values] == [
        ("0", "2", "1"),
        ("2", "3", "1"),
    ]
    assert plan.expect["users"]["senders"] == ["S0", "S1"]
    assert "source_port" not in plan.expect
    assert plan.memory_mb == 1  # 5 times 128 kB
    # What connections by the thousand need is read back as TCP's own settings are.
    assert plan.expect["sysctl"]["S1"]["net.ipv4.ip_local_port_range"] == "1024 65535"
    assert plan.expect["sysctl"]["D1"]["net.core.somaxconn"] == "8192"
    assert "net.core.somaxconn" not in plan.expect["sysctl"]["S1"]


def fewest(runs):
    """Take of each case and setting the run with the fewest flows."""
    return {(r.case_name, r.settings): r for r in sorted(runs, key=lambda r: -r.flows)}.values()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_run_of_a_shipped_experiment_can_be_planned(path):
    for run in (run for one in experiments_of(path) for run in fewest(expand(one, seeds=1))):
        plan = compose(run)
        assert plan.phases[-1].name == "counters"
        assert plan.expect["qdisc"]["kind"] == run.case.queue.qdisc
        loaded = [step.name for step in plan.steps if isinstance(step, LoadModule)]
        graph = run.experiment.topology.graph()
        wanted = [*run.case.marker.modules, *run.case.queue.modules]
        found = [name for name in loaded if name != "csma"]
        assert loaded.count("csma") == sum(link.ring > 0 for link in graph.links)
        assert set(found) == set(wanted) if graph.cross else found == wanted


def test_a_queue_that_is_configured_to_mark_is_expected_to():
    for words, marks in (("red limit 500000 min 5000 avpkt 1000 ecn", True), ("fq_codel", None)):
        queue = f"cases.NoMark+RED.queue={{kind: tc, words: {words}, limit: 500 kB}}"
        expect = compose(run_of("smoke", queue, case="NoMark+RED")).expect
        assert expect["qdisc"].get("marks") is marks


def test_a_queue_by_its_words_may_hold_a_packet_as_long_as_its_limit_says():
    queue = "cases.NoMark+RED.queue={{kind: {0}, limit: 2 MB}}"
    ours, theirs = (
        compose(run_of("smoke", queue.format(kind), case="NoMark+RED")).expect
        for kind in ("bfifo", "tc, words: bfifo limit 2000000")
    )
    assert max_delay_ns(ours) == max_delay_ns(theirs) > 1_600_000_000


def test_plan_depends_on_nothing_but_the_run():
    assert str(compose(run_of("configA"))) == str(compose(run_of("configA")))


TWO_SEEDS = "matrix.seed=1..2"


def test_two_seeds_differ_only_in_the_start_times():
    one, two = (compose(run_of("smoke", TWO_SEEDS, seed=s, case="NoMark+RED")) for s in ("1", "2"))
    different = [(a, b) for a, b in zip(one.steps, two.steps, strict=True) if a != b]
    assert [type(a) for a, _ in different] == [Start]
    assert different[0][0].name == "senders-S"


def test_a_queue_that_draws_random_numbers_gets_the_runs_seed() -> None:
    one, two = (compose(run_of("smoke", TWO_SEEDS, seed=s, case="TB+RIO")) for s in ("1", "2"))
    different = [(a, b) for a, b in zip(one.steps, two.steps, strict=True) if a != b]
    (queue, other), (start, _) = different
    assert (queue.argv[-2:], other.argv[-2:]) == (("seed", "1"), ("seed", "2"))
    assert start.name == "senders-S"
    assert one.expect["qdisc"]["options"]["seed"] == 1


def test_start_times_are_spread_and_come_from_the_seed():
    run = run_of("configA", flows="100")
    starts = start_times(run)
    assert starts == start_times(run)
    assert len(set(starts)) == 100
    assert 0 <= min(starts) < 1
    assert 9 < max(starts) <= 10


def test_every_netem_holds_all_packets_of_its_delay_and_never_has_the_default_limit():
    graph = run_of("configA").experiment.topology.graph()
    delayed = [i for i in interfaces(graph) if queues.delay(graph, i)]
    assert [i.device for i in delayed] == ["D-R2"]
    packets_under_way = 100e6 * 0.2 / 8 / 54
    assert queues.netem_limit(graph, delayed[0]) > packets_under_way
    netem = [s for s in compose(run_of("configA")).steps if "netem" in getattr(s, "argv", ())]
    assert len(netem) == 1
    assert "limit" in netem[0].argv


def test_queues_outside_the_bottleneck_hold_a_megabyte():
    plan = compose(run_of("smoke"))
    limits = [
        int(
            step.argv[step.argv.index("tbf") :][
                step.argv[step.argv.index("tbf") :].index("limit") + 1
            ]
        )
        for step in plan.steps
        if isinstance(step, Command) and "tbf" in step.argv
    ]
    assert len(limits) == 8
    assert min(limits) >= 1_000_000


def test_every_started_program_is_awaited_ready_finished_or_stopped():
    for generator in ("native", "iperf3"):
        plan = compose(run_of("smoke", f"traffic.generator={generator}"))
        started = {step.name for step in plan.steps if isinstance(step, Start)}
        ended = {
            name for step in plan.steps if isinstance(step, Finish | Stop) for name in step.names
        }
        assert started == ended


def test_plan_reads_back_what_it_sets():
    plan = compose(run_of("configB"))
    read = {key for step in plan.steps if isinstance(step, ReadSysctls) for key in step.keys}
    assert read == set(plan.expect["sysctl"]["S"])
    assert plan.expect["sysctl"]["S"]["net.ipv4.tcp_sack"] == "0"
    offloads = {step.output for step in plan.steps if isinstance(step, Offloads)}
    assert offloads == {f"stats/offload-{d}.txt" for d in plan.expect["offloads_off"]["devices"]}


def test_counters_are_read_after_the_queues_have_drained_and_the_captures_ended():
    steps = compose(run_of("smoke")).steps
    order = [type(step) for step in steps if isinstance(step, AgreeEpoch | Finish | Drained | Stop)]
    assert order == [AgreeEpoch, Finish, Drained, Drained, Stop]
    after = steps[next(i for i, step in enumerate(steps) if isinstance(step, Stop)) + 1 :]
    assert {step.output for step in after} >= {"stats/qdisc-R1.json", "stats/dev-R1.txt"}


def test_captures_stand_before_and_after_the_queue_and_at_the_sender():
    points = collect.points(run_of("smoke").experiment.topology.graph())
    assert {role: (p.name, p.device, p.direction) for role, p in points.items()} == {
        "sender": ("S", "S-R0", "inout"),
        "ingress": ("R1-in", "R1-R0", "in"),
        "egress": ("R1-out", "R1-R2", "out"),
    }


DUMBBELL = "topology={dumbbell: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms, pairs: 3}}"


def test_several_senders_share_the_flows_and_are_captured_where_they_join():
    run = run_of("smoke", DUMBBELL)
    shares = [(p.sender, p.receiver, p.first, p.flows) for p in pairs(run)]
    assert shares == [("S0", "D0", 0, 3), ("S1", "D1", 3, 3), ("S2", "D2", 6, 4)]
    graph = run.experiment.topology.graph()
    assert collect.points(graph)["sender"].device == "R0-R1"


def test_every_node_reaches_every_other():
    graph = run_of("smoke", DUMBBELL).experiment.topology.graph()
    for node in graph.nodes:
        assert set(paths(graph, node.name)) == {n.name for n in graph.nodes} - {node.name}
    assert toward(graph, "S0", "D2").device == "S0-R0"
    assert paths(graph, "S0")["D2"][0] == 4


MANY = (
    "topology={dumbbell: {access: 100 Mbit, bottleneck: 48 Mbit, delay: 100 ms..298 ms, "
    "edge: 1 Mbit, pairs: 100}}"
)


def test_a_hundred_pairs_have_names_addresses_and_routes_of_their_own():
    run = run_of("smoke", MANY, "matrix.flows=100", case="NoMark+RED")
    graph = run.experiment.topology.graph()
    ends = interfaces(graph)
    assert len(graph.nodes) == 203
    for kind in ("device", "address", "mac"):
        assert len({getattr(end, kind) for end in ends}) == 2 * 202
    assert max(len(end.device) for end in ends) < 16  # IFNAMSIZ, with its final null
    steps = compose(run).steps
    routes = [s for s in steps if isinstance(s, Command) and s.argv[:3] == ROUTE]
    hosts = [s for s in routes if s.argv[3] == "default"]
    assert {s.node for s in hosts} == {n.name for n in graph.nodes if n.name[0] in "SD"}
    assert {s.argv[-2:] for s in hosts} == {("initcwnd", "2")}
    assert len(routes) == 200 + 3 * 202 - 101 - 2 - 101  # what a router has itself needs no route
    delays = [s.argv[-1] for s in steps if isinstance(s, Command) and "netem" in s.argv]
    assert delays == [f"{100_000 + 2000 * k}us" for k in range(100)]


def test_slow_or_long_links_are_given_time_to_drain():
    slow = run_of("smoke", "topology.chain.bottleneck=20 kbit", case="NoMark+TailDrop")
    long = run_of("smoke", "topology.chain.delay=40 s", case="NoMark+TailDrop")
    waits = {
        (run is long, step.device): step.timeout
        for run in (slow, long)
        for step in compose(run).steps
        if isinstance(step, Drained)
    }
    assert waits[False, "R1-R2"] == 2 * 200_000 * 8 / 20_000
    assert waits[True, "D-R2"] == 2 * 40.0


def test_instants_reach_the_generator_without_an_exponent_and_unrounded():
    settings = ("traffic.start_spread=0 s", "traffic.warmup=10 us", "traffic.duration=999999 s")
    argv = [
        step.argv for step in compose(run_of("smoke", *settings)).steps if isinstance(step, Start)
    ]
    samples = {words[words.index("--sample") + 1] for words in argv if "--sample" in words}
    assert samples == {"start=0.00001,end=999999.00001"}


def test_ipv6_is_off_in_every_namespace_before_an_interface_comes_up() -> None:
    steps = compose(run_of("smoke", DUMBBELL)).steps
    off = [i for i, s in enumerate(steps) if getattr(s, "key", "").endswith("all.disable_ipv6")]
    up = [i for i, s in enumerate(steps) if isinstance(s, Command) and s.argv[-1] == "up"]
    nodes = {node.name for node in run_of("smoke", DUMBBELL).experiment.topology.graph().nodes}
    assert {steps[i].node for i in off} == nodes
    assert max(off) < min(up)


def test_routes_carry_the_least_timeout_and_are_read_back_at_the_senders() -> None:
    plan = compose(run_of("smoke", "tcp.rto_min=1 s", "tcp.initcwnd=4"))
    routes = [s.argv for s in plan.steps if isinstance(s, Command) and s.argv[:3] == ROUTE]
    far = [argv for argv in routes if "rto_min" in argv]
    assert len(far) == 6  # three networks beyond the next one at either end
    assert {argv[-4:] for argv in far} == {("initcwnd", "4", "rto_min", "1000ms")}
    assert plan.expect["routes"] == {"S": {"initcwnd": 4, "rto_min": 1000}}
    assert "stats/route-S.json" in {getattr(step, "output", None) for step in plan.steps}


ROUTE = ("ip", "route", "add")


# An axis or a setting that changes no plan is refused, and the key that acts is named.

TEXT = """
name: idle
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms}}
tcp: {profile: modern}
traffic: {start_spread: 1 s, warmup: 4 s, duration: 10 s}
cases:
  Mine: {queue: {kind: tc, words: fq_codel limit 500, limit: 500 kB}}
  Other: {queue: {kind: tc, words: codel limit 500, limit: 500 kB}}
"""
TAIL_DROP = "cases.Drop={queue: {kind: bfifo, limit: 125 kB}}"


def chosen(
    tmp_path: Path, *settings: str, matrix: str = "flows: 3, seed: 1", only: tuple[str, ...] = ()
) -> int:
    """Give how many runs a file makes."""
    path = tmp_path / "idle.yaml"
    path.write_text(f"{TEXT}matrix: {{{matrix}}}\n")
    asked = RunRequest(str(path), "uml", tmp_path, only, None, settings)
    return len(choose(asked).runs)


@pytest.mark.parametrize(
    ("matrix", "settings", "where"),
    [
        ("queue.limit: [100 kB, 1 MB]", (), "idle.yaml:9: queue.limit"),
        ("queue.limit: [100 MB, 1 GB]", (), "idle.yaml:9: queue.limit"),
        ("cases.Mine.queue.limit: [1 MB, 2 MB]", (), "idle.yaml:9: cases.Mine.queue.limit"),
        ("", ("queue.limit=[100 kB, 1 MB]",), "--set queue.limit=[100 kB, 1 MB]"),
        ("", ("queue.limit=1 MB..3 MB:1 MB",), "--set queue.limit=1 MB..3 MB:1 MB"),
        ("", ("matrix.queue.limit=[1 MB, 2 MB]",), "--set matrix.queue.limit=[1 MB, 2 MB]"),
        ("tcp.sack: [true, false]", ("queue.limit=1 MB",), "--set queue.limit=1 MB"),
        ("", ("name=x", "cases.Mine.queue.limit=1 MB"), "--set cases.Mine.queue.limit=1 MB"),
        ("", (TAIL_DROP, "cases.Mine.queue.limit=1 MB"), "--set cases.Mine.queue.limit=1 MB"),
    ],
)
def test_what_changes_no_plan_is_refused_with_the_key_that_acts(
    tmp_path: Path, matrix: str, settings: tuple[str, ...], where: str
) -> None:
    with pytest.raises(RequestError) as caught:
        chosen(tmp_path, *settings, matrix=f"flows: 3, seed: 1, {matrix}")
    assert caught.value.where.removeprefix(f"{tmp_path}/") == where
    assert "queue.words" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "only", "runs"),
    [
        (("queue.words=[pie limit 500, pie limit 900]",), (), 4),
        (("queue.limit=1 MB", "queue.words=codel limit 1000"), (), 2),  # one describes the other
        (("queue.limit=500 kB",), (), 2),  # as the file has it
        (("tcp.ecn=passive", "traffic.generator=native"), (), 2),  # says what is so anyway
        (("queue.limit=[1 MB, 2 MB]", TAIL_DROP), (), 6),  # acts in one case
        (("queue.limit=[1 MB, 2 MB]", TAIL_DROP), ("case=Mine",), 2),
        (("queue.limit=1 MB", TAIL_DROP), (), 3),
        (("matrix.queue.limit=1 MB",), (), 2),  # one value compares nothing
        (("matrix.seed=1..3", "tcp.sack=[true, false]"), (), 12),
    ],
)
def test_what_acts_somewhere_or_says_what_is_so_is_accepted(
    tmp_path: Path, settings: tuple[str, ...], only: tuple[str, ...], runs: int
) -> None:
    assert chosen(tmp_path, *settings, only=only) == runs


def test_few_plans_of_a_matrix_of_thousands_are_composed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    compose = effect.compose
    monkeypatch.setattr(effect, "compose", lambda run: made.append(run.id) or compose(run))
    axes = "traffic.duration: 1 s..30 s:1 s, tcp.initcwnd: 1..20, seed: 1..5, flows: [3, 4]"
    assert chosen(tmp_path, matrix=axes) == 2 * 30 * 20 * 5 * 2
    assert len(made) == 4

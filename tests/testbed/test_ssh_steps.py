"""A plan as requests: what goes to which host, in which order, together with what."""

from __future__ import annotations

import pytest

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import (
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    Drained,
    End,
    Finish,
    LetPass,
    LoadModule,
    Offloads,
    Phase,
    ReadFile,
    ReadSysctls,
    Ready,
    Start,
    Stop,
    Sysctl,
)
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.steps import Placement, Translator, groups, programs_of

NSEC = 10**9
TWO_HOSTS = Inventory.model_validate(
    {
        "name": "two",
        "hosts": {
            "ends": {
                "control": "eth0",
                "roles": ["S", "D"],
                "interfaces": {"S-R0": "eth1", "D-R2": "eth2"},
            },
            "routers": {
                "control": "eth0",
                "roles": ["R0", "R1", "R2"],
                "interfaces": {"R0-S": "eth1", "R2-D": "eth2"},
            },
        },
    }
)
APART = {"ends": "ends", "routers": "routers"}
ONE_KERNEL = {"ends": "ends", "routers": "ends"}


def plan(*steps):
    return Plan((Phase("a phase", steps),), {}, (0.0, 1.0), ())


def asked(a_plan, owner_of=APART, epochs=None, **placement):
    """Give, for each group, host -> [(action, arguments)]."""
    translator = Translator(a_plan, Placement(TWO_HOSTS, owner_of, **placement))
    return [
        {
            host: [(request.do, dict(request.arguments)) for request in requests]
            for host, requests in translator.requests(group, epochs or {}).items()
        }
        for group in groups(a_plan)
        if not isinstance(group.steps[0], AgreeEpoch)
    ]


def test_commands_of_one_node_that_follow_each_other_are_one_batch():
    found = asked(
        plan(
            Command("S", ("ip", "link", "set", "lo", "up")),
            Command("S", ("ip", "route", "add", "10.0.0.0/8")),
            Command("D", ("ip", "link", "set", "lo", "up")),
            Command("S", ("tc", "qdisc", "show")),
            Command("S", ("tc", "qdisc", "show"), "stats/q.json"),
        )
    )
    batch = {"node": "S", "program": "ip"}
    lines = [["link", "set", "lo", "up"], ["route", "add", "10.0.0.0/8"]]
    assert found == [
        {
            "ends": [
                ("batch", {**batch, "lines": lines}),
                ("batch", {"node": "D", "program": "ip", "lines": lines[:1]}),
                ("batch", {"node": "S", "program": "tc", "lines": [["qdisc", "show"]]}),
                (
                    "run",
                    {"node": "S", "argv": ["tc", "qdisc", "show"], "output": "stats/q.json"},
                ),
            ]
        }
    ]


def test_hosts_go_side_by_side_within_a_phase_and_not_beyond_it():
    one = Phase("one", (Sysctl("S", "a", "1"), Sysctl("R1", "b", "2"), Sysctl("D", "c", "3")))
    two = Phase("two", (Sysctl("R1", "d", "4"),))
    found = asked(Plan((one, two), {}, (0.0, 1.0), ()))
    assert [{host: len(requests) for host, requests in group.items()} for group in found] == [
        {"ends": 2, "routers": 1},
        {"routers": 1},
    ]


def test_link_between_hosts_takes_the_interfaces_of_the_inventory():
    ends = (End("S", "S-R0", "02::1"), End("R0", "R0-S", "02::2"))
    (found,) = asked(plan(AddLink(ends, 1500, 10**7)))
    assert found["ends"] == [
        (
            "nic",
            {"node": "S", "interface": "eth1", "device": "S-R0", "mac": "02::1", "mtu": 1500},
        )
    ]
    assert found["routers"][0][1]["interface"] == "eth1"
    assert found["routers"][0][1]["device"] == "R0-S"


def test_links_that_share_a_cable_are_vlans_of_its_interface():
    up = AddLink((End("Sup", "Sup-R0", "02:00::1"), End("R0", "R0-Sup", "02:00::2")), 1400, 10**7)
    down = AddLink(
        (End("R0", "R0-Ddown", "02:00::3"), End("Ddown", "Ddown-R0", "02:00::4")), 1500, 1
    )
    a_plan = plan(AddNode("R0"), AddNode("Sup"), AddNode("Ddown"), up, down)
    inventory = TWO_HOSTS.holding([("Sup", "R0"), ("R0", "Ddown")])
    (group,) = groups(a_plan)
    found = Translator(a_plan, Placement(inventory, APART)).requests(group, {})
    base = ["node", "sysctl", "nic", "offloads", "run"]
    assert [r.do for r in found["ends"]] == ["node", "node", *base, "vlan", "vlan"]
    assert [r.do for r in found["routers"]] == ["node", *base[1:], "vlan", "vlan"]
    (nic,) = [r.arguments for r in found["routers"] if r.do == "nic"]
    assert (nic["node"], nic["device"], nic["interface"], nic["mtu"]) == (
        "R0",
        "R0-S",
        "eth1",
        1500,
    )
    numbers = {
        host: [
            (r.arguments["device"], r.arguments["below"]["number"]) for r in own if r.do == "vlan"
        ]
        for host, own in found.items()
    }
    assert numbers == {
        "ends": [("Sup-R0", 2), ("Ddown-R0", 3)],
        "routers": [("R0-Sup", 2), ("R0-Ddown", 3)],
    }


def test_links_with_offloads_and_without_do_not_share_an_interface():
    up = AddLink((End("Sup", "Sup-R0", "02:00::1"), End("R0", "R0-Sup", "02:00::2")), 1400, 10**7)
    down = AddLink(
        (End("R0", "R0-Ddown", "02:00::3"), End("Ddown", "Ddown-R0", "02:00::4")), 1500, 1
    )
    switched = [
        Offloads(node, device, ("gso",), "out", device.endswith("up"))
        for node, device in (("R0", "R0-Sup"), ("R0", "R0-Ddown"))
    ]
    inventory = TWO_HOSTS.holding([("Sup", "R0"), ("R0", "Ddown")])
    with pytest.raises(TestbedError, match="share this interface") as error:
        Translator(plan(up, down, *switched), Placement(inventory, APART))
    assert error.value.where == "ends, eth1"


def test_shell_that_limits_ping_needs_ping():
    argv = ("sh", "-c", 'timeout "$@"', "ping", "20", "ping", "-n", "10.0.0.1")
    assert programs_of(Start("S", "probe", argv)) == {"ping"}


def test_half_duplex_link_within_a_host_is_a_wire():
    ends = (End("R0", "R0-R1", "02::1"), End("R1", "R1-R0", "02::2"))
    (found,) = asked(plan(AddLink(ends, 900, 10**7, ring=4, seed=7)))
    ((action, arguments),) = found["routers"]
    assert action == "veth"
    assert arguments["wire"] == {"rate": 10, "seed": 7, "ring": 4}


def wire_between_hosts(owner_of):
    """Ask for a wire between two hosts of one kernel, with a cable of their own."""
    ends = (End("R2", "R2-D", "02::1"), End("D", "D-R2", "02::2"))
    steps = (AddNode("R2"), AddNode("D"), AddLink(ends, 900, 10**7, ring=4, seed=7))
    return asked(plan(*steps), owner_of, agents={"ends": 17, "routers": 18})


def test_wire_between_hosts_of_one_kernel_is_made_by_one_agent_once_both_have_their_nodes():
    nodes, wire = wire_between_hosts(ONE_KERNEL)
    assert set(nodes) == {"ends", "routers"}
    (((action, arguments),),) = wire.values()
    assert (list(wire), action) == (["routers"], "veth")
    assert [end.get("agent") for end in arguments["ends"]] == [None, 17]


def test_wire_between_hosts_that_turn_out_to_have_two_kernels_is_refused():
    with pytest.raises(TestbedError, match="the same `kernel`, but they run two"):
        wire_between_hosts(APART)


def test_link_within_a_host_is_a_pair():
    ends = (End("R0", "R0-R1", "02::1"), End("R1", "R1-R0", "02::2"))
    (found,) = asked(plan(AddLink(ends, 900, 10**7)))
    assert list(found) == ["routers"]
    ((action, arguments),) = found["routers"]
    assert action == "veth"
    assert arguments["mtu"] == 900
    assert [end["device"] for end in arguments["ends"]] == ["R0-R1", "R1-R0"]


def test_what_belongs_to_a_kernel_goes_to_one_agent_of_each():
    steps = plan(Sysctl(None, "net.core.wmem_max", "1"))
    apart, together = asked(steps)[0], asked(steps, ONE_KERNEL)[0]
    assert set(apart) == {"ends", "routers"}
    assert set(together) == {"ends"}


def test_command_without_a_node_is_refused():
    with pytest.raises(TestbedError, match="a command on hosts needs a node") as caught:
        asked(plan(Command(None, ("tc", "qdisc", "show"), "log/x")))
    assert "tc qdisc show" in caught.value.where


def test_module_is_loaded_once_into_each_kernel_by_its_owner():
    steps = plan(LoadModule("R0", "act_tcpf"), LoadModule("S", "act_tcpf"))
    words = {"path": "/m/act_tcpf.ko", "name": "act_tcpf"}
    assert asked(steps, ONE_KERNEL, modules={"ends": "/m"}) == [{"ends": [("module", words)]}]
    apart = asked(steps, modules={"ends": "/m", "routers": None})[0]
    assert apart["routers"] == [("module", {"path": None, "name": "act_tcpf"})]


def test_programs_start_together_with_the_epoch_of_their_host():
    ready = Ready("log/server", "listening", 10.0)
    steps = plan(
        AgreeEpoch(2, "stats/epoch.json"),
        Start("D", "server", ("{programs}/x", "--epoch", "{epoch}"), "log/server", ready=ready),
        Start("S", "client", ("iperf3",), "o", "e", at=0.25),
        Start("R1", "watch", ("w", "{epoch}")),
    )
    epochs = {"ends": 1000 * NSEC + 5, "routers": 2000 * NSEC}
    (found,) = asked(steps, epochs=epochs, programs={"ends": "/p"})
    ((_, arguments),) = found["ends"]
    server, client = arguments["starts"]
    assert server["argv"] == ["/p/x", "--epoch", "1000.000000005"]
    assert server["ready"]["text"] == "listening"
    assert server["ready"]["timeout"] > 10.0
    assert client["at_ns"] == 1000 * NSEC + 5 + NSEC // 4
    assert found["routers"][0][1]["starts"][0]["argv"] == ["w", "2000.000000000"]


def test_finish_and_stop_ask_each_host_for_its_own_programs():
    steps = plan(
        *(Start(node, f"at-{node}", ("x",)) for node in ("S", "D", "R1")),
        Finish(("at-S", "at-R1", "at-D"), 7.5),
        Stop(("at-R1",)),
    )
    _, finish, stop = asked(steps, epochs={"ends": 10 * NSEC, "routers": 20 * NSEC})
    assert finish == {
        "ends": [("finish", {"names": ["at-S", "at-D"], "deadline_ns": 17_500_000_000})],
        "routers": [("finish", {"names": ["at-R1"], "deadline_ns": 27_500_000_000})],
    }
    assert stop == {"routers": [("stop", {"names": ["at-R1"]})]}


def test_queues_are_awaited_one_after_the_other():
    steps = plan(Drained("R1", "R1-R2", 30.0), Drained("S", "S-R0", 30.0), LetPass(1.5, "why"))
    assert [list(group) for group in asked(steps)] == [["routers"], ["ends"], ["ends"]]


def test_every_other_step_has_its_request():
    steps = plan(
        AddNode("S"),
        ReadSysctls("S", ("a", "b"), "stats/s"),
        ReadFile("S", "/proc/net/dev", "stats/d"),
        Offloads("S", "S-R0", ("gso",), "stats/o"),
    )
    assert asked(steps)[0]["ends"] == [
        ("node", {"node": "S"}),
        ("sysctls", {"node": "S", "keys": ["a", "b"], "output": "stats/s"}),
        ("read", {"node": "S", "path": "/proc/net/dev", "output": "stats/d", "optional": False}),
        (
            "offloads",
            {"node": "S", "device": "S-R0", "features": ["gso"], "output": "stats/o", "on": False},
        ),
    ]


@pytest.mark.parametrize("generator", ["native", "iperf3"])
def test_a_hundred_flows_are_one_request_for_each_end(generator, recorded):
    settings = [f"traffic.generator={generator}", "matrix.flows=[100]"]
    experiment = apply_overrides(load(recorded / "experiment.yaml"), settings)
    whole = compose(expand(experiment)[0])
    epochs = {"ends": NSEC, "routers": NSEC}
    translator = Translator(whole, Placement(TWO_HOSTS, APART, programs={"ends": "/p"}))
    found = {
        group.phase: translator.requests(group, epochs)
        for group in groups(whole)
        if group.phase in ("receivers", "senders")
    }
    count = 100 if generator == "iperf3" else 1
    for phase in ("receivers", "senders"):
        (request,) = found[phase]["ends"]
        assert len(request.arguments["starts"]) == count


def test_every_step_of_a_plan_is_asked_of_somebody(recorded_experiment):
    whole = compose(expand(recorded_experiment)[0])
    epochs = {"ends": NSEC, "routers": NSEC}
    found = asked(whole, epochs=epochs, programs={"ends": "/p", "routers": "/p"})
    assert all(group for group in found)
    words = str(found)
    assert "{epoch}" not in words
    assert "{programs}" not in words

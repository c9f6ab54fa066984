"""The doctor of hosts: every fault is planted into the facts of good hosts, and has its fix."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_facts import facts, link

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.spec.load import apply_overrides, find, load
from tcpf_lab.testbed.base import Check
from tcpf_lab.testbed.inventory import Inventory, load_inventory
from tcpf_lab.testbed.ssh.agent.facts import gather
from tcpf_lab.testbed.ssh.checks import Clock, Facts, Seen
from tcpf_lab.testbed.ssh.doctor import diagnose
from tcpf_lab.testbed.ssh.steps import Needs, needs
from tcpf_lab.testbed.ssh.survey import End, Fault, Survey, Tried

CHECKOUT = Path(__file__).resolve().parents[2]
NEEDS = needs(load(find("smoke")))
FIVE = load_inventory(CHECKOUT / "testbeds/five-machines.yaml")
GIGABIT = 10**9


def survey(inventory: Inventory = FIVE, asked: Needs = NEEDS) -> Survey:
    seen = {
        name: Seen(
            name,
            inventory,
            asked,
            Facts(facts(inventory, name)),
            Clock(37_000_000_000, 150_000, 40.0),
        )
        for name in inventory.hosts
    }
    return Survey(seen, tried=trials(inventory))


def trials(inventory: Inventory = FIVE) -> dict[End, Tried]:
    ends = [end for pair in inventory.links_of_roles() for end in (pair, pair[::-1])]
    return {
        (a, b): Tried(True, GIGABIT, reached={(b, a): 0.0002})
        for a, b in ends
        if inventory.interface(a, b)
    }


def faults(found: Survey, inventory: Inventory = FIVE, asked: Needs = NEEDS) -> list[Check]:
    return [check for check in diagnose(inventory, asked, found) if not check.ok]


def the_fault(found: Survey, inventory: Inventory = FIVE, asked: Needs = NEEDS) -> Check:
    (check,) = faults(found, inventory, asked)
    assert check.fix
    return check


def planted(host: str, **changes: Any) -> Survey:
    """Give a survey in which the facts of one host differ in some fields."""
    found = survey()
    raw = found.seen[host].facts.raw
    assert set(changes) <= set(raw)
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) else value  # type: ignore[index]
    return found


def test_hosts_without_fault_have_a_line_for_each_thing_looked_at():
    checks = diagnose(FIVE, NEEDS, survey())
    assert [check.name for check in checks if not check.ok] == []
    names = [check.name for check in checks]
    assert len(names) == len(set(names))
    assert {"login", "programs", "modules", "clock", "control", "link R1-R2"} <= set(names)
    (clock,) = [check for check in checks if check.name == "clock"]
    assert clock.detail == (
        "all 5 hosts: offset +37.000000 s, uncertainty 0.15 ms, drift +40.0 ppm"
    )


def test_everything_that_is_looked_at_is_described():
    text = (CHECKOUT / "docs/testbeds.md").read_text()
    error = TestbedError("no")
    found = replace(
        survey(),
        faults={"x": Fault("login", "no", ""), "y": Fault("agent", "no", "")},
        untried={"alpha": error},
        left=("something",),
    )
    checks = diagnose(FIVE, NEEDS, found)
    names = {check.name.partition(" ")[0] if "-" in check.name else check.name for check in checks}
    assert len(names) > 20
    assert [name for name in sorted(names) if f"| {name} |" not in text] == []


def test_interface_that_cannot_join_segments_is_a_fault_where_a_run_needs_it():
    raw = {"offloads": {NIC: {"tcp-segmentation-offload": {"on": False, "fixed": True}}}}
    settings = ["topology.chain.offloads=hosts"]
    joining = needs(apply_overrides(load(find("coexistence")), settings)).joining
    assert "R0-Sone" in joining
    assert "R1-R2" not in joining
    found = planted("bravo", **raw)
    assert not faults(found)
    bravo = replace(found.seen["bravo"], needs=replace(NEEDS, joining={"R0-S"}))
    found = replace(found, seen={**found.seen, "bravo": bravo})
    assert the_fault(found).name == "offloads"


HOST_FAULTS = [
    ("python", {"python": "3.8.10"}, "alpha: 3.8.10", "install Python 3.9 or newer: apt-get"),
    (
        "privileges",
        {"capabilities": "00000000a80435fb"},
        "alpha: root lacks CAP_SYS_MODULE, CAP_SYS_ADMIN",
        "--cap-add",
    ),
    (
        "programs",
        {"tools": {"tcpdump": None, "tc": None}},
        "alpha: missing: tc, tcpdump",
        "apt-get install iproute2 tcpdump",
    ),
    (
        "machine",
        {"uname": {"machine": "riscv64"}},
        f"alpha: riscv64, but `programs: push` sends programs for {platform.machine()}",
        "set `programs: build` in the inventory",
    ),
    ("kernel", {"uname": {"release": "5.10.0-33-amd64"}}, "5.10.0-33-amd64", "6.1 or newer"),
    (
        "kernel",
        {"modules_directory": False},
        "no modules of the running kernel",
        "systemctl reboot",
    ),
    (
        "queues",
        {"modules_here": {"sch_tbf": "missing"}},
        "alpha: the kernel lacks sch_tbf",
        "apt-get install linux-image-amd64",
    ),
    (
        "timers",
        {"clock": {"resolution_ns": 4_000_000}},
        "timer resolution 4 ms, 250 Hz",
        "highres=off",
    ),
    ("timers", {"clock": {"source": "jiffies"}}, "clock source jiffies", "clocksource=jiffies"),
    ("disk", {"disk": {"free": 10**8}}, "100 MB free in /var/lib, 200 MB", "state_directory"),
    (
        "leftovers",
        {"unfinished": [{"run": "configA-7", "alive": False}]},
        "alpha: not undone: configA-7",
        "tcpf-lab clean --testbed five-machines",
    ),
    (
        "leftovers",
        {"unfinished": [{"run": "configA-7", "pid": 4711, "alive": True}]},
        "run configA-7 is under way (process 4711)",
        "wait until it ends",
    ),
]


@pytest.mark.parametrize(("name", "changes", "detail", "fix"), HOST_FAULTS)
def test_a_fault_of_one_host_is_found_with_its_cure(name, changes, detail, fix):
    check = the_fault(planted("alpha", **changes))
    assert check.name == name
    assert detail in check.detail
    assert check.detail.startswith("alpha: ")
    assert fix in check.fix


@pytest.mark.parametrize(
    ("changes", "detail", "fix"),
    [
        ({"headers": None}, "no headers for 6.12.9-amd64", "linux-headers-6.12.9-amd64 make"),
        ({"tools": {"gcc": None}}, "cannot be built: no gcc", "apt-get install gcc libc6-dev"),
        ({"sig_enforce": True}, "signed modules only", "mokutil --import"),
        ({"lockdown": "integrity"}, "signed modules only", "Secure Boot"),
        (
            {
                "tools": {"make": None},
                "modules_here": {"act_tcpf": "available", "act_token": "loaded"},
            },
            "tc plugins for act_tcpf, act_token cannot be built: no make",
            "apt-get install make",
        ),
    ],
)
def test_modules_that_can_be_neither_found_nor_built_are_a_fault(changes, detail, fix):
    check = the_fault(planted("bravo", **changes))
    assert check.name == "modules"
    assert detail in check.detail
    assert fix in check.fix


def test_modules_built_before_need_no_compiler_and_no_headers():
    found = planted("bravo", headers=None, tools={"gcc": None, "make": None})
    seen = {**found.seen, "bravo": replace(found.seen["bravo"], built=True)}
    assert faults(replace(found, seen=seen)) == []


def test_modules_are_asked_of_the_hosts_that_need_them_only():
    assert faults(planted("alpha", headers=None, sig_enforce=True)) == []
    assert faults(planted("alpha", modules_here={"sch_red": "missing"})) == []


@pytest.mark.parametrize(
    ("system", "queue_cure", "tool_cure"),
    [
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, "linux-modules-extra-6.12.9", "apt-get install"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "kernel-modules-extra-", "dnf install"),
        ({"ID": "arch"}, "boot a kernel with CONFIG_NET_SCH_NETEM", "pacman -S iproute2"),
    ],
)
def test_cures_are_in_the_words_of_the_hosts_distribution(system, queue_cure, tool_cure):
    found = planted("echo", os=system, modules_here={"sch_netem": "missing"}, tools={"ip": None})
    fixes = {check.name: check.fix for check in faults(found)}
    assert queue_cure in fixes["queues"]
    assert tool_cure in fixes["programs"]


def test_netem_that_may_hold_more_than_memory_is_a_fault():
    check = the_fault(planted("echo", memory={"MemAvailable": 80_000_000}))
    assert (check.name, check.detail) == (
        "netem limit",
        "echo: 64815 packets, up to 49 MB of 80 MB free memory",
    )


@pytest.mark.parametrize(
    ("clock", "detail"),
    [
        (None, "not measured"),
        (Clock(0, 19_000_000), "uncertainty 19.00 ms"),
        (Clock(0, 1000, -900.0), "drift -900.0 ppm"),
    ],
)
def test_a_clock_that_cannot_be_compared_is_a_fault(clock, detail):
    found = survey()
    seen = {**found.seen, "delta": replace(found.seen["delta"], clock=clock)}
    check = the_fault(replace(found, seen=seen))
    assert check.name == "clock"
    assert detail in check.detail


def test_half_duplex_between_hosts_is_refused_for_the_experiment() -> None:
    shared = needs(apply_overrides(load(find("smoke")), ["topology.chain.duplex=half"]))
    bad = [check for check in diagnose(FIVE, shared, survey(FIVE, shared)) if not check.ok]
    assert [check.name for check in bad] == ["for smoke"]
    assert "between hosts (R1-R2)" in bad[0].detail


def test_hosts_run_the_versions_of_linux_that_runs_need() -> None:
    experiment = load(find("smoke"))
    for version, good in (("6.12", True), ("7.3", False), ("[6.12, 7.3]", False)):
        wanted = needs(apply_overrides(experiment, [f"kernel={version}"]))
        found = [check for check in diagnose(FIVE, wanted, survey(FIVE, wanted)) if not check.ok]
        assert {check.name for check in found} == (set() if good else {"kernel"})


def nic(name: str, **more: Any) -> dict[str, Any]:
    """Give the links of bravo with one of them changed."""
    links = facts(FIVE, "bravo")["links"]
    return {"links": [{**link, **(more if link["ifname"] == name else {})} for link in links]}


NIC = "enp1s0f0"
WITH_IPERF3 = needs(load(find("smoke")).on("iperf3"))


@pytest.mark.parametrize("programs", ["push", "build"])
def test_only_hosts_on_which_our_programs_run_are_asked_for_what_these_take(programs):
    inventory = FIVE.model_copy(update={"programs": programs})
    for host, asked, wrong in (
        ("alpha", NEEDS, True),
        ("bravo", NEEDS, False),
        ("alpha", WITH_IPERF3, False),
    ):
        found = survey(inventory, asked)
        raw = found.seen[host].facts.raw
        raw["uname"].update(machine="riscv64")
        raw["tools"].update(gcc=None)
        told = [check.name for check in faults(found, inventory, asked)]
        assert ("machine" in told) is wrong, (host, told)


def test_a_missing_queue_is_cured_by_the_kernel_of_the_hosts_own_architecture():
    found = planted("alpha", modules_here={"sch_tbf": "missing"}, uname={"machine": "aarch64"})
    (check,) = [check for check in faults(found, asked=WITH_IPERF3) if check.name == "queues"]
    assert "linux-image-arm64" in check.fix


NETWORK_FAULTS = [
    (
        "interfaces",
        {"links": [link("eno1"), link("enp1s0f1"), link("enp1s0f2")]},
        "no interface 'enp1s0f0' for R0-S; allowed: eno1, enp1s0f1",
        "ip -br link",
    ),
    ("control", {"links": [link(NIC), link("enp1s0f1"), link("eno2")]}, "Did you mean", "ip -br"),
    (
        "interfaces",
        nic(NIC, master="br0"),
        "enp1s0f0 is part of br0",
        "ip link set dev enp1s0f0 nomaster",
    ),
    (
        "interfaces",
        {"links": [*facts(FIVE, "bravo")["links"], link("vlan7", link=NIC)]},
        "enp1s0f0 carries vlan7",
        "ip link delete dev vlan7",
    ),
    (
        "interfaces",
        {
            "addresses": [
                *facts(FIVE, "bravo")["addresses"],
                {
                    "ifname": NIC,
                    "addr_info": [
                        {"local": "198.51.100.1", "prefixlen": 24, "scope": "global"},
                        {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
                    ],
                },
            ],
            "routes": [
                {"dst": "198.51.100.0/24", "dev": NIC, "protocol": "kernel"},
                {"dst": "default", "gateway": "198.51.100.254", "dev": NIC},
            ],
        },
        "enp1s0f0 has addresses: 198.51.100.1/24, has a route to default",
        "ip address flush dev enp1s0f0; ip route delete default dev enp1s0f0",
    ),
    ("interfaces", {"drivers": {NIC: {"wireless": True}}}, "is wireless", "wired"),
    (
        "interfaces",
        {"offloads": {NIC: {"netns-local": {"on": True, "fixed": True}}}},
        "cannot be moved into a namespace",
        "another interface",
    ),
    (
        "network services",
        {"drivers": {NIC: {"NetworkManager": "managed"}}},
        "NetworkManager manages enp1s0f0",
        "nmcli device set enp1s0f0 managed no",
    ),
    (
        "network services",
        {"drivers": {NIC: {"systemd-networkd": "managed"}}},
        "systemd-networkd manages enp1s0f0",
        "Unmanaged=yes",
    ),
    (
        "offloads",
        {"offloads": {NIC: {"generic-receive-offload": {"on": True, "fixed": True}}}},
        "enp1s0f0 cannot switch off generic-receive-offload",
        "another driver",
    ),
    ("MTU", nic(NIC, max_mtu=900), "supports 68 to 900 B, smoke needs 1000 B", "mtu"),
    (
        "control",
        {"addresses": [{"ifname": NIC, "addr_info": [{"local": "192.0.2.12"}]}]},
        "enp1s0f0 carries the control connection, and the data of R0-S",
        "another interface",
    ),
    (
        "control",
        {"addresses": [{"ifname": "eno2", "addr_info": [{"local": "192.0.2.12"}]}]},
        "the control connection uses eno2, not eno1",
        "`control: eno2` in the inventory",
    ),
    (
        "control",
        {"control": {"device": "enp1s0f1"}},
        "enp1s0f1 carries the control connection, and the data of R0-R1",
        "another interface",
    ),
]


@pytest.mark.parametrize(("name", "changes", "detail", "fix"), NETWORK_FAULTS)
def test_a_fault_of_an_interface_is_found_with_its_cure(name, changes, detail, fix):
    check = the_fault(planted("bravo", **changes))
    assert check.name == name
    assert detail in check.detail
    assert check.detail.startswith("bravo: ")
    assert fix in check.fix


def test_an_interface_that_an_earlier_run_has_comes_back_by_cleaning():
    links = [link("eno1"), link("enp1s0f1")]
    found = planted("bravo", links=links, unfinished=[{"run": "a-run", "alive": False}])
    checks = faults(found)
    assert [check.name for check in checks] == ["leftovers", "interfaces"]
    assert {check.fix for check in checks} == {"tcpf-lab clean --testbed five-machines"}


def test_a_kernel_with_everything_built_in_needs_no_directory_of_modules():
    assert faults(planted("alpha", modules=[], modules_directory=False)) == []


def test_the_facts_that_the_doctor_reads_are_those_that_an_agent_tells(tmp_path):
    real = gather(tmp_path)
    planted_ones = facts(FIVE, "bravo")
    for key, value in planted_ones.items():
        assert key in real, key
        if isinstance(value, dict) and key not in ("drivers", "offloads"):
            assert set(value) <= set(real[key]) | {"hz"}, key
    seen = Seen("bravo", FIVE, NEEDS, Facts(real))
    assert "interfaces" in {check.name for check in faults(Survey({"bravo": seen}))}
    assert "lo" in seen.facts.nics
    assert seen.facts.nics["lo"].features["tx-checksumming"].keys() == {"on", "fixed"}
    assert seen.facts.device_of("127.0.0.1") == "lo"


def test_way_that_is_not_known_is_no_fault():
    nothing = {"client": None, "server": None, "device": None}
    assert faults(planted("bravo", control=nothing)) == []


def tried(changes: dict[End, Tried]) -> Survey:
    return replace(survey(), tried={**trials(), **changes})


@pytest.mark.parametrize(
    ("changes", "detail", "fix"),
    [
        (
            {("R0", "R1"): Tried(False)},
            "no carrier at bravo enp1s0f1 (R0-R1)",
            "plug in the cable",
        ),
        (
            {("R0", "R1"): Tried(True, GIGABIT), ("R1", "R0"): Tried(True, GIGABIT)},
            "no packet from bravo enp1s0f1 (R0-R1) arrives at charlie enp1s0f0 (R1-R0)",
            "check the cable",
        ),
        (
            {("R0", "R1"): Tried(True, GIGABIT, reached={("R1", "R2"): 0.001})},
            "bravo enp1s0f1 (R0-R1) leads to charlie enp1s0f1 (R1-R2)",
            "swap the cables",
        ),
        (
            {("R0", "R1"): Tried(True, 10**7, reached={("R1", "R0"): 0.001})},
            "10 Mbit/s, not 1 Gbit/s",
            "on bravo: ethtool -s enp1s0f1 autoneg on",
        ),
        (
            {("R1", "R0"): Tried(True, GIGABIT, half_duplex=True, reached={("R0", "R1"): 0.001})},
            "charlie enp1s0f0 (R1-R0) is half duplex",
            "on charlie: ethtool -s enp1s0f0",
        ),
        (
            {("R1", "R0"): Tried(True, GIGABIT, reached={("R0", "R1"): 0.001}, full_size=False)},
            "packets of 1000 B do not pass",
            "raise the MTU",
        ),
    ],
)
def test_a_fault_of_a_cable_is_found_with_its_cure(changes, detail, fix):
    check = the_fault(tried(changes))
    assert check.name == "link R0-R1"
    assert detail in check.detail
    assert fix in check.fix


def test_a_rate_that_no_driver_knows_and_a_shared_network_are_no_faults():
    both = {("R0", "R1"): 0.001, ("R1", "R2"): 0.001, ("R1", "R0"): 0.0005}
    found = tried({("R0", "R1"): Tried(True, None, reached=both)})
    assert faults(found) == []
    (check,) = [c for c in diagnose(FIVE, NEEDS, found) if c.name == "link R0-R1"]
    assert check.detail == (
        "rate unknown, 0.50 ms, packets of 1000 B pass, network shared with other links"
    )


def test_a_host_that_cannot_be_reached_hides_no_fault_of_another():
    found = planted("alpha", python="3.7.3")
    fault = Fault("login", "accepts none of the keys", "ssh-add")
    seen = {name: each for name, each in found.seen.items() if name != "echo"}
    left = {end: each for end, each in found.tried.items() if end[0] != "D"}
    checks = faults(replace(found, seen=seen, faults={"echo": fault}, tried=left))
    assert [(check.name, check.detail) for check in checks] == [
        ("login", "echo: accepts none of the keys"),
        ("python", "alpha: 3.7.3"),
    ]
    assert checks[0].fix == "ssh-add"


def test_a_host_whose_cables_could_not_be_tried_says_why():
    error = TestbedError("`ip link` ended with status 2", hint="tcpf-lab clean --testbed x")
    check = the_fault(replace(survey(), tried={}, untried={"alpha": error}))
    assert (check.name, check.detail) == (
        "links",
        "alpha: not tested: `ip link` ended with status 2",
    )


def test_the_same_fault_of_several_hosts_is_told_once():
    found = planted("alpha", tools={"ethtool": None})
    for host in ("delta", "echo"):
        found.seen[host].facts.raw["tools"]["ethtool"] = None
    assert the_fault(found).detail == "alpha, delta, echo: missing: ethtool"


def test_an_experiment_that_asks_for_more_than_the_cables_carry_is_told():
    slow = FIVE.model_copy(update={"links": FIVE.links.model_copy(update={"rate": 10**7})})
    details = [check.detail for check in faults(survey(slow), slow)]
    assert "link S-R0 needs 100 Mbit/s, its cable carries 10 Mbit/s" in details


def test_roles_that_share_a_host_are_judged_together():
    two = load_inventory(CHECKOUT / "testbeds/two-hosts.yaml")
    found = survey(two)
    assert faults(found, two) == []
    names = [check.name for check in diagnose(two, NEEDS, found) if check.name.startswith("link ")]
    assert names == ["link S-R0", "link R2-D"]
    found.seen["routers"].facts.raw["modules_here"]["cls_matchall"] = "missing"
    assert the_fault(found, two).detail == "routers: the kernel lacks cls_matchall"

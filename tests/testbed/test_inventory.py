"""Inventories: what a file may say, and how every mistake in one is answered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.spec.load import each
from tcpf_lab.spec.reference_docs import schema_of
from tcpf_lab.spec.topology import Topology
from tcpf_lab.spec.words import keys
from tcpf_lab.testbed.inventory import (
    Host,
    Inventory,
    Links,
    Ssh,
    find_inventory,
    inventories,
    load_inventory,
)

CHECKOUT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((CHECKOUT / "testbeds").glob("*.yaml"))

GOOD = """\
name: lab
hosts:
  ends:
    control: eth0
    roles: [S, D]
    interfaces: {S-R0: eth1, D-R2: eth2}
  routers:
    address: 192.0.2.7
    control: eth0
    roles: [R0, R1, R2]
    interfaces: {R0-S: eth1, R2-D: eth2}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "lab.yaml"
    path.write_text(text)
    return path


def complaints(folder: Path, text: str) -> list[str]:
    """Give what is wrong with an inventory, without the directory in front."""
    with pytest.raises(SpecError) as raised:
        load_inventory(written(folder, text))
    return [str(problem).removeprefix(f"{folder}/") for problem in each(raised.value)]


def chain() -> Topology:
    numbers = {"access": "100 Mbit", "bottleneck": "10 Mbit", "delay": "200 ms"}
    return Topology.model_validate({"chain": numbers})


def test_an_inventory_answers_who_plays_what_and_by_which_interface(tmp_path):
    inventory = load_inventory(written(tmp_path, GOOD))
    assert inventory.roles == ("S", "R0", "R1", "R2", "D")
    assert inventory.host_of("R1") == "routers"
    assert [inventory.address(host) for host in inventory.hosts] == ["ends", "192.0.2.7"]
    assert inventory.interface("R2", "D") == "eth2"
    assert inventory.interface("R1", "R0") is None
    assert inventory.links_of_roles() == (("S", "R0"), ("R0", "R1"), ("R1", "R2"), ("R2", "D"))
    assert inventory.state_directory == "/var/lib/tcpf-lab"
    with pytest.raises(KeyError):
        inventory.host_of("R9")


def test_paths_of_ssh_start_at_the_inventory(tmp_path):
    text = GOOD + "ssh: {known_hosts: keys/known, identity: ~/.ssh/id_lab}\n"
    inventory = load_inventory(written(tmp_path, text))
    assert inventory.ssh.known_hosts == str(tmp_path / "keys/known")
    assert inventory.ssh.identity == str(Path.home() / ".ssh/id_lab")
    assert inventory.ssh.config is None


def test_rates_are_of_cables_either_way_round_and_of_no_virtual_pair(tmp_path):
    text = GOOD + "links: {rate: 1 Gbit, rates: {R2-D: 10 Mbit}}\n"
    inventory = load_inventory(written(tmp_path, text))
    assert inventory.rate("D", "R2") == inventory.rate("R2", "D") == 10_000_000
    assert inventory.cable_rate("S", "R0") == 10**9
    assert inventory.cable_rate("R0", "R1") is None


def test_an_inventory_says_what_an_experiment_asks_too_much_of_it(tmp_path):
    inventory = load_inventory(written(tmp_path, GOOD + "links: {rates: {R2-D: 10 Mbit}}\n"))
    assert misfits(inventory, chain()) == (
        "link R2-D needs 100 Mbit/s, its cable carries 10 Mbit/s",
    )
    numbers = {**chain().model_dump(mode="json")["chain"], "pairs": 1}
    dumbbell = Topology.model_validate({"dumbbell": numbers})
    assert misfits(inventory, dumbbell) == (
        "no host plays S0; the inventory lab has S, R0, R1, R2, D",
        "no host plays D0; the inventory lab has S, R0, R1, R2, D",
    )


def test_hosts_of_a_chain_are_no_parking_lot(tmp_path):
    numbers = {**chain().model_dump(mode="json", exclude_none=True)["chain"], "bottlenecks": 1}
    lot = Topology.model_validate(
        {"parking_lot": {**numbers, "cross_flows": 4, "cross_delay": "50 ms"}}
    )
    found = misfits(load_inventory(written(tmp_path, GOOD)), lot)
    assert found == tuple(
        f"no host plays {role}; the inventory lab has S, R0, R1, R2, D"
        for role in ("X1", "M1", "Y1")
    )


GROUPS = {("Sup", "R0"): 60, ("R2", "R3"): 100, ("R3", "Dup"): 60}
GROUPS |= {("Sdown", "R3"): 60, ("R0", "Ddown"): 60}


def test_groups_share_the_hosts_and_cables_of_the_ends(tmp_path):
    inventory = load_inventory(written(tmp_path, GOOD)).holding(GROUPS)
    ends, routers = inventory.hosts["ends"], inventory.hosts["routers"]
    assert set(ends.roles) == {"S", "D", "Sup", "Dup", "Sdown", "Ddown"}
    assert routers.roles[-1] == "R3"
    assert inventory.interface("Ddown", "R0") == inventory.interface("Sup", "R0") == "eth1"
    assert inventory.interface("R3", "Sdown") == inventory.interface("R2", "D") == "eth2"
    assert inventory.interface("R2", "R3") is None


def test_rates_of_links_on_one_cable_are_added(tmp_path):
    text = GOOD + "links: {rates: {S-R0: 100 bit, R2-D: 120 bit}}\n"
    inventory = load_inventory(written(tmp_path, text)).holding(GROUPS)
    (sentence,) = inventory.misfits(inventory.roles, GROUPS)
    assert sentence == "links Sup-R0, R0-Ddown need 120 bit/s, their cable carries 100 bit/s"


def test_groups_need_hosts_of_a_chain(tmp_path):
    text = "name: lab\nhosts: {one: {control: lo, roles: [R0, R1, R2, S0, D0]}}\n"
    inventory = load_inventory(written(tmp_path, text)).holding(GROUPS)
    (sentence,) = inventory.misfits(["Sup", *inventory.roles, "Dup"], {})
    assert sentence.startswith("groups and probes (Sup, Dup) need hosts that play S, R0, ")


def misfits(inventory, topology):
    graph = topology.graph()
    return inventory.misfits([node.name for node in graph.nodes], graph.rates)


def test_all_five_roles_fit_on_one_host_without_interfaces(tmp_path):
    text = "name: lab\nhosts: {localhost: {control: lo, roles: [S, R0, R1, R2, D]}}\n"
    assert misfits(load_inventory(written(tmp_path, text)), chain()) == ()


def test_a_dumbbell_has_numbered_ends(tmp_path):
    text = "name: lab\nhosts: {one: {control: lo, roles: [R0, R1, R2, S0, S1, D0, D1, S10]}}\n"
    assert complaints(tmp_path, text)[:2] == [
        "lab.yaml:2: hosts: no host plays S2",
        "lab.yaml:2: hosts: no host plays S3",
    ]
    inventory = load_inventory(written(tmp_path, text.replace(", S10", "")))
    assert inventory.roles == ("S0", "S1", "R0", "R1", "R2", "D0", "D1")
    assert ("R2", "D1") in inventory.links_of_roles()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("roles: [S, D]", "rolls: [S, D]", "unknown key; allowed: address, user, port, control"),
        ("roles: [S, D]", "roles: [S, D, R3]", "unknown role 'R3'; allowed: S, R0, R1, R2, D;"),
        ("roles: [S, D]", "roles: [S, d]", "Did you mean 'D'?"),
        ("roles: [S, D]", "roles: [S]", "lab.yaml:2: hosts: no host plays D"),
        ("roles: [S, D]", "roles: [S, D, R1]", "roles[1]: 'ends' already plays R1"),
        ("roles: [S, D]", "roles: [S, D, S]", "roles[2]: 'ends' already plays S"),
        ("roles: [S, D]", "roles: [S, D, S0]", "are roles of a chain"),
        ("roles: [S, D]", "roles: []", "hosts.ends.roles: must not be empty"),
        (
            ", D-R2: eth2",
            "",
            "lab.yaml:6: hosts.ends.interfaces: missing key 'D-R2': R2 is on another host",
        ),
        ("D-R2: eth2", "D-R2: eth1", "eth1 is used more than once: S-R0, D-R2"),
        ("S-R0: eth1", "S-R0: eth0", "eth0 is the control interface"),
        ("D-R2: eth2", "R2-D: eth2", "unknown link 'R2-D' for this host's roles; allowed: S-R0"),
        ("D-R2: eth2", "D-R2: a/b", "'a/b' is not an interface name; `ip -br link` on the host"),
        ("{R0-S: eth1,", "{R0-S: eth1, R1-R2: eth3,", "missing key 'R2-R1': the other end, R1-R2,"),
        ("    address: 192.0.2.7\n", "    address: ends\n", "is the same machine as 'ends'"),
        ("192.0.2.7", "root@192.0.2.7", "names a user; write it with the key 'user'"),
        ("192.0.2.7", "'192.0.2.7:22'", "names a port; write it with the key 'port'"),
        ("192.0.2.7", "-oProxyCommand=x", "is not a host name or address"),
        ("    address: 192.0.2.7\n", "    port: 0\n", "must be at least 1, not 0"),
        ("    address: 192.0.2.7\n", "    user: a b\n", "'a b' is not a user name"),
        ("    address: 192.0.2.7\n", "    password: x\n", "an inventory holds no credentials"),
        ("name: lab\n", "", "missing key 'name'; needed: name, hosts"),
        ("name: lab\n", "name: uml\n", "'uml' is a reserved testbed name"),
        (
            "name: lab\n",
            "name: lab\nprograms: pull\n",
            "unknown value 'pull'; allowed: build, push",
        ),
        ("name: lab\n", "name: lab\nstate_directory: /var\n", "not directly below /"),
        ("name: lab\n", "name: lab\nsilence: 3 s\n", "silence: must be from 10 s to 1 h"),
        ("name: lab\n", "name: lab\nstate_directory: /var/../etc/x\n", "absolute path"),
        ("name: lab\n", "name: lab\nlinks: {rates: {S-D: 1 Gbit}}\n", "unknown link 'S-D'"),
        ("name: lab\n", "name: lab\nlinks: {rate: 1000}\n", "1000 has no unit"),
        ("name: lab\n", "name: lab\nssh: {key: abc}\n", "load an SSH key into an agent"),
        ("name: lab\n", "name: lab\nname: lab\n", "duplicate key"),
        ("  ends:\n", "  'the ends':\n", "not a host's name; allowed: letters, digits"),
    ],
)
def test_a_mistake_is_answered_with_its_line_and_what_is_allowed(tmp_path, before, after, expected):
    assert before in GOOD
    found = "\n".join(complaints(tmp_path, GOOD.replace(before, after)))
    assert expected in found
    assert re.match(r"lab\.yaml:\d+: ", found)


def test_everything_wrong_is_said_at_once_in_the_order_of_the_file(tmp_path):
    text = GOOD.replace("eth2, ", "").replace("R2-D: eth2", "R2-D: eth0").replace("S-R0", "S-R1")
    lines = [int(line.split(":")[1]) for line in complaints(tmp_path, text)]
    assert len(lines) >= 3
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "lab.yaml:1: the file is empty; an inventory file"),
        ("- S\n", "lab.yaml:1: an inventory file"),
        ("name: [\n", "lab.yaml:2: not valid YAML: "),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text, expected):
    assert complaints(tmp_path, text)[0].startswith(expected)


def test_inventories_are_found_by_path_and_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_inventory("two-hosts") == shipped.directory("testbeds") / "two-hosts.yaml"
    own = tmp_path / "testbeds"
    own.mkdir()
    text = (CHECKOUT / "testbeds/two-hosts.yaml").read_text()
    (own / "mine.yaml").write_text(text.replace("name: two-hosts\n", "name: mine\n"))
    assert load_inventory("mine").name == load_inventory(own / "mine.yaml").name == "mine"
    assert inventories() == ["five-machines", "mine", "two-hosts"]
    with pytest.raises(RequestError, match=r"Did you mean 'two-hosts'\?"):
        find_inventory("two-host")
    with pytest.raises(RequestError, match=r"there/mine\.yaml: no such file"):
        find_inventory("there/mine.yaml")


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("hall.yaml", GOOD, "hall.yaml:1: name: 'lab' differs from the file name"),
        ("hall.yaml", GOOD, "write `name: hall`, or rename the file to lab.yaml"),
        ("hall.yaml", f"# mine\n{GOOD}", "hall.yaml:2: name: "),
        ("vm.yaml", GOOD.replace("lab", "vm"), "vm.yaml:1: name: 'vm' is a reserved"),
        ("lab.yaml", GOOD.replace("lab", "vm"), "lab.yaml:1: name: 'vm' is a reserved"),
        ("inventory.yaml", GOOD, "write `name: inventory`"),
    ],
)
def test_name_by_which_the_file_is_not_found_is_refused(tmp_path, file, text, told):
    (tmp_path / file).write_text(text)
    with pytest.raises(SpecError) as caught:
        load_inventory(tmp_path / file)
    assert told in str(caught.value)


def plain(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())


def test_the_schema_is_up_to_date() -> None:
    kept = json.loads((CHECKOUT / "testbeds/schema.json").read_text())
    again = "tcpf-lab schema --testbed > testbeds/schema.json"
    assert kept == schema_of(Inventory), f"run: {again}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_inventory_is_good_fits_the_schema_and_is_documented(path: Path) -> None:
    assert load_inventory(path).name == path.stem
    Draft202012Validator(schema_of(Inventory)).validate(plain(path))
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=schema.json"
    assert f"`testbeds/{path.name}`" in (CHECKOUT / "docs/testbeds.md").read_text()


@pytest.mark.parametrize("model", [Inventory, Host, Links, Ssh])
def test_every_key_is_documented(model: Any) -> None:
    text = (CHECKOUT / "docs/testbeds.md").read_text()
    assert [key for key in keys(model) if f"`{key}`" not in text] == []

"""Cleaning hosts: what is listed, what is undone, what is left alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeHost, FakeNetwork, LocalProcess

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.testbed.inventory import Inventory, load_inventory
from tcpf_lab.testbed.ssh import session
from tcpf_lab.testbed.ssh.run import SshTestbed
from tcpf_lab.testbed.ssh.session import Remainder, clean
from tcpf_lab.testbed.uml import guest

TEXT = """\
name: lab
hosts:
  left: {control: eth0, roles: [S, R0], interfaces: {R0-R1: eth1}}
  right: {control: eth0, roles: [R1, R2, D], interfaces: {R1-R0: eth1}}
state_directory: %s
"""


class LeftHost(FakeHost):
    """A host with journals; its agent's verbs answer from them."""

    def __init__(self, name: str, *runs: dict[str, Any]) -> None:
        super().__init__(name)
        self.runs = list(runs)
        self.undone: list[Sequence[str]] = []
        self.stuck = ""
        self.refused: dict[str, str] = {}

    def start(self, argv: Sequence[str], silence: float | None = None) -> Any:
        if "list" in argv:
            return LocalProcess(["printf", "%s", json.dumps(self.runs)])
        if "undo" in argv:
            self.undone.append(argv)
            left = [self.stuck] if self.stuck else []
            report = json.dumps([{"token": argv[-1], "undone": 12, "left": left, **self.refused}])
            return LocalProcess(["printf", "%s", report])
        return super().start(argv, silence)


def a_run(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "pid": 7, "alive": False, "entries": 12, **more}


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (tmp_path / "runs").mkdir()
    path = tmp_path / "lab.yaml"
    path.write_text(TEXT % tmp_path)
    return load_inventory(path)


def test_every_run_on_every_host_is_undone_and_told(inventory):
    network = FakeNetwork(LeftHost("left", a_run("one"), a_run("two")), LeftHost("right"))
    assert clean(inventory, connect=network) == (
        Remainder("left", "one", 12, "undone"),
        Remainder("left", "two", 12, "undone"),
    )
    words = [argv[-5:] for argv in network["left"].undone]
    state = inventory.state_directory
    assert [*words[1]] == ["undo", "--state", state, "--run", "two"]
    assert network["left"].closed
    assert network["right"].closed


def test_a_dry_run_lists_and_undoes_nothing(inventory):
    network = FakeNetwork(LeftHost("left", a_run("one")), LeftHost("right"))
    assert clean(inventory, dry_run=True, connect=network) == (
        Remainder("left", "one", 12, "to undo"),
    )
    assert network["left"].undone == []


def test_a_dry_run_lists_what_would_be_undone(inventory, lab_here, monkeypatch):
    records = [
        {"kind": "nic", "name": "eth1 (R0-R1 in R0)"},
        {"kind": "netns_directory", "name": "/run/netns"},
        {"kind": "run", "name": "/state/runs/one"},
    ]
    network = FakeNetwork(LeftHost("left", a_run("one", records=records)), LeftHost("right"))
    (found,) = clean(inventory, dry_run=True, connect=network)
    assert found.records == (
        "nic eth1 (R0-R1 in R0)",
        "netns_directory /run/netns",
        "files /state/runs/one",
    )
    monkeypatch.setattr(session, "clean", lambda *_, **__: (found,))
    status, said, _ = lab_here("clean", "--testbed", "lab", "--dry-run")
    assert status == 0
    lines = [line.split() for line in said.splitlines()]
    assert lines[1] == ["left", "one", "12", "to", "undo", "nic", "eth1", "(R0-R1", "in", "R0)"]
    assert lines[3] == ["files", "/state/runs/one"]


def test_what_no_later_attempt_can_undo_is_to_be_mended_by_hand(inventory):
    network = FakeNetwork(LeftHost("left", a_run("one")), LeftHost("right"))
    network["left"].stuck = "eth1: it is gone"
    network["left"].refused = {"lost": ["eth1: it is gone"]}
    (found,) = clean(inventory, connect=network)
    assert (found.state, found.detail) == ("left", "undo by hand: eth1: it is gone")


def test_an_interrupt_waits_for_no_host(inventory, monkeypatch):
    network = FakeNetwork(LeftHost("left"), LeftHost("right"))
    release = threading.Event()

    def connect(*words: Any) -> FakeHost:
        release.wait(60)
        return network(*words)

    begun = time.monotonic()
    monkeypatch.setattr(guest, "_should_stop", lambda: time.monotonic() - begun > 0.5)
    with pytest.raises(KeyboardInterrupt):
        clean(inventory, connect=connect)
    assert time.monotonic() - begun < 10
    with pytest.raises(KeyboardInterrupt):
        SshTestbed(inventory, connect=connect).check(Plan((), {}, (0.0, 1.0), ()))
    release.set()


def test_a_run_under_way_is_left_alone_unless_forced(inventory):
    network = FakeNetwork(LeftHost("left", a_run("one", alive=True)), LeftHost("right"))
    (found,) = clean(inventory, connect=network)
    assert (found.state, found.ok) == ("under way", False)
    assert network["left"].undone == []
    (found,) = clean(inventory, force=True, connect=network)
    assert found.state == "undone"
    assert network["left"].undone[0][-1] == "--force"


def test_what_cannot_be_undone_and_who_cannot_be_reached_are_told(inventory):
    network = FakeNetwork(LeftHost("left", a_run("one")), LeftHost("right"))
    network["left"].stuck = "eth1: Device or resource busy"
    network["left"].refused = {"refused": "the run's agent still runs"}
    network["right"].unreachable = TestbedError("no connection", hint="is it up?")
    found = clean(inventory, connect=network)
    assert [(each.host, each.state, each.detail, each.ok) for each in found] == [
        ("left", "left", "eth1: Device or resource busy; the run's agent still runs", False),
        ("right", "not reached", "no connection (is it up?)", False),
    ]


def test_a_host_that_no_run_was_ever_on_is_not_written_to(inventory, tmp_path):
    (tmp_path / "runs").rmdir()
    network = FakeNetwork(LeftHost("left", a_run("one")), LeftHost("right"))
    assert clean(inventory, connect=network) == ()
    assert not (tmp_path / "agent").exists()


@pytest.fixture
def lab_here(
    lab: Callable[..., tuple[int, str, str]], tmp_path: Path, inventory: Inventory
) -> Callable[..., tuple[int, str, str]]:
    (tmp_path / "testbeds").mkdir()
    (tmp_path / "lab.yaml").rename(tmp_path / "testbeds/lab.yaml")
    return lab


def test_the_verb_cleans_the_hosts_of_a_testbed(lab_here, monkeypatch):
    asked = []

    def cleaned(inventory: Inventory, *, dry_run: bool, force: bool) -> tuple[Remainder, ...]:
        asked.append((inventory.name, dry_run, force))
        return (Remainder("left", "one", 12, "undone"),)

    monkeypatch.setattr(session, "clean", cleaned)
    status, said, _ = lab_here("clean", "--testbed", "lab")
    assert status == 0
    assert said.split() == ["host", "run", "changes", "left", "one", "12", "undone"]
    status, said, _ = lab_here("clean", "--testbed", "lab", "--dry-run", "--force", "--json")
    assert json.loads(said)[0]["run"] == "one"
    assert asked == [("lab", False, False), ("lab", True, True)]
    monkeypatch.setattr(session, "clean", lambda *_, **__: ())
    assert lab_here("clean", "--testbed", "lab")[1] == "nothing to undo on 2 hosts\n"


def test_hosts_that_are_not_clean_end_in_a_status(lab_here, monkeypatch):
    left = Remainder("left", "one", 12, "left", "eth1: busy")
    monkeypatch.setattr(session, "clean", lambda *_, **__: (left,))
    status, said, _ = lab_here("clean", "--testbed", "lab")
    assert status == 1
    assert "eth1: busy" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["clean", "--testbed", "uml"], "testbed uml has no hosts"),
        (["clean", "--testbed", "lab", "--results", "x"], "either --results or --testbed"),
        (["clean", "--testbed", "labb"], "unknown testbed 'labb'"),
        (["doctor", "smoke", "--testbed", "uml"], "leave SPEC out"),
        (["doctor", "chapter4", "--testbed", "lab"], "name one of its experiments"),
        (["doctor", "--testbed", "labb"], "Did you mean 'lab'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_answered_with_what_to_do(lab_here, words, expected):
    status, _, complaints = lab_here(*words)
    assert status == 2
    assert expected in complaints

"""``tcpf-lab vm`` without guests: what is said and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.cli.main import app
from tcpf_lab.testbed.vm import guests
from tcpf_lab.testbed.vm.keeper import ENDED
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guests.State:
    """Return the state in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return guests.here()


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, ["vm", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout.strip()


def test_without_guests_nothing_is_up_and_nothing_ends(state: guests.State) -> None:
    assert invoke("status") == "no guests are up"
    assert json.loads(invoke("status", "--json")) == {"up": False, "crashed": False, "files": None}
    assert invoke("down") == "no guests were up"
    assert json.loads(invoke("down", "--json")) == {"ended": False}
    assert not state.cache.exists()


def test_what_a_crash_has_left_is_named_and_removed(state: guests.State) -> None:
    state.create()
    assert invoke("status").endswith(f"their consoles are in {state.directory}")
    assert invoke("down") == "the guests are down"
    assert not state.directory.exists()


def test_consoles_of_guests_that_have_ended_by_themselves_are_kept(state: guests.State) -> None:
    state.create()
    state.inventory.write_text("")  # they were up
    for guest in GUESTS:
        state.console(guest.name).write_text(f"{guest.name} panics")
    (state.directory / ENDED).write_text("the emulator of 'ends' with status 1")
    assert invoke("down")
    assert not state.directory.exists()
    kept = {path.name: path.read_text() for path in state.failed.iterdir()}
    assert kept == {
        "ends.console": "ends panics",
        "routers.console": "routers panics",
        ENDED: "the emulator of 'ends' with status 1",
    }


def test_hosts_are_listed(state: guests.State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests.State, "keeper", lambda _state: 1)
    state.create()
    state.inventory.touch()
    ports = {role: 40000 + number for number, role in enumerate(ROLES)}
    facts = {"release": "6.12.9", "accelerator": "tcg", "since": 0.0, "ports": ports}
    state.write_facts({**facts, "inventory": str(state.inventory)})
    text = invoke("status")
    assert "R1" in text
    assert "40002" in text
    found = json.loads(invoke("status", "--json"))
    assert found["up"]
    assert found["guests"].keys() == {guest.name for guest in GUESTS}


def test_hosts_of_guests_that_are_not_up_cannot_be_reached(state: guests.State) -> None:
    with pytest.raises(TestbedError, match="not up") as caught:
        invoke("ssh", "S")
    assert "tcpf-lab vm up" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("ssh", "R7"), "S, R0, R1, R2, D"),
        (("up", "--kernel", "5.10"), "6.12, 6.1"),
        (("up", "--accelerator", "xen"), "auto, kvm, tcg"),
    ],
)
def test_wrong_words_are_refused_with_the_right_ones(
    state: guests.State, words: tuple[str, ...], allowed: str
) -> None:
    with pytest.raises(RequestError, match=f"allowed: {allowed}"):
        invoke(*words)


def test_command_goes_to_ssh_unchanged(
    state: guests.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests.State, "keeper", lambda _state: 1)
    state.create()
    state.inventory.touch()
    started: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _program, words: started.append(words))
    invoke("ssh", "R1", "ip", "-br", "link", "--help")
    config = str(state.ssh_config)
    assert started == [["ssh", "-F", config, "vm-R1", "ip", "-br", "link", "--help"]]

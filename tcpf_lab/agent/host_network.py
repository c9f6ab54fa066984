"""What ``ip`` and ``ethtool`` say of this host's network, as they say it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tcpf_lab.agent import commands
from tcpf_lab.agent.errors import AgentError

_CLASS = Path("/sys/class/net")
_FEATURE = re.compile(r"^\t?([\w-]+): (on|off)(.*)$", re.M)


def gather() -> dict[str, Any]:
    """Gather interfaces, addresses, routes and rules, and who takes care of them."""
    links = _ip("-d", "link", "show")
    names = [link["ifname"] for link in links if "ifname" in link]
    managers = {"NetworkManager": _network_manager(), "systemd-networkd": _networkd()}
    return {
        "links": links,
        "addresses": _ip("address", "show"),
        "routes": [*_ip("route", "show", "table", "all"), *_ip("-6", "route", "show")],
        "rules": [*_ip("rule", "show"), *_ip("-6", "rule", "show")],
        "drivers": {name: {**_device(name), **_managed(name, managers)} for name in names},
        "offloads": {name: _offloads(name) for name in names},
        "networkmanager": managers["NetworkManager"],
        "networkd": managers["systemd-networkd"],
    }


def _ip(*words: str) -> list[dict[str, Any]]:
    said = _said(["ip", "-j", *words])
    try:
        return [entry for entry in json.loads(said or "[]") if entry]
    except ValueError:
        return []


def _device(name: str) -> dict[str, Any]:
    root = _CLASS / name
    speed, carrier = _text(root / "speed"), _text(root / "carrier")
    return {
        "driver": _target(root / "device" / "driver"),
        "bus": _target(root / "device" / "subsystem"),
        "speed": int(speed) if speed and speed.lstrip("-").isdigit() else None,
        "duplex": _text(root / "duplex"),
        "carrier": int(carrier) if carrier else None,
        "physical": (root / "device").exists(),
        "wireless": (root / "wireless").exists() or (root / "phy80211").exists(),
    }


def _offloads(name: str) -> dict[str, dict[str, bool]]:
    said = _said(["ethtool", "-k", name]) or ""
    return {
        match[1]: {"on": match[2] == "on", "fixed": "[fixed]" in match[3]}
        for match in _FEATURE.finditer(said)
    }


def _network_manager() -> dict[str, str] | None:
    said = _said(["nmcli", "-t", "-f", "DEVICE,STATE", "device"])
    if said is None:
        return None
    pairs = (line.rpartition(":") for line in said.splitlines())
    return {name: _word(state) for name, _, state in pairs if name}


def _networkd() -> dict[str, str] | None:
    said = _said(["networkctl", "list", "--no-legend", "--no-pager"])
    if said is None:
        return None
    rows = (line.split() for line in said.splitlines())
    return {row[1]: _word(row[4]) for row in rows if len(row) >= 5}


def _word(state: str) -> str:
    """Read a state; a service that does not run says ``n/a`` of everything."""
    return "unmanaged" if state.startswith(("unmanaged", "n/a")) else "managed"


def _managed(name: str, managers: dict[str, dict[str, str] | None]) -> dict[str, str]:
    return {
        service: states[name]
        for service, states in managers.items()
        if states is not None and name in states
    }


def _said(argv: list[str]) -> str | None:
    """Give what a program says, None if it is missing or fails."""
    try:
        said = commands.run(argv)
    except AgentError:
        return None
    return said.output if said.status == 0 else None


def _target(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:  # a device without link tells no speed
        return None

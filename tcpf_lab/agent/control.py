"""The connection that the agent is controlled by, which must never be cut."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tcpf_lab.agent import commands
from tcpf_lab.agent.errors import AgentError

_VARIABLE = b"SSH_CONNECTION="


def refuse(interface: str) -> None:
    """Refuse an interface that carries the connection to the controller.

    Raises
    ------
    AgentError
        If it does.
    """
    ends = connection()
    if ends is None:
        return
    client, server = ends
    shown = commands.checked(["ip", "-j", "address", "show", "dev", interface]).output
    own = [info.get("local") for entry in json.loads(shown) for info in entry["addr_info"]]
    if server in own or interface == way_to(client):
        raise AgentError(
            f"interface {interface} carries the control connection ({server} to {client})"
        )


def way_to(client: str) -> str | None:
    """Give the interface by which the kernel would send to an address, all its rules considered."""
    said = commands.run(["ip", "-j", "route", "get", client])
    routes = json.loads(said.output or "[]") if said.status == 0 else []
    return next((str(route["dev"]) for route in routes if "dev" in route), None)


def connection() -> tuple[str, str] | None:
    """Give the addresses of the ssh client and server this was started by; None if by none.

    ``sudo`` takes the variable away, so the processes above this one are asked too.
    """
    pid = os.getpid()
    while pid > 0:
        found = _variable(pid)
        if found is not None:
            client, _, server, _ = found.split()
            return _plain(client), _plain(server)
        pid = _parent(pid)
    return None


def _plain(address: str) -> str:
    """Leave a zone away; write an IPv4 address that came in by an IPv6 socket as what it is."""
    return re.sub(r"^::ffff:(?=\d+\.)", "", address.partition("%")[0])


def _variable(pid: int) -> str | None:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [entry[len(_VARIABLE) :] for entry in environment if entry.startswith(_VARIABLE)]
    return found[0].decode() if found and len(found[0].split()) == 4 else None


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])

"""Undoing by hand what runs have left on hosts: what no agent lives any more to undo."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed import ssh_faults
from tcpf_lab.testbed.beside import side_by_side
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_hosts import SshHost
from tcpf_lab.testbed.ssh_process import Host, run
from tcpf_lab.testbed.ssh_session import Connect, agent_path, left_by

#: Queues and programs of an emulated machine are slow to go, s.
_UNDO_SILENCE_S = 300.0


@dataclass(frozen=True)
class Remainder:
    """What one run has left on one host, and what became of it.

    Parameters
    ----------
    host, run : str
        Where, and of which run.
    changes : int
        Changes that are written down and have not been undone.
    state : str
        ``undone``; ``to undo`` if it was only listed; ``under way`` if its agent lives; ``left`` if
        something could not be undone; ``not reached`` if the host could not be asked.
    detail : str
        What could not be undone, or why.
    records : tuple of str
        What would be undone, in that order, if it was only listed.
    """

    host: str
    run: str
    changes: int
    state: str
    detail: str = ""
    records: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is left to be done about it."""
        return self.state in ("undone", "to undo")


def clean(
    inventory: Inventory,
    *,
    dry_run: bool = False,
    force: bool = False,
    connect: Connect = SshHost,
) -> tuple[Remainder, ...]:
    """Undo what is written down on all hosts, side by side.

    Parameters
    ----------
    inventory : Inventory
        The hosts.
    dry_run : bool
        Only list.
    force : bool
        Also of runs that are under way: their agents are ended.
    connect : callable
        Connects to a host.

    Returns
    -------
    tuple of Remainder
        In the inventory's order; nothing of hosts on which nothing was left.
    """

    def each(name: str) -> list[Remainder]:
        try:
            with contextlib.closing(connect(inventory, name)) as host:
                return [*_host(host, inventory, dry_run, force)]
        except TestbedError as error:
            return [Remainder(name, "-", 0, "not reached", f"{error.message} ({error.hint})")]

    every = side_by_side(each, inventory.hosts).values()
    return tuple(one for found in every for one in found)


def _host(host: Host, inventory: Inventory, dry_run: bool, force: bool) -> Iterator[Remainder]:
    state = inventory.state_directory
    if run(host, ("test", "-d", f"{state}/runs")).status != 0:
        return
    agent = ("python3", agent_path(host, inventory))
    for found in _ask(host, inventory, (*agent, "list", "--state", state)):
        token, changes = str(found["token"]), int(found["entries"])
        if found["alive"] and not force:
            detail = f"process {found['pid']}; --force ends it"
            yield Remainder(host.name, token, changes, "under way", detail)
        elif dry_run:
            listed = tuple(_words(record) for record in found.get("records", ()))
            yield Remainder(host.name, token, changes, "to undo", records=listed)
        else:
            words = ("undo", "--state", state, "--run", token, *(("--force",) if force else ()))
            yield _undone(host, (*agent, *words), token, changes)


def _undone(host: Host, argv: tuple[str, ...], token: str, changes: int) -> Remainder:
    reply = run(host, argv, silence=_UNDO_SILENCE_S)
    try:
        (report,) = json.loads(reply.text)
    except ValueError:  # no report at all, or of no run: it was undone meanwhile
        said = "; ".join(reply.errors.strip().splitlines())
        return Remainder(host.name, token, changes, "left" if reply.status else "undone", said)
    left = (*left_by(report), *((report["refused"],) if "refused" in report else ()))
    return Remainder(host.name, token, changes, "left" if left else "undone", "; ".join(left))


def _words(record: Mapping[str, str]) -> str:
    """Say what a record is about; the last one is the record itself, with the run's files."""
    kind = "files" if record["kind"] == "run" else record["kind"]
    return f"{kind} {record['name']}".strip()


def _ask(host: Host, inventory: Inventory, argv: tuple[str, ...]) -> list[dict[str, Any]]:
    reply = run(host, argv)
    if reply.status != 0:
        where = f"host {host.name}"
        raise ssh_faults.failed(where, inventory.testbed, argv, reply.status, reply.errors)
    found: list[dict[str, Any]] = json.loads(reply.text)
    return found

"""What would be undone of each run that has not been undone, for a person to read before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcpf_lab.agent import journal, modules, namespaces
from tcpf_lab.agent.journal import Record


def unfinished(state: Path) -> list[dict[str, Any]]:
    """Describe all runs that have not been undone, and what would be.

    Returns
    -------
    list of dict
        As `journal.unfinished` gives them, and as ``records`` the ``kind`` and ``name`` of each
        change, in the order in which they would be undone.
    """
    return [{**run, "records": _records(state, run)} for run in journal.unfinished(state)]


def _records(state: Path, run: dict[str, Any]) -> list[dict[str, str]]:
    """List what would be undone; the last is the journal with the run's files."""
    root = journal.runs(state) / run["token"]
    records = journal.read(root)[1:] if run["this_boot"] else []
    listed = [_listed(record) for record in reversed(records) if not record["undone"]]
    return [*listed, {"kind": "run", "name": str(root)}]


def _listed(record: Record) -> dict[str, str]:
    kind = record["kind"]
    return {"kind": kind, "name": _NAME[kind](record) if kind in _NAME else ""}


def _veth(record: Record) -> str:
    return " - ".join(f"{end['device']} in {end['node']}" for end in record["ends"])


def _nic(record: Record) -> str:
    return f"{record['state']['interface']} ({record['device']} in {record['node']})"


def _modules_before(record: Record) -> str:
    return ", ".join(modules.new(record["names"]))


#: How what a record is about is called.
_NAME: dict[str, Callable[[Record], str]] = {
    "namespace": lambda record: namespaces.name(record["node"]),
    "veth": _veth,
    "nic": _nic,
    "sysctl": lambda record: f"{record['key']} = {record['value']}",
    "module": lambda record: str(record["name"]),
    "modules_before": _modules_before,
    "netns_directory": lambda _record: str(namespaces.NAMED),
}

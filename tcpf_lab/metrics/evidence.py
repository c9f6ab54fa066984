"""What a testbed wrote down about a run, read for the checks; missing and damaged files by name."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tcpf_lab.results import RunFiles


class UnreadableError(Exception):
    """A file that a check needs is missing or damaged."""


def stats_json(files: RunFiles, name: str) -> Any:
    """Read a JSON file of ``stats/``."""
    path = files.stats / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableError(f"stats/{name} is missing") from None
    except ValueError as error:
        raise UnreadableError(f"stats/{name} is not JSON: {error}") from None


def text_of(files: RunFiles, directory: Path, name: str) -> str:
    """Read a text file of the run."""
    path = directory / name
    if not path.exists():
        raise UnreadableError(f"{path.relative_to(files.root)} is missing")
    return path.read_text(encoding="utf-8", errors="replace")


def link_drops(files: RunFiles, device: str) -> int:
    """Packets that the interface dropped or found damaged in the run, both directions.

    Packets that the processor had no time for count as well.  An interface of a host may have
    counted long before: what it had then is in ``dev-before-<node>.txt``.
    """
    node = device.partition("-")[0]
    before = f"dev-before-{node}.txt"
    earlier = _link_drops(files, before, device) if (files.stats / before).exists() else 0
    return _link_drops(files, f"dev-{node}.txt", device) - earlier


def _link_drops(files: RunFiles, name: str, device: str) -> int:
    """Drops and errors by ``/proc/net/dev``."""
    for line in text_of(files, files.stats, name).splitlines():
        found, _, counters = line.partition(":")
        if found.strip() == device:
            fields = [int(field) for field in counters.split()]
            return sum(fields[at] for at in (2, 3, 10, 11))
    raise UnreadableError(f"stats/{name} does not describe {device}")


def root_drops(files: RunFiles, device: str) -> int:
    """Drops of the device's root qdisc, which counts those of its child too."""
    roots = [q for q in qdiscs(files, device) if q.get("root")]
    if not roots:
        raise UnreadableError(f"no root qdisc of {device} in stats/qdisc-*.json")
    return int(roots[0]["drops"])


def qdiscs(files: RunFiles, device: str) -> list[dict[str, Any]]:
    """Queues of a device, as its node reported them; ``R1-R2`` is an interface of ``R1``."""
    node = device.partition("-")[0]
    return [q for q in stats_json(files, f"qdisc-{node}.json") if q.get("dev") == device]


def kernel_counters(files: RunFiles, node: str, section: str) -> dict[str, int]:
    """Read a section of a node's ``/proc/net/netstat``: a line of names, then a line of values.

    Raises
    ------
    UnreadableError
        If the file is missing or has no such section, such as ``TcpExt``.
    """
    name = f"netstat-{node}.txt"
    rows = [line.split() for line in text_of(files, files.stats, name).splitlines()]
    for names, values in pairwise(rows):
        if names[:1] == values[:1] == [f"{section}:"] and len(names) == len(values):
            return dict(zip(names[1:], map(int, values[1:]), strict=True))
    raise UnreadableError(f"stats/{name} has no {section}")


def action(files: RunFiles, node: str, kind: str, index: int) -> dict[str, Any] | None:
    """Give what ``tc`` reported of an action on a node, None if it has none of that kind and index.

    ``tc -j actions list`` gives a list of mappings, of which one holds the actions.
    """
    parts = stats_json(files, f"action-{node}.json")
    found = [action for part in parts for action in part.get("actions", ())]
    mine = [a for a in found if (a.get("kind"), a.get("index")) == (kind, index)]
    return mine[0] if mine else None

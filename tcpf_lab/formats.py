"""Versions of a run directory's layout, and the steps that bring an older one to the present one.

A step is made of pure functions from a record, or a file of counters, to what it is in the next
version.  Records are brought up to date whenever they are read (`present`), so old runs can be used
as they are; `tcpf-lab migrate` does it on disk, where files have other names now (`renewed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcpf_lab.errors import RequestError

#: Version of the layout, written to ``manifest.json`` and ``metrics.json``.
FORMAT = 2
#: The records that say of which version they are.
RECORDS = ("manifest.json", "metrics.json")

_Record = dict[str, Any]


class FormatError(RequestError):
    """A record of a version that this program does not know yet."""


@dataclass(frozen=True)
class Step:
    """What changed from one version to the next.

    Attributes
    ----------
    records : mapping of str to callable
        By name of a record, from its content to that of the next version, ``format`` aside.
    counters : mapping of str to (str, callable)
        By beginning of a name in ``stats/``: the beginning and end that take its place, and from
        the old file's JSON to the new one's text.
    """

    records: Mapping[str, Callable[[_Record], _Record]] = field(default_factory=dict)
    counters: Mapping[str, tuple[str, str, Callable[[Any], str]]] = field(default_factory=dict)


def present(name: str, content: Any) -> Any:
    """Give what a file holds as a record of the present version; what is no record as it is.

    Parameters
    ----------
    name : str
        The file's name.
    content : Any
        Its JSON.

    Raises
    ------
    FormatError
        If it is of a later version.
    """
    version = version_of(name, content)
    if version is None:
        return content
    if version > FORMAT:
        raise FormatError(
            f"is of format {version}; this version of tcpf-lab reads formats 1 to {FORMAT}",
            hint="upgrade tcpf-lab",
        )
    for number in range(version, FORMAT):
        step = STEPS[number].records.get(name, dict)
        content = {**step(content), "format": number + 1}
    return content


def version_of(name: str, content: Any) -> int | None:
    """Tell of which version a record is; None if it is no record."""
    version = content.get("format") if name in RECORDS and isinstance(content, dict) else None
    return version if type(version) is int and version >= 1 else None


def renewed(version: int, name: str, content: Any) -> tuple[str, str] | None:
    """Give name and text of the file that a file of counters is now; None if it is as it was.

    Parameters
    ----------
    version : int
        Of the run that it is from.
    name : str
        Its name in ``stats/``.
    content : Any
        Its JSON.
    """
    for number in range(version, FORMAT):
        for old, (new, suffix, step) in STEPS[number].counters.items():
            if name.startswith(old):
                node = name.removeprefix(old).partition(".")[0]
                return f"{new}{node}{suffix}", step(content)
    return None


def renames(version: int) -> tuple[str, ...]:
    """Give the beginnings of names in ``stats/`` that are others now."""
    return tuple(old for number in range(version, FORMAT) for old in STEPS[number].counters)


def _with_analysis(metrics: _Record) -> _Record:
    """Say that nobody wrote down which code made the numbers."""
    return {"analysis": "unknown", **metrics}


def _proc_net_dev(links: Any) -> str:
    """Write the counters of ``ip -s -j link show`` as ``/proc/net/dev`` has them."""
    lines = [
        "Inter-|   Receive                                                |  Transmit",
        " face |bytes    packets errs drop fifo frame compressed multicast"
        "|bytes    packets errs drop fifo colls carrier compressed",
    ]
    if not isinstance(links, list) or not links:
        raise TypeError("no list of interfaces")  # `_renewed` of migration tells where
    for link in links:
        rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
        received = [*_four(rx), rx["over_errors"], 0, 0, rx["multicast"]]
        sent = [*_four(tx), 0, tx["collisions"], tx["carrier_errors"], 0]
        lines.append(f"{link['ifname']:>6}: {' '.join(map(str, received + sent))}")
    return "\n".join(lines) + "\n"


def _four(counted: Mapping[str, int]) -> list[int]:
    return [counted[name] for name in ("bytes", "packets", "errors", "dropped")]


#: By the version that a step leads away from.
STEPS: dict[int, Step] = {
    1: Step(
        records={"metrics.json": _with_analysis},
        counters={"link-": ("dev-", ".txt", _proc_net_dev)},
    ),
}

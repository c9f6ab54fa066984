"""What the queue under test counted of itself: drops, marks and the kernel's other statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics.captured import CapturedRecord, as_queued
from tcpf_lab.metrics.from_counters import Extra
from tcpf_lab.metrics.in_force import CheckResult, under_test
from tcpf_lab.metrics.record import Record, UnreadableError
from tcpf_lab.metrics.validity import apply
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.queue.base import NOT_CAPABLE

#: What ``tc -s -d -j qdisc show`` has of every queue.
_COMMON = ("kind", "handle", "parent", "root", "dev", "refcnt", "options")
_COUNTED = ("bytes", "packets", "drops")
#: The two bits of ECN in the type of service, and the value of both: congestion experienced.
_CE = 3


def queue(files: RunFiles, run: Record) -> Extra:
    """Give the section ``queue`` of a run whose queue has counters of its own.

    It has the queue's ``device`` and ``kind``; ``bytes``, ``packets``, ``drops`` and ``marks`` of
    the whole run, packets and bytes as they left; and as ``kernel`` every other statistic under the
    kernel's name.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty where the plan names no counters (``expect.qdisc.counters``).
    """
    wanted = run.expect["qdisc"]
    if "counters" not in wanted:
        return Extra()
    checks = apply({"marks_match_qdisc": _own_marks_match}, files, run)
    try:
        section = _section(files, wanted)
    except (UnreadableError, KeyError, TypeError, ValueError):  # the check fails
        return Extra(checks=checks)
    marks, packets = section["marks"], section["packets"]
    metrics = {
        "queue_drops": section["drops"],
        "queue_marks": marks,
        "marked_percent": 100 * marks / packets if packets else None,
    }
    return Extra(metrics=metrics, sections={"queue": section}, checks=checks)


def _section(files: RunFiles, wanted: dict[str, Any]) -> dict[str, Any]:
    found = _found(files, wanted)
    return {
        **{name: wanted[name] for name in ("device", "kind")},
        **{name: int(found[name]) for name in _COUNTED},
        "marks": _sum(found, wanted["counters"]["marks"]),
        "kernel": {name: found[name] for name in found if name not in (*_COMMON, *_COUNTED)},
    }


def _found(files: RunFiles, wanted: dict[str, Any]) -> dict[str, Any]:
    found = under_test(files, wanted["device"], wanted["kind"])
    if found is None:
        raise UnreadableError(f"{wanted['device']} has no {wanted['kind']}")
    return found


def _sum(found: dict[str, Any], names: Iterable[str]) -> int:
    """Sum counters: ``tins.X`` is X of each of ``tins``; ``tc`` omits what cannot be counted."""
    return sum(
        int(part.get(name, 0))
        for path in names
        for group, _, name in [path.rpartition(".")]
        for part in (found[group] if group else [found])
    )


def _own_marks_match(files: RunFiles, run: Record) -> CheckResult:
    """Apply `marks_match` to the queue under test."""
    wanted = run.expect["qdisc"]
    if not isinstance(run, CapturedRecord):
        return None, f"qdisc {_section(files, wanted)['marks']}, without captures"
    entered = as_queued(wanted, run.transit.arrival_ns, run.transit.record)
    came = run.transit.tos[entered & ~run.transit.lost]
    behind = run.ways[0].left if run.ways else run.captures["egress"].packets
    left = behind["tos"][as_queued(wanted, behind["time_ns"], behind["record"])]
    return marks_match(files, wanted, came, left)


def marks_match(
    files: RunFiles, wanted: dict[str, Any], came: NDArray[np.uint8], left: NDArray[np.uint8]
) -> CheckResult:
    """Over the whole run, as many packets left marked as the queue counts.

    Packets that came marked do not count.  There is no verdict where fewer left marked and each of
    the queue's marks may be one that does not leave.  Background is in none of the captures, but is
    not ECN-capable either.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    wanted : dict
        The queue, as the plan has it, with ``counters``.
    came, left : uint8, shape (n,)
        Type of service of each packet before and behind the queue, of those that left it.
    """
    found, counters = _found(files, wanted), wanted["counters"]
    counted = int(_section(files, wanted)["marks"])
    seen = int(np.sum(left & _CE == _CE) - np.sum(came & _CE == _CE))
    known = found | {NOT_CAPABLE: int(np.sum(left & _CE == 0))}
    reasons = counters.get("uncertain", ())
    uncertain = min(counted, sum(min(_sum(known, [n]) for n in names) for names in reasons))
    detail = f"captures {seen}, qdisc {counted}"
    if uncertain:
        detail += f", of which up to {uncertain} dropped later, counted twice or not ECN-capable"
    if seen < counted == uncertain:
        return None, f"{detail}: no evidence"
    return counted - uncertain <= seen <= counted, detail

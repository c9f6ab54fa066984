"""All scenarios together: totals, confusion matrix, and the flows that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tcpf_lab.metrics.retransmission_log import CAUSES
from tcpf_lab.trace.analysis import KINDS
from tools.accuracy.compare import Outcome
from tools.accuracy.spurious import Sum, add


@dataclass(frozen=True)
class Total:
    """Sums over some scenarios.

    Attributes
    ----------
    name : str
        What they have in common.
    scenarios, flows, flows_exact, packets, retransmissions, unknown : int
        As in `Outcome`.
    timeouts, timeouts_kernel : int
        By the captures, by the kernel.
    missed, invented : int
        Timeouts missing and in excess, summed over flows so that they do not cancel.
    """

    name: str
    scenarios: int
    flows: int
    flows_exact: int
    packets: int
    retransmissions: int
    unknown: int
    timeouts: int
    timeouts_kernel: int
    missed: int
    invented: int

    @property
    def error_percent(self) -> float | None:
        """Relative error of the captures' timeout count; None without timeouts."""
        if not self.timeouts_kernel:
            return None
        return 100.0 * (self.timeouts - self.timeouts_kernel) / self.timeouts_kernel

    @property
    def unknown_percent(self) -> float | None:
        """Share of the retransmissions that stay unexplained; None without any."""
        return 100.0 * self.unknown / self.retransmissions if self.retransmissions else None


def total(name: str, outcomes: Iterable[Outcome]) -> Total:
    """Sum over scenarios.

    Parameters
    ----------
    name : str
        What they have in common.
    outcomes : iterable of Outcome
        Those that were not compared do not count.
    """
    used = [each for each in outcomes if each.state == "compared"]
    errors = [d.capture - d.kernel for each in used for d in each.differences]
    summed = ("flows", "flows_exact", "packets", "retransmissions", "unknown")
    sums = {key: sum(getattr(each, key) for each in used) for key in summed}
    return Total(
        name=name,
        scenarios=len(used),
        **sums,
        timeouts=sum(each.timeouts for each in used),
        timeouts_kernel=sum(each.timeouts_kernel for each in used),
        missed=-sum(error for error in errors if error < 0),
        invented=sum(error for error in errors if error > 0),
    )


#: Ways to put scenarios into groups: a name for each that the outcome's settings belong to.
Groups: TypeAlias = tuple[Callable[[dict[str, Any]], str], ...]
GROUPS: Groups = (
    lambda s: f"{s['profile']}, SACK {'on' if s['sack'] else 'off'}",
    lambda s: f"{s['profile']}, {s['congestion']}",
    lambda s: f"loss by {s['cause']}",
    lambda s: f"path {disorder(s)}",
)
#: Groups for the marks of spurious retransmissions.
MARK_GROUPS: Groups = (
    lambda s: f"SACK {'on' if s['sack'] else 'off'}",
    lambda s: f"timestamps {'on' if s['timestamps'] else 'off'}",
    lambda s: f"SACK {'on' if s['sack'] else 'off'}, data {behind(s)}",
    lambda s: f"ACKs {'lost' if (s['reverse'] or {}).get('loss') else 'arrive'}",
)


def disorder(settings: dict[str, Any]) -> str:
    """Describe what the path does to packets besides loss at the bottleneck."""
    both = [settings["forward"] or {}, settings["reverse"] or {}]
    keys = {key for side in both for key in side}
    if keys & {"reorder", "jitter", "duplicate"}:
        return "reorders or duplicates"
    return "loses ACKs" if "loss" in both[1] else "preserves order"


def behind(settings: dict[str, Any]) -> str:
    """Describe what the path does to data behind the bottleneck besides loss."""
    keys = set(settings["forward"] or {})
    if "duplicate" in keys:
        return "duplicated"
    return "reordered" if keys & {"reorder", "jitter"} else "in order"


def totals(outcomes: Sequence[Outcome]) -> list[Total]:
    """Sum over all scenarios, then over every group of `GROUPS`."""
    found = [total(name, members) for name, members in _grouped(outcomes, GROUPS)]
    return [each for each in found if each.scenarios]


def marks(outcomes: Sequence[Outcome]) -> list[Sum]:
    """Sum the marks of spurious retransmissions, over all scenarios and `MARK_GROUPS`.

    Scenarios with data loss behind the bottleneck do not count.
    """
    used = [each for each in outcomes if each.spurious is not None]
    return [
        add(name, (each.spurious for each in members if each.spurious is not None))
        for name, members in _grouped(used, MARK_GROUPS)
        if members
    ]


def not_judged(outcomes: Iterable[Outcome]) -> list[int]:
    """Seeds of the compared scenarios with data loss behind the bottleneck, in order."""
    used = (each for each in outcomes if each.state == "compared")
    return sorted(each.seed for each in used if each.spurious is None)


def _grouped(
    outcomes: Sequence[Outcome], groups: Groups
) -> Iterator[tuple[str, Sequence[Outcome]]]:
    """Give all of them, then each group's, by name."""
    yield "all", outcomes
    for group in groups:
        members: dict[str, list[Outcome]] = {}
        for each in outcomes:
            members.setdefault(group(each.settings), []).append(each)
        yield from sorted(members.items())


def explained(outcome: Outcome) -> int:
    """Count the flows that differ whose first event is known that one side calls a timeout."""
    return sum(bool(each.first) for each in outcome.differences)


def exceptions(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Count the flows that differ by the kernel's and the capture's cause of the first event.

    Parameters
    ----------
    outcomes : iterable of Outcome
        In any order.

    Returns
    -------
    dict
        The most frequent first; flows of which the event is not known are the last.
    """
    events = [each.first for outcome in outcomes for each in outcome.differences]
    kinds = Counter(first.rpartition(": ")[2] for first in events if first)
    unknown = {"not known": events.count("")} if "" in events else {}
    return dict(kinds.most_common()) | unknown


def merged(tables: Iterable[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Add tables of cause and kind.

    Returns
    -------
    dict
        Cause -> kind -> packets, causes and kinds in the order of the kernel's and the analysis's
        own lists.
    """
    found: dict[str, dict[str, int]] = {}
    for table in tables:
        for cause, row in table.items():
            for kind, count in row.items():
                cell = found.setdefault(cause, {})
                cell[kind] = cell.get(kind, 0) + count
    causes, kinds = (*CAUSES, "not_logged"), ("no_event", *KINDS[1:])
    return {
        cause: {kind: found[cause][kind] for kind in kinds if kind in found[cause]}
        for cause in causes
        if cause in found
    }


def shares_right(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """For each cause of the kernel, packets named rightly and all of them."""
    used = [each for each in outcomes if each.state == "compared"]
    every = merged(each.confusion for each in used)
    right = merged(each.right for each in used)
    return {
        cause: (sum(right.get(cause, {}).values()), sum(row.values()))
        for cause, row in every.items()
    }

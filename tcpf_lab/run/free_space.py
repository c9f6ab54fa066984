"""Whether runs find room on the disk, by what their plans say that they write."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.base.errors import DiskFullError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.storage import readable
from tcpf_lab.spec.sweep import Run

#: Everything of a run but its captures, and the report of all runs.
_BARE, _REPORT = 1_000_000, 10_000_000
#: A packet's record in a capture, the headers of a full packet, and how often each packet across
#: the bottleneck is captured: at the sender with its acknowledgement, before the queue with what
#: the queue drops.
_RECORD, _HEADERS = 16 + 94, 14 + 40
_PACKETS = {"sender": 2.1, "egress": 1.0}
_ENTERING = 1.1
#: What captures shrink by when they are compressed, at the least.
_PACKED = 3


@dataclass(frozen=True)
class Need:
    """What a run takes on disk, in bytes: at most while it is made, and afterwards."""

    peak: int
    after: int


def planned(run: Run, *, keep_pcaps: bool) -> Need:
    """Give what a run takes if its bottleneck is busy from beginning to end."""
    plan = compose(run)
    rate, mss = plan.expect["bottleneck"]["rate_bits_per_s"], plan.expect["mss"]
    packets = plan.virtual_seconds * rate / 8 / (mss + _HEADERS)
    points = sum(_PACKETS.get(role, _ENTERING) for role in plan.expect.get("captures", ()))
    captured = round(packets * points * _RECORD)
    return Need(captured + _BARE, _BARE + (captured // _PACKED if keep_pcaps else 0))


def require(runs: Iterable[Run], directory: Path, *, keep_pcaps: bool) -> None:
    """Refuse to begin runs, made one at a time, that would not all find room.

    Raises
    ------
    DiskFullError
        With what they take and what is free.
    """
    needs = {}  # runs that differ only in their seed take the same
    taken = peak = 0
    for run in runs:
        kind = (run.experiment.name, run.case_name, run.settings, run.flows)
        if kind not in needs:
            needs[kind] = planned(run, keep_pcaps=keep_pcaps)
        taken += needs[kind].after
        peak = max(peak, needs[kind].peak)
    place = directory.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if taken and taken + peak + _REPORT > free:
        raise DiskFullError(
            f"the runs take some {readable(taken + peak + _REPORT)}, {readable(free)} are free",
            where=str(directory),
            hint="free some, give --results DIR on another disk, or leave --keep-pcaps out"
            if keep_pcaps
            else "free some, or give --results DIR on another disk",
        )

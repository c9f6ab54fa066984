"""How a command keeps its results directory below a size: which runs may begin, and with how much.

What is bounded is everything below the results directory as it is on disk, whoever wrote it.  A
run begins with a share of what is left and is ended if it takes more; while captures are made it is
many times what it is afterwards.  Nothing that is there is deleted for another run's sake.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from tcpf_lab.command import command, options
from tcpf_lab.errors import LabError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results import PARTIAL, ExperimentFiles, RunFiles
from tcpf_lab.spec.sweep import Run
from tcpf_lab.storage import occupied, readable
from tcpf_lab.testbed import guest_process
from tcpf_lab.units import SIZE, Quantity, UnitError, parse_size

#: How ``--disk-budget`` is written: a disk holds more than `tc` counts.
DISK_SIZE: Quantity = replace(
    SIZE,
    units={**SIZE.units, "TB": Fraction(10**12), "TiB": Fraction(2**40)},
    example="10 GB",
    smallest="1 B",
    largest="1000000 TB",
)
#: Held back for the report of the runs: its PDF, tables and figures.
REPORT = 10_000_000
#: What a run is thought to be without captures, until one is there.
_BARE = 1_000_000
#: A packet's record in a capture, the headers of a full packet, and how often each packet across
#: the bottleneck is captured: at the sender with its acknowledgement, before the queue with what
#: the queue drops.
_RECORD, _HEADERS = 16 + 94, 14 + 40
_PACKETS = {"sender": 2.1, "egress": 1.0}
_ENTERING = 1.1
#: What captures are thought to shrink by when they are compressed, until some were.
_PACKED = 3
#: Looking at the whole directory may take this part of the time.
_SPENT_LOOKING = 0.02


class DiskBudgetError(LabError):
    """A run has taken more than it may."""


def parse_budget(text: str) -> int:
    """Read ``--disk-budget``: ``"10 GB"`` or ``"10GB"`` (10 000 000 000), ``"10 GiB"``, in bytes.

    Raises
    ------
    UnitError
        If it is no size with a unit, or out of range.
    """
    try:
        return parse_size(text, DISK_SIZE)
    except UnitError as error:
        error.where = f"--disk-budget {text}"
        raise


@dataclass(frozen=True)
class Need:
    """What a run takes on disk, in bytes: at most while it is made, and afterwards.

    ``kept`` is with its captures, ``bare`` without them.
    """

    peak: int
    kept: int
    bare: int

    @property
    def wanted(self) -> int:
        """What must be left for a run to begin: half as much again."""
        return self.peak * 3 // 2

    def __or__(self, other: Need) -> Need:
        """Give what is enough for either."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Need(*(max(pair) for pair in pairs))


def planned(run: Run) -> Need:
    """Say what a run takes if its bottleneck is busy from beginning to end."""
    plan = compose(run)
    rate, mss = plan.expect["bottleneck"]["rate_bits_per_s"], plan.expect["mss"]
    packets = plan.virtual_seconds * rate / 8 / (mss + _HEADERS)
    points = sum(_PACKETS.get(role, _ENTERING) for role in plan.expect.get("captures", ()))
    captured = round(packets * points * _RECORD)
    return Need(captured + _BARE, captured // _PACKED + _BARE, _BARE)


@dataclass(frozen=True)
class Share:
    """What a run may take on disk while it is made, in bytes, and whether its captures stay."""

    allowance: int
    keep_pcaps: bool


@contextmanager
def kept_to(allowance: int | None, partial: RunFiles) -> Iterator[None]:
    """End the run that is carried out in the block if it takes too much.

    A fifth is left for the analysis, and for what is written until somebody looks.

    Raises
    ------
    DiskBudgetError
        Naming the run and what it may take.
    """

    def look() -> None:
        taken = occupied(partial.root)
        if allowance is not None and 5 * taken > 4 * allowance:
            raise DiskBudgetError(
                f"ended: it has written {readable(taken)}, and may take {readable(allowance)} "
                "with what its analysis writes",
                where=f"run {partial.root.name.removesuffix(PARTIAL)}",
                hint="a larger --disk-budget, or fewer --jobs: each gets its part of what is left",
            )

    with guest_process.watched(look if allowance is not None else lambda: None):
        yield
    look()


@dataclass(frozen=True)
class _UnderWay:
    share: Share
    need: Need
    before: int  #: bytes of an older run that it is to replace
    partial: Path


@dataclass
class DiskBudget:
    """The books of one command: what is taken, and what its runs under way may take yet.

    Parameters
    ----------
    limit : int
        Bytes that the results directory may take on disk.
    results : Path
        That directory.
    at_a_time : int
        Most runs that are made at once.
    """

    limit: int
    results: Path
    at_a_time: int
    clock: Callable[[], float] = time.monotonic
    _taken: int = 0  #: by everything but the places of the runs under way
    _next_look: float = -math.inf
    _under_way: dict[Path, _UnderWay] = field(default_factory=dict)
    _seen: dict[str, Need] = field(default_factory=dict)  #: by experiment
    _to_come: dict[Path, int] = field(default_factory=dict)  #: and what is there, to be replaced

    def expect(self, runs: Iterable[Path]) -> None:
        """Be told of the runs that are to be made: captures must not cost any of them its room."""
        self._to_come = {run: occupied(run) for run in runs}

    def not_needed(self, place: Path) -> None:
        """Be told that a run will not be made after all: no room is reserved for it."""
        self._to_come.pop(place, None)

    def share(self, run: Run, files: ExperimentFiles, *, keep_pcaps: bool) -> Share | None:
        """Give a run its share; None if there is no room for it now.

        That is its part of what is left, as if all that could still begin got the same, and never
        less than it needs: others wait then. Captures are kept while all that is to come finds room
        without its own.
        """
        slots = self.at_a_time - len(self._under_way)
        need = self.need(run)
        free = self.free()
        if slots < 1 or need.wanted > free:
            return None
        place, partial = files.run(run.id).root, files.partial(run.id).root
        self.not_needed(place)
        before = occupied(place)
        self._taken -= before + occupied(partial)  # what an earlier try left makes room for this
        keep = keep_pcaps and self._finally(need) <= self.limit - REPORT
        given = Share(max(need.wanted, free // slots), keep)
        self._under_way[place] = _UnderWay(given, need, before, partial)
        return given

    def ended(self, run: Run, files: ExperimentFiles, peak: int, *, finished: bool) -> None:
        """Enter what a run has left, and what it took while it was made (0: not known).

        One that did not finish may have ended at once: it says what others take only if that is
        more than was thought.
        """
        done = files.run(run.id)
        entry = self._under_way.pop(done.root, None)
        if entry is None:
            return
        after, captures = occupied(done.root), occupied(done.pcap)
        self._taken += after + occupied(entry.partial)
        if peak and (finished or peak > entry.need.peak):
            measured = max(after - captures, 0) if finished else 0  # else of an older run, if any
            bare = measured or entry.need.bare
            kept = after if finished and captures else (peak - bare) // _PACKED + bare
            name = run.experiment.name
            self._seen[name] = self._seen.get(name, Need(0, 0, 0)) | Need(peak, kept, bare)

    def need(self, run: Run) -> Need:
        """Say what a run takes: what others of its experiment took, or what its plan says."""
        return self._seen.get(run.experiment.name) or planned(run)

    def free(self) -> int:
        """Count the bytes that no file, no run under way and not the report has or may take."""
        began = self.clock()
        if began >= self._next_look:  # others may be at work in the same directory
            busy = {
                str(p) for place, each in self._under_way.items() for p in (place, each.partial)
            }
            self._taken = occupied(self.results, busy)
            ended = self.clock()
            self._next_look = ended + (ended - began) / _SPENT_LOOKING
        given = sum(each.share.allowance + each.before for each in self._under_way.values())
        return self.limit - REPORT - self._taken - given

    def refusal(self, run: Run) -> DiskBudgetError:
        """Say why a run was not begun."""
        where = tuple(options(results=self.results))
        return DiskBudgetError(
            f"not begun: it may take {readable(self.need(run).wanted)}, and "
            f"{readable(max(self.free(), 0))} of --disk-budget {readable(self.limit)} are left "
            f"({readable(REPORT)} are held back for the report)",
            where=f"run {run.id}",
            hint=f"a larger --disk-budget; `{command('status', *where)}` says what takes the room, "
            f"`{command('clean', *where)}` removes what failed runs left",
        )

    def _finally(self, need: Need) -> int:
        """Bytes when one more run has kept its captures and the last of the others is made.

        What a run that is to come replaces is among what is taken.
        """
        ends = [
            e.need.kept if e.share.keep_pcaps else e.need.bare for e in self._under_way.values()
        ]
        later = sum(max(need.bare - old, 0) for old in self._to_come.values())
        last = need.wanted if self._to_come else 0
        return self._taken + sum(ends) + need.kept + later + last

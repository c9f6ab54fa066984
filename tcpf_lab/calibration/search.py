"""The search: a design, then rounds of what an emulator of all runs so far proposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.calibration import surface
from tcpf_lab.calibration.emulator import Emulator
from tcpf_lab.calibration.ledger import (
    CalibrationFiles,
    Ledger,
    Point,
    point_at,
    read_ledger,
    space_of,
    units,
    write_ledger,
)
from tcpf_lab.calibration.objective import Target, complete, least_of, misfit
from tcpf_lab.calibration.responses import Responses, Wanted
from tcpf_lab.calibration.space import Floats, Space, first_points
from tcpf_lab.calibration.target import Cells, cells_of, reached, target_of, variance_of
from tcpf_lab.results.command import command
from tcpf_lab.run.selection import Choice
from tcpf_lab.spec.calibrated import Subject

#: Carries runs out; what became of them is read from their directories.
Carry = Callable[[Choice], None]
#: Tells the user how far the search has come.
Tell = Callable[[str], None]
#: A search with fewer usable points than this share has nothing to go by.
_LEAST_USABLE = 0.5


@dataclass
class Search:
    """A calibration on one testbed, and how far it has come."""

    subject: Subject
    files: CalibrationFiles
    responses: Responses
    space: Space
    cells: Cells  #: of the experiments that are fitted
    ledger: Ledger = field(default_factory=lambda: Ledger(()))

    @property
    def default(self) -> Point:
        """The uncalibrated setting."""
        return point_at(self.subject, self.space, self.space.default, 0)

    def target(self) -> Target:
        """Give what is minimised; the noise is that of the uncalibrated setting's seeds.

        Raises
        ------
        LabError
            If the uncalibrated setting has no usable run.
        """
        seeds = self.subject.calibration.check_.seeds
        values = self.responses.by_seed(self.default, self.cells, seeds)
        if not np.isfinite(values).any():
            raise LabError(
                "the uncalibrated experiments have no usable run to tell how noisy one is",
                where=self.subject.calibration.name,
                hint=f"`{command('status', '--results', self.files.runs)}` lists what there is",
            )
        return target_of(self.subject, self.cells, variance_of(values))

    def usable(self, points: Sequence[Point], target: Target) -> tuple[tuple[Point, ...], Floats]:
        """Give the points that have a misfit, and the logarithms of what they measured.

        Raises
        ------
        LabError
            If that is too few of them.
        """
        measured = self.responses.log_means(points, self.cells)
        there = np.isfinite(misfit(measured, target).total)
        if there.sum() < _LEAST_USABLE * len(points):
            raise LabError(
                f"only {there.sum()} of {len(points)} points have runs that can be used"
                f"{self._why(measured)}",
                where=self.subject.calibration.name,
                hint=f"look into {self.files.runs}: log/ of failed runs, metrics.json of invalid "
                "ones; or narrow the ranges",
            )
        return tuple(p for p, ok in zip(points, there, strict=True) if ok), measured[there]

    def _why(self, measured: Floats) -> str:
        """Say what is known of the reason that points cannot be used."""
        metrics = enumerate(self.cells.metrics)
        lacking = [m for place, m in metrics if not np.isfinite(measured[..., place]).any()]
        if lacking:
            return f"; no run has measured {', '.join(lacking)}"
        refused = next(iter(self.responses.refused.values()), "")
        return f"; {len(self.responses.refused)} are not allowed: {refused}" if refused else ""

    def emulator(self, points: Sequence[Point], target: Target) -> Emulator:
        """Fit the emulator to points."""
        used, measured = self.usable(points, target)
        return Emulator.fit(
            self.space, units(used), measured, target.noise, reached(self.subject, self.cells)
        )

    def wanted(self, points: Sequence[Point]) -> list[Wanted]:
        """Give what the search runs of points, the uncalibrated one with seeds for its noise."""
        calibration, default = self.subject.calibration, self.default
        found = [Wanted(point, self.subject.fit, calibration.seeds) for point in points]
        if any(point.id == default.id for point in points):
            found.append(Wanted(default, self.subject.fit, calibration.check_.seeds))
        return found

    def to_check(self) -> Choice:
        """Give runs to check a testbed by: a few points that have every level between them."""
        seen: set[tuple[str, str]] = set()
        few: list[Wanted] = []
        for point in self.ledger.points:
            unknowns = self.subject.calibration.unknowns.items()
            levels = {(name, point.values[name]) for name, one in unknowns if one.levels}
            if not few or not levels <= seen:
                few.append(Wanted(point, self.subject.experiments, 1))
            seen |= levels
        return self.responses.choice(self.subject.calibration.name, few)

    def save(self) -> None:
        """Write the ledger."""
        write_ledger(self.files.ledger, self.ledger, list(self.subject.calibration.unknowns))


def open_search(
    subject: Subject, files: CalibrationFiles, testbed: str, *, fresh: bool = False
) -> Search:
    """Prepare a search, with the points of earlier sessions unless it is to begin anew (`fresh`).

    Raises
    ------
    RequestError
        If published numbers are missing, or the ledger is of other unknowns.
    """
    everything = cells_of(subject, subject.experiments)
    responses = Responses(subject, files, testbed, everything)
    space = space_of(subject)
    cells = cells_of(subject, subject.fit)
    _check_independent(subject, cells)
    ledger = Ledger(()) if fresh else read_ledger(files.ledger, subject, space)
    return Search(subject, files, responses, space, cells, ledger)


def _check_independent(subject: Subject, cells: Cells) -> None:
    """Refuse more independent numbers than are published, before anything runs."""
    asked, there = subject.calibration.independent, int(np.isfinite(cells.published).sum())
    if asked is not None and asked > there:
        raise RequestError(
            f"independent: {asked} of {there} published numbers",
            where=str(subject.source),
            hint="leave it out for all of them",
        )


def design(search: Search) -> None:
    """Fill the ledger up with the points of the design."""
    asked, points = search.subject.calibration.design, list(search.ledger.of_round(0))
    drawn = first_points(search.space, asked.points, asked.seed)
    known = {point.id for point in search.ledger.points}
    for unit in drawn:
        point = point_at(search.subject, search.space, unit, 0)
        if len(points) >= asked.points and point.id != search.default.id:
            break
        if point.id not in known:
            points.append(point)
            known.add(point.id)
    search.ledger = search.ledger.with_points(points)
    search.save()


def carry_out(search: Search, carry: Carry, tell: Tell) -> None:
    """Run everything that the ledger has, then the rounds that it has not got yet.

    Raises
    ------
    LabError
        If too few points have runs that can be used; or as `carry` does.
    """
    design(search)
    asked = search.subject.calibration.search
    name = search.subject.calibration.name
    known = search.ledger.points  # of rounds that are not asked for any more, too
    carry(search.responses.choice(f"{name}: {len(known)} points", search.wanted(known)))
    for number in range(1, asked.rounds + 1):
        if search.ledger.of_round(number):
            continue
        points = proposed(search, number)
        if not points:
            tell(f"round {number} of {asked.rounds}: nothing new is proposed")
            break
        search.ledger = search.ledger.with_points(points)
        search.save()
        title = f"{name}: round {number} of {asked.rounds}"
        carry(search.responses.choice(title, search.wanted(points)))
        tell(f"round {number} of {asked.rounds}: {standing(search, number)}")


def proposed(search: Search, number: int) -> tuple[Point, ...]:
    """Give the points that the emulator proposes after all earlier rounds."""
    calibration, target = search.subject.calibration, search.target()
    earlier = search.ledger.before(number)
    emulator = search.emulator(earlier, target)
    seed = calibration.design.seed + number
    found = surface.batch(
        emulator, target, search.space, units(earlier), calibration.search.batch, seed
    )
    known = {point.id for point in search.ledger.points}
    points = (point_at(search.subject, search.space, unit, number) for unit in found)
    return tuple({point.id: point for point in points if point.id not in known}.values())


def standing(search: Search, number: int) -> str:
    """Say what the search has found up to a round."""
    points = search.ledger.before(number + 1)
    target, measured = search.target(), search.responses.log_means(points, search.cells)
    totals = misfit(measured, target).total
    place = least_of(totals, complete(measured, target))
    new = np.array([point.round == number for point in points])
    least = np.nanmin(totals[new]) if np.isfinite(totals[new]).any() else np.nan
    return (
        f"least misfit {totals[place]:.1f} (point {points[place].id}, round "
        f"{points[place].round}); "
        f"of this round's {new.sum()} points {least:.1f}"
    )

"""The search: a design, then rounds of what an emulator proposes, then a final check at the best.

What it takes, too: how many runs, how long, and what each session has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.making import make_directory
from tcpf_lab.calibration.emulator import Emulator, batch
from tcpf_lab.calibration.ledger import (
    CalibrationFiles,
    Ledger,
    Point,
    Responses,
    Wanted,
    point_at,
    read_ledger,
    space_of,
    units,
    write_ledger,
)
from tcpf_lab.calibration.record import entries
from tcpf_lab.calibration.space import Floats, Space, first_points
from tcpf_lab.calibration.target import (
    Cells,
    Target,
    cells_of,
    complete,
    least_of,
    logged,
    misfit,
    reached,
    target_of,
    threshold,
    variance_of,
)
from tcpf_lab.report.section import CellResult
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_json
from tcpf_lab.run.runner import Event, State
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
                "the uncalibrated experiments have no usable run, so their noise is unknown",
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
                f"only {there.sum()} of {len(points)} points have usable runs{self._why(measured)}",
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
    """Prepare a search, with the points of earlier sessions unless it is to start over (`fresh`).

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
    requested, there = subject.calibration.independent, int(np.isfinite(cells.published).sum())
    if requested is not None and requested > there:
        raise RequestError(
            f"independent: {requested} of {there} published numbers",
            where=str(subject.source),
            hint="leave it out for all of them",
        )


def design(search: Search) -> None:
    """Fill the ledger up with the points of the design."""
    requested, points = search.subject.calibration.design, list(search.ledger.of_round(0))
    drawn = first_points(search.space, requested.points, requested.seed)
    known = {point.id for point in search.ledger.points}
    for unit in drawn:
        point = point_at(search.subject, search.space, unit, 0)
        if len(points) >= requested.points and point.id != search.default.id:
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
        If too few points have usable runs; or as `carry` does.
    """
    design(search)
    requested = search.subject.calibration.search
    name = search.subject.calibration.name
    known = search.ledger.points  # of rounds that are not requested any more, too
    carry(search.responses.choice(f"{name}: {len(known)} points", search.wanted(known)))
    for number in range(1, requested.rounds + 1):
        if search.ledger.of_round(number):
            continue
        points = proposed(search, number)
        if not points:
            tell(f"round {number} of {requested.rounds}: nothing new is proposed")
            break
        search.ledger = search.ledger.with_points(points)
        search.save()
        title = f"{name}: round {number} of {requested.rounds}"
        carry(search.responses.choice(title, search.wanted(points)))
        tell(f"round {number} of {requested.rounds}: {standing(search, number)}")


def proposed(search: Search, number: int) -> tuple[Point, ...]:
    """Give the points that the emulator proposes after all earlier rounds."""
    calibration, target = search.subject.calibration, search.target()
    earlier = search.ledger.before(number)
    emulator = search.emulator(earlier, target)
    seed = calibration.design.seed + number
    found = batch(emulator, target, search.space, units(earlier), calibration.search.batch, seed)
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
        f"minimum misfit {totals[place]:.1f} (point {points[place].id}, round "
        f"{points[place].round}); "
        f"of this round's {new.sum()} points {least:.1f}"
    )


#: How many settings are taken for what the emulator expects of them, beside the best one measured.
_EXPECTED = 3
#: Round of settings that the search has not run: none.
_AFTERWARDS = -1


@dataclass(frozen=True)
class Tried:
    """What is known of the points that were run; arrays have one entry for each of them.

    ``totals`` are the misfits measured; ``whole`` says which have measured everything, ``allowed``
    which are not excluded.
    """

    points: Sequence[Point]
    totals: Floats
    whole: NDArray[np.bool_]
    allowed: NDArray[np.bool_]


def close_look(
    search: Search, tried: Tried, within: Floats, expected: Callable[[Floats], Floats]
) -> tuple[Point, ...]:
    """Choose settings that stand for all that the published numbers do not exclude.

    Parameters
    ----------
    search : Search
        Whose unknowns they are.
    tried : Tried
        Every point that was run.
    within : array, shape (n, d)
        Places that were not run and are not excluded either: those of the profiles, which reach the
        ends of every range that is left.
    expected : callable
        Gives the misfits (m,) that the emulator expects at places (m, d).

    Returns
    -------
    tuple of Point
        The uncalibrated setting, then that of the minimum misfit, then up to three of which the
        emulator expects the least, then of those that are allowed the farthest from all chosen
        ones, again and again; at most `check.settings`. What an experiment refuses is none, nor
        are points of which cells have no usable run, unless there is no other.

    Notes
    -----
    The measured minimum misfit is that of few seeds, in part luck; the emulator has learned from
    all points, so that one run's luck weighs less in what it expects. All of it follows from the
    points and their runs, so that it is the same again after an interruption.
    """
    most = search.subject.calibration.check_.settings
    chosen = [search.default]
    best = tried.points[least_of(tried.totals, tried.whole)]
    if best.id != search.default.id:
        chosen.append(best)
    names = {point.id for point in chosen}
    left = [point for point in _candidates(search, tried, within) if point.id not in names]
    if left:
        order = np.argsort(expected(units(left)), kind="stable")
        left = [left[place] for place in order]
    first = min(_EXPECTED, (most - len(chosen)) // 2)
    chosen, left = chosen + left[:first], left[first:]
    while left and len(chosen) < most:
        places, taken = (search.space.encode(units(some)) for some in (left, chosen))
        apart = ((places[:, None, :] - taken[None, :, :]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(left.pop(int(np.argmax(apart))))
    return tuple(chosen)


def _candidates(search: Search, tried: Tried, within: Floats) -> list[Point]:
    """Give the settings that are not excluded, each once: points that were run, then places."""
    whole = tried.allowed & tried.whole
    usable = whole if whole.any() else tried.allowed
    points = [point for point, ok in zip(tried.points, usable, strict=True) if ok]
    known = {point.id for point in tried.points}
    for place in within:
        point = point_at(search.subject, search.space, place, _AFTERWARDS)
        if point.id not in known:
            points.append(point)
            known.add(point.id)
    return [point for point in points if search.responses.is_allowed(point)]


def look_closely(search: Search, chosen: Sequence[Point], carry: Callable[[Choice], None]) -> None:
    """Run settings on all experiments, held out or not, with more seeds."""
    calibration = search.subject.calibration
    title = f"{calibration.name}: {len(chosen)} settings with {calibration.check_.seeds} seeds"
    carry(search.responses.choice(title, wanted_of(search, chosen)))


def wanted_of(search: Search, chosen: Sequence[Point]) -> list[Wanted]:
    """Give what the final check runs of settings."""
    seeds = search.subject.calibration.check_.seeds
    return [Wanted(point, search.subject.experiments, seeds) for point in chosen]


@dataclass(frozen=True)
class Judged:
    """The settings of the final check, judged by their runs; arrays have an entry for each.

    ``totals`` are their misfits with all seeds, ``unseen`` with those alone that the search has not
    seen; ``limit`` is the threshold of ``totals``, ``allowed`` tells which are not above it,
    ``best`` is the one that fits best.
    """

    best: Point
    totals: Floats
    unseen: Floats
    limit: float
    allowed: NDArray[np.bool_]


def judged(
    search: Search, chosen: Sequence[Point], target: Target, before: NDArray[np.bool_]
) -> Judged:
    """Judge settings by the seeds of the final check.

    Parameters
    ----------
    search : Search
        Whose unknowns they are.
    chosen : sequence of Point
        The settings.
    target : Target
        What the search was for.
    before : ndarray of bool
        Which of the settings the emulator does not exclude: of one that lacks runs nothing better
        is known.

    Notes
    -----
    The best setting has the minimum misfit with seeds that the search has not used, as some of many
    points have a lucky first seed. A cell without a usable run of such a seed is judged by the runs
    it has. Held-out numbers do not count. Settings are excluded by the misfit with all seeds, at a
    threshold above the measured minimum; that of the profiles is above the expected minimum of the
    emulator, which has no noise of a run.
    """
    calibration = search.subject.calibration
    seen, seeds = calibration.seeds, calibration.check_.seeds
    results = [search.responses.results(point, search.cells, seeds) for point in chosen]
    every, others = _means(results, target, 0), _means(results, target, seen)
    others = np.where(np.isfinite(others), others, every)
    closely = replace(target, seeds=seeds)
    totals = misfit(every, closely).total
    unseen = misfit(others, replace(target, seeds=seeds - seen)).total
    whole = complete(every, target)
    limit = np.nan
    if np.isfinite(totals).any():
        worth = (
            None
            if (requested := calibration.independent) is None
            else min(requested, target.fitted)
        )
        least = float(totals[least_of(totals, whole)])
        limit = threshold(least, closely, search.space.parameters, worth).limit
    if np.isfinite(unseen).any():
        best = chosen[least_of(unseen, complete(others, target))]
    else:
        best = chosen[min(1, len(chosen) - 1)]
    return Judged(best, totals, unseen, limit, np.where(whole, totals <= limit, before))


def _means(results: Sequence[Sequence[CellResult]], target: Target, after: int) -> Floats:
    """Give logarithms of means (settings, cells, metrics) without each cell's first runs."""
    values = [
        [[_mean(cell, metric, after) for metric in target.metrics] for cell in cells]
        for cells in results
    ]
    return logged(np.array(values, dtype=float), target.metrics)


def _mean(result: CellResult, metric: str, after: int) -> float:
    """Give the mean over the runs that stand after so many of the cell's, NaN of none."""
    values, others = result.metrics[metric].values, set(result.cell.runs[after:])
    made_of = result.used_runs if values else ()
    kept = [value for run, value in zip(made_of, values, strict=True) if run in others]
    return float(np.mean(kept)) if kept else float("nan")


@dataclass
class Session:
    """One session: seconds of real time, of which ``running_s`` in runs; runs made and not."""

    wall_s: float = 0.0
    running_s: float = 0.0  #: from when runs were requested until all of them had ended
    run_s: float = 0.0  #: sum over the runs made
    made: int = 0
    skipped: int = 0
    failed: int = 0
    at_a_time: int | None = 1  #: None on a cluster, of which it is not known
    interrupted: bool = False  #: runs that were being made count nowhere but in the time

    def add(self, events: Iterable[Event], seconds: float) -> None:
        """Count how runs ended."""
        self.running_s += seconds
        for event in events:
            self.made += event.kind == "finished"
            self.skipped += event.kind in ("skipped", "analysed")
            self.failed += event.kind == "failed"
            self.run_s += event.seconds if event.kind == "finished" else 0.0


def remember(files: CalibrationFiles, session: Session) -> None:
    """Append a session in which something was run, or was being run when it was interrupted."""
    if not (session.made + session.failed or (session.interrupted and session.running_s)):
        return
    make_directory(files.root)
    rounded = {
        key: round(value, 1) if isinstance(value, float) else value
        for key, value in asdict(session).items()
        if value is not None
    }
    write_json(files.cost, [*entries(files.cost), rounded])


def estimate(search: Search, at_a_time: int | None) -> dict[str, Any]:
    """Say how many runs a calibration has, and how long those that are still to come may take.

    Parameters
    ----------
    search : Search
        How far it has come.
    at_a_time : int or None
        Runs at a time; None on a cluster, whose workers are not known before.

    Returns
    -------
    dict
        ``points``, and of them those in the ledger; runs for all of them, and what the final check
        at some settings adds to these; ``runs_left``, at most: runs that are complete are not
        among them, but which settings are looked at is not known before; ``run_seconds_left``, the
        sum over those, and ``seconds_left`` until they have ended: None if no run was made yet, the
        latter on a cluster too.
    """
    calibration = search.subject.calibration
    requested, seeds = calibration.design.points, calibration.seeds
    rounds = calibration.search
    points = requested + rounds.rounds * rounds.batch
    per_point = len(search.cells.names) * seeds
    known = search.ledger.before(rounds.rounds + 1)
    empty = sum(not search.ledger.of_round(number) for number in range(1, rounds.rounds + 1))
    new = max(0, requested - len(search.ledger.of_round(0))) + empty * rounds.batch
    noise = len(search.cells.names) * (calibration.check_.seeds - seeds)
    first = not any(point.id == search.default.id for point in known)
    close = _close_look(search)
    left = _not_complete(search, known) + new * per_point + first * noise + close
    each = _seconds_per_run(search.files)
    return {
        "name": calibration.name,
        "points": points,
        "points_in_ledger": len(search.ledger.points),
        "runs_of_a_point": per_point,
        "runs_of_the_search": points * per_point + noise,
        "runs_of_the_close_look": close,
        "runs_left": left,
        "run_seconds_left": None if each is None else round(left * each),
        "seconds_left": round(left * each / at_a_time) if each and at_a_time else None,
    }


def _not_complete(search: Search, points: Sequence[Point]) -> int:
    """Count the runs of points that are missing, failed, or not as they would be made now."""
    if not points:
        return 0
    choice = search.responses.choice("", search.wanted(points))
    done = (State.COMPLETE, State.OUTDATED)  # the latter is only analysed again
    return sum(now.state not in done for _, states in choice.states() for _, now in states)


def _close_look(search: Search) -> int:
    """Count the runs that the final check adds, at most: its settings are points of the search."""
    default = _added(search, search.default)
    units = (np.full(len(search.space.default), place) for place in (0.0, 1.0))
    corners = (point_at(search.subject, search.space, unit, 0) for unit in units)
    other = max(_added(search, point) for point in corners)  # one may be the default, or refused
    return default + (search.subject.calibration.check_.settings - 1) * max(default, other)


def _added(search: Search, point: Point) -> int:
    """Count the runs of a setting that the search does not make of it as a point."""
    wanted = (wanted_of(search, [point]), search.wanted([point]))
    every, own = ({run.key for run in search.responses.choice("", some).runs} for some in wanted)
    return len(every - own)


def _seconds_per_run(files: CalibrationFiles) -> float | None:
    """Mean over all that were made, of time in which a run kept a worker busy."""
    known = entries(files.cost)
    try:
        made = sum(int(one["made"]) for one in known)
        busy = sum(float(one["run_s"]) for one in known)
    except (KeyError, TypeError, ValueError):
        return None
    return busy / made if made else None

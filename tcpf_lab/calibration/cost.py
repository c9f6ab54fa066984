"""What a calibration takes: how many runs, how long, and what it has taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.base.errors import RequestError
from tcpf_lab.base.making import make_directory
from tcpf_lab.calibration import page
from tcpf_lab.calibration.judgement import AFTER, BEFORE
from tcpf_lab.calibration.ledger import CalibrationFiles, Point, point_at
from tcpf_lab.calibration.record import Record
from tcpf_lab.calibration.search import Search, wanted_of
from tcpf_lab.report.table import Column, plain, table_of
from tcpf_lab.results.layout import read_json, write_json
from tcpf_lab.run.runner import Event, State


@dataclass
class Session:
    """One session: seconds of real time, of which ``running_s`` in runs; runs made and not."""

    wall_s: float = 0.0
    running_s: float = 0.0  #: from when runs were asked for until all of them had ended
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
    write_json(files.cost, [*sessions(files), rounded])


def sessions(files: CalibrationFiles) -> list[dict[str, Any]]:
    """Give the earlier sessions; none if the file is missing or damaged."""
    try:
        found = read_json(files.cost)
    except RequestError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


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
        ``points``, and of them those in the ledger; runs for all of them, and what the close look
        at some settings adds to these; ``runs_left``, at most: runs that are complete are not
        among them, but which settings are looked at is not known before; ``run_seconds_left``, the
        sum over those, and ``seconds_left`` until they have ended: None if no run was made yet, the
        latter on a cluster too.
    """
    calibration = search.subject.calibration
    asked, seeds = calibration.design.points, calibration.seeds
    rounds = calibration.search
    points = asked + rounds.rounds * rounds.batch
    per_point = len(search.cells.names) * seeds
    known = search.ledger.before(rounds.rounds + 1)
    empty = sum(not search.ledger.of_round(number) for number in range(1, rounds.rounds + 1))
    new = max(0, asked - len(search.ledger.of_round(0))) + empty * rounds.batch
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
    """Count the runs that the close look adds, at most: its settings are points of the search."""
    default = _added(search, search.default)
    units = (np.full(len(search.space.default), place) for place in (0.0, 1.0))
    corners = (point_at(search.subject, search.space, unit, 0) for unit in units)
    other = max(_added(search, point) for point in corners)  # one may be the default, or refused
    return default + (search.subject.calibration.check_.settings - 1) * max(default, other)


def _added(search: Search, point: Point) -> int:
    """Count the runs of a setting that the search does not make of it as a point."""
    wanted = (wanted_of(search, [point]), search.wanted([point]))
    every, own = (
        {(run.experiment.name, run.id) for run in search.responses.choice("", some).runs}
        for some in wanted
    )
    return len(every - own)


def _seconds_per_run(files: CalibrationFiles) -> float | None:
    """Mean over all that were made, of time in which a run kept a worker busy."""
    known = sessions(files)
    try:
        made = sum(int(one["made"]) for one in known)
        busy = sum(float(one["run_s"]) for one in known)
    except (KeyError, TypeError, ValueError):
        return None
    return busy / made if made else None


def outcome(told: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what is printed of ``calibration.json``."""
    yield _unknowns(told)
    for which in ("fit", "test", "blind"):
        if told["held_out"].get(which):
            yield Text()
            yield _errors(told, which)
    if told["claims"]:
        yield Text()
        yield Text(page.told("claims.j2", Record(told, (), Path())))
    yield Text()
    for note in told["notes"]:
        yield Text(note)


def plan(told: Mapping[str, Any]) -> RenderableType:
    """Give what is printed of a plan."""
    rows = [
        (
            "points of the search",
            f"{told['points']}, of which {told['points_in_ledger']} are there",
        ),
        ("runs of a point", str(told["runs_of_a_point"])),
        ("runs of the search", str(told["runs_of_the_search"])),
        ("runs of the close look after it", f"at most {told['runs_of_the_close_look']}"),
        ("runs left", f"at most {told['runs_left']}"),
        ("time left", _time_left(told)),
    ]
    return plain(table_of("plan", "", ("", ""), rows))


def _time_left(told: Mapping[str, Any]) -> str:
    if told["seconds_left"] is not None:
        return _duration(told["seconds_left"])
    if told["run_seconds_left"] is not None:
        return f"{_duration(told['run_seconds_left'])} of runs, shared out among the workers"
    return "not known before the first run"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"about {minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"about {minutes} min"
    )


def _unknowns(told: Mapping[str, Any]) -> RenderableType:
    rows = [
        (
            one["name"],
            ", ".join(one["levels"]) if "levels" in one else f"{one['from']} to {one['to']}",
            one["default"],
            told["best"]["values"][one["name"]],
            ", ".join(one["not_excluded"]) or "nothing",
            one["verdict"],
        )
        for one in told["unknowns"]
    ]
    return _table(rows, "unknown", "range", "default", "best", "not excluded", "verdict")


def _errors(told: Mapping[str, Any], which: str) -> RenderableType:
    names = " ".join(told["fit" if which == "fit" else "test"])
    title = "fitted" if which == "fit" else "held out"
    if which == "blind":
        names += f" without {', '.join(told['seen'])}"
    rows = [
        (
            metric,
            *(_with_interval(found[key]) for key in (BEFORE, AFTER, "ratio")),
            f"{found['cells']} of {found['published']}",
        )
        for metric, found in told["held_out"][which].items()
    ]
    return _table(rows, f"error, {title}: {names}", "uncalibrated", "calibrated", "ratio", "cells")


def _with_interval(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return "-"
    text = f"{found['error']:.3f}"
    low, high = found["interval"] or (None, None)
    return text if low is None or high is None else f"{text} ({low:.3f} to {high:.3f})"


def _table(rows: Iterable[Sequence[str]], *headings: str) -> RenderableType:
    columns = (Column(heading, fit="folded") for heading in headings)
    return plain(table_of("cost", "", columns, rows))

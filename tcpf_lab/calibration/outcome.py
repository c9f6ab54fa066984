"""What a calibration has found, as ``calibration.json`` has it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import SpecError
from tcpf_lab.base.making import make_directory
from tcpf_lab.calibration import judgement, page, profile
from tcpf_lab.calibration.emulator import Emulator, Surface
from tcpf_lab.calibration.judgement import before_and_after
from tcpf_lab.calibration.ledger import Point, digests, units
from tcpf_lab.calibration.profile import Pair, Profile
from tcpf_lab.calibration.record import FORMAT
from tcpf_lab.calibration.search import Judged, Search, Tried, close_look, judged, wanted_of
from tcpf_lab.calibration.space import Floats
from tcpf_lab.calibration.target import Misfit, Target, Threshold, complete, misfit
from tcpf_lab.report.contents.assemble import provenance, runs_left_out
from tcpf_lab.report.section import CellResult, Section, Source
from tcpf_lab.report.style import conditions
from tcpf_lab.results.layout import write_json
from tcpf_lab.spec.calibrated import label
from tcpf_lab.spec.calibration import Unknown
from tcpf_lab.spec.model import Experiment

#: What each setting of the close look measured, by the setting's id.
Results = Mapping[str, Sequence[CellResult]]


def setting(search: Search, point: Point, results: Sequence[CellResult]) -> dict[str, Any]:
    """Give what one setting measured, in the order of all cells, and with which TCP.

    ``mean`` and ``half``, the half width of its 95 % confidence interval, are (cells, metrics);
    ``runs`` is how many each mean is made of.
    """
    metrics = search.cells.metrics
    first = next((one for _, one in _experiments(search, point)), None)
    return {
        "mean": [[result.metrics[metric].mean for metric in metrics] for result in results],
        "half": [[result.metrics[metric].ci95 for metric in metrics] for result in results],
        "runs": [result.used for result in results],
        "tcp": None if first is None else _tcp(first),
        "conditions": {name: conditions([one]) for name, one in _experiments(search, point)},
    }


def _tcp(experiment: Experiment) -> dict[str, Any]:
    """Name the profile, and the behaviours of Linux 2.2 that are on."""
    tcp = experiment.tcp
    return {"profile": tcp.profile, "linux22": list(tcp.behaviours), "sack": tcp.sack}


def _experiments(search: Search, point: Point) -> Iterator[tuple[str, Experiment]]:
    """Yield the experiments at a setting by the names that the file has; what it refuses is not."""
    for experiment in search.subject.experiments:
        with suppress(SpecError):
            yield experiment.name, search.subject.at(experiment, point.values)


def table(search: Search) -> dict[str, Any]:
    """Give every cell of the close look, held out or not, and the published numbers."""
    every = search.responses.cells
    return {"cells": [asdict(name) for name in every.names], "published": every.published}


def experiments(search: Search) -> list[dict[str, Any]]:
    """Say what the experiments are, and which of them the search saw."""
    parts = (("fit", search.subject.fit), ("test", search.subject.test))
    return [
        {"name": one.name, "config": label(one), "title": one.title, "part": part}
        for part, members in parts
        for one in members
    ]


def validity(search: Search, chosen: Sequence[Point], results: Results) -> dict[str, Any]:
    """Count the runs of the close look, name those that are left out, say what made them."""
    sections = tuple(_sections(search, chosen, results))
    found = [result for section in sections for result in section.results]
    made = provenance(sections)
    return {
        "runs": {
            "asked": sum(result.n for result in found),
            "complete": sum(result.complete for result in found),
            "valid": sum(result.valid_runs for result in found),
            "used": sum(result.used for result in found),
        },
        "checks": [asdict(check) for check in made.checks],
        "left_out": [asdict(one) for one in runs_left_out(sections)],
        "made_with": {name: list(values) for name, values in made.made_with.items()},
    }


def _sections(search: Search, chosen: Sequence[Point], results: Results) -> Iterator[Section]:
    """Yield the runs of each setting and experiment."""
    names = search.responses.cells.names
    for point in chosen:
        for name, experiment in _experiments(search, point):
            own = tuple(
                result
                for cell, result in zip(names, results[point.id], strict=True)
                if cell.experiment == name
            )
            files = search.files.of(experiment.name)
            cells = [result.cell for result in own]
            yield Section(Source(files, cells, experiment.title, conditions([experiment])), own)


def notes(search: Search, usable: int, limit: Threshold, left_out: Sequence[str]) -> Iterator[str]:
    """Yield what is to be kept in mind of an outcome, in sentences.

    Parameters
    ----------
    search : Search
        Whose outcome it is.
    usable : int
        How many of its points have runs that can be used.
    limit : Threshold
        Of the profiles.
    left_out : sequence of str
        Published numbers that could not be fitted.
    """
    points = {point.id for point in search.ledger.points}
    known = {
        "search": search,
        "calibration": search.subject.calibration,
        "usable": usable,
        "limit": limit,
        "left_out": left_out,
        "refused": [one for one in search.responses.refused.items() if one[0] in points],
    }
    yield from (block.text for block in page.blocks("notes.j2", **known))


def unfinished(search: Search, asked: int, complete: int) -> str | None:
    """Say what of a search was not carried out; None if nothing is lacking.

    Parameters
    ----------
    search : Search
        The search.
    asked, complete : int
        How many runs there are to be, and are.
    """
    calibration, points = search.subject.calibration, search.ledger.points
    rounds, every = max((point.round for point in points), default=0), calibration.search.rounds
    parts = [f"{rounds} of {every} rounds were proposed"] if rounds < every else []
    if complete < asked:
        parts.append(f"{asked - complete} of {asked} runs failed or are not made")
    return "; ".join(parts) if parts else None


#: Digits that numbers are written with; more are rounding errors.
_DIGITS = 7


@dataclass(frozen=True)
class Findings:
    """Everything that the points of a search say, before any setting is looked at closely."""

    target: Target
    points: tuple[Point, ...]
    measured: Floats  #: logarithms, (points, cells, metrics)
    misfits: Misfit
    emulator: Emulator
    threshold: Threshold
    profiles: tuple[Profile, ...]
    pairs: tuple[Pair, ...]
    allowed: NDArray[np.bool_]  #: points that the threshold does not exclude
    chosen: tuple[Point, ...]
    left_out: tuple[str, ...]  #: published numbers that the emulator knows nothing of, in words


def find(search: Search) -> Findings:
    """Work out what the points of a search say.

    Raises
    ------
    LabError
        If too few of them have usable runs.
    """
    asked = search.target()
    points, measured = search.usable(search.ledger.points, asked)
    emulator = search.emulator(points, asked)
    target = asked.only(emulator.modelled)
    misfits, places = misfit(measured, target), units(points)
    calibration = search.subject.calibration
    found = profile.profiles(
        *(emulator, target, search.space, places), calibration.design.seed, calibration.independent
    )
    allowed = profile.plausible(emulator, target, places, found.threshold)
    tried = Tried(points, misfits.total, complete(measured, target), allowed)
    chosen = close_look(search, tried, found.within, Surface(emulator, target).expected)
    return Findings(
        target,
        points,
        measured,
        misfits,
        emulator,
        found.threshold,
        found.profiles,
        found.pairs,
        allowed,
        chosen,
        tuple(_left_out(asked, target)),
    )


def _left_out(asked: Target, target: Target) -> Iterator[str]:
    """Name the numbers that were to be fitted and are not."""
    lost = np.isfinite(asked.log_published) & ~np.isfinite(target.log_published)
    for place, (config, flows, case) in enumerate(asked.names):
        metrics = [m for m, gone in zip(asked.metrics, lost[place], strict=True) if gone]
        if metrics:
            yield f"{config} {flows} {case} ({', '.join(metrics)})"


def outcome(search: Search, findings: Findings) -> dict[str, Any]:
    """Give everything that a report needs, as JSON has it."""
    calibration = search.subject.calibration
    close = _judged(search, findings)
    best = close.best
    every = search.responses.cells
    results = {
        point.id: search.responses.results(point, every, calibration.check_.seeds)
        for point in findings.chosen
    }
    wanted = [*search.wanted(search.ledger.points), *wanted_of(search, findings.chosen)]
    asked, made = search.responses.counted(wanted)
    told = {
        **_asked(search),
        "seeds": {"points": calibration.seeds, "check": calibration.check_.seeds},
        "unknowns": list(_unknowns(search, findings)),
        "points": list(_points(search, findings, close)),
        "best": {"id": best.id, "values": dict(best.values)},
        "settings": list(_settings(search, findings, close, results)),
        "table": table(search),
        "experiments": experiments(search),
        "validity": validity(search, findings.chosen, results),
        "threshold": findings.threshold,
        "judged_limit": close.limit,
        "profiles": list(_profiles(search, findings)),
        "pairs": list(_pairs(search, findings)),
        "influence": _influence(search, findings),
        "emulator": dict(
            zip(search.cells.metrics, findings.emulator.cross_validate(), strict=True)
        ),
        **before_and_after(search, best),
        "claims": _claims(search, results),
        "runs": made,
        "unfinished": unfinished(search, asked, made),
    }
    told["notes"] = [
        *notes(search, len(findings.points), findings.threshold, findings.left_out),
        *judgement.unusable(results),
        *judgement.not_compared(told["held_out"]),
    ]
    plain: dict[str, Any] = _plain(told)
    return plain


def _claims(search: Search, results: Results) -> list[dict[str, Any]]:
    """Judge the published claims; they are of this project's tables, not of a file's numbers."""
    if search.subject.calibration.published is not None or search.subject.permuted is not None:
        return []
    return judgement.claims(results, fit=[label(one) for one in search.subject.fit])


def _asked(search: Search) -> dict[str, Any]:
    """Give what was to be fitted."""
    calibration = search.subject.calibration
    return {
        "format": FORMAT,
        "name": calibration.name,
        "title": calibration.title,
        **({"variant": str(variant)} if (variant := search.files.variant).names else {}),
        "testbed": search.files.testbed,
        "fit": [experiment.name for experiment in search.subject.fit],
        "test": [experiment.name for experiment in search.subject.test],
        "cells": [asdict(name) for name in search.cells.names],
        "metrics": list(search.cells.metrics),
        "published": search.cells.published,
        "tolerance": dict(calibration.tolerance),
        "seen": dict(calibration.seen),
        "digests": digests(search.subject),
    }


def _judged(search: Search, findings: Findings) -> Judged:
    """Judge the close look; the uncalibrated setting need not be one of the usable points."""
    allowed = {p.id for p, ok in zip(findings.points, findings.allowed, strict=True) if ok}
    before = np.array([point.id in allowed for point in findings.chosen])
    return judged(search, findings.chosen, findings.target, before)


def _settings(
    search: Search, findings: Findings, close: Judged, results: Results
) -> Iterator[dict[str, Any]]:
    """Yield what is said of each setting: ``unseen`` is its misfit with seeds new to the search.

    ``allowed``: whether its misfit is within ``judged_limit``.
    """
    judgements = zip(close.totals, close.unseen, close.allowed, strict=True)
    for point, (total, unseen, ok) in zip(findings.chosen, judgements, strict=True):
        about = {"id": point.id, "values": dict(point.values)}
        judged_by = {"misfit": total, "unseen": unseen, "allowed": ok}
        yield {**about, **judged_by, **setting(search, point, results[point.id])}


def write(search: Search, told: dict[str, Any]) -> None:
    """Write ``calibration.json``: the same bytes for the same points and runs."""
    make_directory(search.files.root)
    write_json(search.files.outcome, told)


def _unknowns(search: Search, findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield what each unknown is; ``default_at`` is its default's place in the unit interval."""
    unknowns = search.subject.calibration.unknowns.items()
    places = search.space.default.tolist()
    for (name, one), along, place in zip(unknowns, findings.profiles, places, strict=True):
        default = search.subject.defaults[name]
        yield {**_unknown(name, one, default, along), "default_at": place}


def _profiles(search: Search, findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield the profiles; ``texts`` are their values with units, as the experiments have them."""
    for along in findings.profiles:
        yield {**along.record(), "texts": _texts(search, along.name, along.values)}


def _pairs(search: Search, findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield unknowns that make up for each other, their values as the experiments have them."""
    for pair in findings.pairs:
        texts = [_texts(search, *one)[0] for one in zip(pair.names, zip(pair.values), strict=True)]
        yield {**asdict(pair), "values": texts}


def _texts(search: Search, name: str, values: Iterable[float | str]) -> list[str]:
    """Give values of an unknown with their unit."""
    one = search.subject.calibration.unknowns[name]
    return [v if isinstance(v, str) else one.text(v) for v in values]


def _unknown(name: str, one: Unknown, default: str, along: Profile) -> dict[str, Any]:
    """Say what an unknown is, and which of its values the published numbers do not exclude.

    Numbers of profiles are in base units; these are text, with their unit.
    """
    about = {"name": name, "default": default, "set": list(one.keys), "verdict": along.verdict}
    if one.times:
        about["times"] = one.times
    if one.levels:
        left = [str(piece[0]) for piece in along.pieces]
        return {**about, "levels": list(one.levels), "not_excluded": left}
    ends = {"from": one.text(one.ends[0]), "to": one.text(one.ends[1]), "scale": one.scale}
    left = [" to ".join(one.text(float(end)) for end in piece) for piece in along.pieces]
    return {**about, **ends, "not_excluded": left}


def _influence(search: Search, findings: Findings) -> dict[str, dict[str, float]]:
    """Total-order Sobol' index of each unknown, by metric."""
    seed = search.subject.calibration.design.seed
    rows = profile.influence(findings.emulator, search.space, seed)
    names = list(search.subject.calibration.unknowns)
    return {
        metric: dict(zip(names, row.tolist(), strict=True))
        for metric, row in zip(search.cells.metrics, rows, strict=True)
    }


def _points(search: Search, findings: Findings, close: Judged) -> Iterator[dict[str, Any]]:
    """Yield every point of the ledger; of one without usable runs neither misfit nor judgement.

    Points are excluded by the emulator, those looked at closely by their own runs. A misfit is
    partly guessed if not ``complete``.
    """
    place = {point.id: index for index, point in enumerate(findings.points)}
    whole = complete(findings.measured, findings.target)
    metrics, shares = search.cells.metrics, findings.misfits.by_metric
    means = search.responses.means(search.ledger.points, search.cells)
    allowed = {p.id: ok for p, ok in zip(findings.points, findings.allowed, strict=True)}
    closely = {p.id: ok for p, ok in zip(findings.chosen, close.allowed, strict=True)}
    for point, measured in zip(search.ledger.points, means, strict=True):
        at = place.get(point.id)
        yield {
            "id": point.id,
            "round": point.round,
            "values": dict(point.values),
            "misfit": None if at is None else findings.misfits.total[at],
            "by_metric": None if at is None else dict(zip(metrics, shares[at], strict=True)),
            "complete": at is not None and bool(whole[at]),
            "measured": measured,
            "excluded": None if at is None else not closely.get(point.id, allowed[point.id]),
        }


def _plain(value: Any) -> Any:
    """Turn anything that was found into what JSON has; undefined and infinite numbers are null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: _plain(getattr(value, key)) for key in value.__dataclass_fields__}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value

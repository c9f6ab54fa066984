"""What a calibration has found, as ``calibration.json`` has it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.calibrating import evidence, judgement, notes
from tcpf_lab.calibrating.held_out import before_and_after
from tcpf_lab.calibrating.ledger import Point, units
from tcpf_lab.calibrating.outcome_state import digests
from tcpf_lab.calibrating.search import Search
from tcpf_lab.calibrating.settings import Judged, Tried, close_look, judged, wanted_of
from tcpf_lab.calibration import influence, profile
from tcpf_lab.calibration.emulator import Emulator
from tcpf_lab.calibration.objective import Misfit, Target, Threshold, complete, misfit
from tcpf_lab.calibration.pairs import Pair
from tcpf_lab.calibration.profile import Profile
from tcpf_lab.calibration.space import Floats
from tcpf_lab.calibration.surface import Surface
from tcpf_lab.making import make_directory
from tcpf_lab.results import write_json
from tcpf_lab.spec.calibrated import label
from tcpf_lab.spec.unknown import Unknown

#: Version of the file.
FORMAT = 1
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
        "table": evidence.table(search),
        "experiments": evidence.experiments(search),
        "validity": evidence.validity(search, findings.chosen, results),
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
        "unfinished": notes.unfinished(search, asked, made),
    }
    told["notes"] = [
        *notes.notes(search, len(findings.points), findings.threshold, findings.left_out),
        *judgement.unusable(results),
        *judgement.not_compared(told["held_out"]),
    ]
    plain: dict[str, Any] = _plain(told)
    return plain


def _claims(search: Search, results: evidence.Results) -> list[dict[str, Any]]:
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
    search: Search, findings: Findings, close: Judged, results: evidence.Results
) -> Iterator[dict[str, Any]]:
    """Yield what is said of each setting: ``unseen`` is its misfit with seeds new to the search.

    ``allowed``: whether its misfit is within ``judged_limit``.
    """
    judgements = zip(close.totals, close.unseen, close.allowed, strict=True)
    for point, (total, unseen, ok) in zip(findings.chosen, judgements, strict=True):
        about = {"id": point.id, "values": dict(point.values)}
        judged_by = {"misfit": total, "unseen": unseen, "allowed": ok}
        yield {**about, **judged_by, **evidence.setting(search, point, results[point.id])}


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
    rows = influence.influence(findings.emulator, search.space, seed)
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

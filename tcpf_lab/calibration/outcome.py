"""What a calibration has found, as ``calibration.json`` has it.

The second half holds it against the published numbers: errors, orders of the cases, claims.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import SpecError
from tcpf_lab.base.making import make_directory
from tcpf_lab.calibration import page, profile
from tcpf_lab.calibration.emulator import Emulator, Surface
from tcpf_lab.calibration.ledger import Point, digests, units
from tcpf_lab.calibration.profile import Profiles
from tcpf_lab.calibration.record import FORMAT
from tcpf_lab.calibration.search import Judged, Search, Tried, close_look, judged, wanted_of
from tcpf_lab.calibration.space import Floats
from tcpf_lab.calibration.target import (
    CellName,
    Cells,
    Misfit,
    Target,
    Threshold,
    cells_of,
    complete,
    logged,
    misfit,
)
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.papers.thesis.compare import RESAMPLES, SEED, compare
from tcpf_lab.report.claims.judge import Check, Claim
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.compare.statistics import (
    CellKey,
    Sample,
    correlation,
    interval,
    measured_sample,
    published_sample,
)
from tcpf_lab.report.contents.assemble import provenance, runs_left_out
from tcpf_lab.report.section import CellResult, Section, Source
from tcpf_lab.report.style import conditions
from tcpf_lab.results.layout import write_json
from tcpf_lab.spec.calibrated import label
from tcpf_lab.spec.model import Experiment

#: What each setting of the final check measured, by the setting's id.
Results = Mapping[str, Sequence[CellResult]]


def _experiments(search: Search, point: Point) -> Iterator[tuple[str, Experiment]]:
    """Yield the experiments at a setting by the names that the file has; what it refuses is not."""
    for experiment in search.subject.experiments:
        with suppress(SpecError):
            yield experiment.name, search.subject.at(experiment, point.values)


def validity(search: Search, chosen: Sequence[Point], results: Results) -> dict[str, Any]:
    """Count the runs of the final check, name those that are left out, say what made them."""
    sections = tuple(_sections(search, chosen, results))
    found = [result for section in sections for result in section.results]
    made = provenance(sections)
    return {
        "runs": {
            "requested": sum(result.n for result in found),
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
    """Yield the caveats of an outcome, in sentences.

    Parameters
    ----------
    search : Search
        Whose outcome it is.
    usable : int
        How many of its points have usable runs.
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


#: Digits that numbers are written with; more are rounding errors.
_DIGITS = 7


@dataclass(frozen=True)
class Estimates:
    """Results of the points of a search, before any setting is run with all seeds."""

    target: Target
    points: tuple[Point, ...]
    measured: Floats  #: logarithms, (points, cells, metrics)
    misfits: Misfit
    emulator: Emulator
    found: Profiles
    allowed: NDArray[np.bool_]  #: points that the threshold does not exclude
    chosen: tuple[Point, ...]
    left_out: tuple[str, ...]  #: published numbers that the emulator knows nothing of, in words


def find(search: Search) -> Estimates:
    """Analyse the points of a search.

    Raises
    ------
    LabError
        If too few of them have usable runs.
    """
    requested = search.target()
    points, measured = search.usable(search.ledger.points, requested)
    emulator = search.emulator(points, requested)
    target = requested.only(emulator.modelled)
    misfits, places = misfit(measured, target), units(points)
    calibration = search.subject.calibration
    found = profile.profiles(
        *(emulator, target, search.space, places), calibration.design.seed, calibration.independent
    )
    allowed = profile.plausible(emulator, target, places, found.threshold)
    tried = Tried(points, misfits.total, complete(measured, target), allowed)
    chosen = close_look(search, tried, found.within, Surface(emulator, target).expected)
    left_out = tuple(_left_out(requested, target))
    return Estimates(
        *(target, points, measured, misfits, emulator, found, allowed, chosen, left_out)
    )


def _left_out(requested: Target, target: Target) -> Iterator[str]:
    """Name the numbers that were to be fitted and are not."""
    lost = np.isfinite(requested.log_published) & ~np.isfinite(target.log_published)
    for place, (config, flows, case) in enumerate(requested.names):
        metrics = [m for m, gone in zip(requested.metrics, lost[place], strict=True) if gone]
        if metrics:
            yield f"{config} {flows} {case} ({', '.join(metrics)})"


def outcome(search: Search, findings: Estimates) -> dict[str, Any]:
    """Give everything that a report needs, as JSON has it."""
    calibration = search.subject.calibration
    # The uncalibrated setting need not be one of the usable points.
    usable = {p.id for p, ok in zip(findings.points, findings.allowed, strict=True) if ok}
    before = np.array([point.id in usable for point in findings.chosen])
    close = judged(search, findings.chosen, findings.target, before)
    best = close.best
    every = search.responses.cells
    results = {
        point.id: search.responses.results(point, every, calibration.check_.seeds)
        for point in findings.chosen
    }
    wanted = [*search.wanted(search.ledger.points), *wanted_of(search, findings.chosen)]
    requested, made = search.responses.counted(wanted)
    data = {
        **_asked(search),
        "seeds": {"points": calibration.seeds, "check": calibration.check_.seeds},
        "unknowns": list(_unknowns(search, findings)),
        "points": list(_points(search, findings, close)),
        "best": {"id": best.id, "values": dict(best.values)},
        "settings": list(_settings(search, findings, close, results)),
        "table": {"cells": [asdict(name) for name in every.names], "published": every.published},
        "experiments": [
            {"name": one.name, "config": label(one), "title": one.title, "part": part}
            for part, members in (("fit", search.subject.fit), ("test", search.subject.test))
            for one in members
        ],
        "validity": validity(search, findings.chosen, results),
        "threshold": findings.found.threshold,
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
        "unfinished": "; ".join(_unfinished(search, requested, made)) or None,
    }
    data["notes"] = [
        *notes(search, len(findings.points), findings.found.threshold, findings.left_out),
        *unusable(results),
        *not_compared(data["held_out"]),
    ]
    plain: dict[str, Any] = _plain(data)
    return plain


def _claims(search: Search, results: Results) -> list[dict[str, Any]]:
    """Judge the published claims; they are of this project's tables, not of a file's numbers."""
    if search.subject.calibration.published is not None or search.subject.permuted is not None:
        return []
    return claims(results, fit=[label(one) for one in search.subject.fit])


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


def _settings(
    search: Search, findings: Estimates, close: Judged, results: Results
) -> Iterator[dict[str, Any]]:
    """Yield what each setting measured, in the order of all cells, and with which TCP.

    ``unseen`` is its misfit with seeds new to the search; ``allowed``: whether its misfit is within
    ``judged_limit``. ``mean`` and ``half``, the half width of its 95 % confidence interval, are
    (cells, metrics); ``runs`` is how many each mean is made of.
    """
    metrics = search.cells.metrics
    judgements = zip(close.totals, close.unseen, close.allowed, strict=True)
    for point, (total, unseen, ok) in zip(findings.chosen, judgements, strict=True):
        known = dict(_experiments(search, point))
        tcp = [
            {"profile": one.tcp.profile, "linux22": list(one.tcp.behaviours), "sack": one.tcp.sack}
            for one in known.values()
        ]
        yield {
            "id": point.id,
            "values": dict(point.values),
            "misfit": total,
            "unseen": unseen,
            "allowed": ok,
            "mean": [[one.metrics[m].mean for m in metrics] for one in results[point.id]],
            "half": [[one.metrics[m].ci95 for m in metrics] for one in results[point.id]],
            "runs": [one.used for one in results[point.id]],
            "tcp": tcp[0] if tcp else None,
            "conditions": {name: conditions([one]) for name, one in known.items()},
        }


def _unfinished(search: Search, requested: int, complete: int) -> Iterator[str]:
    """Yield what a search lacks; of ``requested`` runs ``complete`` are complete."""
    points, every = search.ledger.points, search.subject.calibration.search.rounds
    rounds = max((point.round for point in points), default=0)
    if rounds < every:
        yield f"{rounds} of {every} rounds were proposed"
    if complete < requested:
        yield f"{requested - complete} of {requested} runs failed or are not made"


def write(search: Search, data: dict[str, Any]) -> None:
    """Write ``calibration.json``: the same bytes for the same points and runs."""
    make_directory(search.files.root)
    write_json(search.files.outcome, data)


def _unknowns(search: Search, findings: Estimates) -> Iterator[dict[str, Any]]:
    """Yield what each unknown is, and which of its values the published numbers do not exclude.

    Numbers of profiles are in base units; these are text, with their unit. ``default_at`` is the
    default's place in the unit interval.
    """
    unknowns = search.subject.calibration.unknowns.items()
    places = search.space.default.tolist()
    for (name, one), along, place in zip(unknowns, findings.found.profiles, places, strict=True):
        if one.levels:
            wide: dict[str, Any] = {"levels": list(one.levels)}
        else:
            low, high = map(one.text, one.ends)
            wide = {"from": low, "to": high, "scale": one.scale}
        yield {
            "name": name,
            "default": search.subject.defaults[name],
            "set": list(one.keys),
            "verdict": along.verdict,
            **({"times": one.times} if one.times else {}),
            **wide,
            "not_excluded": [" to ".join(_texts(search, name, ends)) for ends in along.pieces],
            "default_at": place,
        }


def _profiles(search: Search, findings: Estimates) -> Iterator[dict[str, Any]]:
    """Yield the profiles; ``texts`` are their values with units, as the experiments have them."""
    for along in findings.found.profiles:
        yield {**asdict(along), "texts": _texts(search, along.name, along.values)}


def _pairs(search: Search, findings: Estimates) -> Iterator[dict[str, Any]]:
    """Yield unknowns that make up for each other, their values as the experiments have them."""
    for pair in findings.found.pairs:
        texts = [_texts(search, *one)[0] for one in zip(pair.names, zip(pair.values), strict=True)]
        yield {**asdict(pair), "values": texts}


def _texts(search: Search, name: str, values: Iterable[float | str]) -> list[str]:
    """Give values of an unknown with their unit."""
    one = search.subject.calibration.unknowns[name]
    return [v if isinstance(v, str) else one.text(v) for v in values]


def _influence(search: Search, findings: Estimates) -> dict[str, dict[str, float]]:
    """Total-order Sobol' index of each unknown, by metric."""
    seed = search.subject.calibration.design.seed
    rows = profile.influence(findings.emulator, search.space, seed)
    names = list(search.subject.calibration.unknowns)
    return {
        metric: dict(zip(names, row.tolist(), strict=True))
        for metric, row in zip(search.cells.metrics, rows, strict=True)
    }


def _points(search: Search, findings: Estimates, close: Judged) -> Iterator[dict[str, Any]]:
    """Yield every point of the ledger; of one without usable runs neither misfit nor judgement.

    Points are excluded by the emulator, those run with all seeds by their own runs. A misfit is
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


#: The two settings that everything is said of.
BEFORE, AFTER = "default", "calibrated"


def held_out(
    cells: Cells, before: Sequence[CellResult], after: Sequence[CellResult]
) -> dict[str, dict[str, Any]]:
    """Give for each metric the root mean square of log(measured / published), before and after.

    Parameters
    ----------
    cells : Cells
        Of the experiments that are judged by.
    before, after : sequence of CellResult
        What the uncalibrated setting and the calibrated one measured, in the order of the cells.

    Returns
    -------
    dict
        By metric: ``default`` and ``calibrated`` with ``error`` and its 95 % ``interval`` over the
        seeds, and the ``ratio`` of the second to the first, of which the same seeds are resampled.
        All three are of the same cells: those that have runs under both settings, ``cells`` of the
        ``published`` ones.
    """
    samples = [measured_sample(results, SEED, RESAMPLES) for results in (before, after)]
    keys = [_key(name) for name in cells.names]
    seeds = [min((one.seeds[k] for k in keys if k in one.seeds), default=0) for one in samples]
    found = {}
    for column, metric in enumerate(cells.metrics):
        squares = [_squares(cells, sample, metric, column) for sample in samples]
        both = np.isfinite(squares[0]) & np.isfinite(squares[1])
        first, second = (_root_mean(one, both) for one in squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = second / first
        found[metric] = {
            BEFORE: _with_interval("error", first, seeds[0]),
            AFTER: _with_interval("error", second, seeds[1]),
            "ratio": _with_interval("error", ratio, min(seeds)),
            "cells": int(both[:, 0].sum()),
            "published": int(np.isfinite(cells.published[:, column]).sum()),
        }
    return found


def _key(name: CellName) -> CellKey:
    return CellKey(name.config, name.flows, name.case)


def _squares(cells: Cells, sample: Sample, metric: str, column: int) -> Floats:
    """Squares of log(measured / published) for each cell: of the mean, then of its resamples."""
    every = (sample.values(_key(name), metric) for name in cells.names)
    measured = np.stack([np.broadcast_to(one, (1 + RESAMPLES,)) for one in every])  # NaN: no runs
    logs = logged(measured[..., None], (metric,))[..., 0]
    squares: Floats = (logs - cells.log_published[:, column, None]) ** 2
    return squares


def _root_mean(squares: Floats, there: NDArray[np.bool_]) -> Floats:
    """Root mean square over the cells that are there, (1 + resamples,)."""
    count = there.sum(axis=0)
    sums = np.where(there, squares, 0.0).sum(axis=0)
    return np.where(count == 0, np.nan, np.sqrt(sums / np.maximum(count, 1)))


def _with_interval(name: str, values: Floats, seeds: int) -> dict[str, Any]:
    """Give a number, and its interval over the resamples behind it, if so many seeds have one."""
    spread = interval(values[1:], seeds)
    return {name: float(values[0]), "interval": None if spread is None else list(spread)}


def orders(
    cells: Cells, before: Sequence[CellResult], after: Sequence[CellResult]
) -> list[dict[str, Any]]:
    """Give Kendall's rank correlation with the published order of the cases, before and after.

    One entry for each block (configuration and number of flows) of two cases or more, and metric;
    both are of the cases that have runs under both settings, as many as ``cells`` says.
    """
    samples = [measured_sample(results, SEED, RESAMPLES) for results in (before, after)]
    blocks: dict[tuple[str, int], list[int]] = {}
    for place, name in enumerate(cells.names):
        blocks.setdefault((name.config, name.flows), []).append(place)
    found = []
    for (config, flows), places in blocks.items():
        for column, metric in enumerate(cells.metrics):
            there = [
                place
                for place in places
                if np.isfinite(cells.published[place, column])
                and all(metric in s.means.get(_key(cells.names[place]), {}) for s in samples)
            ]
            taus = (_tau(cells, sample, there, column) for sample in samples)
            about = {"config": config, "flows": flows, "metric": metric, "cells": len(there)}
            found.append({**about, **dict(zip((BEFORE, AFTER), taus, strict=True))})
    return found


def _tau(cells: Cells, sample: Sample, there: Sequence[int], column: int) -> dict[str, Any] | None:
    if len(there) < 2:
        return None
    keys = [_key(cells.names[place]) for place in there]
    values = np.stack([sample.values(key, cells.metrics[column]) for key in keys])
    taus = correlation(cells.published[there, column], values)
    if taus is None:
        return None
    return _with_interval("tau", taus, min(sample.seeds[key] for key in keys))


def not_compared(errors: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each part and metric of `held_out` that lacks cells."""
    for part, found in errors.items():
        for metric, one in found.items():
            if one["cells"] < one["published"]:
                yield (
                    f"{part}, {metric}: errors are of {one['cells']} of {one['published']} cells, "
                    "those with runs under both settings"
                )


def claims(
    results: Mapping[str, Sequence[CellResult]], fit: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Judge every published claim under each of several settings.

    Parameters
    ----------
    results : mapping of str to sequence of CellResult
        What each setting measured, by its id.
    fit : collection of str, optional
        Names of the configurations that were fitted.

    Returns
    -------
    list of dict
        A claim each: what it says, its verdict on the published tables, ``verdicts`` by setting,
        and ``part``: whether it reads cells of what was fitted alone (``fit``), of other
        configurations alone (``test``), or of ``both``; None without `fit`. Empty where none of
        the cells is one of the published tables.
    """
    found: dict[str, dict[str, Any]] = {}
    for point, measured in results.items():
        if not any(
            one.used and one.cell.published and one.cell.config in CONFIGS for one in measured
        ):
            continue
        for claim in compare(measured).claims:
            entry = {
                "id": claim.id,
                "statement": claim.statement,
                "published": str(claim.published.verdict),
                "verdicts": {},
            }
            found.setdefault(claim.id, entry)["verdicts"][point] = str(claim.ours.verdict)
    for one in CLAIMS:
        if one.id in found:
            found[one.id]["part"] = None if fit is None else part_of(one, fit)
    return list(found.values())


def part_of(claim: Claim[Check], fit: Collection[str]) -> str:
    """Say whether a claim reads cells of the fitted configurations alone, of others, or of both."""
    known = published_sample()
    configs: set[str] = set()

    def look(cell: CellKey, metric: str) -> Floats:
        configs.add(cell.config)
        return known.values(cell, metric)

    with np.errstate(divide="ignore", invalid="ignore"):
        for check in claim.checks:
            check.quantity(look)
    if configs.isdisjoint(fit):
        return "test"
    return "fit" if configs <= set(fit) else "both"


def unusable(results: Mapping[str, Sequence[CellResult]]) -> Iterator[str]:
    """Yield a sentence for each setting of which cells have no usable run."""
    for point, measured in results.items():
        lacking = [f"{r.cell.config} {r.cell.flows} {r.cell.case}" for r in measured if not r.used]
        if lacking:
            first, more = lacking[0], len(lacking) - 1
            rest = f" and {more} more cells" if more else ""
            yield f"point {point}: no usable run of {first}{rest}"


def before_and_after(search: Search, best: Point) -> dict[str, Any]:
    """Give the errors of both settings by part, and how far the cases stand in order by part.

    The parts are what the search saw, ``fit``; what it did not see, ``test``; and of that what
    nobody who chose the unknowns says to have looked at: ``blind`` is among them only if there is
    something in ``seen``, and {} if that is all of it.
    """
    subject, seeds = search.subject, search.subject.calibration.check_.seeds
    parts = {"fit": cells_of(subject, subject.fit)}
    if subject.test:
        cells = parts["test"] = cells_of(subject, subject.test)
        if seen := subject.calibration.seen:
            left = [place for place, name in enumerate(cells.names) if name.case not in seen]
            names = tuple(cells.names[place] for place in left)
            parts["blind"] = Cells(names, cells.metrics, cells.published[left])
    errors: dict[str, Any] = {part: {} for part in parts}
    taus: list[dict[str, Any]] = []
    for part, cells in parts.items():
        if cells.names:
            pair = [search.responses.results(p, cells, seeds) for p in (search.default, best)]
            errors[part] = held_out(cells, *pair)
            taus += [{"part": part, **one} for one in orders(cells, *pair)]
    return {"held_out": errors, "kendall": taus}

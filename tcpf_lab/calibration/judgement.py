"""What was found, held against the published numbers: errors, orders of the cases, claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.calibration.ledger import Point
from tcpf_lab.calibration.search import Search
from tcpf_lab.calibration.space import Floats
from tcpf_lab.calibration.target import CellName, Cells, cells_of, logged
from tcpf_lab.report.claims.judge import Check, Claim, ClaimResult
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.claims.terms import CLAIMS
from tcpf_lab.report.compare.published import RESAMPLES, SEED, compare
from tcpf_lab.report.compare.statistics import (
    CellKey,
    Sample,
    correlation,
    interval,
    measured_sample,
    published_sample,
)
from tcpf_lab.report.section import CellResult

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
    seeds = [_fewest(cells, sample) for sample in samples]
    found = {}
    for column, metric in enumerate(cells.metrics):
        squares = [_squares(cells, sample, metric, column) for sample in samples]
        both = np.isfinite(squares[0]) & np.isfinite(squares[1])
        errors = [_root_mean(one, both) for one in squares]
        told = {
            name: _told(error, number)
            for name, error, number in zip((BEFORE, AFTER), errors, seeds, strict=True)
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = errors[1] / errors[0]
        found[metric] = {
            **told,
            "ratio": _told(ratio, min(seeds)),
            "cells": int(both[:, 0].sum()),
            "published": int(np.isfinite(cells.published[:, column]).sum()),
        }
    return found


def _squares(cells: Cells, sample: Sample, metric: str, column: int) -> Floats:
    """Squares of log(measured / published) for each cell: of the mean, then of its resamples."""
    measured = np.stack([_values(sample, name, metric) for name in cells.names])
    logs = logged(measured[..., None], (metric,))[..., 0]
    squares: Floats = (logs - cells.log_published[:, column, None]) ** 2
    return squares


def _root_mean(squares: Floats, there: NDArray[np.bool_]) -> Floats:
    """Root mean square over the cells that are there, (1 + resamples,)."""
    count = there.sum(axis=0)
    sums = np.where(there, squares, 0.0).sum(axis=0)
    return np.where(count == 0, np.nan, np.sqrt(sums / np.maximum(count, 1)))


def _values(sample: Sample, name: CellName, metric: str) -> Floats:
    """Mean and resamples of a cell, as many as of any other: NaN where it has no runs."""
    return np.broadcast_to(sample.values(_key(name), metric), (1 + RESAMPLES,))


def _key(name: CellName) -> CellKey:
    return CellKey(name.config, name.flows, name.case)


def _fewest(cells: Cells, sample: Sample) -> int:
    return min((sample.seeds[_key(n)] for n in cells.names if _key(n) in sample.seeds), default=0)


def _told(values: Floats, seeds: int) -> dict[str, Any]:
    spread = interval(values[1:], seeds)
    return {"error": float(values[0]), "interval": None if spread is None else list(spread)}


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
    return [
        _order(cells, samples, block, places, column)
        for block, places in blocks.items()
        for column in range(len(cells.metrics))
    ]


def _order(
    cells: Cells,
    samples: Sequence[Sample],
    block: tuple[str, int],
    places: Sequence[int],
    column: int,
) -> dict[str, Any]:
    metric = cells.metrics[column]
    there = [
        place
        for place in places
        if np.isfinite(cells.published[place, column])
        and all(metric in sample.means.get(_key(cells.names[place]), {}) for sample in samples)
    ]
    taus = (_tau(cells, sample, there, column) for sample in samples)
    return {
        "config": block[0],
        "flows": block[1],
        "metric": metric,
        "cells": len(there),
        **dict(zip((BEFORE, AFTER), taus, strict=True)),
    }


def _tau(cells: Cells, sample: Sample, there: Sequence[int], column: int) -> dict[str, Any] | None:
    metric, known = cells.metrics[column], cells.published[:, column]
    if len(there) < 2:
        return None
    keys = [_key(cells.names[place]) for place in there]
    taus = correlation(known[there], np.stack([sample.values(key, metric) for key in keys]))
    if taus is None:
        return None
    spread = interval(taus[1:], min(sample.seeds[key] for key in keys))
    return {"tau": float(taus[0]), "interval": None if spread is None else list(spread)}


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
            entry = found.setdefault(claim.id, _claim(claim))
            entry["verdicts"][point] = str(claim.ours.verdict)
    for one in CLAIMS:
        if one.id in found:
            found[one.id]["part"] = None if fit is None else part_of(one, fit)
    return list(found.values())


def _claim(claim: ClaimResult) -> dict[str, Any]:
    return {
        "id": claim.id,
        "statement": claim.statement,
        "published": str(claim.published.verdict),
        "verdicts": {},
    }


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


#: The parts of the numbers: what the search saw, what it did not see, and of that what nobody who
#: chose the unknowns says to have looked at.
FIT, TEST, BLIND = "fit", "test", "blind"


def before_and_after(search: Search, best: Point) -> dict[str, Any]:
    """Give the errors of both settings by part, and how far the cases stand in order by part.

    ``blind`` is among them only if there is something in ``seen``, and {} if that is all of it.
    """
    seeds = search.subject.calibration.check_.seeds
    errors: dict[str, Any] = {}
    taus: list[Any] = []
    for part, cells in _parts(search):
        if not cells.names:
            errors[part] = {}
            continue
        pair = [search.responses.results(p, cells, seeds) for p in (search.default, best)]
        errors[part] = held_out(cells, *pair)
        taus += [{"part": part, **one} for one in orders(cells, *pair)]
    return {"held_out": errors, "kendall": taus}


def _parts(search: Search) -> Iterator[tuple[str, Cells]]:
    subject = search.subject
    yield FIT, cells_of(subject, subject.fit)
    if not subject.test:
        return
    cells = cells_of(subject, subject.test)
    yield TEST, cells
    if seen := subject.calibration.seen:
        left = [place for place, name in enumerate(cells.names) if name.case not in seen]
        names = tuple(cells.names[place] for place in left)
        yield BLIND, Cells(names, cells.metrics, cells.published[left])

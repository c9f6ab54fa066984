"""How the search of a calibration went, in sentences: runs, misfits, lack of fit, noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from tcpf_lab.calibration import tables
from tcpf_lab.calibration.record import Record
from tcpf_lab.report.contents.model import count, listed

#: How sure it must be that no setting fits, and of the intervals of means.
_CONFIDENCE = 0.95


def told_of_search(record: Record) -> Iterator[str]:
    """Yield how much was run, and what the misfit came to."""
    points = record.told["points"]
    rounds = max(one["round"] for one in points)
    design = sum(one["round"] == 0 for one in points)
    parts = f"{design} of them the design, the others in {count(rounds, 'round')}"
    yield (
        f"{count(len(points), 'point')}, {parts if rounds else 'all of the design'}; "
        f"{count(record.told['runs'], 'run')}."
    )
    if record.cost:
        wall, made = (sum(one.get(key, 0) for one in record.cost) for key in ("wall_s", "made"))
        yield f"Wall time {tables.duration(wall)}, {count(made, 'run')} made in it."
    else:
        yield "How long that took is not known: cost.json is missing."
    yield from _told_of_misfits(record)
    yield _told_of_lack(record)
    yield told_of_noise(record)


def _told_of_misfits(record: Record) -> Iterator[str]:
    """Yield the least misfit of the points that have measured everything, beside what is right."""
    points = record.told["points"]
    misfits = {one["id"]: one["misfit"] for one in points if record.whole(one)}
    threshold = record.told["threshold"]
    right = (
        f"a setting that is right has about {threshold['residuals']}, the number of residuals; "
        f"the threshold of the profiles is {threshold['limit']:.0f}, of what the emulator expects."
    )
    if misfits:
        least = min(misfits, key=lambda point: misfits[point])
        uncalibrated = misfits.get(record.default["id"])
        was = "" if uncalibrated is None else f", of the uncalibrated setting {uncalibrated:.0f}"
        yield f"The least misfit is {misfits[least]:.0f} (point {least}){was}; {right}"
    else:
        yield f"No point has measured every cell; {right}"
    partial = sum(one["misfit"] is not None for one in points) - len(misfits)
    if partial:
        yield (
            f"The misfit of {count(partial, 'point')} that cannot be compared is in part a guess: "
            "cells have no usable run."
        )


def _told_of_lack(record: Record) -> str:
    """Say whether the lack of fit has widened the intervals, and whether chance explains it.

    The intervals are widened once the least misfit per free residual exceeds what it should be;
    that alone is no evidence, as the misfit of a right setting is spread like chi-squared.
    """
    from scipy.special import chdtri  # here, because the command line starts without scipy

    threshold = record.told["threshold"]
    worth = threshold["residuals"] / threshold.get("effective", threshold["residuals"])
    least, scale = threshold["least"], threshold["scale"]
    if scale <= worth * (1 + 1e-6):  # numbers of the file are rounded
        return ""
    told = (
        "For lack of fit all variances are taken to be larger by the factor "
        f"{scale / worth:.3g}, which widens the intervals."
    )
    free = least / scale  # residuals without unknowns; one is left if there are no more
    if free < 1 + 1e-6:
        return f"{told} There are too few residuals to say whether chance would do."
    if least / worth > float(chdtri(free, 1 - _CONFIDENCE)):
        return (
            f"As far as the emulator knows, no setting of these unknowns gives the published "
            f"numbers: the least misfit that it expects is {least:.0f}. {told}"
        )
    return f"{told} A least misfit as large may be chance."


def told_of_noise(record: Record) -> str:
    """Say how much seeds differ under the other settings looked at, beside the uncalibrated one.

    The search takes the uncalibrated setting's noise for that of every point.
    """
    found = []
    for column, metric in enumerate(record.metrics):
        ratios = [
            (one / default) ** 2
            for pair in ((setting, record.default) for setting in record.told["settings"][1:])
            for one, default in zip(*(_spreads(one, column) for one in pair), strict=True)
            if one is not None and default
        ]
        if ratios:
            found.append(f"{median(ratios):.2g} for {tables.word(metric)}")
    if not found:
        return ""
    return (
        "The noise of every number was taken from the uncalibrated setting. Under the others that "
        "were looked at, seeds differ with a variance that is to this one, as a median over cells, "
        f"{listed(found)}."
    )


def _spreads(setting: Mapping[str, Any], column: int) -> list[float | None]:
    """Give the standard deviation of each cell's runs in units of its mean, if there are two.

    The width of an interval will not do: it depends on how many runs there are.
    """
    from scipy.special import stdtrit

    found: list[float | None] = []
    if "mean" not in setting:
        return found
    own = (setting[key] for key in ("mean", "half", "runs"))
    for mean, half, runs in zip(*own, strict=True):
        if not mean[column] or half[column] is None or runs < 2:
            found.append(None)
            continue
        quantile = float(stdtrit(runs - 1, (1 + _CONFIDENCE) / 2))
        found.append(half[column] * math.sqrt(runs) / quantile / mean[column])
    return found

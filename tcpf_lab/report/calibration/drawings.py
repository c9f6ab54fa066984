"""The figures of a calibration by their names, with the numbers behind them and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING, Any

from tcpf_lab.report.calibration.record import Record
from tcpf_lab.report.calibration.tables import word
from tcpf_lab.report.contents.words import count
from tcpf_lab.report.papers.page import Drawing, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Panels that have room on a page.
_PANELS = 12


def drawings(record: Record) -> tuple[Drawing, ...]:
    """Give every figure: profiles of the unknowns, influence, the way of the search."""
    return (*profiles(record), influence(record), convergence(record))


def subtitle(record: Record) -> str:
    """Say what was fitted to what, with how many points."""
    points = count(len(record.told["points"]), "point")
    return f"Fitted to {record.labels(record.told['fit'])}, {points}"


def profiles(record: Record) -> Iterator[Drawing]:
    """Yield the profiles, so many to a figure as have room on a page."""
    found = list(zip(record.told["profiles"], record.told["unknowns"], strict=True))
    parts = ceil(len(found) / _PANELS)
    size = ceil(len(found) / parts)
    for number in range(parts):
        own = found[number * size : (number + 1) * size]
        name = "profiles" if parts == 1 else f"profiles-{number + 1}"
        of = f" ({number + 1} of {parts})" if parts > 1 else ""
        yield Drawing(
            name,
            f"What the published numbers pin down{of}",
            "Along each unknown the least misfit with all others free, as the emulator expects "
            "it, and how low it may be. Grey is what is not excluded: where the lower edge of the "
            "band is below the threshold.",
            tuple(point for one, _ in own for point in _along(one)),
            lambda own=own: _draw_profiles(record, own),  # type: ignore[misc]
            axis="Least misfit",
            place=_places([one for one, _ in own]),
        )


def _along(one: Mapping[str, Any]) -> Iterator[Point]:
    for series in ("expected", "possible"):
        for unit, value in zip(one["units"], one[series], strict=True):
            yield Point(series, unit, (value,), one["name"])


def _places(found: Sequence[Mapping[str, Any]]) -> Any:
    known = {
        (one["name"], unit): str(text)
        for one in found
        for unit, text in zip(one["units"], one.get("texts") or one["values"], strict=True)
    }
    return lambda point: f"at {known[point.panel, point.x]}"


def _draw_profiles(
    record: Record, own: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Figure:
    from tcpf_lab.report.calibration.figures import profiles_figure, scale_of

    limit = record.told["threshold"]["limit"]
    defaults = [unknown.get("default_at") for _, unknown in own]
    scale = scale_of(record.told["profiles"], limit)
    return profiles_figure([one for one, _ in own], limit, defaults, subtitle(record), scale)


def influence(record: Record) -> Drawing:
    """Give the heat map of influence."""
    shares: Mapping[str, Mapping[str, float | None]] = record.told["influence"]
    told = _span(record)
    return Drawing(
        "influence",
        "Which unknown moves which metric",
        "Total-order Sobol' indices of the emulator: the share of a metric's variance over the "
        "ranges that would be left if all other unknowns were known. They say nothing of the "
        "published numbers.",
        tuple(
            Point(unknown, 0.0, (share,), word(metric))
            for metric, row in shares.items()
            for unknown, share in row.items()
            if share is not None
        ),
        lambda: _draw_influence(record, told),
        axis="Total-order index",
        place=lambda _: "of the variance",
    )


def _span(record: Record) -> str:
    return f"Total-order indices over the ranges, cells of {record.labels(record.told['fit'])}"


def _draw_influence(record: Record, told: str) -> Figure:
    from tcpf_lab.report.calibration.figures import influence_figure

    shares = record.told["influence"]
    rows = [
        [_number(shares[metric][unknown]) for unknown in record.unknowns]
        for metric in record.metrics
    ]
    return influence_figure(rows, record.unknowns, record.metrics, told)


def convergence(record: Record) -> Drawing:
    """Give the misfit of every point in the order of the search.

    Only points that have measured every cell count for the least: of others it is part a guess.
    """
    found = [(_number(one["misfit"]), record.whole(one)) for one in record.searched]
    numbered = [(at, *one) for at, one in enumerate(found, 1) if isfinite(one[0])]
    whole = [(at, value) for at, value, there in numbered if there]
    partial = [(at, value) for at, value, there in numbered if not there]
    least = [(at, min(v for _, v in whole[: k + 1])) for k, (at, _) in enumerate(whole)]
    rings = " Rings are points of which cells have no usable run." if partial else ""
    return Drawing(
        "convergence",
        "How the search went",
        "The misfit of every point; round 0 is the design. A setting that is right has a misfit "
        "near the number of residuals. The threshold is that of the profiles, which is about what "
        f"the emulator expects: a single point above or below it decides nothing.{rings}",
        tuple(
            Point(series, at, (value,))
            for series, values in (
                ("misfit of a point", whole),
                ("of a point that lacks cells", partial),
                ("least so far", least),
            )
            for at, value in values
        ),
        lambda: _draw_convergence(record),
        axis="Misfit",
        place=lambda point: f"at point {point.x:.0f}",
    )


def _draw_convergence(record: Record) -> Figure:
    from tcpf_lab.report.calibration.figures import Course, convergence_figure

    points, threshold = record.searched, record.told["threshold"]
    ids = [one["id"] for one in points]
    default = record.default["id"]
    course = Course(
        [_number(one["misfit"]) for one in points],
        [record.whole(one) for one in points],
        [one["round"] for one in points],
        ids.index(default) if default in ids else None,
    )
    residuals, limit = threshold["residuals"], threshold["limit"]
    return convergence_figure(course, residuals, limit, subtitle(record))


def _number(value: float | None) -> float:
    return nan if value is None else float(value)

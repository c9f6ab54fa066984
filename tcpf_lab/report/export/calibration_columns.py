"""The columns of the frames that a calibration has."""

from __future__ import annotations

from tcpf_lab.report.export.columns import Column, Kind, Layout

_SOURCE = "`calibration.json`"
_Row = tuple[str, Kind, str]
_PART: _Row = ("part", "text", "`fit`, which the search saw, or `test`, which was held out")
_PART_OF_ERRORS: _Row = ("part", "text", f"{_PART[2]}, or `blind`, that without cases of `seen`")
_UNKNOWN: _Row = ("unknown", "text", "its name")
_METRIC: _Row = ("metric", "text", "name of the metric")


def _columns(*rows: _Row) -> tuple[Column, ...]:
    return tuple(Column(name, kind, "", meaning, _SOURCE) for name, kind, meaning in rows)


def _maybe(*rows: _Row) -> tuple[Column, ...]:
    return tuple(Column(name, kind, "", meaning, _SOURCE, True) for name, kind, meaning in rows)


def _with_interval(name: str, meaning: str) -> tuple[_Row, ...]:
    return (
        (name, "number", meaning),
        (f"{name}_low", "number", "lower end of its 95 % interval over seeds"),
        (f"{name}_high", "number", "upper end"),
    )


UNKNOWNS = Layout(
    "calibration_unknowns",
    "unknown",
    _columns(
        _UNKNOWN,
        ("range", "text", "what was searched: two ends, or the levels"),
        ("default", "text", "value of the uncalibrated experiments"),
        ("best", "text", "value of the best setting"),
        ("not_excluded", "text", "what the published numbers do not exclude"),
        ("verdict", "text", "`pinned down`, `bounded from above`, `not identified`, and so on"),
        ("share", "number", "part of the range that is not excluded"),
    ),
)

PROFILES = Layout(
    "calibration_profiles",
    "unknown and value",
    _columns(
        _UNKNOWN,
        ("value", "text", "its value, with its unit"),
        ("at", "number", "its place in the range, from 0 to 1"),
        ("expected", "number", "least misfit that the emulator expects, all others free"),
        ("possible", "number", "least misfit that the emulator does not exclude"),
        ("excluded", "truth", "whether that is above the threshold"),
    ),
)

POINTS = Layout(
    "calibration_points",
    "point of the search",
    (
        *_columns(
            ("point", "text", "its id"),
            ("round", "count", "round that it was proposed in; 0 is the design"),
        ),
        *_maybe(("misfit", "number", "sum of squared residuals; none without usable runs")),
        *_columns(
            ("complete", "truth", "whether every cell has a usable run; else `misfit` is a guess"),
        ),
        *_maybe(
            ("excluded", "truth", "whether the published numbers exclude it; none if not known"),
        ),
    ),
)

VALUES = Layout(
    "calibration_values",
    "point of the search and unknown",
    _columns(("point", "text", "its id"), _UNKNOWN, ("value", "text", "its value, with its unit")),
)

CELLS = Layout(
    "calibration_cells",
    "cell and metric",
    (
        *_columns(
            _PART,
            ("config", "text", "configuration, or experiment"),
            ("case", "text", "marker and queue"),
            ("flows", "count", "TCP connections that send at the same time"),
            _METRIC,
            ("unit", "text", "its unit"),
        ),
        *_maybe(
            ("published", "number", "what is printed, in `unit`"),
            ("default", "number", "mean of the uncalibrated setting"),
            ("default_ci95", "number", "half width of its 95 % confidence interval"),
            ("best", "number", "mean of the best setting"),
            ("best_ci95", "number", "half width of its 95 % confidence interval"),
        ),
    ),
)

HELD_OUT = Layout(
    "calibration_held_out",
    "part and metric",
    (
        *_columns(_PART_OF_ERRORS, _METRIC),
        *_maybe(
            *_with_interval("default", "root mean square of log(measured / published) before"),
            *_with_interval("calibrated", "the same of the best setting"),
            *_with_interval("ratio", "the second over the first"),
        ),
    ),
)

TAU = Layout(
    "calibration_tau",
    "block of cases and metric",
    (
        *_columns(
            _PART_OF_ERRORS,
            ("config", "text", "configuration, or experiment"),
            ("flows", "count", "TCP connections that send at the same time"),
            _METRIC,
        ),
        *_maybe(
            ("default", "number", "Kendall's tau with the published order, uncalibrated"),
            ("calibrated", "number", "the same of the best setting"),
            ("calibrated_low", "number", "lower end of its 95 % interval"),
            ("calibrated_high", "number", "upper end"),
        ),
    ),
)

CLAIMS = Layout(
    "calibration_claims",
    "claim of the papers",
    _columns(
        ("claim", "text", "its name"),
        ("statement", "text", "what must be true, thresholds included"),
        ("part", "text", "numbers that it reads: of `fit`, of `test`, of `both`; empty: not known"),
        ("published_verdict", "text", "verdict on the papers' own tables"),
        ("default_verdict", "text", "verdict on the uncalibrated setting"),
        ("verdict", "text", "verdict on the best setting"),
        ("holding", "count", "plausible settings that it holds under"),
        ("refuted", "count", "plausible settings that it is refuted under"),
        ("settings", "count", "plausible settings"),
        (
            "kind",
            "text",
            "of those with the runs it takes: holds under `every`; under some, else within noise "
            "(`not refuted`); under `some`, refuted under others; refuted, holds under `none`; "
            "only `noise`; or `not decidable`",
        ),
    ),
)

INFLUENCE = Layout(
    "calibration_influence",
    "unknown and metric",
    (
        *_columns(_UNKNOWN, _METRIC),
        *_maybe(("index", "number", "total-order Sobol' index over the ranges")),
    ),
)

#: What `tcpf_lab.load_calibration` gives, in this order.
CALIBRATION_FRAMES = (
    *(UNKNOWNS, PROFILES, POINTS, VALUES, CELLS, HELD_OUT, TAU, CLAIMS, INFLUENCE),
)

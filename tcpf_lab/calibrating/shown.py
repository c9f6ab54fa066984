"""A calibration on a terminal: the unknowns, the errors, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tcpf_lab.calibrating.judgement import AFTER, BEFORE
from tcpf_lab.report.calibration.page import told_of_claims
from tcpf_lab.report.calibration.record import Record


def outcome(told: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what is printed of ``calibration.json``."""
    yield _unknowns(told)
    for which in ("fit", "test", "blind"):
        if told["held_out"].get(which):
            yield Text()
            yield _errors(told, which)
    if told["claims"]:
        yield Text()
        yield Text(told_of_claims(Record(told, (), Path())))
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
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


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


def _unknowns(told: Mapping[str, Any]) -> Table:
    table = _table("unknown", "range", "default", "best", "not excluded", "verdict")
    for one in told["unknowns"]:
        wide = ", ".join(one["levels"]) if "levels" in one else f"{one['from']} to {one['to']}"
        best = told["best"]["values"][one["name"]]
        left = ", ".join(one["not_excluded"]) or "nothing"
        table.add_row(*map(Text, (one["name"], wide, one["default"], best, left, one["verdict"])))
    return table


def _errors(told: Mapping[str, Any], which: str) -> Table:
    names = " ".join(told["fit" if which == "fit" else "test"])
    title = "fitted" if which == "fit" else "held out"
    if which == "blind":
        names += f" without {', '.join(told['seen'])}"
    table = _table(f"error, {title}: {names}", "uncalibrated", "calibrated", "ratio", "cells")
    for metric, found in told["held_out"][which].items():
        row = [_with_interval(found[key]) for key in (BEFORE, AFTER, "ratio")]
        table.add_row(*map(Text, (metric, *row, f"{found['cells']} of {found['published']}")))
    return table


def _with_interval(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return "-"
    text = f"{found['error']:.3f}"
    low, high = found["interval"] or (None, None)
    return text if low is None or high is None else f"{text} ({low:.3f} to {high:.3f})"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table

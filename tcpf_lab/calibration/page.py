"""Page of a calibration: sentences, tables and figures, from its file alone.

The words are in ``templates``: `page.md.j2` has the page, block by block. Here are the rows of its
tables, and what the sentences count; and what a terminal shows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.console import RenderableType
from rich.text import Text as RichText

from tcpf_lab.calibration import figures
from tcpf_lab.calibration.record import (
    CLAIM_PARTS,
    KINDS,
    ORDER,
    PARTS,
    PINNED,
    ClaimUnder,
    Record,
    claims_under,
    ranges,
    word,
)
from tcpf_lab.report.claims.page import Block, Page, Table, Text
from tcpf_lab.report.contents.model import count, listed, sentence
from tcpf_lab.report.results_table import printed
from tcpf_lab.report.section import Estimate
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING, Column, Entry, fixed, plain, ratios, table_of
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS

#: The page's file.
NAME = "calibration"
#: A rank correlation from here on is nearly the published order.
_NEARLY = 0.9
#: How sure it must be that no setting fits, and of the intervals of means.
_CONFIDENCE = 0.95
#: The first line of a table in a template: name, columns that are aligned to the left, headings.
_TABLE = re.compile(r"table (\w+), (\d+) left: (.+)")
#: White space of a value, which is kept as it is; that of a template only ends words and blocks.
_KEPT = str.maketrans({" ": "\ue000", "\n": "\ue001"})
_AS_IT_WAS = str.maketrans({"\ue000": " ", "\ue001": "\n"})
_COUNTED = {
    "every": "holding under every setting that can judge them",
    "not refuted": "holding under some and within noise under the others",
    "some": "holding under some and refuted under others",
    "none": "refuted and holding under none",
    "noise": "not beyond noise",
    "not decidable": "not decidable (other cells, or no usable run)",
}


def build(record: Record, changed: Sequence[str] = (), again: str = "") -> Page:
    """Give the page on a calibration, which does not know what ``changed`` says.

    ``again`` is the command that concludes again.
    """
    found = blocks("page.md.j2", record=record, data=record.data, changed=changed, again=again)
    return Page(NAME, record.title, tuple(_built(record, found)))


def _built(record: Record, found: Iterable[Text]) -> Iterator[Block]:
    """Put tables and figures where the page names them."""
    for block in found:
        table = _TABLE.fullmatch(block.heading)
        if table:
            columns = tuple(table[3].split(" | "))
            yield Table(table[1], columns, tuple(ROWS[table[1]](record)), block.text, int(table[2]))
        elif block.heading.startswith("figure "):
            yield from figures.FIGURES[block.heading.removeprefix("figure ")](record)
        else:
            yield block


def blocks(template: str, **known: Any) -> Iterator[Text]:
    """Yield the blocks of a template, which end at blank lines.

    What stands in its first line alone - ``## Heading``, ``table ...``, ``figure ...`` - is the
    heading of a block. No value makes a heading or ends a block, whatever is in it.
    """
    for block in re.split(r"\n\s*\n", _environment().get_template(template).render(known).strip()):
        first, _, rest = block.strip().partition("\n")
        if not re.match("## |table |figure ", first):
            first, rest = "", block
        heading = first.removeprefix("## ").strip().translate(_AS_IT_WAS)
        if text := _joined(rest).translate(_AS_IT_WAS):
            yield Text(text, heading)
        elif heading:
            yield Text("", heading)


def paragraph(template: str, record: Record) -> str:
    """Give all that a template says of a calibration as one paragraph."""
    return " ".join(block.text for block in blocks(template, record=record, data=record.data))


@cache
def _environment() -> Environment:
    """Give an environment in which values, and they alone, keep their white space."""
    environment = Environment(
        loader=PackageLoader("tcpf_lab.calibration"),
        autoescape=True,  # tells values, which `_kept` gets, from what a template has made of some
        finalize=_kept,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own: tuple[Callable[..., Any], ...] = (
        *(count, listed, sentence, word, claims_under, sides, verdicts, counted_kinds, in_order),
        *(seeds, qualities, duration, lack_of_fit, noise_ratios),
    )
    environment.globals |= {function.__name__: function for function in own}
    environment.globals |= {"ORDER": ORDER, "CLAIM_PARTS": CLAIM_PARTS, "NEARLY": _NEARLY}
    environment.filters["paragraph"] = lambda text: Markup(f"{_joined(text)}\n\n")
    return environment


def _kept(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(str(value).translate(_KEPT))


def _joined(text: str) -> str:
    return re.sub(r"[ \n]+", " ", text).strip()


def verdicts(record: Record) -> list[str]:
    """Count the verdicts on the unknowns, and name what is pinned down."""
    counts = Counter(one["verdict"] for one in record.data["unknowns"])
    pinned = [one["name"] for one in record.data["unknowns"] if one["verdict"] == PINNED]
    named = f" ({', '.join(pinned)})" if pinned else ""
    return [f"{n} {verdict}{named * (verdict == PINNED)}" for verdict, n in counts.most_common()]


def sides(record: Record, found: Mapping[str, Any]) -> str:
    """Say which way the error of each metric has gone."""
    by_side: dict[str, list[str]] = {}
    for metric, one in record.by_metric(found):
        error = one["ratio"]["error"]
        ratio = "" if error is None else f" (ratio {ratios(error)[0]})"
        by_side.setdefault(_side(one["ratio"]), []).append(f"{word(metric)}{ratio}")
    return "; ".join(f"{side} for {listed(metrics)}" for side, metrics in by_side.items())


def _side(ratio: Mapping[str, Any]) -> str:
    """Say which way an error has gone: noise decides nothing."""
    low, high = ratio["interval"] or (None, None)
    if low is None or high is None:
        return "no interval"
    return "smaller" if high < 1 else "larger" if low > 1 else "no difference beyond noise"


def in_order(record: Record, part: str) -> list[str]:
    """Say for each metric in how many blocks of a part the cases stand nearly in order.

    Counted are blocks that have both numbers, before and after.
    """
    found = []
    for metric in record.metrics:
        known = [
            taus
            for one in record.data["kendall"]
            if (one["part"], one["metric"]) == (part, metric)
            and None not in (taus := [_tau(one, side) for side in ("default", "calibrated")])
        ]
        if known:
            before, after = (
                sum(tau >= _NEARLY for tau in side) for side in zip(*known, strict=True)
            )
            blocks_ = count(len(known), "block")
            found.append(f"{word(metric)} in {after} of {blocks_}, uncalibrated in {before}")
    return found


def _tau(one: Mapping[str, Any], side: str) -> Any:
    return (one[side] or {}).get("tau")


def counted_kinds(own: Sequence[ClaimUnder]) -> str:
    """Count the claims of each kind, without kinds that there are none of."""
    counts = Counter(one.kind for one in own)
    return listed(f"{counts[kind]} {words}" for kind, words in _COUNTED.items() if counts[kind])


class Lack(NamedTuple):
    """Whether chance explains that nothing fits, and by what factor variances are enlarged."""

    verdict: str
    factor: float


def lack_of_fit(record: Record) -> Lack:
    """Say whether the lack of fit has widened the intervals, and whether chance explains it.

    The intervals are widened once the minimum misfit per free residual exceeds what it should be;
    that alone is no evidence, as the misfit of a right setting is spread like chi-squared.
    """
    from scipy.special import chdtri  # here, because the command line starts without scipy

    threshold = record.data["threshold"]
    worth = threshold["residuals"] / threshold.get("effective", threshold["residuals"])
    least, scale = threshold["least"], threshold["scale"]
    if scale <= worth * (1 + 1e-6):  # numbers of the file are rounded
        return Lack("", 1.0)
    free = least / scale  # residuals without unknowns; one is left if there are no more
    if free < 1 + 1e-6:
        return Lack("too few", scale / worth)
    beyond = least / worth > float(chdtri(free, 1 - _CONFIDENCE))
    return Lack("no setting" if beyond else "chance", scale / worth)


def noise_ratios(record: Record) -> list[str]:
    """Say how much seeds differ under the other settings looked at, beside the uncalibrated one.

    The search takes the uncalibrated setting's noise for that of every point.
    """
    found = []
    for column, metric in enumerate(record.metrics):
        default = _spreads(record.default, column)
        squares = [
            (one / before) ** 2
            for setting in record.data["settings"][1:]
            for one, before in zip(_spreads(setting, column), default, strict=True)
            if one is not None and before
        ]
        if squares:
            found.append(f"{median(squares):.2g} for {word(metric)}")
    return found


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


def seeds(record: Record) -> str:
    """Say of how many seeds the means of the uncalibrated setting and the best are."""
    runs = [n for setting in (record.default, record.best) for n in setting.get("runs", ()) if n]
    if not runs:
        return count(record.data["seeds"]["check"], "seed")
    least, most = min(runs), max(runs)
    return count(most, "seed") if least == most else f"{least} to {most} seeds"


def duration(seconds: float) -> str:
    """Give a time in hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


Rows = Iterator[tuple[str, ...]]


def _space(record: Record) -> Rows:
    """Yield what was unknown: the ranges, the uncalibrated values, and what is set."""
    for one in record.data["unknowns"]:
        times = f", times {one['times']}" if one.get("times") else ""
        set_ = f"{', '.join(map(str, one['set']))}{times}"
        yield one["name"], ranges(one), one["default"], set_


def _unknowns(record: Record) -> Rows:
    """Yield the verdict on each unknown."""
    best = record.data["best"]["values"]
    for one in record.data["unknowns"]:
        left = ", ".join(one["not_excluded"]) or "nothing"
        yield one["name"], one["default"], best[one["name"]], left, one["verdict"]


def _pairs(record: Record) -> Rows:
    """Yield the pairs of unknowns that make up for each other."""
    for one in record.data["pairs"]:
        first, second = map(": ".join, zip(one["names"], one["values"], strict=True))
        yield first, second, *(f"{misfit:.0f}" for misfit in (*one["alone"], one["both"]))


def _errors(record: Record) -> Rows:
    """Yield the errors of the fitted and the held-out numbers, before and after."""
    for part in ORDER:
        for metric, found in record.by_metric(record.data["held_out"].get(part, {})):
            errors = (_with_interval(found[side]) for side in ("default", "calibrated"))
            yield record.part_name(part), word(metric), *errors, _ratio(found["ratio"])


def _variants(record: Record) -> Rows:
    """Yield the errors of the search's variants: what each fitted, and what it did not see."""
    for one in record.variants:
        for part in ("test", "fit"):
            if found := one["held_out"].get(part):
                errors = (
                    _with_interval(found[metric]["calibrated"]) if metric in found else NOTHING
                    for metric in record.metrics
                )
                yield str(one["variant"]), PARTS[part], *errors


def _with_interval(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return NOTHING
    return f"{fixed(found['error'], 3)}{_spread(found['interval'], 3)}"


def _spread(interval: Sequence[float | None] | None, places: int) -> str:
    low, high = interval or (None, None)
    return (
        "" if low is None or high is None else f" ({fixed(low, places)} to {fixed(high, places)})"
    )


def _ratio(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return NOTHING
    low, high = found["interval"] or (None, None)
    if low is None or high is None:
        return ratios(found["error"])[0]
    value, low, high = ratios(found["error"], low, high)
    return f"{value} ({low} to {high})"


def _orders(record: Record) -> Rows:
    """Yield Kendall's tau of each block before and after."""
    found: dict[tuple[str, int, str], dict[str, str]] = {}
    for one in record.data["kendall"]:
        before, after = (
            NOTHING if (tau := _tau(one, side)) is None else fixed(tau, 2)
            for side in ("default", "calibrated")
        )
        block = found.setdefault((one["config"], one["flows"], one["part"]), {})
        spread = _spread((one["calibrated"] or {}).get("interval"), 2)
        block[one["metric"]] = f"{before} → {after}{spread}"
    for config, flows, part in sorted(found, key=lambda key: ORDER.index(key[2])):
        taus = (found[config, flows, part].get(metric, NOTHING) for metric in record.metrics)
        yield record.part_name(part), f"{config}, {flows} flows", *taus


def cell_entries(record: Record) -> Iterator[tuple[str, str, list[tuple[str, str, Entry]]]]:
    """Yield block, case, and for each metric the published, uncalibrated and best number."""
    parts = {one["name"]: one["part"] for one in record.data.get("experiments", ())}
    for place, cell in enumerate(record.cells()):
        part = PARTS.get(parts.get(cell["experiment"], ""), "")
        where = f"{record.label(cell['experiment'])}, {cell['flows']} flows"
        numbers = []
        for column, metric in enumerate(record.metrics):
            known = record.data["table"]["published"][place][column]
            before, after = (
                _printed(setting, place, column, metric)
                for setting in (record.default, record.best)
            )
            numbers.append((NOTHING if known is None else f"{known:g}", before.text, after))
        yield ", ".join(filter(None, (where, part))), str(cell["case"]), numbers


def _printed(setting: Mapping[str, Any], place: int, column: int, metric: str) -> Entry:
    mean, half = (setting[key][place][column] for key in ("mean", "half"))
    return printed(Estimate((), mean, half, None), METRICS[metric])


def _cells(record: Record) -> Rows:
    """Yield every cell: published, uncalibrated, and under the best setting."""
    for where, case, numbers in cell_entries(record):
        yield where, case, *(text for one in numbers for text in (one[0], one[1], str(one[2])))


def _claims(record: Record) -> Rows:
    """Yield the published claims: which numbers they read, under how many settings they hold."""
    kinds, parts = list(KINDS), list(CLAIM_PARTS)
    judged = claims_under(record)
    for one in sorted(judged, key=lambda one: (parts.index(one.part), kinds.index(one.kind))):
        said = (one.published, one.default, one.in_short(), f"{one.statement} ({one.id})")
        yield CLAIM_PARTS[one.part], KINDS[one.kind], *said


def qualities(record: Record) -> list[str]:
    """Give what is known of how well the emulator predicts."""
    return list(dict.fromkeys(k for one in record.data["emulator"].values() for k in one or ()))


def _emulator(record: Record) -> Rows:
    """Yield how well the emulator predicts points that it has not seen."""
    for metric, found in record.by_metric(record.data["emulator"]):
        values = [(found or {}).get(key) for key in qualities(record)]
        yield (
            word(metric),
            *(fixed(v, 2) if isinstance(v, int | float) else NOTHING for v in values),
        )


def _tcp(record: Record) -> Rows:
    """Yield the TCP of the best setting and of the uncalibrated one."""
    pair = [record.default.get("tcp") or {}, record.best.get("tcp") or {}]
    yield "profile", *(str(one.get("profile", NOTHING)) for one in pair), ""
    for name, meaning in LINUX22_BEHAVIOURS.items():
        states = ("on" if name in one.get("linux22", ()) else "off" for one in pair)
        yield name, *states, meaning.replace("`", "")


def _cost(record: Record) -> Rows:
    """Yield what each session took."""
    for number, one in enumerate(record.cost, 1):
        counts = (str(one.get(key, 0)) for key in ("made", "skipped", "failed"))
        wall = duration(one.get("wall_s", 0.0)) + ", interrupted" * bool(one.get("interrupted"))
        yield str(number), *counts, str(one.get("at_a_time", "")), wall


#: The rows of each table of the page.
ROWS: Mapping[str, Callable[[Record], Rows]] = {
    "space": _space,
    "unknowns": _unknowns,
    "pairs": _pairs,
    "errors": _errors,
    "variants": _variants,
    "orders": _orders,
    "tcp": _tcp,
    "cells": _cells,
    "claims": _claims,
    "emulator": _emulator,
    "cost": _cost,
}


def for_terminal(outcome: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what is printed of ``calibration.json``."""
    record = Record(outcome, (), Path())
    unknowns = [
        (
            name,
            ", ".join(one["levels"]) if "levels" in one else f"{one['from']} to {one['to']}",
            *others,
        )
        for one, (name, *others) in zip(outcome["unknowns"], _unknowns(record), strict=True)
    ]
    yield _printable(unknowns, "unknown", "range", "default", "best", "not excluded", "verdict")
    for part in filter(outcome["held_out"].get, ("fit", "test", "blind")):
        seen = "test" if part == "blind" else part
        title = f"error, {PARTS[seen]}: {' '.join(outcome[seen])}"
        if part == "blind":
            title += f" without {', '.join(outcome['seen'])}"
        errors = []
        for metric, found in outcome["held_out"][part].items():
            sides = (_with_interval(found[key]) for key in ("default", "calibrated", "ratio"))
            numbers = (side.replace(NOTHING, "-") for side in sides)
            errors.append((metric, *numbers, f"{found['cells']} of {found['published']}"))
        yield RichText()
        yield _printable(errors, title, "uncalibrated", "calibrated", "ratio", "cells")
    if outcome["claims"]:
        yield RichText()
        yield RichText(paragraph("claims.j2", record))
    yield RichText()
    yield from map(RichText, outcome["notes"])


def _printable(rows: Iterable[Sequence[str]], *headings: str) -> RenderableType:
    columns = (Column(heading, fit="folded") for heading in headings)
    return plain(table_of("calibration", "", columns, rows))


def plan(estimate: Mapping[str, Any]) -> RenderableType:
    """Give what is printed of a plan."""
    rows = {
        "points of the search": "{points}, {points_in_ledger} complete",
        "runs of a point": "{runs_of_a_point}",
        "runs of the search": "{runs_of_the_search}",
        "runs of the final check": "at most {runs_of_the_close_look}",
        "runs left": "at most {runs_left}",
        "time left": _time_left(estimate),
    }
    texts = ((label, text.format_map(estimate)) for label, text in rows.items())
    return plain(table_of("plan", "", ("", ""), texts))


def _time_left(estimate: Mapping[str, Any]) -> str:
    if estimate["seconds_left"] is not None:
        return _about(estimate["seconds_left"])
    if estimate["run_seconds_left"] is not None:
        return f"{_about(estimate['run_seconds_left'])} of runs, shared out among the workers"
    return "unknown before the first run"


def _about(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"about {duration(60 * minutes) if minutes >= 60 else f'{minutes} min'}"

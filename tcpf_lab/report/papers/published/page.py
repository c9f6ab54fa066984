"""The page that a report on published configurations opens with: tables, picture, conclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tcpf_lab.reference.published import CONFIGS
from tcpf_lab.report.claims.judge import ClaimResult, Judgement, Verdict, judge
from tcpf_lab.report.claims.thesis_summary import SECTION_4_5
from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.compare.agreement import ADDED, APART, FACTOR, Agreement, Measure
from tcpf_lab.report.compare.bootstrap import key_of, measured_sample, published_sample
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.contents.words import listed
from tcpf_lab.report.numerals import fixed
from tcpf_lab.report.papers.page import Drawing, Page, Table, Text
from tcpf_lab.report.papers.published.scatter import points_of, scatter
from tcpf_lab.report.section import Section
from tcpf_lab.report.style import METRICS, OTHER_METRICS, SECOND_READINGS
from tcpf_lab.report.table import NOTHING

#: Columns of conclusions by the testbed's name: the cells that were measured on it.
Testbeds = Mapping[str, Sequence[CellResult]]

_REVERSED, _OPEN = "reversed", "undecided"
#: Verdicts on a conclusion, and how they are counted.
_COUNTED = {
    Verdict.HOLDS: "hold",
    Verdict.REFUTED: "do not hold everywhere",
    _REVERSED: _REVERSED,
    _OPEN: _OPEN,
}


def other_testbeds(sections: Sequence[Section]) -> Testbeds:
    """Group levels called ``<testbed> in <configuration>`` by testbed, those with a used run."""
    found: dict[str, list[CellResult]] = {}
    for section in sections:
        name, _, config = section.source.level.rpartition(" in ")
        if name and config == section.config and config in CONFIGS and section.usable:
            found.setdefault(name, []).extend(section.results)
    return found


def build(
    comparison: Comparison, results: Sequence[CellResult], others: Testbeds, needed: str = ""
) -> Page:
    """Give the page.

    Parameters
    ----------
    comparison : Comparison
        With the published tables.
    results : sequence of CellResult
        What it is of.
    others : mapping of str to sequence of CellResult
        The same cells on other testbeds.
    needed : str
        The command that measures them, where they are not there.
    """
    testbeds = {"this report": _summary(comparison.claims)}
    keys = {key_of(result) for result in results}
    for name, measured in others.items():
        own = [result for result in measured if key_of(result) in keys]
        sample = measured_sample(own, comparison.seed, comparison.resamples)
        known = published_sample()
        testbeds[name] = [judge(claim, known, sample) for claim in SECTION_4_5]
    return Page(
        "published",
        "Measured against published",
        (
            Text(
                " ".join(_agreement_sentences(comparison.agreement)), "Are the tables reproduced?"
            ),
            agreement_table(comparison.agreement),
            _drawing(results),
            Text(_conclusions_sentence(testbeds), "Are the thesis' conclusions right?"),
            _conclusions(testbeds, needed),
        ),
        opening=True,
    )


def _agreement_sentences(rows: Sequence[Agreement]) -> Iterator[str]:
    """Say how near the last row is, which is over everything."""
    *_, whole = rows
    near = whole.near
    if near.value is not None:
        ends = near.interval and f" (95 % interval {near.interval[0]:g} to {near.interval[1]:g})"
        yield (
            f"Timeouts of {near.value:g} of {near.of} cells are within a factor of {FACTOR:g}, or "
            f"{APART}, of the published{ends or ''}."
        )
    errors = [f"{_word(m.metric)} {fixed(m.value, 2)}" for m in whole.errors if m.value is not None]
    yield (
        f"Root mean square of ln(measured / published): {', '.join(errors)}; a factor of 1.5 is "
        "0.41."
    )
    taus = [f"{fixed(m.value, 2)} in {_word(m.metric)}" for m in whole.taus if m.value is not None]
    if taus:
        yield (
            "Kendall's tau between the measured and the published order of the cases, where it is "
            f"least: {listed(taus)}."
        )


def _word(metric: str) -> str:
    if metric in METRICS:
        return METRICS[metric].word
    column, word = METRICS[SECOND_READINGS[metric]].word, OTHER_METRICS[metric].word
    return word if word.startswith(column) else f"{column} as {word}"


def _number(one: Measure, places: int, behind: str = "") -> str:
    """Give ``0.66 (0.60, 0.71)``, a number with its interval."""
    if one.value is None:
        return NOTHING
    shown = partial(fixed, places=places)
    ends = f" ({', '.join(map(shown, one.interval))})" if one.interval else ""
    return f"{shown(one.value)}{behind}{ends}"


def agreement_table(rows: Sequence[Agreement]) -> Table:
    """Give the numbers, over everything and by configuration."""
    *configs, first = rows
    rows = (first, *configs)
    lines = [
        *(
            (f"rms ln, {_word(one.metric)}", *(_number(row.errors[at], 2) for row in rows))
            for at, one in enumerate(first.errors)
        ),
        *(
            (f"least tau, {_word(one.metric)}", *(_number(row.taus[at], 2) for row in rows))
            for at, one in enumerate(first.taus)
        ),
        (
            "cells near in timeouts",
            *(_number(row.near, 0, f" of {row.near.of}") for row in rows),
        ),
    ]
    return Table(
        "agreement",
        ("measure", *(row.config for row in rows)),
        tuple(lines),
        "Measured against published by configuration; in parentheses the bootstrap 95 % interval "
        f"over seeds ({_seeds(rows)}). rms ln: root mean square over the cells of ln(measured / "
        f"published), {ADDED} added to both timeouts. Least tau: Kendall's tau of the cases' "
        "order, of the number of flows in which it is least. Near: timeouts within a factor of "
        f"{FACTOR:g}, or {APART}.",
    )


def _seeds(rows: Sequence[Agreement]) -> str:
    seeds = min(row.seeds for row in rows)
    return "one seed: none" if seeds == 1 else f"{seeds} seeds"


def _drawing(results: Sequence[CellResult]) -> Drawing:
    points = points_of(results)
    cells = max(Counter(point.panel for point in points).values(), default=0)
    return Drawing(
        "fig-published",
        "Measured against published",
        f"{cells} cells in each panel: on the diagonal both are equal, in the band within a factor "
        f"of {FACTOR:g}. Whiskers are 95 % intervals (Student's t). {ADDED} is added to timeouts, "
        "as logarithmic axes have no 0.",
        points,
        partial(scatter, results),
        place=lambda point: f"where {point.x:g} was published",
    )


def _summary(claims: Sequence[ClaimResult]) -> list[ClaimResult]:
    ids = [claim.id for claim in SECTION_4_5]
    return [claim for claim in claims if claim.id in ids]


def _reversed(claim: ClaimResult) -> int:
    """Count the comparisons that are beyond noise the other way round: all are gains, below 1."""
    spreads = [finding.ours.interval for finding in claim.findings]
    return sum(spread is not None and spread[1] < 1 for spread in spreads)


def _verdict(claim: ClaimResult) -> str:
    """Give a key of ``_COUNTED``: ``reversed`` if most comparisons are, not one alone."""
    found = claim.ours.verdict
    if found is Verdict.REFUTED and 2 * _reversed(claim) > claim.ours.measured:
        return _REVERSED
    return found if found in _COUNTED else _OPEN


def _in_words(claim: ClaimResult) -> str:
    """Give ``holds in 27 of 32, 3 within noise``; of few seeds by their means."""
    ours, verdict = claim.ours, _verdict(claim)
    verdicts = Counter(finding.ours.verdict for finding in claim.findings)
    if verdict == _REVERSED:
        return f"reversed in {replace(ours, holding=_reversed(claim))}"
    if verdict == _OPEN and verdicts[Verdict.FEW]:
        checks = next(one.checks for one in SECTION_4_5 if one.id == claim.id)
        values = [finding.ours.value for finding in claim.findings]
        near = sum(v is not None and c.contains(v) for c, v in zip(checks, values, strict=True))
        return f"holds in {replace(ours, holding=near).told('by few seeds')}"
    noise = verdicts[Verdict.NOISE]
    return _holds_in(ours) + (f", {noise} within noise" if noise else "")


def _holds_in(one: Judgement) -> str:
    if not one.measured:
        return "not measured"
    return f"holds in all {one.checks}" if one.holding == one.checks else f"holds in {one}"


def _conclusions_sentence(testbeds: Mapping[str, Sequence[ClaimResult]]) -> str:
    parts = []
    for name, claims in testbeds.items():
        counts = Counter(map(_verdict, claims))
        verdicts = ", ".join(f"{counts[v]} {word}" for v, word in _COUNTED.items() if counts[v])
        where = "on these runs" if name == "this report" else f"with {name}"
        parts.append(f"{where}: {verdicts}")
    return f"Of the thesis' {len(SECTION_4_5)} conclusions (section 4.5), {'; '.join(parts)}."


def _conclusions(testbeds: Mapping[str, Sequence[ClaimResult]], needed: str) -> Table:
    first, *_ = testbeds.values()
    rows = [
        (
            own.sources[0].sentence,
            _holds_in(own.published),
            *(_in_words(claims[at]) for claims in testbeds.values()),
        )
        for at, own in enumerate(first)
    ]
    lacking = f" Columns with a full-duplex link and with today's TCP: {needed}" if needed else ""
    return Table(
        "conclusions",
        ("conclusion of the thesis", "published tables", *testbeds),
        tuple(rows),
        "Each conclusion is about so many comparisons of two cells: in how many it holds beyond "
        "noise. Reversed: most are the other way round beyond noise. By few seeds: the means alone "
        "are counted." + lacking,
        left=2 + len(testbeds),
    )

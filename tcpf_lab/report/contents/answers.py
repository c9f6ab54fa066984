"""The question that a report answers, and the answer: sentences whose numbers are the data's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.terms import BASELINES, FRIO, GOODPUT
from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.compare.bootstrap import PUBLISHED_CELLS
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.contents.effects import effects_told
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.contents.words import NO_BREAK_SPACE, bare, count, listed, significant, spread
from tcpf_lab.report.factors import rank_correlation
from tcpf_lab.report.section import Section
from tcpf_lab.report.style import CASES, DRAWN, METRICS
from tcpf_lab.report.table import entry

#: More things that vary than this are counted, not listed.
_FEW = 5
#: How the best and the worst of some cases are told apart, by metric.
_EXTREMES = {
    metric: ("the highest", "the lowest") if metric == GOODPUT else ("the lowest", "the highest")
    for metric in DRAWN
}
_EXTREMES["timeouts"] = ("the fewest", "the most")


def question(subject: Subject) -> str:
    """Ask what the experiments were made to answer."""
    if subject.varied:
        what = listed(subject.varied)
        if len(subject.varied) > _FEW:
            what = f"{len(subject.varied)} choices, each varied by itself"
        return f"How much do the results of {subject.unchanged.label} depend on {what}?"
    configs = [member.section.config for member in subject.members if member.section.published]
    if subject.comparison and configs:
        noun = "configuration" if len(configs) == 1 else "configurations"
        return f"Does Linux give the results that were published for {noun} {listed(configs)}?"
    results = [result for section in subject.sections for result in section.results]
    cases = list(dict.fromkeys(result.cell.case for result in results))
    flows = [str(number) for number in sorted({result.cell.flows for result in results})]
    many = f"{listed(flows, 'or')} flow{'' if flows == ['1'] else 's'}"
    if len(cases) == 1:
        return f"What do {many} get with {cases[0]}?"
    if len(cases) > 4:
        return f"Which of {len(cases)} cases serves {many} best?"
    return f"Which of {listed(cases, 'and')} serves {many} best?"


def answer(subject: Subject) -> tuple[str, ...]:
    """Answer it, the most important sentence first."""
    if subject.sensitivity is not None:
        return (*effects_told(subject.sensitivity), *_taus_told(subject))
    comparison = subject.comparison
    if comparison is None:
        return tuple(sentence for member in subject.members for sentence in _own(subject, member))
    return (
        *_claims_told(comparison),
        *_gains_told(comparison),
        *_orders_told(comparison),
        *_ratios_told(comparison),
        _coverage(subject, comparison),
    )


def _claims_told(comparison: Comparison) -> Iterator[str]:
    verdicts = [claim.ours.verdict for claim in comparison.claims]
    decided = len(verdicts) - verdicts.count(Verdict.OPEN)
    if not decided:
        yield "None of the papers' claims can be decided with the cells that were measured."
        return
    supported = [claim.published.verdict for claim in comparison.claims]
    yield (
        f"Of the papers' {len(verdicts)} claims, {verdicts.count(Verdict.HOLDS)} hold on these "
        f"numbers, {verdicts.count(Verdict.REFUTED)} are refuted, {verdicts.count(Verdict.NOISE)} "
        f"are within noise and {verdicts.count(Verdict.OPEN)} cannot be decided; on the published "
        f"tables {supported.count(Verdict.HOLDS)} hold and {supported.count(Verdict.REFUTED)} are "
        "refuted."
    )


def _gains_told(comparison: Comparison) -> Iterator[str]:
    """Say how many times the timeouts of the new marker with FRIO the baselines have."""
    for other in BASELINES:
        own = [gain for gain in comparison.gains if gain.against == other]
        measured = [gain for gain in own if gain.measured is not None]
        ours = [gain.measured for gain in measured if gain.measured is not None]
        known = [gain.published for gain in measured if gain.published is not None]
        if not ours:
            continue
        yield (
            f"{other} has {spread(ours)} times the timeouts of {FRIO} "
            f"({_over(len(ours))}; published: {spread(known)})."
        )


def _over(blocks: int) -> str:
    return "one configuration and number of flows" if blocks == 1 else f"over {blocks} blocks"


def _orders_told(comparison: Comparison) -> Iterator[str]:
    parts = []
    for metric in DRAWN:
        taus = [
            row.tau for row in comparison.blocks if row.metric == metric and row.tau is not None
        ]
        if taus:
            middle = f", median {median(taus):.2f}" if len(set(taus)) > 2 else ""
            low, high = f"{min(taus):.2f}", f"{max(taus):.2f}"
            span = low if low == high else f"{low} to {high}"
            parts.append(f"{span}{middle} for {METRICS[metric].word}")
    if parts:
        yield (
            "Kendall's tau between the measured and the published order of the cases (1: the same, "
            f"-1: the reverse) is {'; '.join(parts)}."
        )


def _ratios_told(comparison: Comparison) -> Iterator[str]:
    parts = []
    for metric in DRAWN:
        found = [
            cell.ratio
            for cell in comparison.cells
            if cell.metric == metric and cell.ratio is not None
        ]
        if found:
            middle = f" (median {significant(median(found))})" if len(found) > 2 else ""
            parts.append(f"{METRICS[metric].word} {spread(found)}{middle}")
    if parts:
        yield f"Measured / published: {'; '.join(parts)}."


def _coverage(subject: Subject, comparison: Comparison) -> str:
    results = [result for section in subject.sections for result in section.results]
    measured = len(PUBLISHED_CELLS) - len(comparison.missing)
    runs, used = sum(r.n for r in results), sum(r.used for r in results)
    valid = sum(result.valid_runs for result in results)
    every = "All" if measured == len(PUBLISHED_CELLS) else f"{measured} of the"
    return (
        f"{every} {len(PUBLISHED_CELLS)} published cells were measured, with {used} of "
        f"{count(runs, 'run')} asked for; {valid} passed every check."
    )


def _own(subject: Subject, member: Member) -> Iterator[str]:
    """Say of each number of flows which case has most and least of each metric."""
    above = f"{member.name}: " if len(subject.members) > 1 else ""
    by_flows: dict[int, list[CellResult]] = {}
    for result in member.section.results:
        if result.used:
            by_flows.setdefault(result.cell.flows, []).append(result)
    for flows, results in sorted(by_flows.items(), reverse=True):
        yield f"{above}With {count(flows, 'flow')} {_told(results)}."


def _told(results: Sequence[CellResult]) -> str:
    if len(results) == 1:
        return f"{results[0].cell.label} has {listed(_values(results[0], DRAWN))}"
    return "; ".join(_extremes(results, metric) for metric in DRAWN)


def _values(result: CellResult, metrics: Iterable[str]) -> list[str]:
    return [f"{METRICS[name].word} {_value(result, name)}" for name in metrics]


def _value(result: CellResult, metric: str) -> str:
    style = METRICS[metric]
    text = f"{entry(result.metrics[metric], style)[0]} {style.unit}".strip()
    return text.replace(" ", NO_BREAK_SPACE)


def _mean(result: CellResult, metric: str) -> str:
    """Give a mean as it is printed, with its unit."""
    style, text = METRICS[metric], _value(result, metric)
    mean = text.partition(f"{NO_BREAK_SPACE}±")[0].partition(NO_BREAK_SPACE)[0]
    return f"{mean}{NO_BREAK_SPACE}{style.unit}".strip(NO_BREAK_SPACE)


def _extremes(results: Sequence[CellResult], metric: str) -> str:
    def mean(result: CellResult) -> float:
        value = result.metrics[metric].mean
        assert value is not None  # held by `used`
        return value

    ascending = sorted(results, key=mean)
    lowest, highest = ascending[0], ascending[-1]
    word = bare(METRICS[metric].heading)
    if _mean(lowest, metric) == _mean(highest, metric):
        return f"all have the same {word}, {_mean(lowest, metric)}"
    best, worst = (highest, lowest) if metric == GOODPUT else (lowest, highest)
    good, bad = _EXTREMES[metric]
    told = (
        f"{best.cell.label} has {good} {word} ({_value(best, metric)}), "
        f"{worst.cell.label} {bad} ({_value(worst, metric)})"
    )
    return f"{told}, a difference within noise" if _overlap(best, worst, metric) else told


def _overlap(one: CellResult, other: CellResult, metric: str) -> bool:
    """Say whether the confidence intervals of two means have a value in common."""
    a, b = one.metrics[metric], other.metrics[metric]
    if a.mean is None or b.mean is None or a.ci95 is None or b.ci95 is None:
        return False
    return abs(a.mean - b.mean) <= a.ci95 + b.ci95


def _taus_told(subject: Subject) -> Iterator[str]:
    """Say how the levels change the rank correlation with the published order."""
    if not subject.unchanged.section.source.cells[0].published:
        return
    before = _timeout_tau(subject.unchanged.section)
    levels = [s for s in subject.sections if s.source.factor and s.usable]
    taus = [(tau, s) for s in levels if (tau := _timeout_tau(s)) is not None]
    if before is None or not taus:
        return
    tau, section = min(taus, key=lambda item: item[0])
    yield (
        f"Kendall's tau of the cases' timeouts with the published order is {before:.2f} as it "
        f"stands, and lowest, {tau:.2f}, with {section.source.factor}: {section.source.level} "
        "(of the levels that run every case)."
    )


def _timeout_tau(section: Section) -> float | None:
    """Give tau of the largest number of flows, where no case is missing."""
    flows = max(result.cell.flows for result in section.results)
    results = [result for result in section.results if result.cell.flows == flows]
    return rank_correlation(results, "timeouts") if len(results) >= len(CASES) else None

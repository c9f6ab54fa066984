"""The question that a report answers, and the answer: sentences whose numbers are the data's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tcpf_lab.report.claims.judge import Finding, Verdict
from tcpf_lab.report.claims.terms import BASELINES, FRIO, GOODPUT
from tcpf_lab.report.compare.factors import DEFAULT, rank_correlation
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.sensitivity import Effect, Ranking, Sensitivity
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, contrast
from tcpf_lab.report.contents.model import (
    Column,
    Entry,
    Group,
    Part,
    Table,
    bare,
    count,
    listed,
    sentence,
)
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.section import CellResult, Section
from tcpf_lab.report.style import CASES, DRAWN, METRICS, NO_BREAK_SPACE
from tcpf_lab.report.table import NOTHING, fixed, printed, ratios, significant, spread

_VERDICTS = {"moves": "moves it", "noise": "within noise", "open": "not decidable"}
_COLUMNS = (
    Column("rank", "number"),
    Column("what varies"),
    Column("strongest level"),
    Column("compared with"),
    Column("ratio", "number", "", "Mean at the level over that at what it is compared with."),
    Column("95 % interval"),
    Column("cells", "number", "", "Cases with a number of flows that the ratio is the mean of."),
    Column("pairs", "number", "", "Seeds whose runs were compared in every cell."),
    Column("verdict", "text", "", "Whether the effect is beyond noise."),
)


def effects_told(found: Sensitivity) -> Iterator[str]:
    """Say of each metric what moves it most, which nothing moves, and what cannot be told."""
    still: list[str] = []
    untold: list[str] = []
    for ranking in _overall(found):
        word = METRICS[ranking.metric].word
        verdicts = [row.effect.verdict for row in ranking.factors]
        if "moves" in verdicts:
            yield _strongest(ranking)
        else:
            (still if "noise" in verdicts else untold).append(word)
    if still:
        yield f"Nothing that was varied moves {listed(still, 'or')} beyond noise."
    if untold:
        yield (
            f"What moves {listed(untold, 'or')} cannot be told from noise: that takes two seeds "
            "which both sides of a comparison have."
        )


def _strongest(ranking: Ranking) -> str:
    """Tell the effect that is farthest from none for sure, and how many there are besides."""
    moving = [row for row in ranking.factors if row.effect.verdict == "moves"]
    effect = moving[0].effect
    against = DEFAULT if effect.against == DEFAULT else f"with {effect.against}"
    return (
        f"What moves {METRICS[ranking.metric].word} most is {effect.factor}: with {effect.level} "
        f"it {_size(effect)} what it is {against}, {_over_cells(effect)}; {len(moving)} of "
        f"{len(ranking.factors)} {'moves' if len(moving) == 1 else 'move'} it beyond noise."
    )


def _size(effect: Effect) -> str:
    """Give the effect as a factor, or where a mean is 0 as a difference."""
    if effect.ratio is not None:
        return f"is {_ratio(effect)} times (95 % interval {_interval(effect)})"
    assert effect.difference is not None  # held by the verdict, like the interval
    assert effect.difference_ci is not None
    change, half = significant(effect.difference), significant(effect.difference_ci)
    return f"differs by {change} ± {half} {METRICS[effect.metric].unit}".strip() + " from"


def effects_part(found: Sensitivity) -> Part:
    """Give a table of ranks for each metric, how the effects were measured, and what to know."""
    return Part(
        name="results-effects",
        heading="What moves what",
        paragraphs=(*map(sentence, found.design), *map(sentence, found.notes)),
        tables=tuple(map(_table, _overall(found))),
    )


def _overall(found: Sensitivity) -> list[Ranking]:
    return [ranking for ranking in found.rankings if ranking.cell is None and ranking.factors]


def _table(ranking: Ranking) -> Table:
    rows = [
        (
            Entry(str(row.rank), row.rank),
            Entry(row.factor),
            Entry(row.effect.level),
            Entry(row.effect.against),
            Entry(_ratio(row.effect), row.effect.ratio, note=row.effect.note),
            Entry(_interval(row.effect) or NOTHING),
            Entry(str(row.effect.cells), row.effect.cells),
            Entry(str(row.effect.pairs), row.effect.pairs),
            Entry(_VERDICTS[row.effect.verdict]),
        )
        for row in ranking.factors
    ]
    style = METRICS[ranking.metric]
    return Table(
        name=f"effects-{style.slug}",
        label="",
        caption=f"{style.title}: what varies, by how surely it moves it.",
        columns=_COLUMNS,
        groups=(Group("", tuple(rows)),),
    )


def _ratio(effect: Effect) -> str:
    return NOTHING if effect.ratio is None else ratios(effect.ratio, *(effect.interval or ()))[0]


def _interval(effect: Effect) -> str:
    if effect.ratio is None or effect.interval is None:
        return ""
    _, low, high = ratios(effect.ratio, *effect.interval)
    return f"{low} to {high}"


def _over_cells(effect: Effect) -> str:
    pairs = f"with {count(effect.pairs, 'pair')} of runs"
    if effect.cells == 1:
        return f"in one cell {pairs}"
    mean = "mean" if effect.ratio is None else "geometric mean"
    return f"in the {mean} of {effect.cells} cells {pairs} in each"


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
    configs = [member.section.config for member in subject.members if member.section.published]
    opened = any(page.opening for page in subject.pages) or not subject.varied
    if subject.comparison and configs and opened:
        noun = "configuration" if len(configs) == 1 else "configurations"
        return (
            f"Are the tables of {noun} {listed(configs)} reproduced, and are the thesis' "
            "conclusions right?"
        )
    if subject.varied:
        what = listed(subject.varied)
        if len(subject.varied) > _FEW:
            what = f"{len(subject.varied)} choices, each varied by itself"
        return f"How much do the results of {subject.unchanged.label} depend on {what}?"
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
        return tuple(_bests_told(subject, subject.members))
    unpublished = [member for member in subject.members if not member.section.published]
    return (
        *_claims_told(comparison),
        *_gains_told(comparison),
        _coverage(subject, comparison),
        *_bests_told(subject, unpublished),
    )


def _claims_told(comparison: Comparison) -> Iterator[str]:
    found = Counter(claim.ours.verdict for claim in comparison.claims)
    known = Counter(claim.published.verdict for claim in comparison.claims)
    undecided = found[Verdict.OPEN], found[Verdict.FEW]
    if sum(undecided) == found.total():
        why = "so few seeds of " if undecided[1] else ""
        yield f"None of the papers' claims can be decided with {why}the cells that were measured."
        return
    few = f"{found[Verdict.FEW]} rest on too few seeds, " if found[Verdict.FEW] else ""
    yield (
        f"Of the papers' {found.total()} claims, {found[Verdict.HOLDS]} hold on these numbers, "
        f"{found[Verdict.REFUTED]} are refuted, {found[Verdict.NOISE]} are within noise, {few}and "
        f"{found[Verdict.OPEN]} cannot be decided; on the published tables {known[Verdict.HOLDS]} "
        f"hold and {known[Verdict.REFUTED]} are refuted."
    )
    yield _checks_told([finding for claim in comparison.claims for finding in claim.findings])


def _checks_told(findings: Sequence[Finding]) -> str:
    """Count the numbers that claims are made of: one that is not as claimed refutes its claim."""
    ours = Counter(finding.ours.verdict for finding in findings)
    judged = [one for one in findings if one.ours.verdict not in (Verdict.OPEN, Verdict.FEW)]
    known = Counter(finding.published.verdict for finding in judged)
    rest = [
        f"{number} {why}"
        for number, why in (
            (ours[Verdict.FEW], "rest on too few seeds"),
            (ours[Verdict.OPEN], "need cells that were not measured"),
        )
        if number
    ]
    return (
        "A claim about several configurations and cases is refuted by one that contradicts it. "
        f"Of {len(judged)} numbers that were measured, {ours[Verdict.HOLDS]} are as claimed here "
        f"and {known[Verdict.HOLDS]} in the published tables"
        + "".join(f"; {part}" for part in rest)
        + "."
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
    if blocks == 1:
        return "one configuration and number of flows"
    return f"{blocks} combinations of configuration and number of flows"


def _coverage(subject: Subject, comparison: Comparison) -> str:
    results = [r for s in subject.sections if s.published for r in s.results if r.cell.known]
    measured = len(PUBLISHED_CELLS) - len(comparison.missing)
    runs, used = sum(r.n for r in results), sum(r.used for r in results)
    valid = sum(result.valid_runs for result in results)
    every = "All" if measured == len(PUBLISHED_CELLS) else f"{measured} of the"
    return (
        f"{every} {len(PUBLISHED_CELLS)} published cells were measured, with {used} of "
        f"{count(runs, 'run')} asked for; {valid} passed every check."
    )


def _bests_told(subject: Subject, members: Sequence[Member]) -> Iterator[str]:
    """Say of each number of flows which case has most and least of each metric."""
    for member in members:
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
    told = [name for name in DRAWN if all(result.metrics[name].values for result in results)]
    return "; ".join(_extremes(results, metric) for metric in told)


def _values(result: CellResult, metrics: Iterable[str]) -> list[str]:
    return [
        f"{METRICS[name].word} {_value(result, name)}"
        for name in metrics
        if result.metrics[name].values
    ]


def _value(result: CellResult, metric: str) -> str:
    return _with_unit(str(printed(result.metrics[metric], METRICS[metric])), metric)


def _mean(result: CellResult, metric: str) -> str:
    """Give a mean as it is printed, with its unit."""
    return _with_unit(printed(result.metrics[metric], METRICS[metric]).mean, metric)


def _with_unit(number: str, metric: str) -> str:
    return f"{number} {METRICS[metric].unit}".strip().replace(" ", NO_BREAK_SPACE)


def _extremes(results: Sequence[CellResult], metric: str) -> str:
    def mean(result: CellResult) -> float:
        value = result.metrics[metric].mean
        assert value is not None  # held by `_told`
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
    within = contrast([(1.0, best), (-1.0, worst)], metric).beyond_noise is False
    return f"{told}, a difference within noise" if within else told


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
        f"Kendall's tau of the cases' timeouts with the published order is {fixed(before, 2)} as "
        f"it stands; of the levels that run every case it is lowest, {fixed(tau, 2)}, with "
        f"{section.source.factor}: {section.source.level}."
    )


def _timeout_tau(section: Section) -> float | None:
    """Give tau of the largest number of flows, where no case is missing."""
    flows = max(result.cell.flows for result in section.results)
    results = [r for r in section.results if r.cell.flows == flows and r.used]
    return rank_correlation(results, "timeouts") if len(results) >= len(CASES) else None

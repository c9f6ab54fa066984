"""The question that a report answers, and the answer: sentences whose numbers are the data's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.compare.factors import DEFAULT, rank_correlation
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.sensitivity import (
    Effect,
    Ranking,
    Sensitivity,
    interval_text,
    ratio_text,
)
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, contrast
from tcpf_lab.report.contents.model import (
    Part,
    bare,
    count,
    listed,
    sentence,
    sentences,
)
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.results_table import by_flows, printed
from tcpf_lab.report.section import CellResult, Section
from tcpf_lab.report.style import CASES, DRAWN, METRICS, NO_BREAK_SPACE, MetricStyle
from tcpf_lab.report.table import NOTHING, Column, Entry, Table, fixed, table_of

_VERDICTS = {"moves": "moves it", "noise": "within noise", "open": "not decidable"}
_COLUMNS = (
    Column("rank", "number"),
    "what varies",
    "strongest level",
    "compared with",
    Column("ratio", "number", "", "Mean at the level over that at what it is compared with."),
    "95 % interval",
    Column("cells", "number", "", "Cases with a number of flows that the ratio is the mean of."),
    Column("pairs", "number", "", "Seeds whose runs were compared in every cell."),
    Column("verdict", "text", "", "Whether the effect is beyond noise."),
)


def effects_told(found: Sensitivity) -> list[str]:
    """Say of each metric what moves it most, which nothing moves, and what cannot be told."""
    moved: list[tuple[MetricStyle, int, list[Effect]]] = []
    still: list[str] = []
    untold: list[str] = []
    for ranking in _overall(found):
        style, effects = METRICS[ranking.metric], [row.effect for row in ranking.factors]
        moving = [effect for effect in effects if effect.verdict == "moves"]
        if moving:
            moved.append((style, len(effects), moving))
        else:
            noisy = any(effect.verdict == "noise" for effect in effects)
            (still if noisy else untold).append(style.word)
    return sentences(
        "effects",
        moved=moved,
        still=still,
        untold=untold,
        default=DEFAULT,
        ratio=ratio_text,
        interval=interval_text,
    )


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
    rows = (
        (
            Entry(str(row.rank), row.rank),
            row.factor,
            row.effect.level,
            row.effect.against,
            Entry(ratio_text(row.effect), row.effect.ratio, note=row.effect.note),
            interval_text(row.effect) or NOTHING,
            Entry(str(row.effect.cells), row.effect.cells),
            Entry(str(row.effect.pairs), row.effect.pairs),
            _VERDICTS[row.effect.verdict],
        )
        for row in ranking.factors
    )
    style = METRICS[ranking.metric]
    caption = f"{style.title}: what varies, by how surely it moves it."
    return table_of(f"effects-{style.slug}", caption, _COLUMNS, rows)


_GOODPUT = "goodput_bytes_per_s"
#: How the best and the worst of some cases are told apart, by metric.
_EXTREMES = {
    metric: ("the highest", "the lowest") if metric == _GOODPUT else ("the lowest", "the highest")
    for metric in DRAWN
}
_EXTREMES["timeouts"] = ("the fewest", "the most")


def question(subject: Subject) -> str:
    """Ask what the experiments were made to answer."""
    configs = [member.section.config for member in subject.members if member.section.published]
    opened = any(page.opening for page in subject.pages) or not subject.varied
    cells = [result.cell for section in subject.sections for result in section.results]
    flows = [str(number) for number in sorted({cell.flows for cell in cells})]
    (asked,) = sentences(
        "question",
        configs=configs if subject.comparison and opened else [],
        varied=subject.varied,
        unchanged=subject.unchanged.label,
        cases=list(dict.fromkeys(cell.case for cell in cells)),
        flows=f"{listed(flows, 'or')} flow{'' if flows == ['1'] else 's'}",
    )
    return asked


def answer(subject: Subject) -> tuple[str, ...]:
    """Answer it, the most important sentence first."""
    if subject.sensitivity is not None:
        return (*effects_told(subject.sensitivity), *_taus_told(subject))
    if subject.comparison is None:
        return tuple(_bests_told(subject, subject.members))
    unpublished = [member for member in subject.members if not member.section.published]
    return (
        *_published_told(subject, subject.comparison),
        *_bests_told(subject, unpublished),
    )


def _published_told(subject: Subject, comparison: Comparison) -> list[str]:
    """Count verdicts on claims and on the numbers that they are made of; tell gains and runs."""
    findings = [finding for claim in comparison.claims for finding in claim.findings]
    judged = [one for one in findings if one.ours.verdict not in (Verdict.OPEN, Verdict.FEW)]
    results = [r for s in subject.sections if s.published for r in s.results if r.cell.known]
    return sentences(
        "published",
        claims=Counter(claim.ours.verdict for claim in comparison.claims),
        known_claims=Counter(claim.published.verdict for claim in comparison.claims),
        numbers=Counter(finding.ours.verdict for finding in findings),
        known_numbers=Counter(finding.published.verdict for finding in judged),
        gains=list(_gains(comparison)),
        frio=next((gain.case for gain in comparison.gains), ""),
        cells=len(PUBLISHED_CELLS),
        measured=len(PUBLISHED_CELLS) - len(comparison.missing),
        asked=sum(result.n for result in results),
        used=sum(result.used for result in results),
        valid=sum(result.valid_runs for result in results),
    )


def _gains(comparison: Comparison) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield how many times the timeouts of the new marker with FRIO each baseline has."""
    for other in dict.fromkeys(gain.against for gain in comparison.gains):
        own = [gain for gain in comparison.gains if gain.against == other]
        measured = [gain for gain in own if gain.measured is not None]
        ours = [gain.measured for gain in measured if gain.measured is not None]
        if ours:
            yield other, ours, [gain.published for gain in measured if gain.published is not None]


def _bests_told(subject: Subject, members: Sequence[Member]) -> Iterator[str]:
    """Say of each number of flows which case has most and least of each metric."""
    for member in members:
        above = f"{member.name}: " if len(subject.members) > 1 else ""
        used = [result for result in member.section.results if result.used]
        for flows, results in sorted(by_flows(used).items(), reverse=True):
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
    return _with_unit(printed(result.metrics[metric], METRICS[metric]).text, metric)


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
    best, worst = (highest, lowest) if metric == _GOODPUT else (lowest, highest)
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

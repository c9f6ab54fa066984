"""The question that a report answers, and the answer: sentences whose numbers are the data's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import cells_of
from tcpf_lab.report.claims.papers import PaperClaim
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
    count,
    listed,
    sentence,
    sentences,
)
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.results_table import printed
from tcpf_lab.report.section import CellResult, Estimate, Section
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


def effects_in_words(found: Sensitivity) -> list[str]:
    """Give a sentence for each metric that something changes, and for those that nothing does."""
    moved: list[tuple[MetricStyle, int, list[Effect]]] = []
    unaffected: list[str] = []
    undecided: list[str] = []
    for ranking in _overall(found):
        style, effects = METRICS[ranking.metric], [row.effect for row in ranking.factors]
        moving = [effect for effect in effects if effect.verdict == "moves"]
        if moving:
            moved.append((style, len(effects), moving))
        else:
            noisy = any(effect.verdict == "noise" for effect in effects)
            (unaffected if noisy else undecided).append(style.word)
    return sentences(
        "effects",
        moved=moved,
        unaffected=unaffected,
        undecided=undecided,
        default=DEFAULT,
        ratio=ratio_text,
        interval=interval_text,
    )


def effects_part(found: Sensitivity) -> Part:
    """Give the effects in words, how they were measured, and a table of ranks for each metric."""
    return Part(
        name="results-effects",
        heading="Effects",
        paragraphs=(
            *effects_in_words(found),
            *map(sentence, found.design),
            *map(sentence, found.notes),
        ),
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
#: Where a run has the 95th percentile of the one-way queueing delay.
_DELAY = "metrics.queueing_delay_p95_s"


@dataclass(frozen=True)
class Answer:
    """The answer on page one: ``verdict`` is Yes, Partly, No, Undecided or empty."""

    verdict: str
    lines: tuple[str, ...]


def question(subject: Subject) -> str:
    """Give the question of the experiment file, or one made of what varies."""
    if subject.question:
        return subject.question
    configs = [member.section.config for member in subject.members if member.section.published]
    cells = [result.cell for section in subject.sections for result in section.results]
    flows = [str(number) for number in sorted({cell.flows for cell in cells})]
    judging = [page.title for page in subject.pages if page.claims]
    (derived,) = sentences(
        "question",
        configs=configs if _as_published(subject) else [],
        judged=judging,
        varied=subject.varied,
        unchanged=subject.unchanged.label,
        cases=list(dict.fromkeys(cell.case for cell in cells)),
        flows=f"{listed(flows, 'or')} flow{'' if flows == ['1'] else 's'}",
    )
    return derived


def answer(subject: Subject) -> Answer:
    """Give the answer: at most three lines with three numbers."""
    if _as_published(subject) and subject.comparison is not None:
        return _of_published(subject.comparison)
    claims = [claim for page in subject.pages for claim in page.claims]
    if claims:
        return of_claims(claims)
    if subject.sensitivity is not None:
        return Answer("", tuple(_strongest(subject.sensitivity)))
    return Answer("", tuple(_bests(subject, subject.members)))


def _as_published(subject: Subject) -> bool:
    """Whether the report is on published tables, and not on what was varied."""
    opened = any(page.opening for page in subject.pages) or not subject.varied
    return subject.comparison is not None and opened


def of_claims(claims: Sequence[PaperClaim]) -> Answer:
    """Count the verdicts on the sentences of a paper."""
    found = Counter(claim.judgement.verdict for claim in claims)
    holding, refuted = found[Verdict.HOLDS], found[Verdict.REFUTED]
    decided = holding + refuted
    others = "; the others are undecided" if decided < len(claims) else ""
    lines = [f"{holding} of {count(len(claims), 'claim')} hold; refuted: {refuted}{others}."]
    if len(claims) == 1:
        lines = [f"The claim: {claims[0].verdict_text}."]
    if any(claim.alone for claim in claims):
        lines.append("Some verdicts rest on a single run.")
    wrong = next((c for c in claims if c.judgement.verdict is Verdict.REFUTED), None)
    if wrong is not None and holding:
        lines.append(f"Refuted, for example: {wrong.sources[0].sentence}")
    verdict = _verdict((holding, decided), few=2 * decided < len(claims))
    return Answer(verdict, tuple(lines))


def _verdict(*counts: tuple[int, int], few: bool = False) -> str:
    """Give Yes if all of each count hold, No if less than half of each, else Partly.

    With ``few`` decided claims there is no Yes.

    Examples
    --------
    >>> _verdict((3, 3)), _verdict((2, 3)), _verdict((1, 3), (0, 2)), _verdict((0, 0))
    ('Yes', 'Partly', 'No', 'Undecided')
    >>> _verdict((3, 3), few=True)
    'Partly'
    """
    known = [(holding, all_) for holding, all_ in counts if all_]
    if not known:
        return "Undecided"
    if all(holding == all_ for holding, all_ in known):
        return "Partly" if few else "Yes"
    return "No" if all(2 * holding < all_ for holding, all_ in known) else "Partly"


def _of_published(comparison: Comparison) -> Answer:
    """Count claims and pairs of cases in the published order; name the nearest metric."""
    found = Counter(claim.ours.verdict for claim in comparison.claims)
    holding = found[Verdict.HOLDS]
    decided = holding + found[Verdict.REFUTED]
    same, pairs = _in_order(comparison)
    lines = []
    if decided:
        lines.append(f"Of {count(decided, 'decided claim')}, {holding} hold{'s' * (holding == 1)}.")
    else:
        lines.append("No claim is decided: that needs more seeds or cells.")
    if pairs:
        share = f"{100 * same / pairs:.0f}{NO_BREAK_SPACE}%"
        lines.append(f"{share} of the pairs of cases have the published order of timeouts.")
    errors = [one for one in comparison.agreement[-1].errors if one.metric in DRAWN]
    known = sorted((one.value, one.metric) for one in errors if one.value is not None)
    if len(known) > 1:
        (_, near), (_, far) = known[0], known[-1]
        lines.append(
            f"Nearest to the published values: {METRICS[near].word}; farthest: {METRICS[far].word}."
        )
    decidable = len(comparison.claims) - found[Verdict.OPEN]
    few = not decided or 2 * decided < decidable
    return Answer(_verdict((holding, decided), (same, pairs), few=few), tuple(lines))


def _in_order(comparison: Comparison) -> tuple[int, int]:
    """Count the pairs of cases whose timeouts have the published order, and all pairs."""
    pairs = [
        block.published_order.index(low) < block.published_order.index(high)
        for block in comparison.blocks
        if block.metric == DRAWN[0]
        for low, high in combinations(block.order, 2)
    ]
    return sum(pairs), len(pairs)


def _strongest(found: Sensitivity) -> Iterator[str]:
    """Give the strongest effect on each of three metrics, and those that nothing changes."""
    lines: list[str] = []
    unaffected: list[str] = []
    undecided: list[str] = []
    for ranking in _overall(found):
        word = METRICS[ranking.metric].word
        effects = [row.effect for row in ranking.factors if row.effect.verdict == "moves"]
        if effects:
            lines.append(f"{word} {_effect(effects[0])}")
        else:
            noisy = any(row.effect.verdict == "noise" for row in ranking.factors)
            (unaffected if noisy else undecided).append(word)
    yield from map(sentence, lines[: _LINES - bool(unaffected) - bool(undecided)])
    if unaffected:
        yield sentence(f"no effect beyond noise on {listed(unaffected, 'or')}")
    if undecided:
        yield sentence(f"too few seeds for the effects on {listed(undecided)}")


def _effect(effect: Effect) -> str:
    against = "" if effect.against == DEFAULT else f" against {effect.against}"
    change = "changes" if effect.ratio is None else f"is {ratio_text(effect)} times"
    return f"depends most on {effect.factor}: with {effect.level} it {change}{against}"


#: Lines of an answer.
_LINES = 3
#: What makes a case the best by a metric; the queueing delay only where queues are compared.
_BEST = {
    _GOODPUT: "highest goodput",
    _DELAY: "shortest queueing delay (95th percentile)",
    "loss_percent": "lowest loss",
    "timeouts": "fewest timeouts",
    "goodput_cov": "lowest goodput CoV",
}


@dataclass(frozen=True)
class _Leader:
    """The best case of a block by a metric; ``sure`` is None without an interval."""

    metric: str
    case: str
    value: str
    sure: bool | None


def _bests(subject: Subject, members: Sequence[Member]) -> Iterator[str]:
    """Name the best case by each metric, and whether the next one is within noise."""
    queues = any(page.name == "queues" for page in subject.pages)
    named = len(members) > 1
    blocks = {
        f"{section.source.files.experiment}, {label}" if named else label: results
        for section in (member.section for member in members)
        for label, results in _blocks(_with_delays(section) if queues else section.results)
    }
    several = {label: block for label, block in blocks.items() if len(block) > 1}
    if not several:
        for (only,) in islice(blocks.values(), 1):
            yield f"{only.cell.label}: {listed(_values(only, DRAWN[:_LINES]))}."
        return
    leaders = {label: list(_leaders(block)) for label, block in several.items()}
    every = [leader for own in leaders.values() for leader in own]
    if not every:
        yield "All cases are alike in every metric."
        return
    yield from _leads(leaders)
    noisy = [one.metric for one in every if one.sure is False]
    if any(one.sure is None for one in every):
        yield "One run per case gives no interval: whether a lead is noise is not known."
    elif noisy:
        words = list(dict.fromkeys(_word(metric) for metric in noisy))
        yield f"The lead over the next case is within noise in {listed(words)}."
    else:
        yield "Every lead over the next case is beyond noise."


def _blocks(results: Sequence[CellResult]) -> Iterator[tuple[str, list[CellResult]]]:
    """Yield the used cells that differ in their case alone, with what they have in common."""
    found: dict[str, list[CellResult]] = {}
    for result in results:
        if result.used:
            settings = (f"{key} = {value}" for key, value in result.cell.settings)
            label = ", ".join((count(result.cell.flows, "flow"), *settings))
            found.setdefault(label, []).append(result)
    yield from found.items()


def _with_delays(section: Section) -> list[CellResult]:
    """Add the 95th percentile of the queueing delay, in ms, where every run has it."""
    found = []
    for result, own in zip(section.results, cells_of(section), strict=True):
        values = tuple(1e3 * value for value in own.number(_DELAY).values_by_seed)
        if values and len(values) == result.used:
            delay = Estimate(values, *mean_ci(values), None)
            result = replace(result, metrics={**result.metrics, _DELAY: delay})
        found.append(result)
    return found


def _leaders(results: Sequence[CellResult]) -> Iterator[_Leader]:
    """Yield the best case by each metric that all have; none where the best are alike."""
    for metric in _BEST:
        means = [_known_mean(result, metric) for result in results]
        if any(mean is None for mean in means):
            continue
        sign = -1.0 if metric == _GOODPUT else 1.0
        ranked = sorted(results, key=lambda one: sign * (_known_mean(one, metric) or 0.0))
        best, second = ranked[:2]
        if _known_mean(best, metric) != _known_mean(second, metric):
            sure = contrast([(1.0, best), (-1.0, second)], metric).beyond_noise
            yield _Leader(metric, best.cell.case, _shown(best, metric), sure)


def _known_mean(result: CellResult, metric: str) -> float | None:
    estimate = result.metrics.get(metric)
    return None if estimate is None else estimate.mean


def _shown(result: CellResult, metric: str) -> str:
    if metric == _DELAY:
        return f"{_known_mean(result, metric):.0f}{NO_BREAK_SPACE}ms"
    return _mean(result, metric)


def _leads(blocks: Mapping[str, Sequence[_Leader]]) -> Iterator[str]:
    """Yield the case that leads by each metric: first those that lead in every block.

    Each of them has one value, where there is one block.
    """
    everywhere: dict[str, list[str]] = {}
    elsewhere = []
    for metric, words in _BEST.items():
        leaders = {
            label: one for label, own in blocks.items() for one in own if one.metric == metric
        }
        cases = {label: one.case for label, one in leaders.items()}
        if len(cases) == len(blocks) and len(set(cases.values())) == 1:
            (leader, *others) = leaders.values()
            led = everywhere.setdefault(leader.case, [])
            plain = others or led or len(everywhere) > _LINES
            led.append(words if plain else f"{words} ({leader.value})")
        elif cases:
            elsewhere.append(f"{words}: {_by_block(cases)}")
    if everywhere:
        most_first = sorted(everywhere.items(), key=lambda item: -len(item[1]))
        yield f"{'; '.join(f'{case}: {listed(led)}' for case, led in most_first)}."
    yield from map(sentence, elsewhere[: _LINES - 1 - bool(everywhere)])


def _by_block(cases: Mapping[str, str]) -> str:
    """Give the leader of each block, or of many blocks the most frequent ones."""
    if len(cases) <= _LINES:
        return ", ".join(f"{case} ({label})" for label, case in cases.items())
    found = Counter(cases.values())
    return ", ".join(
        f"{case} ({number} of {len(cases)})" for case, number in found.most_common(_LINES - 1)
    )


def _word(metric: str) -> str:
    return "queueing delay" if metric == _DELAY else METRICS[metric].word


def details(subject: Subject) -> tuple[str, ...]:
    """Give what the runs show beyond the answer."""
    if subject.sensitivity is not None:
        return tuple(_taus(subject))
    if subject.comparison is None:
        return ()
    others = [one for one in subject.members if not one.section.published]
    bests = (f"{one.name}: {line}" for one in others for line in _bests(subject, (one,)))
    return (*_published(subject, subject.comparison), *bests)


def _published(subject: Subject, comparison: Comparison) -> list[str]:
    """Count verdicts on claims and on the numbers that they are made of; give gains and runs."""
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
        requested=sum(result.n for result in results),
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


def _taus(subject: Subject) -> Iterator[str]:
    """Give how the levels change the rank correlation with the published order."""
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

"""The results of each experiment as a part of the report: the papers' table, and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tcpf_lab.report.claims.judge import CheckResult, ClaimResult, Source, Verdict
from tcpf_lab.report.claims.published import CONFIGS, THESIS_CASES
from tcpf_lab.report.compare.factors import DEFAULT, rank_correlation
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.scoreboard import number_text, range_text, spread_text, telling
from tcpf_lab.report.contents import model
from tcpf_lab.report.contents.answers import effects_part
from tcpf_lab.report.contents.model import (
    Figure,
    Part,
    bar_marks,
    bare,
    count,
    sentence,
    sentences,
)
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.document import (
    FIRST_TABLE,
    SweepFigure,
    figure_numbers,
    numbered,
    sweep_figures,
    thesis_part,
)
from tcpf_lab.report.figure import runs_used
from tcpf_lab.report.results_table import by_flows, printed
from tcpf_lab.report.section import CellResult, Estimate, Section, as_it_stands, figure_name
from tcpf_lab.report.style import DRAWN, METRICS, MetricStyle
from tcpf_lab.report.table import (
    MINUS,
    NOTHING,
    Column,
    Entry,
    Group,
    Row,
    Table,
    fixed,
    significant,
)

_EXPLANATIONS = {
    "timeouts": "RTO expirations in the measured time, all flows together.",
    "loss_percent": "Share of the bytes entering the bottleneck's queue that it drops.",
    "goodput_bytes_per_s": "Bytes acknowledged for the first time per second: mean over flows.",
    "goodput_cov": "Standard deviation of the flows' goodput over its mean; 0 is perfectly fair.",
}
_HOW_TO_READ = "Mean over the runs ± half width of the 95 % interval (Student's t)."
_RUNS = " Runs: used / requested; a run is one seed."
_PUBLISHED = (
    " The papers do not state how long their runs took: compare timeouts by order and ratio."
)


def result_parts(subject: Subject) -> tuple[Part, ...]:
    """Give a part per experiment, or all levels of all factors in one."""
    effects = (effects_part(subject.sensitivity),) if subject.sensitivity else ()
    if subject.factors:
        return (*effects, _levels_part(subject))
    return (*effects, *(_part(subject, member) for member in subject.members))


def summary(subject: Subject) -> Part | None:
    """Give the table and the figure of page one for published configurations; else None.

    Of several configurations: a table of timeouts. The scatter of the opening page is their figure.
    """
    known = [member for member in subject.members if member.section.published]
    opening = next((page for page in subject.pages if page.opening), None)
    if opening is None or not known:
        return None
    if len(known) == 1:
        (member,) = known
        # Of levels of factors no experiment has figures of its own.
        figures = () if subject.factors else tuple(_figures(subject, member))[:1]
        return Part("front", "", (), (_table(member),), figures)
    return Part("front", "", (), (_timeouts(known),))


def _timeouts(members: Sequence[Member]) -> Table:
    """Give timeouts, measured and published: a row per case, a column per configuration."""
    style = METRICS[DRAWN[0]]
    found = {(m.name, r.cell.flows, r.cell.case): r for m in members for r in m.section.results}
    groups = []
    for flows in dict.fromkeys(flows for _, flows, _ in found):
        cases = dict.fromkeys(case for _, number, case in found if number == flows)
        rows = [
            (
                Entry(case),
                *(
                    _estimate(found[at], style) if (at := (m.name, flows, case)) in found
                    else Entry(NOTHING)
                    for m in members
                ),
            )
            for case in cases
        ]  # fmt: skip
        groups.append(Group(count(flows, "flow"), tuple(rows)))
    columns = (
        Column("case"),
        *(
            Column(f"configuration {m.name}", "estimate", "", f"Timeouts in {m.label}.")
            for m in members
        ),
    )
    caption = "Timeouts of all flows, measured and published."
    return Table("table-timeouts", caption, columns, tuple(groups), _HOW_TO_READ + _PUBLISHED)


def _part(subject: Subject, member: Member) -> Part:
    section = member.section
    return Part(
        name=f"results-{section.source.files.experiment}",
        heading=section.source.title,
        paragraphs=(f"Every run: {section.source.conditions}.",) * (len(subject.members) > 1),
        tables=(_table(member),),
        figures=tuple(_figures(subject, member)),
    )


def _title(member: Member) -> str:
    return (
        f"Configuration {member.name}" if member.section.published else member.section.source.title
    )


def _table(member: Member) -> Table:
    section = member.section
    known = any(result.cell.known for result in section.results)
    columns = (
        Column("case"),
        *(
            Column(bare(METRICS[m].heading), "estimate", METRICS[m].unit, _EXPLANATIONS[m])
            for m in DRAWN
        ),
        Column("runs", "number", "", "Runs in the means, of those requested."),
    )
    groups = [
        Group(count(flows, "flow"), tuple(map(_row, results)))
        for flows, results in by_flows(section.results).items()
    ]
    return Table(
        name=f"table-{section.source.files.experiment}",
        caption=_caption(member),
        columns=columns,
        groups=tuple(groups),
        note=_HOW_TO_READ + _RUNS + (_PUBLISHED if known else ""),
    )


def _caption(member: Member) -> str:
    if not member.section.published:
        return f"{member.section.source.title}."
    place = CONFIGS.index(member.section.config)
    return (
        f"Configuration {member.name}: Table {FIRST_TABLE + place} of the paper, of which Table "
        f"4.{1 + place} of the thesis has {len(THESIS_CASES)} rows."
    )


def _row(result: CellResult) -> Row:
    problems = "; ".join(map(str, result.problems))
    runs = Entry(f"{result.used}/{result.n}", value=result.used, note=problems)
    estimates = (_estimate(result, METRICS[name]) for name in DRAWN)
    return (Entry(result.cell.label), *estimates, runs)


def _estimate(result: CellResult, style: MetricStyle) -> Entry:
    estimate = result.metrics[style.name]
    return printed(estimate, style, _note(estimate, style, result.used))


def _note(estimate: Estimate, style: MetricStyle, used: int) -> str:
    """Give every run's value, and how the mean compares with the published one."""
    if estimate.mean is None:
        return "not measured without captures" if used else "no usable run"
    places = style.places(estimate.mean)
    values = ", ".join(f"{value:.{places}f}" for value in estimate.values)
    runs = f"{count(len(estimate.values), 'run')}: {values}"
    if not estimate.published:
        return runs
    return f"{runs}; {significant(estimate.mean / estimate.published)} times the published value"


def _figures(subject: Subject, member: Member) -> Iterator[Figure]:
    """Give the figures as they are drawn: in a collection those of the thesis by its numbers."""
    by_number = subject.collection and numbered(member.section, subject.sections)
    section = thesis_part(member.section) if by_number else member.section
    for metric in filter(section.measured, DRAWN if section.charted else ()):
        number = figure_numbers(section)[metric] if by_number else ""
        style = METRICS[metric]
        yield Figure(
            name=figure_name(number or member.experiment.name, metric),
            caption=_figure_caption(member, section, style, number),
            alternative=_alternative("Bar chart", section, style),
            marks=bar_marks(section.results, metric),
        )
    for figure in sweep_figures(section):
        yield _sweep_figure(member, section, figure)


def _sweep_figure(member: Member, section: Section, figure: SweepFigure) -> Figure:
    style = METRICS[figure.metric]
    results = [r for r in section.results if r.cell.settings and r.cell.flows == figure.flows]
    caption = (
        f"{style.title} against {figure.key}, {_title(member)}. Lines are means, bands their 95 % "
        f"confidence intervals; {runs_used(results)}{section.source.conditions}."
    )
    alternative = _alternative("Line chart", replace(section, results=tuple(results)), style)
    return Figure(name=figure.name, caption=caption, alternative=alternative)


def _figure_caption(member: Member, section: Section, style: MetricStyle, number: str) -> str:
    first = f"{style.title}, {_title(member)}" + f" (Figure {number} of the thesis)" * bool(number)
    known = any(result.metrics[style.name].published is not None for result in section.results)
    intervals = any(result.metrics[style.name].ci95 is not None for result in section.results)
    bars = "Bars are means"
    bars += ", whiskers their 95 % confidence intervals" if intervals else ""
    bars += ", diamonds the published values" if known else ""
    return f"{first}. {bars}; {runs_used(section.results)}{section.source.conditions}."


def _alternative(kind: str, section: Section, style: MetricStyle) -> str:
    """Tell a chart in words: every bar or point with its value."""
    parts = []
    for result in section.results:
        shown = printed(result.metrics[style.name], style)
        published = f", published {shown.published}" if shown.published else ""
        flows = count(result.cell.flows, "flow")
        parts.append(f"{result.cell.label} with {flows}: {shown}{published}")
    unit = f" ({style.unit})" if style.unit else ""
    return f"{kind} of {style.title.lower()}{unit}. {'; '.join(parts)}."


def _levels_part(subject: Subject) -> Part:
    flows = dict.fromkeys(r.cell.flows for s in subject.sections for r in s.results)
    tables = [_level_table(subject, number, METRICS[m]) for number in flows for m in DRAWN]
    return Part("results-levels", "Results by level", tables=tuple(tables))


def _level_table(subject: Subject, flows: int, style: MetricStyle) -> Table:
    cases = list(dict.fromkeys(r.cell.label for s in subject.sections for r in s.results))
    groups = [
        Group(factor, tuple(_level_row(subject, s, cases, flows, style) for s in levels))
        for factor, levels in _by_factor(subject.sections)
    ]
    columns = (
        Column("level"),
        *(Column(case, "estimate") for case in cases),
        Column("tau", "number", "", "Kendall's rank correlation with the published order."),
    )
    return Table(
        name=f"levels-{style.slug}-{flows}",
        caption=f"{style.title}, {count(flows, 'flow')}"
        + (f" ({style.unit})." if style.unit else "."),
        columns=columns,
        groups=tuple(groups),
        note=f"{_HOW_TO_READ} {NOTHING}: the level does not touch the case. "
        f"tau: 1 is the published order of the cases, {MINUS}1 its reverse.",
    )


def _by_factor(sections: Sequence[Section]) -> Iterator[tuple[str, list[Section]]]:
    for factor, levels in groupby(sections, key=lambda section: section.source.factor):
        yield factor or DEFAULT, list(levels)


def _by_case(section: Section | None, flows: int) -> dict[str, CellResult]:
    """Give the results of a number of flows by case and settings."""
    results = section.results if section else ()
    return {r.cell.label: r for r in results if r.cell.flows == flows}


def _level_row(
    subject: Subject, section: Section, cases: Sequence[str], flows: int, style: MetricStyle
) -> Row:
    own = _by_case(section, flows)
    plain = _by_case(as_it_stands(section, subject.sections), flows)
    empty = Entry(NOTHING)
    estimates = [_estimate(own[case], style) if case in own else empty for case in cases]
    bare_estimates = (replace(entry, published="") for entry in estimates)
    tau = rank_correlation([*{**plain, **own}.values()], style.name)
    shown = empty if tau is None else Entry(fixed(tau, 2), tau)
    return (Entry(section.source.level or "unchanged"), *bare_estimates, shown)


_DOCUMENTS = {"thesis": "thesis, section", "paper": "paper, section", "tables": "tables"}


def verdicts(comparison: Comparison | None) -> model.Verdicts:
    """Give every claim with its verdicts; nothing without a comparison."""
    if comparison is None:
        return model.Verdicts((), ())
    decided = [claim for claim in comparison.claims if claim.ours.verdict is not Verdict.OPEN]
    return model.Verdicts(tuple(_summary(comparison)), tuple(map(_shown, decided)))


def _summary(comparison: Comparison) -> list[str]:
    """Count the verdicts, and say what they rest on."""
    ours = [claim.ours.verdict for claim in comparison.claims]
    known = [claim.published.verdict for claim in comparison.claims]
    return sentences(
        "verdicts",
        claims=len(ours),
        sides=[
            ("On the numbers of this report", _counted(ours)),
            ("On the published tables", _counted(known)),
        ],
        resamples=comparison.resamples,
        seed=comparison.seed,
        notes=[sentence(note) for note in comparison.notes],
        left=ours.count(Verdict.OPEN),
    )


def _counted(found: Sequence[Verdict]) -> str:
    return ", ".join(f"{one} {found.count(one)}" for one in Verdict if one in found)


def _shown(claim: ClaimResult) -> model.Claim:
    return model.Claim(
        name=claim.id,
        source="; ".join(dict.fromkeys(map(_place, claim.sources))),
        sentences=tuple(dict.fromkeys(source.sentence for source in claim.sources)),
        statement=claim.statement,
        published_verdict=str(claim.published.verdict),
        published_count=str(claim.published),
        ours_verdict=str(claim.ours.verdict),
        ours_count=str(claim.ours),
        telling=_finding(telling(claim)),
        findings=tuple(map(_finding, claim.findings)),
    )


def _place(source: Source) -> str:
    return f"{_DOCUMENTS[source.document]} {source.section}"


def _finding(finding: CheckResult) -> model.CheckRow:
    ours, known = finding.ours, finding.published
    return model.CheckRow(
        label=finding.label,
        range=range_text(finding),
        published=_number(known.value, finding.unit),
        published_verdict=str(known.verdict),
        ours=_number(ours.value, finding.unit),
        interval=spread_text(ours.interval),
        ours_verdict=str(ours.verdict),
        note=ours.note,
    )


def _number(value: float | None, unit: str) -> str:
    return NOTHING if value is None else f"{number_text(value)}{unit}"

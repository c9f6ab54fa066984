"""The comparison for a human: tables for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise, product
from operator import attrgetter

from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.report.claims.judge import CheckResult, ClaimResult, Judgement, Reading, Verdict
from tcpf_lab.report.claims.page import Table as PageTable
from tcpf_lab.report.claims.published import CONFIGS, FLOWS
from tcpf_lab.report.compare.published import (
    ADDED,
    APART,
    FACTOR,
    Agreement,
    CellComparison,
    Comparison,
    Conditions,
    LeftOut,
    Measure,
    TimeoutGain,
)
from tcpf_lab.report.compare.statistics import CellKey, Interval, Pair, Ranking
from tcpf_lab.report.style import CASES, DRAWN, METRICS, OTHER_METRICS, SECOND_READINGS
from tcpf_lab.report.table import (
    NOTHING,
    Column,
    Entry,
    Group,
    Table,
    boxed,
    fixed,
    rows_of,
    significant,
    table_of,
)

_COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.REFUTED: "red",
    Verdict.NOISE: "yellow",
    Verdict.FEW: "yellow",
    Verdict.OPEN: "dim",
}
#: Headings of the metrics.
_METRICS = tuple(Column(METRICS[metric].word, "number", fit="whole") for metric in DRAWN)


def scoreboard(comparison: Comparison, full: bool = False) -> Iterator[RenderableType]:
    """Give what a terminal shows, part by part.

    Parameters
    ----------
    comparison : Comparison
        What to show.
    full : bool
        Show what each claim is taken to mean and every number behind it, not only the most
        telling one.

    Yields
    ------
    rich renderable
        Conditions, agreement, ratios, rank correlations, orders, factors, claims, and what is not
        in them.
    """
    yield from condition_lines(comparison.conditions)
    numbers = agreement_table(comparison.agreement)
    yield boxed(numbers, "", numbers.caption)
    yield ratio_table(comparison.cells)
    if any(len(row.order) > 1 for row in comparison.blocks):
        yield rank_table(comparison.blocks)
        yield from order_lines(comparison.blocks)
    if comparison.gains:
        yield gain_table(comparison.gains)
    if comparison.claims:
        yield claim_table(comparison.claims, full)
        yield tally(comparison.claims)
    yield from missing_lines(comparison.missing)
    yield from left_out_lines(comparison.left_out)
    for note in comparison.notes:
        yield Text(note, style="yellow")


def metric_word(metric: str) -> str:
    """Give the word of a metric; of its second reading, with the first one's."""
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


def agreement_table(rows: Sequence[Agreement]) -> PageTable:
    """Give the numbers, over everything and by configuration."""
    *configs, first = rows
    rows = (first, *configs)
    lines = [
        (f"{words}, {metric_word(one.metric)}", *(_number(numbers(row)[at], 2) for row in rows))
        for words, numbers in (
            ("rms ln", attrgetter("errors")),
            ("minimum tau", attrgetter("taus")),
        )
        for at, one in enumerate(numbers(first))
    ]
    near = (_number(row.near, 0, f" of {row.near.of}") for row in rows)
    lines.append(("cells near in timeouts", *near))
    return PageTable(
        "agreement",
        ("measure", *(row.config for row in rows)),
        tuple(lines),
        "Measured against published by configuration; in parentheses the bootstrap 95 % interval "
        f"over seeds ({_seeds(rows)}). rms ln: root mean square over the cells of ln(measured / "
        f"published), {ADDED} added to both timeouts. Minimum tau: Kendall's tau of the cases' "
        "order, the minimum over the numbers of flows. Near: timeouts within a factor of "
        f"{FACTOR:g}, or {APART}.",
    )


def _seeds(rows: Sequence[Agreement]) -> str:
    seeds = min(row.seeds for row in rows)
    return "one seed: none" if seeds == 1 else f"{seeds} seeds"


def condition_lines(conditions: Iterable[Conditions]) -> Iterator[Text]:
    """Name the runs compared, a line per kind of conditions."""
    for row in conditions:
        yield Text.assemble((f"{', '.join(row.configs)}: ", "bold"), row.text)


def ratio_table(cells: Sequence[CellComparison]) -> Table:
    """Give measured / published with its interval, a row per cell and a column per metric.

    Blocks stand in the published order, those that nobody published behind them, and so do the
    cases of a block; a block without runs is left out.
    """
    groups = []
    for (config, flows), rows in _by_block(cells).items():
        if not any(row.n for row in rows):
            continue
        own = [list(metrics) for _, metrics in groupby(rows, key=lambda cell: cell.case)]
        lines = rows_of((row[0].case, *map(_ratio_entry, row), str(row[0].n)) for row in own)
        groups.append(Group(f"{config}, {flows} flows", lines))
    return Table(
        name="ratios",
        caption="Measured / published",
        columns=(Column("cell", fit="folded"), *_METRICS, Column("n", "number")),
        groups=tuple(groups),
        note="ratio; its 95 % interval (Student's t); n seeds",
        close=True,
    )


def _by_block(cells: Sequence[CellComparison]) -> dict[tuple[str, int], list[CellComparison]]:
    blocks: dict[tuple[str, int], list[CellComparison]] = {
        block: [] for block in product(CONFIGS, FLOWS)
    }
    places = {case: place for place, case in enumerate(CASES)}
    for cell in cells:
        blocks.setdefault((cell.config, cell.flows), []).append(cell)
        places.setdefault(cell.case, len(places))
    return {block: sorted(rows, key=lambda row: places[row.case]) for block, rows in blocks.items()}


def _ratio_entry(cell: CellComparison) -> Entry:
    if cell.ratio is None:
        return Entry(NOTHING, style="dim")
    spread = spread_text(cell.ratio_ci, "–")  # no ratio is negative, so a dash is read as one
    return Entry(number_text(cell.ratio), more=_below(spread))


def _below(spread: str) -> tuple[tuple[str, str], ...]:
    """Give what stands under a number, if there is anything."""
    return ((f"\n{spread}" if spread else "", "dim"),)


def rank_table(blocks: Sequence[Ranking]) -> Table:
    """Give Kendall's tau-b of each block, a column per metric."""
    rows = []
    for (config, flows), rankings in groupby(blocks, key=lambda row: (row.config, row.flows)):
        own = list(rankings)
        block = f"{config}, {flows} flows\n{len(own[0].order)} of {len(CASES)} cases"
        rows.append((block, *map(_tau, own), str(own[0].seeds)))
    return table_of(
        "orders",
        "Order of the cases: Kendall's tau-b, measured against published",
        (Column("block", fit="whole"), *_METRICS, Column("n", "number")),
        rows,
        "bootstrap 95 % interval over paired seeds; n seeds",
    )


def _tau(row: Ranking) -> str:
    if row.tau is None:
        return NOTHING
    if row.interval is None:
        return fixed(row.tau, 2)
    low, high = row.interval
    return f"{fixed(row.tau, 2)}\n{fixed(low, 2)} to {fixed(high, 2)}"


def order_lines(blocks: Iterable[Ranking]) -> Iterator[Text]:
    """Give the measured orders, ``≈`` between neighbours within noise, and what is reversed."""
    yield Text("Measured orders (≈: within noise; reversed: beyond noise)", style="italic")
    for row in blocks:
        if len(row.order) < 2:
            continue
        line = Text(f"{row.config} {row.flows} {METRICS[row.metric].heading}: ", style="bold")
        line.append(_order(row.order, row.ties), style="not bold")
        if row.reversed:
            pairs = ", ".join(f"{low} < {high}" for low, high in row.reversed)
            line.append(f"; reversed: {pairs}", style="not bold yellow")
        if row.note:
            line.append(f"  [{row.note}]", style="not bold dim")
        yield line


def _order(order: Sequence[str], ties: Sequence[Pair]) -> str:
    text = order[0]
    for before, after in pairwise(order):
        text += f" {'≈' if (before, after) in ties else '<'} {after}"
    return text


def gain_table(gains: Sequence[TimeoutGain]) -> Table:
    """Give how many times the timeouts of the new marker with FRIO the baselines have."""
    rows = (
        (
            f"{row.config}, {row.flows} flows",
            row.against,
            number_text(row.published),
            number_text(row.measured),
            spread_text(row.interval) or NOTHING,
            str(row.seeds or NOTHING),
        )
        for row in gains
    )
    numbers = (Column(name, "number") for name in ("published", "measured", "interval", "seeds"))
    return table_of(
        "gains",
        "Timeouts: how many times those of TCPF+FRIO",
        ("block", "against", *numbers),
        rows,
        "bootstrap 95 % interval over paired seeds",
    )


def claim_table(claims: Sequence[ClaimResult], full: bool = False) -> Table:
    """Give each claim with both verdicts and the most telling number, or with all of them."""
    return Table(
        name="claims",
        caption="Claims",
        columns=(Column("claim", fit="folded"), Column("published"), Column("ours")),
        groups=tuple(Group("", rows_of(_claim_rows(claim, full))) for claim in claims),
        note="verdict, checks that hold of those measured; 95 % interval of ours",
    )


def _claim_rows(claim: ClaimResult, full: bool) -> Iterator[tuple[Entry, ...]]:
    yield _statement(claim, full), _verdict(claim.published), _verdict(claim.ours)
    for finding in claim.findings if full else (telling(claim),):
        yield (
            Entry(f"  {finding.label}: {range_text(finding)}?", style="dim"),
            _reading(finding.published, finding.unit),
            _reading(finding.ours, finding.unit),
        )


def telling(claim: ClaimResult) -> CheckResult:
    """Give the check that decides the verdict on ours, else the published one, else the first."""
    for side in ("ours", "published"):
        verdict = getattr(claim, side).verdict
        common = Verdict.HOLDS if claim.every else Verdict.REFUTED
        deciding = [row for row in claim.findings if getattr(row, side).verdict is verdict]
        if deciding and verdict not in (common, Verdict.OPEN):
            return deciding[0]
    measured = [row for row in claim.findings if row.ours.value is not None]
    return (measured or claim.findings)[0]


def _statement(claim: ClaimResult, full: bool) -> Entry:
    sources = "\n".join(source.sentence for source in claim.sources)
    more = ((f"\n{claim.statement}", "italic"),) * full
    return Entry(claim.id, style="bold", more=((f"\n{sources}", ""), *more))


def _verdict(judgement: Judgement) -> Entry:
    colour = _COLOURS[judgement.verdict]
    return Entry(str(judgement.verdict), style=colour, more=((f"\n{judgement}", ""),))


def _reading(reading: Reading, unit: str) -> Entry:
    if reading.value is None:
        return Entry(NOTHING, style="dim")
    number = number_text(reading.value) + unit
    return Entry(
        number, style=_COLOURS[reading.verdict], more=_below(spread_text(reading.interval))
    )


def range_text(finding: CheckResult) -> str:
    """Give the range that a check asks for: ``at least 10``, ``above 0``, ``30% to 50%``."""
    low, high = (
        None if bound is None else f"{significant(bound)}{finding.unit}"
        for bound in (finding.low, finding.high)
    )
    if low is None or high is None:
        above, below = ("above", "below") if finding.strict else ("at least", "at most")
        return f"{above} {low}" if high is None else f"{below} {high}"
    return f"{low} to {high}" + (", ends excluded" if finding.strict else "")


def tally(claims: Sequence[ClaimResult]) -> Table:
    """Count the verdicts."""
    found = {
        name: [getattr(claim, name).verdict for claim in claims] for name in ("published", "ours")
    }
    rows = (
        (name, *(str(verdicts.count(verdict)) for verdict in Verdict))
        for name, verdicts in found.items()
    )
    counts = (Column(str(verdict), "number") for verdict in Verdict)
    return table_of(
        "verdicts", "Verdicts", (f"of {len(claims)} claim{'s' * (len(claims) > 1)}", *counts), rows
    )


def missing_lines(missing: Sequence[CellKey]) -> Iterator[Text]:
    """Name the published cells that were not measured, a line per block."""
    for (config, flows), cells in groupby(missing, key=lambda cell: (cell.config, cell.flows)):
        cases = [cell.case for cell in cells]
        named = "every case" if len(cases) == len(CASES) else ", ".join(cases)
        yield Text(f"not measured: {config}, {flows} flows: {named}", style="yellow")


def left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[Text]:
    """Count the runs that are not part of the means, a line per reason, with the first of them."""
    for row in left_out:
        count = f"{row.runs} {row.state}{', the first' if row.runs > 1 else ''}"
        yield Text(f"left out, {count}: {row.first}", style="yellow")


def number_text(value: float | None) -> str:
    """Give three significant digits, or a dash for no number."""
    return NOTHING if value is None else significant(value)


def spread_text(spread: Interval | None, between: str = " to ") -> str:
    """Give both ends of an interval, or nothing."""
    return "" if spread is None else between.join(map(number_text, spread))

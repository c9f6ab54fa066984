"""The comparison for a human: tables for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise, product
from operator import attrgetter

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tcpf_lab.report.claims.judge import ClaimResult, Finding, Judgement, Reading, Verdict
from tcpf_lab.report.claims.page import Table as PageTable
from tcpf_lab.report.claims.page import terminal_table
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
from tcpf_lab.report.table import NOTHING, fitted, fixed, plain_table, significant

_COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.REFUTED: "red",
    Verdict.NOISE: "yellow",
    Verdict.FEW: "yellow",
    Verdict.OPEN: "dim",
}
#: Headings of the metrics.
_METRICS = tuple((METRICS[metric].word, "number") for metric in DRAWN)


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
    yield terminal_table(agreement_table(comparison.agreement))
    yield ratio_table(comparison.cells)
    yield rank_table(comparison.blocks)
    yield from order_lines(comparison.blocks)
    yield gain_table(comparison.gains)
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
        for words, numbers in (("rms ln", attrgetter("errors")), ("least tau", attrgetter("taus")))
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
        f"published), {ADDED} added to both timeouts. Least tau: Kendall's tau of the cases' "
        "order, of the number of flows in which it is least. Near: timeouts within a factor of "
        f"{FACTOR:g}, or {APART}.",
    )


def _seeds(rows: Sequence[Agreement]) -> str:
    seeds = min(row.seeds for row in rows)
    return "one seed: none" if seeds == 1 else f"{seeds} seeds"


def condition_lines(conditions: Iterable[Conditions]) -> Iterator[Text]:
    """Say what runs were compared, a line per kind of conditions."""
    for row in conditions:
        yield Text.assemble((f"{', '.join(row.configs)}: ", "bold"), row.text)


def ratio_table(cells: Sequence[CellComparison]) -> Table:
    """Give measured / published with its interval, a row per cell and a column per metric.

    Blocks stand in the published order, those that nobody published behind them, and so do the
    cases of a block; a block without runs is left out.
    """
    columns = (("cell", "folded"), *_METRICS, ("n", "right"))
    caption = "ratio; its 95 % interval (Student's t); n seeds"
    table = plain_table("Measured / published", caption, columns)
    for block, rows in _by_block(cells).items():
        if not any(row.n for row in rows):
            continue
        table.add_row(Text(f"{block[0]}, {block[1]} flows", style="bold"))
        for case, metrics in groupby(rows, key=lambda cell: cell.case):
            own = list(metrics)
            table.add_row(Text(case), *map(_ratio_entry, own), str(own[0].n))
        table.add_section()
    return fitted(table)


def _by_block(cells: Sequence[CellComparison]) -> dict[tuple[str, int], list[CellComparison]]:
    blocks: dict[tuple[str, int], list[CellComparison]] = {
        block: [] for block in product(CONFIGS, FLOWS)
    }
    places = {case: place for place, case in enumerate(CASES)}
    for cell in cells:
        blocks.setdefault((cell.config, cell.flows), []).append(cell)
        places.setdefault(cell.case, len(places))
    return {block: sorted(rows, key=lambda row: places[row.case]) for block, rows in blocks.items()}


def _ratio_entry(cell: CellComparison) -> Text:
    if cell.ratio is None:
        return Text(NOTHING, style="dim")
    spread = spread_text(cell.ratio_ci, "–")  # no ratio is negative, so a dash is read as one
    return Text.assemble(number_text(cell.ratio), (f"\n{spread}" if spread else "", "dim"))


def rank_table(blocks: Sequence[Ranking]) -> Table:
    """Give Kendall's tau-b of each block, a column per metric."""
    table = plain_table(
        "Order of the cases: Kendall's tau-b, measured against published",
        "bootstrap 95 % interval over paired seeds; n seeds",
        (("block", "whole"), *_METRICS, ("n", "right")),
    )
    for (config, flows), rows in groupby(blocks, key=lambda row: (row.config, row.flows)):
        own = list(rows)
        taus = [Text(_tau(row)) for row in own]
        block = f"{config}, {flows} flows\n{len(own[0].order)} of {len(CASES)} cases"
        table.add_row(block, *taus, str(own[0].seeds))
    return table


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
    numbers = ("published", "measured", "interval", "seeds")
    table = plain_table(
        "Timeouts: how many times those of TCPF+FRIO",
        "bootstrap 95 % interval over paired seeds",
        (("block", "left"), ("against", "left"), *((name, "right") for name in numbers)),
    )
    for row in gains:
        table.add_row(
            f"{row.config}, {row.flows} flows",
            row.against,
            number_text(row.published),
            number_text(row.measured),
            spread_text(row.interval) or NOTHING,
            str(row.seeds or NOTHING),
        )
    return table


def claim_table(claims: Sequence[ClaimResult], full: bool = False) -> Table:
    """Give each claim with both verdicts and the most telling number, or with all of them."""
    table = plain_table(
        "Claims", "verdict, checks that hold of those measured; 95 % interval of ours"
    )
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("published")
    table.add_column("ours")
    for claim in claims:
        table.add_row(_told(claim, full), _verdict(claim.published), _verdict(claim.ours))
        for finding in claim.findings if full else (telling(claim),):
            table.add_row(
                Text(f"  {finding.label}: {range_text(finding)}?", style="dim"),
                _reading(finding.published, finding.unit),
                _reading(finding.ours, finding.unit),
            )
        table.add_section()
    return table


def telling(claim: ClaimResult) -> Finding:
    """Give the check that decides the verdict on ours, else the published one, else the first."""
    for side in ("ours", "published"):
        verdict = getattr(claim, side).verdict
        common = Verdict.HOLDS if claim.every else Verdict.REFUTED
        if verdict not in (common, Verdict.OPEN):
            return next(row for row in claim.findings if getattr(row, side).verdict is verdict)
    measured = [row for row in claim.findings if row.ours.value is not None]
    return (measured or claim.findings)[0]


def _told(claim: ClaimResult, full: bool) -> Text:
    sources = "\n".join(source.sentence for source in claim.sources)
    text = Text.assemble((claim.id, "bold"), f"\n{sources}")
    return text.append(f"\n{claim.statement}", style="italic") if full else text


def _verdict(judgement: Judgement) -> Text:
    colour = _COLOURS[judgement.verdict]
    return Text.assemble((str(judgement.verdict), colour), f"\n{judgement}")


def _reading(reading: Reading, unit: str) -> Text:
    if reading.value is None:
        return Text(NOTHING, style="dim")
    spread = spread_text(reading.interval)
    return Text.assemble(
        (number_text(reading.value) + unit, _COLOURS[reading.verdict]),
        (f"\n{spread}" if spread else "", "dim"),
    )


def range_text(finding: Finding) -> str:
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
    counts = ((str(verdict), "right") for verdict in Verdict)
    table = plain_table("Verdicts", columns=(("of all claims", "left"), *counts))
    for name in ("published", "ours"):
        verdicts = [getattr(claim, name).verdict for claim in claims]
        table.add_row(name, *(str(verdicts.count(verdict)) for verdict in Verdict))
    return table


def missing_lines(missing: Sequence[CellKey]) -> Iterator[Text]:
    """Name the published cells that were not measured, a line per block."""
    for (config, flows), cells in groupby(missing, key=lambda cell: (cell.config, cell.flows)):
        cases = [cell.case for cell in cells]
        said = "every case" if len(cases) == len(CASES) else ", ".join(cases)
        yield Text(f"not measured: {config}, {flows} flows: {said}", style="yellow")


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

"""What moves which metric, for a human: tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tcpf_lab.report.compare.scoreboard import left_out_lines
from tcpf_lab.report.compare.sensitivity import (
    LOOKED_AT,
    Effect,
    Ranked,
    Ranking,
    Sensitivity,
    strength,
)
from tcpf_lab.report.numerals import ratios
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING, fitted, plain_table

_COLUMNS = {
    "timeouts_per_flow_minute": "timeouts\nper min",
    "loss_percent": "loss",
    "goodput_bytes_per_s": "goodput",
    "goodput_cov": "CoV",
}
#: Stands behind a ratio that is beyond noise, for those who see no colours.
_MOVES = "*"
_STYLES = {"moves": "bold", "noise": "dim", "open": ""}


def ranked_effects(found: Sensitivity, full: bool = False) -> Iterator[RenderableType]:
    """Give what a terminal shows, part by part.

    Parameters
    ----------
    found : Sensitivity
        What to show.
    full : bool
        Show of every cell all factors, not only the strongest.

    Yields
    ------
    rich renderable
        The design, an overview, the ranking for each metric overall and in the cells, notes.
    """
    for number, sentence in enumerate(found.design):
        yield Text.assemble(("" if number else "Design: ", "bold"), sentence)
    for text in found.conditions:
        yield Text.assemble(("Conditions: ", "bold"), text)
    overall = [ranking for ranking in found.rankings if ranking.cell is None]
    yield overview(overall)
    for ranking in overall:
        yield ranking_table(ranking)
        cells = [one for one in found.rankings if one.cell and one.metric == ranking.metric]
        if len(cells) > 1:
            yield cell_table(cells, full)
    yield from left_out_lines(found.left_out)
    for note in found.notes:
        yield Text(note, style="yellow")


def overview(rankings: Sequence[Ranking]) -> Table:
    """Give a row per factor and a column per metric: the ratio at the factor's strongest level."""
    table = plain_table(
        "What moves what",
        "ratio at the strongest level, mean over the cells; * beyond noise (95 %)",
    )
    table.add_column("factor", overflow="fold")
    for metric in LOOKED_AT:
        table.add_column(_COLUMNS[metric], justify="right", no_wrap=True)
    rows: dict[str, dict[str, Effect]] = {}
    for ranking in rankings:
        for ranked in ranking.factors:
            rows.setdefault(ranked.factor, {})[ranking.metric] = ranked.effect
    for factor, effects in sorted(rows.items(), key=lambda row: _strongest(row[1]), reverse=True):
        table.add_row(Text(factor), *(_ratio(effects.get(metric)) for metric in LOOKED_AT))
    return fitted(table)


def _strongest(effects: dict[str, Effect]) -> tuple[float, float]:
    return max(map(strength, effects.values()))


def ranking_table(ranking: Ranking) -> Table:
    """Give the factors by what they do to one metric, overall."""
    lines = any(ranked.line for ranked in ranking.factors)
    said = "; range: a straight line's end over its start" if lines else ""
    table = plain_table(
        METRICS[ranking.metric].title,
        f"ratio of means with its 95 % interval; * beyond noise{said}",
    )
    table.add_column("", justify="right")
    table.add_column("factor", overflow="fold")
    table.add_column("level", overflow="fold")
    for heading in ("ratio", "95 % interval", *["range"] * lines, "cells", "pairs"):
        table.add_column(heading, justify="right", no_wrap=True)
    for ranked in ranking.factors:
        effect = ranked.effect
        row = [_ratio(effect), _spread(effect)]
        row += [_ratio(ranked.line)] if lines else []
        row += [Text(str(effect.cells)), Text(str(effect.pairs))]
        table.add_row(str(ranked.rank), Text(ranked.factor), Text(effect.level), *row)
    return fitted(table)


def cell_table(rankings: Sequence[Ranking], full: bool) -> Table:
    """Give for every cell the factor that moves one metric most, or all of them."""
    word = METRICS[rankings[0].metric].word
    what = "what moves it in each cell" if full else "what moves it most in each cell"
    table = plain_table(f"{word}: {what}", "* beyond noise")
    table.add_column("cell", overflow="fold")
    table.add_column("factor", overflow="fold")
    table.add_column("level", overflow="fold")
    for heading in ("ratio", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for ranking in rankings:
        for index, ranked in enumerate(ranking.factors if full else ranking.factors[:1]):
            name = "" if index or ranking.cell is None else str(ranking.cell)
            table.add_row(Text(name), *_cell_row(ranked))
    return fitted(table)


def _cell_row(ranked: Ranked) -> tuple[Text, ...]:
    effect = ranked.effect
    if effect.ratio is None and effect.verdict != "moves":
        return Text(NOTHING), Text(effect.note, style="dim"), Text(NOTHING), Text(NOTHING)
    return Text(ranked.factor), Text(effect.level), _ratio(effect), _spread(effect)


def _ratio(effect: Effect | None) -> Text:
    if effect is None:
        return Text(NOTHING + " ", style="dim")
    mark = _MOVES if effect.verdict == "moves" else " "
    if effect.ratio is None:
        return Text(NOTHING + mark, style="dim")
    ratio, *_ = ratios(effect.ratio, *(effect.interval or ()))
    return Text(ratio + mark, style=_STYLES[effect.verdict])


def _spread(effect: Effect) -> Text:
    if effect.ratio is None or effect.interval is None:
        return Text(NOTHING)
    _, low, high = ratios(effect.ratio, *effect.interval)
    return Text(f"{low} to {high}")

"""What moves which metric, as a report says it: sentences, and a table of ranks for each metric."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.report.compare.sensitivity import Effect, Ranking, Sensitivity
from tcpf_lab.report.contents.model import Column, Entry, Group, Part, Table
from tcpf_lab.report.contents.words import count, listed, significant
from tcpf_lab.report.factors import DEFAULT
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING

_VERDICTS = {"moves": "moves it", "noise": "within noise", "open": "not decidable"}
_COLUMNS = (
    Column("rank", "number"),
    Column("what varies"),
    Column("strongest level"),
    Column("compared with"),
    Column("ratio", "number", "", "Mean at the level over that at what it is compared with."),
    Column("95 % interval"),
    Column("verdict", "text", "", "Whether the effect is beyond noise."),
)


def effects_told(found: Sensitivity) -> Iterator[str]:
    """Say of each metric what moves it most, and which are not moved by anything."""
    still = []
    for ranking in _overall(found):
        word = METRICS[ranking.metric].word
        moving = [row for row in ranking.factors if row.effect.verdict == "moves"]
        if not moving:
            still.append(word)
            continue
        effect = moving[0].effect
        against = DEFAULT if effect.against == DEFAULT else f"with {effect.against}"
        yield (
            f"What moves {word} most is {effect.factor}: with {effect.level} it is "
            f"{_ratio(effect)} times ({_interval(effect)}) what it is {against}, "
            f"{_over(effect)}; {len(moving)} of {len(ranking.factors)} "
            f"{'moves' if len(moving) == 1 else 'move'} it beyond noise."
        )
    if still:
        yield f"Nothing that was varied moves {listed(still, 'or')} beyond noise."


def effects_part(found: Sensitivity) -> Part:
    """Give a table of ranks for each metric, how the effects were measured, and what to know."""
    return Part(
        name="results-effects",
        heading="What moves what",
        paragraphs=(*map(_sentence, found.design), *map(_sentence, found.notes)),
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
    return NOTHING if effect.ratio is None else significant(effect.ratio)


def _interval(effect: Effect) -> str:
    if effect.interval is None:
        return ""
    low, high = effect.interval
    return f"{significant(low)} to {significant(high)}"


def _over(effect: Effect) -> str:
    cells = "in one cell" if effect.cells == 1 else f"on average over {effect.cells} cells"
    return f"{cells} with {count(effect.pairs, 'pair')} of runs"


def _sentence(text: str) -> str:
    """Give a note as a sentence."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."

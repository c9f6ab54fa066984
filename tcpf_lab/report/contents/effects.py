"""What moves which metric, as a report says it: sentences, and a table of ranks for each metric."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.report.compare.sensitivity import Effect, Ranking, Sensitivity
from tcpf_lab.report.contents.model import Column, Entry, Group, Part, Table
from tcpf_lab.report.contents.words import count, listed, sentence
from tcpf_lab.report.factors import DEFAULT
from tcpf_lab.report.numerals import ratios, significant
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
        f"it {_size(effect)} what it is {against}, {_over(effect)}; {len(moving)} of "
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


def _over(effect: Effect) -> str:
    pairs = f"with {count(effect.pairs, 'pair')} of runs"
    if effect.cells == 1:
        return f"in one cell {pairs}"
    mean = "mean" if effect.ratio is None else "geometric mean"
    return f"in the {mean} of {effect.cells} cells {pairs} in each"

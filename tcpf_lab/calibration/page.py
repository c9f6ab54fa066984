"""What a calibration says to a reader: sentences, tables and figures, from its file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tcpf_lab.calibration import claims, course, figures, tables
from tcpf_lab.calibration.record import Record
from tcpf_lab.report.claims.page import Block, Page, Text
from tcpf_lab.report.contents.model import count, listed, sentence
from tcpf_lab.report.table import ratios

#: The page's file.
NAME = "calibration"
PARTS = ("fit", "test")
PINNED = "pinned down"
#: What held out means, and what it does not.
HELD_OUT = (
    "Held out means from the search: whoever chose the unknowns and their ranges may have known "
    "these numbers."
)
_GOAL = 0.9  # a rank correlation from here on is nearly the published order


def build(record: Record, changed: Sequence[str] = (), again: str = "") -> Page:
    """Give the page on a calibration, which does not know what ``changed`` says.

    ``again`` is the command that concludes anew.
    """
    return Page(NAME, record.title, tuple(_blocks(record, changed, again)))


def _blocks(record: Record, changed: Sequence[str], again: str) -> Iterator[Block]:
    yield Text(_joined(introduction(record)))
    yield from map(Text, changed)
    if record.missing:
        yield Text(_told_of_missing(record, again))
    yield Text(told_of_unknowns(record), "What was unknown, and what the tables say of it")
    yield tables.asked(record)
    yield tables.unknowns(record)
    yield from figures.profiles(record)
    if "pairs" in record.told:
        yield Text(told_of_pairs(record), "Unknowns that make up for each other")
        if record.told["pairs"]:
            yield tables.pairs(record)
    yield Text(_joined(told_of_errors(record)), "Fitted and held-out errors")
    yield tables.errors(record)
    if record.variants:
        yield tables.variants(record)
    yield Text(_joined(told_of_orders(record)), "Order of the cases")
    yield tables.orders(record)
    if record.best.get("tcp"):
        yield Text(told_of_tcp(record), "TCP of the best setting")
        yield tables.behaviours(record)
    if record.cells():
        yield Text("", "Every cell")
        yield tables.cells(record)
    yield Text(told_of_claims(record), "Published claims")
    if record.told["claims"]:
        yield tables.claims(record)
    yield from _method(record)


def _joined(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))


def _method(record: Record) -> Iterator[Block]:
    """Yield how it was found, and what is to be kept in mind."""
    yield Text("", "Which unknown moves what")
    yield figures.influence(record)
    yield tables.emulator(record)
    yield Text(_joined(course.told_of_search(record)), "How the search went")
    yield figures.convergence(record)
    if record.cost:
        yield tables.cost(record)
    first, *others = record.told["notes"]
    yield Text(sentence(first), "Notes")
    yield from (Text(sentence(note)) for note in others)


def introduction(record: Record) -> Iterator[str]:
    """Yield what a fit is worth, and what was done; of an unfinished search that it is one."""
    yield sentence(record.told["notes"][0])
    if record.told.get("unfinished"):
        yield sentence(record.told["unfinished"])
    fit, test = (record.labels(record.told[part]) for part in PARTS)
    many = len(record.unknowns) > 1
    varied = f"{len(record.unknowns)} unknowns were" if many else "One unknown was"
    yield f"{varied} varied to fit {fit}; held out: {test}."


def _told_of_missing(record: Record, again: str) -> str:
    return (
        f"{record.source.name} was written by an earlier version and lacks "
        f"{listed(record.missing)}: `{again}` adds it."
    )


def told_of_unknowns(record: Record) -> str:
    """Count the verdicts on the unknowns."""
    verdicts: dict[str, list[str]] = {}
    for one in record.told["unknowns"]:
        verdicts.setdefault(one["verdict"], []).append(one["name"])
    told = [f"{verdict}: {', '.join(names)}" for verdict, names in sorted(verdicts.items())]
    return f"Of {count(len(record.unknowns), 'unknown')}, {'; '.join(told)}."


def told_of_pairs(record: Record) -> str:
    """Count the pairs of unknowns that make up for each other."""
    found = record.told["pairs"]
    if not found:
        return "No two unknowns make up for each other: no pair of changes is excluded only apart."
    first, *others = (" and ".join(one["names"]) for one in found)
    more = f", and {count(len(others), 'more pair')}" if others else ""
    return f"What one change of the best point spoils, another mends: {first}{more}."


def in_short(record: Record) -> str:
    """Count the verdicts on the unknowns, and name what is pinned down."""
    counts = Counter(one["verdict"] for one in record.told["unknowns"])
    pinned = [one["name"] for one in record.told["unknowns"] if one["verdict"] == PINNED]
    named = f" ({', '.join(pinned)})" if pinned else ""
    told = [f"{n} {verdict}{named * (verdict == PINNED)}" for verdict, n in counts.most_common()]
    return f"Of {count(len(record.unknowns), 'unknown')} the tables leave {listed(told)}."


def told_of_errors(record: Record) -> Iterator[str]:
    """Yield what the calibration changed, of the held-out numbers first."""
    if record.best["id"] == record.default["id"]:
        yield _told_of_others(len(record.told["settings"]) - 1)
    for part in tables.ORDER:
        if part == "blind":
            yield from told_of_seen(record)
        found = record.told["held_out"].get(part)
        if part == "blind" and found == {}:
            yield "So none of the held-out numbers was unknown then."
        if not found:
            yield "Nothing is held out." if part == "test" else ""
            continue
        sides: dict[str, list[str]] = {}
        for metric, one in record.by_metric(found):
            sides.setdefault(_side(one["ratio"]), []).append(_with_ratio(metric, one["ratio"]))
        told = [f"{side} for {listed(metrics)}" for side, metrics in sides.items()]
        yield f"Error on what is {tables.part_name(record, part)}: {'; '.join(told)}."
        if part == "test":
            yield HELD_OUT


def _told_of_others(others: int) -> str:
    """Say that the uncalibrated setting is the best of those that were looked at."""
    if not others:
        return "No setting but the uncalibrated one was looked at closely."
    if others == 1:
        return "The one other setting looked at closely fits no better than the uncalibrated one."
    return (
        f"None of the {others} other settings looked at closely fits better than the uncalibrated "
        "one."
    )


def told_of_seen(record: Record) -> Iterator[str]:
    """Yield which held-out cases were known when the unknowns were chosen, and what was taken."""
    for case, taken in record.told.get("seen", {}).items():
        yield (
            f"The held-out numbers of {case} were known when the unknowns were chosen: "
            f"{taken.rstrip('.')}."
        )


def _with_ratio(metric: str, ratio: Mapping[str, Any]) -> str:
    if ratio["error"] is None:
        return tables.word(metric)
    return f"{tables.word(metric)} (ratio {ratios(ratio['error'])[0]})"


def _side(ratio: Mapping[str, Any]) -> str:
    """Say which way an error has gone: noise decides nothing."""
    low, high = ratio["interval"] or (None, None)
    if low is None or high is None:
        return "no interval"
    return "smaller" if high < 1 else "larger" if low > 1 else "no difference beyond noise"


def told_of_orders(record: Record) -> Iterator[str]:
    """Yield for each part in how many blocks the cases stand nearly in the published order."""
    for part in tables.ORDER:
        own = [one for one in record.told["kendall"] if one["part"] == part]
        told = list(filter(None, (_in_order(metric, own) for metric in record.metrics)))
        if told:
            name = tables.part_name(record, part)
            yield (
                f"{name[0].upper()}{name[1:]}, a rank correlation of at least {_GOAL}: "
                f"{'; '.join(told)}."
            )


def _in_order(metric: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Count the blocks nearly in order before and after, of those that have both numbers."""
    sides = ("default", "calibrated")
    known = [
        [one[side]["tau"] for side in sides]
        for one in rows
        if one["metric"] == metric
        and all(one[side] and one[side]["tau"] is not None for side in sides)
    ]
    if not known:
        return ""
    before, after = (sum(tau >= _GOAL for tau in side) for side in zip(*known, strict=True))
    blocks = count(len(known), "block")
    return f"{tables.word(metric)} in {after} of {blocks}, uncalibrated in {before}"


def told_of_claims(record: Record) -> str:
    """Say what the settings looked at say of the published claims."""
    return _joined(claims.told_of_claims(record))


def told_of_tcp(record: Record) -> str:
    """Say which TCP the best setting has."""
    tcp, before = record.best["tcp"], record.default.get("tcp") or {}
    on = ", ".join(tcp["linux22"]) or "none"
    same = " The uncalibrated one has the same." if tcp == before else ""
    return f"Profile {tcp['profile']}; behaviours of Linux 2.2 that are on: {on}.{same}"

"""What a calibration says to a reader: sentences, tables and figures, from its file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from tcpf_lab.report.calibration import drawings, tables
from tcpf_lab.report.calibration.record import EVERY, NONE, OPEN, SOME, Record, claims_under
from tcpf_lab.report.contents.words import count, listed, sentence
from tcpf_lab.report.numerals import ratios
from tcpf_lab.report.papers.page import Block, Page, Text

#: The page's file.
NAME = "calibration"
PARTS = ("fit", "test")
PINNED = "pinned down"
_GOAL = 0.9  # a rank correlation from here on is nearly the published order


def build(record: Record, changed: Sequence[str] = ()) -> Page:
    """Give the page on a calibration; ``changed`` says in sentences what it does not know of."""
    return Page(NAME, record.title, tuple(_blocks(record, changed)))


def _blocks(record: Record, changed: Sequence[str]) -> Iterator[Block]:
    yield Text(" ".join(introduction(record)))
    yield from map(Text, changed)
    if record.missing:
        yield Text(_told_of_missing(record))
    yield Text(told_of_unknowns(record), "What was unknown, and what the tables say of it")
    yield tables.asked(record)
    yield tables.unknowns(record)
    yield from drawings.profiles(record)
    yield Text(" ".join(told_of_errors(record)), "Fitted and held-out errors")
    yield tables.errors(record)
    yield Text(" ".join(told_of_orders(record)), "Order of the cases")
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


def _method(record: Record) -> Iterator[Block]:
    """Yield how it was found, and what is to be kept in mind."""
    yield Text("", "Which unknown moves what")
    yield drawings.influence(record)
    yield tables.emulator(record)
    yield Text(" ".join(told_of_search(record)), "How the search went")
    yield drawings.convergence(record)
    if record.cost:
        yield tables.cost(record)
    first, *others = record.told["notes"]
    yield Text(sentence(first), "Notes")
    yield from (Text(sentence(note)) for note in others)


def introduction(record: Record) -> Iterator[str]:
    """Yield what a fit is worth, and what was done."""
    yield sentence(record.told["notes"][0])
    fit, test = (record.labels(record.told[part]) for part in PARTS)
    many = len(record.unknowns) > 1
    varied = f"{len(record.unknowns)} unknowns were" if many else "One unknown was"
    yield f"{varied} varied to fit {fit}; held out: {test}."


def _told_of_missing(record: Record) -> str:
    return (
        f"{record.source.name} was written by an earlier version and lacks "
        f"{listed(record.missing)}: `tcpf-lab calibrate SPEC --only-report` adds it."
    )


def told_of_unknowns(record: Record) -> str:
    """Count the verdicts on the unknowns."""
    verdicts: dict[str, list[str]] = {}
    for one in record.told["unknowns"]:
        verdicts.setdefault(one["verdict"], []).append(one["name"])
    told = [f"{verdict}: {', '.join(names)}" for verdict, names in sorted(verdicts.items())]
    return f"Of {count(len(record.unknowns), 'unknown')}, {'; '.join(told)}."


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
        yield "No setting fits better than the uncalibrated one: it is the best."
    for part in ("test", "blind", "fit"):
        if part == "blind":
            yield from told_of_seen(record)
        found = record.told["held_out"].get(part)
        if not found:
            yield "Nothing is held out." if part == "test" else ""
            continue
        sides: dict[str, list[str]] = {}
        for metric, one in record.by_metric(found):
            sides.setdefault(_side(one["ratio"]), []).append(_with_ratio(metric, one["ratio"]))
        told = [f"{side} for {listed(metrics)}" for side, metrics in sides.items()]
        yield f"Error on what is {tables.part_name(record, part)}: {'; '.join(told)}."


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
    """Yield in how many blocks the cases stand nearly in the published order."""
    for metric in record.metrics:
        own = [one for one in record.told["kendall"] if one["metric"] == metric]
        known = [
            (one["default"]["tau"], one["calibrated"]["tau"])
            for one in own
            if all(one[key] and one[key]["tau"] is not None for key in ("default", "calibrated"))
        ]
        if known:
            before, after = (sum(tau >= _GOAL for tau in side) for side in zip(*known, strict=True))
            yield (
                f"{tables.word(metric)[0].upper()}{tables.word(metric)[1:]}: at least {_GOAL} in "
                f"{after} of {count(len(known), 'block')}, uncalibrated in {before}."
            )


def told_of_claims(record: Record) -> str:
    """Count the claims that hold under every plausible setting, some, none."""
    counts = Counter(one.kind for one in claims_under(record))
    if not counts:
        return "None of the published claims is about these experiments."
    settings = len(record.plausible)
    every = "the one setting" if settings == 1 else f"each of the {settings} settings"
    said = (
        f"Of {sum(counts.values())} published claims {counts[EVERY]} hold under {every} looked at "
        f"that the published numbers do not exclude, {counts[SOME]} under some, {counts[NONE]} "
        "under none."
    )
    if counts[OPEN]:
        said += f" {counts[OPEN]} are about other cells and not listed."
    return said


def told_of_tcp(record: Record) -> str:
    """Say which TCP the best setting has."""
    tcp, before = record.best["tcp"], record.default.get("tcp") or {}
    on = ", ".join(tcp["linux22"]) or "none"
    same = " The uncalibrated one has the same." if tcp == before else ""
    return f"Profile {tcp['profile']}; behaviours of Linux 2.2 that are on: {on}.{same}"


def told_of_search(record: Record) -> Iterator[str]:
    """Yield how much was run, and what the misfit came to."""
    points = record.told["points"]
    rounds = max(one["round"] for one in points)
    yield (
        f"{count(len(points), 'point')}, {sum(one['round'] == 0 for one in points)} of them the "
        f"design, the others in {count(rounds, 'round')}; {count(record.told['runs'], 'run')}."
    )
    if record.cost:
        yield f"Wall time {tables.duration(sum(one.get('wall_s', 0.0) for one in record.cost))}."
    else:
        yield "How long that took is not known: cost.json is missing."
    misfits = {one["id"]: one["misfit"] for one in points if one["misfit"] is not None}
    threshold = record.told["threshold"]
    least = min(misfits, key=lambda point: misfits[point])
    uncalibrated = misfits.get(points[0]["id"])
    was = "" if uncalibrated is None else f", of the uncalibrated setting {uncalibrated:.0f}"
    yield (
        f"The least misfit is {misfits[least]:.0f} (point {least}){was}; a setting that is right "
        f"has about {threshold['residuals']}, the number of residuals; the threshold of the "
        f"profiles is {threshold['limit']:.0f}."
    )
    if threshold["least"] > threshold["residuals"]:
        yield "So no setting of these unknowns gives the published numbers; intervals are widened."
    yield told_of_noise(record)


def told_of_noise(record: Record) -> str:
    """Say how much seeds differ under the other settings looked at, beside the uncalibrated one.

    The search takes the uncalibrated setting's noise for that of every point.
    """
    found = []
    for column, metric in enumerate(record.metrics):
        ratios = [
            (one / default) ** 2
            for pair in ((setting, record.default) for setting in record.told["settings"][1:])
            for one, default in zip(*(_spreads(one, column) for one in pair), strict=True)
            if one is not None and default
        ]
        if ratios:
            found.append(f"{median(ratios):.2g} for {tables.word(metric)}")
    if not found:
        return ""
    return (
        "The noise of every number was taken from the uncalibrated setting. Under the others that "
        "were looked at, seeds differ with a variance that is to this one, as a median over cells, "
        f"{listed(found)}."
    )


def _spreads(setting: Mapping[str, Any], column: int) -> list[float | None]:
    """Give the half width of each cell's interval in units of its mean; None where it has none."""
    pairs = zip(setting.get("mean", ()), setting.get("half", ()), strict=True)
    both = ((mean[column], half[column]) for mean, half in pairs)
    return [half / mean if mean and half is not None else None for mean, half in both]

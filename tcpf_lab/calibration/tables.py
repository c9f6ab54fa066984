"""The tables of a calibration, as its page has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcpf_lab.calibration.claims import CLAIM_PARTS, KINDS, claims_under
from tcpf_lab.calibration.record import Record
from tcpf_lab.report.claims.page import Table
from tcpf_lab.report.contents.model import count, listed
from tcpf_lab.report.section import Estimate
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING, Printed, fixed, printed, ratios
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS

#: What the two parts are called.
PARTS = {"fit": "fitted", "test": "held out"}
#: Parts in the order that they are told in: what is held out first.
ORDER = ("test", "blind", "fit")
UNCALIBRATED, BEST = "uncalibrated", "best"
_QUALITY = {"r_squared": "R²"}


def part_name(record: Record, part: str) -> str:
    """Give what a part of the errors is called; ``blind`` is without what was known before."""
    if part == "blind":
        return f"{PARTS['test']} without {listed(list(record.told['seen']))}"
    return PARTS[part]


def word(metric: str) -> str:
    """Give what a sentence calls a metric."""
    return METRICS[metric].word if metric in METRICS else metric


def ranges(one: Mapping[str, Any]) -> str:
    """Give the range of an unknown, or its levels."""
    if "levels" in one:
        return ", ".join(one["levels"])
    log = " (log)" if one["scale"] == "log" else ""
    return f"{one['from']} to {one['to']}{log}"


def asked(record: Record) -> Table:
    """Give what was unknown: the ranges, the uncalibrated values, and what is set."""
    rows = tuple(
        (one["name"], ranges(one), one["default"], _set(one)) for one in record.told["unknowns"]
    )
    caption = "What was varied, all of it together, and its values in the uncalibrated experiments."
    return Table("asked", ("unknown", "range or levels", UNCALIBRATED, "sets"), rows, caption, 4)


def _set(one: Mapping[str, Any]) -> str:
    times = f", times {one['times']}" if one.get("times") else ""
    return f"{', '.join(map(str, one['set']))}{times}"


def unknowns(record: Record) -> Table:
    """Give what the tables say of each unknown."""
    best = record.told["best"]["values"]
    rows = tuple(
        (
            one["name"],
            one["default"],
            best[one["name"]],
            ", ".join(one["not_excluded"]) or "nothing",
            one["verdict"],
        )
        for one in record.told["unknowns"]
    )
    caption = (
        "Every unknown: the uncalibrated value, the best setting's, what the published numbers do "
        "not exclude with all other unknowns free, and what that is called."
    )
    columns = ("unknown", UNCALIBRATED, BEST, "not excluded", "verdict")
    return Table("unknowns", columns, rows, caption, left=5)


def pairs(record: Record) -> Table:
    """Give the pairs of unknowns that make up for each other."""
    rows = tuple(
        (
            *(f"{name}: {value}" for name, value in zip(one["names"], one["values"], strict=True)),
            *(f"{misfit:.0f}" for misfit in (*one["alone"], one["both"])),
        )
        for one in record.told["pairs"]
    )
    caption = (
        "Pairs of unknowns that explain the same numbers: either change of the best point is "
        "excluded by its possible misfit, both together are not. Of two unknowns, the values "
        f"where that saves most; the threshold is {record.told['threshold']['limit']:.0f}."
    )
    columns = ("one", "other", "misfit with one", "with the other", "with both")
    return Table("pairs", columns, rows, caption, left=2)


def errors(record: Record) -> Table:
    """Give the errors of the fitted and the held-out numbers, before and after."""
    rows = tuple(
        (
            part_name(record, part),
            word(metric),
            _with_interval(found["default"]),
            _with_interval(found["calibrated"]),
            _ratio(found["ratio"]),
        )
        for part in ORDER
        for metric, found in record.by_metric(record.told["held_out"].get(part, {}))
    )
    caption = (
        "Root mean square of log(measured / published) over the cells, with 95 % intervals over "
        "seeds; 0.1 is about 10 %. The ratio is calibrated to uncalibrated: below 1 is better."
    )
    columns = ("numbers", "metric", UNCALIBRATED, "calibrated", "ratio")
    return Table("errors", columns, rows, caption, left=5)


def variants(record: Record) -> Table:
    """Give the errors of the search's variants: what each fitted, and what it did not see."""
    rows = tuple(
        (
            str(one["variant"]),
            PARTS[part],
            *(
                _with_interval(found[metric]["calibrated"]) if metric in found else NOTHING
                for metric in record.metrics
            ),
        )
        for one in record.variants
        for part in ("test", "fit")
        if (found := one["held_out"].get(part))
    )
    caption = (
        "The same search with an experiment left out, an unknown held, or the published rows "
        "permuted among the cells: root mean square of log(measured / published) under the best "
        "setting of each, with 95 % intervals over seeds."
    )
    columns = ("search", "numbers", *map(word, record.metrics))
    return Table("variants", columns, rows, caption, left=len(columns))


def _with_interval(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return NOTHING
    low, high = found["interval"] or (None, None)
    said = "" if low is None or high is None else f" ({fixed(low, 3)} to {fixed(high, 3)})"
    return f"{fixed(found['error'], 3)}{said}"


def _ratio(found: Mapping[str, Any]) -> str:
    if found["error"] is None:
        return NOTHING
    low, high = found["interval"] or (None, None)
    if low is None or high is None:
        return ratios(found["error"])[0]
    value, low, high = ratios(found["error"], low, high)
    return f"{value} ({low} to {high})"


def orders(record: Record) -> Table:
    """Give Kendall's tau of each block before and after."""
    found: dict[tuple[str, int, str], dict[str, str]] = {}
    for one in record.told["kendall"]:
        block = found.setdefault((one["config"], one["flows"], one["part"]), {})
        block[one["metric"]] = _tau(one)
    rows = tuple(
        (
            part_name(record, part),
            f"{config}, {flows} flows",
            *(block.get(m, NOTHING) for m in record.metrics),
        )
        for (config, flows, part), block in sorted(
            found.items(), key=lambda one: ORDER.index(one[0][2])
        )
    )
    caption = (
        "Kendall's rank correlation with the published order of the cases, uncalibrated → "
        "calibrated, with the 95 % interval of the second over seeds. 1 is the published order."
    )
    columns = ("numbers", "block", *map(word, record.metrics))
    return Table("orders", columns, rows, caption, left=len(columns))


def _tau(one: Mapping[str, Any]) -> str:
    before, after = (
        NOTHING if one[key] is None or one[key]["tau"] is None else fixed(one[key]["tau"], 2)
        for key in ("default", "calibrated")
    )
    low, high = (one["calibrated"] or {}).get("interval") or (None, None)
    spread = "" if low is None or high is None else f" ({fixed(low, 2)} to {fixed(high, 2)})"
    return f"{before} → {after}{spread}"


def cell_entries(record: Record) -> Iterator[tuple[str, str, list[tuple[str, str, Printed]]]]:
    """Yield block, case, and for each metric the published, uncalibrated and best number."""
    parts = {one["name"]: one["part"] for one in record.told.get("experiments", ())}
    for place, cell in enumerate(record.cells()):
        part = PARTS.get(parts.get(cell["experiment"], ""), "")
        where = f"{record.label(cell['experiment'])}, {cell['flows']} flows"
        numbers = []
        for column, metric in enumerate(record.metrics):
            known = record.told["table"]["published"][place][column]
            before, after = (
                _printed(setting, place, column, metric)
                for setting in (record.default, record.best)
            )
            numbers.append((NOTHING if known is None else f"{known:g}", before.mean, after))
        yield ", ".join(filter(None, (where, part))), str(cell["case"]), numbers


def _printed(setting: Mapping[str, Any], place: int, column: int, metric: str) -> Printed:
    mean, half = (setting[key][place][column] for key in ("mean", "half"))
    return printed(Estimate((), mean, half, None), METRICS[metric])


def cells(record: Record) -> Table:
    """Give every cell: published, uncalibrated, and under the best setting."""
    rows = tuple(
        (where, case, *(text for one in numbers for text in (one[0], one[1], str(one[2]))))
        for where, case, numbers in cell_entries(record)
    )
    shown = ("published", UNCALIBRATED, BEST)
    columns = ("block", "case", *(f"{word(m)}, {which}" for m in record.metrics for which in shown))
    caption = (
        "Every cell: published, uncalibrated, and under the best setting; means of "
        f"{_seeds(record)}, of the best setting ± half width of the 95 % confidence interval."
    )
    return Table("cells", columns, rows, caption, left=2)


def _seeds(record: Record) -> str:
    """Say of how many seeds the means of the uncalibrated setting and the best are."""
    runs = [n for setting in (record.default, record.best) for n in setting.get("runs", ()) if n]
    if not runs:
        return count(record.told["seeds"]["check"], "seed")
    least, most = min(runs), max(runs)
    return count(most, "seed") if least == most else f"{least} to {most} seeds"


def claims(record: Record) -> Table:
    """Give the published claims: which numbers they read, and under how many settings they hold."""
    judged = list(claims_under(record))
    rows = tuple(
        (
            CLAIM_PARTS[part],
            words,
            one.published,
            one.default,
            one.in_short(),
            f"{one.statement} ({one.id})",
        )
        for part in CLAIM_PARTS
        for kind, words in KINDS.items()
        for one in judged
        if one.kind == kind and one.part == part
    )
    beyond = "" if record.best["id"] in record.within else ", and the best, which is beyond it"
    caption = (
        "The published claims, those on held-out numbers first: verdict on the published tables, "
        f"on the uncalibrated setting, and under how many of {len(record.plausible)} settings "
        f"what: those looked at closely that are within the threshold{beyond}."
    )
    columns = ("numbers", "verdict", "published", UNCALIBRATED, "settings", "claim")
    return Table("claims", columns, rows, caption, left=6)


def emulator(record: Record) -> Table:
    """Give how well the emulator predicts points that it has not seen."""
    keys = list(dict.fromkeys(k for one in record.told["emulator"].values() for k in one or ()))
    rows = tuple(
        (word(metric), *(_maybe((found or {}).get(key)) for key in keys))
        for metric, found in record.by_metric(record.told["emulator"])
    )
    caption = (
        "How well the emulator predicts each point from the others: R², and its error over the "
        "standard deviation that it claims. Where R² is low, profiles say little; an error above "
        "1 means that the emulator is too sure."
    )
    columns = ("metric", *(_QUALITY.get(key, key.replace("_", " ")) for key in keys))
    return Table("emulator", columns, rows, caption)


def _maybe(value: Any) -> str:
    return fixed(value, 2) if isinstance(value, int | float) else NOTHING


def behaviours(record: Record) -> Table:
    """Give the TCP of the best setting and of the uncalibrated one."""
    pair = [record.default.get("tcp") or {}, record.best.get("tcp") or {}]
    rows = [("profile", *(str(one.get("profile", NOTHING)) for one in pair), "")]
    rows += [
        (name, *(_on(name in one.get("linux22", ())) for one in pair), meaning.replace("`", ""))
        for name, meaning in LINUX22_BEHAVIOURS.items()
    ]
    caption = "TCP's profile, and which behaviours of Linux 2.2 the patched kernel takes on."
    columns = ("behaviour", UNCALIBRATED, BEST, "what it does")
    return Table("tcp", columns, tuple(rows), caption, left=4)


def _on(value: bool) -> str:
    return "on" if value else "off"


def cost(record: Record) -> Table:
    """Give what each session took."""
    sessions: Sequence[Mapping[str, Any]] = record.cost
    rows = tuple(
        (
            str(number),
            str(one.get("made", 0)),
            str(one.get("skipped", 0)),
            str(one.get("failed", 0)),
            str(one.get("at_a_time", "")),
            duration(one.get("wall_s", 0.0)) + ", interrupted" * bool(one.get("interrupted")),
        )
        for number, one in enumerate(sessions, 1)
    )
    columns = ("session", "runs made", "there already", "failed", "at a time", "wall time")
    return Table("cost", columns, rows, "The sessions of the calibration.")


def duration(seconds: float) -> str:
    """Give a time in hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"

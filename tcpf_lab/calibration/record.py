"""``calibration.json`` read back: what a calibration has concluded, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.contents.model import listed
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import OUTCOME, PACKED, read_json

#: The verdict on an unknown of which the published numbers leave a range within its own.
PINNED = "pinned down"
#: Names of the files beside the outcome.
COST, VARIANTS = "cost.json", "variants.json.zst"
#: Keys stored of a variant.
_KEPT = ("variant", "fit", "test", "best", "held_out", "kendall", "runs")
#: What the two parts of the numbers are called.
PARTS = {"fit": "fitted", "test": "held out"}
#: Parts in the order of reports: held-out numbers first.
ORDER = ("test", "blind", "fit")
_CONFIGURATION = "configuration "
#: Version of the outcome that is written and understood.
FORMAT = 1
#: Without one of these there is nothing to report.
_NEEDED = (
    *("name", "fit", "test", "metrics", "unknowns", "points", "best", "settings", "threshold"),
    *("profiles", "influence", "emulator", "held_out", "kendall", "claims", "notes", "seeds"),
)
#: What files of earlier versions lack, and which parts of a report need it.
_LATER = {
    "table": "the table of all cells",
    "experiments": "the conditions of the experiments",
    "validity": "which runs are valid, and what they were made with",
    "judged_limit": "which settings are within the threshold of their own misfits",
    "unfinished": "whether the search was finished",
    "pairs": "which pairs of unknowns make up for each other",
}


@dataclass(frozen=True)
class Record:
    """A calibration as its file has it; ``cost`` has an entry for each session, if that is known.

    ``source`` is the file that it was read from. ``variants`` has what is kept of the same search
    with an experiment left out, an unknown held or the published rows permuted.
    """

    data: Mapping[str, Any]
    cost: tuple[Mapping[str, Any], ...]
    source: Path
    variants: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The calibration's name."""
        return str(self.data["name"])

    @property
    def title(self) -> str:
        """Its title, or its name where it has none."""
        return str(self.data.get("title") or self.name)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were fitted."""
        return tuple(self.data["metrics"])

    def by_metric(self, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield what there is of each metric, in the order of the metrics."""
        yield from ((metric, found[metric]) for metric in self.metrics if metric in found)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Names of the unknowns."""
        return tuple(one["name"] for one in self.data["unknowns"])

    @property
    def default(self) -> Mapping[str, Any]:
        """The uncalibrated setting as the final check has it."""
        first: Mapping[str, Any] = self.data["settings"][0]
        return first

    @property
    def best(self) -> Mapping[str, Any]:
        """The best setting as the final check has it."""
        return next(one for one in self.data["settings"] if one["id"] == self.data["best"]["id"])

    @property
    def within(self) -> tuple[str, ...]:
        """Ids of the settings run with all seeds that are within the threshold."""
        settings = self.data["settings"]
        return tuple(one["id"] for one in settings if self._allowed(one))

    @property
    def plausible(self) -> tuple[str, ...]:
        """Ids of the settings within the threshold, and the best's, which may be beyond it."""
        ids = (one["id"] for one in self.data["settings"])
        return tuple(i for i in ids if i in self.within or i == self.best["id"])

    def _allowed(self, setting: Mapping[str, Any]) -> bool:
        """Say whether a setting is within; one without usable runs is not known to be."""
        if "allowed" in setting:
            return bool(setting["allowed"])
        return setting["id"] not in self.excluded

    @property
    def excluded(self) -> frozenset[str]:
        """Ids of the points that the published numbers exclude; of others nothing may be known."""
        return frozenset(one["id"] for one in self.data["points"] if one.get("excluded"))

    @property
    def searched(self) -> tuple[Mapping[str, Any], ...]:
        """The points in the order of the search: by their rounds."""
        return tuple(sorted(self.data["points"], key=lambda one: int(one["round"])))

    @staticmethod
    def whole(point: Mapping[str, Any]) -> bool:
        """Say whether a point has measured every cell: else its misfit is in part a guess."""
        return bool(point.get("complete", True)) and point["misfit"] is not None

    @property
    def compared(self) -> tuple[Mapping[str, Any], ...]:
        """The points whose misfits can be compared: those that have measured every cell."""
        return tuple(filter(self.whole, self.data["points"]))

    @property
    def missing(self) -> tuple[str, ...]:
        """What the file lacks because an earlier version wrote it, in words."""
        found = [words for key, words in _LATER.items() if key not in self.data]
        if any("mean" not in one for one in self.data["settings"]):
            found += ["what each setting measured"]
        return tuple(found)

    def label(self, experiment: str) -> str:
        """Give what tables call an experiment: ``configuration A``, or its name."""
        for one in self.data.get("experiments", ()):
            if one["name"] == experiment and one["config"] in CONFIGS:
                return f"{_CONFIGURATION}{one['config']}"
        return experiment

    def labels(self, experiments: Sequence[str]) -> str:
        """Give several of them: ``configurations A and B``, or their names."""
        found = list(map(self.label, experiments))
        if len(found) > 1 and all(one.startswith(_CONFIGURATION) for one in found):
            own = (one.removeprefix(_CONFIGURATION) for one in found)
            return f"{_CONFIGURATION.rstrip()}s {listed(own)}"
        return listed(found) if found else "nothing"

    def part_name(self, part: str) -> str:
        """Give what a part is called; ``blind`` is without what was known before."""
        if part == "blind":
            return f"{PARTS['test']} without {listed(self.data['seen'])}"
        return PARTS[part]

    def spent(self, key: str) -> float:
        """Add up what the sessions took."""
        total: float = sum(one.get(key, 0) for one in self.cost)
        return total

    def cells(self) -> Sequence[Mapping[str, Any]]:
        """Give all cells of the final check; none where the file lacks them."""
        found: Sequence[Mapping[str, Any]] = self.data.get("table", {}).get("cells", ())
        return found


def read_record(directory: Path) -> Record:
    """Read a calibration from its directory, or from its file; one that is kept is packed.

    Raises
    ------
    RequestError
        If there is none, or it is not one that this version understands.
    """
    path = directory
    if path.suffix not in (".json", PACKED):
        kept = directory / f"{OUTCOME}{PACKED}"
        path = kept if kept.exists() else directory / OUTCOME
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RequestError(f"is not a calibration outcome of format {FORMAT}", where=str(path))
    lacking = [key for key in _NEEDED if key not in data]
    if data.get("held_out", {}).get("blind") and not data.get("seen"):
        lacking.append("seen")  # what the blind numbers are without
    if lacking or not data["settings"]:
        raise RequestError(
            f"is damaged: it lacks {', '.join(lacking) or 'settings'}",
            where=str(path),
            hint="`calibrate` with --only-report writes it again",
        )
    return Record(data, entries(path.with_name(COST)), path, _variants(path, data.get("testbed")))


def _variants(path: Path, testbed: Any) -> tuple[Mapping[str, Any], ...]:
    """Read what is kept of variants: their own outcomes beside this one's, or what was kept."""
    beside = map(_read, sorted(path.parent.parent.glob(f"{path.parent.name}-*/{OUTCOME}")))
    whole = (one for one in beside if isinstance(one, dict) and {"format", *_KEPT} <= one.keys())
    own = [one for one in whole if (one["format"], one.get("testbed")) == (FORMAT, testbed)]
    found = tuple({key: one[key] for key in _KEPT} for one in own)
    return found or entries(path.with_name(VARIANTS))


def entries(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Give the entries of ``cost.json`` or ``VARIANTS``; none if it is missing or damaged."""
    found = _read(path)
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _read(path: Path) -> Any:
    """Read what a report can do without."""
    try:
        return read_json(path)
    except RequestError:
        return None


def word(metric: str) -> str:
    """Give what a sentence calls a metric."""
    return METRICS[metric].word if metric in METRICS else metric


def ranges(one: Mapping[str, Any]) -> str:
    """Give the range of an unknown, or its levels."""
    if "levels" in one:
        return ", ".join(one["levels"])
    log = " (log)" if one["scale"] == "log" else ""
    return f"{one['from']} to {one['to']}{log}"


#: Joint verdicts of the settings on a claim.
EVERY, UNREFUTED, SOME, NONE = "every", "not refuted", "some", "none"
NOISE, OPEN, FEW = "noise", "not decidable", "too few seeds"
_HOLDS, _REFUTED, _WITHIN_NOISE = "holds", "refuted", "within noise"

#: Words for claims of each kind.
KINDS = {
    EVERY: "holds under every one",
    UNREFUTED: "holds or within noise",
    SOME: "holds under some alone",
    NONE: "refuted, holds under none",
    NOISE: "not beyond noise",
    OPEN: "not decidable",
}
#: Which numbers claims read; those on what is held out come first.
CLAIM_PARTS = {"test": "held out", "both": "both", "fit": "fitted", "": "not known"}


@dataclass(frozen=True)
class ClaimUnder:
    """A published claim: its verdicts on the published tables and under settings.

    ``part`` says whether it reads numbers that were fitted (``fit``), held out (``test``) or both;
    it is empty if the file does not say. ``counts`` are the verdicts under the plausible settings.
    """

    id: str
    statement: str
    part: str
    published: str
    default: str
    best: str
    counts: Counter[str]

    @property
    def holding(self) -> int:
        """How many settings it holds under."""
        return self.counts[_HOLDS]

    @property
    def refuted(self) -> int:
        """How many settings it is refuted under."""
        return self.counts[_REFUTED]

    @property
    def judged(self) -> int:
        """How many settings have the runs that it takes to judge it."""
        return self.counts.total() - self.counts[OPEN] - self.counts[FEW]

    @property
    def kind(self) -> str:
        """Joint verdict of the settings that can judge it; noise neither supports nor refutes."""
        if not self.judged:
            return OPEN
        if self.refuted:
            return SOME if self.holding else NONE
        if not self.holding:
            return NOISE
        return EVERY if self.holding == self.judged else UNREFUTED

    def in_short(self) -> str:
        """Give how many settings say what."""
        words = {
            _HOLDS: "holds",
            _REFUTED: "refuted",
            _WITHIN_NOISE: "noise",
            FEW: FEW,
            OPEN: "no runs",
        }
        return ", ".join(
            f"{words[said]} {self.counts[said]}" for said in words if self.counts[said]
        )


def claims_under(record: Record) -> Iterator[ClaimUnder]:
    """Yield the published claims, judged under the plausible settings; held-out numbers first."""
    order = list(CLAIM_PARTS)
    for one in sorted(record.data["claims"], key=lambda one: order.index(one.get("part") or "")):
        verdicts = one["verdicts"]
        yield ClaimUnder(
            one["id"],
            one["statement"],
            one.get("part") or "",
            one["published"],
            verdicts.get(record.default["id"], OPEN),
            verdicts.get(record.best["id"], OPEN),
            Counter(verdicts.get(point, OPEN) for point in record.plausible),
        )

"""``calibration.json`` read back: what a calibration has concluded, and what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.contents.model import listed
from tcpf_lab.results.layout import read_json

#: Names of the two files.
OUTCOME, COST, VARIANTS = "calibration.json", "cost.json", "variants.json"
#: What is kept of a variant.
_KEPT = ("variant", "fit", "test", "best", "held_out", "kendall", "runs")
_CONFIGURATION = "configuration "
#: Version of the outcome that is understood.
_FORMAT = 1
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

    told: Mapping[str, Any]
    cost: tuple[Mapping[str, Any], ...]
    source: Path
    variants: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The calibration's name."""
        return str(self.told["name"])

    @property
    def title(self) -> str:
        """Its title, or its name where it has none."""
        return str(self.told.get("title") or self.name)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were fitted."""
        return tuple(self.told["metrics"])

    def by_metric(self, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield what there is of each metric, in the order of the metrics."""
        yield from ((metric, found[metric]) for metric in self.metrics if metric in found)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Names of the unknowns."""
        return tuple(one["name"] for one in self.told["unknowns"])

    @property
    def default(self) -> Mapping[str, Any]:
        """The uncalibrated setting as the close look has it."""
        first: Mapping[str, Any] = self.told["settings"][0]
        return first

    @property
    def best(self) -> Mapping[str, Any]:
        """The best setting as the close look has it."""
        return next(one for one in self.told["settings"] if one["id"] == self.told["best"]["id"])

    @property
    def within(self) -> tuple[str, ...]:
        """Ids of the settings looked at closely that are within the threshold."""
        settings = self.told["settings"]
        return tuple(one["id"] for one in settings if self._allowed(one))

    @property
    def plausible(self) -> tuple[str, ...]:
        """Ids of the settings within the threshold, and the best's, which may be beyond it."""
        ids = (one["id"] for one in self.told["settings"])
        return tuple(i for i in ids if i in self.within or i == self.best["id"])

    def _allowed(self, setting: Mapping[str, Any]) -> bool:
        """Say whether a setting is within; one without usable runs is not known to be."""
        if "allowed" in setting:
            return bool(setting["allowed"])
        return setting["id"] not in self.excluded

    @property
    def excluded(self) -> frozenset[str]:
        """Ids of the points that the published numbers exclude; of others nothing may be known."""
        return frozenset(one["id"] for one in self.told["points"] if one.get("excluded"))

    @property
    def searched(self) -> tuple[Mapping[str, Any], ...]:
        """The points in the order of the search: by their rounds."""
        return tuple(sorted(self.told["points"], key=lambda one: int(one["round"])))

    @staticmethod
    def whole(point: Mapping[str, Any]) -> bool:
        """Say whether a point has measured every cell: else its misfit is in part a guess."""
        return bool(point.get("complete", True)) and point["misfit"] is not None

    @property
    def missing(self) -> tuple[str, ...]:
        """What the file lacks because an earlier version wrote it, in words."""
        found = [words for key, words in _LATER.items() if key not in self.told]
        if any("mean" not in one for one in self.told["settings"]):
            found += ["what each setting measured"]
        return tuple(found)

    def label(self, experiment: str) -> str:
        """Give what tables call an experiment: ``configuration A``, or its name."""
        for one in self.told.get("experiments", ()):
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

    def cells(self) -> Sequence[Mapping[str, Any]]:
        """Give all cells of the close look; none where the file lacks them."""
        found: Sequence[Mapping[str, Any]] = self.told.get("table", {}).get("cells", ())
        return found


def read_record(directory: Path) -> Record:
    """Read a calibration from its directory, or from its file.

    Raises
    ------
    RequestError
        If there is none, or it is not one that this version understands.
    """
    path = directory if directory.suffix == ".json" else directory / OUTCOME
    told = read_json(path)
    if not isinstance(told, dict) or told.get("format") != _FORMAT:
        raise RequestError(f"is no outcome of a calibration of format {_FORMAT}", where=str(path))
    lacking = [key for key in _NEEDED if key not in told]
    if lacking or not told["settings"]:
        raise RequestError(
            f"is damaged: it lacks {', '.join(lacking) or 'settings'}",
            where=str(path),
            hint="`calibrate` with --only-report writes it again",
        )
    return Record(told, _entries(path.with_name(COST)), path, _variants(path, told.get("testbed")))


def _variants(path: Path, testbed: Any) -> tuple[Mapping[str, Any], ...]:
    """Read what is kept of variants: their own outcomes beside this one's, or what was kept."""
    beside = map(_read, sorted(path.parent.parent.glob(f"{path.parent.name}-*/{OUTCOME}")))
    whole = (one for one in beside if isinstance(one, dict) and {"format", *_KEPT} <= one.keys())
    own = [one for one in whole if (one["format"], one.get("testbed")) == (_FORMAT, testbed)]
    found = tuple({key: one[key] for key in _KEPT} for one in own)
    return found or _entries(path.with_name(VARIANTS))


def _entries(path: Path) -> tuple[Mapping[str, Any], ...]:
    found = _read(path)
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _read(path: Path) -> Any:
    """Read what a report can do without."""
    try:
        return read_json(path)
    except RequestError:
        return None

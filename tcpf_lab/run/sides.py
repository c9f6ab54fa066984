"""Two sides of one experiment, A and B, that differ in some settings: their runs, and a verdict.

A side's settings are axes of one value: its runs stand beside those of the other side, and a sweep
over both values has the same runs. Where a side changes a whole section, its runs have a directory
of their own, ``results/NAME-DIGEST``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean

from tcpf_lab.base.errors import LabError, RequestError, SpecError
from tcpf_lab.report.claims.page import CellRuns, PaperRun, cells_of
from tcpf_lab.report.compare.paired import Against, Sample, by_metric, differences, overall
from tcpf_lab.report.compare.parting import Parting, parting
from tcpf_lab.report.compare.published import left_out
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.section import Section, gather
from tcpf_lab.report.style import DRAWN, conditions
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run.campaign import sources
from tcpf_lab.run.selection import Choice, Part, RunRequest, choose
from tcpf_lab.spec.axis import HEADS, KERNEL, key_of, may_be_axis, path_of
from tcpf_lab.spec.load import each, raise_all
from tcpf_lab.spec.sweep import Run, Settings
from tcpf_lab.spec.words import unknown

#: What of each group is compared by default.
_GROUP_KEYS = ("throughput_bytes_per_s", "queueing_delay_s.p50", "loss_percent")
#: A cell without the settings of the sides: experiment, case, flows, settings.
_Key = tuple[str, str, int, Settings]


@dataclass(frozen=True)
class SideSettings:
    """The settings of both sides, ``PATH=VALUE`` each; without any a side is the experiment."""

    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def keys(self) -> frozenset[str]:
        """What either changes, by the short form of its key."""
        return frozenset(_changed_by(setting) for setting in (*self.first, *self.second))

    def words(self) -> tuple[str, ...]:
        """Give the options that set them."""
        return (
            *chain.from_iterable(("--a", setting) for setting in self.first),
            *chain.from_iterable(("--b", setting) for setting in self.second),
        )


def _changed_by(setting: str) -> str:
    return key_of(path_of(setting.partition("=")[0]))


def side_settings(
    kernels: Sequence[str], first: Sequence[str], second: Sequence[str]
) -> SideSettings | None:
    """Read the options ``--kernel``, ``--a`` and ``--b``; None without any of them.

    Raises
    ------
    RequestError
        If there are not two kernels, a side sets a key twice or something that is no single value
        of a key, or both sides are the same.
    """
    if not (kernels or first or second):
        return None
    if len(kernels) not in (0, 2):
        raise RequestError(
            f"two kernels are compared, not {len(kernels)}",
            where=" ".join(f"--kernel {kernel}" for kernel in kernels),
            hint="--kernel 6.12 --kernel 7.3; of one side alone: --b 'kernel=\"7.3\"'",
        )
    own = [f"{KERNEL}={json.dumps(kernel)}" for kernel in kernels]
    found = SideSettings((*own[:1], *first), (*own[1:], *second))
    for option, settings in (("--a", found.first), ("--b", found.second)):
        keys = [_changed_by(setting) for setting in settings]
        for setting, key in zip(settings, keys, strict=True):
            if keys.count(key) > 1:
                raise RequestError(f"{key} is set twice on this side", where=f"{option} {setting}")
            _require_value(option, setting)
    if sorted(found.first) == sorted(found.second):
        raise _same(" ".join(found.words()))
    return found


def margin_of(words: str) -> float:
    """Read the margin of equivalence, ``5%``; see `share_of`."""
    return share_of(words, "--margin", "A's mean")


def share_of(words: str, option: str, whole: str) -> float:
    """Read ``5%``, or ``5 %``, of a whole.

    Raises
    ------
    RequestError
        If it is no share above 0.
    """
    number, percent, rest = words.partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = 0
    if not percent or rest.strip() or not 0 < share < math.inf:
        message = f"is no share of {whole} above 0, such as 5%"
        raise RequestError(message, where=f"{option} {words}")
    return share


def require_metrics(names: Sequence[str]) -> None:
    """Refuse a metric that no run has; a path in ``metrics.json`` shows only there.

    Raises
    ------
    RequestError
        If there is one.
    """
    columns = LAYOUTS["runs"].columns
    known = [column.name for column in columns if column.source == "metrics.json: metrics"]
    for name in names:
        if "." not in name and name not in known:
            message = unknown("no metric of a run", name, known)
            raise RequestError(message, where=f"--metric {name}")


def _require_value(option: str, setting: str) -> None:
    key, equals, value = setting.partition("=")
    if not (equals and key and value):
        message = "write PATH=VALUE, such as tcp.sack=false"
    elif path_of(key)[0] not in (*HEADS, KERNEL):
        message = "is nothing that runs are made under"
    elif value.lstrip()[0] == "[" or ".." in value:
        message = "a side has one value of a key, not a list or a range"
    else:
        return
    raise RequestError(
        message,
        where=f"{option} {setting}",
        hint="keys are those of the experiment, as queue.max=60 kB; what both sides share: --set",
    )


def _is_axis(setting: str) -> bool:
    key, _, value = setting.partition("=")
    return may_be_axis(path_of(key)) and value.lstrip()[0] != "{"


def _same(where: str) -> RequestError:
    return RequestError(
        "both sides have the same runs",
        where=where,
        hint="change a value on one side: --b tcp.sack=false, or --kernel 6.12 --kernel 7.3",
    )


@dataclass(frozen=True)
class Sides:
    """The runs of both sides; ``unchanged`` are cells whose runs are the same on both."""

    request: RunRequest
    settings: SideSettings
    first: Choice
    second: Choice
    unchanged: tuple[str, ...]

    def words(self) -> tuple[str | Path, ...]:
        """Give the words of a command line that choose both."""
        return (*self.request.words(), *self.settings.words())

    def captured(self) -> Choice:
        """Give the runs of both whose captures are compared: the first seed of each cell."""
        return self._both(first_seeds=True)

    def others(self) -> Choice:
        """Give the other runs of both."""
        return self._both(first_seeds=False)

    def _both(self, *, first_seeds: bool) -> Choice:
        every = (*self.first.parts, *self.second.parts)
        firsts = {(part.experiment.name, cell.runs[0]) for part in every for cell in part.cells()}
        return _narrowed(
            replace(self.first, parts=every), lambda run: (run.key in firsts) is first_seeds
        )


def choose_sides(request: RunRequest, settings: SideSettings) -> Sides:
    """Choose the runs of both sides.

    Raises
    ------
    RequestError
        As `choose`, and if no run differs between the sides.
    """
    both = [
        _chosen(request, own, option)
        for option, own in (("--a", settings.first), ("--b", settings.second))
    ]
    shared = set.intersection(*({run.key for run in choice.runs} for choice in both))
    cells = {
        run.key: _key(run.experiment.name, run.case_name, run.flows, run.settings, settings)
        for run in both[0].runs
    }
    names = _names(list(dict.fromkeys(cells.values())))
    unchanged = dict.fromkeys(names[key] for run, key in cells.items() if run in shared)
    first, second = (_narrowed(one, lambda run: run.key not in shared) for one in both)
    if not first.parts or not second.parts:
        raise _same(" ".join(settings.words()))
    return Sides(request, settings, first, second, tuple(unchanged))


def _chosen(request: RunRequest, settings: Sequence[str], option: str) -> Choice:
    """Choose the runs of one side; what is wrong with a setting names its option."""
    overrides = [_override(setting) for setting in settings]
    try:
        chosen = choose(replace(request, overrides=(*request.overrides, *overrides)))
    except RequestError as error:
        for one in each(error) if isinstance(error, SpecError) else (error,):
            for override, setting in zip(overrides, settings, strict=True):
                one.where = one.where.replace(f"--set {override}", f"{option} {setting}")
        if isinstance(error, SpecError):
            raise_all(each(error))
        raise
    ending = _ending(settings)
    if not ending:
        return chosen
    axes = (override for override in overrides if _is_axis(override))
    plain = choose(replace(request, overrides=(*request.overrides, *axes)))
    same = {run.key: run.experiment for run in plain.runs}
    kept = _narrowed(chosen, lambda run: same.get(run.key) == run.experiment)
    changed = _narrowed(chosen, lambda run: same.get(run.key) != run.experiment)
    renamed = (_renamed(part, ending) for part in changed.parts)
    return replace(chosen, parts=(*kept.parts, *renamed))


def _override(setting: str) -> str:
    key, _, value = setting.partition("=")
    return f"{key}=[{value}]" if _is_axis(setting) else setting


def _ending(settings: Sequence[str]) -> str:
    """Give what is added to an experiment's name where a side changes a section; else nothing."""
    sections = sorted(setting for setting in settings if not _is_axis(setting))
    digest = hashlib.sha256("\n".join(sections).encode()).hexdigest()
    return f"-{digest[:8]}" if sections else ""


def _renamed(part: Part, ending: str) -> Part:
    """Give changed runs a directory of their own: no name of a run has the change."""
    name = part.experiment.name + ending
    level = replace(part.level, experiment=part.experiment.model_copy(update={"name": name}))
    runs = (
        replace(run, experiment=run.experiment.model_copy(update={"name": name}))
        for run in part.runs
    )
    return replace(part, level=level, runs=tuple(runs), files=replace(part.files, experiment=name))


def _narrowed(choice: Choice, wanted: Callable[[Run], bool]) -> Choice:
    parts = (replace(part, runs=tuple(filter(wanted, part.runs))) for part in choice.parts)
    return replace(choice, parts=tuple(part for part in parts if part.runs))


def _key(experiment: str, case: str, flows: int, settings: Settings, of: SideSettings) -> _Key:
    """Give the key of a cell: without what the sides change."""
    own = tuple(pair for pair in settings if pair[0] not in of.keys)
    for ending in map(_ending, (of.first, of.second)):
        experiment = experiment.removesuffix(ending)
    return experiment, case, flows, own


def _names(keys: Sequence[_Key]) -> dict[_Key, str]:
    """Name cells by what they do not share: ``TB+RIO, 10 flows, queue.max=100 kB``."""
    several = [len({key[place] for key in keys}) > 1 for place in (0, 2)]
    return {
        (experiment, case, flows, settings): ", ".join(
            (
                *((experiment,) if several[0] else ()),
                case,
                *((f"{flows} flows",) if several[1] else ()),
                *(f"{name}={value}" for name, value in settings),
            )
        )
        for experiment, case, flows, settings in keys
    }


def against(
    sides: Sides,
    *,
    metrics: Sequence[str] = (),
    margin: float | None = None,
    include_invalid: bool = False,
) -> Against:
    """Pair the runs of both sides by cell and seed, and judge each metric.

    Parameters
    ----------
    sides : Sides
        Both, with their runs made.
    metrics : sequence of str
        Names of metrics, or paths in ``metrics.json``; those of the tables by default.
    margin : float, optional
        Of equivalence, relative to A's mean.
    include_invalid : bool
        Let runs that failed a check into the means.

    Raises
    ------
    RequestError
        If no run has a metric.
    LabError
        If no cell has a seed with a usable run on both sides.
    """
    choices = sides.first, sides.second
    sections = [gather(sources(choice), include_invalid) for choice in choices]
    cells = [_cells(own, sides.settings) for own in sections]
    keys = dict.fromkeys(chain(*cells))
    names = _names(list(keys))
    pairs = {
        names[key]: (cells[0][key], cells[1][key])
        for key in keys
        if key in cells[0] and key in cells[1] and _seeds(cells[0][key]) & _seeds(cells[1][key])
    }
    missing = tuple(
        f"no common seed of usable runs: {name}"
        for key, name in names.items()
        if names[key] not in pairs
    )
    first, second = (tuple(left_out(r for one in own for r in one.results)) for own in sections)
    if not pairs:
        reasons = [
            f"{name}: {rows[0].first}" for name, rows in (("A", first), ("B", second)) if rows
        ]
        raise LabError(
            "; ".join(("no cell has a seed with a usable run on both sides", *reasons)),
            where=" ".join(sides.settings.words()),
            hint="--include-invalid uses runs that failed a check",
        )
    found = differences(_samples(pairs, metrics), margin)
    partings, uncaptured = _partings(pairs)
    return Against(
        sides=(_settings_text(sides.settings.first), _settings_text(sides.settings.second)),
        conditions=(_conditions(sides.first), _conditions(sides.second)),
        margin=margin,
        verdict=overall(one.verdict for one in found),
        metrics=by_metric(found),
        differences=found,
        missing=missing,
        unchanged=sides.unchanged,
        left_out=(first, second),
        partings=partings,
        uncaptured=uncaptured,
    )


def _settings_text(settings: Sequence[str]) -> str:
    return ", ".join(text.replace('"', "") for text in settings) or "as it stands"


def _conditions(choice: Choice) -> str:
    texts = (conditions(run.experiment for run in part.runs) for part in choice.parts)
    return " or ".join(dict.fromkeys(texts))


def _cells(sections: Sequence[Section], settings: SideSettings) -> dict[_Key, CellRuns]:
    found: dict[_Key, CellRuns] = {}
    for section in sections:
        for one in cells_of(section):
            name = section.source.files.experiment
            key = _key(name, one.case, one.flows, one.cell.settings, settings)
            if key in found:
                raise RequestError(
                    f"a side has several values of {', '.join(sorted(settings.keys))}",
                    where=one.cell.label,
                    hint="give each side one value: --a KEY=VALUE --b KEY=VALUE",
                )
            found[key] = one
    return found


def _seeds(cell: CellRuns) -> set[int]:
    return {run.seed for run in cell.runs}


Pairs = Mapping[str, tuple[CellRuns, CellRuns]]


def _samples(pairs: Pairs, metrics: Sequence[str]) -> list[Sample]:
    """Give the numbers of every metric and cell.

    Raises
    ------
    RequestError
        If a requested metric is nowhere on one of the sides.
    """
    found: list[Sample] = []
    runs = next(iter(pairs.values()))[0].runs
    for name in metrics or (*DRAWN, *_of_groups(runs[0])):
        own: list[Sample] = [
            (cell, name, first.number(_path(name)), second.number(_path(name)))
            for cell, (first, second) in pairs.items()
        ]
        if any(first.keys() & second.keys() for _, _, first, second in own):
            found += own
        elif metrics:
            message = unknown("no pair of runs has this number", name, _paths(runs[0]))
            raise RequestError(message, where=f"--metric {name}")
    return found


def over_cells(choice: Choice, metric: str) -> dict[int, float]:
    """Give the mean of a metric over all cells, for each seed that all of them have.

    Raises
    ------
    RequestError
        If no run has the metric.
    """
    cells = [cell for one in gather(sources(choice)) for cell in cells_of(one)]
    found = [cell.number(_path(metric)) for cell in cells]
    runs = [run for cell in cells for run in cell.runs]
    if runs and not any(found):
        message = unknown("no run has this number", metric, _paths(runs[0]))
        raise RequestError(message, where=f"--metric {metric}")
    seeds = set.intersection(*map(set, found)) if found else set()
    return {seed: fmean(each[seed] for each in found) for seed in sorted(seeds)}


def _path(name: str) -> str:
    return f"metrics.{name}" if "." not in name else name


def _paths(run: PaperRun) -> list[str]:
    """Give the numbers that a run has: its metrics, and those of its groups."""
    own = [name for name in run.found.get("metrics", ()) if run.number(_path(name)) is not None]
    return [*own, *_of_groups(run)]


def _of_groups(run: PaperRun) -> list[str]:
    names = [str(group["name"]) for group in run.found.get("groups", ())]
    return [f"groups.{name}.{key}" for name in names for key in _GROUP_KEYS]


def _partings(pairs: Pairs) -> tuple[tuple[Parting, ...], tuple[str, ...]]:
    """Compare the captures of pairs that have them: of the first seed at least."""
    found: list[Parting] = []
    unread: list[str] = []
    lacking: dict[str, list[str]] = {}
    for cell, (first, second) in pairs.items():
        theirs = {run.seed: run.files for run in second.runs}
        common = {run.seed: run.files for run in first.runs if run.seed in theirs}
        for place, seed in enumerate(sorted(common)):
            both = common[seed], theirs[seed]
            without = [name for name, files in zip("AB", both, strict=True) if not _captured(files)]
            if not without:
                try:
                    found.append(parting(cell, seed, *both))
                except LabError as error:
                    unread.append(f"captures of {cell}, seed {seed}: {error.message}")
            elif place == 0:  # those of other seeds are stored on request
                lacking.setdefault(" and ".join(without), []).append(f"{cell}, seed {seed}")
    lines = (f"no captures on {side}: {'; '.join(cells)}" for side, cells in lacking.items())
    return tuple(found), (*lines, *unread)


def _captured(files: RunFiles) -> bool:
    return any(files.pcap.glob("*.pcap*"))

"""What is drawn: runs, and which of them belong together; captures, and a flow of one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.record import with_captures_instead
from tcpf_lab.report.contents.model import count
from tcpf_lab.report.section import read_manifest, read_metrics
from tcpf_lab.report.style import NO_BREAK_SPACE, conditions
from tcpf_lab.results.command import again, command
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.axis import CASE_SECTIONS, shown
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.trace.analysis import RTO, Analysis, Options, analyse, ip_text
from tcpf_lab.trace.packet import Capture, Flows, Packets, find_flows, read_between, read_capture

#: What differs between runs without making them different kinds of runs.
_IDENTITY = ("name", "title", "reference", "matrix", "cases")
#: Panels of a figure, at most.
MOST_PANELS = 4
#: What a path to a value of the one case begins with, in short.
_SECTIONS = CASE_SECTIONS


@dataclass(frozen=True, eq=False)
class DrawnRun:
    """One complete run.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    experiment : Experiment
        What it was made from, narrowed to it.
    found : dict
        Its ``metrics.json``.
    testbed : str
        Where it was made.
    cases : tuple of str
        All cases of the experiment, its own if no others are known.
    """

    files: RunFiles
    experiment: Experiment
    found: dict[str, Any]
    testbed: str = ""
    cases: tuple[str, ...] = ()

    @property
    def case(self) -> str:
        """Name of the case."""
        return self.experiment.selected_cases[0]

    @property
    def flows(self) -> int:
        """Number of flows."""
        return self.experiment.flows[0]

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.experiment.matrix.seed[0]

    @property
    def title(self) -> str:
        """What the experiment is called in a heading."""
        return self.experiment.title or self.experiment.name

    @property
    def valid(self) -> bool:
        """Whether the run passed every check."""
        return bool(self.found["validity"]["valid"])

    @cached_property
    def settings(self) -> dict[str, str]:
        """Testbed, and every value of the experiment by its key, of the case as ``queue.max``.

        As text, as a file has it; a key left to an unknown default has none.
        """
        data = to_data(self.experiment)
        case = data["cases"][self.case]
        own = {key: value for key, value in data.items() if key not in _IDENTITY}
        parts = {name: case[name] for name in _SECTIONS if name in case}
        return dict(_flat({"testbed": self.testbed, **own, **parts}))

    @cached_property
    def cell(self) -> tuple[object, ...]:
        """What it has in common with runs that differ from it in nothing but their seed."""
        own = tuple(sorted(self.settings.items()))
        return self.experiment.name, self.flows, self.case, own

    def metric(self, name: str) -> float:
        """Give a number of the whole run.

        Raises
        ------
        LabError
            If it is undefined for the run.
        """
        value = self.found["metrics"].get(name)
        if value is None and name in self.found.get("unmeasured", ()):
            raise LabError(
                f"{name} was not measured: the run was made without captures",
                where=str(self.files.metrics),
                hint=f"draw another metric, or {with_captures_instead(self.files)}",
            )
        if name not in self.found["metrics"]:
            raise LabError(
                f"has no {name}",
                where=str(self.files.metrics),
                hint=f"`{again(self.files)}` makes it anew, if it was made by an older version",
            )
        if value is None:
            raise LabError(
                f"{name} is undefined for this run",
                where=str(self.files.metrics),
                hint="its window may be too short: draw another metric, or leave the run out",
            )
        return float(value)

    def goodputs(self) -> list[float]:
        """Goodput of each flow, bytes/s.

        Raises
        ------
        LabError
            If it has no data of single flows.
        """
        found = [flow["goodput_bytes_per_s"] for flow in self.found["per_flow"]]
        if None in found:
            raise LabError(
                "the goodput of single flows was not measured",
                where=str(self.files.metrics),
                hint="draw another figure",
            )
        return [float(goodput) for goodput in found]


def _flat(section: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif value is not None:
            yield f"{above}{key}", shown(value)


def read_run(files: RunFiles, experiment: Experiment, cases: tuple[str, ...] = ()) -> DrawnRun:
    """Read the numbers of a run of an experiment that has these cases.

    Raises
    ------
    LabError
        If ``metrics.json`` or ``manifest.json`` is missing, damaged or of another format.
    """
    found = read_metrics(files, "metrics", "per_flow", "validity")
    manifest = read_manifest(files, "testbed")
    return DrawnRun(files, experiment, found, manifest["testbed"], cases)


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in nothing but their seed.

    ``variant`` says what tells it from other groups of the same case: empty, or
    ``queue.max=100 kB``.
    """

    runs: tuple[DrawnRun, ...]
    variant: str

    @property
    def first(self) -> DrawnRun:
        """One run that speaks for all."""
        return self.runs[0]

    @property
    def label(self) -> str:
        """Case and variant."""
        return f"{self.first.case}, {self.variant}" if self.variant else self.first.case


@dataclass(frozen=True, eq=False)
class Panel:
    """Groups that are drawn into one pair of axes: of one experiment and number of flows."""

    label: str
    groups: tuple[Group, ...]


def grouped(runs: Sequence[DrawnRun]) -> tuple[Group, ...]:
    """Put runs together that differ in their seed only, in the order in which they come."""
    cells: dict[tuple[object, ...], list[DrawnRun]] = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run)
    groups = [tuple(members) for members in cells.values()]
    return tuple(Group(own, _variant(own[0], [other[0] for other in groups])) for own in groups)


def _variant(run: DrawnRun, others: Sequence[DrawnRun]) -> str:
    """Say what tells a run from those of its experiment with the same case and number of flows."""

    def place(run: DrawnRun) -> tuple[str, str, int]:
        return run.experiment.name, run.case, run.flows

    rivals = [other.settings for other in others if place(other) == place(run)]
    return ", ".join(f"{key}={run.settings.get(key, 'unset')}" for key in varying(rivals))


def varying(settings: Sequence[dict[str, str]]) -> list[str]:
    """Give the keys whose values differ, or that not all have.

    Examples
    --------
    >>> varying([{"queue.max": "1 kB", "tcp.sack": "true"}, {"queue.max": "2 kB"}])
    ['queue.max', 'tcp.sack']
    """
    keys = dict.fromkeys(key for own in settings for key in own)
    return [key for key in keys if len({own.get(key) for own in settings}) > 1]


def panelled(runs: Sequence[DrawnRun], most: int) -> tuple[Panel, ...]:
    """Give the panels of a figure: experiments in their order, numbers of flows ascending.

    Raises
    ------
    RequestError
        If there are more than `most`.
    """
    found: dict[tuple[str, int], list[Group]] = {}
    order = list(dict.fromkeys(run.experiment.name for run in runs))
    for group in grouped(sorted(runs, key=lambda s: (order.index(s.experiment.name), s.flows))):
        found.setdefault((group.first.experiment.name, group.first.flows), []).append(group)
    if len(found) > most:
        names = ", ".join(f"{name} with {flows}" for name, flows in found)
        raise RequestError(
            f"{len(found)} panels are too many to read, {most} at most: {names} flows",
            hint="choose with --flows, or with --only config=NAME",
        )
    above = {name: f"{name}, " if len(order) > 1 else "" for name in order}
    return tuple(
        Panel(f"{above[name]}{flows} flows", tuple(groups))
        for (name, flows), groups in found.items()
    )


def runs_behind(groups: Sequence[Group], mark: str) -> str:
    """Say how many runs are behind each mark of a figure: ``n = 3 runs per line``."""
    sizes = {len(group.runs) for group in groups}
    each = f" per {mark}" if len(groups) > 1 else ""
    if len(sizes) == 1:
        return f"n = {count(sizes.pop(), 'run')}{each}"
    return f"n = {min(sizes)} to {max(sizes)} runs{each}"


def under(runs: Sequence[DrawnRun], *words: str) -> str:
    """Give the line under a figure's title: the experiment, `words`, and the conditions."""
    titles = list(dict.fromkeys(run.title for run in runs))
    name = titles[0] if len(titles) == 1 else count(len(titles), "experiment")
    unbroken = [word.replace(" ", NO_BREAK_SPACE) for word in words]
    doubtful = [] if all(run.valid for run in runs) else ["INVALID RUNS INCLUDED"]
    parts = [*unbroken, conditions(run.experiment for run in runs), *doubtful]
    return f"{name}. {', '.join(parts)}"


def under_panels(runs: Sequence[DrawnRun], parts: Sequence[Panel], mark: str) -> str:
    """Give the line under the title; a single panel's label is part of it."""
    groups = [group for part in parts for group in part.groups]
    label = (parts[0].label,) if len(parts) == 1 else ()
    return under(runs, *label, runs_behind(groups, mark))


def flow_groups(run: DrawnRun) -> list[dict[str, Any]]:
    """Give the groups of flows of a run, as its metrics have them.

    Raises
    ------
    LabError
        If it has none.
    """
    found: list[dict[str, Any]] | None = run.found.get("groups")
    if not found:
        raise LabError(
            "the run has no groups of flows",
            where=str(run.files.root),
            hint="`timeseries` draws all flows of a run",
        )
    return found


def probe_named(run: DrawnRun, name: str) -> dict[str, Any]:
    """Give a probe of a run, as its metrics have it.

    Raises
    ------
    RequestError
        If the run has none of that name.
    """
    found = {probe["name"]: probe for probe in run.found.get("probes") or ()}
    if name not in found:
        there = f"; it has {', '.join(found)}" if found else ""
        raise RequestError(f"{run.files.root.name} has no probe '{name}'{there}", where="--probe")
    return dict(found[name])


@dataclass(frozen=True, eq=False)
class DrawnCapture:
    """One capture.

    Parameters
    ----------
    path : Path
        Its file.
    options : Options
        What is known of the senders.
    """

    path: Path
    options: Options = field(default_factory=Options)

    @cached_property
    def found(self) -> Analysis:
        """What the analysis says of its flows and events."""
        return analyse(self.path, options=self.options)

    @cached_property
    def read(self) -> Capture:
        """The capture in memory, up to where it is damaged, if it is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `truncated` says it
            return read_capture(self.path, accept_truncated=True)

    @property
    def truncated(self) -> str:
        """What is wrong with its end, as whichever reading was needed found it; empty if whole."""
        known = self.read if "read" in vars(self) else self.found.capture
        return known.truncated

    def chosen(self, wanted: tuple[int, ...]) -> int:
        """Give the number of the flow to draw: by default that with most timeouts.

        Raises
        ------
        LabError
            If there is no flow, or not the one that is wanted.
        """
        flows = self.found.flows
        if not flows.size:
            raise LabError("the capture has no TCP flow", where=str(self.path))
        if not wanted:
            busy = zip(flows["counts"][:, RTO], flows["counts"].sum(axis=1), strict=True)
            return max(enumerate(busy), key=lambda pair: tuple(map(int, pair[1])))[0]
        (flow,) = wanted
        if not 0 <= flow < flows.size:
            several = f"the capture has flows 0 to {flows.size - 1}"
            message = several if flows.size > 1 else "the capture has one flow, 0"
            raise RequestError(message, where=f"--flow {flow}", hint=f"`{self._list}` lists them")
        return flow

    @property
    def _list(self) -> str:
        return command("analyze", self.path, "--top", "0")

    def ends(self, flow: int) -> str:
        """Name the ends of a flow: ``10.0.0.1:20000 > 10.0.3.2:5001``."""
        row = self.found.flows[flow]
        source, target = ip_text(row["src"]), ip_text(row["dst"])
        return f"{source}:{row['sport']} > {target}:{row['dport']}"

    def kinds(self, flow: int, records: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Give the kind of each packet of a flow's connection, by its record; 0 for no event."""
        events = self.found.events[self.found.events["flow"] == flow]
        order = np.argsort(records)
        kinds = np.zeros(records.size, np.uint8)
        place = np.searchsorted(records, events["record"], sorter=order)
        kinds[order[place]] = events["kind"]
        return kinds

    def only(self, flow: int) -> tuple[Packets, Flows, int]:
        """Give the packets of a flow's connection, and which flow of them it is.

        Ports are used again: the packets are those from the flow's first on, up to the first of
        the next flow between the same ends.
        """
        rows = self.found.flows
        row = rows[flow]
        same = (rows["sport"] == row["sport"]) & (rows["dport"] == row["dport"])
        for name in ("src", "dst"):
            same &= np.all(rows[name] == row[name], axis=1)
        later = rows["first_ns"][same & (np.arange(rows.size) > flow)]
        until = later.min() if later.size else np.iinfo(np.int64).max
        packets = self._between(row)
        begin = row["first_ns"] if np.sum(same) > 1 else 0
        packets = packets[(packets["time_ns"] >= begin) & (packets["time_ns"] < until)]
        flows = find_flows(packets)
        (place,) = np.flatnonzero(_side(partial(getattr, flows), row, "src", "dst"))[:1]
        return packets, flows, int(place)

    def _between(self, row: Any) -> Packets:
        """Read the packets between the ends of a flow, in both directions, and keep no others."""
        src, dst = row["src"].tobytes(), row["dst"].tobytes()
        return read_between(self.path, src, int(row["sport"]), dst, int(row["dport"]))


def _side(column: Callable[[str], Any], row: Any, source: str, target: str) -> Any:
    """Which packets, or flows, run between these ends, in this direction."""
    port = {"src": "sport", "dst": "dport"}
    mine = (column("sport") == row[port[source]]) & (column("dport") == row[port[target]])
    for ours, theirs in (("src", source), ("dst", target)):
        high, low = (int.from_bytes(row[theirs][at : at + 8].tobytes(), "big") for at in (0, 8))
        mine &= (column(ours) == np.uint64(low)) & (column(f"{ours}_high") == np.uint64(high))
    return mine

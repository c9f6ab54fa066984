"""A run over RIO in the model's terms: loads, losses by class, queue, causes of drops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.papers.rio.router import QUANTITIES, Scenario, Solution, paper_scenarios, solve
from tcpf_lab.report.claims.page import CellRuns, Drawing, Numbers, PaperRun, Point, at_units
from tcpf_lab.report.section import read_series
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue import Rio

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: The three scenarios of the paper's Tables 1 to 3.
SCENARIOS = ("fully_overlapped", "non_overlapped", "partially_overlapped")
#: The model's own reading of RIO: the length now, of the whole queue, and independent drops.
MODEL_READING = "wred, instantaneous, independent drops"
CLASSES = ("in", "out")
CAUSES = ("early", "forced", "pdrop")
_ETHERNET = 14
_STATS = "qdisc-R1.json"


@dataclass(frozen=True, eq=False)
class RioCell:
    """A cell with RIO under test: which scenario it is of, and how the queue reads RIO.

    ``packet`` is the size of a full packet as the queue counts it, bytes.
    """

    runs: CellRuns
    scenario: str
    reading: str
    in_profile: int
    packet: float

    def quantity(self, name: str) -> Numbers:
        """Give a quantity of ``router.QUANTITIES`` for each run."""
        return self.runs.each(partial(self._of_run, name))

    def _of_run(self, name: str, run: PaperRun) -> float | None:
        """Loads count packets that arrive, dropped ones included; classes are by code point."""
        if name == "q":
            backlog = run.number("metrics.backlog_mean_bytes")
            return None if backlog is None else backlog / self.packet
        rows = run.found.get("by_dscp") or {}
        own = list(rows.values())
        if name != "T":
            wanted = name != "p_out"
            own = [row for code, row in rows.items() if (int(code) == self.in_profile) is wanted]
        if name in ("T", "T_in"):
            return float(sum(row["packets_per_s"] for row in own)) if rows else None
        came = sum(row["packets"] for row in own)
        return sum(row["packets_lost"] for row in own) / came if came else None

    def cause(self, side: str, cause: str) -> Numbers:
        """Give the share of a class' packets that were dropped for a cause, from the queue."""
        return self.runs.each(lambda run: _share(run.files, side, cause))


def rio_cells(cells: Iterable[CellRuns]) -> tuple[RioCell, ...]:
    """Give those cells that have RIO as in one of the scenarios; they need a run."""
    found = (_rio_cell(cell) for cell in cells if cell.runs)
    return tuple(cell for cell in found if cell is not None)


def _rio_cell(cell: CellRuns) -> RioCell | None:
    experiment = load(cell.runs[0].files.spec)
    queue = experiment.cases[cell.case].queue
    if not isinstance(queue, Rio):
        return None
    packet = frame_of(experiment)
    scenario = scenario_of(queue, packet)
    if scenario is None:
        return None
    return RioCell(cell, scenario, reading_of(queue), queue.in_, packet)


def frame_of(experiment: Experiment) -> float:
    """Give the size of a full packet as ``tc`` counts it, bytes."""
    return float(_ETHERNET + min(link.mtu for link in experiment.graph.links))


def scenario_of(queue: Rio, packet: float) -> str | None:
    """Tell the scenario of section 4 that has a queue's parameters; None if none has.

    Other parameters have no published numbers, and must not be held against these.
    """
    bounds = (queue.in_min, queue.in_max, queue.out_min, queue.out_max)
    chances = (float(queue.in_probability), float(queue.out_probability))
    for name, one in paper_scenarios().items():
        packets = (one.in_min, one.in_max, one.out_min, one.out_max)
        same = tuple(packet * length for length in packets) == bounds
        if same and (one.in_probability, one.out_probability) == chances:
            return name
    return None


def reading_of(queue: Rio) -> str:
    """Name a queue's reading of what the report leaves open."""
    length = "instantaneous" if queue.ewma == 0 else f"average over 2^{queue.ewma}"
    drops = "independent drops" if queue.uniformize == "none" else "drops spread as RED does"
    return f"{queue.mode}, {length}, {drops}"


def _share(files: RunFiles, side: str, cause: str) -> float | None:
    counts = _counters(files.stats / _STATS).get(side)
    if not isinstance(counts, dict):
        return None
    came = sum(int(counts.get(name, 0)) for name in ("enqueued", *CAUSES))
    return int(counts.get(cause, 0)) / came if came else None


def _counters(path: Path) -> dict[str, Any]:
    """The statistics of the queue under test: of the whole run, warm-up included."""
    if not path.exists():
        return {}
    shown: list[dict[str, Any]] = read_json(path)
    return next((one for one in shown if one.get("kind") == "rio"), {})


@dataclass(frozen=True)
class Answer:
    """The model's quantities, by the names of ``router.QUANTITIES``, and why packets go.

    ``causes`` has the probability that a packet of a class is dropped at random, and that it is
    because the queue is at the class' maximum, by ``(class, cause)``; ``occupancy`` the probability
    of every length of the queue.
    """

    values: Mapping[str, float]
    causes: Mapping[tuple[str, str], float]
    occupancy: tuple[float, ...]


@cache
def answer(scenario: str, extra_rtt: float = 0.0) -> Answer:
    """Solve the model for a scenario of the paper with so much added to every RTT, seconds."""
    request = replace(paper_scenarios()[scenario], extra_rtt=extra_rtt)
    found = solve(request)
    values = {name: getattr(found, name) for name in QUANTITIES}
    return Answer(values, _causes(request, found), tuple(map(float, found.occupancy)))


def _causes(request: Scenario, found: Solution) -> dict[tuple[str, str], float]:
    """Divide the losses by where the queue was: Poisson arrivals see its distribution."""
    causes = {}
    for side, curve, most in (
        ("in", request.drop_in(), request.in_max),
        ("out", request.drop_out(), request.out_max),
    ):
        lost = curve * found.occupancy
        causes[side, "early"] = float(np.sum(lost[:most]))
        causes[side, "forced"] = float(np.sum(lost[most:]))
    return causes


#: Seconds of the measured window that are drawn: more would be a black band.
SHOWN_S = 10.0
_MEAN, _MOST = "mean of 0.1 s", "maximum in 0.1 s"


@dataclass(frozen=True, eq=False)
class Queue:
    """The queue in the measured window, bin by bin, bytes; times in seconds after its start."""

    time_s: NDArray[np.float64]
    mean: NDArray[np.float64]
    most: NDArray[np.float64]

    @property
    def least(self) -> float | None:
        """The shortest mean, None without a bin."""
        return float(self.mean.min()) if self.mean.size else None


def queue_of(run: PaperRun) -> Queue:
    """Read the queue of a run; empty where the run has no series."""
    if not run.files.series.exists():
        nothing = np.empty(0)
        return Queue(nothing, nothing, nothing)
    series = read_series(run.files)
    start, end = series.window_s
    time = series.queue_time_s
    inside = (time >= start) & (time < end)
    return Queue(
        time[inside] - start,
        series.backlog_mean_bytes[inside].astype(np.float64),
        series.backlog_max_bytes[inside].astype(np.float64),
    )


def queue_over_time(cell: RioCell | None) -> Drawing:
    """Give Figure 5 from the first run of the fully overlapped scenario."""
    queue = queue_of(cell.runs.runs[0]) if cell else Queue(*(np.empty(0) for _ in range(3)))
    shown = queue.time_s < SHOWN_S
    size = cell.packet if cell else 1.0
    seed = cell.runs.runs[0].seed if cell else 0
    lines = {_MEAN: queue.mean[shown] / size, _MOST: queue.most[shown] / size}
    return Drawing(
        name="fig-rio-5",
        title="Figure 5 of RR-4469: length of the queue over time, fully overlapped",
        caption=f"The first {SHOWN_S:g} s of the measured window of the run with seed {seed}, in "
        f"full packets of {size:g} bytes. The report's figure has a value per packet; here each "
        "0.1 s has its mean and maximum length.",
        points=tuple(
            Point(label, float(at), (float(value),))
            for label, values in lines.items()
            for at, value in zip(queue.time_s[shown], values, strict=True)
        ),
        frame=OverTime(seed),
        missing=() if queue.time_s.size else ("no run of the fully overlapped scenario",),
        axis="Queue (packets)",
    )


@dataclass(frozen=True)
class OverTime:
    """The queue over time: mean and greatest length, with the thresholds of both classes."""

    seed: int
    thresholds: tuple[int, ...] = (20, 100)

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return at_units(point, "s")

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the lines; within ``house_style``."""
        from tcpf_lab.report.plots.canvas import head, legend, line_entries, line_look, panels
        from tcpf_lab.report.style import CASES, CaseStyle

        looks = (CASES["TCPF+FRIO"], CASES["TB+RIO"])
        styles: dict[str, CaseStyle] = dict(zip((_MEAN, _MOST), looks, strict=True))
        figure, (axes,) = panels(1, 2.8)
        for label, style in styles.items():
            own = [point for point in points if point.series == label]
            x, y = [point.x for point in own], [point.values[0] for point in own]
            axes.plot(x, y, **{**line_look(style), "linewidth": 1.1})
        for at in self.thresholds:
            axes.axhline(at, color="#555555", linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Time after the start of the measured window (s)")
        axes.set_ylabel("Queue (packets)")
        axes.tick_params(axis="x", bottom=True)
        subtitle = (
            f"RR-4469, fully overlapped, seed {self.seed}; dashed: thresholds of both classes"
        )
        head(axes, "Length of the queue over time", subtitle)
        legend(figure, line_entries(styles))
        return figure

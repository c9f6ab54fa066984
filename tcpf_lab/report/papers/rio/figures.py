"""Figure 5 of the RIO study: the length of the queue over time, of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.report.papers.cell_runs import PaperRun
from tcpf_lab.report.papers.page import Drawing, Point, in_units
from tcpf_lab.report.papers.rio.measured import RioCell
from tcpf_lab.report.run_records import read_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Seconds of the measured window that are drawn: more would be a black band.
SHOWN_S = 10.0
_MEAN, _MOST = "mean of 0.1 s", "greatest in 0.1 s"


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
        title="Figure 5 of paper 004: length of the queue over time, fully overlapped",
        caption=f"The first {SHOWN_S:g} s of the measured window of the run with seed {seed}, in "
        f"full packets of {size:g} bytes. The paper's figure has every packet's view; here each "
        "0.1 s has its mean and its greatest length.",
        points=tuple(
            Point(label, float(at), (float(value),))
            for label, values in lines.items()
            for at, value in zip(queue.time_s[shown], values, strict=True)
        ),
        build=lambda: _draw(queue.time_s[shown], lines, seed),
        missing=() if queue.time_s.size else ("no run of the fully overlapped scenario",),
        axis="Queue (packets)",
        place=in_units("s"),
    )


def _draw(time: NDArray[np.float64], lines: dict[str, NDArray[np.float64]], seed: int) -> Figure:
    from tcpf_lab.report.plots.canvas import head, legend
    from tcpf_lab.report.plots.frame import line_entries, line_look, panels
    from tcpf_lab.report.style import CASES, CaseStyle

    looks = (CASES["TCPF+FRIO"], CASES["TB+RIO"])
    styles: dict[str, CaseStyle] = dict(zip(lines, looks, strict=True))
    figure, (axes,) = panels(1, 2.8)
    for label, values in lines.items():
        axes.plot(time, values, **{**line_look(styles[label]), "linewidth": 1.1})
    for threshold in (20, 100):
        axes.axhline(threshold, color="#555555", linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("Time after the start of the measured window (s)")
    axes.set_ylabel("Queue (packets)")
    axes.tick_params(axis="x", bottom=True)
    said = f"Paper 004, fully overlapped, seed {seed}; dashed: thresholds of both classes"
    head(axes, "Length of the queue over time", said)
    legend(figure, line_entries(styles))
    return figure

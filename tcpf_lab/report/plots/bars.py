"""The thesis's bar charts of any metric and of any runs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.figure import bars
from tcpf_lab.report.plots.canvas import looks
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, grouped, runs_behind, under
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import METRICS


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the mean of a metric with its 95 % confidence interval, and the published value.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A group of bars per number of flows, a bar per case.
    wanted : Wanted
        ``metric``, timeouts by default.

    Raises
    ------
    RequestError
        If the runs are of several experiments.
    """
    metric = wanted.metric or METRICS["timeouts"]
    names = list(dict.fromkeys(run.experiment.name for run in runs))
    if len(names) > 1:
        raise RequestError(
            f"bars are of one experiment, these runs are of {len(names)}: {', '.join(names)}",
            hint="choose with --only config=NAME",
        )
    groups = grouped(runs)
    results = [_result(group, metric.name) for group in groups]
    return bars(results, metric, under(runs, runs_behind(groups, "bar")), looks(groups))


def _result(group: Group, metric: str) -> CellResult:
    first, runs = group.first, group.runs
    values = tuple(run.metric(metric) for run in runs)
    cell = Cell(
        config=str(first.found.get("config")),
        case=group.label,
        flows=first.flows,
        runs=tuple(run.files.root.name for run in runs),
        published=first.experiment.config is not None and not group.variant,
    )
    mean, half = mean_ci(values)
    known = cell.known.get(metric)
    estimate = Estimate(values, mean, half, None if known is None else float(known))
    valid = sum(run.valid for run in runs)
    return CellResult(cell, len(runs), valid, len(runs), {metric: estimate}, ())

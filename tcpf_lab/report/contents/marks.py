"""What the tooltips of a bar chart say, bar by bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.contents.words import count
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import printed


def mark_id(place: int) -> str:
    """Give the id, in a picture, of what belongs to the tooltip at this place."""
    return f"mark-{place}"


def bar_marks(results: Sequence[CellResult], metric: str) -> tuple[str, ...]:
    """Say what each bar of ``figure.bar_chart`` shows, a text of several lines per result.

    Parameters
    ----------
    results : sequence of CellResult
        The cells of the chart, in its order.
    metric : str
        A name of ``style.METRICS``.
    """
    return tuple("\n".join(_lines(result, metric)) for result in results)


def _lines(result: CellResult, metric: str) -> Iterator[str]:
    style, estimate = METRICS[metric], result.metrics[metric]
    shown = printed(estimate, style)
    unit = f" {style.unit}" if style.unit else ""
    yield f"{result.cell.label}, {count(result.cell.flows, 'flow')}"
    if estimate.mean is None:
        yield f"{style.word}: {'not measured' if result.used else 'no usable run'}"
    else:
        sure = ", 95 % confidence interval" if estimate.ci95 is not None else ""
        yield f"{style.word}: {shown}{unit}{sure}, n\u00a0=\u00a0{result.used}"
    if shown.published:
        yield f"published: {shown.published}{unit}"

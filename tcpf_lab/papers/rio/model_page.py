"""The page on the RIO model: Tables 1 to 3, the figures, and the report's sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tcpf_lab.papers.rio import model_figures as m
from tcpf_lab.papers.rio.model_figures import CURVES, Curve
from tcpf_lab.papers.rio.router import ACCESS_S, QUANTITIES, rio_tables, settings_for
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import (
    Block,
    Drawing,
    Drawn,
    Page,
    Point,
    Table,
    Text,
    drawn,
    markdown,
)
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim, Words
from tcpf_lab.report.section import SUFFIXES, Document

_PAPER = Words(Path(__file__).with_name("model.toml"))
#: Columns of Tables 1 to 3; `analytical` and `NS-2` are the report's.
COLUMNS = (
    *("", "model", "+ 16 ms", "literal"),
    *("analytical", "NS-2", "vs paper", "vs NS-2"),
)
_PLACES = {"T": 2, "T_in": 2, "p_in": 6, "p_out": 6, "q": 2}
_IN = "T and T_in in packets/s, q in packets."


def page() -> Page:
    """Give the page; some seconds of solving."""
    blocks: list[Block] = [Text(_PAPER.texts["about"]), Text(_PAPER.texts["asking"], "Usage")]
    blocks += [Text(_PAPER.texts["corrected"], "Tables 1 to 3"), Text(_PAPER.texts["offset"])]
    blocks += tables()
    found = claims()
    blocks += [Text(_counted(found), "Claims of the report"), _sentences(found)]
    blocks += [Text(_PAPER.texts["not_here"], "Figures"), *map(_drawing, CURVES)]
    return Page("model", "The RIO model", tuple(blocks))


def tables() -> Iterator[Table]:
    """Yield Tables 1 to 3: the model's readings beside the two printed columns."""
    for number, printed in rio_tables().items():
        readings = (
            m.solved(printed.case),
            m.solved(printed.case, extra_rtt=ACCESS_S),
            m.solved(printed.case, printed=True),
        )
        rows = []
        for name in QUANTITIES:
            ours = [float(getattr(one, name)) for one in readings]
            known = [printed.analytical[name], printed.simulated[name]]
            shown = [f"{value:.{_PLACES[name]}f}" for value in (*ours, *known)]
            ratios = [f"{100 * (ours[0] / value - 1):+.1f} %" for value in known]
            rows.append((name, *shown, *ratios))
        words = printed.case.replace("_", " ")
        yield Table(f"table-{number}", COLUMNS, tuple(rows), f"Table {number}: {words}. {_IN}")


def _counted(found: tuple[PaperClaim, ...]) -> str:
    verdicts = [claim.judgement.verdict for claim in found]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {word}"
        for verdict, word in ((Verdict.HOLDS, "hold"), (Verdict.REFUTED, "refuted"))
    )
    return f"Of {len(found)} claims: {counts}. A solution has no noise: the numbers alone decide."


def _sentences(found: tuple[PaperClaim, ...]) -> Table:
    rows = []
    for claim in found:
        (source,) = claim.sources
        cells = (claim.id, f"{source.section}: {source.sentence}")
        for check in claim.checks:
            rows.append((*cells, check.label, shown(check), check.range, str(check.verdict)))
            cells = ("", "")
    columns = ("claim", "sentence", "number", "model", "required", "verdict")
    return Table("claims", columns, tuple(rows), "Each sentence with its numbers.", len(columns))


def shown(check: PaperCheck) -> str:
    """Give the number of a check: a solution has no seeds."""
    return f"{check.measured.values[0]:.{check.decimals}f} {check.unit}".rstrip()


def claims() -> tuple[PaperClaim, ...]:
    """Give every sentence with its numbers; some seconds of solving."""
    numbers = (*_of_tables(), *_of_throughput(), *_of_queues(), *_of_losses())
    return tuple(
        _PAPER.judged(f"rio-{place}", [Measured((float(value),)) for value in own])
        for place, own in enumerate(numbers, 1)
    )


def _of_tables() -> Iterator[list[float]]:
    """Yield the numbers of sections 4 and the abstract: errors in %, and time below out_min."""
    errors = [
        [
            abs(getattr(m.solved(table.case), name) / table.simulated[name] - 1)
            for name in QUANTITIES
        ]
        for table in rio_tables().values()
    ]
    yield [100 * own[QUANTITIES.index("T")] for own in errors]
    yield [sum(error < 0.05 for own in errors for error in own)]
    below = [100 * float(m.solved(name).occupancy[:20].sum()) for name in (m.FULL, m.PART)]
    yield [m.solved(m.FULL).q, *below]


def _of_throughput() -> Iterator[list[float]]:
    """Yield those of section 5.1: flows with long round trips, and how all of them change."""
    few, many = (m.with_long_flows(p).per_flow.throughput for p in (0.06, 1.0))
    long = slice(-len(m.LONG_DELAYS), None)
    yield [max(few[long])]
    yield [sorted(many[long])[1]]
    change = many - few
    yield [change[0], change[-1]]


def _of_queues() -> Iterator[list[float]]:
    """Yield those of section 5.2: the queue over both probabilities, and over both minima."""
    queue = m.over_probabilities().q
    yield [np.diff(queue, axis=0).max(), np.diff(queue, axis=1).max()]
    small = queue[: m.IN_PROBABILITIES.index(0.1) + 1]
    over_out, over_in = float(np.ptp(small[0])), float(np.ptp(small[:, 0]))
    yield [over_out / over_in]
    for p in m.TWO_PROBABILITIES:
        values = m.over_minima(p).q
        flat = np.ptp(values, axis=1).max() / np.ptp(values, axis=0).max()
        yield [flat, (values[:, -1] - values[:, :-1].max(axis=1)).min()]


def _of_losses() -> Iterator[list[float]]:
    """Yield those of section 5.3: settings that keep the loss of IN below a limit."""
    without = replace(m.base(), in_probability=0.0)
    edge = settings_for(without, "p_in", m.LIMITS[0], "out_probability").edge
    surface = m.over_probabilities()
    yield [100 * float(surface.p_in[0].max()), 100 * (edge or math.nan)]
    queues = [
        np.interp(
            np.log(p), np.log(m.OUT_PROBABILITIES), surface.q[m.IN_PROBABILITIES.index(float(one))]
        )
        for one, p in zip(*m.boundary(m.LIMITS[0]), strict=True)
    ]
    yield [queues[0] - max(queues[1:])]
    yield [100 * float(surface.p_in.min()), 100 * float(surface.p_in.max())]
    losses = [m.over_minima(p).p_in for p in m.TWO_PROBABILITIES]
    yield [100 * float((one[:, :-1].min(axis=1) - one[:, -1]).min()) for one in losses]


def _drawing(curve: Curve) -> Drawing:
    points = tuple(
        Point(line.label, float(x), (float(y),), panel.name)
        for panel in curve.panels()
        for line in panel.lines
        for x, y in zip(line.x, line.y, strict=True)
    )
    title = f"Figure {curve.number} of RR-4469: {curve.title}"
    return Drawing(curve.name, title, f"{curve.subtitle}.", points, Drawn(curve.build))


def figure_documents(directory: Path) -> Iterator[Document]:
    """Yield every figure in every format, for a directory."""
    for curve in CURVES:
        for suffix, content in drawn(_drawing(curve), SUFFIXES).items():
            yield directory / f"{curve.name}.{suffix}", content


def page_documents(path: Path) -> Iterator[Document]:
    """Yield the page as Markdown, and its figures as PNG in ``figures`` beside it."""
    whole = page()
    yield path, markdown(whole)
    for drawing in whole.drawings:
        for suffix, content in drawn(drawing, ("png",)).items():
            yield path.parent / "figures" / f"{drawing.name}.{suffix}", content

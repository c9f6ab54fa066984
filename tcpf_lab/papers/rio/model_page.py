"""The page on the RIO model: Tables 1 to 3, the figures, and the report's sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.papers.rio import model_figures
from tcpf_lab.papers.rio.model_claims import QUANTITIES, ModelClaim, claims
from tcpf_lab.papers.rio.model_figures import CURVES, Curve
from tcpf_lab.papers.rio.router import ACCESS_S
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import Block, Drawing, Page, Point, Table, Text, drawn, markdown
from tcpf_lab.report.claims.published import rio_tables
from tcpf_lab.report.section import SUFFIXES, Document

#: Columns of Tables 1 to 3; `analytical` and `NS-2` are the report's.
COLUMNS = (
    *("", "model", "+ 16 ms", "literal"),
    *("analytical", "NS-2", "vs paper", "vs NS-2"),
)
_PLACES = {"T": 2, "T_in": 2, "p_in": 6, "p_out": 6, "q": 2}
_IN = "T and T_in in packets/s, q in packets."
_ABOUT = (
    "The fixed point of N. Malouch and Z. Liu, Performance Evaluation of RIO Routers, INRIA "
    "RR-4469 (2002): what TCP flows with token buckets send over a router with RIO, how much of IN "
    "and OUT is lost, and how long the queue is. tcpf_lab/papers/rio/router.py holds it; "
    "tcpf-lab model rio solves it for any router, and wrote this page."
)
_CORRECTED = (
    "Three formulas of the report are not taken as printed. In equation 3 the power of T/C is i "
    "and not i - 1: with it the printed T and T_in give every printed loss and queue to the last "
    "digit. "
    "After a timeout, S_out takes the square of that period's own window, W^s and not W; and where "
    "its first case does not hold, the second and third case of equation 10 follow with W^s, so "
    "that nothing jumps. The column 'literal' has the model without these three corrections; "
    "'analytical' and 'NS-2' are the report's, and the last two columns hold the model against "
    "them."
)
_OFFSET = (
    "With every round trip 16 ms longer the model meets the report's own tables: T to 0.01 %, "
    "the queue to 0.2 %, losses to 0.7 % (but for p_in of Table 2, printed with a single digit). "
    "That is the time of 1000 bytes on two links of 1 Mbit/s, as each connection of the report's "
    "simulation has one; the report does not say so, and its section 5 (the 2.49 % of Figure 10, "
    "Figure 6) is met without it. So the model here has none, and extra_rtt adds it. The tables "
    "of the report and NS-2 are printed, the rest is worked out."
)
_ASK = (
    "tcpf-lab model rio solves the fully overlapped scenario; --scenario takes another one, "
    "KEY=VALUE changes it in the words of experiment files: flows=50, delay=20ms..80ms, "
    "bottleneck=10Mbit, out_max=60kB. With --target it looks for settings: tcpf-lab model rio "
    "in_probability=0 --target p_in=0.006 says from which out_probability on at most 0.6 % of IN "
    "are lost, which is the 2.49 % of Figure 10, and --vary takes another setting than "
    "out_probability. --json prints numbers for each flow, --tables Tables 1 to 3, --figures DIR "
    "draws."
)
_NOT_HERE = (
    "Figure 5, the queue over time, is of a simulation and not of the model: a run shows it "
    "(tcpf-lab plot queue). Figures 2 to 4 and 14 are drawings. The report gives no axes for "
    "Figures 8 to 13 in its text; settings from end to end are drawn here."
)


def page() -> Page:
    """Give the page; some seconds of solving."""
    blocks: list[Block] = [Text(_ABOUT), Text(_ASK, "Asking it")]
    blocks += [Text(_CORRECTED, "Tables 1 to 3"), Text(_OFFSET)]
    blocks += tables()
    found = claims()
    blocks += [Text(_counted(found), "What the report says"), _sentences(found)]
    blocks += [Text(_NOT_HERE, "Figures"), *map(_drawing, CURVES)]
    return Page("model", "The RIO model", tuple(blocks))


def tables() -> Iterator[Table]:
    """Yield Tables 1 to 3: the model's readings beside the two printed columns."""
    for number, printed in rio_tables().items():
        readings = (
            model_figures.solved(printed.case),
            model_figures.solved(printed.case, extra_rtt=ACCESS_S),
            model_figures.solved(printed.case, printed=True),
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


def _counted(found: tuple[ModelClaim, ...]) -> str:
    verdicts = [claim.judgement.verdict for claim in found]
    told = ", ".join(
        f"{verdicts.count(verdict)} {word}"
        for verdict, word in ((Verdict.HOLDS, "hold"), (Verdict.REFUTED, "refuted"))
    )
    return f"Of {len(found)} claims: {told}. A solution has no noise: the numbers alone decide."


def _sentences(found: tuple[ModelClaim, ...]) -> Table:
    rows = []
    for claim in found:
        said = (claim.id, f"{claim.place}: {claim.sentence}")
        for check in claim.checks:
            rows.append((*said, check.label, check.number, check.range, str(check.verdict)))
            said = ("", "")
    columns = ("claim", "sentence", "number", "model", "asked for", "verdict")
    return Table("claims", columns, tuple(rows), "Each sentence with its numbers.", len(columns))


def _drawing(curve: Curve) -> Drawing:
    points = tuple(
        Point(line.label, float(x), (float(y),), panel.name)
        for panel in curve.panels()
        for line in panel.lines
        for x, y in zip(line.x, line.y, strict=True)
    )
    title = f"Figure {curve.number} of RR-4469: {curve.title}"
    return Drawing(curve.name, title, f"{curve.subtitle}.", points, curve.build)


def figure_documents(directory: Path) -> Iterator[Document]:
    """Yield every figure in every format, for a directory."""
    from tcpf_lab.report.plots.canvas import render
    from tcpf_lab.report.style import house_style

    for curve in CURVES:
        with house_style():
            files = render(curve.build(), SUFFIXES)
        for suffix, content in files.items():
            yield directory / f"{curve.name}.{suffix}", content


def page_documents(path: Path) -> Iterator[Document]:
    """Yield the page as Markdown, and its figures as PNG in ``figures`` beside it."""
    whole = page()
    yield path, markdown(whole)
    for drawing in whole.drawings:
        for suffix, content in drawn(drawing, ("png",)).items():
            yield path.parent / "figures" / f"{drawing.name}.{suffix}", content

"""The page on TR2001-1: its figures by name, its conclusions, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence

from tcpf_lab.papers.ef import study as s
from tcpf_lab.papers.ef.claims import PAPER, TCP, claims_of
from tcpf_lab.papers.ef.figures import (
    fairness_figures,
    histogram_figures,
    prediction_figure,
    throughput_figures,
)
from tcpf_lab.papers.ef.study import Conditions
from tcpf_lab.report.claims.page import Block, Claims, Drawing, Page, Table, Text
from tcpf_lab.report.claims.papers import PaperClaim
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.table import NOTHING

#: Where a run says which share of the bottleneck its EF traffic took.
_SHARE = "background.ef.share"


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on the experiments of TR2001-1."""
    study = s.study_of(members)
    return page_of(study, command) if study.settings else None


def page_of(study: s.Study, command: str) -> Page:
    """Give the page on a study; ``command`` runs its experiments."""
    claims = tuple(claims_of(study, TCP))
    drawn = (throughput_figures, fairness_figures, histogram_figures)
    drawings = [figure for figures in drawn for figure in figures(study)]
    drawings = sorted([*drawings, prediction_figure(study)], key=lambda one: _order(one.name))
    blocks: tuple[Block, ...] = (
        Text(" ".join((_progress(study), PAPER.texts["reading"]))),
        Text(f"Judged for {TCP}, the TCP of the paper.", "Claims of the paper"),
        Claims(claims, command),
        Text("", "Verdicts by TCP"),
        _by_tcp(study, claims),
        Text(PAPER.texts["figure_1"], "Figures"),
        _figures(drawings),
        *drawings,
        Text("", "Every setting"),
        _settings(study),
    )
    return Page("ef", "EF traffic and TCP (Kaur and Vin, TR2001-1)", blocks)


def _progress(study: s.Study) -> str:
    count = sum(len(one.cell.runs) for one in study.every)
    requested = sum(one.cell.cell.n for one in study.every)
    return f"{count} of {requested} runs exist, of {len(study.settings)} settings."


def _by_tcp(study: s.Study, claims: Sequence[PaperClaim]) -> Table:
    tcps = [tcp for tcp in s.TCPS if tcp != TCP]
    found = {tcp: {claim.id: claim for claim in claims_of(study, tcp)} for tcp in tcps}
    rows = tuple(
        (claim.id, claim.verdict_text, *(found[tcp][claim.id].verdict_text for tcp in tcps))
        for claim in claims
        if all(claim.id in found[tcp] for tcp in tcps)
    )
    return Table("by-tcp", ("claim", TCP, *tcps), rows, "The verdicts, by the flows' TCP.", left=4)


def _figures(drawings: Sequence[Drawing]) -> Table:
    rows = tuple((one.name, _made(one), one.title.partition(": ")[2]) for one in drawings)
    return Table("figures", ("figure", "made", "shows"), rows, "The figures.", left=3)


def _made(drawing: Drawing) -> str:
    if not drawing.points:
        return "no"
    return "in part" if drawing.missing else "yes"


def _order(name: str) -> tuple[int, str]:
    """Sort figures by the paper's numbers: ``fig-ef-10`` comes behind ``fig-ef-2a``."""
    number = name.removeprefix("fig-ef-")
    digits = number[: len(number) - len(number.lstrip("0123456789"))]
    return int(digits), number


def _settings(study: s.Study) -> Table:
    rows = tuple(_row(study, known) for known in study.settings)
    columns = (
        "setting",
        "utilisation",
        "loss",
        "loss of left",
        "timeouts per flow-minute",
        "M",
        "EF share",
        "runs",
    )
    return Table("settings", columns, rows, PAPER.texts["settings"])


def _row(study: s.Study, known: Conditions) -> tuple[str, ...]:
    setting = study.settings[known]
    bursts = known.ef == "onoff"
    return (
        s.named(known),
        s.use(study, known).printed(3),
        s.loss(study, known).printed(3) if bursts else NOTHING,
        s.loss_of_left(study, known).printed(3) if bursts else NOTHING,
        s.timeouts(study, known).printed(2),
        s.min_max(study, known).printed(3),
        setting.cell.number(_SHARE).printed(3),
        f"{len(setting.cell.runs)}/{setting.cell.cell.n}",
    )

"""The papers' claims as a report shows them: whether each holds, and with which numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.report.claims.judge import ClaimResult, Finding, Source, Verdict
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.scoreboard import number_text, range_text, spread_text, telling
from tcpf_lab.report.contents import model
from tcpf_lab.report.contents.words import count, sentence
from tcpf_lab.report.table import NOTHING

_DOCUMENTS = {"thesis": "thesis, section", "paper": "paper, section", "tables": "tables"}


def verdicts(comparison: Comparison | None) -> model.Verdicts:
    """Give every claim with its verdicts; nothing without a comparison."""
    if comparison is None:
        return model.Verdicts((), ())
    decided = [claim for claim in comparison.claims if claim.ours.verdict is not Verdict.OPEN]
    return model.Verdicts(tuple(_summary(comparison)), tuple(map(_shown, decided)))


def _summary(comparison: Comparison) -> Iterator[str]:
    """Count the verdicts, and say what they rest on."""
    ours = [claim.ours.verdict for claim in comparison.claims]
    yield _counted("On the numbers of this report", ours)
    yield _counted("On the published tables", [c.published.verdict for c in comparison.claims])
    yield (
        f"An interval is a bootstrap 95 % interval over paired seeds ({comparison.resamples} "
        f"resamples, seed {comparison.seed}). A check is within noise where its interval crosses "
        "a threshold."
    )
    yield from map(sentence, comparison.notes)
    left = ours.count(Verdict.OPEN)
    if left:
        needs, are = ("needs", "is") if left == 1 else ("need", "are")
        yield f"{count(left, 'claim')} that {needs} other cells {are} not listed."


def _counted(where: str, found: Sequence[Verdict]) -> str:
    parts = [f"{verdict} {found.count(verdict)}" for verdict in Verdict if verdict in found]
    return f"{where}, of {len(found)} claims: {', '.join(parts)}."


def _shown(claim: ClaimResult) -> model.Claim:
    return model.Claim(
        name=claim.id,
        source="; ".join(dict.fromkeys(map(_place, claim.sources))),
        sentences=tuple(dict.fromkeys(source.sentence for source in claim.sources)),
        statement=claim.statement,
        published_verdict=str(claim.published.verdict),
        published_count=str(claim.published),
        ours_verdict=str(claim.ours.verdict),
        ours_count=str(claim.ours),
        telling=_finding(telling(claim)),
        findings=tuple(map(_finding, claim.findings)),
    )


def _place(source: Source) -> str:
    return f"{_DOCUMENTS[source.document]} {source.section}"


def _finding(finding: Finding) -> model.Finding:
    ours, known = finding.ours, finding.published
    return model.Finding(
        label=finding.label,
        range=range_text(finding),
        published=_number(known.value, finding.unit),
        published_verdict=str(known.verdict),
        ours=_number(ours.value, finding.unit),
        interval=spread_text(ours.interval),
        ours_verdict=str(ours.verdict),
        note=ours.note,
    )


def _number(value: float | None, unit: str) -> str:
    return NOTHING if value is None else f"{number_text(value)}{unit}"

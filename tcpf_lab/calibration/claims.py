"""The published claims, judged under the settings of a calibration that were looked at closely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcpf_lab.calibration.record import Record
from tcpf_lab.report.contents.model import count, listed

#: What the settings say of a claim together.
EVERY, UNREFUTED, SOME, NONE = "every", "not refuted", "some", "none"
NOISE, OPEN, FEW = "noise", "not decidable", "too few seeds"
_HOLDS, _REFUTED, _WITHIN_NOISE = "holds", "refuted", "within noise"

#: What is said of claims of each kind.
KINDS = {
    EVERY: "holds under every one",
    UNREFUTED: "holds or within noise",
    SOME: "holds under some alone",
    NONE: "refuted, holds under none",
    NOISE: "not beyond noise",
    OPEN: "not decidable",
}
#: Which numbers claims read; those on what is held out come first.
CLAIM_PARTS = {"test": "held out", "both": "both", "fit": "fitted", "": "not known"}


@dataclass(frozen=True)
class ClaimUnder:
    """A published claim: its verdicts on the published tables and under settings.

    ``part`` says whether it reads numbers that were fitted (``fit``), held out (``test``) or both;
    it is empty if the file does not say. ``counts`` are the verdicts under the plausible settings.
    """

    id: str
    statement: str
    part: str
    published: str
    default: str
    best: str
    counts: Counter[str]

    @property
    def holding(self) -> int:
        """How many settings it holds under."""
        return self.counts[_HOLDS]

    @property
    def refuted(self) -> int:
        """How many settings it is refuted under."""
        return self.counts[_REFUTED]

    @property
    def judged(self) -> int:
        """How many settings have the runs that it takes to judge it."""
        return self.counts.total() - self.counts[OPEN] - self.counts[FEW]

    @property
    def kind(self) -> str:
        """What the settings that can judge it say together; noise neither bears out nor refutes."""
        if not self.judged:
            return OPEN
        if self.refuted:
            return SOME if self.holding else NONE
        if not self.holding:
            return NOISE
        return EVERY if self.holding == self.judged else UNREFUTED

    def in_short(self) -> str:
        """Give how many settings say what."""
        words = {
            _HOLDS: "holds",
            _REFUTED: "refuted",
            _WITHIN_NOISE: "noise",
            FEW: FEW,
            OPEN: "no runs",
        }
        return ", ".join(
            f"{words[said]} {self.counts[said]}" for said in words if self.counts[said]
        )


def claims_under(record: Record) -> Iterator[ClaimUnder]:
    """Yield the published claims, judged under the plausible settings; held-out numbers first."""
    order = list(CLAIM_PARTS)
    for one in sorted(record.told["claims"], key=lambda one: order.index(one.get("part") or "")):
        verdicts = one["verdicts"]
        yield ClaimUnder(
            one["id"],
            one["statement"],
            one.get("part") or "",
            one["published"],
            verdicts.get(record.default["id"], OPEN),
            verdicts.get(record.best["id"], OPEN),
            Counter(verdicts.get(point, OPEN) for point in record.plausible),
        )


def told_of_settings(record: Record) -> str:
    """Say how many of the settings looked at are within the threshold, and whether the best is."""
    looked_at, within = len(record.told["settings"]), len(record.within)
    limit = record.told.get("judged_limit")
    threshold = "the threshold" + f" of their own misfits, {limit or 0:.0f}" * (limit is not None)
    if record.best["id"] in record.within:
        return (
            f"Of {count(looked_at, 'setting')} looked at closely, {within} {_are(within)} within "
            f"{threshold}, the best among them."
        )
    others = f"{within} {_are(within)}" if within else "none is"
    return (
        f"Of {count(looked_at, 'setting')} looked at closely, {others} within {threshold}; "
        "the best is itself beyond it."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def told_of_claims(record: Record) -> Iterator[str]:
    """Yield under which settings claims are judged, and what these say: held-out numbers first."""
    found = list(claims_under(record))
    if not found:
        yield "None of the published claims is about these experiments."
        return
    yield told_of_settings(record)
    yield f"Claims are judged under {_judges(record)}."
    borne_out = [one for one in found if one.published == _HOLDS]
    for part in CLAIM_PARTS:
        own = [one for one in borne_out if one.part == part]
        if own:
            yield f"{_lead(record, part, len(own))}: {_counted(own)}."
    others = len(found) - len(borne_out)
    if others:
        yield (
            f"{count(others, 'more claim')} {_are(others)} not borne out by the published tables "
            "themselves, and stand only in the table."
        )
    yield (
        "That none of these settings contradicts a claim does not show that it rests on none of "
        "the unknowns."
    )


def _judges(record: Record) -> str:
    within, best = len(record.within), record.best["id"] in record.within
    if not within:
        return "the best setting alone, which the published numbers exclude"
    those = "the one that is" if within == 1 else f"the {within} that are"
    return f"{those} within" if best else f"{those} within, and the best"


def _lead(record: Record, part: str, number: int) -> str:
    """Begin the sentence on the claims of a part that the published tables bear out."""
    seen = listed(record.told["seen"]) if record.told.get("seen") else ""
    which = {
        "test": "on held-out numbers alone" + f", those of {seen} known before" * bool(seen),
        "both": "on fitted and held-out numbers together",
        "fit": "on fitted numbers alone, by which the settings were chosen",
        "": "on numbers that the file does not tell apart as fitted or held out",
    }[part]
    return f"Of {count(number, 'claim')} that the published tables bear out, {which}"


_COUNTED = {
    EVERY: "holding under every setting that can judge them",
    UNREFUTED: "holding under some and within noise under the others",
    SOME: "holding under some and refuted under others",
    NONE: "refuted and holding under none",
    NOISE: "not beyond noise",
    OPEN: "not decidable (other cells, or no usable run)",
}


def _counted(own: Sequence[ClaimUnder]) -> str:
    """Count the claims of each kind, without kinds that there are none of."""
    counts = Counter(one.kind for one in own)
    return listed(f"{counts[kind]} {words}" for kind, words in _COUNTED.items() if counts[kind])

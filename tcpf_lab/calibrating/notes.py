"""What is to be kept in mind of an outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.calibrating.search import Search
from tcpf_lab.calibration.objective import Threshold

#: Said in every outcome.
NO_REPRODUCTION = (
    "A fit is not a reproduction: the settings were chosen because they give the published "
    "numbers, so that they give them shows nothing; only what is held out can."
)


def notes(search: Search, usable: int, limit: Threshold, left_out: Sequence[str]) -> Iterator[str]:
    """Yield what is to be kept in mind of an outcome, in sentences.

    Parameters
    ----------
    search : Search
        Whose outcome it is.
    usable : int
        How many of its points have runs that can be used.
    limit : Threshold
        Of the profiles.
    left_out : sequence of str
        Published numbers that could not be fitted.
    """
    yield NO_REPRODUCTION
    calibration = search.subject.calibration
    if not calibration.test:
        yield "nothing is held out: how far the settings carry is not known"
    if calibration.seeds == 1:
        yield (
            "points have one seed each; how much seeds differ was measured at the uncalibrated "
            "setting, and may be otherwise elsewhere"
        )
    yield _independence(limit)
    yield from _few_left(limit)
    if left_out:
        yield (
            f"fitted are {limit.residuals} numbers: without those that fewer than "
            f"four points have measured, {'; '.join(left_out)}"
        )
    lost = len(search.ledger.points) - usable
    if lost:
        yield f"{lost} of {len(search.ledger.points)} points have no runs that can be used"
    known = {point.id for point in search.ledger.points}
    refused = search.responses.refused.items()
    for point, reason in ((one, why) for one, why in refused if one in known):
        yield f"point {point} is not allowed, and what is lacking counts as the worst: {reason}"
    if search.ledger.outside:
        yield (
            f"{len(search.ledger.outside)} earlier points lie outside of the present ranges and "
            "are left out"
        )


def unfinished(search: Search, asked: int, complete: int) -> str | None:
    """Say what of a search was not carried out; None if nothing is lacking.

    Parameters
    ----------
    search : Search
        The search.
    asked, complete : int
        How many runs there are to be, and are.
    """
    calibration, points = search.subject.calibration, search.ledger.points
    rounds, every = max((point.round for point in points), default=0), calibration.search.rounds
    parts = [f"{rounds} of {every} rounds were proposed"] if rounds < every else []
    if complete < asked:
        parts.append(f"{asked - complete} of {asked} runs failed or are not made")
    return "; ".join(parts) if parts else None


def _few_left(limit: Threshold) -> Iterator[str]:
    left = limit.effective - limit.parameters
    if left < limit.parameters:
        yield (
            f"{limit.effective:g} independent residuals are few for {limit.parameters} free "
            "parameters: how well anything fits is hardly known, and with it the ranges"
        )


def _independence(limit: Threshold) -> str:
    if limit.effective < limit.residuals:
        return (
            f"the {limit.residuals} residuals are taken for {limit.effective:g} independent ones, "
            "as `independent` says"
        )
    return (
        f"the {limit.residuals} residuals are taken as independent: where cells miss together, the "
        "ranges not excluded are too narrow (`independent` makes them wider)"
    )

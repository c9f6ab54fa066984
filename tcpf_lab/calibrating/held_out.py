"""The uncalibrated setting and the best one against what is fitted, and what is held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcpf_lab.calibrating import judgement
from tcpf_lab.calibrating.ledger import Point
from tcpf_lab.calibrating.search import Search
from tcpf_lab.calibrating.target import Cells, cells_of

#: The parts of the numbers: what the search saw, what it did not see, and of that what nobody who
#: chose the unknowns says to have looked at.
FIT, TEST, BLIND = "fit", "test", "blind"


def before_and_after(search: Search, best: Point) -> dict[str, Any]:
    """Give the errors of both settings by part, and how far the cases stand in order by part.

    ``blind`` is among them only if there is something in ``seen``, and {} if that is all of it.
    """
    seeds = search.subject.calibration.check_.seeds
    errors: dict[str, Any] = {}
    taus: list[Any] = []
    for part, cells in _parts(search):
        if not cells.names:
            errors[part] = {}
            continue
        pair = [search.responses.results(p, cells, seeds) for p in (search.default, best)]
        errors[part] = judgement.held_out(cells, *pair)
        taus += [{"part": part, **one} for one in judgement.orders(cells, *pair)]
    return {"held_out": errors, "kendall": taus}


def _parts(search: Search) -> Iterator[tuple[str, Cells]]:
    subject = search.subject
    yield FIT, cells_of(subject, subject.fit)
    if not subject.test:
        return
    cells = cells_of(subject, subject.test)
    yield TEST, cells
    if seen := subject.calibration.seen:
        left = [place for place, name in enumerate(cells.names) if name.case not in seen]
        names = tuple(cells.names[place] for place in left)
        yield BLIND, Cells(names, cells.metrics, cells.published[left])

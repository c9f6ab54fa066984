"""The case's marker at the marking router: one function per kind, named here."""

from __future__ import annotations

from collections.abc import Callable

from tcpf_lab.plan.step import Phase
from tcpf_lab.spec.sweep import Run


def _none(_run: Run) -> tuple[Phase, ...]:
    return ()


#: What installs each kind of marker, by its name in the experiment file.
MARKERS: dict[str, Callable[[Run], tuple[Phase, ...]]] = {"none": _none}


def build(run: Run) -> tuple[Phase, ...]:
    """Return the phases that install the marker of ``run``'s case.

    Raises
    ------
    NotImplementedError
        If the specification knows a kind that no plan can carry out.
    """
    kind = run.case.marker.kind
    if kind not in MARKERS:
        raise NotImplementedError(f"no plan for marker kind '{kind}'")
    return MARKERS[kind](run)

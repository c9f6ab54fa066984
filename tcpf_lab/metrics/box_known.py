"""What is known of a box between two captures, and which of its packets are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.passage import Passage

#: Longest stay in a box of which nothing is known.
MAX_DELAY_NS = 2_000_000_000
#: Parts that loss over time is told for, unless something else is asked for.
BIN_NS = 1_000_000_000


@dataclass(frozen=True)
class BoxKnown:
    """What is known of the box, and which packets are judged.

    Attributes
    ----------
    max_delay_ns : int
        Longest possible stay.
    offset_ns : int, optional
        What the second clock shows more than the first (0: one clock); None: it is estimated.
    from_ns, to_ns : int, optional
        Only packets that arrive from then until before then, counted from the first arrival, and
        of these only such as the second capture would have the departure of.
    bin_ns : int
        Length of the parts of loss over time.
    """

    max_delay_ns: int = MAX_DELAY_NS
    offset_ns: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    bin_ns: int = BIN_NS


def judged_of(found: Passage, known: BoxKnown) -> tuple[NDArray[np.bool_], int]:
    """Say which packets the numbers are about, and how many came at other times than asked for.

    Raises
    ------
    TraceError
        If none is judged of those that came at that time.
    """
    came = found.crossing.arrival_ns
    start, end = found.judged_ns
    after_ns = came - came[0]
    wanted = after_ns >= (known.from_ns or 0)
    if known.to_ns is not None:
        wanted &= after_ns < known.to_ns
    seen = (came >= start) & (came <= end)
    judged: NDArray[np.bool_] = seen & wanted
    if seen.any() and not judged.any():
        first, last = after_ns[seen][[0, -1]] / 1e9
        hint = f"those from {first:.6f} to {last:.6f} s are, as the second capture would have them"
        raise TraceError(
            "no packet that came in this time is judged", where="--from, --to", hint=hint
        )
    return judged, int(np.sum(~wanted))

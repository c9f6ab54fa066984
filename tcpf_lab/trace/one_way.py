"""Flows of which a capture has one direction only: what they cannot tell is not told.

Asymmetric routes, mirror ports and captures on one side of an interface leave out what comes back.
Without acknowledgements nothing says what liberated a packet: that data was sent again is certain,
and why is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.events import RTO


def one_way(flows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which flows of an analysis have one direction only.

    They sent more than SYNs, and nothing acknowledged any. A sender that is cut off looks alike,
    but its timer sends the head of its window again.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        As in `tcpf_lab.trace.events.Analysis`.
    """
    unanswered = (flows["acks"] == 0) & (flows["packets"] > flows["syn"])
    return np.asarray(unanswered & (flows["counts"][:, RTO] == 0), np.bool_)

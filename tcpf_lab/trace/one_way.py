"""Flows of which a capture has one direction only: what they cannot tell is not told.

Asymmetric routes, mirror ports and captures on one side of an interface leave out what comes back.
Without acknowledgements nothing says what liberated a packet: that data was sent again is certain,
and why is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.events import RTO, SYN_RTO, UNKNOWN

#: Rule of the retransmissions of such flows.
NOTHING_BACK = 22
#: Kinds that only acknowledgements could tell apart: every retransmission of data.
_DATA = np.arange(RTO, SYN_RTO)


def heard_nothing(flows: NDArray[Any], senders: NDArray[Any]) -> NDArray[np.bool_]:
    """Which flows have one direction only, before `forget` has been at them.

    A sender that is cut off looks alike: its timer sends the head of its window again and again.
    Unlike one whose acknowledgements are elsewhere, it sends nothing else then.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        Rows of flows, as the engine left them.
    senders : array of SENDER, shape (flows,)
        State of their senders.
    """
    counts = flows["counts"]
    head_only = (counts[:, RTO] > 0) & (counts[:, RTO] == counts[:, RTO:SYN_RTO].sum(axis=1))
    cut_off = head_only & (flows["syn"] == 0) & (senders["sent_at"] == senders["armed"])
    return np.asarray(_unanswered(flows) & ~cut_off, np.bool_)


def one_way(flows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which flows of a finished analysis have one direction only.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        As in `tcpf_lab.trace.events.Analysis`.
    """
    return np.asarray(_unanswered(flows) & (flows["counts"][:, RTO] == 0), np.bool_)


def _unanswered(flows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which flows sent more than SYNs, of which nothing acknowledges any."""
    return np.asarray((flows["acks"] == 0) & (flows["packets"] > flows["syn"]), np.bool_)


def forget(flows: NDArray[Any], events: NDArray[Any], alone: NDArray[np.bool_]) -> None:
    """Take back why data was sent again where nothing came back; in place.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        Rows of flows.
    events : array of EVENT, shape (events,)
        Their events.
    alone : bool, shape (flows,)
        Flows that have one direction only.
    """
    counts = flows["counts"]
    again = counts[np.ix_(alone, _DATA)].sum(axis=1)
    counts[np.ix_(alone, _DATA)] = 0
    counts[alone, UNKNOWN] = again
    flows["episodes"][alone] = 0
    doubtful = alone[events["flow"]] & np.isin(events["kind"], _DATA)
    events["kind"][doubtful], events["rule"][doubtful] = UNKNOWN, NOTHING_BACK
    events["backoff"][doubtful] = 0

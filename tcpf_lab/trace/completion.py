"""From the engine's state at the end of a capture to finished rows of flows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.distance import NEAR_NS, NEAR_SHARE
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.events import Place
from tcpf_lab.trace.one_way import forget, heard_nothing


def complete(engine: Engine) -> tuple[NDArray[Any], NDArray[Any]]:
    """Finish the rows of the flows; leave out directions that only acknowledge.

    Returns
    -------
    tuple of arrays
        Rows of `tcpf_lab.trace.events.FLOW` and of `EVENT`, events numbered by those flows.
    """
    flows, senders = engine.flows.copy(), engine.senders
    connection, side = _owners(engine)
    own, other = engine.connections[connection], 1 - side
    each = np.arange(flows.size)
    fin = (senders["fin"] >= 0) & (senders["una"] > senders["fin"])
    acked = np.maximum(senders["una"] - 1 - fin - senders["given_up"], 0) * senders["known"]
    flows["acked_bytes"] = acked + senders["acked_before"]
    told = senders["peer_mss"] > 0
    flows["mss"] = np.where(told, senders["peer_mss"], flows["mss"])
    flows["sack"] = np.all(own["permit"] > 0, axis=1) | (senders["sack_flow"] > 0)
    flows["timestamps"] = np.all(own["stamps"] > 0, axis=1) | (senders["stamped"] > 0)
    scaled, shaken = np.all(own["scale"] >= 0, axis=1), np.all(own["isn"] >= 0, axis=1)
    scale = np.where(shaken, 0, -1)
    flows["window_scale"] = np.where(scaled, own["scale"][each, other], scale)
    flows["rtt_min_ns"] = np.where(flows["rtt_count"] > 0, senders["rtt_min"], -1)
    flows["isn"] = senders["isn"] & 0xFFFFFFFF
    keep = _carrying(flows, own, side)
    flows, events = select(flows, engine.events, keep)
    forget(flows, events, heard_nothing(flows, senders[keep]))
    return flows, events


def _owners(engine: Engine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Connection of each flow, and its direction there."""
    number, side = np.nonzero(engine.connections["flow"] >= 0)
    flow = engine.connections["flow"][number, side]
    order = np.argsort(flow)
    return number[order], side[order]


def _carrying(flows: NDArray[Any], own: NDArray[Any], side: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Flows with data; of a connection without any, the flow of the one that opened it."""
    data = flows["data_packets"] > 0
    across = own["flow"][np.arange(flows.size), 1 - side]
    silent = ~data & ((across < 0) | ~data[across])
    opened = (own["opener"] == side) | (across < 0)
    carrying: NDArray[np.bool_] = data | (silent & opened)
    return carrying


def select(
    flows: NDArray[Any], events: NDArray[Any], keep: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keep some flows, and their events, numbered anew.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        All flows.
    events : array of EVENT, shape (events,)
        Their events.
    keep : bool, shape (flows,)
        The flows to keep.
    """
    number = np.cumsum(keep) - 1
    kept = events[keep[events["flow"]]]
    kept["flow"] = number[kept["flow"]]
    return flows[keep], kept


def seen_from(engine: Engine) -> Place:
    """Where most data was captured, by the handshakes; the sender's side where none tells.

    Flows of one direction only count as seen between the ends: ACKs are the sender's too.
    """
    connection, side = _owners(engine)
    away, each = engine.connections["away"][connection], np.arange(side.size)
    own, far = away[each, side], away[each, 1 - side]
    known = (own >= 0) & (far >= 0)
    limit = np.maximum(NEAR_NS, (own + far) // NEAR_SHARE)
    data = engine.flows["data_packets"] * known
    near, beyond = own <= limit, far <= limit
    alone = heard_nothing(engine.flows, engine.senders)
    votes: dict[Place, int] = {
        "sender": int(np.sum(data[near])),
        "receiver": int(np.sum(data[~near & beyond])),
        "between": int(np.sum(data[~near & ~beyond]) + np.sum(engine.flows["packets"][alone])),
    }
    return max(votes, key=lambda place: votes[place])

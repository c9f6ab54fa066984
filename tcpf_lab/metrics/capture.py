"""One capture described in plain data and base units: the capture, its flows, its events."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.analysis import (
    KINDS,
    RETRANSMISSIONS,
    RTO,
    SYN_RTO,
    UNKNOWN,
    Analysis,
    ip_text,
    one_way,
)

#: Counts of a flow that add up over flows.
COUNTS = (
    *("data_packets", "payload_bytes", "acked_bytes", "retransmissions"),
    *("timeouts", "syn_timeouts", "timeout_episodes"),
)
#: Retransmissions of data; that of a SYN is counted apart.
_DATA = [kind for kind in RETRANSMISSIONS if kind != SYN_RTO]
#: Numbers of a row of the analysis that are copied as they are.
_AS_THEY_ARE = ("packets", "wire_bytes", "data_packets", "payload_bytes", "acks")


def describe(
    analysis: Analysis, rows: Sequence[int] | NDArray[np.int64], *, top: int | None = None
) -> dict[str, Any]:
    """Describe a capture and some of its flows.

    Parameters
    ----------
    analysis : Analysis
        What `tcpf_lab.trace.analysis.analyse` found.
    rows : sequence of int
        The flows to describe, in this order.
    top : int, optional
        Give so many of them one by one; 0 or None: all.

    Returns
    -------
    dict
        ``file``, ``packets`` (all records), what of them is not TCP, ``at`` (where the capture was
        taken), its first time stamp and length, ``flows`` (`flow_row`), ``totals`` over all of
        `rows`; ``flow_count``, ``one_way_count`` and ``handshake_count`` are of all its flows.
    """
    flows = [flow_row(analysis, int(row)) for row in rows]
    return {**capture_row(analysis), "flows": flows[: top or None], "totals": totals(flows)}


def capture_row(analysis: Analysis) -> dict[str, Any]:
    """Say what the capture itself is: counts of records, ns since 1970, seconds."""
    capture = analysis.capture
    return {
        "file": capture.name,
        "format": capture.format,
        "packets": capture.records,
        "not_ip": capture.not_ip,
        "not_tcp": capture.not_tcp,
        "fragments": capture.fragments,
        "short": capture.short,
        "duplicates": analysis.copies,
        "truncated": capture.truncated,
        "skipped_bytes": capture.skipped,
        "read_share": capture.read_share,
        "at": analysis.at,
        "flow_count": int(analysis.flows.size),
        "one_way_count": int(np.sum(one_way(analysis.flows))),
        "handshake_count": int(np.sum(analysis.flows["window_scale"] >= 0)),
        "start_ns": analysis.first_ns,
        "duration_s": (analysis.last_ns - analysis.first_ns) / 1e9,
    }


def flow_row(analysis: Analysis, row: int) -> dict[str, Any]:
    """Describe one flow.

    Parameters
    ----------
    analysis : Analysis
        What was found.
    row : int
        The flow's number, its place in ``analysis.flows``.

    Returns
    -------
    dict
        Its ends, what it sent, the causes of retransmissions, round-trip time and options.
        ``timeouts`` are RTO expirations that sent data, back-offs included; ``syn_timeouts`` those
        that sent a SYN; their sum is comparable with Linux's ``tcpi_total_rto``.
        ``retransmissions`` are of data. ``events`` counts by kind, ``spurious`` the spurious ones;
        kinds that did not occur are 0, or not in ``spurious``. In a flow with ``one_way``, values
        that need acknowledgements are None.
    """
    flow = analysis.flows[row]
    counts, spurious = flow["counts"], flow["spurious"]
    alone = bool(one_way(analysis.flows[row : row + 1])[0])
    return {
        "flow": row,
        "src": ip_text(flow["src"]),
        "sport": int(flow["sport"]),
        "dst": ip_text(flow["dst"]),
        "dport": int(flow["dport"]),
        "start_s": (int(flow["first_ns"]) - analysis.first_ns) / 1e9,
        "duration_s": (int(flow["last_ns"]) - int(flow["first_ns"])) / 1e9,
        **{name: int(flow[name]) for name in _AS_THEY_ARE},
        "one_way": alone,
        "acked_bytes": None if alone else int(flow["acked_bytes"]),
        "retransmissions": int(np.sum(counts[_DATA])),
        "timeouts": None if alone else int(counts[RTO]),
        "syn_timeouts": int(counts[SYN_RTO]),
        "timeout_episodes": None if alone else int(flow["episodes"]),
        "events": {name: int(n) for name, n in zip(KINDS, counts, strict=True) if name},
        "spurious": {name: int(n) for name, n in zip(KINDS, spurious, strict=True) if n},
        **_round_trip(flow),
        **_options(flow),
        **{name: int(flow[name]) for name in ("syn", "fin", "rst")},
    }


def _round_trip(flow: Any) -> dict[str, float | int | None]:
    count = int(flow["rtt_count"])
    return {
        "rtt_min_s": int(flow["rtt_min_ns"]) / 1e9 if count else None,
        "rtt_mean_s": int(flow["rtt_sum_ns"]) / 1e9 / count if count else None,
        "rtt_samples": count,
    }


def _options(flow: Any) -> dict[str, int | bool | None]:
    """What the ends agreed on, None where the capture does not show it."""
    scale, dscp = int(flow["window_scale"]), int(flow["dscp"])
    return {
        "mss": int(flow["mss"]) or None,
        "sack": bool(flow["sack"]),
        "timestamps": bool(flow["timestamps"]),
        "window_scale": scale if scale >= 0 else None,
        "dscp": dscp if dscp >= 0 else None,
    }


def totals(flows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add up the counts of flows; ``unknown_share`` is of their retransmissions, 0 to 1.

    What is known of no flow is None; else the sum is over those of which it is known.
    """
    rows = list(flows)
    events = {name: sum(row["events"][name] for row in rows) for name in KINDS[1:]}
    spurious = {name: sum(row["spurious"].get(name, 0) for row in rows) for name in KINDS[1:]}
    again = sum(row["retransmissions"] for row in rows)
    return {
        "flows": len(rows),
        **{name: _sum([row[name] for row in rows]) for name in COUNTS},
        "events": events,
        "spurious": {name: count for name, count in spurious.items() if count},
        "unknown_share": events[KINDS[UNKNOWN]] / again if again else 0.0,
    }


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known or not counts else None


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class FlowChoice:
    """Flows that are all of this; within one field, one of its values is enough.

    Parameters
    ----------
    hosts : tuple of ip_network
        Networks that the sender or the receiver belongs to; an address is a network of one.
    ports : tuple of int
        Ports of the sender or of the receiver.
    dscps : tuple of int
        Code points of the flow's first data packet.
    flows : tuple of int
        Numbers of flows, as the analysis counts them in each capture.
    """

    hosts: tuple[Network, ...] = ()
    ports: tuple[int, ...] = ()
    dscps: tuple[int, ...] = ()
    flows: tuple[int, ...] = ()

    def rows(self, analysis: Analysis) -> NDArray[np.int64]:
        """Numbers of the flows that are wanted, ascending."""
        flows = analysis.flows
        wanted = np.ones(flows.size, np.bool_)
        if self.hosts:
            wanted &= _within(flows["src"], self.hosts) | _within(flows["dst"], self.hosts)
        if self.ports:
            wanted &= np.isin(flows["sport"], self.ports) | np.isin(flows["dport"], self.ports)
        if self.dscps:
            wanted &= np.isin(flows["dscp"], self.dscps)
        if self.flows:
            wanted &= np.isin(np.arange(flows.size), self.flows)
        return np.flatnonzero(wanted)

    def __bool__(self) -> bool:
        """Whether any filter is set."""
        return bool(self.hosts or self.ports or self.dscps or self.flows)

    def __str__(self) -> str:
        """Write the choice as the options of the command line."""
        fields = {"--host": self.hosts, "--port": self.ports, "--dscp": self.dscps}
        words = [f"{name} {value}" for name, values in fields.items() for value in values]
        numbers = [f"--flow {','.join(map(str, self.flows))}"] if self.flows else []
        return " ".join([*words, *numbers])


def _within(addresses: NDArray[np.uint8], networks: tuple[Network, ...]) -> NDArray[np.bool_]:
    """Whether each address of 16 bytes, shape (flows, 16), is in one of the networks."""
    found = np.zeros(len(addresses), np.bool_)
    for network in networks:
        first = _sixteen(network.network_address, bytes(10) + b"\xff\xff")
        mask = _sixteen(network.netmask, b"\xff" * 12)  # all that stands before an IPv4 address
        found |= np.all((addresses & mask) == first, axis=1)
    return found


def _sixteen(address: Any, before: bytes) -> NDArray[np.uint8]:
    """Sixteen bytes of an address or a mask, those of IPv4 behind ``before``."""
    packed = address.packed if address.version == 6 else before + address.packed
    return np.frombuffer(packed, np.uint8)

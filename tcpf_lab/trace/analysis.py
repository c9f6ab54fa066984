"""Analyse captures: every flow, every retransmission and what made the sender send it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.base.errors import path_text

#: Names of the kinds; the place is the number.  The first eight are retransmissions.
KINDS = ("", *_trace.CAUSES)
RTO, FAST, SACK_RECOVERY, PARTIAL_ACK, POST_RTO, TLP, UNKNOWN, SYN_RTO = range(1, 9)
KEEPALIVE, WINDOW_PROBE, REORDERING = range(9, 12)
#: Kinds that are retransmissions.
RETRANSMISSIONS = tuple(range(RTO, KEEPALIVE))

#: Evidence that a retransmission was spurious; the place is the number, 0 is none.
SPURIOUS = ("", *_trace.EVIDENCE)
DSACK, TIMESTAMP, EARLY_ACK, ACK_JUMP = 1, 2, 3, 4

#: Where a capture was taken, seen from a flow's data sender.
Place = Literal["sender", "receiver", "between"]

#: What each number in ``rule`` means.
RULES = {0: "no rule: the packet is not an event"}
RULES |= {number: text for number, (text, _) in enumerate(_trace.RULES, 1)}

#: A row per event, in the order of the capture.
#:
#: ``time_ns``   when it was captured, nanoseconds since 1970
#: ``flow``      row of its flow in `Analysis.flows`
#: ``record``    number of its record in the capture, from 0
#: ``start``     relative sequence number, 64 bits: the SYN is byte 0, data begins at byte 1
#: ``length``    bytes of payload
#: ``kind``      place in `KINDS`
#: ``rule``      key of `RULES`
#: ``backoff``   for a timeout: timeouts before it without an ACK of new data
#: ``spurious``  place in `SPURIOUS`
EVENT = np.dtype(
    [
        ("time_ns", np.int64),
        ("flow", np.int64),
        ("record", np.int64),
        ("start", np.int64),
        ("length", np.int32),
        ("kind", np.uint8),
        ("rule", np.uint8),
        ("backoff", np.uint8),
        ("spurious", np.uint8),
    ]
)

_NUMBERS = (
    *("first_ns", "last_ns", "packets", "wire_bytes", "data_packets", "payload_bytes"),
    *("acked_bytes", "acks", "mss", "sack", "timestamps", "window_scale", "dscp"),
    *("rtt_min_ns", "rtt_sum_ns", "rtt_count", "syn", "fin", "rst", "episodes", "isn"),
)

#: A row per data sender.
#:
#: ``src dst``        16 bytes each; an IPv4 address as ``::ffff:a.b.c.d``
#: ``sport dport``    ports
#: ``first_ns``       first and last packet of the flow itself (``last_ns``), not of its ACKs
#: ``packets``        packets from sender to receiver, ``wire_bytes`` their frames' bytes
#: ``data_packets``   those with payload, ``payload_bytes`` that payload, repeats included
#: ``acked_bytes``    payload bytes acknowledged
#: ``acks``           packets that came back with an ACK
#: ``mss``            from the SYN of the receiver; else the largest payload seen
#: ``sack``           1 if SACK was negotiated (or seen), 0 if not; ``timestamps`` too
#: ``window_scale``   shift of the receiver's window, -1 if unknown
#: ``dscp``           of the first data packet, -1 if there is none
#: ``rtt_min_ns``     of the samples that Karn's rule allows, -1 without one; ``rtt_sum_ns`` and
#:                    ``rtt_count`` make their mean
#: ``syn fin rst``    packets with that flag, from sender to receiver
#: ``episodes``       timeouts of data, back-offs not counted
#: ``isn``            initial sequence number (32 bits)
#: ``counts``         events by kind
#: ``spurious``       spurious events by kind
FLOW = np.dtype(
    [
        ("src", np.uint8, (16,)),
        ("dst", np.uint8, (16,)),
        ("sport", np.int64),
        ("dport", np.int64),
        *((name, np.int64) for name in _NUMBERS),
        ("counts", np.int64, (len(KINDS),)),
        ("spurious", np.int64, (len(KINDS),)),
    ]
)


@dataclass(frozen=True)
class CaptureInfo:
    """The capture itself.

    Attributes
    ----------
    name : str
        File name, or ``-``.
    format : str
        ``pcap`` or ``pcapng``.
    records : int
        All records.
    not_ip, not_tcp, fragments, short : int
        Records of other protocols than IP; IP packets without TCP; fragments but the first;
        packets whose headers were cut off.
    truncated : str
        What is wrong with the file; empty if it is whole.
    link_types : tuple of int
        Link types of its interfaces.
    skipped : int
        Bytes that were not read because they, or what is before them, are damaged.
    read_share : float
        Share of its bytes, 0 to 1, that were not skipped.
    """

    name: str
    format: str
    records: int
    not_ip: int
    not_tcp: int
    fragments: int
    short: int
    truncated: str
    link_types: tuple[int, ...]
    skipped: int = 0
    read_share: float = 1.0


@dataclass(frozen=True)
class Analysis:
    """Everything the analysis of one capture found.

    Attributes
    ----------
    capture : CaptureInfo
        The capture itself.
    flows : array of FLOW, shape (flows,)
        One row per data sender, in the order of their first packets.
    events : array of EVENT, shape (events,)
        In the order of the capture; empty if not requested.
    at : str
        Where the capture was taken: ``sender``, ``receiver`` or ``between``.
    first_ns, last_ns : int
        First and last time stamp; 0 for a capture without packets.
    copies : int
        TCP packets that were captured more than once, and left out.
    """

    capture: CaptureInfo
    flows: NDArray[Any]
    events: NDArray[Any]
    at: Place
    first_ns: int
    last_ns: int
    copies: int = 0


def ip_text(address: NDArray[np.uint8]) -> str:
    """Write an address of `FLOW` the usual way.

    Parameters
    ----------
    address : uint8, shape (16,)
        ``src`` or ``dst`` of a row.

    Examples
    --------
    >>> ip_text(np.array([0] * 10 + [255, 255, 10, 0, 0, 1], np.uint8))
    '10.0.0.1'
    """
    number = ipaddress.IPv6Address(address.tobytes())
    return str(number.ipv4_mapped or number)


Profile = Literal["linux", "classic", "linux-2.2", "rfc6298"]


@dataclass(frozen=True)
class Options:
    """What is known of the senders, and of where the capture was taken.

    Attributes
    ----------
    rto_min_ns : int
        Linux: smallest variance term of the timer; RFC 6298: smallest timer.  0: the profile's own
        (200 ms, 1 s).
    probes : bool
        Whether the senders may send tail loss probes.
    profile : str
        Whose timer: ``linux``, ``linux-2.2`` or ``rfc6298``; ``classic`` is Linux with the recovery
        of 1990.
    linux22 : tuple of str
        What ``linux`` senders do as Linux 2.2 did, as the experiment's ``tcp.linux22`` names it.
    at : str, optional
        Where the capture was taken; None: found from the handshakes.
    """

    rto_min_ns: int = 0
    probes: bool = True
    profile: Profile = "linux"
    at: Place | None = None
    linux22: tuple[str, ...] = ()

    def known(self) -> _trace.Known:
        """Give what `tcpf_lab._trace` asks for."""
        return {
            "rto_min_ns": self.rto_min_ns,
            "probes": self.probes,
            "profile": self.profile,
            "linux22": list(self.linux22),
            "at": self.at,
        }


def analyse(
    path: Path | str,
    *,
    options: Options | None = None,
    events: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Analysis:
    """Analyse one capture.

    Parameters
    ----------
    path : Path or str
        A capture; ``-`` is standard input.
    options : Options, optional
        What is known of the senders.
    events : bool
        Whether to list the events; they are counted in any case.
    progress : callable, optional
        Called from time to time with the number of bytes read.

    Returns
    -------
    Analysis
        Flows, events, and the capture itself.

    Raises
    ------
    TraceError
        If the capture cannot be read.
    """
    known = (options or Options()).known()
    info, flows, listed, where, first, last, copies = _trace.analyse(
        os.fspath(path), known, events, progress
    )
    capture = CaptureInfo(name=path_text(path), **info)
    return Analysis(capture, flows, listed, where, first, last, copies)


def one_way(flows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which flows of an analysis have one direction only.

    They sent more than SYNs, and nothing acknowledged any. A sender that is cut off looks alike,
    but its timer sends the head of its window again.

    Parameters
    ----------
    flows : array of FLOW, shape (flows,)
        As in `tcpf_lab.trace.analysis.Analysis`.
    """
    unanswered = (flows["acks"] == 0) & (flows["packets"] > flows["syn"])
    return np.asarray(unanswered & (flows["counts"][:, RTO] == 0), np.bool_)

"""Reduce packets to what tells them apart on both sides of a router, a few words each.

A mark is all that the comparison of two captures keeps of a packet, so that its memory does not
depend on the length of frames.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.errors import path_text
from tcpf_lab.trace.packet import Packets

#: ``time_ns``      time stamp
#: ``identity``     digest of everything that no router changes: see `Marks.of`
#: ``record``       number of its record in the capture, from 0
#: ``detail``       digest of TCP's timestamps, 0 without them (or if they were cut off)
#: ``ip_length``    bytes from the IP header on
#: ``wire_length``  bytes of the frame
#: ``flow``         row of `Marks.ends`
#: ``seq``          TCP sequence number
#: ``payload``      bytes of payload
#: ``tos``          type of service
MARK = np.dtype(
    [
        ("time_ns", np.int64),
        ("identity", np.uint64),
        ("record", np.int64),
        ("detail", np.uint32),
        ("ip_length", np.uint32),
        ("wire_length", np.uint32),
        ("flow", np.uint32),
        ("seq", np.uint32),
        ("payload", np.int32),
        ("tos", np.uint8),
    ],
    align=True,
)
#: An array of `MARK`, shape (n,), in the order of time.
MarkArray: TypeAlias = NDArray[Any]

#: One direction of a connection.
ENDS = np.dtype(
    [
        ("src", np.uint64),
        ("dst", np.uint64),
        ("src_high", np.uint64),
        ("dst_high", np.uint64),
        ("sport", np.uint16),
        ("dport", np.uint16),
        ("protocol", np.uint8),
    ],
    align=True,
)


class Marks:
    """Number the ends of packets and reduce packets to marks, alike for all captures."""

    def __init__(self) -> None:
        self._marks = _trace.Marks()

    @property
    def ends(self) -> NDArray[Any]:
        """Each direction of each connection, array of ENDS, in the order of their first packets."""
        return self._marks.ends

    def of(self, packets: Packets) -> MarkArray:
        """Reduce packets to marks, in the order of time.

        Parameters
        ----------
        packets : Packets
            Of one capture, or a part of it.

        Returns
        -------
        array of MARK
            Sorted by time; packets of one instant stay in the order of the capture.

        Notes
        -----
        The identity is made of addresses, ports, protocol, IP identification and length, TCP's
        sequence and acknowledgement number, flags and window.  The fields that routers change
        (type of service, time to live, check sums) are left out.  64 bits: of a million packets
        two different ones have the same digest with a probability of 3e-8.
        """
        return self._marks.of(packets)

    def read(self, path: Path | str) -> tuple[MarkArray, str]:
        """Read a capture and keep of each packet its mark only.

        Parameters
        ----------
        path : Path or str
            As for `tcpf_lab.trace.pcap.read_capture`.

        Returns
        -------
        tuple of (array of MARK, str)
            The packets in the order of time, and what is wrong with the capture, if anything.

        Raises
        ------
        TraceError
            If the capture cannot be read.
        """
        found, truncated = self._marks.read(os.fspath(path))
        return found, f"{path_text(path)}: {truncated}" if truncated else ""

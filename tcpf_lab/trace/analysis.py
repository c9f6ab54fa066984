"""Analyse captures: every flow, every retransmission and what made the sender send it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcpf_lab import _trace
from tcpf_lab.errors import path_text
from tcpf_lab.trace.events import Analysis, CaptureInfo, Place

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
        Told now and then how many bytes of the file have been read.

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

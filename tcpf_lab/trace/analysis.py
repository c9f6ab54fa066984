"""Analyse captures: every flow, every retransmission and what made the sender send it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tcpf_lab.errors import path_text
from tcpf_lab.trace.completion import complete, seen_from
from tcpf_lab.trace.damage import counted
from tcpf_lab.trace.distance import AT_SENDER, ELSEWHERE, FOUND
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.estimator import CLASSIC, LINUX, RFC6298
from tcpf_lab.trace.events import Analysis, CaptureInfo, Place
from tcpf_lab.trace.linux22 import LINUX22, bits
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.recovery import RTO_MIN_NS
from tcpf_lab.trace.scan import FRAGMENTS, NOT_IP, NOT_TCP, RECORDS, SHORT, UNTIMED

#: Packets per block: with the bytes they come from they stay in the L2 cache.
_ROWS = 4096
_RFC_MINIMUM_NS = 1_000_000_000

Profile = Literal["linux", "classic", "linux-2.2", "rfc6298"]
_NUMBERS: dict[Profile, int] = {
    "linux": LINUX,
    "classic": CLASSIC,
    "linux-2.2": LINUX | LINUX22,
    "rfc6298": RFC6298,
}


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

    @property
    def settings(self) -> tuple[int, int, int, int]:
        """Timer's minimum, probes, profile and place, for `tcpf_lab.trace.engine.Engine`."""
        least = _RFC_MINIMUM_NS if self.profile == "rfc6298" else RTO_MIN_NS
        minimum = self.rto_min_ns or least
        where = FOUND if self.at is None else (AT_SENDER if self.at == "sender" else ELSEWHERE)
        number = _NUMBERS[self.profile] | bits(self.linux22)
        return minimum, int(self.probes), number, where


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
    chosen = options or Options()
    engine = Engine(chosen.settings, listed=events)
    block = np.zeros(_ROWS, PACKET)
    with Reader(path) as reader:
        while count := reader.fill(block):
            engine.feed(block[:count])
            if progress:
                progress(reader.position)
        capture = _info(reader, engine.steps)
    engine.finish()
    first, last = engine.times
    flows, listed = complete(engine)
    where = chosen.at or seen_from(engine)
    return Analysis(capture, flows, listed, where, first, last, engine.copies)


def _untimed(reader: Reader) -> str:
    """Say how many packets have no time of their own: nothing that lasts can be told of those."""
    count, every = int(reader.counters[UNTIMED]), int(reader.counters[RECORDS])
    return f"{count} of {counted(every, 'packet')} without a time of their own" if count else ""


def _stepped(packets: int) -> str:
    """Say before how many packets the clock of the capture was set."""
    if not packets:
        return ""
    where = counted(packets, "packet")
    return (
        f"time goes back by a second, or ahead by a day, at {where}: a clock was set or captures "
        "were joined, and what lasts across that is not to be believed"
    )


def _info(reader: Reader, steps: int) -> CaptureInfo:
    return CaptureInfo(
        name=path_text(reader.name),
        format=reader.format,
        records=int(reader.counters[RECORDS]),
        not_ip=int(reader.counters[NOT_IP]),
        not_tcp=int(reader.counters[NOT_TCP]),
        fragments=int(reader.counters[FRAGMENTS]),
        short=int(reader.counters[SHORT]),
        truncated=reader.truncated or _untimed(reader) or _stepped(steps),
        link_types=reader.link_types,
        skipped=reader.skipped,
        read_share=reader.read_share,
    )

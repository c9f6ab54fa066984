"""Analyse captures: every flow, every retransmission and what made the sender send it."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import RequestError, TraceError
from tcpf_lab.trace.completion import complete, seen_from, select
from tcpf_lab.trace.distance import AT_SENDER, ELSEWHERE, FOUND
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.events import Analysis, CaptureInfo, Place
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.recovery import RTO_MIN_NS
from tcpf_lab.trace.scan import FRAGMENTS, NOT_IP, NOT_TCP, RECORDS, SHORT
from tcpf_lab.trace.sender import LINUX, RFC6298

#: Packets per block: with the bytes they come from they stay in the L2 cache.
_ROWS = 4096
_RFC_MINIMUM_NS = 1_000_000_000

Profile = Literal["linux", "rfc6298"]


@dataclass(frozen=True)
class Options:
    """What is known of the senders, and which flows are wanted.

    Attributes
    ----------
    rto_min_ns : int
        Linux: smallest variance term of the timer; RFC 6298: smallest timer.  0: the profile's own
        (200 ms, 1 s).
    probes : bool
        Whether the senders may send tail loss probes.
    profile : str
        Whose timer: ``linux`` or ``rfc6298``.
    at : str, optional
        Where the capture was taken; None: found from the handshakes.
    hosts : tuple of str
        Only flows from or to one of these addresses; empty: all.
    ports : tuple of int
        Only flows from or to one of these ports; empty: all.
    dscps : tuple of int
        Only flows whose first data packet has one of these code points; empty: all.
    """

    rto_min_ns: int = 0
    probes: bool = True
    profile: Profile = "linux"
    at: Place | None = None
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    dscps: tuple[int, ...] = ()

    @property
    def settings(self) -> tuple[int, int, int, int]:
        """Timer's minimum, probes, profile and place, for `tcpf_lab.trace.engine.Engine`."""
        linux = self.profile == "linux"
        minimum = self.rto_min_ns or (RTO_MIN_NS if linux else _RFC_MINIMUM_NS)
        where = FOUND if self.at is None else (AT_SENDER if self.at == "sender" else ELSEWHERE)
        return minimum, int(self.probes), LINUX if linux else RFC6298, where


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
        trouble = ""
        try:
            while count := reader.fill(block):
                engine.feed(block[:count])
                if progress:
                    progress(reader.position)
        except TraceError as error:
            if not reader.counters[RECORDS]:
                raise
            trouble = error.message
        capture = _info(reader, reader.truncated or trouble)
    engine.finish()
    first, last = engine.times
    flows, listed = complete(engine)
    flows, listed = _wanted(flows, listed, chosen)
    return Analysis(capture, flows, listed, chosen.at or seen_from(engine), first, last)


def analyse_all(
    paths: Iterable[Path | str],
    *,
    options: Options | None = None,
    events: bool = True,
    workers: int = 1,
) -> Iterator[Analysis]:
    """Analyse several captures, as `analyse` does; in the order of `paths`.

    Parameters
    ----------
    paths : iterable of Path or str
        Captures.
    options, events
        As for `analyse`.
    workers : int
        Captures to analyse at a time.  They are threads: compiled code runs beside other threads.
    """
    analyse_one = functools.partial(analyse, options=options, events=events)
    if workers < 2:
        yield from map(analyse_one, paths)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(analyse_one, paths)


def _info(reader: Reader, truncated: str) -> CaptureInfo:
    return CaptureInfo(
        name=reader.name,
        format=reader.format,
        records=int(reader.counters[RECORDS]),
        not_ip=int(reader.counters[NOT_IP]),
        not_tcp=int(reader.counters[NOT_TCP]),
        fragments=int(reader.counters[FRAGMENTS]),
        short=int(reader.counters[SHORT]),
        truncated=truncated,
        link_types=reader.link_types,
    )


def _wanted(
    flows: NDArray[Any], events: NDArray[Any], options: Options
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Leave out the flows that were not asked for, and their events."""
    keep = np.ones(flows.size, np.bool_)
    if options.hosts:
        hosts = [np.frombuffer(_mapped(host), np.uint8) for host in options.hosts]
        ends = [np.all(flows[end] == host, axis=1) for host in hosts for end in ("src", "dst")]
        keep &= np.any(ends, axis=0)
    if options.ports:
        keep &= np.isin(flows["sport"], options.ports) | np.isin(flows["dport"], options.ports)
    if options.dscps:
        keep &= np.isin(flows["dscp"], options.dscps)
    return select(flows, events, keep)


def _mapped(host: str) -> bytes:
    """Give an address as 16 bytes."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise RequestError(
            f"'{host}' is no address", hint="give one such as 10.0.0.1 or 2001:db8::1"
        ) from None
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed

"""Where a damaged capture is credible again: behind garbage, a hole of zeros, or a lost piece.

A record by itself proves little, so several in a row must be credible: of pcap those whose captured
bytes are at most those on the wire, of pcapng blocks whose length stands at both of their ends; the
time of each is near that of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from tcpf_lab.trace.jit import compiled, inlined, stamp
from tcpf_lab.trace.scan import (
    BIG,
    CUT,
    END,
    ENHANCED,
    FULL,
    HEADER,
    LAST,
    OLD,
    SIMPLE,
    classic_record,
    packet_block,
    record_length,
)
from tcpf_lab.trace.words import Bytes, host32

#: Credible records in a row that are enough; whole ones up to the end of the capture that are.
_ENOUGH, _TO_THE_END = 3, 2
#: Longest time between two packets, either way, that is credible here: a day.
_NEAR_NS = 86_400_000_000_000
#: Bytes of the longest pcapng block that is credible here: no snapshot length is larger.
_LONGEST = 1 << 20
_SECTION, _INTERFACE, _LAST_KIND = 0x0A0D0D0A, 1, 6
_ORDER, _OTHER_ORDER = 0x1A2B3C4D, 0x4D3C2B1A
#: Instead of a length.
_NONE, _MORE = 0, -1


@inlined
def _record(data: Any, at: Any, end: Any, layout: Any, interfaces: Any, last: Any) -> Any:
    """Bytes of the pcap record that may begin at ``at``, its time, and how much it counts."""
    if at + layout[HEADER] > end:
        return _MORE, last, 0
    length = record_length(data, at, layout, interfaces)
    _, captured, wire, time_ns, _ = classic_record(data, at, layout, interfaces)
    near = abs(time_ns - last) <= _NEAR_NS
    credible = length > 0 and 0 < captured <= wire and near
    return length if credible else _NONE, time_ns, 1


@inlined
def _whole_block(data: Any, at: Any, end: Any, layout: Any, interfaces: Any, last: Any) -> Any:
    """As `_record`, of a pcapng block: a section or an interface is enough by itself."""
    if at + 12 > end:
        return _MORE, last, 0
    big = layout[BIG]
    kind, length = host32(data, at, big), host32(data, at + 4, big)
    if kind == _SECTION:
        order = host32(data, at + 8, big)
        return 12 if order in (_ORDER, _OTHER_ORDER) else _NONE, last, _ENOUGH
    if kind == 0 or kind > _LAST_KIND or length < 12 or length & 3 or length > _LONGEST:
        return _NONE, last, 0
    if at + length > end:
        return _MORE, last, 0
    if host32(data, at + length - 4, big) != length:
        return _NONE, last, 0
    if kind not in (ENHANCED, OLD, SIMPLE):
        return length, last, _ENOUGH if kind == _INTERFACE else 1
    begin, _, _, time_ns, _ = packet_block(data, at, length, layout, interfaces)
    credible = begin > 0 and abs(time_ns - last) <= _NEAR_NS
    return length if credible else _NONE, time_ns, 1


@inlined
def _verdict(data: Any, at: Any, end: Any, layout: Any, interfaces: Any, final: Any) -> Any:
    """Whether credible records begin at ``at``: `FULL`, `END` if not, `CUT`: more bytes say so."""
    count, last = 0, layout[LAST]
    while count < _ENOUGH:
        if layout[HEADER]:
            length, last, weight = _record(data, at, end, layout, interfaces, last)
        else:
            length, last, weight = _whole_block(data, at, end, layout, interfaces, last)
        if length == _MORE and not final:
            return CUT
        if length <= 0:
            return FULL if at == end and count >= _TO_THE_END else END
        at += length
        count += weight
    return FULL


def _compile(sources: str) -> Callable[..., tuple[int, int]]:
    """Compile the search; ``sources`` identifies the text of the modules it is made of."""

    def resume(
        data: Bytes,
        at: int,
        end: int,
        layout: NDArray[Any],
        interfaces: NDArray[Any],
        final: bool,
    ) -> tuple[int, int]:
        """Find where records are credible again.

        Parameters
        ----------
        data, end, layout, interfaces
            As `tcpf_lab.trace.scan.scan` takes them.
        at : int
            First offset to try.
        final : bool
            Whether the capture ends at ``end``.

        Returns
        -------
        tuple of int
            An offset, and what it is: `FULL`, records begin there; `CUT`, more bytes are needed to
            say so; `END`, there is none.
        """
        _ = sources  # so that it is part of the key in the cache
        while at < end:
            found = _verdict(data, at, end, layout, interfaces, final)
            if found != END:
                return at, found
            at += 1
        return at, END if final else CUT

    return compiled(resume)


resume = _compile(stamp(__name__))

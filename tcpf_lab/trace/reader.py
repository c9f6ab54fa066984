"""Read a capture block by block: any size, from a file or standard input, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import TraceError
from tcpf_lab.trace import damage, pcapng
from tcpf_lab.trace.layout import PCAP_HEADER, PCAPNG_MAGIC, link_refused, new_layout, pcap_layout
from tcpf_lab.trace.link import NAMES
from tcpf_lab.trace.packet import Packets
from tcpf_lab.trace.resume import resume
from tcpf_lab.trace.scan import (
    BIG,
    BROKEN,
    CUT,
    DESCRIPTION,
    FULL,
    INTERFACE,
    LAST,
    RECORDS,
    new_counters,
    scan,
)
from tcpf_lab.trace.source import Source

#: Bytes asked for at a time: they stay in the L2 cache until they are scanned.
CHUNK = 1 << 19

_MOST_INTERFACES = 1 << 16


class Reader:
    """A capture being read.

    Parameters
    ----------
    path : Path or str
        pcap or pcapng, plain or packed (`Source`); ``-`` is standard input.
    chunk : int
        Bytes to read at a time.  A record longer than that makes the buffer grow, up to the longest
        credible record.

    Attributes
    ----------
    name : str
        The path as text.
    format : str
        ``pcap`` or ``pcapng``.
    counters : int64, shape (COUNTERS,)
        Records so far, and what was in them: see `tcpf_lab.trace.scan`.
    truncated : str
        What is wrong with the capture; empty if it is whole.  One that cannot be read on ends
        there; behind damage it goes on where records are credible again, if they ever are.
    skipped : int
        Bytes of the (unpacked) capture that were damaged, and those behind them up to there.
    hint : str
        What may be done about that; may be empty.

    Raises
    ------
    TraceError
        Missing, empty, no capture, or cut off before the first record.
    """

    def __init__(self, path: Path | str, *, chunk: int = CHUNK) -> None:
        self._source = Source(path)
        self.name = self._source.name
        self.counters = new_counters()
        self.truncated = self.hint = ""
        self.skipped = self._gaps = 0
        self._data = np.empty(max(chunk, PCAP_HEADER), np.uint8)
        self._table = np.zeros((4, INTERFACE), np.int64)
        self._interfaces, self._count = self._table[:0], 0
        self._links: dict[int, None] = {}
        self._base = self._at = self._end = 0
        self._done = False
        try:
            self._begin()
        except TraceError:
            self.close()
            raise

    def fill(self, out: Packets, row: int = 0) -> int:
        """Fill rows of ``out`` from ``row`` on.

        Parameters
        ----------
        out : Packets
            Room for packets; every row that is filled is overwritten.
        row : int
            First free row.

        Returns
        -------
        int
            First row that is still free.  It is `row` at the end of the capture and only there.

        Raises
        ------
        TraceError
            If there is nothing to be had: the first record is damaged or cannot be read, or no link
            type is known.
        """
        while not self._done:
            self._at, row, status = scan(
                *(self._data, self._at, self._end, self._layout, self._interfaces),
                *(out, row, self.counters),
            )
            if status == FULL:
                break
            try:
                self._go_on(status)
            except TraceError as error:
                if self._done or not self.counters[RECORDS]:
                    raise
                self._end_with(error.message)
                self.hint = error.hint
        return row

    def _go_on(self, status: int) -> None:
        """Do what the scanner stopped for."""
        if status == BROKEN:
            record = bytes(self._data.data[self._at : self._end])
            self._skip(damage.reason(record, self._layout, self._interfaces))
        elif status == DESCRIPTION:
            self._describe()
        elif not self._more():
            self._finish()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def position(self) -> int:
        """Bytes of the file that were read so far; 0 for standard input."""
        return self._source.position

    @property
    def link_types(self) -> tuple[int, ...]:
        """Link types of the interfaces so far, without repeats."""
        return tuple(self._links)

    @property
    def _offset(self) -> int:
        """Offset of the next record in the (unpacked) capture."""
        return self._base + self._at

    @property
    def read_share(self) -> float:
        """Share of the bytes so far, 0 to 1, that were not `skipped`."""
        every = self._base + self._end
        return 1 - self.skipped / every if every else 1.0

    def _begin(self) -> None:
        """Read the first bytes and learn the format."""
        while self._end < PCAP_HEADER and self._more():
            pass
        head = self._data[: min(self._end, PCAP_HEADER)].tobytes()
        if not head and self._source.problem:
            raise TraceError(self._source.problem, where=self.name)
        if not head:
            raise TraceError(
                "the capture is empty (0 bytes)", where=self.name, hint="was tcpdump killed?"
            )
        if head.startswith(PCAPNG_MAGIC):
            self.format = "pcapng"
            self._layout = new_layout(0, False, pcapng.LARGEST_BLOCK)
            return
        self.format, self._at = "pcap", PCAP_HEADER
        self._layout, interface, link = pcap_layout(head, self.name)
        self._add(interface, link)

    def _more(self) -> bool:
        """Put more bytes behind those that are left; whether there were any."""
        left = self._end - self._at
        if self._at:
            self._data[:left] = self._data[self._at : self._end]
            self._base, self._at, self._end = self._offset, 0, left
        if left == self._data.size:  # a record longer than the buffer
            self._data = np.concatenate([self._data, np.empty_like(self._data)])
        count = self._source.read_into(self._data.data[left:])
        self._end += count
        return count > 0

    def _describe(self) -> None:
        """Take in a section header or an interface description of pcapng."""
        block = self._data.data[self._at : self._end]
        big = bool(self._layout[BIG])
        try:
            length = pcapng.block_length(bytes(block[:12]), big)
            if len(block) < length:
                if not self._more():
                    self._finish()
                return
            whole = bytes(block[:length])
            if whole.startswith(PCAPNG_MAGIC):
                last, self._layout = self._layout[LAST], pcapng.section(whole)
                self._layout[LAST], self._count = last, 0
                self._interfaces = self._table[:0]
            else:
                self._add(*pcapng.interface(whole, big))
        except pcapng.DamagedError as error:
            self._skip(str(error))
            return
        self._at += length

    def _add(self, interface: NDArray[Any], link: int) -> None:
        """Append an interface to those of the section."""
        if self._count == _MOST_INTERFACES:
            raise pcapng.DamagedError(f"its section has more than {_MOST_INTERFACES} interfaces")
        if self._count == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._table[self._count] = interface
        self._count += 1
        self._interfaces = self._table[: self._count]
        self._links.setdefault(link)

    def _place(self) -> tuple[str, str]:
        """Name the next record, and what is before it."""
        whole = int(self.counters[RECORDS])
        before = (
            f"{damage.counted(whole, 'packet')} before it {'is' if whole == 1 else 'are'} whole"
        )
        return f"packet {whole + 1} at byte {self._offset}", before

    def _damaged(self, why: str) -> TraceError:
        place, before = self._place()
        hint = f"keep what is before it: head -c {self._offset} {self.name} > whole"
        kept = self.counters[RECORDS] and not self._source.packed and self.name != "-"
        return TraceError(
            f"damaged: {place}: {why}; {before}", where=self.name, hint=hint if kept else ""
        )

    def _skip(self, why: str) -> None:
        """Go on behind damage where records are credible again, or to the end of the capture."""
        error, start = self._damaged(why), self._offset
        if not self.counters[RECORDS]:
            raise error
        if not self._gaps:
            self.truncated, self.hint = error.message, error.hint
        self._gaps += 1
        self._at += 1
        try:
            found = self._seek()
        finally:
            self.skipped += self._offset - start
        if not found:
            self._finish()

    def _seek(self) -> bool:
        """Go to where records are credible again, else to the end; whether they are."""
        final = False
        while True:
            self._at, found = resume(
                *(self._data, self._at, self._end, self._layout, self._interfaces, final)
            )
            if found != CUT:
                return found == FULL
            final = not self._more()

    def _goes_on(self) -> bool:
        """Whether there are credible records in what is left at the end of the capture."""
        rest = (self._data, self._at + 1, self._end, self._layout, self._interfaces, True)
        return bool(self.counters[RECORDS]) and resume(*rest)[1] == FULL

    def _end_with(self, problem: str) -> None:
        """Note that the capture ends, what is wrong with its end, and what was skipped before."""
        self._done = True
        said = [self.truncated, problem]
        if self._gaps:
            places = f" in {self._gaps} places" if self._gaps > 1 else ""
            share = f"{100 * self.read_share:.1f} % of the capture was read"
            said.insert(1, f"{damage.counted(self.skipped, 'byte')} skipped{places}: {share}")
        self.truncated = "; ".join(filter(None, said))

    def _finish(self) -> None:
        """Note the end of the capture, and what is wrong with it."""
        (place, before), left = self._place(), self._end - self._at
        if left and self._goes_on():
            self._skip("it is said to be longer than what is left")
            return
        problem = ""
        if left or self._source.problem:
            rest = f"{damage.counted(left, 'byte')} {'is' if left == 1 else 'are'} left of it"
            problem = f"truncated in {place}: {rest}; {before}"
        if self._source.problem:
            problem += f" ({self._source.problem})"
        self._end_with(problem)
        if self._links and not any(link in NAMES for link in self._links):
            raise link_refused(next(iter(self._links)), self.name)

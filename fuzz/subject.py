"""What is fuzzed, as one function from the bytes of a capture to an answer that can be compared."""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.sound import WRONG, wrong_senders
from tcpf_lab.errors import TraceError
from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.flow import find_flows
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.pcap import read_capture
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.recovery import classify

#: The senders that a capture is analysed for.
OPTIONS = (
    Options(),
    Options(profile="rfc6298", probes=False, at="sender"),
    Options(at="receiver"),
)
#: Room of the second reading.
_FEW_ROWS, _FEW_BYTES = 7, 100


def answer(data: bytes) -> str:
    """Analyse a capture every way there is: its packets, its flows, its events.

    Parameters
    ----------
    data : bytes
        A file, of whatever content.

    Returns
    -------
    str
        The message of the error, or a digest of everything that was found; without the file's name.

    Raises
    ------
    Exception
        Whatever is not a message to the user: that is what is looked for.
    """
    with _as_file(data) as path:
        return _answer(path)


def glance(data: bytes) -> None:
    """Analyse a capture once, for the sender that its bytes choose: a fifth of `answer`'s work.

    Raises
    ------
    Exception
        Whatever is not a message to the user.
    """
    options = OPTIONS[zlib.crc32(data) % len(OPTIONS)]
    with _as_file(data) as path, contextlib.suppress(TraceError):
        analyse(path, options=options)


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Give a path under which ``data`` can be read, without a disk."""
    memory = os.memfd_create("capture")
    try:
        os.write(memory, data)
        yield f"/proc/self/fd/{memory}"
    finally:
        os.close(memory)


def _answer(path: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            capture = read_capture(path, accept_truncated=True)
    except TraceError as error:
        return f"refused: {error.message}".replace(path, "FILE")
    if not same_in_pieces(path, capture.packets):
        raise AssertionError("read in small pieces the capture has other packets")
    flows = find_flows(capture.packets)
    recovery = classify(capture.packets, flows)
    digest = hashlib.sha256(repr((capture.records, capture.truncated)).encode())
    for array in (capture.packets, recovery.kind, recovery.backoff, recovery.acked):
        _feed(digest, array)
    for options in OPTIONS:
        found = analyse(path, options=options)
        info = (found.capture.truncated, found.capture.records, found.at, found.first_ns)
        digest.update(repr((*info, found.last_ns)).encode())
        _feed(digest, found.flows)
        _feed(digest, found.events)
    kinds = np.bincount(found.events["kind"], minlength=12).tolist()
    return f"{capture.records} records, {len(found.flows)} flows, {kinds}, {digest.hexdigest()}"


def same_in_pieces(path: str, packets: Any) -> bool:
    """Whether a reader with little room, for bytes and for packets, finds the same packets.

    The senders are followed through those pieces, seen from elsewhere.

    Raises
    ------
    AssertionError
        If the state of a sender is not what it can be (`fuzz.sound`).
    """
    found, block = [packets[:0]], np.zeros(_FEW_ROWS, PACKET)
    engine = Engine(OPTIONS[-1].settings)
    with Reader(path, chunk=_FEW_BYTES) as reader:
        while count := reader.fill(block):
            found.append(block[:count].copy())
            engine.feed(block[:count])
            if wrong := wrong_senders(engine.senders, engine.arena):
                raise AssertionError(WRONG[wrong])
    again = np.concatenate(found)
    names = PACKET.names or ()
    return again.size == packets.size and all(
        np.array_equal(again[name], packets[name]) for name in names if name != "sack"
    )


def _feed(digest: Any, array: Any) -> None:
    """Take in an array, column by column: what lies between columns is nobody's."""
    digest.update(str(array.shape).encode())
    for name in array.dtype.names or ():
        digest.update(np.ascontiguousarray(array[name]).tobytes())
    if not array.dtype.names:
        digest.update(np.ascontiguousarray(array).tobytes())

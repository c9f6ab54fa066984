"""The analysis of captures, in Rust (``trace/``): `tcpf_lab.trace` is what wraps it."""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.analysis import Place

#: Identifies the sources that the module was built from.
SOURCES: str

#: Names of causes, and of evidence that a retransmission was spurious: place 0 has number 1.
CAUSES: tuple[str, ...]
EVIDENCE: tuple[str, ...]
#: What each rule says, and the RFC's section or kernel function that it comes from, if any.
RULES: tuple[tuple[str, str], ...]

class Known(TypedDict):
    """What is known of the senders, and of where the capture was taken."""

    rto_min_ns: int
    probes: bool
    profile: str
    linux22: list[str]
    at: Place | None

def analyse(
    path: str,
    known: Known,
    events: bool,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[str, Any], NDArray[Any], NDArray[Any], Place, int, int, int]: ...
def read(
    path: str, between: tuple[bytes, int, bytes, int] | None = None
) -> tuple[dict[str, Any], NDArray[Any], str]: ...
def frames(path: str, records: NDArray[np.int64]) -> list[tuple[int, int, int, bytes]]: ...
def connections(
    packets: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]: ...
def explain(
    packets: NDArray[Any], known: Known
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]: ...
def follow(
    packets: NDArray[Any], towards: NDArray[np.bool_], known: Known
) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.uint8]]: ...
def distance(packets: NDArray[Any], towards: bool, known: Known) -> int: ...
def cross(
    entered: NDArray[Any], left: NDArray[Any], longest_ns: int
) -> tuple[NDArray[np.int64], int, int]: ...
def passage(
    first: NDArray[Any],
    second: NDArray[Any],
    ends: NDArray[Any],
    longest_ns: int,
    given_ns: int | None,
) -> dict[str, Any]: ...
def backlog(
    arrival_ns: NDArray[np.int64],
    departure_ns: NDArray[np.int64],
    wire_length: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def backlogged_rate(
    arrival_ns: NDArray[np.int64],
    departure_ns: NDArray[np.int64],
    wire_length: NDArray[np.int64],
    settle_bytes: int,
) -> tuple[float, int] | None: ...

class Marks:
    """Numbers the ends of packets and reduces packets to marks."""

    def __init__(self) -> None: ...
    @property
    def ends(self) -> NDArray[Any]: ...
    def of(self, packets: NDArray[Any]) -> NDArray[Any]: ...
    def read(self, path: str) -> tuple[NDArray[Any], str]: ...

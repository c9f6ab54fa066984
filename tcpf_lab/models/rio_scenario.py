"""What the RIO model is asked about: flows with token buckets, and the router they share.

N. Malouch and Z. Liu, "Performance Evaluation of RIO Routers", INRIA RR-4469, 2002, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import RequestError

#: float64.
Array = NDArray[np.float64]
#: The longest queue that is worked out, packets.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Scenario:
    """Long-lived TCP flows, each with a token bucket, over one router with RIO.

    Attributes
    ----------
    delay : tuple of float
        Round-trip time of each flow without queueing, seconds.
    capacity : float
        Of the router, packets/s.
    token_rate : float or tuple of float
        Tokens, a packet each, that a flow's bucket gets per second.
    bucket : float or tuple of float
        Tokens that a flow's bucket holds.
    in_min, in_max : int
        Queue lengths, packets, above which IN packets are dropped at random, and from which all
        are.
    in_probability : float
        Probability of a drop just below ``in_max``.
    out_min, out_max, out_probability : int, int, float
        The same for OUT packets.
    rto_margin : float
        What a retransmission timeout is longer than the round-trip time (alpha of equation 9), s.
    extra_rtt : float
        Added to the round-trip time of every flow, seconds: what the path takes besides ``delay``.

    Raises
    ------
    RequestError
        If a value is out of range, or the thresholds are in the wrong order.
    """

    delay: tuple[float, ...]
    capacity: float
    token_rate: float | tuple[float, ...]
    bucket: float | tuple[float, ...]
    in_min: int
    in_max: int
    in_probability: float
    out_min: int
    out_max: int
    out_probability: float
    rto_margin: float = 1.0
    extra_rtt: float = 0.0

    def __post_init__(self) -> None:
        for name, wrong in self._problems():
            raise RequestError(wrong, where=name)

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Yield the names of wrong values, and what is allowed."""
        flows = len(self.delay)
        if not flows:
            yield "delay", "at least one flow is needed"
        for name, values in asdict(self).items():
            if not np.all(np.isfinite(values)) or np.any(np.asarray(values) < 0):
                yield name, f"{values} is not allowed; write a number that is not negative"
        for name in ("token_rate", "bucket"):
            if np.size(getattr(self, name)) not in (1, flows):
                yield name, f"one value, or one for each of the {flows} flows"
        if self.capacity <= 0:
            yield "capacity", "it must be greater than 0 packets/s"
        if min(self.delay) + self.extra_rtt <= 0:
            yield "delay", "a round trip takes some time; give a delay or extra_rtt above 0 s"
        for side in ("in", "out"):
            yield from self._wrong_thresholds(side)
        if self.out_max > self.in_max:
            yield "out_max", f"must not be more than in_max, which is {self.in_max} packets"

    def _wrong_thresholds(self, side: str) -> Iterator[tuple[str, str]]:
        least, most = getattr(self, f"{side}_min"), getattr(self, f"{side}_max")
        for name, length in ((f"{side}_min", least), (f"{side}_max", most)):
            if length != int(length):
                yield name, f"{length} is not a whole number of packets"
        if not 1 <= most <= LONGEST:
            yield f"{side}_max", f"must be from 1 to {LONGEST} packets"
        if least > most:
            yield f"{side}_min", f"must not be more than {side}_max, which is {most} packets"
        if getattr(self, f"{side}_probability") > 1:
            yield f"{side}_probability", "a probability is from 0 to 1"

    @property
    def flows(self) -> int:
        """Their number."""
        return len(self.delay)

    def drop_in(self) -> Array:
        """Give the probability of dropping an IN packet at queue lengths 0 to ``in_max``."""
        return drop_curve(self.in_min, self.in_max, self.in_probability, self.in_max)

    def drop_out(self) -> Array:
        """Give the probability of dropping an OUT packet at queue lengths 0 to ``in_max``."""
        return drop_curve(self.out_min, self.out_max, self.out_probability, self.in_max)


def drop_curve(least: int, most: int, probability: float, until: int) -> Array:
    """Give RIO's drop probability of one class at every queue length (section 2).

    Parameters
    ----------
    least, most : int
        Thresholds, packets.
    probability : float
        Just below `most`.
    until : int
        The last length, packets.

    Returns
    -------
    ndarray of float64, shape (until + 1,)
        0 up to `least`, 1 from `most` on, linear between them.

    Examples
    --------
    >>> drop_curve(1, 3, 0.5, 4).tolist()
    [0.0, 0.0, 0.25, 1.0, 1.0]
    """
    length = np.arange(until + 1, dtype=np.float64)
    slope = probability / max(most - least, 1)
    return np.where(length >= most, 1.0, slope * np.maximum(length - least, 0))


def spread(first: float, last: float, count: int) -> tuple[float, ...]:
    """Give `count` values at equal distances, both ends included.

    Examples
    --------
    >>> spread(0.1, 0.3, 3)
    (0.1, 0.2, 0.3)
    """
    return tuple(float(value) for value in np.round(np.linspace(first, last, count), 12))


#: The setting of the paper's section 4: 48 Mbit/s in packets of 1000 bytes, 100 flows.
_SECTION_4 = {
    "delay": spread(0.100, 0.298, 100),
    "capacity": 6000.0,
    "token_rate": 40.0,
    "bucket": 20.0,
    "in_max": 100,
    "in_probability": 0.01,
    "out_min": 20,
    "out_probability": 0.06,
}


#: What every round trip of Tables 1 to 3 seems to take more than section 4 says, seconds: 1000
#: bytes on two access links of 1 Mbit/s. With it the model meets the tables (`docs/model.md`).
ACCESS_S = 0.016


def paper_scenarios() -> dict[str, Scenario]:
    """Give the scenarios of the paper's Tables 1 to 3, in their order, by name."""
    thresholds: Sequence[tuple[str, int, int]] = (
        ("fully_overlapped", 20, 100),
        ("non_overlapped", 60, 60),
        ("partially_overlapped", 60, 100),
    )
    return {
        name: Scenario(**_SECTION_4, in_min=in_min, out_max=out_max)  # type: ignore[arg-type]
        for name, in_min, out_max in thresholds
    }

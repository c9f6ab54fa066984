"""Coupled queues for scalable and classic congestion control."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size
from tcpf_lab.spec.queue.base import Bottleneck, InPackets, Parameter, number, time

#: The kernel's gains: units of alpha and beta per Hz, units of its own per second, all of 32 bits.
_PER_HZ, _PER_SECOND, _MOST = 256, 10**9, 2**32 - 1


class Dualpi2(InPackets):
    """DualPI2: a low-latency queue for scalable senders and one for classic ones (RFC 9332).

    It marks ECN-capable packets, and drops others; in the L queue by a probability that is coupled
    to that of the C queue.  Linux has it from 6.17 on: `kernel: "7.3"`.
    """

    packets: ClassVar[int] = 10000
    in_order: ClassVar[bool] = False
    times: ClassVar[dict[str, tuple[float, float]]] = {
        "target": (1e-6, 4.0),
        "tupdate": (1e-4, 4.0),
        "step_thresh": (1e-6, 4.0),
    }

    kind: Literal["dualpi2"]
    """Coupled queues for scalable and classic senders (Linux 6.17)."""
    memlimit: Size | None = None
    """Memory of all packets; a packet takes more than its length. Default: the kernel's, twice
    `limit` in longest frames."""
    target: Duration | None = None
    """Desired delay of the C queue. Default: the kernel's 15 ms."""
    tupdate: Duration | None = None
    """Time between updates of the probability, 100 us or more. Default: the kernel's 16 ms."""
    alpha: float | None = Field(default=None, ge=1 / _PER_HZ, le=1000)
    """Gain by the delay's distance from `target`, Hz, in 1/256. Default: the kernel's 0.16."""
    beta: float | None = Field(default=None, ge=1 / _PER_HZ, le=1000)
    """Gain by the delay's change, Hz, in 1/256. Default: the kernel's 3.2."""
    step_thresh: Duration | None = None
    """Delay above which every packet of the L queue is marked. Default: the kernel's 1 ms."""
    min_qlen_step: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Packets in the L queue, on arrival of one, below which `step_thresh` does not apply to it.
    Default: the kernel's 0."""
    coupling_factor: int | None = Field(default=None, ge=1, le=255)
    """Probability of the L queue over the square root of that of the C queue. Default: the
    kernel's 2."""
    drop_on_overload: bool | None = None
    """Drop packets of the L queue too while its probability would exceed 1, instead of letting it
    overflow. Default: the kernel's true."""
    drop_early: bool | None = None
    """Drop and mark on arrival instead of departure (words `drop_enqueue`, `drop_dequeue`).
    Default: the kernel's false."""
    ecn_mask: Literal["l4s_ect", "any_ect"] | None = None
    """Packets of the L queue: those with ECT(1) or CE, or all that are ECN-capable, for DCTCP,
    which sends ECT(0). Default: the kernel's `l4s_ect`."""
    classic_protection: int | None = Field(default=None, ge=0, le=100)
    """Share of the link that the C queue has at least while both have packets, %. Default: the
    kernel's 10."""

    @property
    def may_mark(self) -> bool:
        """Whether it marks: always."""
        return True

    @property
    def splits(self) -> bool:
        """Whether it splits packets: by the kernel's default (`split_gso`)."""
        return True

    @property
    def counters(self) -> dict[str, list[Any]]:
        """A packet that the probability marked is counted again if `step_thresh` marks it too."""
        return {"marks": ["ecn-mark"], "uncertain": [["step-mark"]]}

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        yield number("memlimit", self.memlimit, "memory-limit")
        yield time("target", self.target)
        yield time("tupdate", self.tupdate)
        yield _gain("alpha", self.alpha)
        yield _gain("beta", self.beta)
        yield _renamed(time("step_thresh", self.step_thresh), "step-thresh-us")
        yield number("min_qlen_step", self.min_qlen_step, "min-qlen-step")
        yield number("coupling_factor", self.coupling_factor, "coupling")
        overload = {True: "drop_on_overload", False: "overflow"}
        yield _choice(overload, self.drop_on_overload, "drop-overload", ("drop", "overflow"))
        early = {True: "drop_enqueue", False: "drop_dequeue"}
        yield _choice(early, self.drop_early, "drop-early", ("drop-enqueue", "drop-dequeue"))
        if self.classic_protection is not None:
            words = ("classic_protection", f"{self.classic_protection}%")
            yield Parameter(words, {"c-protection": self.classic_protection})
        if self.ecn_mask is not None:
            yield Parameter((self.ecn_mask,), {"ecn-mask": self.ecn_mask.replace("_", "-")})


def _choice(
    words: dict[bool, str], on: bool | None, key: str, shown: tuple[str, str]
) -> Parameter | None:
    """Give one of two words; ``shown`` is what JSON has for on and off."""
    return None if on is None else Parameter((words[on],), {key: shown[0 if on else 1]})


def _renamed(parameter: Parameter | None, key: str) -> Parameter | None:
    """Give a parameter with another name in JSON."""
    if parameter is None:
        return None
    (value,) = parameter.shown.values()
    return Parameter(parameter.words, {key: value})


def _gain(word: str, hertz: float | None) -> Parameter | None:
    """Give a gain; the kernel rounds it down on its way in and on its way out.

    Examples
    --------
    >>> _gain("alpha", 0.16)
    Parameter(words=('alpha', '0.16015625'), shown={'alpha': 0.15625})
    """
    if hertz is None:
        return None
    units = round(hertz * _PER_HZ)
    stored = (units * _MOST >> 2) // _PER_SECOND
    return Parameter(
        (word, f"{units / _PER_HZ:.8f}".rstrip("0").rstrip(".")),
        {word: (stored * _PER_SECOND << 2) // _MOST / _PER_HZ},
    )

"""What a path does to packets besides carrying them: Linux ``netem``, as data."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tcpf_lab.base.units import Duration, Probability
from tcpf_lab.spec.words import KeyPath, SpecModel

#: Packets lost in a row on average, at most: more is no loss but an outage.
_LONGEST_BURST = 1000.0
#: A SYN is given up after two minutes, and netem's times are 32-bit numbers of 64 ns.
_LONGEST_DELAY = 100.0
#: netem cuts what is more than 2^31 - 1 ns to that.
_LARGEST_JITTER = 2.0


def delay_problem(seconds: float) -> str | None:
    """Say what keeps a flow from connecting over a link of that delay."""
    return f"must be at most {_LONGEST_DELAY:g} s" if seconds > _LONGEST_DELAY else None


class Impairment(SpecModel):
    """Loss, duplication, reordering and jitter of one direction (Linux `netem`).

    R2 does it to what it passes on: `forward` to the data, which has the bottleneck behind it,
    `reverse` to the acknowledgements, before they reach R1.  What is lost here is not part of the
    loss at the bottleneck.
    """

    loss: Probability = 0.0
    """Share of the packets that are lost."""
    loss_burst: float = Field(default=1.0, ge=1, le=_LONGEST_BURST)
    """Packets lost in a row, on average. 1: every packet is lost or not by itself. More: Gilbert's
    model, whose bad state loses everything; it lasts so many packets."""
    duplicate: Probability = 0.0
    """Share of the packets that arrive twice."""
    reorder: Probability = 0.0
    """Share of the packets that are not held back for `delay`, and so overtake those that are."""
    delay: Duration = 0.0
    """What the others are held back; it adds to the round-trip time."""
    jitter: Duration = 0.0
    """Every delay is drawn uniformly from `delay` less this to `delay` plus this: packets that
    follow each other closer than that overtake each other."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what netem would ignore, clip, or make an interrupted path of."""
        if not (self.loss or self.duplicate or self.reorder or self.delay):
            yield (), "impairs nothing; give loss, duplicate, reorder or delay, or leave it out"
        for name in ("loss", "duplicate", "reorder"):
            if getattr(self, name) >= 1:
                yield (name,), "must be less than 1"
        if self.loss_burst > 1 and not self.loss:
            yield ("loss_burst",), "needs loss, of which it is the pattern"
        elif self.loss_burst > 1 and self.loss < 1 and self._to_bad > 1:
            yield ("loss_burst",), f"is too short for a loss of {self.loss:g}"
        if sentence := delay_problem(self.delay):
            yield ("delay",), sentence
        if self.reorder and not self.delay:
            yield ("reorder",), "needs delay: only packets that are held back can be overtaken"
        if self.jitter > self.delay:
            yield ("jitter",), "must not be more than delay"
        if self.jitter > _LARGEST_JITTER:
            yield ("jitter",), f"must be at most {_LARGEST_JITTER:g} s"

    @property
    def longest(self) -> float:
        """The longest time that a packet is held back, seconds."""
        return self.delay + self.jitter

    @property
    def _to_bad(self) -> float:
        """Probability of entering the bad state that gives `loss` if it is left with 1/burst."""
        return self.loss / (1 - self.loss) / self.loss_burst

    def tc(self) -> tuple[str, ...]:
        """Give the words that follow ``netem limit N``."""
        words: list[str] = []
        if self.delay:
            words += ["delay", _time(self.delay), *([_time(self.jitter)] if self.jitter else [])]
        if self.loss and self.loss_burst > 1:
            words += ["loss", "gemodel", _percent(self._to_bad), _percent(1 / self.loss_burst)]
        elif self.loss:
            words += ["loss", "random", _percent(self.loss)]
        for name in ("duplicate", "reorder"):
            share = getattr(self, name)
            words += [name, _percent(share)] if share else []
        return tuple(words)

    def shown(self) -> dict[str, dict[str, float]]:
        """Give the options that ``tc -j qdisc show`` must show."""
        found: dict[str, dict[str, float]] = {}
        if self.delay:
            found["delay"] = {"delay": self.delay, "jitter": self.jitter}
        if self.loss and self.loss_burst > 1:
            found["loss-gemodel"] = {"p": self._to_bad, "r": 1 / self.loss_burst}
        elif self.loss:
            found["loss-random"] = {"loss": self.loss}
        shares = {name: getattr(self, name) for name in ("duplicate", "reorder")}
        return found | {name: {name: share} for name, share in shares.items() if share}


def _time(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def _percent(share: float) -> str:
    """Write a share for ``tc``, which takes a bare number for a percentage."""
    return f"{100 * share:.7f}".rstrip("0").rstrip(".") + "%"

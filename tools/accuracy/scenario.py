"""Which scenario a seed stands for: TCP, path, queue and loss, drawn as far apart as they are met.

Quantities that span decades - loss, round-trip time, flows - are drawn evenly on a logarithmic
scale.  The rate of the bottleneck follows from them: it is what so many flows get through at the
loss that was drawn.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from tcpf_lab.base.units import format_duration, format_rate, format_size
from tcpf_lab.spec.graph import ETHERNET_HEADER, HEADERS
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.spec.topology import Chain

#: Ends of what is drawn.
LOSS = (1e-4, 0.25)
ROUND_TRIP_S = (0.005, 0.4)
FLOWS = (1, 400)
MSS = (536, 1460)
#: What loses packets; each as often as the others.
CAUSES = ("bfifo", "red", "frio", "netem")
#: A bottleneck passes so many full packets a second at most, lest one scenario cost minutes, and
#: at least so many.
_PACKETS_PER_S = (10, 1500)
_ACCESS = "100 Mbit"
_WARMUP_S = 2.0
#: Share of the bottleneck that a marker's tokens cover, as in the papers' configuration A.
_PROFILE = 0.6
_INTERVAL_S = 0.4


@dataclass(frozen=True)
class Scenario:
    """What a seed stands for."""

    seed: int
    experiment: Experiment
    loss: float  #: the share of lost packets that it aims at
    cause: str  #: one of `CAUSES`

    @property
    def run(self) -> Run:
        """The only run of the experiment."""
        (run,) = expand(self.experiment)
        return run

    def settings(self) -> dict[str, Any]:
        """Give the values that distinguish this scenario, as plain data."""
        chain, tcp = self.experiment.topology.builder, self.experiment.tcp
        assert isinstance(chain, Chain)
        return {
            "profile": tcp.profile,
            "sack": tcp.sack,
            "congestion": tcp.congestion,
            "timestamps": tcp.timestamps,
            "window_scaling": tcp.window_scaling,
            "quickack": bool(tcp.quickack),
            "flows": self.run.flows,
            "round_trip_s": chain.delay,
            "mss": chain.mtu - HEADERS[4],
            "rate_bits_per_s": chain.bottleneck,
            "cause": self.cause,
            "loss": self.loss,
            "forward": _plain(chain.forward),
            "reverse": _plain(chain.reverse),
        }


def draw(seed: int, seconds: float = 30.0) -> Scenario:
    """Give the scenario of a seed.

    Parameters
    ----------
    seed : int
        Of everything that is drawn, and of the run.
    seconds : float
        How long it lasts; the flows start in its first two seconds.

    Returns
    -------
    Scenario
        The same one for the same arguments, on any machine.
    """
    dice = random.Random(f"accuracy, seed {seed}")
    tcp, path = _tcp(dice), _Path.draw(dice)
    forward, reverse = _forward(dice, path), _reverse(dice, path)
    case = _case(dice, path)
    chain = {
        "access": _ACCESS,
        "bottleneck": format_rate(path.rate),
        "delay": format_duration(path.round_trip),
        "mtu": format_size(path.mtu),
        **({"forward": forward} if forward else {}),
        **({"reverse": reverse} if reverse else {}),
    }
    traffic = {
        "generator": "native",
        "start_spread": format_duration(_WARMUP_S),
        "warmup": format_duration(_WARMUP_S),
        "duration": format_duration(seconds - _WARMUP_S),
        "socket_buffer": dice.choice(("100 kB", "1 MB", "1 MB", "1 MB")),
    }
    data = {
        "name": f"accuracy-{seed}",
        "topology": {"chain": chain},
        "tcp": tcp,
        "traffic": traffic,
        "cases": {path.cause: case},
        "matrix": {"case": path.cause, "flows": path.flows, "seed": seed},
    }
    return Scenario(seed, Experiment.model_validate(data), path.loss, path.cause)


@dataclass(frozen=True)
class _Path:
    """The numbers that all others follow from."""

    cause: str
    loss: float
    round_trip: float  #: s, of the idle path
    flows: int
    mtu: int
    rate: int  #: of the bottleneck, bit/s

    @classmethod
    def draw(cls, dice: random.Random) -> _Path:
        cause = dice.choice(CAUSES)
        loss = float(f"{_spread(dice, *LOSS):.4g}")
        round_trip = round(_spread(dice, *ROUND_TRIP_S), 4)
        flows = round(_spread(dice, *FLOWS))
        mtu = round(_spread(dice, *MSS)) + HEADERS[4]
        passed = flows * _packets_per_s(loss, round_trip)
        # Where netem loses the packets, the bottleneck is to be wide enough not to.
        passed *= dice.uniform(1.2, 3) if cause == "netem" else 1
        passed = min(max(passed, _PACKETS_PER_S[0]), _PACKETS_PER_S[1])
        rate = 1000 * round(passed * (mtu + ETHERNET_HEADER) * 8 / 1000)
        return cls(cause, loss, round_trip, flows, mtu, rate)

    @property
    def buffer(self) -> int:
        """Bytes under way on the idle path at the bottleneck's rate, at least eight packets."""
        return max(round(self.rate * max(self.round_trip, 0.05) / 8), 8 * self.frame)

    @property
    def frame(self) -> int:
        """Bytes of a full packet as ``tc`` counts it."""
        return self.mtu + ETHERNET_HEADER


def _spread(dice: random.Random, low: float, high: float) -> float:
    """Draw evenly on a logarithmic scale."""
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def _packets_per_s(loss: float, round_trip: float) -> float:
    """What a long flow gets through if every packet is acknowledged.

    Padhye, Firoiu, Towsley, Kurose, SIGCOMM 1998, equation 30 with b = 1.
    """
    timer = round_trip + 0.2
    waits = min(1.0, 3 * math.sqrt(3 * loss / 8)) * loss * (1 + 32 * loss**2)
    return 1 / (round_trip * math.sqrt(2 * loss / 3) + timer * waits)


def _tcp(dice: random.Random) -> dict[str, Any]:
    """Draw the ends: the profile's own settings more often than others."""
    old = dice.random() < 0.5
    own = ("reno",) * 3 if old else ("cubic",) * 2
    return {
        "profile": "sysctl-2.2" if old else "modern",
        "sack": dice.random() < 0.7,
        "congestion": dice.choice((*own, "reno", "cubic", "bbr")),
        "timestamps": (dice.random() < 0.3) if old else (dice.random() < 0.7),
        "window_scaling": dice.random() < 0.75,
        "quickack": dice.random() < 0.3,
    }


def _forward(dice: random.Random, path: _Path) -> dict[str, Any]:
    """What happens to the data behind the bottleneck."""
    found: dict[str, Any] = {}
    if path.cause == "netem":
        found["loss"] = path.loss
        if dice.random() < 0.4:
            found["loss_burst"] = round(dice.uniform(1.5, 6), 2)
    return found | (_disorder(dice, path) if dice.random() < 0.4 else {})


def _reverse(dice: random.Random, path: _Path) -> dict[str, Any]:
    """What happens to the acknowledgements."""
    if dice.random() >= 0.3:
        return {}
    loss = {"loss": float(f"{_spread(dice, 1e-3, 0.2):.4g}")}
    return loss | (_disorder(dice, path) if dice.random() < 0.3 else {})


def _disorder(dice: random.Random, path: _Path) -> dict[str, Any]:
    """Some of: duplicates, packets that overtake others, jitter."""
    found: dict[str, Any] = {}
    held = max(round(path.round_trip * dice.uniform(0.02, 0.5), 6), 0.0002)
    kinds = dice.sample(("duplicate", "reorder", "jitter"), dice.randint(1, 3))
    if "duplicate" in kinds:
        found["duplicate"] = float(f"{_spread(dice, 1e-3, 0.05):.4g}")
    if "reorder" in kinds:
        found |= {"delay": format_duration(held)}
        found["reorder"] = float(f"{_spread(dice, 1e-3, 0.05):.4g}")
    if "jitter" in kinds:
        found |= {"delay": format_duration(held)}
        found["jitter"] = format_duration(round(held * dice.uniform(0.05, 1), 6))
    return found


def _case(dice: random.Random, path: _Path) -> dict[str, Any]:
    """Draw the queue at the bottleneck, and what marks for it."""
    limit = round(path.buffer * dice.uniform(0.3, 2)) + 4 * path.frame
    if path.cause == "red":
        return {"queue": _red(dice, path, limit)}
    if path.cause == "frio":
        return {"queue": _frio(path, limit), "marker": _marker(dice, path)}
    return {"queue": {"kind": "bfifo", "limit": format_size(limit)}}


def _red(dice: random.Random, path: _Path, limit: int) -> dict[str, Any]:
    least = max(2 * path.mtu, limit // 10)
    most = max(3 * least, limit // 2)
    sizes = {"limit": max(limit, most), "min": least, "max": most, "avpkt": path.mtu}
    return {
        "kind": "red",
        **{key: format_size(value) for key, value in sizes.items()},
        "probability": dice.choice((0.02, 0.1, 0.25)),
        "burst": math.ceil((2 * least + most) / (3 * path.mtu)) + 1,
    }


def _frio(path: _Path, limit: int) -> dict[str, Any]:
    """Thresholds in the proportions of configuration A."""
    shares = {"in_min": 0.1, "in_max": 0.98, "out_min": 0.02, "out_max": 0.4}
    sizes = {key: round(limit * share) for key, share in shares.items()}
    sizes |= {"limit": limit, "avpkt": path.mtu}
    return {
        "kind": "frio",
        **{key: format_size(value) for key, value in sizes.items()},
        "in_probability": 0.005,
        "out_probability": 0.25,
    }


def _marker(dice: random.Random, path: _Path) -> Any:
    if dice.random() < 0.5:
        return "none"
    tokens = round(path.rate * _INTERVAL_S / 8 * _PROFILE)
    interval = format_duration(_INTERVAL_S)
    return {"kind": "tcpf", "interval": interval, "tokens": format_size(tokens)}


def _plain(impairment: Any) -> dict[str, Any] | None:
    return None if impairment is None else impairment.model_dump(exclude_defaults=True)

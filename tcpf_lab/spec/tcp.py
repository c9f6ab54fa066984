"""TCP profiles: which TCP the two ends speak; ``tcp.toml`` has what they set, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size, format_duration
from tcpf_lab.spec.words import KeyPath, SpecModel

#: Names of congestion control algorithms (the kernel keeps them in 16 bytes).
CONGESTION = r"^[a-z][a-z0-9_]{0,14}$"

_DATA = tomllib.loads(Path(__file__).with_name("tcp.toml").read_text(encoding="utf-8"))
#: Said wherever results with ``sack: false`` are shown; instead where ``recovery: reno`` is, or
#: Linux 2.2's fast retransmit.
_WITHOUT_SACK: dict[str, str] = _DATA["without_sack"]
NEWRENO, RENO, LINUX22 = (_WITHOUT_SACK[name] for name in ("newreno", "reno", "linux22"))
#: The switch of Reno's patch (``kernel/uml/patches/0008-*``): other kernels have none.
RENO_SYSCTL = "net.ipv4.tcp_reno_recovery"
#: The switch of ``kernel/uml/patches/0013-*``.
NO_LIMITED_TRANSMIT = "net.ipv4.tcp_no_limited_transmit"
#: What Linux 2.2 did otherwise, and `kernel/uml/patches/0012-*` brings back, each by a switch.
LINUX22_BEHAVIOURS: dict[str, str] = _DATA["linux22"]
LINUX22_SYSCTL = "net.ipv4.tcp_linux22_"
#: Values of ``tcp_ecn``: never, only if the other end requests it, for every connection; the last
#: one with accurate feedback, from Linux 6.18 on.
ECN_MODES = Literal["off", "passive", "classic", "accurate"]
ECN: dict[ECN_MODES, str] = {"off": "0", "passive": "2", "classic": "1", "accurate": "3"}
#: Modes in which every connection requests ECN.
REQUESTING: tuple[ECN_MODES, ...] = ("classic", "accurate")
#: What the kernel takes for a segment at the least (TCP_MIN_MSS), and what the largest packet of a
#: topology leaves for one, bytes.
LEAST_MSS, LARGEST_MSS = 88, 8960


@dataclass(frozen=True)
class Setting:
    """One sysctl (below ``net.ipv4``), its value, and why it is set."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Profile:
    """What is set at both ends before any flow starts.

    ``initcwnd`` is the initial window in segments, a route's; None leaves the kernel's. ``linux22``
    are the behaviours that the patched kernel takes on.
    """

    summary: str
    settings: tuple[Setting, ...]
    initcwnd: int | None
    window_reason: str
    linux22: tuple[str, ...]


def _profile(data: dict[str, Any]) -> Profile:
    settings = {**(_DATA["of_2000"] if data.get("of_2000") else {}), **data.get("settings", {})}
    return Profile(
        summary=data["summary"],
        settings=tuple(Setting(name, *value) for name, value in settings.items()),
        initcwnd=data.get("initcwnd"),
        window_reason=data.get("window_reason", ""),
        linux22=tuple(LINUX22_BEHAVIOURS) if data.get("linux22") else (),
    )


PROFILES = {name: _profile(data) for name, data in _DATA["profiles"].items()}


class Linux22(SpecModel):
    """Behaviours of Linux 2.2, in the virtual-time kernel only (docs/kernel.md)."""

    rto: bool | None = None
    """Length of the retransmission timer. Default: the profile's."""
    rto_age: bool | None = None
    """Start of the retransmission timer. Default: the profile's."""
    go_back_n: bool | None = None
    """Recovery from a timeout. Default: the profile's."""
    fast_retransmit: bool | None = None
    """Recovery from duplicate acknowledgements. Default: the profile's."""
    delayed_ack: bool | None = None
    """Delay of acknowledgements. Default: the profile's."""
    growth: bool | None = None
    """Slow start and congestion avoidance. Default: the profile's."""


class Tcp(SpecModel):
    """TCP at both ends."""

    profile: Literal["linux-2.2", "sysctl-2.2", "modern"]
    """Set of sysctls, see TCP profiles."""
    sack: bool = True
    """Selective acknowledgements (`tcp_sack`)."""
    congestion: str | None = Field(default=None, pattern=CONGESTION)
    """Congestion control (`tcp_congestion_control`). Default: the profile's."""
    initcwnd: int | None = Field(default=None, ge=1, le=1000)
    """Initial congestion window in segments, a route metric. Default: the profile's."""
    timestamps: bool | None = None
    """Timestamps (`tcp_timestamps`). Default: the profile's."""
    window_scaling: bool | None = None
    """Window scaling, for windows above 64 kB (`tcp_window_scaling`). Default: the profile's."""
    ecn: ECN_MODES | None = None
    """Explicit Congestion Notification (`tcp_ecn`; RFC 3168): `off` (0); `passive` (2) accepts ECN
    and never requests it, so that no connection uses it; `classic` (1) requests it for every
    connection, `accurate` (3) with a counter of marks as feedback (AccECN; Linux 6.18, such as
    `kernel: "7.3"`). A queue that marks needs one of these. Default: the profile's, or the kernel's
    `passive`."""
    quickack: bool | None = None
    """Receivers acknowledge every segment at once, a route metric. Default: false, the kernel
    delays acknowledgements."""
    recovery: Literal["newreno", "reno"] | None = None
    """Loss recovery without SACK: `newreno`, the kernel's, or `reno`, that of 1990 (virtual-time
    kernel only). Default: `newreno`."""
    limited_transmit: bool | None = None
    """Limited Transmit (RFC 3042): the first two duplicate acknowledgements release new segments.
    `false` needs the virtual-time kernel. Default: true, but false with `recovery: reno`."""
    mss: Size | None = None
    """MSS that both ends announce, a route metric. Default: what fits into `mtu`."""
    rto_min: Duration | None = None
    """Minimum RTO, a route metric: the minimum variance term, which is added to the smoothed
    round-trip time; with `linux22: {rto: true}` the minimum of the timer. `tcp_retries1` is raised
    so that repeated timeouts do not reset it. Default: the kernel's 200 ms."""
    linux22: Linux22 = Linux22()
    """Behaviours of Linux 2.2, in the virtual-time kernel only."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what a route cannot hold, and recoveries that are not to be had together."""
        yield from self._exclusive()
        if self.mss is not None and not LEAST_MSS <= self.mss <= LARGEST_MSS:
            sentence = f"must be from {LEAST_MSS} B to {LARGEST_MSS} B, not {self.mss} B"
            yield ("mss",), sentence
        if self.rto_min is None:
            return
        given = format_duration(self.rto_min)
        if not 0.01 <= self.rto_min <= 120:
            yield ("rto_min",), f"must be from 10 ms to 120 s, not {given}"
        elif round(self.rto_min, 3) != self.rto_min:
            yield ("rto_min",), f"must be a whole number of milliseconds, not {given}"

    def _exclusive(self) -> Iterator[tuple[KeyPath, str]]:
        if self.recovery is not None and self.sack:
            yield ("recovery",), "has no effect with SACK: set sack: false, or remove recovery"
        elif self.recovery == "reno" and "fast_retransmit" in self.behaviours:
            sentence = "reno excludes linux22.fast_retransmit: set that to false"
            yield ("recovery",), f"{sentence}, or use profile: sysctl-2.2"
        if self.limited_transmit is not None and "fast_retransmit" in self.behaviours:
            sentence = "has no effect with linux22.fast_retransmit, which has its own rule"
            yield ("limited_transmit",), f"{sentence}: remove one of them"
        elif self.limited_transmit and self.recovery == "reno":
            sentence = "true excludes recovery: reno, which has no limited transmit"
            yield ("limited_transmit",), f"{sentence}: remove one of them"
        if "growth" in self.behaviours and self.congestion not in (None, "reno"):
            sentence = f"linux22.growth replaces the window growth of {self.congestion}"
            yield ("congestion",), f"{sentence}: set linux22.growth to false"
        if self.behaviours and self.profile == "modern":
            sentence = "does not work with profile: modern; use profile: linux-2.2 or sysctl-2.2"
            yield ("linux22",), sentence

    @property
    def behaviours(self) -> tuple[str, ...]:
        """What the kernel does as Linux 2.2 did."""
        own = PROFILES[self.profile].linux22
        requested = {name: getattr(self.linux22, name) for name in LINUX22_BEHAVIOURS}
        return tuple(
            name for name, value in requested.items() if (name in own if value is None else value)
        )

    @property
    def without_sack(self) -> str:
        """The remark on recovery without SACK; empty with SACK."""
        if self.sack:
            return ""
        if "fast_retransmit" in self.behaviours:
            return LINUX22
        return RENO if self.recovery == "reno" else NEWRENO

    def sysctls(self) -> dict[str, str]:
        """Give the full sysctl names and the values that must be in force at both ends."""
        values = {item.name: item.value for item in PROFILES[self.profile].settings}
        values["tcp_sack"] = str(int(self.sack))
        requested: dict[str, str | None] = {
            "tcp_congestion_control": self.congestion,
            "tcp_timestamps": _switch(self.timestamps),
            "tcp_window_scaling": _switch(self.window_scaling),
            "tcp_ecn": self.ecn and ECN[self.ecn],
        }
        if self.recovery == "reno":
            # The threshold stays at three duplicates, whatever looks like reordering.
            requested |= {RENO_SYSCTL.removeprefix("net.ipv4."): "1", "tcp_max_reordering": "3"}
        if self.limited_transmit is False:
            requested[NO_LIMITED_TRANSMIT.removeprefix("net.ipv4.")] = "1"
        if self.rto_min is not None:
            # A socket whose timeouts go on (tcp_retries1) forgets its route until it sends: an ACK
            # would set the timer with the kernel's minimum.
            requested["tcp_retries1"] = "255"
        values |= {name: value for name, value in requested.items() if value is not None}
        switches = {f"{LINUX22_SYSCTL}{name}": "1" for name in self.behaviours}
        return {f"net.ipv4.{name}": value for name, value in values.items()} | switches

    def route_metrics(self) -> dict[str, int]:
        """Give what every route of both ends must show; ``rto_min`` is in ms."""
        window = PROFILES[self.profile].initcwnd if self.initcwnd is None else self.initcwnd
        initcwnd = {} if window is None else {"initcwnd": window}
        rto_min = {} if self.rto_min is None else {"rto_min": round(self.rto_min * 1000)}
        quickack = {"quickack": 1} if self.quickack else {}
        mss = {} if self.mss is None else {"advmss": self.mss}
        return initcwnd | rto_min | quickack | mss

    def route_options(self) -> tuple[str, ...]:
        """Give the words of ``ip route add`` for that."""
        units = {"rto_min": "ms"}
        words = (
            (key, f"{value}{units.get(key, '')}") for key, value in self.route_metrics().items()
        )
        return tuple(word for pair in words for word in pair)


def _switch(value: bool | None) -> str | None:
    return None if value is None else str(int(value))

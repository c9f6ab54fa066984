"""What was asked of the analysis of captures, read from words."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.metrics.flow_choice import FlowChoice, Network
from tcpf_lab.spec.dscp import parse_dscp
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.trace.analysis import Options, Profile
from tcpf_lab.trace.events import Place
from tcpf_lab.units import parse_duration

#: Formats of files, by their suffix; those that are text can be printed too.
FORMATS: tuple[str, ...] = ("json", "jsonl", "csv", "parquet")
PRINTED: tuple[str, ...] = ("table", "json", "jsonl", "csv")
PROFILES: tuple[Profile, ...] = ("linux", "rfc6298")
PLACES: tuple[Place, ...] = ("sender", "receiver", "between")
#: What flows can be sorted by: largest first, but for those that tell when or which.
SORTED: tuple[str, ...] = (
    *("flow", "start_s", "duration_s", "packets", "wire_bytes", "data_packets", "payload_bytes"),
    *("acked_bytes", "retransmissions", "timeouts", "syn_timeouts", "timeout_episodes"),
    *("rtt_min_s", "rtt_mean_s", "mss", "dscp"),
)
#: These smallest first.
ASCENDING = ("flow", "start_s")


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Parameters
    ----------
    paths : tuple of str
        Captures; ``-`` is standard input.
    options : Options
        What is known of the senders, and of where the captures were taken.
    choice : FlowChoice
        Which flows.
    sort : str
        One of ``SORTED``; by number, unless something is asked for.
    top : int, optional
        So many flows of each capture, the first by that order; 0 or None: all.
    events : bool
        Whether the events are wanted, and not only their counts.
    """

    paths: tuple[str, ...]
    options: Options = field(default_factory=Options)
    choice: FlowChoice = field(default_factory=FlowChoice)
    sort: str = ""
    top: int | None = None
    events: bool = False


def choice_of(
    hosts: Sequence[str] = (),
    ports: Sequence[int] = (),
    dscps: Sequence[str | int] = (),
    flows: Sequence[int] = (),
) -> FlowChoice:
    """Read which flows are wanted.

    Parameters
    ----------
    hosts : sequence of str
        Addresses, or networks as ``10.0.0.0/24``.
    ports : sequence of int
        Ports of either end.
    dscps : sequence of str or int
        Code points, by number or name.
    flows : sequence of int
        Numbers of flows.

    Raises
    ------
    RequestError
        If one is not of this form.
    """
    for port in ports:
        if not 0 <= port <= 65535:
            raise RequestError("ports are numbers from 0 to 65535", where=f"--port {port}")
    return FlowChoice(
        hosts=tuple(_network(host) for host in hosts),
        ports=tuple(ports),
        dscps=tuple(_dscp(word) for word in dscps),
        flows=tuple(flows),
    )


def _network(text: str) -> Network:
    """Read an address as tables print it, too; an IPv4 one may be written as IPv6 maps it."""
    try:
        network = ipaddress.ip_network(text.strip("[]"), strict=False)
        mapped = getattr(network.network_address, "ipv4_mapped", None)
        return ipaddress.ip_network(mapped) if mapped and network.prefixlen == 128 else network
    except ValueError:
        message = "write an address or a network, as 10.0.0.1, 10.0.0.0/24 or 2001:db8::/32"
        raise RequestError(message, where=f"--host {text}") from None


def _dscp(word: str | int) -> int:
    try:
        return parse_dscp(int(word) if str(word).isdecimal() else word)
    except ValueError as error:
        raise RequestError(str(error), where=f"--dscp {word}") from None


def options_of(
    min_rto: str | float | None = None,
    profile: str = "linux",
    at: str | None = None,
    *,
    probes: bool = True,
) -> Options:
    """Read what is known of the senders.

    Parameters
    ----------
    min_rto : str or float, optional
        Least timer, ``200 ms`` or seconds; the profile's own without it.
    profile : str
        One of ``PROFILES``: whose timer.
    at : str, optional
        One of ``PLACES``: where the capture was taken; found from it without this.
    probes : bool
        Whether senders may send tail loss probes.

    Raises
    ------
    RequestError
        If one of them is not allowed.
    """
    if profile not in PROFILES:
        raise RequestError(unknown(f"unknown profile '{profile}'", profile, PROFILES))
    if at is not None and at not in PLACES:
        raise RequestError(unknown(f"unknown place '{at}'", at, PLACES), where="--at")
    seconds = 0.0 if min_rto is None else _seconds(min_rto)
    return Options(
        rto_min_ns=round(1e9 * seconds),
        probes=probes,
        profile=profile,
        at=at,
    )


def _seconds(text: str | float) -> float:
    try:
        seconds = parse_duration(text) if isinstance(text, str) else float(text)
    except LabError as error:
        raise RequestError(error.message, where=f"--min-rto {text}") from None
    if not 0 < seconds <= 120:
        raise RequestError("a timer is longer than 0 and at most 120 s", where=f"--min-rto {text}")
    return seconds


def sort_of(word: str) -> str:
    """Read what flows are sorted by.

    Raises
    ------
    RequestError
        If it is none of ``SORTED``.
    """
    if word and word not in SORTED:
        raise RequestError(unknown(f"unknown column '{word}'", word, SORTED), where="--sort")
    return word


def format_of(path: Path) -> str:
    """Give the format of a file by its suffix.

    Raises
    ------
    RequestError
        If there is no such format.
    """
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        message = f"the suffix of the file says its format: {', '.join(FORMATS)}"
        raise RequestError(message, where=f"-o {path}")
    return suffix

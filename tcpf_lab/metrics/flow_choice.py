"""Which flows of a capture are wanted: by address, port, code point or number."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.events import Analysis

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class FlowChoice:
    """Flows that are all of this; within one field, one of its values is enough.

    Parameters
    ----------
    hosts : tuple of ip_network
        Networks that the sender or the receiver belongs to; an address is a network of one.
    ports : tuple of int
        Ports of the sender or of the receiver.
    dscps : tuple of int
        Code points of the flow's first data packet.
    flows : tuple of int
        Numbers of flows, as the analysis counts them in each capture.
    """

    hosts: tuple[Network, ...] = ()
    ports: tuple[int, ...] = ()
    dscps: tuple[int, ...] = ()
    flows: tuple[int, ...] = ()

    def rows(self, analysis: Analysis) -> NDArray[np.int64]:
        """Numbers of the flows that are wanted, ascending."""
        flows = analysis.flows
        wanted = np.ones(flows.size, np.bool_)
        if self.hosts:
            wanted &= _within(flows["src"], self.hosts) | _within(flows["dst"], self.hosts)
        if self.ports:
            wanted &= np.isin(flows["sport"], self.ports) | np.isin(flows["dport"], self.ports)
        if self.dscps:
            wanted &= np.isin(flows["dscp"], self.dscps)
        if self.flows:
            wanted &= np.isin(np.arange(flows.size), self.flows)
        return np.flatnonzero(wanted)

    def __bool__(self) -> bool:
        """Whether anything is asked for at all."""
        return bool(self.hosts or self.ports or self.dscps or self.flows)

    def __str__(self) -> str:
        """Write the choice as the options of the command line."""
        fields = {"--host": self.hosts, "--port": self.ports, "--dscp": self.dscps}
        words = [f"{name} {value}" for name, values in fields.items() for value in values]
        numbers = [f"--flow {','.join(map(str, self.flows))}"] if self.flows else []
        return " ".join([*words, *numbers])


def _within(addresses: NDArray[np.uint8], networks: tuple[Network, ...]) -> NDArray[np.bool_]:
    """Whether each address of 16 bytes, shape (flows, 16), is in one of the networks."""
    found = np.zeros(len(addresses), np.bool_)
    for network in networks:
        first = _sixteen(network.network_address, bytes(10) + b"\xff\xff")
        mask = _sixteen(network.netmask, b"\xff" * 12)  # all that stands before an IPv4 address
        found |= np.all((addresses & mask) == first, axis=1)
    return found


def _sixteen(address: Any, before: bytes) -> NDArray[np.uint8]:
    """Sixteen bytes of an address or a mask, those of IPv4 behind ``before``."""
    packed = address.packed if address.version == 6 else before + address.packed
    return np.frombuffer(packed, np.uint8)

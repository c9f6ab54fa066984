"""What every marker kind offers to the rest of the program."""

from __future__ import annotations

from tcpf_lab.spec.base import SpecModel


class Marker(SpecModel):
    """What marks packets in- or out-of-profile, at the router in front of the bottleneck."""

    kind: str

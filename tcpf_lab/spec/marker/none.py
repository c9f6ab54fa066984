"""No marker at all."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tcpf_lab.spec.marker.base import Marker


class NoMarker(Marker):
    """Packets are left as the sender made them; written as the bare word ``none``."""

    kind: Literal["none"] = Field(description="Nothing is marked.")

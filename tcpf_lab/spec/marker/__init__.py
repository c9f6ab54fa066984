"""Marker kinds: one file per kind, one row per file in `KINDS`."""

from __future__ import annotations

from typing import Annotated

from tcpf_lab.spec.base import OneOf
from tcpf_lab.spec.marker.base import Marker
from tcpf_lab.spec.marker.none import NoMarker
from tcpf_lab.spec.marker.tcpf import Tcpf
from tcpf_lab.spec.marker.token import Token

KINDS: dict[str, type[Marker]] = {"none": NoMarker, "tcpf": Tcpf, "token": Token}

#: A marker of any kind; one without parameters may be written as a bare word.
AnyMarker = Annotated[Marker, OneOf(KINDS, bare=True)]

__all__ = ["KINDS", "AnyMarker", "Marker", "NoMarker", "Tcpf", "Token"]

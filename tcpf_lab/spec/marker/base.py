"""What every marker kind offers to the rest of the program."""

from __future__ import annotations

from typing import ClassVar

from tcpf_lab.spec.base import SpecModel


class Marker(SpecModel):
    """What marks packets in- or out-of-profile, at the router in front of the bottleneck."""

    #: The project's own kernel modules that the kind needs, in the order of loading.
    modules: ClassVar[tuple[str, ...]] = ()

    kind: str

    def tc(self) -> tuple[str, ...]:
        """Give the words that follow ``tc actions add action``; none if nothing is marked."""
        return ()

    def shown(self) -> dict[str, int | float | str | bool]:
        """Give the options that ``tc -j actions list`` must show once the marker is in force."""
        return {}

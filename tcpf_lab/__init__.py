"""TCP and queue management experiments on a real Linux kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcpf_lab.api import Calibrated as Calibrated
    from tcpf_lab.api import Captures as Captures
    from tcpf_lab.api import Crossing as Crossing
    from tcpf_lab.api import Results as Results
    from tcpf_lab.api import Run as Run
    from tcpf_lab.api import analyze as analyze
    from tcpf_lab.api import crossing as crossing
    from tcpf_lab.api import load as load
    from tcpf_lab.api import load_calibration as load_calibration
    from tcpf_lab.api import packets as packets

__version__ = "0.1.0"

#: What `tcpf_lab.api` offers under this name too: imported when asked for, as that takes a second.
_PUBLIC = (
    *("Calibrated", "Captures", "Crossing", "Results", "Run"),
    *("analyze", "crossing", "load", "load_calibration", "packets"),
)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tcpf_lab import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})

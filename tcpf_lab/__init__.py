"""TCP and queue management experiments on a real Linux kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcpf_lab.calibration.frames import Calibrated as Calibrated
    from tcpf_lab.calibration.report import load_calibration as load_calibration
    from tcpf_lab.run.api import Captures as Captures
    from tcpf_lab.run.api import Device as Device
    from tcpf_lab.run.api import Results as Results
    from tcpf_lab.run.api import Run as Run
    from tcpf_lab.run.api import analyze as analyze
    from tcpf_lab.run.api import device as device
    from tcpf_lab.run.api import load as load
    from tcpf_lab.run.api import packets as packets

__version__ = "0.1.0"

#: The Python interface, by the module it is in: imported at first use, as that takes a second.
_PUBLIC = {
    **dict.fromkeys(("Captures", "Device", "Results", "Run"), "tcpf_lab.run.api"),
    **dict.fromkeys(("analyze", "device", "load", "packets"), "tcpf_lab.run.api"),
    "Calibrated": "tcpf_lab.calibration.frames",
    "load_calibration": "tcpf_lab.calibration.report",
}


#: Former names, kept for one version.
_FORMER = {"Crossing": "Device", "crossing": "device"}


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        import warnings

        message = f"tcpf_lab.{name} is now tcpf_lab.{_FORMER[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _FORMER[name]
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})

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

#: The Python interface by module, each function before the class that it returns; imported at first
#: use, as that takes a second.
PUBLIC = {
    **dict.fromkeys(("load", "Results", "Run", "analyze", "Captures"), "tcpf_lab.run.api"),
    **dict.fromkeys(("device", "Device", "packets"), "tcpf_lab.run.api"),
    "load_calibration": "tcpf_lab.calibration.report",
    "Calibrated": "tcpf_lab.calibration.frames",
}


#: Former names, kept for one version.
_FORMER = {"Crossing": "Device", "crossing": "device"}


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        import warnings

        message = f"tcpf_lab.{name} is now tcpf_lab.{_FORMER[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _FORMER[name]
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})

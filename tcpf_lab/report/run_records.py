"""``metrics.json`` and ``manifest.json`` of a run: refused where they are not what reports read.

A report takes numbers from many places of both.  What is checked here once, nothing behind it has
to doubt.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from tcpf_lab.errors import RequestError, TraceError
from tcpf_lab.metrics import series
from tcpf_lab.results import FORMAT, RunFiles, read_json

Test = Callable[[Any], bool]
#: No number of a run is as large, and sums of those below do not overflow.
_LARGEST = 2.0**100


def read_metrics(files: RunFiles, *needed: str) -> dict[str, Any]:
    """Read ``metrics.json``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    needed : str
        Keys that must be there; whatever is there must be of its kind.

    Raises
    ------
    RequestError
        If it is missing, damaged or of another format, or lacks something.
    """
    found = read_json(files.metrics)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise RequestError(f"not metrics of format {FORMAT}", where=str(files.metrics))
    return _checked(found, _METRICS, needed, str(files.metrics))


def read_manifest(files: RunFiles, *needed: str) -> dict[str, Any]:
    """Read ``manifest.json``, as `read_metrics` does its file.

    Raises
    ------
    RequestError
        If it is missing or damaged, or lacks something.
    """
    found = read_json(files.manifest)
    if not isinstance(found, dict):
        raise RequestError("not a manifest", where=str(files.manifest))
    return _checked(found, _MANIFEST, needed, str(files.manifest))


def read_series(files: RunFiles) -> series.Series:
    """Read ``series.npz`` as `tcpf_lab.metrics.series.read_series` does, whatever is in it.

    Raises
    ------
    TraceError
        If it is missing, damaged or of another layout.
    """
    try:
        return series.read_series(files)
    except (zlib.error, struct.error, NotImplementedError, RuntimeError, MemoryError) as error:
        raise TraceError(f"cannot be read: {error}", where=str(files.series)) from None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether JSON's value is a finite number that a float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (isinstance(value, int) or math.isfinite(value)) and abs(value) < _LARGEST


def _checked(
    found: dict[str, Any], tests: Mapping[str, Test], needed: Sequence[str], where: str
) -> dict[str, Any]:
    lacking = [name for name in needed if name not in found]
    if lacking:
        raise RequestError(f"lacks {', '.join(lacking)}", where=where)
    wrong = [name for name, test in tests.items() if name in found and not test(found[name])]
    if wrong:
        raise RequestError(f"damaged: {', '.join(wrong)}", where=where)
    return found


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _some_number(value: Any) -> bool:
    return value is None or is_number(value)


def _mapping_of(test: Test) -> Test:
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _with(tests: Mapping[str, Test]) -> Test:
    """A mapping that has these keys, and maybe others."""
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and test(value[name]) for name, test in tests.items())
    )


def _scalar(value: Any) -> bool:
    return _some_number(value) or isinstance(value, str | bool)


def _flow(value: Any) -> bool:
    """A flow's row: numbers, and below a few keys mappings of them."""
    if not isinstance(value, dict) or not _count(value.get("flow")):
        return False
    inner = {name: value.get(name) or {} for name in ("kernel", "iperf3")}
    own = [entry for name, entry in value.items() if name not in (*inner, "events")]
    inner["events"] = value.get("events", {})
    return all(map(_some_number, own)) and all(map(_mapping_of(_scalar), inner.values()))


def _dscp(value: Any) -> bool:
    return isinstance(value, dict) and all(
        key.isascii() and key.isdecimal() and len(key) < 4 and _with(_DSCP)(row)
        for key, row in value.items()
    )


def _window(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


_LOST = ("packets_lost", "loss_percent", "packet_loss_percent")
#: Earlier versions have no packets_per_s.
_DSCP = dict.fromkeys(("packets", *_LOST), is_number)
_CHECK = {"name": _text, "ok": lambda value: value in (True, False, None), "detail": _text}
_VALIDITY = {
    "valid": lambda value: isinstance(value, bool),
    "reasons": _list_of(_text),
    "checks": _list_of(_with(_CHECK)),
}
_METRICS: Mapping[str, Test] = {
    "config": _text,
    "case": _text,
    "flows": _count,
    "metrics": _mapping_of(_some_number),
    "unmeasured": _list_of(_text),
    "per_flow": _list_of(_flow),
    "by_dscp": _dscp,
    "truth": _with({"timeouts_pcap": _some_number, "timeouts_kernel": _some_number}),
    "validity": _with(_VALIDITY),
    "analysis": _text,
}
_MANIFEST: Mapping[str, Test] = {
    "config": _text,
    "case": _text,
    "testbed": _text,
    "flows": _count,
    "seed": _count,
    "settings": _mapping_of(_text),
    "window_s": _window,
    "clock": _text,
    "expect": lambda value: isinstance(value, dict),
    "facts": lambda value: isinstance(value, dict),
    **dict.fromkeys(("tcpf_lab", "git_commit", "testbed_identity"), _text),
}

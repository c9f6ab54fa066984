"""The analysis of a run whose records may be damaged: what cannot be read ends in a message."""

from __future__ import annotations

from typing import Any

from tcpf_lab.errors import LabError, TraceError
from tcpf_lab.metrics import summary
from tcpf_lab.metrics.clock import Clocks
from tcpf_lab.metrics.evidence import UnreadableError
from tcpf_lab.metrics.transfers import read_transfers
from tcpf_lab.results import RunFiles, read_json

#: No run has more flows, cross traffic included.
_MOST_FLOWS = 10_000
#: No run is longer, s.
_LONGEST_S = 3e6
#: What arithmetic on entries that are missing, of another type or out of all range raises.
_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(MemoryError, RecursionError),
)


def analyse(files: RunFiles) -> dict[str, Any]:
    """Analyse a run as `tcpf_lab.metrics.summary.analyse` does.

    Parameters
    ----------
    files : RunFiles
        A run directory, complete or partial.

    Returns
    -------
    dict
        What was written to ``metrics.json``.

    Raises
    ------
    LabError
        If a record of the run is missing or damaged, whichever it is; ``metrics.json`` is as it
        was then.
    """
    _refuse_sizes(files)
    try:
        return summary.analyse(files)
    except LabError:
        raise
    except OSError as error:
        reason = f"cannot be read or written: {error.strerror or error}"
        raise TraceError(reason, where=str(error.filename or files.root)) from None
    except _DAMAGE as error:
        raise TraceError(
            f"its records do not fit together: {type(error).__name__} {error}"[:300],
            where=str(files.root),
            hint="a file of the run is damaged: repeat the run",
        ) from error


def _refuse_sizes(files: RunFiles) -> None:
    """Refuse a manifest that asks for more flows, or more time, than a run can have."""
    manifest = read_json(files.manifest)
    if not isinstance(manifest, dict):
        return  # the analysis says so
    expect = manifest.get("expect")
    crossing = expect.get("cross") if isinstance(expect, dict) else None
    shares = [manifest, *(crossing if isinstance(crossing, list) else ())]
    flows = [share["flows"] for share in shares if isinstance(share, dict) and "flows" in share]
    window = manifest.get("window_s", [])
    if not all(isinstance(count, int) and 0 <= count <= _MOST_FLOWS for count in flows):
        raise TraceError("no run has so many flows", where=str(files.manifest))
    if not isinstance(window, list) or not all(_is_instant(at) for at in window):
        raise TraceError("window_s is not when a run begins and ends", where=str(files.manifest))
    users = expect.get("users") if isinstance(expect, dict) else None
    if isinstance(users, dict) and not _are_users(files, users):
        raise TraceError("transfers of more users than a run has", where=str(files.stats))


def _are_users(files: RunFiles, users: dict[str, Any]) -> bool:
    """Tell whether the numbers of users are such as a run has; True if they cannot be read."""
    try:
        number = read_transfers(files, users, Clocks(0, {}))["user"]
    except (UnreadableError, *_DAMAGE):
        return True  # the analysis says what is wrong
    return bool(number.size == 0 or number.max() < _MOST_FLOWS)


def _is_instant(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LONGEST_S

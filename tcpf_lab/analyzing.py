"""Captures, analysed: what was found, in every form that it can be had in."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import pool
from tcpf_lab.analyze_request import ASCENDING, CapturesAsked, choice_of, options_of, spread
from tcpf_lab.errors import LabError, RequestError, TraceError
from tcpf_lab.metrics.capture import describe, flow_row
from tcpf_lab.trace.analysis import analyse
from tcpf_lab.trace.events import Analysis

if TYPE_CHECKING:
    from tcpf_lab.report.frames.captures import Captures

#: Told of each file while it is read: how many bytes so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Looked:
    """What was found, and which captures could not be read; ``rows``: the wanted flows, sorted."""

    asked: CapturesAsked
    analyses: tuple[Analysis, ...]
    problems: tuple[LabError, ...] = ()
    rows: tuple[NDArray[np.int64], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Choose the flows."""
        object.__setattr__(self, "rows", tuple(_rows(found, self.asked) for found in self.analyses))

    @functools.cached_property
    def described(self) -> list[dict[str, Any]]:
        """The captures in words and base units: `tcpf_lab.metrics.capture.describe`."""
        pairs = zip(self.analyses, self.rows, strict=True)
        return [describe(found, rows, top=self.asked.top) for found, rows in pairs]

    @functools.cached_property
    def frames(self) -> Captures:
        """The same as frames."""
        from tcpf_lab.report.frames.captures import Captures  # here: pandas takes a while to load

        top = self.asked.top or None
        return Captures(self.analyses, tuple(rows[:top] for rows in self.rows))


def look(asked: CapturesAsked, progress: Progress | None = None) -> Looked:
    """Analyse captures, several at a time; one that cannot be read does not stop the others.

    If no flow of any capture is what was asked for, that is a problem too, and nothing is left.

    Raises
    ------
    RequestError
        If standard input is asked for twice.
    """
    if asked.paths.count("-") > 1:
        raise RequestError("standard input can be read once", where="-")
    workers = max(1, min(len(asked.paths), pool.cores()))
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as executor:
        warnings.simplefilter("ignore", UserWarning)  # a cut end is told with the capture
        found = list(executor.map(lambda path: _one(path, asked, progress), asked.paths))
    analyses = tuple(one for one in found if isinstance(one, Analysis))
    looked = Looked(asked, analyses, tuple(one for one in found if isinstance(one, LabError)))
    if asked.choice and analyses and not any(map(len, looked.rows)):
        return Looked(asked, (), (*looked.problems, _none(looked)))
    return looked


def _one(path: str, asked: CapturesAsked, progress: Progress | None) -> Analysis | LabError:
    """Analyse one capture, or say in one line why it cannot be read."""
    try:
        return analyse(
            path,
            options=asked.options,
            events=asked.events,
            progress=functools.partial(progress, path) if progress else None,
        )
    except TraceError as error:
        error.where = error.where or path
        return error


def _rows(found: Analysis, asked: CapturesAsked) -> NDArray[np.int64]:
    """Numbers of the wanted flows, in the wanted order."""
    rows = asked.choice.rows(found)
    if by := asked.order:
        values = np.array([_number(flow_row(found, int(row))[by]) for row in rows])
        rows = rows[np.argsort(values if by in ASCENDING else -values, kind="stable")]
    return rows


def _number(value: float | None) -> float:
    return -np.inf if value is None else float(value)


def _none(looked: Looked) -> RequestError:
    """Say that no flow is what was asked for, and what there is."""
    flows = np.concatenate([found.flows for found in looked.analyses])
    if not flows.size:
        return RequestError("the capture has no TCP flow", where=str(looked.asked.choice))
    ports = sorted({int(port) for name in ("sport", "dport") for port in flows[name]})
    shown = ", ".join(map(str, ports[:8])) + (", ..." if len(ports) > 8 else "")
    last = max(found.flows.size for found in looked.analyses) - 1
    codes = ", ".join(str(code) for code in np.unique(flows["dscp"][flows["dscp"] >= 0]))
    several = f"none of the {flows.size} flows is this"
    return RequestError(
        several if flows.size > 1 else "the only flow is not this",
        where=str(looked.asked.choice),
        hint=f"there are ports {shown}; code points {codes or 'none'}; "
        + (f"flows 0 to {last}" if last else "flow 0"),
    )


def content(looked: Looked, form: str) -> str | bytes:
    """Give what was found in one of the ``FORMATS``: the flows, or the events if asked for."""
    from tcpf_lab.report.export import to_captures

    events = looked.asked.events
    if form == "json":
        return json.dumps(document(looked), indent=1) + "\n"
    if form == "parquet":
        return to_captures.parquet_file(looked.frames, events=events)
    if form == "csv":
        return to_captures.csv_text(looked.frames, events=events)
    return to_captures.json_lines(looked.frames, events=events)


def document(looked: Looked) -> dict[str, list[dict[str, Any]]]:
    """Give what was found as JSON has it: each capture with its flows, and with its events."""
    if not looked.asked.events:
        return {"captures": looked.described}
    from tcpf_lab.report.export.to_captures import event_lists

    together = zip(looked.described, event_lists(looked.frames), strict=True)
    return {"captures": [{**capture, "event_list": rows} for capture, rows in together]}


def analyze(
    *paths: str | Path,
    min_rto: str | float | None = None,
    profile: str = "linux",
    at: str | None = None,
    probes: bool = True,
    host: str | Sequence[str] = (),
    port: int | Sequence[int] = (),
    dscp: str | int | Sequence[str | int] = (),
    flow: int | Sequence[int] = (),
) -> Captures:
    """Analyse captures: how TCP recovered from loss, flow by flow and event by event.

    Parameters
    ----------
    *paths : str or Path
        Captures, plain or packed, or directories of them; ``-`` is standard input.
    min_rto : str or float, optional
        Least timer of the senders, ``"200 ms"`` or seconds; the profile's own without it.
    profile : {"linux", "linux-2.2", "rfc6298"}
        Whose timer the senders have.
    at : {"sender", "receiver", "between"}, optional
        Where the captures were taken; found from them without this.
    probes : bool
        Whether senders may send tail loss probes.
    host, port, dscp, flow
        Only flows that are all of this, as the options of ``tcpf-lab analyze``: addresses or
        networks, ports, code points, numbers; each of them one, or a sequence.

    Returns
    -------
    Captures
        With frames `Captures.captures`, `Captures.flows` and `Captures.events`.

    Raises
    ------
    LabError
        If a capture cannot be read, or no flow is what was asked for.

    Examples
    --------
    >>> import tcpf_lab
    >>> found = tcpf_lab.analyze("S.pcap", min_rto="200 ms")  # doctest: +SKIP
    >>> found.events.query("kind == 'rto'").groupby("flow").size()  # doctest: +SKIP
    """
    if not paths:
        raise RequestError("no capture to analyse", hint='name one: tcpf_lab.analyze("S.pcap")')
    options = options_of(min_rto, profile, at, probes=probes)
    names = tuple(spread(list(map(str, paths))))
    choice = choice_of(host, port, dscp, flow)
    looked = look(CapturesAsked(names, options, choice, events=True))
    if looked.problems:
        raise looked.problems[0]
    return looked.frames

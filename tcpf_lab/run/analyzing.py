"""Captures, analysed: the request, and its results in every form."""

from __future__ import annotations

import functools
import ipaddress
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError, TraceError
from tcpf_lab.base.making import require_place
from tcpf_lab.base.units import UnitError, parse_duration
from tcpf_lab.metrics.capture import FlowChoice, Network, describe, flow_row
from tcpf_lab.metrics.device import DeviceOptions, match_captures
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run import pool
from tcpf_lab.spec.words import one_of, parse_dscp
from tcpf_lab.trace.analysis import Analysis, Options, Place, Profile, analyse

if TYPE_CHECKING:
    from tcpf_lab.report.frames.captures import Captures, Device

#: Formats of files, by their suffix; those that are text can be printed too.
FORMATS: tuple[str, ...] = ("json", "jsonl", "csv", "parquet")
PRINTED: tuple[str, ...] = ("table", "json", "jsonl", "csv")
PROFILES: tuple[Profile, ...] = ("linux", "linux-2.2", "rfc6298")
PLACES: tuple[Place, ...] = ("sender", "receiver", "between")
#: What flows can be sorted by: largest first, but for those that tell when or which.
SORTED: tuple[str, ...] = (
    *("flow", "start_s", "duration_s", "packets", "wire_bytes", "data_packets", "payload_bytes"),
    *("acked_bytes", "retransmissions", "timeouts", "syn_timeouts", "timeout_episodes"),
    *("rtt_min_s", "rtt_mean_s", "mss", "dscp"),
)
#: What ``--top`` chooses by without ``--sort``.
TOP_BY = "retransmissions"
#: Names of captures in a directory: packed or not, and numbered as ``tcpdump -C`` does.
_CAPTURE = re.compile(r".*\.(pcap|pcapng|cap)\d*(\.(zst|gz|xz|bz2|lz4))?", re.IGNORECASE)
#: These smallest first.
ASCENDING = ("flow", "start_s")

_Value = TypeVar("_Value", str, int, str | int)


@dataclass(frozen=True)
class CaptureRequest:
    """Which captures, senders and flows to analyse.

    Parameters
    ----------
    paths : tuple of str
        Captures; ``-`` is standard input.
    options : Options
        What is known of the senders, and of where the captures were taken.
    choice : FlowChoice
        Which flows.
    sort : str
        One of ``SORTED``; empty: `order` decides.
    top : int, optional
        So many flows of each capture, the first by `order`; 0 or None: all.  Totals count all.
    events : bool
        Whether the events are wanted, and not only their counts.
    """

    paths: tuple[str, ...]
    options: Options = field(default_factory=Options)
    choice: FlowChoice = field(default_factory=FlowChoice)
    sort: str = ""
    top: int | None = None
    events: bool = False

    @property
    def order(self) -> str:
        """What flows are sorted by: a choice of some without a column takes the most troubled."""
        return self.sort or (TOP_BY if self.top else "")

    @property
    def given(self) -> list[str]:
        """Options that were given, as the command line has them."""
        known = {
            "--sort": self.sort,
            "--top": self.top is not None,
            "--events": self.events,
            "--min-rto": self.options.rto_min_ns,
            "--profile": self.options.profile != Options().profile,
            "--at": self.options.at,
            "--no-probes": not self.options.probes,
        }
        choice = [str(self.choice)] if self.choice else []
        return [*choice, *(name for name, there in known.items() if there)]


def spread(paths: Sequence[str]) -> list[str]:
    """Put the captures in a directory, by name, in its place, unless it is a run; once each.

    A directory without any stays: it may have runs.

    Raises
    ------
    RequestError
        If a directory cannot be listed.
    """
    return list(dict.fromkeys(found for path in paths for found in _inside(path) or [path]))


def is_directory(path: str) -> bool:
    """Tell whether a path is a directory; where nobody may look, opening it says so."""
    return os.path.isdir(path)  # noqa: PTH112 - Path raises there


def _inside(path: str) -> list[str]:
    directory = Path(path)
    if not is_directory(path):
        return []
    try:
        if RunFiles(directory).manifest.exists():
            return []
        files = [file for file in directory.iterdir() if _CAPTURE.fullmatch(file.name)]
        return sorted(str(file) for file in files if file.is_file() or file.is_symlink())
    except OSError as error:
        message = f"the directory cannot be read: {error.strerror}"
        raise RequestError(message, where=path) from None


def choice_of(
    hosts: str | Sequence[str] = (),
    ports: int | Sequence[int] = (),
    dscps: str | int | Sequence[str | int] = (),
    flows: int | Sequence[int] = (),
) -> FlowChoice:
    """Read which flows are wanted; one value stands for a sequence of one.

    Parameters
    ----------
    hosts : sequence of str
        Addresses, or networks as ``10.0.0.0/24``.
    ports : sequence of int
        Ports of either end.
    dscps : sequence of str or int
        Code points, by number or name.
    flows : sequence of int
        Numbers of flows.

    Raises
    ------
    RequestError
        If one is not of this form.
    """
    for port in _several(ports):
        if not str(port).isdecimal() or int(port) > 65535:
            raise RequestError("a port is a number from 0 to 65535", where=f"--port {port}")
    for flow in _several(flows):
        if not str(flow).isdecimal():
            message = "write the number of a flow, counted from 0"
            raise RequestError(message, where=f"--flow {flow}")
    return FlowChoice(
        hosts=tuple(_network(host) for host in _several(hosts)),
        ports=tuple(map(int, _several(ports))),
        dscps=tuple(_dscp(word) for word in _several(dscps)),
        flows=tuple(map(int, _several(flows))),
    )


def _several(given: _Value | Sequence[_Value]) -> tuple[_Value, ...]:
    """Take one value as a sequence of one."""
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def _network(text: str) -> Network:
    """Read an address as tables print it, too; an IPv4 one may be written as IPv6 maps it."""
    try:
        network = ipaddress.ip_network(text.strip("[]"), strict=False)
        mapped = getattr(network.network_address, "ipv4_mapped", None)
        return ipaddress.ip_network(mapped) if mapped and network.prefixlen == 128 else network
    except ValueError:
        message = "write an address or a network, such as 10.0.0.1, 10.0.0.0/24 or 2001:db8::/32"
        raise RequestError(message, where=f"--host {text}") from None


def _dscp(word: str | int) -> int:
    try:
        return parse_dscp(int(word) if str(word).isdecimal() else word)
    except ValueError as error:
        raise RequestError(str(error), where=f"--dscp {word}") from None


def options_of(
    min_rto: str | float | None = None,
    profile: str = "linux",
    at: str | None = None,
    *,
    probes: bool = True,
) -> Options:
    """Read what is known of the senders.

    Parameters
    ----------
    min_rto : str or float, optional
        Minimum RTO, ``200 ms`` or seconds; the profile's own without it.
    profile : str
        One of ``PROFILES``: whose timer.
    at : str, optional
        One of ``PLACES``: where the capture was taken; found from it without this.
    probes : bool
        Whether senders may send tail loss probes.

    Raises
    ------
    RequestError
        If one of them is not allowed.
    """
    one_of(profile, PROFILES, "profile")
    if at is not None:
        one_of(at, PLACES, "place", "--at")
    seconds = 0.0 if min_rto is None else _seconds(min_rto)
    return Options(
        rto_min_ns=round(1e9 * seconds),
        probes=probes,
        profile=cast("Profile", profile),
        at=cast("Place | None", at),
    )


def _seconds(text: str | float) -> float:
    try:
        seconds = parse_duration(text) if isinstance(text, str) else float(text)
    except LabError as error:
        raise RequestError(error.message, where=f"--min-rto {text}") from None
    if not 0 < seconds <= 120:
        message = "the minimum RTO must be more than 0 and at most 120 s"
        raise RequestError(message, where=f"--min-rto {text}")
    return seconds


def printed_of(form: str, *, as_json: bool, written: bool) -> str:
    """Read how it is printed: one of ``PRINTED``.

    Parameters
    ----------
    form : str
        The word behind ``--format``.
    as_json : bool
        Whether ``--json`` was given.
    written : bool
        Whether files are written: then only their names are printed, as lines or as JSON.

    Raises
    ------
    RequestError
        If there is no such form, or it says something else than ``--json`` or the files do.
    """
    one_of(form, PRINTED, "format", "--format")
    if as_json and form not in ("table", "json"):
        message = "contradicts --json; use one of them"
        raise RequestError(message, where=f"--format {form}")
    if written and form not in ("table", "json"):
        message = "sets the format of printed output; a file's suffix sets its format"
        raise RequestError(
            message, where=f"--format {form}", hint=f"write -o FILE.{form}, or omit -o"
        )
    return "json" if as_json else form


def format_of(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """Give the format of a file by its suffix; refuse one that could not be written in the end.

    Parameters
    ----------
    path : Path
        A file that is to be written.
    formats : sequence of str
        What it may be.

    Raises
    ------
    RequestError
        If there is no such format, or no place for it: `making.require_place`.
    """
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in formats:
        message = f"unknown suffix; allowed: {', '.join(f'.{known}' for known in formats)}"
        raise RequestError(message, where=f"-o {path}")
    require_place(path)
    return suffix


#: Told of each file while it is read: how many bytes so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class CaptureResults:
    """What was found, and which captures could not be read; ``rows``: the wanted flows, sorted."""

    request: CaptureRequest
    analyses: tuple[Analysis, ...]
    problems: tuple[LabError, ...] = ()
    rows: tuple[NDArray[np.int64], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Choose the flows."""
        object.__setattr__(
            self, "rows", tuple(_rows(found, self.request) for found in self.analyses)
        )

    @functools.cached_property
    def described(self) -> list[dict[str, Any]]:
        """The captures in words and base units: `tcpf_lab.metrics.capture.describe`."""
        pairs = zip(self.analyses, self.rows, strict=True)
        return [describe(found, rows, top=self.request.top) for found, rows in pairs]

    @functools.cached_property
    def frames(self) -> Captures:
        """The same as frames."""
        from tcpf_lab.report.frames.captures import Captures  # here: pandas takes a while to load

        top = self.request.top or None
        return Captures(self.analyses, tuple(rows[:top] for rows in self.rows))


def analyse_captures(request: CaptureRequest, progress: Progress | None = None) -> CaptureResults:
    """Analyse captures, several at a time; one that cannot be read does not stop the others.

    If no flow of any capture matches, that is a problem too, and there are no results.

    Raises
    ------
    RequestError
        If standard input is named twice.
    """
    if request.paths.count("-") > 1:
        raise RequestError("standard input can be read only once", where="-")
    workers = max(1, min(len(request.paths), pool.cores()))
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as executor:
        warnings.simplefilter(
            "ignore", UserWarning
        )  # a truncated capture is reported with its results
        found = list(executor.map(lambda path: _one(path, request, progress), request.paths))
    analyses = tuple(one for one in found if isinstance(one, Analysis))
    results = CaptureResults(
        request, analyses, tuple(one for one in found if isinstance(one, LabError))
    )
    if request.choice and analyses and not any(map(len, results.rows)):
        return CaptureResults(request, (), (*results.problems, _none(results)))
    return results


def _one(path: str, request: CaptureRequest, progress: Progress | None) -> Analysis | LabError:
    """Analyse one capture, or say in one line why it cannot be read."""
    try:
        return analyse(
            path,
            options=request.options,
            events=request.events,
            progress=functools.partial(progress, path) if progress else None,
        )
    except TraceError as error:
        error.where = error.where or path
        return error


def _rows(found: Analysis, request: CaptureRequest) -> NDArray[np.int64]:
    """Numbers of the wanted flows, in the wanted order."""
    rows = request.choice.rows(found)
    if by := request.order:
        values = np.array([_number(flow_row(found, int(row))[by]) for row in rows])
        rows = rows[np.argsort(values if by in ASCENDING else -values, kind="stable")]
    return rows


def _number(value: float | None) -> float:
    return -np.inf if value is None else float(value)


def _none(results: CaptureResults) -> RequestError:
    """Return the error for no matching flow, with what the captures have."""
    flows = np.concatenate([found.flows for found in results.analyses])
    if not flows.size:
        return RequestError("the capture has no TCP flow", where=str(results.request.choice))
    ports = sorted({int(port) for name in ("sport", "dport") for port in flows[name]})
    shown = ", ".join(map(str, ports[:8])) + (", ..." if len(ports) > 8 else "")
    last = max(found.flows.size for found in results.analyses) - 1
    codes = ", ".join(str(code) for code in np.unique(flows["dscp"][flows["dscp"] >= 0]))
    several = f"none of the {flows.size} flows matches"
    return RequestError(
        several if flows.size > 1 else "the only flow does not match",
        where=str(results.request.choice),
        hint=f"the capture has ports {shown}; code points {codes or 'none'}; "
        + (f"flows 0 to {last}" if last else "flow 0"),
    )


def content(results: CaptureResults, form: str) -> str | bytes:
    """Return the results in one of the ``FORMATS``: flows, or events if requested."""
    if form == "json":
        return json.dumps(document(results), indent=1) + "\n"
    from tcpf_lab.report.frames.captures import written

    return written(results.frames, form, events=results.request.events)


def document(results: CaptureResults) -> dict[str, list[dict[str, Any]]]:
    """Give what was found as JSON has it: each capture with its flows, and with its events."""
    if not results.request.events:
        return {"captures": results.described}
    from tcpf_lab.report.frames.captures import event_lists

    together = zip(results.described, event_lists(results.frames), strict=True)
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
        Minimum RTO of the senders, ``"200 ms"`` or seconds; the profile's own without it.
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
        If a capture cannot be read, or no flow matches.

    Examples
    --------
    >>> import tcpf_lab
    >>> found = tcpf_lab.analyze("S.pcap", min_rto="200 ms")  # doctest: +SKIP
    >>> found.events.query("kind == 'rto'").groupby("flow").size()  # doctest: +SKIP
    """
    if not paths:
        hint = 'name one or more: tcpf_lab.analyze("S.pcap")'
        raise RequestError("no capture to analyse", hint=hint)
    options = options_of(min_rto, profile, at, probes=probes)
    names = tuple(spread(list(map(str, paths))))
    choice = choice_of(host, port, dscp, flow)
    results = analyse_captures(CaptureRequest(names, options, choice, events=True))
    if results.problems:
        raise results.problems[0]
    return results.frames


#: Default longest delay in the device, and default interval of loss over time.
MAX_DELAY, BIN = "2 s", "1 s"


def device(
    before: Path | str,
    after: Path | str,
    *,
    offset: str | None = None,
    max_delay: str = MAX_DELAY,
    start: str | None = None,
    end: str | None = None,
    bin: str = BIN,  # noqa: A002 - the option of the command line
) -> Device:
    """Measure loss and delay of a device from captures before and after it.

    Parameters
    ----------
    before, after : Path or str
        The captures: of what enters, of what leaves.
    offset : str, optional
        What the second capture's clock shows more, ``0`` for one clock; None: it is found out, and
        the minimum delay counts 0.
    max_delay : str
        Longest possible delay in the device.
    start, end : str, optional
        Only packets that come from then until before then, after the first one: ``--from`` and
        ``--to`` of the command line.
    bin : str
        Interval of loss over time.

    Returns
    -------
    Device
        Frames `packets`, `flows`, `by_dscp`, `over_time`; the rest is in `described`.

    Raises
    ------
    RequestError
        If a time is none, or not allowed.
    TraceError
        If a capture cannot be read, nothing of the first is in the second, or no packet of the
        requested time can be matched.
    """
    from tcpf_lab.report.frames.captures import Device  # here: pandas takes a while to load

    return Device(match_captures(before, after, device_options(offset, max_delay, start, end, bin)))


def device_options(
    offset: str | None = None,
    max_delay: str = MAX_DELAY,
    start: str | None = None,
    end: str | None = None,
    part: str = BIN,
) -> DeviceOptions:
    """Read what is known of the device, and which packets count.

    Parameters
    ----------
    offset, max_delay, start, end, part : str
        As `device` takes them, ``part`` for its ``bin``.

    Raises
    ------
    RequestError
        If one is no time or too short, or the end is not after the start.
    """
    first = None if start is None else nanoseconds(start, "--from")
    last = None if end is None else nanoseconds(end, "--to", least=1)
    if first is not None and last is not None and first >= last:
        message = "--to must be later than --from"
        raise RequestError(message, where=f"--from {start} --to {end}")
    return DeviceOptions(
        max_delay_ns=nanoseconds(max_delay, "--max-delay", least=1),
        offset_ns=None if offset is None else nanoseconds(offset, "--offset", signed=True),
        from_ns=first,
        to_ns=last,
        bin_ns=nanoseconds(part, "--bin", least=1_000),
    )


def nanoseconds(text: str | float, option: str, *, signed: bool = False, least: int = 0) -> int:
    """Read a time such as ``1.5 s`` or, if it may have a sign, ``-3 h``; plain 0 is allowed.

    Raises
    ------
    RequestError
        If it is no time, or less than `least`.
    """
    word, where = str(text).strip(), f"{option} {text}"
    minus = signed and word.startswith("-")
    digits = word[1:].strip() if minus or (signed and word.startswith("+")) else word
    try:
        value = 0 if digits == "0" else round(1e9 * parse_duration(digits))
    except UnitError as error:
        what, _, advice = error.message.partition("; ")
        raise RequestError(what, where=where, hint=advice) from None
    if value < least:
        message = f"must be at least {least} ns"
        raise RequestError(message, where=where, hint="write a time such as 200 ms")
    return -value if minus else value

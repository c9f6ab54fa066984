"""What was asked to be drawn, read from words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tcpf_lab.errors import RequestError
from tcpf_lab.trace.analysis import Options
from tcpf_lab.units import parse_duration

#: What a word ends in that can only mean a capture, packed or not.
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap)(\.(gz|zst|xz))?$", re.IGNORECASE)


@dataclass(frozen=True)
class FigureAsked:
    """What was asked to be drawn.

    ``what`` are experiments, collections, runs or directories with runs; or captures, whose senders
    are as ``options`` say. ``case``, ``flows`` and ``seed`` are comma-separated lists that hold for
    all runs; ``testbed``, ``results``, ``only``, ``seeds`` and ``overrides`` choose runs of
    experiments.
    """

    what: tuple[str, ...]
    case: str | None = None
    flows: str | None = None
    seed: str | None = None
    include_invalid: bool = False
    testbed: str = "uml"
    results: Path = Path("results")
    only: tuple[str, ...] = ()
    seeds: int | None = None
    overrides: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def captures(self) -> list[str]:
        """Those of ``what`` that are captures: files that no experiment stands in."""
        return [
            word
            for word in self.what
            if Path(word).is_file() and Path(word).suffix not in (".yaml", ".yml")
        ]

    def refuse_missing_captures(self) -> None:
        """Refuse words that mean a capture where there is none.

        Raises
        ------
        RequestError
            If a word is ``-``, or names no file and ends as captures do.
        """
        for word in self.what:
            if word == "-":
                message = "figures read a capture twice, which standard input is not"
                raise RequestError(message, where="-", hint="save it in a file first")
            if _CAPTURE.search(word) and not Path(word).exists():
                raise RequestError("no such capture", where=word)

    @property
    def filters(self) -> dict[str, str]:
        """The lists that were given, by their key."""
        given = {"case": self.case, "flows": self.flows, "seed": self.seed}
        return {key: value for key, value in given.items() if value is not None}


def parse_time(text: str | None) -> tuple[float, float] | None:
    """Read ``20..30`` or ``20 s..1 min``, seconds after the start of the run.

    Raises
    ------
    RequestError
        If it is not of that form, or ends before it starts.
    """
    if text is None:
        return None
    first, dots, last = text.partition("..")
    try:
        start, end = (_seconds(part.strip()) for part in (first, last))
    except (RequestError, ValueError):
        dots = ""
    if not dots or start >= end:
        message = "write FROM..TO in seconds after the start of the run, as 20..30"
        raise RequestError(message, where=f"--time {text}")
    return start, end


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else parse_duration(text)


def parse_flows(text: str | None) -> tuple[int, ...]:
    """Read a list of flows, ``3`` or ``0,3,7``.

    Raises
    ------
    RequestError
        If one is no whole number.
    """
    words = [word.strip() for word in text.split(",")] if text is not None else []
    if not all(word.isdecimal() for word in words):
        message = "write the numbers of flows, counted from 0, as 3 or 0,3,7"
        raise RequestError(message, where=f"--flow {text}")
    return tuple(map(int, dict.fromkeys(words)))

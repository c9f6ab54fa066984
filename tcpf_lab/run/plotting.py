"""What to draw: runs of experiments that are complete, runs in a directory, or captures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.base.units import parse_duration
from tcpf_lab.report.export.tidy import base_value
from tcpf_lab.report.plots.kinds import KINDS, Kind, Subject
from tcpf_lab.report.plots.runs import DrawnCapture, DrawnRun, read_run
from tcpf_lab.report.style import CASES
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import PARTIAL, RunFiles
from tcpf_lab.run.runner import State
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.spec.axis import shown
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.words import one_of
from tcpf_lab.trace.analysis import Options

#: What a word ends in that can only mean a capture, packed or not.
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap)(\.(gz|zst|xz))?$", re.IGNORECASE)


@dataclass(frozen=True)
class FigureRequest:
    """What to draw.

    ``what`` are experiments, collections, runs or directories with runs; or captures, whose senders
    are as ``options`` say. ``filters`` are comma-separated lists, by their key of ``case``,
    ``flows`` and ``seed``, that hold for all runs; ``request`` chooses among the runs of each
    experiment, and names none itself.
    """

    what: tuple[str, ...]
    filters: Mapping[str, str] = field(default_factory=dict)
    include_invalid: bool = False
    request: RunRequest = field(default_factory=lambda: RunRequest(""))
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
                message = "a figure reads a capture twice; standard input can be read only once"
                raise RequestError(message, where="-", hint="save the capture to a file first")
            if _CAPTURE.search(word) and not Path(word).exists():
                raise RequestError("no such capture", where=word)

    def runs_of(self, spec: str) -> RunRequest:
        """Say which runs of an experiment are drawn, the lists included."""
        lists = (f"{key}={value}" for key, value in self.filters.items())
        return replace(self.request, spec=spec, only=(*self.request.only, *lists))

    @property
    def choosing(self) -> str | None:
        """Give the first option that chooses among the runs of an experiment, if any does."""
        return next(iter(self.request.given), None)


def parse_time(text: str) -> tuple[float, float]:
    """Read ``20..30`` or ``20 s..1 min``, seconds after the start of the run.

    Raises
    ------
    RequestError
        If it is not of that form, or ends before it starts.
    """
    first, dots, last = text.partition("..")
    try:
        start, end = (_seconds(part.strip()) for part in (first, last))
    except (RequestError, ValueError):
        dots = ""
    if not dots or start >= end:
        message = "write FROM..TO in seconds after the start of the run, such as 20..30"
        raise RequestError(message, where=f"--time {text}")
    return start, end


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else parse_duration(text)


def parse_flows(text: str) -> tuple[int, ...]:
    """Read a list of flows, ``3`` or ``0,3,7``.

    Raises
    ------
    RequestError
        If one is no whole number.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        message = "write the numbers of flows, counted from 0, such as 3 or 0,3,7"
        raise RequestError(message, where=f"--flow {text}")
    return tuple(map(int, dict.fromkeys(words)))


#: A run, what it was made from, and all cases of its experiment.
_Found = tuple[RunFiles, Experiment, tuple[str, ...]]


@dataclass(frozen=True)
class Gathered:
    """What to draw, and how many other runs there are for each reason."""

    subjects: tuple[Subject, ...]
    left_out: Counter[str]

    @property
    def runs(self) -> list[DrawnRun]:
        """Those that are runs."""
        return [subject for subject in self.subjects if isinstance(subject, DrawnRun)]

    @property
    def captures(self) -> list[DrawnCapture]:
        """Those that are captures."""
        return [subject for subject in self.subjects if isinstance(subject, DrawnCapture)]

    @property
    def remark(self) -> str:
        """What was left out: ``left out: 2 missing, 1 invalid``; empty if nothing was."""
        return f"left out: {_counts(self.left_out)}" if self.left_out else ""


def _counts(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))


def gather(request: FigureRequest, kind: Kind) -> Gathered:
    """Find the runs and read their numbers, or take the captures.

    Raises
    ------
    LabError
        If there is none to draw, one is there twice, an experiment or a run cannot be read, a
        filter matches none, or the kind cannot be drawn of captures.
    """
    if kind.captures:
        request.refuse_missing_captures()
    if request.captures:
        _refuse_captures(request, kind)
        captures = (DrawnCapture(Path(word), request.options) for word in request.captures)
        return Gathered(tuple(captures), Counter())
    if request.options != Options():
        raise RequestError(
            "apply to captures only; a run records its senders",
            where="--min-rto, --profile, --at, --no-probes",
        )
    left_out: Counter[str] = Counter()
    found: dict[Path, DrawnRun] = {}
    directories = [word for word in request.what if Path(word).is_dir()]
    _refuse_useless(request, directories)
    for word in request.what:
        source = _in_directory if word in directories else _of_experiment
        for files, experiment, cases in source(word, request, left_out):
            run = read_run(files, experiment, cases)
            if run.valid or request.include_invalid:
                found[files.root.resolve()] = run
            else:
                left_out["invalid"] += 1
    if not found:
        raise _nothing(request, directories, left_out)
    _refuse_copies(found.values())
    return Gathered(tuple(found.values()), left_out)


def _refuse_captures(request: FigureRequest, kind: Kind) -> None:
    """Refuse captures where runs are needed, and options that choose among runs."""
    first = request.captures[0]
    if not kind.captures:
        takers = ", ".join(other.name for other in KINDS.values() if other.captures)
        raise RequestError(
            f"is a capture, but {kind.name} draws runs",
            where=first,
            hint=f"figures of captures: {takers}",
        )
    others = [word for word in request.what if word not in request.captures]
    if others:
        message = f"is a capture, but {others[0]} is not: draw one or the other"
        raise RequestError(message, where=first)
    filters = [f"--{key}" for key, value in request.filters.items() if value]
    if option := next(iter(filters), request.choosing):
        raise RequestError("selects runs; it does not apply to a capture", where=option)


def _refuse_copies(runs: Iterable[DrawnRun]) -> None:
    """Refuse a run that was made twice: it would count as two seeds do."""
    seen: dict[tuple[object, ...], DrawnRun] = {}
    for run in runs:
        first = seen.setdefault((run.cell, run.seed), run)
        if first is not run:
            raise RequestError(
                f"is the same run as {first.files.root}; it would count twice",
                where=str(run.files.root),
                hint="name the directory of one of them",
            )


def _refuse_useless(request: FigureRequest, directories: Sequence[str]) -> None:
    if len(directories) < len(request.what):
        return
    if request.choosing:
        raise RequestError(
            "selects runs of an experiment; it does not apply to a directory",
            where=request.choosing,
            hint="use --case, --flows or --seed",
        )


def _of_experiment(word: str, request: FigureRequest, left_out: Counter[str]) -> Iterator[_Found]:
    if Path(word).is_fifo():
        raise RequestError(
            "is a pipe or a device; a figure reads a capture twice",
            where=word,
            hint="name the file of the capture; compressed files are read directly",
        )
    try:
        choice = choose(request.runs_of(word))
    except RequestError as error:
        raise _as_typed(error, request) from None
    for part, states in choice.states():
        for run, now in states:
            if now.state is State.COMPLETE:
                yield part.files.run(run.id), run.experiment, tuple(part.experiment.cases)
            else:
                left_out[now.state.value] += 1


def _as_typed(error: RequestError, request: FigureRequest) -> RequestError:
    """Give an error of ``--only case=X`` as one of ``--case X``, which it came from."""
    for key, value in request.filters.items():
        if error.where == f"--only {key}={value}":
            return RequestError(error.message, where=f"--{key} {value}", hint=error.hint)
    return error


def _in_directory(word: str, request: FigureRequest, left_out: Counter[str]) -> Iterator[_Found]:
    """Yield the runs at or below a directory, cases as the papers have them, axes upwards."""
    specs = sorted(Path(word).rglob("run.yaml"))
    there = [RunFiles(path.parent) for path in specs if not path.parent.name.endswith(PARTIAL)]
    analysed = [files for files in there if files.metrics.exists()]
    left_out["unfinished"] += len(specs) - len(there)
    left_out["without metrics.json"] += len(there) - len(analysed)
    left_out += Counter()  # forgets what is 0
    runs = [(files, load(files.spec)) for files in analysed]
    cases = tuple(dict.fromkeys(experiment.selected_cases[0] for _, experiment in runs))
    for files, experiment in _filtered(sorted(runs, key=lambda run: _place(run[1])), request):
        yield files, experiment, cases


def _place(experiment: Experiment) -> tuple[object, ...]:
    """Where a run stands among others: words of an axis after its numbers."""
    case = experiment.selected_cases[0]
    rank = list(CASES).index(case) if case in CASES else len(CASES)
    settings = []
    for axis in experiment.matrix.axes:
        value, _ = base_value(shown(axis.values[0]))
        settings.append((axis.key, isinstance(value, str), value))
    return experiment.name, rank, case, settings, experiment.matrix.flows, experiment.matrix.seed


#: What a filter compares, as text, by its key.
_WORDS: dict[str, Callable[[Experiment], str]] = {
    "case": lambda experiment: case_slug(experiment.selected_cases[0]),
    "flows": lambda experiment: str(experiment.matrix.flows[0]),
    "seed": lambda experiment: str(experiment.matrix.seed[0]),
}


def _filtered(
    runs: Sequence[tuple[RunFiles, Experiment]], request: FigureRequest
) -> Iterator[tuple[RunFiles, Experiment]]:
    wanted: dict[str, set[str]] = {}
    for key, text in request.filters.items():
        words = [word.strip() for word in text.split(",")]
        known = dict.fromkeys(_WORDS[key](experiment) for _, experiment in runs)
        wanted[key] = {case_slug(word) if key == "case" else word for word in words}
        for word in sorted(wanted[key] - set(known)) if runs else ():
            one_of(word, known, key, f"--{key} {text}")
    for files, experiment in runs:
        if all(_WORDS[key](experiment) in words for key, words in wanted.items()):
            yield files, experiment


def _nothing(
    request: FigureRequest, directories: Sequence[str], left_out: Counter[str]
) -> LabError:
    """Return the error for nothing to draw, with the command that helps."""
    message = f"no run to draw: {_counts(left_out) or 'there is none'}"
    specs = [word for word in request.what if word not in directories]
    if left_out["invalid"]:
        hint = "`--include-invalid` includes runs that failed a check"
    elif specs:
        hint = f"`{command('run', *request.runs_of(specs[0]).words())}`"
    elif left_out["without metrics.json"]:
        again = "; ".join(command("analyze", Path(word)) for word in request.what)
        hint = f"`{again}`, if captures were stored"
    else:
        hint = "name the directory of a run, or one that holds runs, such as results/smoke/uml"
    return LabError(message, where=" ".join(request.what), hint=hint)

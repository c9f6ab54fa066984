"""Output of the command line: tables, progress, JSON."""

from __future__ import annotations

import functools
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from tcpf_lab.base.errors import InterruptedRunError, KernelAbsentError, legible
from tcpf_lab.cli.main import echo

if TYPE_CHECKING:
    from tcpf_lab.report.document import Report
    from tcpf_lab.report.table import TerminalTable
    from tcpf_lab.run.runner import Event
    from tcpf_lab.run.selection import Choice
    from tcpf_lab.testbed.base import Check, Testbed
    from tcpf_lab.testbed.uml.kernel import Kernel


#: Columns of a terminal that has room for a bar.
_WITH_BAR = 72


def run_progress(console: Console) -> Progress:
    """Return the progress display of runs: done, total and time left."""
    return _progress(console, MofNCompleteColumn())


def share_progress(console: Console) -> Progress:
    """Return the progress display of one long step, such as a build, in percent."""
    return _progress(console, TextColumn("{task.percentage:>3.0f} %"))


def _progress(console: Console, how_far: ProgressColumn) -> Progress:
    # A name that has no room is folded, like the values of tables.
    name = TextColumn(
        "{task.description}", markup=False, table_column=Column(overflow="fold", no_wrap=False)
    )
    if console.width < _WITH_BAR:
        return Progress(name, how_far, TimeElapsedColumn(), console=console)
    return Progress(
        SpinnerColumn(),
        name,
        BarColumn(),
        how_far,
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


#: Failures that are shown with their log's last lines; of the others only the first line.
SHOWN_IN_FULL = 3
#: Bytes of captures from which on it is worth showing how far they have been read.
LARGE = 20_000_000
#: From so many seconds on a step is worth a line where there is no terminal.
LONG_S = 10.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_SAME_INTERRUPT_S = 0.5


#: Columns of what is no terminal: more than any table needs.
_UNBOUNDED = 100_000
#: Columns and lines of a terminal that does not report them.
_COLUMNS, _LINES = 80, 25


class _Harmless(Console):
    """Prints control characters of names and texts as escapes.

    In a file or a pipe a table takes the width it needs.
    """

    @property  # type: ignore[misc]  # nobody sets the size of a terminal
    def size(self) -> ConsoleDimensions:
        """Give the size of the terminal, of a dumb one too; ``COLUMNS`` overrides its width."""
        if not self.file.isatty():
            return ConsoleDimensions(_UNBOUNDED, _LINES)
        given = os.environ.get("COLUMNS", "")
        size = os.get_terminal_size(self.file.fileno())
        columns = int(given) if given.isdecimal() else size.columns
        return ConsoleDimensions(columns or _COLUMNS, size.lines or _LINES)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else legible(text), style, control)


_out = _Harmless()
#: FORCE_COLOR, which notebooks set, asks for colours in a pipe, not for pictures that move.
_err = _Harmless(stderr=True, force_interactive=None if sys.stderr.isatty() else False)


def show(what: RenderableType) -> None:
    """Print a table."""
    _out.print(what)


def complain(text: str) -> None:
    """Print an error on standard error."""
    _err.print(text, style="bold red", markup=False)


def print_json(value: Any) -> None:
    """Print JSON."""
    echo(json.dumps(value, indent=1, default=str))


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Show a long step on standard error; without a terminal, after ``LONG_S``."""
    if _err.is_terminal:
        with _err.status(text):
            yield
        return
    late = threading.Timer(LONG_S, notify, (text,))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()  # a process that is forked next must not find it at work


def show_report(report: Report) -> None:
    """Print a report's tables, the runs left out, and the files written."""
    from tcpf_lab.report.claims.page import for_terminal
    from tcpf_lab.report.compare.factors import (
        terminal_factors,  # here and below: see `analyze_verbs`
    )
    from tcpf_lab.report.results_table import terminal_table

    for part in for_terminal(report.opening) if report.opening else ():
        show(part)
    if any(section.source.factor for section in report.sections):
        show(terminal_factors(report.sections))
    else:
        for section in report.sections:
            show(terminal_table(section.results, section.source.title))
    for page in report.printed:
        for part in for_terminal(page):
            show(part)
    for problem in report.left_out:
        _err.print(f"left out: {problem}", style="yellow", markup=False, highlight=False)
    show_written(report.written)


def show_written(paths: Iterable[Path]) -> None:
    """Print a line per report, and the number of figures and of other files."""
    every = list(paths)
    groups: dict[tuple[str, Path], list[Path]] = {}
    for path in every:
        groups.setdefault((_kind(path, every), path.parent), []).append(path)
    for (kind, directory), members in groups.items():
        if len(members) > 1 and kind not in _REPORTS:
            echo(f"{kind}: {len(members)} files in {legible(str(directory), keep='')}")
        else:
            for path in members:
                echo(path)


#: Suffixes of reports.
_REPORTS = ("html", "pdf", "md")


def _kind(path: Path, others: Sequence[Path]) -> str:
    """Give ``figures``, or the suffix of a path; a PDF that is an SVG too is a figure."""
    suffix = path.with_suffix("" if path.suffix == ".gz" else path.suffix).suffix[1:]
    figure = suffix in ("svg", "png") or (suffix == "pdf" and path.with_suffix(".svg") in others)
    return "figures" if figure else suffix


def event_line(event: Event, *, in_full: bool = True) -> Text | None:
    """Return a line about a run that failed or is not valid."""
    if event.kind == "failed":
        detail = event.detail if in_full else event.detail.partition("\n")[0]
        return Text.assemble(("failed: ", "bold red"), detail)
    if event.kind in ("finished", "analysed") and not event.valid:
        return Text.assemble(
            ("not valid: ", "bold yellow"),
            f"{event.run.experiment.name}/{event.run.id}: {event.detail}",
        )
    return None


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int | None = None
) -> TerminalTable:
    """Return a table of text without decoration; keys in its headings break behind their dots.

    Columns from ``numbers`` on are numbers, and those before name the row.
    """
    from tcpf_lab.report.table import Column, plain, table_of

    split = len(columns) if numbers is None else numbers
    texts = [Column(name, fit="folded") for name in columns[:split]]
    every = (*texts, *(Column(name, "number") for name in columns[split:]))
    return plain(table_of("", "", every, rows))


def drive(
    choice: Choice,
    testbed: Testbed,
    *,
    jobs: int,
    keep_pcaps: bool,
    force: bool,
    cluster: str | None = None,
    events: list[Event] | None = None,
) -> list[Event]:
    """Make the runs of ``choice`` with a progress display; return how each ended.

    An interrupt leaves in ``events``, if that is given, how those ended that had until then.
    """
    from tcpf_lab.run import runner

    events = [] if events is None else events
    failures = 0
    with interruptible(), _executor(choice, testbed, jobs, cluster) as executor:
        happening = runner.run_all(
            *(choice.runs, testbed, choice.results, executor), keep_pcaps=keep_pcaps, force=force
        )
        with run_progress(_err) as progress:
            task = progress.add_task(choice.name, total=len(choice.runs))
            for event in happening:
                events.append(event)
                progress.advance(task)
                failures += event.kind == "failed"
                if line := event_line(event, in_full=failures <= SHOWN_IN_FULL):
                    progress.console.print(line, highlight=False)
    return events


@contextmanager
def _executor(
    choice: Choice, testbed: Testbed, jobs: int, cluster: str | None
) -> Iterator[Executor]:
    """Yield the executor of runs: local processes, or a cluster."""
    from tcpf_lab.run import campaign, pool

    if cluster is not None:
        from tcpf_lab.run.cluster.executor import cluster_executor  # here: Dask takes a while

        with cluster_executor(cluster, testbed, campaign.samples(choice), _warn) as workers:
            yield workers
        return
    at_a_time = min(jobs or pool.cores(), len(choice.runs)) if testbed.parallel else 1
    with pool.local_pool(at_a_time) as processes:
        yield processes


def notify(text: str) -> None:
    """Print a step of progress on standard error."""
    _err.print(text, markup=False, highlight=False)


def _warn(text: str) -> None:
    """Print a warning on standard error."""
    _err.print(text, style="yellow", markup=False, highlight=False)


_warn_once = functools.cache(_warn)


class Announcer:
    """A `Progress` that prints every new phase with the time since the start, on standard error."""

    def __init__(self, noun: str = "") -> None:
        self.noun = noun
        self.began = time.monotonic()
        self.last = ""

    def __call__(self, phase: str, _share: float) -> None:
        """Print a phase if it is not the last one."""
        if phase != self.last:
            self.last = phase
            notify(f"{time.monotonic() - self.began:6.1f} s  {self.noun}{phase}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn Ctrl-C, and a request to terminate, into an error with a hint.

    A second one that comes right behind the first is the same one: who ends a session, or a batch
    job, sends several.  An exception amid the handling of another would break locks.
    """
    latest = -math.inf

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal latest
        again, latest = time.monotonic() - latest < _SAME_INTERRUPT_S, time.monotonic()
        if not again:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _INTERRUPTS}
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        # What is called from C may make another exception of the interrupt.
        if latest == -math.inf and not isinstance(error, KeyboardInterrupt):
            raise
        raise InterruptedRunError(
            "interrupted; complete runs remain", hint="repeat the command to continue"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_kernel(source: Path | None, variant: str = "standard", version: str = "") -> Kernel:
    """Build the kernel with a progress display; without source that of the version is fetched."""
    from tcpf_lab.testbed.uml import source as uml_source

    return building(lambda progress: uml_source.build(version, source, progress, variant))


def building(built: Callable[[Callable[[str, float], None]], Kernel]) -> Kernel:
    """Build a kernel with a progress display."""
    if not _err.is_terminal:
        return built(Announcer("kernel: "))
    with share_progress(_err) as progress:
        task = progress.add_task("kernel", total=1.0)

        def show(phase: str, share: float) -> None:
            progress.update(task, description=f"kernel: {phase}", completed=share)

        return built(show)


def ensure_kernel(choice: Choice) -> None:
    """Build the kernel or boot the guests if the testbed needs them."""
    from tcpf_lab.plan.compose import compose
    from tcpf_lab.run import campaign
    from tcpf_lab.testbed import registry
    from tcpf_lab.testbed.uml import kernel, preflight, recipe, registered

    if choice.testbed_name == registry.VM:
        from tcpf_lab.testbed.vm import guests

        guests.ensure_up(Announcer())
    if choice.testbed_name != "uml":
        return
    kernels = dict.fromkeys(run.experiment.kernel or "" for run in choice.runs)
    for wanted in kernels:
        if registered.is_name(wanted):
            _ensure_registered(wanted)
            continue
        needed = recipe.load(version=wanted)
        if kernel.find(recipe=needed) is None:
            for problem in kernel.damaged(recipe=needed):
                complain(f"kernel {problem}; it is built again")
            build_kernel(None, version=wanted)
    versions = {wanted: registered.require(wanted).version for wanted in kernels}
    for run in campaign.samples(choice):
        text = preflight.effect_problem(compose(run), versions[run.experiment.kernel or ""])
        if text:
            _warn_once(text)


def on_available_kernel(choice: Choice) -> Choice:
    """Build what kernels the runs need; a shipped experiment takes another if its own is absent."""
    from tcpf_lab.base import shipped
    from tcpf_lab.run.selection import choose
    from tcpf_lab.testbed.uml import registered

    try:
        ensure_kernel(choice)
    except KernelAbsentError as absent:
        wanted = {run.experiment.kernel for run in choice.runs}
        ours = choice.source.resolve().is_relative_to(shipped.directory("experiments"))
        other = registered.at_hand() if ours and len(wanted) == 1 else None
        if other is None or wanted == {other}:
            raise
        setting = f"kernel='{other}'"
        _warn(f"{absent.message}: {choice.name} runs on kernel '{other}', as with --set {setting}")
        request = replace(choice.request, overrides=(*choice.request.overrides, setting))
        choice = choose(request)
        ensure_kernel(choice)
    return choice


def _ensure_registered(name: str) -> None:
    """Build a registered kernel, and say so, if its source or what is added to it has changed."""
    from tcpf_lab.testbed.uml import kernel, registered
    from tcpf_lab.testbed.uml import source as uml_source

    order = registered.look(registered.get(name))
    built = kernel.entry_of(order)
    if built is None:
        found = f"{order.source.version}, {order.source.described}"
        notify(f"kernel '{name}' is new or has changed: building {found}")
        built = building(lambda progress: uml_source.build_order(replace(order, progress=progress)))
    registered.remember(name, order, built)


def check_table(checks: Sequence[Check]) -> TerminalTable:
    """Return the doctor's checks, with a column for fixes if any failed."""
    failed = not all(check.ok for check in checks)
    rows = [
        (
            *("ok" if check.ok else "FAULT", check.name, check.detail),
            *("" if check.ok else check.fix,) * failed,
        )
        for check in checks
    ]
    return plain_table(("", "check", "found", *("fix",) * failed), rows)


@contextmanager
def reading(paths: Sequence[str]) -> Iterator[Callable[[str, int], None] | None]:
    """Show the progress of reading large files; yield a function that updates it, or None."""
    # Path raises where nobody may look.
    read = {path: 0 for path in paths if os.path.isfile(path)}  # noqa: PTH113
    total = sum(Path(path).stat().st_size for path in read)
    if total < LARGE or not _err.is_terminal:
        text = "reading captures; their analysis is compiled once"
        with nullcontext() if _err.is_terminal else busy(text):
            yield None
        return
    with share_progress(_err) as progress:
        task = progress.add_task("reading", total=float(total))

        def advance(path: str, so_far: int) -> None:
            if so_far - read.get(path, so_far) >= total // 200:  # called every few packets
                read[path] = so_far
                progress.update(task, completed=float(sum(read.values())))

        yield advance
        progress.update(task, completed=float(total))

"""The command line: its verbs, each in a module that is imported when it is called.

Together they import for seconds; the list of them, or a plan, does not wait for that.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import tcpf_lab
from tcpf_lab import command_line
from tcpf_lab.errors import InterruptedRunError, RequestError, require_memory


class Verb(NamedTuple):
    """Where a verb is, and what the list of all says of it: its own description's first line."""

    module: str
    member: str  #: a function, or a command line of its own
    about: str
    memory_mb: int = 1000  #: of address space, to load what it needs and compile the analysis


VERBS = {
    "run": Verb(
        "experiment_verbs",
        "run",
        "Run an experiment or a collection; complete runs are skipped.  Ends with the report.",
    ),
    "plan": Verb(
        "plan_verbs",
        "plan",
        "Print the commands of the first run (all that differ only in the seed are alike).",
        memory_mb=64,
    ),
    "compare": Verb(
        "experiment_verbs",
        "compare",
        "Hold what was measured against what was published, or against another testbed.",
    ),
    "calibrate": Verb(
        "calibrate_verbs",
        "calibrate",
        "Search for settings that give published numbers; goes on where it was interrupted.",
    ),
    "status": Verb(
        "results_verbs",
        "status",
        "List experiments, or the runs of one: complete, stale, failed, missing; and their sizes.",
    ),
    "analyze": Verb(
        "analyze_verbs",
        "analyze",
        "Say how TCP recovered from loss in captures, or rebuild the metrics of runs.",
    ),
    "crossing": Verb(
        "crossing_verbs",
        "crossing",
        "Say what a box did to packets, from captures on both of its sides.",
    ),
    "report": Verb(
        "report_verbs",
        "report",
        "Write the report of an experiment or a collection from the runs there are.",
    ),
    "plot": Verb(
        "plot_verbs",
        "app",
        "Draw a figure of runs: of experiments, or in directories; or of captures.",
    ),
    "doctor": Verb(
        "host_verbs",
        "doctor",
        "Check everything that a testbed needs, and name the command that mends what is wrong.",
        memory_mb=250,
    ),
    "clean": Verb(
        "host_verbs",
        "clean",
        "Remove what failed and interrupted runs have left: here, or on the hosts of a testbed.",
        memory_mb=250,
    ),
    "migrate": Verb(
        "results_verbs",
        "migrate",
        "Bring runs that an earlier version has made to the present format of run directories.",
    ),
    "schema": Verb(
        "plan_verbs",
        "schema",
        "Print the JSON Schema of experiment files, or of inventories.",
        memory_mb=64,
    ),
    "kernel": Verb("kernel_verbs", "app", "The virtual-time kernel: build, path.", memory_mb=64),
    "model": Verb("model_verbs", "app", "Analytic models: rio."),
    "vm": Verb(
        "vm_verbs",
        "app",
        "Two virtual machines as hosts for a testbed: up, ssh, down, status.",
        memory_mb=250,
    ),
}


def load(name: str) -> Any:
    """Import a verb and make a command of it, of a type that typer has not made public."""
    verb = VERBS[name]
    require_memory(verb.memory_mb, f"tcpf-lab {name}")
    app = member = getattr(import_module(f"tcpf_lab.{verb.module}"), verb.member)
    if not isinstance(member, typer.Typer):
        app = command_line.new_app()
        app.command(name)(member)
    return typer.main.get_command(app)


def _refuse_empty(words: list[str]) -> None:
    """Refuse a path, or any value, that is empty: as a path it would be the current directory."""
    for before, word in pairwise(words):
        option, equals, value = word.partition("=")
        if not word or (option.startswith("--") and equals and not value):
            raise RequestError("an empty word is no path and no value", where=option or before)


class Verbs(TyperGroup):
    """All verbs: to list them, what is said here is enough."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb that is called, and import it now."""
        name, found, rest = super().resolve_command(ctx, args)
        if name != "vm":  # which hands words on to a host
            _refuse_empty([f"tcpf-lab {name}", *rest])
        return name, load(name) if name else found, rest

    def invoke(self, ctx: Any) -> Any:
        """Carry the verb out; typer would end an interrupt without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedRunError("interrupted") from None


app = command_line.new_app(Verbs)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcpf-lab {tcpf_lab.__version__}")
        raise typer.Exit


@app.callback()
def common(
    _version_option: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that belong to no verb."""


def _listed() -> None:
    """Stand for a verb that was not imported."""


for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.about)(_listed)


def main() -> None:
    """Run the command line; a user's mistake ends in a message, never in a traceback."""
    command_line.run(app)

"""The command line: its verbs, each in a module that is imported when it is called.

Together they import for seconds; the list of them, or a plan, does not wait for that.
"""

from __future__ import annotations

import csv
import shutil
import sys
import traceback
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

import tcpf_lab
from tcpf_lab.base.errors import (
    InterruptedRunError,
    LabError,
    RequestError,
    legible,
    out_of_memory,
    require_memory,
)

#: Columns that the panels of `--help` need lest they cut the names of options.
_PANELS_FROM = 72
#: How `--help` is printed: in panels, or as plain text on a narrow terminal.
HELP_MARKUP: Literal["rich"] | None = (
    "rich" if shutil.get_terminal_size().columns >= _PANELS_FROM else None
)


def new_app(group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Give a command line without verbs; ``group`` knows how they are found."""
    return typer.Typer(
        cls=group,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=HELP_MARKUP,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="TCP and queue management experiments on a real Linux kernel, in virtual time.",
    )


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, or a path on one line; a terminal obeys nothing that stands in it."""
    shown = legible(str(text), keep="") if isinstance(text, Path) else legible(str(text))
    typer.echo(shown, err=err, nl=nl)


def run(app: typer.Typer) -> None:
    """Run a command line; a user's mistake ends in a message, never in a traceback."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except (LabError, MemoryError) as caught:
        error = out_of_memory() if isinstance(caught, MemoryError) else caught
        if debug:
            traceback.print_exc()
        for problem in getattr(error, "problems", None) or (error,):
            echo(f"error: {problem}", err=True)
        sys.exit(error.exit_status)
    except OSError as error:
        where = error.filename or "standard output"
        echo(f"error: {where}: {error.strerror or error}", err=True)
        sys.exit(1)


class Verb(NamedTuple):
    """A verb's module and function, and the first line of its help."""

    module: str
    member: str  #: a function, or a command line of its own
    about: str
    memory_mb: int  #: of address space, to load what it needs and compile the analysis


def _verbs() -> dict[str, Verb]:
    text = Path(__file__).with_name("verbs.csv").read_text(encoding="utf-8")
    return {
        row["verb"]: Verb(row["module"], row["member"], row["about"], int(row["memory_mb"]))
        for row in csv.DictReader(text.splitlines())
    }


VERBS = _verbs()
#: Former names of verbs, accepted for one version.
FORMER = {"crossing": "device"}


def load(name: str) -> Any:
    """Import a verb and make a command of it, of a type that typer has not made public."""
    verb = VERBS[name]
    require_memory(verb.memory_mb, f"tcpf-lab {name}")
    app = member = getattr(import_module(f"tcpf_lab.cli.{verb.module}"), verb.member)
    if not isinstance(member, typer.Typer):
        app = new_app()
        from tcpf_lab.cli.options import spelt_out  # here: the list of all verbs needs no options

        app.command(name)(spelt_out(member))
    return typer.main.get_command(app)


def _refuse_empty(words: list[str]) -> None:
    """Refuse a path, or any value, that is empty: as a path it would be the current directory."""
    for before, word in pairwise(words):
        option, equals, value = word.partition("=")
        if not word or (option.startswith("--") and equals and not value):
            raise RequestError("an empty word is no path and no value", where=option or before)


class Verbs(TyperGroup):
    """All verbs; listing them imports none."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb that is called, and import it now."""
        if args and args[0] in FORMER:
            echo(f"warning: `{args[0]}` is now `{FORMER[args[0]]}`", err=True)
            args = [FORMER[args[0]], *args[1:]]
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


app = new_app(Verbs)


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
    app.command(_name, help=_verb.about, short_help=_verb.about)(_listed)


def main() -> None:
    """Run the command line; a user's mistake ends in a message, never in a traceback."""
    run(app)

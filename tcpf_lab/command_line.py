"""How a command line is made and run; `tcpf_lab.cli` fills it with all verbs."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import typer
from typer.core import TyperGroup

from tcpf_lab.errors import LabError, legible, out_of_memory


def new_app(group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Give a command line without verbs; ``group`` knows how they are found."""
    return typer.Typer(
        cls=group,
        add_completion=False,
        no_args_is_help=True,
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

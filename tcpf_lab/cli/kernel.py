"""The verbs of ``tcpf-lab kernel``: build, path, add, list, remove, prune."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import HELP_MARKUP, echo
from tcpf_lab.cli.options import AsJson, KernelVersion, Source, Variant, argument, option
from tcpf_lab.results.command import command
from tcpf_lab.testbed.uml import registered

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=HELP_MARKUP,
    help="The virtual-time kernel: build, path; kernels of your own: add, list, remove; prune.",
)

_Name = Annotated[str, argument("kernel NAME")]


@app.command()
def build(
    version: KernelVersion = "",
    source: Source = None,
    variant: Variant = "standard",
    as_json: AsJson = False,
) -> None:
    """Build a virtual-time kernel, its programs and modules, unless it is built already."""
    if source is not None and not source.is_file():
        hint = ""
        if source.is_dir():
            hint = f"`{command('kernel', 'add', 'NAME', '--source', source)}` takes a git tree"
        raise RequestError("no such file", where=str(source), hint=hint)
    kernel = console.build_kernel(source, variant, version)
    if as_json:
        console.print_json(asdict(kernel))
    else:
        echo(f"Linux {kernel.version} for User-Mode Linux: {kernel.path}")


@app.command()
def path(version: KernelVersion = "", variant: Variant = "standard") -> None:
    """Print the path of a built kernel."""
    echo(registered.require(version, variant).path)


@app.command()
def add(
    name: _Name,
    source: Annotated[Path, option("kernel add --source")],
    patches: Annotated[list[Path] | None, option("kernel add --patch")] = None,
    config: Annotated[list[str] | None, option("kernel add --config")] = None,
) -> None:
    """Register a kernel of your own under a name that experiments can use.

    A git tree counts as it is, with its uncommitted changes and new files. `run` builds the kernel
    when its source has changed.
    """
    what, version = registered.add(name, source, patches or (), config or ())
    echo(f"{name}: Linux {version}, {what.source}")
    echo(f"`{command('kernel', 'build', name)}` builds it, and so does `run` with `kernel: {name}`")


@app.command(name="list")
def list_(as_json: AsJson = False) -> None:
    """List the versions of Linux that are tested, and the registered kernels."""
    listed = [*registered.versions(), *registered.listed()]
    if as_json:
        console.print_json(listed)
        return
    rows = []
    for each in listed:
        state = each.get("problem") or ("built" if each["built"] else "not built")
        rows.append((each["name"], each["version"] or "", state, each["source"] or ""))
    console.show(console.plain_table(("kernel", "Linux", "state", "source"), rows))


@app.command()
def remove(name: _Name) -> None:
    """Forget a registered kernel; what was built of it stays in the cache."""
    registered.remove(name)


@app.command()
def prune(as_json: AsJson = False) -> None:
    """Remove from the cache what no version and no registered name is built from now.

    These are kernels of earlier sources, of a bisection, or of another tcpf-lab. Use it when no run
    is under way.
    """
    removed = registered.prune(console.Announcer("kernel: "))
    if as_json:
        console.print_json({"removed": [str(path) for path in removed]})
        return
    for path in removed:
        echo(f"removed {path}")

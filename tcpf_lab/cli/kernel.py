"""The verbs of ``tcpf-lab kernel``: build, path."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import HELP_MARKUP, echo
from tcpf_lab.cli.options import AsJson, KernelVersion, Source, Variant
from tcpf_lab.testbed.uml import kernel as uml_kernel

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=HELP_MARKUP,
    help="The virtual-time kernel: build, path.",
)


@app.command()
def build(
    version: KernelVersion = "",
    source: Source = None,
    variant: Variant = "standard",
    as_json: AsJson = False,
) -> None:
    """Build a virtual-time kernel, its programs and modules, unless it is built already."""
    if source is not None and not source.is_file():
        raise RequestError("no such file", where=str(source))
    kernel = console.build_kernel(source, variant, version)
    if as_json:
        console.print_json(asdict(kernel))
    else:
        echo(f"Linux {kernel.version} for User-Mode Linux: {kernel.path}")


@app.command()
def path(version: KernelVersion = "", variant: Variant = "standard") -> None:
    """Print the path of a built kernel."""
    echo(uml_kernel.require(variant, version).path)

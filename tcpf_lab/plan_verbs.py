"""The verbs that only read: what would be done, and what may be written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab import terminal
from tcpf_lab.command_line import echo
from tcpf_lab.errors import legible
from tcpf_lab.options import AsJson, Only, Overrides, Seeds, Spec, TestbedName
from tcpf_lab.planning import plan_text, size
from tcpf_lab.selection import choose
from tcpf_lab.spec.load import STANDARD_INPUT
from tcpf_lab.spec.schema import json_schema, schema_of
from tcpf_lab.testbed.inventory import Inventory


def plan(
    spec: Spec,
    testbed: TestbedName = "uml",
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the experiment.")] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Print the guest's instructions instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the commands of the first run (all that differ only in the seed are alike).

    `-` reads the experiment from standard input.
    """
    name = str(STANDARD_INPUT) if spec == "-" else spec
    chosen = choose(name, testbed, Path("results"), only, seeds, overrides)
    if check:
        with terminal.busy(f"checking {len(chosen.runs)} runs"):
            summary = size(chosen)
        if as_json:
            terminal.print_json(summary)
        else:
            echo(f"{legible(str(chosen.source), keep='')}: ok: {summary['runs']} runs")
        return
    text = plan_text(chosen, instructions=instructions)
    if as_json:
        form = "instructions" if instructions else "plan"
        terminal.print_json({"run": chosen.runs[0].id, form: text.splitlines()})
    else:
        echo(text, nl=False)


def schema(
    testbed: Annotated[bool, typer.Option("--testbed", help="Of inventories instead.")] = False,
) -> None:
    """Print the JSON Schema of experiment files, or of inventories."""
    terminal.print_json(schema_of(Inventory) if testbed else json_schema())

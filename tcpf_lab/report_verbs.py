"""The verb that writes reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab import campaign, reporting, terminal
from tcpf_lab.options import (
    AsJson,
    IncludeInvalid,
    Only,
    Overrides,
    Results,
    Seeds,
    Spec,
    TestbedName,
)
from tcpf_lab.selection import choose


def report(
    spec: Spec,
    testbed: TestbedName = "uml",
    results: Results = Path("results"),
    only: Only = None,
    seeds: Seeds = None,
    overrides: Overrides = None,
    include_invalid: IncludeInvalid = False,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="LIST",
            help=f"Of {', '.join(reporting.FORMATS)}; without it {','.join(reporting.USUAL)}.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option("--reference", metavar="DIR", help="Also write a reproduction to keep."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of an experiment or a collection from the runs there are."""
    wanted = reporting.formats_of(formats)
    chosen = choose(spec, testbed, results, only, seeds, overrides)
    written = reporting.report(
        chosen, include_invalid=include_invalid, formats=wanted, reference=reference
    )
    if as_json:
        terminal.print_json(campaign.outcome_json(chosen, (), written))
    else:
        terminal.show_report(written)

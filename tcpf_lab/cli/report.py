"""The verb that writes reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.base.making import require_place
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import (
    AsJson,
    IncludeInvalid,
    Only,
    Overrides,
    Results,
    Seeds,
    Spec,
    TestbedName,
)
from tcpf_lab.run import campaign, reporting
from tcpf_lab.run.selection import choose
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.load import find, load_any
from tcpf_lab.testbed import registry


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
    """Write the report of an experiment or a collection from the runs there are.

    Of a calibration it is written from what `tcpf-lab calibrate` has concluded.
    """
    wanted = reporting.formats_of(formats)
    if reference is not None:
        require_place(reference, directory=True)
    source = find(spec)
    read = load_any(source)
    if isinstance(read, Calibration):
        given = {"only": only, "seeds": seeds, "set": overrides, "include-invalid": include_invalid}
        _of_calibration(read, source, testbed, results, wanted, reference, given, as_json)
        return
    chosen = choose(spec, testbed, results, only, seeds, overrides)
    written = reporting.report(
        chosen, include_invalid=include_invalid, formats=wanted, reference=reference
    )
    if as_json:
        console.print_json(campaign.outcome_json(chosen, (), written))
    else:
        console.show_report(written)


def _of_calibration(
    read: Calibration,
    source: Path,
    testbed: str,
    results: Path,
    formats: tuple[str, ...],
    reference: Path | None,
    given: Mapping[str, object],
    as_json: bool,
) -> None:
    from tcpf_lab.calibration.ledger import CalibrationFiles  # here: numpy takes a moment
    from tcpf_lab.calibration.report import write_report

    useless = next((f"--{name}" for name, value in given.items() if value), None)
    if useless:
        raise RequestError(
            "chooses among the runs of an experiment; a calibration is reported as a whole",
            where=useless,
        )
    files = CalibrationFiles(results, read.name, registry.require(testbed), testbed)
    written = write_report(read, source, files, formats, reference)
    if as_json:
        console.print_json({"calibration": read.name, "written": [str(p) for p in written]})
        return
    for path in written:
        echo(path)

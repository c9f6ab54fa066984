"""Arguments and options that several verbs of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Spec = Annotated[str, typer.Argument(metavar="SPEC", help="Experiment: a path, or a shipped name.")]
TestbedName = Annotated[str, typer.Option("--testbed", metavar="NAME", help="Where to run.")]
TestbedNames = Annotated[
    list[str] | None,
    typer.Option("--testbed", metavar="NAME", help="Where the runs were made; twice to compare."),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="KEY=VALUE", help="Only these of config, case, flows, seed or an axis."
    ),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", min=1, help="Only the first N seeds.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a value of the experiment; a list or a range: an axis.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]
KeepPcaps = Annotated[
    bool, typer.Option("--keep-pcaps", help="Keep the captures, compressed (zstd).")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Runs at a time; 0: one per core.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: its scheduler, tcp://HOST:8786.",
    ),
]
IncludeInvalid = Annotated[
    bool, typer.Option("--include-invalid", help="Let invalid runs into the means.")
]
Source = Annotated[
    Path | None,
    typer.Option("--source", metavar="TARBALL", help="Kernel source of another place."),
]
Variant = Annotated[
    str,
    typer.Option(
        "--variant",
        metavar="standard|kasan|unlogged",
        help="'kasan' finds faults of memory and locking in the modules, but is slow; 'unlogged' "
        "keeps no list of retransmissions.",
    ),
]
MinRto = Annotated[
    str | None,
    typer.Option(
        "--min-rto", metavar="TIME", help="The senders' least timer, if it is not the profile's."
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="sender|receiver|between",
        help="Where a capture was taken, if that cannot be seen in it.",
    ),
]
Probes = Annotated[
    bool,
    typer.Option("--probes/--no-probes", help="Whether a capture's senders send tail loss probes."),
]
SenderProfile = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Whose timer a capture's senders have: linux, linux-2.2 or rfc6298.",
    ),
]

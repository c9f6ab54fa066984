"""Arguments and options that several verbs of the command line share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

_TOLD = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


def option(key: str, *words: object, **others: Any) -> Any:
    """Give an option as ``options.toml`` describes it; ``words`` fill its text."""
    told = _TOLD[key]
    written = (word for word in key.split() if word.startswith("-"))
    said = {"metavar": told.get("value"), "help": told["help"].format(*words)}
    return typer.Option(*written, **{**said, **others})


def argument(key: str, *words: object) -> Any:
    """Give an argument likewise; the last word of its key is what it is called."""
    return typer.Argument(metavar=key.split()[-1], help=_TOLD[key]["help"].format(*words))


Spec = Annotated[str, argument("SPEC")]
TestbedName = Annotated[str, option("--testbed")]
TestbedNames = Annotated[list[str] | None, option("compare --testbed")]
Results = Annotated[Path, option("--results")]
Only = Annotated[list[str] | None, option("--only")]
Seeds = Annotated[int | None, option("--seeds", min=1)]
Overrides = Annotated[list[str] | None, option("--set")]
AsJson = Annotated[bool, option("--json")]
KeepPcaps = Annotated[bool, option("--keep-pcaps")]
Jobs = Annotated[int, option("--jobs -j", min=0)]
Cluster = Annotated[str | None, option("--cluster")]
IncludeInvalid = Annotated[bool, option("--include-invalid")]
Source = Annotated[Path | None, option("--source")]
Variant = Annotated[str, option("--variant")]
MinRto = Annotated[str | None, option("--min-rto")]
At = Annotated[str | None, option("--at")]
Probes = Annotated[bool, option("--probes/--no-probes")]
SenderProfile = Annotated[str, option("--profile")]

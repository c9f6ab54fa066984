"""Arguments and options that several verbs of the command line share.

Some of them make one object together, which is what a verb takes: `Together`.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tcpf_lab.run.selection import RunRequest  # here and below: only some verbs need it
    from tcpf_lab.trace.analysis import Options

_TEXTS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


def option(key: str, *words: object, **others: Any) -> Any:
    """Give an option as ``options.toml`` describes it; ``words`` fill its text.

    With a ``parser`` the verb takes what that makes of the word; the type is then written in
    quotes, lest typer take a list for an option that may be repeated.
    """
    texts = _TEXTS[key]
    written = (word for word in key.split() if word.startswith("-"))
    shown = {"metavar": texts.get("value"), "help": texts["help"].format(*words)}
    return typer.Option(*written, **{**shown, **others})


def argument(key: str, *words: object) -> Any:
    """Give an argument; the last word of its key is its name."""
    return typer.Argument(metavar=key.split()[-1], help=_TEXTS[key]["help"].format(*words))


TestbedName = Annotated[str, option("--testbed")]
Results = Annotated[Path, option("--results")]
AsJson = Annotated[bool, option("--json")]
KeepPcaps = Annotated[bool, option("--keep-pcaps")]
Jobs = Annotated[int, option("--jobs -j", min=0)]
Cluster = Annotated[str | None, option("--cluster")]
IncludeInvalid = Annotated[bool, option("--include-invalid")]
KernelVersion = Annotated[str, argument("VERSION")]
Source = Annotated[Path | None, option("--source")]
Variant = Annotated[str, option("--variant")]


@dataclass(frozen=True)
class Together:
    """Options that make one object: the value of the parameter that is annotated with this."""

    make: Callable[..., Any]
    options: Sequence[Parameter]  #: called as ``make`` calls them


def spelt_out(verb: Callable[..., None]) -> Callable[..., None]:
    """Give what takes options on their own, and calls a verb with the objects they make."""
    groups: dict[str, Together] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        metadata = getattr(parameter.annotation, "__metadata__", ())
        if metadata and isinstance(metadata[0], Together):
            groups[parameter.name] = metadata[0]
            parameters.extend(metadata[0].options)
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group.make(**{each.name: given.pop(each.name) for each in group.options})
        verb(**given)

    called.__name__, called.__doc__ = verb.__name__, verb.__doc__
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _option(name: str, kind: object, default: object = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_SPEC = _option("spec", Annotated[str, argument("SPEC")], Parameter.empty)
_MAY_BE_SPEC = _option("spec", Annotated[str, typer.Argument(metavar="[SPEC]")], "")
_TESTBED = _option("testbed", TestbedName, "uml")
_TESTBEDS = _option("testbeds", Annotated[list[str] | None, option("compare --testbed")])
_RESULTS = _option("results", Results, Path("results"))
_JOBS, _CLUSTER = _option("jobs", Jobs, 0), _option("cluster", Cluster)
_ONLY = _option("only", Annotated[list[str] | None, option("--only")])
_SET = _option("overrides", Annotated[list[str] | None, option("--set")])
_WHICH = (_ONLY, _option("seeds", Annotated[int | None, option("--seeds", min=1)]), _SET)


def _run_request(
    spec: str = "",
    testbed: str = "uml",
    results: Path = Path("results"),
    *,
    only: Sequence[str] | None,
    seeds: int | None,
    overrides: Sequence[str] | None,
) -> RunRequest:
    from tcpf_lab.run.selection import RunRequest

    return RunRequest(spec, testbed, results, tuple(only or ()), seeds, tuple(overrides or ()))


def _made(jobs: int, cluster: str | None, **words: Any) -> tuple[RunRequest, int, str | None]:
    return _run_request(**words), jobs, cluster


def _compared(testbeds: Sequence[str] | None, **words: Any) -> list[RunRequest]:
    from tcpf_lab.run.selection import one_or_two

    return [_run_request(testbed=name, **words) for name in one_or_two(testbeds)]


def _senders(min_rto: str | None, profile: str, at: str | None, probes: bool) -> Options:
    from tcpf_lab.run.analyzing import options_of

    return options_of(min_rto, profile, at, probes=probes)


#: Runs of an experiment or a collection.
Runs = Annotated["RunRequest", Together(_run_request, (_SPEC, _TESTBED, _RESULTS, *_WHICH))]
#: The same, how many are made at a time, and on which cluster.
RunsToMake = Annotated[
    "tuple[RunRequest, int, str | None]",
    Together(_made, (_SPEC, _TESTBED, _RESULTS, _JOBS, _CLUSTER, *_WHICH)),
]
#: The same, of which nothing is there yet.
PlannedRuns = Annotated["RunRequest", Together(_run_request, (_SPEC, _TESTBED, *_WHICH))]
#: Those of many kernels, in virtual time, with seeds of their own.
BisectedRuns = Annotated[
    "RunRequest", Together(partial(_run_request, seeds=None), (_SPEC, _RESULTS, _ONLY, _SET))
]
#: The same, or no experiment: its ``spec`` is empty then.
RunsIfAny = Annotated[
    "RunRequest", Together(_run_request, (_MAY_BE_SPEC, _TESTBED, _RESULTS, *_WHICH))
]
#: Which runs of experiments that are named elsewhere.
WhichRuns = Annotated["RunRequest", Together(_run_request, (_TESTBED, _RESULTS, *_WHICH))]
#: Those of one testbed or of two.
ComparedRuns = Annotated[
    "list[RunRequest]", Together(_compared, (_SPEC, _TESTBEDS, _RESULTS, *_WHICH))
]
#: What is known of a capture's senders.
Senders = Annotated[
    "Options",
    Together(
        _senders,
        (
            _option("min_rto", Annotated[str | None, option("--min-rto")]),
            _option("profile", Annotated[str, option("--profile")], "linux"),
            _option("at", Annotated[str | None, option("--at")]),
            _option("probes", Annotated[bool, option("--probes/--no-probes")], True),
        ),
    ),
]

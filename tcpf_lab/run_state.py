"""Whether a run is there, whole, and what would be made now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tcpf_lab import checksums
from tcpf_lab.errors import RequestError
from tcpf_lab.formats import FormatError
from tcpf_lab.manifest import made_from
from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results import ExperimentFiles, read_json
from tcpf_lab.spec.sweep import Run

Identity = Callable[[Plan], dict[str, str]]


class State(Enum):
    """What is known about one run in a results directory."""

    COMPLETE = "complete"
    STALE = "stale"  #: of another spec, plan or kernel, analysed by other code, or damaged
    OUTDATED = "outdated"  #: analysed by other code, and all that the analysis needs is there
    FAILED = "failed"  #: begun and not finished; its log is still there
    MISSING = "missing"


@dataclass(frozen=True)
class RunState:
    """The state of a run, and what makes it stale: ``plan``, ``kernel``, ``sch_rio``, a file."""

    state: State
    causes: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether the numbers are not those of the present spec, kernel and analysis."""
        return self.state in (State.STALE, State.OUTDATED)


def stale_runs(states: Iterable[tuple[Run, RunState]]) -> dict[str, str]:
    """Give the ids of stale runs, with what makes them so."""
    return {run.id: ", ".join(now.causes) for run, now in states if now.is_stale}


def state(
    run: Run, files: ExperimentFiles, identity: Identity | None, *, need_pcaps: bool = False
) -> State:
    """Tell whether ``run`` has to be made (again), as `examine` does."""
    return examine(run, files, identity, need_pcaps=need_pcaps).state


def examine(
    run: Run, files: ExperimentFiles, identity: Identity | None, *, need_pcaps: bool = False
) -> RunState:
    """Tell whether ``run`` has to be made (again), and why.

    Parameters
    ----------
    run : Run
        The run as it is wanted now.
    files : ExperimentFiles
        Where it would be.
    identity : callable or None
        `Testbed.identity` of the testbed as it is now; None if it is unknown (then it is not
        compared).
    need_pcaps : bool
        A run whose captures were not kept does not do, unless it is to have none.
    """
    done = files.run(run.id)
    if not done.root.exists():
        begun = files.partial(run.id).root.exists()
        return RunState(State.FAILED if begun else State.MISSING)
    manifest, metrics = _record(done.manifest), _record(done.metrics)
    if manifest is None or metrics is None:
        return RunState(State.STALE, ("manifest.json or metrics.json is damaged",))
    if damaged := checksums.damaged(done, captures=need_pcaps):
        return RunState(State.STALE, tuple(f"{name} is damaged" for name in damaged))
    changed = _changed(manifest, run, identity)
    captured = run.experiment.traffic.captured
    if captured and need_pcaps and not any(done.pcap.glob("*.pcap*")):
        changed.append("captures not kept")
    analysed = metrics.get("analysis") == summary.ANALYSIS
    if captured and not analysed:
        changed.append("analysis")
    if changed:
        return RunState(State.STALE, tuple(changed))
    return RunState(State.COMPLETE) if analysed else RunState(State.OUTDATED, ("analysis",))


def _changed(manifest: dict[str, Any], run: Run, identity: Identity | None) -> list[str]:
    """Name what has changed since a run was made."""
    then = manifest.get("made_from")
    if not isinstance(then, dict):
        return ["made by an earlier version"]
    plan = compose(run)
    now = made_from(run, plan, identity(plan) if identity else {})
    compared = now | then if identity else now
    return [name for name in compared if now.get(name) != then.get(name)]


def _record(path: Path) -> dict[str, Any] | None:
    """Read one of a run's records; None if it is missing or damaged: then the run is made again."""
    try:
        value = read_json(path)
    except FormatError:  # nothing is wrong with that run
        raise
    except RequestError:
        return None
    return value if isinstance(value, dict) else None

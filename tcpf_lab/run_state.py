"""Whether a run is there, whole, and what would be made now."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from tcpf_lab import checksums
from tcpf_lab.errors import RequestError
from tcpf_lab.formats import FormatError
from tcpf_lab.manifest import digest
from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results import ExperimentFiles, read_json
from tcpf_lab.spec.sweep import Run


class State(Enum):
    """What is known about one run in a results directory."""

    COMPLETE = "complete"
    STALE = "stale"  #: of another spec, plan or kernel, analysed by other code, or damaged
    OUTDATED = "outdated"  #: analysed by other code, and all that the analysis needs is there
    FAILED = "failed"  #: begun and not finished; its log is still there
    MISSING = "missing"


def state(
    run: Run,
    files: ExperimentFiles,
    identity: Callable[[Plan], str] | None,
    *,
    need_pcaps: bool = False,
) -> State:
    """Tell whether ``run`` has to be made (again).

    Parameters
    ----------
    run : Run
        The run as it is wanted now.
    files : ExperimentFiles
        Where it would be.
    identity : callable or None
        Identity of the testbed as it is now for a plan; None if it cannot be told (then it is not
        compared).
    need_pcaps : bool
        A run whose captures were not kept does not do, unless it is to have none.
    """
    done = files.run(run.id)
    if not done.root.exists():
        return State.FAILED if files.partial(run.id).root.exists() else State.MISSING
    manifest, metrics = _record(done.manifest), _record(done.metrics)
    if manifest is None or metrics is None or checksums.damaged(done, captures=need_pcaps):
        return State.STALE
    captured = run.experiment.traffic.captured
    analysed = metrics.get("analysis") == summary.analysis_identity()
    if captured and not analysed:
        return State.STALE
    plan = compose(run)
    if manifest.get("digest") != digest(run, plan):
        return State.STALE
    if identity is not None and manifest.get("testbed_identity") != identity(plan):
        return State.STALE
    if captured and need_pcaps and not any(done.pcap.glob("*.pcap*")):
        return State.STALE
    return State.COMPLETE if analysed else State.OUTDATED


def _record(path: Path) -> dict[str, Any] | None:
    """Read one of a run's records; None if it is missing or damaged: then the run is made again."""
    try:
        value = read_json(path)
    except FormatError:  # nothing is wrong with that run
        raise
    except RequestError:
        return None
    return value if isinstance(value, dict) else None

"""What the runs of a report say of themselves: what they were made with, what they passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.report.reproduction import agreed
from tcpf_lab.report.section import Section
from tcpf_lab.results import read_json

#: What of a run's manifest is told, and in which words.
_TOLD = {
    "tcpf_lab": "tcpf-lab",
    "git_commit": "commit",
    "testbed": "testbed",
    "clock": "clock",
    "testbed_identity": "identity of the testbed",
    "facts": "",
}
#: Facts of the testbeds that need other words than their key.
_WORDS = {
    "host_machine": "processor",
    "kernel_key": "kernel's build",
    "kernel_patches": "kernel's patches",
    "kernel_sha256": "kernel's SHA-256",
    "memory_mb": "memory (MB)",
    "modules": "module",
    "programs": "program",
    "hosts": "host",
}


@dataclass(frozen=True)
class CheckTally:
    """How many runs passed a check, failed it, or have nothing that it applies to."""

    name: str
    passed: int
    failed: int
    not_applicable: int


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in the captures of runs, and the kernels' own count; None if there is none.

    ``runs`` are those that have such a count, or all if none has; ``flows`` those whose own counts
    were compared, of which ``flows_exact`` agree.
    """

    runs: int
    captures: int
    kernel: int | None
    flows: int
    flows_exact: int | None


@dataclass(frozen=True)
class Provenance:
    """What the runs that the means are made of have in common.

    ``made_with`` has every fact by its name, several values where runs differ; ``checks`` are
    counted over all finished runs, invalid ones included.
    """

    runs: int
    seeds: tuple[int, ...]
    clocks: tuple[str, ...]
    made_with: Mapping[str, tuple[str, ...]]
    checks: tuple[CheckTally, ...]
    timeouts: Timeouts


def provenance(sections: Iterable[Section]) -> Provenance:
    """Read the manifests and verdicts of every run that is part of a report.

    Raises
    ------
    LabError
        If a run has no manifest.
    """
    manifests, metrics = [], []
    checks: dict[str, Counter[bool | None]] = {}
    for section in sections:
        files = section.source.files
        for run, used in _finished(section):
            found = read_json(files.run(run).metrics)
            for check in found.get("validity", {}).get("checks", ()):
                checks.setdefault(check["name"], Counter())[check["ok"]] += 1
            if used:
                manifests.append(read_json(files.run(run).manifest))
                metrics.append({"analysis": found.get("analysis"), "truth": found.get("truth")})
    common = agreed({name: m[name] for name in _TOLD if name in m} for m in manifests)
    facts = {_TOLD[name]: common[name] for name in _TOLD if name in common}
    analyses = agreed(found["analysis"] for found in metrics)
    return Provenance(
        runs=len(manifests),
        seeds=tuple(sorted({int(m["seed"]) for m in manifests})),
        clocks=tuple(sorted({str(m["clock"]) for m in manifests})),
        made_with={**dict(_flat("", facts)), "identity of the analysis": _values(analyses)},
        checks=tuple(
            CheckTally(name, found[True], found[False], found[None])
            for name, found in checks.items()
        ),
        timeouts=_timeouts([found["truth"] or {} for found in metrics]),
    )


def _finished(section: Section) -> Iterable[tuple[str, bool]]:
    """Yield every run that has a verdict, and whether it is part of the means."""
    for result in section.results:
        unread = {problem.run for problem in result.problems if problem.state != "invalid"}
        used = set(result.used_runs)
        yield from ((run, run in used) for run in result.cell.runs if run not in unread)


def _flat(above: str, value: Any) -> Iterable[tuple[str, tuple[str, ...]]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{above} {_WORDS.get(key, key)}".strip(), inner)
    elif value not in (None, [], ""):
        yield above, _values(value)


def _values(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _timeouts(found: list[Mapping[str, Any]]) -> Timeouts:
    found = [truth for truth in found if truth.get("timeouts_pcap") is not None or not truth]
    compared = [truth for truth in found if truth.get("timeouts_kernel") is not None]
    by_flow = [truth for truth in compared if truth.get("flows_exact") is not None]
    return Timeouts(
        runs=len(compared or found),
        captures=sum(truth.get("timeouts_pcap") or 0 for truth in compared or found),
        kernel=sum(truth["timeouts_kernel"] for truth in compared) if compared else None,
        flows=sum(truth["flows"] for truth in by_flow),
        flows_exact=sum(truth["flows_exact"] for truth in by_flow) if by_flow else None,
    )

"""What the numbers of a report do not say: the limitations that apply to its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcpf_lab.report.contents.model import LeftOut, Limitation, count, listed, seeds_told
from tcpf_lab.report.contents.subject import Subject
from tcpf_lab.report.document import agreed
from tcpf_lab.report.section import Problem, Section
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.tcp import LINUX22, LINUX22_BEHAVIOURS, NEWRENO, RENO

#: So many entries fit into a sentence; the table of a report has all of them.
_FEW = 5


def runs_left_out(sections: Sequence[Section]) -> Iterator[LeftOut]:
    """Yield the runs with a remark; of several experiments each is named with its own."""
    several = len(sections) > 1
    for section in sections:
        for result in section.results:
            for found in _alike(result.problems):
                prefix = f"{section.source.files.experiment}/" * several
                yield replace(found, named=prefix + found.named)


def told_of_left_out(sections: Sequence[Section]) -> str:
    """Say which finished runs are left out, and which are used all the same; empty for none.

    Runs that were never made are not told: whoever counts the runs that there are counts them.
    """
    found = [one for one in runs_left_out(sections) if one.state != "missing"]
    out, used = ([one for one in found if one.used is side] for side in (False, True))
    return " ".join(
        f"{words}: {_told(own)}."
        for words, own in (("Left out", out), ("Used although a check failed", used))
        if own
    )


def _told(runs: Sequence[LeftOut]) -> str:
    told = [f"{one.named} ({': '.join(filter(None, (one.state, one.reasons)))})" for one in runs]
    rest = sum(one.runs for one in runs[_FEW:])
    more = (f"and {count(rest, 'more run')}, which table.md lists",) * bool(rest)
    return "; ".join((*told[:_FEW], *more))


def _alike(problems: Sequence[Problem]) -> Iterator[LeftOut]:
    """Name the runs of a cell that have the same problem together: ``red-flows3, seeds 2 to 9``."""
    alike: dict[tuple[str, Problem], list[int]] = {}
    for problem in problems:
        cell, _, seed = problem.run.rpartition("-seed")
        alike.setdefault((cell, replace(problem, run="")), []).append(int(seed))
    for (cell, problem), seeds in alike.items():
        yield LeftOut(
            named=f"{cell}, {'seed' if len(seeds) == 1 else 'seeds'} {seeds_told(seeds)}",
            runs=len(seeds),
            state=problem.state,
            reasons="; ".join(problem.reasons),
            used=problem.used,
        )


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


def limitations(subject: Subject, made: Provenance) -> tuple[Limitation, ...]:
    """Give what applies to these experiments and to the testbed they were run on."""
    experiments = [member.experiment for member in subject.members]
    flows = sorted({result.cell.flows for s in subject.sections for result in s.results})
    return (
        *_clock(made),
        *_tcp(experiments),
        *(_published() if subject.comparison else ()),
        _seeds(made),
        _load(flows),
    )


def _clock(made: Provenance) -> Iterator[Limitation]:
    clocks = made.clocks
    if "virtual" in clocks:
        yield Limitation(
            "The clock is virtual.",
            "In the virtual-time kernel computing takes no time: a router never lacks processor "
            "time and an interrupt is never late. Nothing about processor cost, batching or "
            "scheduling follows from these numbers.",
        )
        yield Limitation(
            "One processor.",
            "The virtual-time kernel has one processor, so races between processors do not happen "
            "in a run.",
        )
    if "real" in clocks:
        yield Limitation(
            "The clock is real.",
            "A host that gets no processor for a while delays packets that nobody meant to delay. "
            "A run in which that shows fails a check; two valid runs of one seed differ all "
            "the same.",
        )


def _tcp(experiments: Sequence[Experiment]) -> Iterator[Limitation]:
    tcps = [tcp for experiment in experiments for tcp in experiment.tcps]
    behaviours = [what for what in LINUX22_BEHAVIOURS if any(what in t.behaviours for t in tcps)]
    if behaviours:
        yield Limitation(
            "Linux 2.2 by a patch.",
            f"What Linux 2.2 did is written anew for today's kernel ({', '.join(behaviours)}); "
            "what else differs between the two kernels does.",
        )
    old = [tcp for tcp in tcps if tcp.profile != "modern"]
    lacking = [what for what in LINUX22_BEHAVIOURS if any(what not in t.behaviours for t in old)]
    if lacking:
        yield Limitation(
            "Not the kernel of 2000.",
            "The TCP is today's Linux with what came after 2000 switched off where a sysctl "
            f"reaches. What else Linux 2.2 did otherwise ({', '.join(lacking)}) is "
            f"missing{' in some of it' if behaviours else ''}; timeouts feel it most.",
        )
    said = {tcp.without_sack for experiment in experiments for tcp in experiment.tcps}
    if NEWRENO in said:
        yield Limitation("NewReno, not Reno.", NEWRENO.replace("`", ""))
    if LINUX22 in said:
        yield Limitation("NewReno of Linux 2.2.", LINUX22)
    if RENO in said:
        yield Limitation("Reno by a patch.", RENO.replace("`", ""))


def _published() -> Iterator[Limitation]:
    yield Limitation(
        "Unpublished choices.",
        "The papers do not state how long a run lasted, the packet size, the weight of RED's "
        "average, tail drop's limit, how flows started, nor the least retransmission timeout. The "
        "values used here are in the tables of parameters.",
    )
    yield Limitation(
        "Reconstructed algorithms.",
        "FRIO and the older TCP-friendly marker are described in reports that cannot be found. "
        "What the papers say of them is implemented as said; gaps are filled as the sources in "
        "kernel/include/net say.",
    )


def _seeds(made: Provenance) -> Limitation:
    intervals = (
        "The confidence intervals are over these, not over other topologies, rates or delays."
        if len(made.seeds) > 1
        else "With one there is no confidence interval: how far another would differ is not known."
    )
    return Limitation(
        f"{count(len(made.seeds), 'seed')}.",
        f"A seed decides start times and everything that the kernel draws at random. {intervals}",
    )


def _load(flows: Sequence[int]) -> Limitation:
    return Limitation(
        "One kind of load.",
        f"{listed(map(str, flows), 'or')} long-lived flows that always have data to send, over "
        "one bottleneck with the same delay for all. Short flows, other delays and reverse "
        "traffic were not measured. Segmentation offload is off, so that markers and queues see "
        "whole packets.",
    )

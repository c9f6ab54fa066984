"""What the numbers of a report do not say: the limitations that apply to its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.report.contents.model import Limitation
from tcpf_lab.report.contents.provenance import Provenance
from tcpf_lab.report.contents.subject import Subject
from tcpf_lab.report.contents.words import count, listed
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.tcp import LINUX22, LINUX22_BEHAVIOURS, NEWRENO, RENO


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

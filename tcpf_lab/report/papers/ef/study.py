"""All cells of paper 001 by their conditions, and the quantities that it draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.papers.cell_runs import Numbers
from tcpf_lab.report.papers.ef.conditions import Conditions, Setting, Tcp, settings_of

#: The paper's EF share, and what its fairness figures are of.
SHARE, UDP, MANY, ON_MS = 0.3, 0.05, 64, 1.0
#: Round trip of a single flow, and of flows with equal ones; None stands for unequal ones.
RTT_MS = 8.0
TCPS: tuple[Tcp, ...] = get_args(Tcp)
#: How near to its fair share a flow counts as being close to it.
NEAR = 0.2
CLOSE = f"{100 * NEAR:g} %"

#: A quantity of a cell by seed; absent seeds lack it.
Quantity = Callable[["Study", Conditions], Numbers]


@dataclass(frozen=True)
class Study:
    """Every setting that was asked for.

    Parameters
    ----------
    settings : mapping of Conditions to Setting
        By its conditions; of several alike the one with most runs, the first of equals.
    every : tuple of Setting
        All of them, those too that are alike.
    """

    settings: Mapping[Conditions, Setting]
    every: tuple[Setting, ...]

    def on_times(self, like: Conditions) -> list[float]:
        """Give the mean lengths of bursts for which there is such a setting, ms, ascending."""
        alike = {one for one in self.settings if replace(one, on_ms=like.on_ms) == like}
        return sorted(one.on_ms for one in alike)

    def flows(self, like: Conditions) -> list[int]:
        """Give the numbers of flows, two at least, for which there is such a setting, ascending."""
        several = {one for one in self.settings if one.flows > 1}
        return sorted({one.flows for one in several if replace(one, flows=like.flows) == like})

    def at(self, known: Conditions) -> Setting | None:
        """Give a setting that has runs."""
        found = self.settings.get(known)
        return found if found is not None and found.cell.runs else None


def study_of(members: Sequence[Member]) -> Study:
    """Read all experiments of the paper."""
    return study_from([one for member in members for one in settings_of(member)])


def study_from(every: Iterable[Setting]) -> Study:
    """Give the study of some settings; of two alike the one with more runs counts."""
    found: dict[Conditions, Setting] = {}
    settings = tuple(every)
    for one in settings:
        known = found.get(one.conditions)
        if known is None or len(one.cell.runs) > len(known.cell.runs):
            found[one.conditions] = one
    return Study(found, settings)


def alone(tcp: Tcp, on_ms: float = 0.0, rtt_ms: float = RTT_MS) -> Conditions:
    """One flow with EF traffic in bursts."""
    return Conditions(tcp, 1, rtt_ms, "onoff", on_ms, SHARE, 0.0)


def together(tcp: Tcp, flows: int, on_ms: float = 0.0) -> Conditions:
    """Several flows of unequal round trips with EF traffic in bursts."""
    return Conditions(tcp, flows, None, "onoff", on_ms, SHARE, 0.0)


def network(
    tcp: Tcp, rtt_ms: float | None, *, udp: bool, on_ms: float | None, flows: int = MANY
) -> Conditions:
    """One of the four networks of the fairness figures: ``on_ms`` is None without EF traffic."""
    bursts = on_ms is not None
    return Conditions(
        tcp=tcp,
        flows=flows,
        rtt_ms=rtt_ms,
        ef="onoff" if bursts else "none",
        on_ms=on_ms or 0.0,
        share=SHARE if bursts else 0.0,
        udp=UDP if udp else 0.0,
    )


def constant(known: Conditions) -> Conditions:
    """The same with EF traffic of a constant rate, the paper's TCP-CBR network."""
    return replace(known, ef="cbr", on_ms=0.0)


def number(path: str) -> Quantity:
    """Give a number of ``metrics.json`` as a quantity."""

    def of(study: Study, known: Conditions) -> Numbers:
        found = study.at(known)
        return found.cell.number(path) if found else Numbers({})

    return of


use = number("metrics.tcp_utilisation")
use_of_left = number("metrics.tcp_utilisation_of_rest")
timeouts = number("metrics.timeouts_per_flow_minute")
min_max = number("metrics.goodput_min_max")


def loss(study: Study, known: Conditions) -> Numbers:
    """U_CBR - U_EF, seed by seed: what bursts cost TCP of its bandwidth (section 2.3)."""
    return _less(use, study, known)


def loss_of_left(study: Study, known: Conditions) -> Numbers:
    """The same, each U over what EF and UDP traffic left in its own run.

    Few long bursts fit into a run, and take more or less than they are meant to.
    """
    return _less(use_of_left, study, known)


def _less(quantity: Quantity, study: Study, known: Conditions) -> Numbers:
    """With constant EF traffic less with bursts, seed by seed."""
    steady, bursts = quantity(study, constant(known)), quantity(study, known)
    return Numbers({seed: steady[seed] - bursts[seed] for seed in bursts if seed in steady})


def spread(study: Study, known: Conditions) -> Numbers:
    """Largest less smallest normalised throughput of a run's flows."""
    return _of_flows(study, known, lambda flows: max(flows) - min(flows))


def near(study: Study, known: Conditions) -> Numbers:
    """Share of a run's flows whose throughput is within 20 % of their fair share."""
    return _of_flows(study, known, lambda flows: share_between(flows, 1 - NEAR, 1 + NEAR))


def share_between(values: Sequence[float], low: float, high: float) -> float:
    """Give the share of values from ``low`` to ``high``."""
    return sum(low <= value <= high for value in values) / len(values)


def _of_flows(study: Study, known: Conditions, of: Callable[[tuple[float, ...]], float]) -> Numbers:
    found = study.at(known)
    return Numbers({s: of(flows) for s, flows in found.normalised().items()} if found else {})


def average(parts: Sequence[Mapping[int, float]]) -> Numbers:
    """Average several numbers seed by seed, over the seeds that all have."""
    common = set.intersection(*map(set, parts)) if parts else set()
    return Numbers({seed: mean_ci([part[seed] for part in parts])[0] for seed in common})


def told(known: Conditions) -> str:
    """Name conditions in a few words, as what is missing: ``Reno, 1 flow, RTT 8 ms, ...``."""
    rtt = "unequal RTTs" if known.rtt_ms is None else f"RTT {known.rtt_ms:g} ms"
    ef = {
        "none": "no EF",
        "cbr": f"constant EF at {known.share:g}",
        "onoff": f"EF in bursts of {known.on_ms:g} ms",
    }[known.ef]
    if known.ef == "onoff" and known.share != SHARE:
        ef += f" at {known.share:g}"
    flows = "1 flow" if known.flows == 1 else f"{known.flows} flows"
    udp = ", UDP" if known.udp else ""
    return f"{known.tcp}, {flows}, {rtt}, {ef}{udp}"

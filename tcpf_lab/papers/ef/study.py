"""All cells of TR2001-1 by their conditions, and the quantities that it draws."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tcpf_lab.base.units import parse_duration, parse_size
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.page import CellRuns, Numbers, cells_of
from tcpf_lab.report.claims.papers import Measured, paired
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.graph import ETHERNET_HEADER, HEADERS
from tcpf_lab.spec.model import to_data
from tcpf_lab.spec.sweep import Run, expand

#: What leaves a router before everything else.
_EF = "EF"
Tcp = Literal["Reno", "NewReno", "SACK"]
Ef = Literal["none", "cbr", "onoff"]


@dataclass(frozen=True)
class Conditions:
    """What decides a cell's place in the paper's figures.

    Parameters
    ----------
    tcp : str
        ``Reno`` leaves fast recovery at the first partial ACK, ``NewReno`` does not.
    flows : int
        TCP flows.
    rtt_ms : float or None
        Propagation round trip of all flows; None where flows differ in it.
    ef : str
        Whether the traffic with priority is there, constant or in bursts.
    on_ms : float
        Mean length of its bursts; 0 without any.
    share : float
        Share of the bottleneck that it is configured to take.
    udp : float
        Share of the bottleneck that other UDP traffic is configured to take.
    """

    tcp: Tcp
    flows: int
    rtt_ms: float | None
    ef: Ef
    on_ms: float
    share: float
    udp: float


@dataclass(frozen=True, eq=False)
class Setting:
    """A cell of the study: its conditions, its runs, and what turns goodput into shares.

    Parameters
    ----------
    conditions : Conditions
        Its place in the figures.
    cell : CellRuns
        Its runs, if there are any.
    rate : float
        Of the bottleneck, bit/s.
    weight : float
        Bytes of a full frame over bytes of its payload.
    seconds : float
        Length of the measured window.
    """

    conditions: Conditions
    cell: CellRuns
    rate: float
    weight: float
    seconds: float

    @property
    def fair(self) -> float:
        """What is left for TCP over the number of flows, bit/s: C / n of the paper."""
        known = self.conditions
        return self.rate * (1 - known.share - known.udp) / known.flows

    def normalised(self) -> Mapping[int, tuple[float, ...]]:
        """Give every flow's throughput over its fair share, by seed; headers count, as in C."""
        scale = 8 * self.weight / self.fair
        return {
            run.seed: tuple(scale * float(one) for one in goodputs)
            for run in self.cell.runs
            if (goodputs := [row["goodput_bytes_per_s"] for row in run.found.get("per_flow") or ()])
            and None not in goodputs
        }


def settings_of(member: Member) -> Iterator[Setting]:
    """Yield every cell of an experiment with its conditions, also those without runs."""
    runs = {run.id: run for run in expand(member.experiment)}
    for cell in cells_of(member.section):
        found = runs.get(cell.cell.runs[0])
        if found is not None:
            yield _setting(cell, found)


def _setting(cell: CellRuns, run: Run) -> Setting:
    experiment = run.experiment
    data = to_data(experiment)
    graph = experiment.graph
    payload = _payload(data["tcp"], graph.mss)
    return Setting(
        conditions=_conditions(data, run),
        cell=cell,
        rate=float(graph.bottleneck.rate),
        weight=(payload + HEADERS[experiment.traffic.ip or 4] + ETHERNET_HEADER) / payload,
        seconds=float(experiment.traffic.duration),
    )


def _payload(tcp: Mapping[str, Any], of_links: int) -> int:
    return min(of_links, parse_size(tcp["mss"])) if "mss" in tcp else of_links


def _conditions(data: Mapping[str, Any], run: Run) -> Conditions:
    graph = run.experiment.graph
    delays = {round(1e3 * link.delay_ba, 6) for link in graph.links if link.delay_ba}
    sources = data["cases"][run.case_name].get("background", {}).values()
    first = next((one for one in sources if one.get("dscp") == _EF), None)
    on = first.get("on") if first else None
    return Conditions(
        tcp=_tcp(data["tcp"]),
        flows=run.flows,
        rtt_ms=delays.pop() if len(delays) == 1 else None,
        ef="none" if first is None else first["kind"],
        on_ms=round(1e3 * parse_duration(on), 6) if on else 0.0,
        share=float(first["share"]) if first else 0.0,
        udp=sum(float(one["share"]) for one in sources if one is not first),
    )


def _tcp(data: Mapping[str, Any]) -> Tcp:
    if data["sack"]:
        return "SACK"
    return "Reno" if data.get("recovery") == "reno" else "NewReno"


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
    """Every requested setting.

    Parameters
    ----------
    settings : mapping of Conditions to Setting
        By its conditions; of several equal ones the one with most runs, the first of equals.
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

    Few long bursts fit into a run, and take more or less than configured.
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


def named(known: Conditions) -> str:
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


#: What the ends of a curve over the length of bursts must reach, ms, to be called its ends.
SHORTEST, LONGEST = 1.0, 100.0


@dataclass(frozen=True)
class Side:
    """A number of some conditions, or its average over several; ``missing`` says what is not there.

    ``what`` is what it is called where none of its conditions was requested.
    """

    numbers: Numbers
    missing: tuple[str, ...] = ()


def side(study: Study, quantity: Quantity, *every: Conditions) -> Side:
    """Give a quantity, averaged over all of the conditions seed by seed."""
    parts, missing = [], []
    for known in every:
        needed = (known, constant(known)) if quantity is loss else (known,)
        absent = [_absent(study, one) for one in needed if study.at(one) is None]
        numbers = quantity(study, known)
        if not absent and not numbers:
            absent = [f"a number in the runs of {named(known)}"]
        parts.append(numbers)
        missing += absent
    return Side(average(parts), tuple(dict.fromkeys(missing)))


def _absent(study: Study, known: Conditions) -> str:
    return named(known) if known in study.settings else f"{named(known)} (in no experiment here)"


def over_bursts(
    study: Study,
    quantity: Quantity,
    like: Conditions,
    keep: Callable[[float], bool] | None = None,
) -> Side:
    """Give a quantity averaged over the burst lengths, all or those to ``keep``."""
    on_times = [on_ms for on_ms in study.on_times(like) if keep is None or keep(on_ms)]
    if not on_times:
        return Side(Numbers({}), (f"{_without_length(like)} of any such length",))
    return side(study, quantity, *(replace(like, on_ms=on_ms) for on_ms in on_times))


@dataclass(frozen=True)
class Hump:
    """A quantity over the length of bursts: its maximum mean, and both ends."""

    top: Side
    first: Side
    last: Side
    top_at: str
    first_at: str
    last_at: str

    @property
    def places(self) -> dict[str, str]:
        """The places as the labels of checks name them."""
        return {"top": self.top_at, "first": self.first_at, "last": self.last_at}


def hump(study: Study, quantity: Quantity, like: Conditions) -> Hump:
    """Find where a quantity has its maximum mean; every requested length is needed.

    Both ends are missing where the lengths do not reach as far as the paper's.
    """
    on_times = study.on_times(like)
    if not on_times:
        none = Side(Numbers({}), (f"{_without_length(like)} of any length",))
        return Hump(none, none, none, "any length", "the shortest", "the longest")
    sides = [side(study, quantity, replace(like, on_ms=on_ms)) for on_ms in on_times]
    missing = tuple(dict.fromkeys(what for one in sides for what in one.missing))
    means = [-math.inf if one.numbers.mean is None else one.numbers.mean for one in sides]
    place = means.index(max(means))
    top, first, last = (replace(sides[at], missing=missing) for at in (place, 0, -1))
    if on_times[0] > SHORTEST:
        first = Side(Numbers({}), (f"{_without_length(like)} of at most {SHORTEST:g} ms",))
    if on_times[-1] < LONGEST:
        last = Side(Numbers({}), (f"{_without_length(like)} of at least {LONGEST:g} ms",))
    return Hump(top, first, last, *(f"{on_times[at]:g} ms" for at in (place, 0, -1)))


def _without_length(like: Conditions) -> str:
    return named(like).replace(f" of {like.on_ms:g} ms", "")


def measured(quantity: Callable[..., float], *sides: Side) -> Measured:
    """Work out a number from several sides, seed by seed."""
    missing = [what for one in sides for what in one.missing]
    return paired(quantity, *(one.numbers for one in sides), missing=missing)


def difference(more: Side, less: Side) -> Measured:
    """Give by how much one side is above another."""
    return measured(operator.sub, more, less)


def value(one: Side) -> Measured:
    """Give a number as it is."""
    return measured(float, one)


def correlation(xs: Sequence[Side], ys: Sequence[Side]) -> Measured:
    """Give Pearson's correlation over places, worked out in each seed."""
    count = len(xs)
    return measured(lambda *values: _pearson(values[:count], values[count:]), *xs, *ys)


def _pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    square = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return over / math.sqrt(square) if square else math.nan

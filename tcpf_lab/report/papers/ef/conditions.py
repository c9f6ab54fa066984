"""Under which conditions of paper 001 a cell was run, read from its experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.papers.cell_runs import CellRuns, cells_of
from tcpf_lab.spec.graph import ETHERNET_HEADER, HEADERS
from tcpf_lab.spec.model import to_data
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.units import parse_duration, parse_size

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
        Share of the bottleneck that it is meant to take.
    udp : float
        Share of the bottleneck that other UDP traffic is meant to take.
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
    graph = experiment.topology.graph()
    payload = _payload(data["tcp"], graph.mss)
    return Setting(
        conditions=_conditions(data, run),
        cell=cell,
        rate=float(graph.bottleneck.rate),
        weight=(payload + HEADERS + ETHERNET_HEADER) / payload,
        seconds=float(experiment.traffic.duration),
    )


def _payload(tcp: Mapping[str, Any], of_links: int) -> int:
    return min(of_links, parse_size(tcp["mss"])) if "mss" in tcp else of_links


def _conditions(data: Mapping[str, Any], run: Run) -> Conditions:
    graph = run.experiment.topology.graph()
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

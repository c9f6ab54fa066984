"""Groups of flows and probes under the names of Flent's tests.

======================================  =====================================================
groups                                  test
======================================  =====================================================
all upward                              ``tcp_nup``: ``TCP upload::1`` ...
all downward                            ``tcp_ndown``: ``TCP download::1`` ...
4 flows upward and 4 downward           ``rrul_be``: ``TCP upload BE``, ``BE2`` ...
other numbers in both directions        ``rrul_be_nflows``: ``TCP upload BE::1`` ...
======================================  =====================================================

``icmp`` probes are ``Ping (ms) ICMP``, further ones ``Ping (ms) ICMP <host> (extra)``. A ``udp``
probe is ``VoIP``, Flent's series of one-way delay, as its ``Ping (ms) UDP`` are round-trip times.
``request`` probes are ``HTTP latency``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.metrics.definitions import jain_index
from tcpf_lab.metrics.groups import read_groups
from tcpf_lab.metrics.probes import read_probes
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.model import Experiment

Floats: TypeAlias = NDArray[np.float64]
#: Samples of a series: ``t`` and values by name.
Raw: TypeAlias = "list[dict[str, float]]"

PING = "Ping (ms) ICMP"
_VOIP, _HTTP = "VoIP", "HTTP latency"
_LOADS = {"up": "TCP upload", "down": "TCP download"}
#: Flows of each direction of Flent's RRUL.
_RRUL = 4
#: Bins of ``groups.npz`` that a step is made of: 0.2 s, as Flent has it.
_STEP = 2


@dataclass(frozen=True)
class Plotted:
    """What Flent plots of a run.

    Attributes
    ----------
    test, parameters
        Flent's test and its parameters, which say what series there are.
    step_s
        Time between two points.
    flows : sequence of str
        Series of each flow.
    results
        Series at common instants, the middles of the steps.
    raw
        Samples, ``t`` in seconds after the epoch.
    note
        What a reader should know of the series.
    about
        Further metadata of series.
    """

    test: str
    parameters: Mapping[str, Any]
    step_s: float
    flows: Sequence[str]
    results: Mapping[str, Floats]
    raw: dict[str, Raw]
    note: str
    about: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def time_s(self) -> Floats:
        """Middle of each step, seconds after the epoch."""
        steps = next(iter(self.results.values())).size
        return np.asarray((np.arange(steps) + 0.5) * self.step_s, np.float64)


def samples(time_s: ArrayLike, **columns: ArrayLike) -> Raw:
    """Give samples as Flent has them; what is not a number has none."""
    values = np.column_stack([time_s, *columns.values()]).astype(np.float64)
    known = values[np.isfinite(values).all(axis=1)]
    return [dict(zip(("t", *columns), row, strict=True)) for row in known.tolist()]


def of_direction(load: str, flows: Sequence[str], rates: Floats) -> dict[str, Floats]:
    """Give Mbit/s of every flow of a direction, their mean and their sum."""
    own = dict(zip(flows, rates, strict=True))
    return {**own, f"{load} avg": rates.mean(axis=0), f"{load} sum": rates.sum(axis=0)}


def fairness(rates: Floats) -> Floats:
    """Give Jain's index of each instant; NaN where no flow has anything."""
    return np.array([jain_index(now) if now.any() else np.nan for now in rates.T])


def of_groups(files: RunFiles, expect: Mapping[str, Any], experiment: Experiment) -> Plotted:
    """Give what Flent plots of a run with groups.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    expect : mapping
        ``expect`` of its manifest.
    experiment : Experiment
        What it was made from.
    """
    series = read_groups(files)
    groups = [group for group in expect["groups"] if group["flows"]]
    step = _STEP * float(series.bin_s)
    rates = _rates(series.acked_bytes, step)
    time = np.asarray((np.arange(rates.shape[1]) + 0.5) * step, np.float64)
    loads = {
        load: [flow for group in groups if group["direction"] == way for flow in _flows(group)]
        for way, load in _LOADS.items()
    }
    loads = {load: own for load, own in loads.items() if own}
    test = _test(loads)
    names = {
        flow: _series(test, load, n) for load, own in loads.items() for n, flow in enumerate(own)
    }
    results: dict[str, Floats] = {}
    for load, own in loads.items():
        results |= of_direction(load, [names[flow] for flow in own], rates[own])
        if len(loads) == 1:
            results[f"{load} fairness"] = fairness(rates[own])
    sent = read_probes(files) if files.probes.exists() else {}
    probes = _probes(expect.get("probes") or (), sent, time)
    results |= probes.results
    if len(loads) > 1:
        results["TCP totals"] = rates[list(names)].sum(axis=0)
        results |= _mean_ping(probes.results)
    places = [one["bottleneck"] for one in (expect, expect.get("opposite")) if one]
    queues = {
        f"qdisc_stats_{place['node']}": samples(series.time_s, delay=1e3 * delay)
        for place, delay in zip(places, series.delay_mean_s, strict=False)
    }
    return Plotted(
        test=test,
        parameters={
            "upload_streams": str(len(loads.get(_LOADS["up"], ()))),
            "download_streams": str(len(loads.get(_LOADS["down"], ()))),
            "qdisc_stats_hosts": ",".join(place["node"] for place in places),
            "qdisc_stats_interfaces": ",".join(place["device"] for place in places),
            **probes.parameters,
        },
        step_s=step,
        flows=[names[flow] for flow in sorted(names)],
        results=results,
        raw={**queues, **probes.raw},
        note=" ".join([*_whose(groups, names), *probes.notes]),
        about=_about(groups, names, experiment),
    )


def _flows(group: Mapping[str, Any]) -> range:
    return range(group["first"], group["first"] + group["flows"])


def _rates(acked: NDArray[np.uint32], step_s: float) -> Floats:
    """Give Mbit/s of each flow, step by step."""
    steps = acked.shape[1] // _STEP
    whole = acked[:, : steps * _STEP].reshape(len(acked), steps, _STEP).sum(axis=2)
    return np.asarray(8e-6 * whole / step_s, np.float64)


def _test(loads: Mapping[str, Sequence[int]]) -> str:
    """Choose Flent's test by the flows of each direction."""
    if len(loads) == 1:
        return "tcp_nup" if _LOADS["up"] in loads else "tcp_ndown"
    return "rrul_be" if all(len(own) == _RRUL for own in loads.values()) else "rrul_be_nflows"


def _series(test: str, load: str, number: int) -> str:
    """Name the series of a direction's flow, counted from 0, as the test does."""
    if test == "rrul_be":
        return f"{load} BE{number + 1 if number else ''}"
    return f"{load}{' BE' if test == 'rrul_be_nflows' else ''}::{number + 1}"


def _whose(groups: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> Iterator[str]:
    for group in groups:
        first, *others = (names[flow] for flow in _flows(group))
        last = (
            f" to {others[-1].removeprefix(_LOADS[group['direction']]).strip()}" if others else ""
        )
        yield f"Group {group['name']}: {first}{last}."


def _about(
    groups: Sequence[Mapping[str, Any]], names: Mapping[int, str], experiment: Experiment
) -> dict[str, dict[str, Any]]:
    """Give the group of each series, and its congestion control as Flent has it."""
    specs, default = experiment.traffic.groups or {}, experiment.tcp.congestion
    return {
        names[flow]: {
            "GROUP": group["name"],
            "CONG_CONTROL": specs[group["name"]].congestion or default,
        }
        for group in groups
        for flow in _flows(group)
    }


def _mean_ping(results: Mapping[str, Floats]) -> dict[str, Floats]:
    pings = [values for name, values in results.items() if name.startswith(PING)]
    return {"Ping (ms) avg": np.mean(pings, axis=0)} if pings else {}


@dataclass(frozen=True)
class _Probes:
    """What Flent plots of probes; ``parameters`` are those that include their plots."""

    results: dict[str, Floats]
    raw: dict[str, Raw]
    parameters: dict[str, Any]
    notes: list[str]


def _probes(
    wanted: Sequence[Mapping[str, Any]], sent: Mapping[str, tuple[Floats, Floats]], time: Floats
) -> _Probes:
    """Give the series of probes."""
    found = _Probes({}, {}, {}, [])
    by_kind: dict[str, list[Mapping[str, Any]]] = {"icmp": [], "udp": [], "request": []}
    for probe in wanted:
        if probe["name"] in sent:
            by_kind[probe["kind"]].append(probe)
    for number, probe in enumerate(by_kind["icmp"]):
        name = f"{PING} {probe['receiver']} (extra)" if number else PING
        _add(found, name, probe, sent, time)
    hosts = [probe["receiver"] for probe in by_kind["icmp"][1:]]
    found.parameters.update({"ping_hosts": ",".join(hosts)} if hosts else {})
    for probe in by_kind["udp"][:1]:
        _call(found, probe, sent, time)
    for probe in by_kind["request"][:1]:
        _add(found, _HTTP, probe, sent, time)
        found.parameters["include_http"] = "true"
    for kind, name in (("udp", _VOIP), ("request", _HTTP)):
        for probe in by_kind[kind][1:]:
            found.notes.append(f"Left out: probe {probe['name']}, as Flent has one {name}.")
    if not by_kind["icmp"]:
        found.notes.append("No ping was sent.")
    return found


def _add(
    found: _Probes,
    name: str,
    probe: Mapping[str, Any],
    sent: Mapping[str, tuple[Floats, Floats]],
    time: Floats,
) -> None:
    """Add a series of milliseconds."""
    at, took = sent[probe["name"]]
    found.results[name] = _between(at, 1e3 * took, time)
    found.raw[name] = samples(at, val=1e3 * took)
    found.notes.append(f"Probe {probe['name']}: {name}.")


def _call(
    found: _Probes,
    probe: Mapping[str, Any],
    sent: Mapping[str, tuple[Floats, Floats]],
    time: Floats,
) -> None:
    """Add one-way delay, its variation, and losses."""
    _add(found, f"{_VOIP}::delay", probe, sent, time)
    at, took = sent[probe["name"]]
    delay = found.results[f"{_VOIP}::delay"]
    variation = np.abs(np.diff(1e3 * took, prepend=np.nan))
    edges = np.append(time - time[0], 2 * time[-1] - time[-2] + time[0])
    lost = np.histogram(at[np.isnan(took)], edges)[0].astype(np.float64)
    found.results[f"{_VOIP}::jitter"] = _between(at, variation, time)
    found.results[f"{_VOIP}::loss"] = lost
    found.results[f"{_VOIP}::induced_delay"] = delay - np.nanmin(delay)
    found.parameters["voip_host"] = probe["receiver"]


def _between(at: Floats, values: Floats, time: Floats) -> Floats:
    """Give values at common instants, between samples linearly as Flent does; NaN outside."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(time.size, np.nan)
    found = np.interp(time, at[known], values[known], left=np.nan, right=np.nan)
    return np.asarray(found, np.float64)

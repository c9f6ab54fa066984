"""The study of TR2001-1 with made-up numbers: by default such that all of it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tcpf_lab.papers.ef.study import (
    SHARE,
    TCPS,
    Conditions,
    Setting,
    Study,
    alone,
    constant,
    network,
    study_from,
    together,
)
from tcpf_lab.report.claims.page import CellRuns, PaperRun
from tcpf_lab.report.section import Cell, Section, Source
from tcpf_lab.results.layout import ExperimentFiles, RunFiles

ON_TIMES = (0.4, 1.0, 4.0, 10.0, 40.0, 100.0, 400.0)
FLOWS = (8, 16, 32, 64, 128)
SEEDS = (1, 2, 3)
RATE = 40e6

#: Gives what a run found, by its conditions and seed; None where there is no run.
Found = Callable[[Conditions, int], dict[str, Any] | None]


def everything() -> Iterable[Conditions]:
    """Every setting that the paper's figures are of."""
    for tcp in TCPS:
        yield from _throughput(tcp)
        for rtt in (8.0, None):
            for udp in (False, True):
                for flows in FLOWS:
                    yield network(tcp, rtt, udp=udp, on_ms=None, flows=flows)
                    yield network(tcp, rtt, udp=udp, on_ms=1.0, flows=flows)
                for on in ON_TIMES:
                    yield network(tcp, rtt, udp=udp, on_ms=on)


def _throughput(tcp: Any) -> Iterable[Conditions]:
    for share in (SHARE, 0.05, 0.1, 0.2):
        several = [together(tcp, flows) for flows in (FLOWS if share == SHARE else (64,))]
        trips = (6.0, 8.0, 10.0, 12.0) if share == SHARE else (8.0,)
        single = [alone(tcp, rtt_ms=rtt) for rtt in trips]
        for like in (*single, *several):
            shared = replace(like, share=share)
            yield constant(shared)
            yield from (replace(shared, on_ms=on) for on in ON_TIMES)
        if share != SHARE:
            yield replace(network(tcp, None, udp=False, on_ms=1.0), share=share)


def bump(on_ms: float) -> float:
    """A single hump over the length of bursts, 1 at 10 ms."""
    return math.exp(-(math.log10(on_ms / 10) ** 2)) if on_ms else 0.0


def as_published(known: Conditions, seed: int) -> dict[str, Any]:
    """Numbers that show everything that the paper says, the same with every seed but for a bit."""
    noise = 0.001 * (seed - 2)
    hump = bump(known.on_ms)
    if known.flows == 1:
        lost = hump * (0.55 - 0.03 * ((known.rtt_ms or 8) - 6)) if known.ef == "onoff" else 0.0
    else:
        lost = 0.08 * hump / known.flows if known.ef == "onoff" else 0.0
    return {
        "metrics": {
            "tcp_utilisation": 0.97 - lost + noise,
            "tcp_utilisation_of_rest": 0.97 - lost + noise,
            "timeouts_per_flow_minute": (20 * hump + 0.01) * (1 + math.log2(known.flows)) + noise,
            "goodput_min_max": fairness(known) + noise,
        },
        "per_flow": [{"flow": i, "goodput_bytes_per_s": x} for i, x in enumerate(flows_of(known))],
        "pftk": [
            {
                "flow": flow,
                "full": 100.0 * (1.5 if flow else 1.05),
                "approximate": 150.0,
                "goodput_packets_per_s": 100.0,
                "sent_packets_per_s": 103.0,
            }
            for flow in range(10)
        ]
        if known.ef == "cbr"
        else None,
    }


def fairness(known: Conditions) -> float:
    """M: higher with EF traffic, most with short bursts; falling with flows of equal RTTs."""
    base = 0.03
    gain = 0.4 / (1 + known.on_ms / 5) if known.ef == "onoff" else 0.0
    falling = math.log2(128 / known.flows) if known.rtt_ms is not None else 0.0
    return base + gain + falling * (0.05 if known.ef == "onoff" else 0.1)


def flows_of(known: Conditions) -> list[float]:
    """Goodput of the flows: how many are near their share, and how far the others are off."""
    fair = RATE * (1 - known.share - known.udp) / known.flows / 8
    if known.ef == "onoff":
        near, wide = 0.875, 0.3 + 0.001 * known.flows
    elif known.rtt_ms is None:
        near, wide = 0.25 + 0.25 * math.log2(known.flows) / 7, 0.9
    else:
        near, wide = 0.75 - 0.5 * math.log2(known.flows) / 7, 0.5 + 0.002 * known.flows
    inside = round(near * known.flows)
    off = [fair * (1 + (wide if i % 2 else -wide)) for i in range(known.flows - inside)]
    return [fair] * inside + off


@cache
def published() -> Study:
    """Give the study in which all of it holds, made once for all tests that only read it."""
    return study()


def study(found: Found = as_published, settings: Iterable[Conditions] | None = None) -> Study:
    """Give a study; frames count as much as payload in it."""
    asked = dict.fromkeys(everything() if settings is None else settings)
    return study_from(setting(known, found) for known in asked)


def setting(known: Conditions, found: Found) -> Setting:
    files = ExperimentFiles(Path("results"), "ef", "uml")
    cell = Cell("ef", "case", known.flows, tuple(f"case-seed{seed}" for seed in SEEDS), False)
    section = Section(Source(files, [cell], "EF", ""), ())
    runs = tuple(
        PaperRun(seed, RunFiles(Path(f"case-seed{seed}")), made)
        for seed in SEEDS
        if (made := found(known, seed)) is not None
    )
    return Setting(known, CellRuns(section, cell, runs), RATE, 1.0, 30.0)

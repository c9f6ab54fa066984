"""Real time per packet through each queue and marker in a virtual-time guest.

``python -m tools.bench.bench_guest_pps [--rounds N]`` prints one JSON object.  Every pair of queue
and marker does the same short run, 10 flows over 10 Mbit/s without captures, once for `SHORT_S`
seconds of traffic and once for `LONG_S`: what the longer one takes more, over the packets that it
brings across the bottleneck more, is the time per packet.  So boot, set-up and tear-down do not
count.  All that a guest does for a packet counts, TCP at both ends and four hops of it: this says
how much of a run's time a queue or marker is, while `bench_cost` counts what it executes itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tcpf_lab.base.errors import LabError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.registry import testbed
from tools.bench.virtual_time import one_core

SHORT_S, LONG_S = 2, 302
ROUNDS = 3
THRESHOLDS = (
    "limit: 500 kB, in_min: 50 kB, in_max: 490 kB, in_probability: 0.005,"
    " out_min: 10 kB, out_max: 200 kB, out_probability: 0.25"
)
QUEUES = {
    "bfifo": "{kind: bfifo, limit: 200 kB}",
    "red": "{kind: red, limit: 500 kB, min: 10 kB, max: 200 kB, probability: 0.25}",
    "rio": f"{{kind: rio, {THRESHOLDS}}}",
    "frio": f"{{kind: frio, {THRESHOLDS}}}",
}
MARKERS = {
    "none": "none",
    "token": "{kind: token, interval: 400 ms, tokens: 296 kB}",
    "tcpf": "{kind: tcpf, interval: 400 ms, tokens: 296 kB}",
}
#: What the others are compared with.
PLAIN = "none+bfifo"
EXPERIMENT = """
name: packets
title: Packets through each queue and marker
topology: {{chain: {{access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}}}
tcp: {{profile: sysctl-2.2, sack: true}}
traffic: {{start_spread: 1 s, warmup: 2 s, duration: {seconds} s, captures: false}}
cases: {{{cases}}}
matrix: {{case: all, flows: 10, seed: 1}}
"""


class Took(NamedTuple):
    """What a run took: real seconds, and packets that crossed the bottleneck."""

    seconds: float
    packets: int


def runs(seconds: int) -> Mapping[str, Run]:
    """Return the run of each ``MARKER+QUEUE`` with traffic for ``seconds`` after the warm-up."""
    pairs = ((f"{marker}+{queue}", queue, marker) for queue in QUEUES for marker in MARKERS)
    cases = ", ".join(
        f"{name}: {{marker: {MARKERS[marker]}, queue: {QUEUES[queue]}}}"
        for name, queue, marker in pairs
    )
    experiment = parse(EXPERIMENT.format(seconds=seconds, cases=cases), "bench_guest_pps")
    return {run.case_name: run for run in expand(experiment)}


def take(bed: Testbed, run: Run) -> Took:
    """Carry one run out.

    Raises
    ------
    LabError
        If the guest fails, or does not show the bottleneck's queue.
    """
    plan = compose(run)
    place = plan.expect["bottleneck"]
    with TemporaryDirectory(prefix="tcpf-bench-") as directory:
        files = RunFiles(Path(directory) / "run")
        files.create()
        started = time.perf_counter()
        bed.execute(plan, files, run.seed)
        seconds = time.perf_counter() - started
        shown = read_json(files.stats / f"qdisc-{place['node']}.json")
    return Took(seconds, crossed(shown, place["device"], run.case.queue.kind))


def crossed(shown: list[dict[str, Any]], device: str, kind: str) -> int:
    """Return the packets that a device's queue has sent, from what ``tc -s -j`` shows."""
    for qdisc in shown:
        if (qdisc["dev"], qdisc["kind"]) == (device, kind):
            return int(qdisc["packets"])
    raise LabError(f"the guest shows no queue {kind} at {device}")


def one_round(
    bed: Testbed, short: Mapping[str, Run], long: Mapping[str, Run]
) -> Iterator[tuple[str, float]]:
    """Give each pair's real seconds per packet, the short and the long run next to each other."""
    for name in long:
        less, more = take(bed, short[name]), take(bed, long[name])
        yield name, (more.seconds - less.seconds) / (more.packets - less.packets)


def summary(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return medians over the rounds; ratios are of what was measured in the same round.

    Parameters
    ----------
    rounds : list of dict
        Real seconds per packet by pair, one dict for each round, each with `PLAIN`.
    """
    return {
        name: {
            "us_per_packet": round(statistics.median(r[name] for r in rounds) * 1e6, 2),
            "packets_per_s": round(1 / statistics.median(r[name] for r in rounds)),
            "ratio_to_plain": round(statistics.median(r[name] / r[PLAIN] for r in rounds), 3),
        }
        for name in rounds[0]
    }


def main(rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure all pairs, in turn, ``rounds`` times.

    Returns
    -------
    dict
        For each ``MARKER+QUEUE`` real microseconds per packet, packets per real second, and the
        ratio of its time to that of `PLAIN`.

    Raises
    ------
    LabError
        If a guest cannot be booted or fails.
    """
    bed = testbed("uml")
    short, long = runs(SHORT_S), runs(LONG_S)
    with one_core():
        measured = [dict(one_round(bed, short, long)) for _ in range(rounds)]
    return {
        "virtual_seconds": LONG_S - SHORT_S,
        "rounds": rounds,
        "compared_with": PLAIN,
        "pairs": summary(measured),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(json.dumps(main(parser.parse_args().rounds), indent=1))

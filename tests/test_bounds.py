"""What the schema allows at its bounds: it is planned, and it runs in a guest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tcpf_lab.plan.compose import compose
from tcpf_lab.results import RunFiles
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import guest_plan

LEAST = parse(
    """
name: bounds
topology: {chain: {access: 10 Mbit, bottleneck: 1 Mbit, delay: 10 ms}}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 0 s, warmup: 0 s, duration: 1 s, captures: false}
cases: {q: {queue: {kind: bfifo, limit: 20 kB}}}
matrix: {flows: 1, seed: 1}
""",
    "bounds.yaml",
)
CHAIN, USERS = "topology.chain", "traffic.users"
SLOW = f"{CHAIN}.bottleneck=1 kbit"
EACH = (f"{USERS}.think=1 ms", f"{USERS}.size=1 B")
#: A bound, and what else has to be so that it demands no more than it must.
BOUNDS = (
    (SLOW, "traffic.duration=100 s"),
    (f"{CHAIN}.access=1000 Gbit", f"{CHAIN}.bottleneck=1000 Gbit"),
    (f"{CHAIN}.delay=0 s", "traffic.duration=1 ms"),
    (f"{CHAIN}.delay=100 s", "traffic.duration=300 s"),
    (f"{CHAIN}.forward.delay=100 s", f"{CHAIN}.delay=0 s", "traffic.duration=300 s"),
    (f"{CHAIN}.mtu=576 B",),
    (f"{CHAIN}.mtu=9000 B",),
    (f"{CHAIN}.host_queue=4294967295 B",),
    ("cases.q.queue.limit=4294967295 B",),
    ("traffic.duration=1000000 s", SLOW),
    ("traffic.warmup=1000000 s", "traffic.start_spread=1000000 s", SLOW),
    ("traffic.socket_buffer=10 kB",),
    ("traffic.socket_buffer=1 GB",),
    (*EACH, f"{USERS}.shape=1.001"),
    (*EACH, f"{USERS}.shape=100"),
    (f"{USERS}.size=1 kB", f"{USERS}.think=1000000 s"),
    (f"{USERS}.think=1 s", f"{USERS}.size=4294967295 B", f"{USERS}.largest=4294967295 B"),
    (*EACH, "matrix.flows=4096", SLOW, "traffic.start_spread=1 s", "traffic.warmup=1 s"),
    ("matrix.flows=4096", "traffic.socket_buffer=10 kB"),
    ("matrix.flows=1010",),
)


@pytest.mark.parametrize("settings", BOUNDS, ids=" ".join)
def test_a_bound_is_planned_in_plain_numbers(settings: tuple[str, ...]) -> None:
    (run,) = expand(apply_overrides(LEAST, settings))
    plan = compose(run)
    assert "e+" not in guest_plan.render(plan)
    assert plan.memory_mb < 4096 - 512


@pytest.mark.nightly
@pytest.mark.parametrize("settings", BOUNDS, ids=" ".join)
def test_a_bound_runs_in_a_guest(
    settings: tuple[str, ...], guest_run: Callable[..., RunFiles]
) -> None:
    assert guest_run(LEAST, *settings).metrics.is_file()


@pytest.mark.parametrize(("flows", "more"), [(1, False), (128, False), (1010, True)])
def test_a_guests_memory_follows_the_flows_from_where_it_does_not_suffice(
    flows: int, more: bool
) -> None:
    (run,) = expand(apply_overrides(LEAST, (f"matrix.flows={flows}",)))
    assert bool(compose(run).memory_mb) is more

"""What the schema allows at its bounds: it is planned, and it runs in a guest."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

import pytest
from queue_kinds import NEWER

from tcpf_lab.base.errors import SpecError
from tcpf_lab.base.units import DURATION, RATE, SIZE
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.axis import measured, written
from tcpf_lab.spec.load import apply_overrides, parse
from tcpf_lab.spec.reference_docs import json_schema
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml import guest_plan

Row = TypeVar("Row")
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
_LINKS = "access: 10 Mbit, bottleneck: 1 Mbit, delay: 10 ms"
_RED = "limit: 20 kB, min: 5 kB, max: 10 kB, probability: 0.1"
_TWO = "limit: 20 kB, " + ", ".join(
    f"{side}_min: 5 kB, {side}_max: 10 kB, {side}_probability: 0.1" for side in ("in", "out")
)
_GROUPS = "start_spread: 0 s, warmup: 1 s, duration: 1 s, groups: {a: {flows: 1}, b: {flows: 1}}"
#: Where a model of the schema is, and a value that puts it there, if LEAST has none.
PLACES = {
    "Group": ("traffic.groups.a", f"traffic={{{_GROUPS}}} matrix={{seed: 1}}"),
    **{
        model: (
            "traffic.probes.p",
            f"traffic={{{_GROUPS}, probes: {{p: {{{words}}}}}}} matrix={{seed: 1}}",
        )
        for model, words in (
            ("Echo", "kind: icmp, interval: 100 ms"),
            ("Datagrams", "kind: udp, interval: 100 ms"),
            ("Exchanges", "kind: request, response: 1 kB"),
        )
    },
    "Chain": ("topology.chain", ""),
    "Dumbbell": ("topology.dumbbell", f"topology={{dumbbell: {{{_LINKS}, pairs: 1}}}}"),
    "ParkingLot": (
        "topology.parking_lot",
        f"topology={{parking_lot: {{{_LINKS}, bottlenecks: 1, cross_flows: 1, "
        "cross_delay: 10 ms}}",
    ),
    "Impairment": ("topology.chain.forward", "topology.chain.forward={delay: 1 ms}"),
    "Tcp": ("tcp", ""),
    "Traffic": ("traffic", ""),
    "Users": ("traffic.users", "traffic.users={think: 1 ms, size: 1 kB}"),
    "Bfifo": ("cases.q.queue", ""),
    "Prio": ("cases.q.queue", "cases.q.queue={kind: prio, limit: 20 kB}"),
    "Tc": ("cases.q.queue", "cases.q.queue={kind: tc, limit: 20 kB, words: fq_codel}"),
    "Red": ("cases.q.queue", f"cases.q.queue={{kind: red, {_RED}}}"),
    **{
        model: ("cases.q.queue", f"cases.q.queue={{kind: {kind}}}")
        for model, kind in (
            *(("Codel", "codel"), ("FqCodel", "fq_codel"), ("Pie", "pie"), ("FqPie", "fq_pie")),
            *(("Cake", "cake"), ("Fq", "fq"), ("Sfq", "sfq"), ("Sfb", "sfb"), ("Hhf", "hhf")),
        )
    },
    "Dualpi2": ("cases.q.queue", f'cases.q.queue={{kind: dualpi2}} kernel="{NEWER["dualpi2"]}"'),
    "Choke": (
        "cases.q.queue",
        "cases.q.queue={kind: choke, limit: 20 kB, min: 5 kB, max: 10 kB, probability: 0.1}",
    ),
    "Rio": ("cases.q.queue", f"cases.q.queue={{kind: rio, {_TWO}}}"),
    "Frio": ("cases.q.queue", f"cases.q.queue={{kind: frio, {_TWO}}}"),
    "Token": ("cases.q.marker", "cases.q.marker={kind: token, interval: 1 s, tokens: 1 MB}"),
    "Tcpf": ("cases.q.marker", "cases.q.marker={kind: tcpf, interval: 1 s, tokens: 1 MB}"),
    "Cbr": (
        "cases.q.background.ef",
        "cases.q.background.ef={kind: cbr, share: 0.1, packet: 500 B}",
    ),
    "OnOff": (
        "cases.q.background.ef",
        "cases.q.background.ef={kind: onoff, share: 0.1, on: 10 ms, packet: 500 B}",
    ),
    "Matrix": ("matrix", ""),
}
#: Ends that a rule of the program sets, where the schema has only what a quantity may be.
NARROWER: dict[str, tuple[Any, Any]] = {
    "bottleneck": ("1 kbit", None),
    "access": ("1 kbit", None),
    "edge": ("1 kbit", None),
    "delay": (None, "100 s"),
    "cross_delay": (None, "100 s"),
    "mtu": ("576 B", "9000 B"),
    "host_queue": ("5760 B", None),
    "ack_queue": ("100 B", None),
    "mss": ("88 B", "8960 B"),
    "rto_min": ("10 ms", "120 s"),
    "duration": ("1 ms", None),
    "socket_buffer": ("10 kB", "1 GB"),
    "think": ("1 ms", None),
    "limit": ("590 B", None),
    **dict.fromkeys(
        (f"{m}.{k}" for m in ("Codel", "FqCodel") for k in ("target", "interval", "ce_threshold")),
        ("2 us", "100 s"),
    ),
    **dict.fromkeys(("Pie.target", "FqPie.target"), ("1 us", "4 s")),
    **dict.fromkeys(("tupdate", "refill_delay"), ("10 ms", "100 s")),
    **dict.fromkeys(("Dualpi2.target", "step_thresh"), ("1 us", "4 s")),
    "Dualpi2.tupdate": ("100 us", "4 s"),
    **dict.fromkeys(("reset_timeout", "evict_timeout"), ("10 ms", "1000 s")),
    **dict.fromkeys(("rehash", "db"), ("10 ms", "1000 s")),
    **dict.fromkeys(("horizon", "Fq.ce_threshold"), ("1 us", "100 s")),
    **dict.fromkeys(("maxrate", "low_rate_threshold"), ("8 bit", f"{8 * (2**32 - 2)} bit")),
    **dict.fromkeys(("increment", "decrement"), (0.000008, None)),
    "quantum": ("256 B", "1048576 B"),
    "FqCodel.memory_limit": (None, "2147483648 B"),
    "initial_quantum": (None, "1048576 B"),
    "rtt": ("100 us", "100 s"),
    "timer_slack": (None, "1 s"),
    "Sfq.limit": ("1180 B", f"{590 * 128 * 127 + 589} B"),
    "Choke.limit": ("1770 B", f"{590 * (2**17 - 1) + 589} B"),
    "Choke.min": ("1180 B", "19469 B"),
    "Choke.max": ("1770 B", "20 kB"),
    "Choke.probability": (0.000003, None),
    "Choke.burst": (8, None),
    "Frio.avpkt": (None, "65535 B"),
    "Red.min": ("2 B", "1073741822 B"),
    "Red.max": ("3 B", "1073741823 B"),
    "Red.avpkt": (None, "715827881 B"),
    "Red.probability": (0.000001, None),
    "Red.burst": (2, None),
    "interval": ("1 ms", "4 s"),
    "share": (0.000001, 0.999999),
    "packet": ("68 B", "9000 B"),
    "on": ("10 us", "100 s"),
    "loss": (None, 0.999999),
    "duplicate": (None, 0.999999),
    "reorder": (None, 0.999999),
    "jitter": (None, "2 s"),
    "tokens": (None, "2147483647 B"),
    "OnOff.rate": ("1 kbit", None),
    "tcp_info": ("1 ms", None),
    **dict.fromkeys(("pacing", "Group.rate"), ("1 kbit", None)),
    "every": ("1 ms", None),
    "chunk": (None, "1 GB"),
    "stop": ("1 us", None),
    **dict.fromkeys(
        (f"{m}.rtt" for m in ("Group", "Echo", "Datagrams", "Exchanges")), (None, "100 s")
    ),
    **dict.fromkeys(("Echo.interval", "Datagrams.interval"), ("1 ms", None)),
    **dict.fromkeys(("Echo.size", "Datagrams.size"), ("44 B", "1500 B")),
    "request": ("16 B", None),
    "Exchanges.think": (None, None),
}
LARGE = "4294967295 B"
_SMALL = (".avpkt=1 B", ".min=2 B", ".max=3 B")
_LARGE = (f".limit={LARGE}", ".max=1073741823 B", ".burst=2", ".probability=1")
_NONE = (".in_min=1 B", ".in_max=1 B", ".out_min=1 B", ".out_max=1 B")
SHORT, LONG = "topology.chain.mtu=576 B", "topology.chain.mtu=9000 B"
#: So that thousands of flows connect before anything is measured.
HALF = (".bottleneck=10 Mbit", ".duplex=half")
LATE = ("traffic.socket_buffer=10 kB", "traffic.start_spread=60 s", "traffic.warmup=70 s")
SLOW = "topology.chain.bottleneck=1 kbit"
#: So that a long wait costs nothing, and what comes late meets no queue.
ALONE = (
    "topology.chain.bottleneck=100 kbit",
    "traffic.groups.b.stop=60 s",
    "traffic.warmup=100 s",
    "traffic.duration=1000000 s",
)
ENDED = "traffic.groups.a.stop=60 s"
#: What else has to be so at either end that it demands no more than it must; a dot: of its model.
OTHERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bottleneck": (("traffic.duration=100 s",), (".access=1000 Gbit",)),
    "ring": (HALF, HALF),
    "ack_queue": (HALF, HALF),
    "access": ((".bottleneck=1 kbit", "traffic.duration=100 s"), ()),
    "edge": ((".bottleneck=1 kbit", "traffic.duration=100 s"), ()),
    "ParkingLot.access": ((".bottleneck=1 kbit", "traffic.duration=10000 s"), ()),
    "ParkingLot.bottleneck": (("traffic.duration=10000 s",), (".access=1000 Gbit",)),
    "ParkingLot.delay": (("traffic.duration=20 s",), ("traffic.duration=300 s",)),
    "ParkingLot.cross_delay": (("traffic.duration=20 s",), ("traffic.duration=300 s",)),
    "ParkingLot.mtu": ((), ("traffic.duration=100 s",)),
    "cross_flows": (
        (),
        (".access=100 Mbit", ".bottleneck=10 Mbit", *LATE, "traffic.duration=20 s"),
    ),
    "delay": ((), ("traffic.duration=300 s",)),
    "host_queue": ((".mtu=576 B",), ()),
    "start_spread": ((), ("traffic.warmup=1000000 s", SLOW)),
    "warmup": ((), (SLOW,)),
    "duration": (("topology.chain.delay=0 s",), (SLOW,)),
    "stop": ((), (SLOW, "traffic.duration=1000000 s")),
    **dict.fromkeys(("start", "Group.start_spread"), ((), ALONE)),
    **dict.fromkeys(
        ("Echo.stop", "Datagrams.stop"),
        ((), (*ALONE, ENDED, ".interval=10000 s")),
    ),
    "Exchanges.stop": ((), (*ALONE, ENDED, ".think=10000 s")),
    "tcp_info": ((), ("traffic.duration=1000000 s", SLOW)),
    "Group.flows": (
        (),
        ("topology.chain.access=100 Mbit", "topology.chain.bottleneck=10 Mbit", *LATE),
    ),
    "Group.rtt": ((), ("traffic.duration=300 s",)),
    "chunk": ((".every=1 s",), (".every=1 s",)),
    "every": ((".chunk=1 kB",), (".chunk=1 kB",)),
    **dict.fromkeys(
        ("Echo.size", "Datagrams.size"),
        ((), ("topology.chain.mtu=1500 B",)),
    ),
    "Users.size": ((), (".largest=4294967295 B",)),
    "largest": ((".size=1 B",), ()),
    "limit": ((SHORT,), ()),
    "Red.limit": ((*_SMALL, SHORT), ()),
    "Red.min": ((*_SMALL[:1], ".max=3 B"), (*_LARGE, ".avpkt=536870911 B")),
    "Red.max": (_SMALL[:2], (*_LARGE, ".avpkt=536870911 B", ".min=1073741822 B")),
    "Red.avpkt": ((".burst=5000",), (*_LARGE, ".min=1073741822 B")),
    "Red.probability": ((".min=9999 B",), ()),
    "Red.burst": ((".avpkt=2500 B",), (".avpkt=1 B", ".limit=2 MB", ".max=2 MB", ".min=1 MB")),
    "Sfq.limit": ((SHORT,), (SHORT,)),
    "ce_threshold": (("tcp.ecn=classic",), ("tcp.ecn=classic",)),
    "Sfq.flows": ((), (".divisor=65536",)),
    "Choke.limit": ((SHORT, ".min=1180 B", ".max=1770 B"), (SHORT,)),
    "Choke.min": ((SHORT,), (SHORT, ".max=20 kB", ".burst=40")),
    "Choke.max": ((SHORT, ".min=1180 B"), (SHORT,)),
    "Choke.burst": ((SHORT,), (SHORT,)),
    "Rio.limit": ((*_NONE, SHORT), ()),
    "Frio.limit": ((*_NONE, SHORT), ()),
    "in_min": ((), (f".in_max={LARGE}", f".limit={LARGE}")),
    "in_max": ((".in_min=1 B",), (f".limit={LARGE}",)),
    "out_min": ((), (f".out_max={LARGE}", f".limit={LARGE}")),
    "out_max": ((".out_min=1 B",), (f".limit={LARGE}",)),
    "packet": ((), (LONG,)),
    "OnOff.rate": ((".share=0.000001",), (".on=10 us",)),
    "loss_burst": ((), (".loss=0.5",)),
    "Impairment.delay": ((".loss=0.1",), ("traffic.duration=300 s",)),
    "jitter": ((), (".delay=2 s", "traffic.duration=20 s")),
    "Matrix.flows": (
        (),
        ("topology.chain.access=100 Mbit", "topology.chain.bottleneck=10 Mbit", *LATE),
    ),
}
#: What a run at a bound cannot be valid for, by the check that fails.
EXPECTED = {
    "Impairment.loss=0.999999": "all_connected",
    "FqCodel.memory_limit=1 B": "all_connected",
    "Dualpi2.memlimit=1 B": "all_connected",
    "Cake.limit=590 B": "all_connected",
    "Exchanges.stop=1 us": "probes_ran",
}
#: The next value of a key, by its kind.
GRAINS = {RATE: "1 bit", SIZE: "1 B", DURATION: "1 us", "integer": 1, "number": 1e-6}


class Bound(NamedTuple):
    """One end of what a key may be; ``beyond`` is the next value, where a rule refuses it."""

    model: str
    key: str
    end: int
    value: Any
    beyond: Any

    def __str__(self) -> str:
        """Name the test."""
        return f"{self.model}.{self.key}={self.value}"

    def settings(self, value: Any) -> tuple[str, ...]:
        """Give what ``--set`` takes for a value of the key."""
        place, there = PLACES[self.model]
        others = of(OTHERS, self.model, self.key) or ((), ())
        own = filter(None, re.split(r" (?=matrix=|kernel=)", there))
        settings = (*own, *others[self.end], f".{self.key}={value}")
        return tuple(place + word if word.startswith(".") else word for word in settings)


def of(table: dict[str, Row], model: str, key: str) -> Row | None:
    return table.get(f"{model}.{key}") or table.get(key)


def ends(form: dict[str, Any]) -> tuple[Any, Any, Any] | None:
    """Give the least, the greatest and the grain of what a part of the schema allows."""
    for quantity in (RATE, SIZE, DURATION):
        if form.get("pattern") == quantity.pattern:
            return quantity.smallest, quantity.largest, GRAINS[quantity]
    kind = form.get("type")
    if kind not in GRAINS or "enum" in form:
        return None
    return form["minimum"], form["maximum"], GRAINS[kind]


def bounds() -> Iterator[Bound]:
    """Yield both ends of every number in the schema of an experiment."""
    models = json_schema()["$defs"]
    reached = ["Experiment"]
    for name in reached:
        found = re.findall(r"#/\$defs/(\w+)", str(models[name]))
        reached += [other for other in dict.fromkeys(found) if other not in reached]
    for model in reached:
        for key, part in models[model].get("properties", {}).items():
            for *widest, grain in filter(None, map(ends, part.get("anyOf", [part]))):
                for end, narrower in enumerate(of(NARROWER, model, key) or (None, None)):
                    if narrower is None:
                        yield Bound(model, key, end, widest[end], None)
                    else:
                        beyond = moved(narrower, grain, 2 * end - 1)
                        yield Bound(model, key, end, narrower, beyond)


def moved(value: Any, grain: Any, way: int) -> Any:
    (number, quantity), (step, _) = measured(value), measured(grain)
    return written(number + way * step, quantity)


BOUNDS = tuple(bounds())


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_a_bound_is_planned_in_plain_numbers(bound: Bound) -> None:
    (run,) = expand(apply_overrides(LEAST, bound.settings(bound.value)))
    plan = compose(run)
    assert "e+" not in guest_plan.render(plan)
    assert plan.memory_mb < 4096 - 512
    if bound.beyond is not None:
        with pytest.raises(SpecError):
            apply_overrides(LEAST, bound.settings(bound.beyond))


@pytest.mark.nightly
@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_a_bound_runs_in_a_guest(bound: Bound, guest_run: Callable[..., RunFiles]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    failing = EXPECTED.get(str(bound))
    wanted = pytest.raises(AssertionError, match=failing) if failing else nullcontext()
    with wanted:
        guest_run(LEAST, *bound.settings(bound.value))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


@pytest.mark.parametrize(("flows", "more"), [(1, False), (128, False), (1010, True)])
def test_a_guests_memory_follows_the_flows_from_where_it_does_not_suffice(
    flows: int, more: bool
) -> None:
    (run,) = expand(apply_overrides(LEAST, (f"matrix.flows={flows}",)))
    assert bool(compose(run).memory_mb) is more

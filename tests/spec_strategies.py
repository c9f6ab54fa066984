"""Experiments and collections as files may hold them, valid by construction, for hypothesis."""

from __future__ import annotations

import math
from typing import Any

from case_strategies import cases
from hypothesis import strategies as st
from quantity_strategies import ABOVE_THRESHOLDS, SHARES, Data, durations, rates, sizes, some

from tcpf_lab.base.units import format_duration, format_rate, format_size
from tcpf_lab.spec.model import case_slug
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS

NAMES_OF_RESULTS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_+-]{0,20}\Z")
NAMES_OF_CASES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9 _()+-]{0,12}\Z").filter(
    lambda name: name != "all"
)
TITLES = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], max_codepoint=0xFFFF), max_size=40
)


@st.composite
def impairments(draw: st.DrawFn) -> Data:
    delay = draw(st.integers(1, 50_000_000))
    burst = draw(st.floats(2, 20))
    found = some(
        draw,
        {"duplicate": SHARES, "reorder": SHARES, "jitter": durations(0, min(delay, 2_000_000))},
    )
    found["delay"] = format_duration(delay / 1e6)
    if draw(st.booleans()):
        found |= {"loss": draw(SHARES), "loss_burst": burst}
    return found


@st.composite
def chains(draw: st.DrawFn) -> Data:
    bottleneck = draw(st.integers(1_000_000, 10**9))
    mtu = draw(st.integers(576, 9000))
    optional = {
        "mtu": st.just(format_size(mtu)),
        "host_queue": sizes(10 * 9000, 10**8),
        "forward": impairments(),
        "reverse": impairments(),
    }
    return {
        "access": format_rate(bottleneck + draw(st.integers(0, 10**10))),
        "bottleneck": format_rate(bottleneck),
        "delay": draw(durations(0, 10**7)),
        **some(draw, optional),
    }


@st.composite
def dumbbells(draw: st.DrawFn) -> Data:
    pairs = draw(st.integers(2, 5))
    first = draw(st.integers(0, 10**6))
    spread = f"{format_duration(first / 1e6)}..{format_duration((first + 40) / 1e6)}"
    listed = st.lists(durations(0, 10**6), min_size=pairs, max_size=pairs)
    found = draw(chains())
    found["delay"] = draw(st.one_of(durations(0, 10**6), st.just(spread), listed))
    return {**found, "pairs": pairs, **some(draw, {"edge": rates(10**9, 10**10)})}


@st.composite
def parking_lots(draw: st.DrawFn) -> Data:
    found = draw(chains())
    for key in ("forward", "reverse"):
        found.pop(key, None)
    more = {"bottlenecks": st.integers(1, 3), "cross_flows": st.integers(1, 9)}
    return {
        **found,
        **{key: draw(values) for key, values in more.items()},
        "cross_delay": draw(durations(0, 10**6)),
    }


@st.composite
def tcps(draw: st.DrawFn) -> Data:
    found = {
        "profile": draw(st.sampled_from(["linux-2.2", "sysctl-2.2", "modern"])),
        "sack": draw(st.booleans()),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "congestion": st.sampled_from(["reno", "cubic", "bbr", "dctcp_2"]),
        "initcwnd": st.integers(1, 1000),
        "timestamps": st.booleans(),
        "window_scaling": st.booleans(),
        "ecn": st.sampled_from(["off", "passive", "classic"]),
        "quickack": st.booleans(),
        "mss": sizes(88, 8960),
        "rto_min": st.integers(10, 120_000).map(lambda number: format_duration(number / 1000)),
    }
    if found["profile"] != "modern":
        optional["linux22"] = st.dictionaries(
            st.sampled_from(list(LINUX22_BEHAVIOURS)), st.booleans()
        )
    elif not found["sack"]:
        optional["recovery"] = st.sampled_from(["newreno", "reno"])
    found |= some(draw, optional)
    if grows_as_reno(found) and found.get("congestion") != "reno":
        found.pop("congestion", None)
    return found


def grows_as_reno(tcp: Data) -> bool:
    """Whether no other congestion control goes with it: the growth of Linux 2.2 is Reno's."""
    return bool(tcp.get("linux22", {}).get("growth", tcp["profile"] == "linux-2.2"))


@st.composite
def traffics(draw: st.DrawFn, *, users: bool) -> Data:
    warmup = draw(st.integers(0, 10**8))
    found = {
        "warmup": format_duration(warmup / 1e6),
        "start_spread": draw(durations(0, warmup)),
        "duration": draw(durations(1000, 10**8)),
        **some(draw, {"socket_buffer": sizes(10_000, 10**8)}),
    }
    if users and draw(st.booleans()):
        size = draw(st.integers(1, 10**6))
        more = {"shape": st.floats(1.1, 100), "largest": sizes(size, 10**9)}
        asked = {"think": draw(durations(1000, 10**8)), "size": format_size(size)}
        return {**found, "captures": False, "users": asked | some(draw, more)}
    if draw(st.booleans()):
        return {**found, **some(draw, {"generator": st.sampled_from(["native", "iperf3"])})}
    return {**found, "captures": draw(st.booleans()), "generator": "native"}


@st.composite
def matrices(draw: st.DrawFn, names: list[str], tcp: Data) -> Data:
    seeds = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3, unique=True)
    found: Data = {
        "case": draw(st.one_of(st.just("all"), st.sampled_from(names), st.just(names))),
        "flows": draw(st.one_of(st.integers(1, 40), st.sampled_from(["3..5", "10..20:10"]))),
        "seed": draw(st.one_of(st.just("3..5"), st.integers(0, 5), seeds)),
    }
    limit = st.integers(ABOVE_THRESHOLDS, 10**9).map(format_size)
    axes = {
        "queue.limit": st.lists(sizes(10**9, 2**32 - 1), min_size=1, max_size=3, unique=True),
        "tcp.initcwnd": st.one_of(st.just("2..4"), st.just([10, 3])),
        **({} if grows_as_reno(tcp) else {"tcp.congestion": st.just(["reno", "cubic"])}),
        "traffic.duration": st.just("10 s..30 s:10 s"),
        "tcp.quickack": st.just([True, False]),
        "tcp.ecn": st.just(["off", "classic"]),
        "traffic.socket_buffer": limit,
    }
    chosen = draw(st.lists(st.sampled_from(sorted(axes)), max_size=2, unique=True))
    return found | {key: draw(axes[key]) for key in chosen}


@st.composite
def experiments(draw: st.DrawFn) -> Data:
    """Draw what the YAML of an experiment may say; every kind of everything is in it."""
    kind = draw(st.sampled_from(["chain", "dumbbell", "parking_lot"]))
    topology = draw(
        {"chain": chains(), "dumbbell": dumbbells(), "parking_lot": parking_lots()}[kind]
    )
    names = draw(st.lists(NAMES_OF_CASES, min_size=1, max_size=3, unique_by=case_slug))
    alone = kind != "parking_lot" or topology["bottlenecks"] == 1
    reference = st.one_of(
        st.sampled_from("ABCD").map(lambda config: {"config": config}),
        st.sampled_from(["001", "003", "004"]).map(lambda paper: {"paper": paper}),
    )
    tcp = draw(tcps())
    return {
        "name": draw(NAMES_OF_RESULTS),
        **some(draw, {"title": TITLES, "reference": reference}),
        "topology": {kind: topology},
        "tcp": tcp,
        "traffic": draw(traffics(users=kind != "parking_lot")),
        "cases": {name: draw(cases(background=alone)) for name in names},
        "matrix": draw(matrices(names, tcp)),
    }


@st.composite
def collections(draw: st.DrawFn) -> Data:
    """Draw what the YAML of a collection may say; its members need not be there."""
    bare = st.lists(st.sampled_from(["configA", "configB", "smoke", "ef"]), min_size=1, unique=True)
    levels = draw(st.lists(st.integers(0, 10**6), max_size=4, unique=True))
    changed = [
        {"spec": "configA", "factor": "limit", "level": f"{k} B", "set": [f"queue.limit={k} B"]}
        for k in levels
    ]
    members = draw(st.permutations([*draw(bare), *changed]))
    only = st.dictionaries(
        st.sampled_from(["case", "flows", "seed", "queue.limit", "tcp.sack"]),
        st.one_of(st.integers(0, 99), st.booleans(), st.text("abc,1 +", min_size=1)),
    )
    return {
        "name": draw(NAMES_OF_RESULTS),
        **some(draw, {"title": TITLES, "only": only, "seeds": st.integers(1, math.ceil(1e9))}),
        "experiments": members,
    }

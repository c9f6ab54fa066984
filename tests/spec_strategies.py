"""Experiments as users may write them, for hypothesis."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tcpf_lab.base.units import format_duration, format_rate, format_size
from tcpf_lab.spec.model import case_slug
from tcpf_lab.spec.queue import goes_first
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS
from tcpf_lab.spec.words import NAMES

Data = dict[str, Any]

CODE_POINTS = st.one_of(st.sampled_from(sorted(NAMES)), st.integers(0, 63))
#: A share of packets, and a probability that no queue takes for nothing.
SHARES = st.floats(0.001, 0.5)
#: The largest frame of any topology here, bytes.
LARGEST_FRAME = 9014
#: More than any threshold here, bytes: an axis of limits begins with it.
ABOVE_THRESHOLDS = 3_000_000


def sizes(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(format_size)


def durations(least_us: int, most_us: int) -> st.SearchStrategy[str]:
    return st.integers(least_us, most_us).map(lambda number: format_duration(number / 1e6))


def rates(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(format_rate)


def code(value: str | int) -> int:
    return NAMES[value] if isinstance(value, str) else value


def some(draw: st.DrawFn, optional: dict[str, st.SearchStrategy[Any]]) -> Data:
    """Draw some of the keys that may be left out."""
    return {key: draw(values) for key, values in optional.items() if draw(st.booleans())}


# Cases of experiments as files may hold them, valid by construction, for hypothesis.


@st.composite
def markers(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["bare", "none", "tcpf", "token"]))
    if kind in ("bare", "none"):
        return "none" if kind == "bare" else {"kind": "none"}
    within = draw(CODE_POINTS)
    without = draw(CODE_POINTS.filter(lambda value: code(value) != code(within)))
    found: Data = {"kind": kind, "in": within, "out": without}
    found |= {"interval": draw(durations(1000, 4_000_000)), "tokens": draw(sizes(1, 10**8))}
    found |= some(draw, {"flows": st.integers(1, 2**18)})
    if kind == "token":
        return found | some(draw, {"mode": st.sampled_from(["reset", "continuous", "flow"])})
    kinds = {
        "profile": st.sampled_from(["recommended", "paper"]),
        "retransmits": st.sampled_from(["protect", "plain"]),
    }
    return found | some(draw, kinds)


@st.composite
def reds(draw: st.DrawFn) -> Data:
    avpkt, packets = draw(st.integers(100, 1500)), draw(st.integers(8, 40))
    least = avpkt * packets
    most = least + draw(st.integers(1, 10**6))
    return {
        "kind": "red",
        "limit": draw(sizes(max(most, LARGEST_FRAME), 10**9)),
        "min": format_size(least),
        "max": format_size(most),
        "probability": draw(st.floats(0.01, 1)),
        "avpkt": format_size(avpkt),
        "burst": draw(st.integers(packets + 1, 2 * packets)),
        **draw(st.sampled_from([{}, {"ecn": True}, {"ecn": True, "harddrop": True}])),
        **some(draw, {"adaptive": st.booleans()}),
    }


_CODEL = dict.fromkeys(("target", "interval", "ce_threshold"), durations(2, 10**8))
_PIE = {
    "target": durations(1, 4 * 10**6),
    "tupdate": st.integers(1, 100).map(lambda ticks: f"{10 * ticks} ms"),
    **dict.fromkeys(("alpha", "beta"), st.integers(1, 32)),
    **dict.fromkeys(("bytemode", "dq_rate_estimator"), st.booleans()),
}
_FLOWS = {"flows": st.integers(1, 65536), "quantum": sizes(256, 2**20)}
#: Keys of kinds of the kernel that may be left out; all of them may leave out ``limit``.
KERNEL: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "codel": {**_CODEL, "ecn": st.booleans()},
    "fq_codel": {**_CODEL, "ecn": st.booleans(), **_FLOWS, "memory_limit": sizes(1, 2**31)},
    "pie": {**_PIE, "ecn": st.booleans()},
    "fq_pie": {**_PIE, "ecn": st.booleans(), **_FLOWS, "ecn_prob": st.integers(1, 99)},
    "dualpi2": {
        "memlimit": sizes(1, 2**32 - 1),
        "target": durations(1, 4 * 10**6),
        "tupdate": durations(100, 4 * 10**6),
        "step_thresh": durations(1, 4 * 10**6),
        **dict.fromkeys(("alpha", "beta"), st.integers(1, 1000)),
        "coupling_factor": st.integers(1, 255),
        "classic_protection": st.integers(0, 100),
        "ecn_mask": st.sampled_from(["l4s_ect", "any_ect"]),
        **dict.fromkeys(("drop_on_overload", "drop_early"), st.booleans()),
    },
    "cake": {
        "rtt": durations(100, 10**8),
        "diffserv": st.sampled_from(["besteffort", "diffserv3", "diffserv4", "diffserv8"]),
        "flowmode": st.sampled_from(["flowblind", "hosts", "flows", "triple-isolate"]),
        "ack_filter": st.sampled_from(["off", "on", "aggressive"]),
        "split_gso": st.booleans(),
    },
    "fq": {
        "flow_limit": st.integers(1, 10**6),
        "quantum": sizes(256, 2**20),
        "maxrate": rates(8, 10**10),
        "buckets": st.integers(1, 18).map(lambda n: 2**n),
        "horizon": durations(1, 10**8),
        "ce_threshold": durations(1, 10**8),
        **dict.fromkeys(("pacing", "horizon_drop"), st.booleans()),
    },
    "sfb": {
        **dict.fromkeys(("max", "target"), st.integers(1, 65535)),
        **dict.fromkeys(("increment", "decrement"), SHARES),
        "rehash": st.integers(1, 10**5).map(lambda ticks: f"{10 * ticks} ms"),
    },
    "hhf": {"quantum": sizes(256, 2**20), "admit_bytes": sizes(1, 10**9)},
    "sfq": {
        "perturb": st.integers(0, 10**6),
        "quantum": sizes(256, 2**20),
        "headdrop": st.booleans(),
    },
}


@st.composite
def kernels(draw: st.DrawFn) -> Data:
    kind = draw(st.sampled_from([*KERNEL, "choke"]))
    if kind == "choke":
        least = draw(st.integers(16, 20))
        thresholds = {"min": least, "max": least + draw(st.integers(1, 50)), "limit": 100}
        found = {key: format_size(packets * LARGEST_FRAME) for key, packets in thresholds.items()}
        return {"kind": kind, **found, "probability": draw(SHARES), "burst": 1500}
    limit = {} if kind == "sfq" else {"limit": sizes(LARGEST_FRAME, 10**9)}
    return {"kind": kind, **some(draw, {**limit, **KERNEL[kind]})}


@st.composite
def precedences(draw: st.DrawFn, within: str | int | None) -> Data:
    kind = draw(st.sampled_from(["rio", "frio"]))
    found: Data = {"kind": kind}
    for side in ("in", "out"):
        least = draw(st.integers(1, 10**6))
        found[f"{side}_min"] = format_size(least)
        found[f"{side}_max"] = format_size(least + draw(st.integers(0, 10**6)))
        found[f"{side}_probability"] = draw(st.one_of(st.floats(0, 1), st.sampled_from([0, 1])))
    modes = ["coupled", "decoupled"]
    own = {
        "rio": {
            "mode": st.sampled_from([*modes, "wred"]),
            "uniformize": st.sampled_from(["none", "red"]),
        },
        "frio": {
            "mode": st.sampled_from(modes),
            "share": st.sampled_from(["instant", "average"]),
            "many_flows": st.booleans(),
            "minq": st.integers(0, 65535),
            "flows": st.integers(1, 2**20),
        },
    }
    found |= {"limit": draw(sizes(2_000_000, 10**9))}
    found |= some(draw, {"ewma": st.integers(0, 31), "avpkt": sizes(1, 65535), **own[kind]})
    return found if within is None else found | {"in": within}


WORDS = st.from_regex(r"\A[a-z][a-z_]{0,9}(?: [A-Za-z0-9_.:%+-]{1,8}){0,5}\Z").filter(
    lambda text: (
        text.split()[0] not in ("rio", "frio", "clsact", "ingress", "mq", "mqprio")
        and text.split()[0] != "noqueue"
    )
)


@st.composite
def queues(draw: st.DrawFn, marker: Any) -> Data:
    marked = isinstance(marker, dict) and "in" in marker
    kinds = ["red", "bfifo", "kernel", "precedence", "tc", "prio"]
    if marked and any(goes_first(code(marker[side])) for side in ("in", "out")):
        kinds.remove("prio")
    kind = draw(st.sampled_from(kinds))
    if kind == "red":
        return draw(reds())
    if kind == "kernel":
        return draw(kernels())
    if kind == "precedence":
        return draw(precedences(marker["in"] if marked else None))
    limit = draw(sizes(LARGEST_FRAME, 10**9))
    words = {"words": draw(WORDS)} if kind == "tc" else {}
    return {"kind": kind, "limit": limit, **words}


@st.composite
def backgrounds(draw: st.DrawFn) -> Data:
    names = draw(st.lists(st.sampled_from(["ef", "be", "cbr1", "q"]), min_size=1, unique=True))
    found = {}
    for name in names:
        source: Data = {"share": draw(st.floats(0.01, 0.2)), "packet": draw(sizes(68, 576))}
        source |= some(draw, {"dscp": CODE_POINTS})
        if draw(st.booleans()):
            source |= {"kind": "onoff", "on": draw(durations(10, 80_000))}
            source |= some(draw, {"rate": rates(10**9, 10**10)})
        else:
            source["kind"] = "cbr"
        found[name] = source
    return found


@st.composite
def cases(draw: st.DrawFn, *, background: bool) -> Data:
    marker = draw(markers())
    found = {"queue": draw(queues(marker))}
    found |= some(draw, {"background": backgrounds()}) if background else {}
    return found if marker == "none" and draw(st.booleans()) else {"marker": marker, **found}


# Experiments and collections as files may hold them, valid by construction, for hypothesis.

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
        "ecn": st.sampled_from(["off", "passive", "classic", "accurate"]),
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
def matrices(draw: st.DrawFn, cases: Data, tcp: Data) -> Data:
    names, kinds = list(cases), {case["queue"]["kind"] for case in cases.values()}
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
    if kinds & {"sfq", "choke"}:  # which hold no more than so many packets
        del axes["queue.limit"]
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
        st.sampled_from(["001", "003", "004", "ware", "rrul", "dualq"]).map(
            lambda paper: {"paper": paper}
        ),
    )
    tcp = draw(tcps())
    found = {name: draw(cases(background=alone)) for name in names}
    return {
        "name": draw(NAMES_OF_RESULTS),
        **some(draw, {"title": TITLES, "reference": reference}),
        "topology": {kind: topology},
        "tcp": tcp,
        "traffic": draw(traffics(users=kind != "parking_lot")),
        "cases": found,
        "matrix": draw(matrices(found, tcp)),
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

"""Cases of experiments as files may hold them, valid by construction, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from quantity_strategies import (
    CODE_POINTS,
    LARGEST_FRAME,
    Data,
    code,
    durations,
    rates,
    sizes,
    some,
)

from tcpf_lab.base.units import format_size
from tcpf_lab.spec.queue import goes_first


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
    }


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
    kinds = ["red", "bfifo", "precedence", "tc", "prio"]
    if marked and any(goes_first(code(marker[side])) for side in ("in", "out")):
        kinds.remove("prio")
    kind = draw(st.sampled_from(kinds))
    if kind == "red":
        return draw(reds())
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

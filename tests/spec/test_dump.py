from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tcpf_lab.spec.load import dump, parse
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.units import format_duration, format_rate, format_size

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9 _()+-]{0,12}\Z").filter(lambda name: name != "all")
TITLES = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], max_codepoint=0xFFFF), max_size=40
)


def sizes(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(format_size)


@st.composite
def queues(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"kind": "bfifo", "limit": draw(sizes(10_000, 2**32 - 1))}
    low = draw(st.integers(10_000, 50_000))
    high = draw(st.integers(low + 1, 1_000_000))
    return {
        "kind": "red",
        "limit": draw(sizes(max(high, 10_000), 2**32 - 1)),
        "min": format_size(low),
        "max": format_size(high),
        "probability": draw(st.floats(0.01, 1)),
        "burst": draw(st.integers(73, 80)),
    }


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=case_slug))
    warmup = draw(st.integers(0, 10**7))
    bottleneck = draw(st.integers(1, 10**9))
    case = st.one_of(st.just("all"), st.sampled_from(names), st.just(names))
    seeds = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True)
    return {
        "name": draw(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_+-]{0,20}\Z")),
        "title": draw(TITLES),
        "topology": {
            "chain": {
                "access": format_rate(bottleneck + draw(st.integers(0, 10**9))),
                "bottleneck": format_rate(bottleneck),
                "delay": format_duration(draw(st.integers(0, 10**6)) / 1000),
                "mtu": draw(sizes(576, 9000)),
            }
        },
        "tcp": {
            "profile": draw(st.sampled_from(["linux-2.2", "sysctl-2.2", "modern"])),
            "sack": draw(st.booleans()),
        },
        "traffic": {
            "warmup": format_duration(warmup / 1000),
            "start_spread": format_duration(draw(st.integers(0, warmup)) / 1000),
            "duration": format_duration(draw(st.integers(1, 10**7)) / 1000),
        },
        "cases": {name: {"queue": draw(queues())} for name in names},
        "matrix": {
            "case": draw(case),
            "flows": draw(st.lists(st.integers(1, 4096), min_size=1, max_size=3, unique=True)),
            "seed": draw(st.one_of(st.just("3..9"), st.integers(0, 5), seeds)),
        },
    }


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(experiments())
def test_what_is_written_is_read_back_as_the_same_experiment(data: dict[str, Any]) -> None:
    experiment = Experiment.model_validate(data)
    text = dump(experiment)
    assert parse(text, "dumped") == experiment
    assert dump(parse(text, "dumped")) == text


@pytest.mark.parametrize("title", ["1..10", "null", "0.5", "yes: no", "# x", "'", "it's", " ", "é"])
def test_a_title_that_looks_like_yaml_stays_a_title(title: str, config_a: Experiment) -> None:
    changed = config_a.model_copy(update={"title": title})
    assert parse(dump(changed), "dumped") == changed


@pytest.mark.parametrize("name", ["1", "1e3", "true", "null", "0x10", "2001-01-01", "no"])
def test_a_case_name_that_looks_like_a_number_stays_a_name(name: str, config_a: Experiment) -> None:
    queue = config_a.cases["NoMark+RED"]
    changed = config_a.model_copy(update={"cases": {name: queue}})
    assert parse(dump(changed), "dumped").cases == {name: queue}


def test_every_default_is_written_out() -> None:
    text = """
        name: x
        topology: {chain: {access: 1 Gbit, bottleneck: 1 Mbit, delay: 0 s}}
        tcp: {profile: modern}
        cases: {RED: {queue: {kind: red, limit: 500 kB, min: 10 kB, max: 30 kB, probability: 1}}}
        matrix: {flows: 3}
    """
    experiment = parse(text, "x")
    written = dump(experiment)
    assert "generator" not in written  # the testbed's to choose
    for line in (
        "    mtu: 1 kB",
        "    host_queue: 1 MB",
        "  sack: true",
        "  start_spread: 2 s",
        "  warmup: 10 s",
        "  duration: 60 s",
        "  socket_buffer: 1 MB",
        "    marker: none",
        "      burst: 73",
        "      avpkt: 1 kB",
        "  case: all",
        "  flows: 3",
        "  seed: 1..10",
    ):
        assert line in written.splitlines()


@pytest.mark.parametrize("delay", ["12 ms..26 ms", ["1 ms", "20 us", "1.5 s"], "20 ms"])
def test_delays_of_pairs_are_written_as_short_as_they_were(
    delay: Any, config_a: Experiment
) -> None:
    pairs = f"{{dumbbell: {{access: 1 Gbit, bottleneck: 1 Mbit, delay: {delay}, pairs: 3}}}}"
    one = apply_overrides(config_a, [f"topology={pairs}"])
    written = dump(one)
    assert parse(written, "again") == one
    shown = delay if isinstance(delay, str) else f"[{', '.join(delay)}]"
    assert f"    delay: {shown}\n" in written

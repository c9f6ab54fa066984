"""Bounds of groups that no single key has, and the rate of an application."""

from __future__ import annotations

import pytest

from tcpf_lab.base.errors import SpecError
from tcpf_lab.spec.group import Group
from tcpf_lab.spec.load import apply_overrides, parse

TEXT = """\
name: groups
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}
tcp: {profile: modern}
traffic: {start_spread: 0 s, warmup: 1 s, duration: 2 s, groups: {a: {flows: 1}}}
cases: {TailDrop: {queue: {kind: bfifo, limit: 500 kB}}}
matrix: {seed: 1}
"""


def with_groups(count: int, flows: int, probes: int = 0) -> str:
    names = (f"g{number}: {{flows: {flows}}}" for number in range(count))
    pings = (f"p{number}: {{kind: icmp, interval: 1 s}}" for number in range(probes))
    found = f"groups: {{{', '.join(names)}}}"
    return f"{found}, probes: {{{', '.join(pings)}}}" if probes else found


@pytest.mark.parametrize(
    ("allowed", "refused", "most"),
    [
        (with_groups(4, 1000), with_groups(5, 1000), "at most 4096"),
        (with_groups(60, 1, 40), with_groups(60, 1, 41), "at most 100"),
        (
            with_groups(1, 1) + ", tcp_info: 2 s",
            with_groups(1, 1) + ", tcp_info: 2001 ms",
            "duration",
        ),
    ],
)
def test_what_a_guest_does_not_bear_is_refused(allowed: str, refused: str, most: str) -> None:
    base = parse(TEXT, "groups.yaml")
    times = "start_spread: 0 s, warmup: 1 s, duration: 2 s"
    apply_overrides(base, [f"traffic={{{times}, {allowed}}}"])
    with pytest.raises(SpecError, match=most):
        apply_overrides(base, [f"traffic={{{times}, {refused}}}"])


@pytest.mark.parametrize("rate", [1000, 1023, 64_000, 99_999, 12_345_678, 10**12])
def test_an_application_writes_at_the_rate_that_was_requested(rate: int) -> None:
    written = Group.model_validate({"rate": f"{rate} bit"}).written
    assert written is not None
    chunk, every = written
    assert 8 * chunk / every == pytest.approx(rate, rel=1e-6)
    assert every == pytest.approx(0.01, rel=0.5)

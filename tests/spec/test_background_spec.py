"""Background of a case: what its words become, and where its machines stand."""

from __future__ import annotations

import pytest

from tcpf_lab.spec.background import Cbr, OnOff, Source, with_sources
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.sweep import expand

TEXT = """
name: try
topology: {chain: {access: 100 Mbit, bottleneck: 40 Mbit, delay: 8 ms, mtu: 1500 B}}
tcp: {profile: sysctl-2.2, sack: false}
cases:
  alone:
    queue: {kind: prio, limit: 40 kB}
  CBR:
    queue: {kind: prio, limit: 40 kB}
    background: {ef: {kind: cbr, share: 0.3, dscp: EF}}
  EF:
    queue: {kind: prio, limit: 40 kB}
    background:
      ef: {kind: onoff, on: 4 ms, share: 0.3, dscp: EF}
      udp: {kind: onoff, on: 4 ms, share: 0.05, packet: 500 B, rate: 20 Mbit}
matrix: {flows: 1, seed: 1..2, background.ef.on: [0.4 ms, 400 ms]}
"""


@pytest.fixture
def experiment() -> Experiment:
    return parse(TEXT, "try.yaml")


def source(experiment: Experiment, name: str) -> Source:
    background = experiment.cases["EF"].background
    assert background is not None
    return background[name]


def numbers(words: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def test_silence_follows_from_the_share_of_the_link(experiment):
    bottleneck = 40_000_000
    fast = numbers(source(experiment, "ef").words(bottleneck))
    # T_off = T_on (1 - f) / f: 7/3 of T_on at 30 % of a link as fast as the bottleneck.
    assert fast == {"--burst": 4_000_000, "--gap": 9_333_333, "--rate": bottleneck}
    slow = numbers(source(experiment, "udp").words(bottleneck))
    # 5 % of 40 Mbit/s are 10 % of 20 Mbit/s.
    assert slow == {"--burst": 4_000_000, "--gap": 36_000_000, "--rate": 20_000_000}


def test_period_gives_the_share_in_frames():
    cbr = Cbr.model_validate({"kind": "cbr", "share": 0.3, "packet": "1500 B"})
    (every,) = numbers(cbr.words(40_000_000)).values()
    assert 1514 * 8 / (every * 1e-9) == pytest.approx(0.3 * 40e6, rel=1e-6)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"kind": "onoff", "on": "1 s", "share": 1e-6}, "on"),
        ({"kind": "onoff", "on": "10 us", "share": 0.3, "rate": "1000 Gbit"}, None),
        ({"kind": "cbr", "share": 1e-6}, None),
        ({"kind": "cbr", "share": 1e-9}, "share"),
    ],
)
def test_a_source_waits_a_day_at_most(given, key):
    kind = OnOff if given["kind"] == "onoff" else Cbr
    problems = kind.model_validate(given).misfits(1_000_000)
    assert [path for path, _ in problems] == ([(key,)] if key else [])


def test_machines_of_sources_come_last_and_change_no_other(experiment):
    graph = experiment.topology.graph()
    background = experiment.cases["EF"].background
    assert background is not None
    more = with_sources(graph, background)
    assert more.nodes[: len(graph.nodes)] == graph.nodes
    assert more.links[: len(graph.links)] == graph.links
    assert [(node.name, node.role) for node in more.having("source")] == [
        ("EF", "source"),
        ("UDP", "source"),
    ]
    assert [(link.a, link.b, link.rate, link.mtu) for link in more.links[-2:]] == [
        ("EF", "R1", 40_000_000, 1500),
        ("UDP", "R1", 20_000_000, 500),
    ]
    assert more.mss == graph.mss == 1460


def test_axis_of_a_source_is_for_the_cases_that_have_it(experiment):
    ids = [run.id for run in expand(experiment, seeds=1)]
    assert ids == [
        "alone-flows1-seed1",
        "cbr-flows1-seed1",
        "ef-background.ef.on=400us-flows1-seed1",
        "ef-background.ef.on=400ms-flows1-seed1",
    ]


def test_what_is_left_out_is_not_written(experiment):
    cases = to_data(experiment)["cases"]
    assert "background" not in cases["alone"]
    assert cases["CBR"]["background"] == {
        "ef": {"kind": "cbr", "share": 0.3, "packet": "1.5 kB", "dscp": "EF"}
    }
    assert "rate" not in cases["EF"]["background"]["ef"]


def test_no_burst_is_as_long_as_its_bound():
    burst = OnOff.model_validate({"kind": "onoff", "on": "10 ms", "share": 0.3})
    assert burst.longest_burst == pytest.approx(0.3)
    assert Cbr.model_validate({"kind": "cbr", "share": 0.3}).longest_burst == 0

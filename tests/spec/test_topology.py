from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tcpf_lab.spec.graph import CrossTraffic, Impairment, Link
from tcpf_lab.spec.topology import Topology

CHAIN = {"access": "100 Mbit", "bottleneck": "10 Mbit", "delay": "200 ms"}


def graph(**keys: Any) -> Any:
    return Topology.model_validate(keys).graph()


def test_the_chain_is_five_nodes_with_the_delay_at_the_receivers_egress() -> None:
    chain = graph(chain=CHAIN)
    assert [(node.name, node.role) for node in chain.nodes] == [
        ("S", "sender"),
        ("R0", "marker"),
        ("R1", "bottleneck"),
        ("R2", "router"),
        ("D", "receiver"),
    ]
    assert chain.links == (
        Link("S", "R0", 100_000_000, 0.0, 0.0, 1000, 1_000_000),
        Link("R0", "R1", 100_000_000, 0.0, 0.0, 1000, 1_000_000),
        Link("R1", "R2", 10_000_000, 0.0, 0.0, 1000, 1_000_000, bottleneck=True),
        Link("R2", "D", 100_000_000, 0.0, 0.2, 1000, 1_000_000),
    )
    assert (chain.bottleneck.a, chain.bottleneck.b, chain.mss) == ("R1", "R2", 960)


def test_the_dumbbell_has_a_delay_for_every_receiver_and_one_bottleneck() -> None:
    dumbbell = graph(dumbbell={**CHAIN, "pairs": 3})
    assert [node.name for node in dumbbell.having("sender")] == ["S0", "S1", "S2"]
    assert [node.name for node in dumbbell.having("receiver")] == ["D0", "D1", "D2"]
    assert sum(link.delay_ba for link in dumbbell.links) == pytest.approx(0.6)
    assert dumbbell.bottleneck.rate == 10_000_000
    ends = [name for link in dumbbell.links for name in (link.a, link.b)]
    assert set(ends) == {node.name for node in dumbbell.nodes}


def delays_of(graph: Any) -> list[float]:
    return [link.delay_ba for link in graph.links if link.b.startswith("D")]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("20 ms", [0.02, 0.02, 0.02, 0.02]),
        (["1 ms", "2 ms", "4 ms", "8 ms"], [0.001, 0.002, 0.004, 0.008]),
        ("10 ms..40 ms", [0.01, 0.02, 0.03, 0.04]),
        ("0 s .. 100 us", [0.0, 0.000033, 0.000067, 0.0001]),  # netem counts microseconds
    ],
)
def test_every_pair_has_the_delay_that_is_written_for_it(
    written: Any, seconds: list[float]
) -> None:
    pairs = graph(dumbbell={**CHAIN, "delay": written, "pairs": 4})
    assert delays_of(pairs) == seconds
    assert [link.rate for link in pairs.links] == [100_000_000] * 5 + [10_000_000] + [
        100_000_000
    ] * 4


def test_the_hosts_of_a_dumbbell_have_links_of_their_own_rate() -> None:
    pairs = graph(dumbbell={**CHAIN, "pairs": 20, "edge": "1 Mbit"})
    rates = pairs.rates
    assert {rate for ends, rate in rates.items() if {"S", "D"} & {end[0] for end in ends}} == {
        10**6
    }
    assert (rates["R0", "R1"], rates["R1", "R2"]) == (100_000_000, 10_000_000)


def test_a_path_through_the_graph_is_its_links_in_order() -> None:
    pairs = graph(dumbbell={**CHAIN, "pairs": 3})
    way = [(link.a, link.b) for link in pairs.path("S1", "D2")]
    assert way == [("S1", "R0"), ("R0", "R1"), ("R1", "R2"), ("R2", "D2")]


def test_impairments_are_behind_the_bottleneck_and_before_the_acknowledgements_reach_it() -> None:
    loss, jitter = {"loss": 0.1}, {"delay": "10 ms", "jitter": "1 ms"}
    pairs = graph(dumbbell={**CHAIN, "pairs": 2, "forward": loss, "reverse": jitter})
    there = [(link.a, link.b) for link in pairs.links if link.impairment_ab]
    back = [(link.b, link.a) for link in pairs.links if link.impairment_ba]
    assert there == [("R2", "D0"), ("R2", "D1")]
    assert back == [("R2", "R1")]
    assert pairs.links[-1].impairment_ab == Impairment.model_validate(loss)
    assert pairs.bottleneck.impairment_ba == Impairment.model_validate(jitter)


LOT = {**CHAIN, "bottlenecks": 2, "cross_flows": 4, "cross_delay": "50 ms"}


def test_a_parking_lot_has_cross_traffic_with_its_own_marker_over_each_bottleneck() -> None:
    lot = graph(parking_lot=LOT)
    assert [(link.a, link.b) for link in lot.bottlenecks] == [("R1", "R2"), ("R2", "R3")]
    assert lot.bottleneck.a == "R1"
    assert lot.pairs == (("S", "D"),)
    assert lot.cross == (
        CrossTraffic("X1", "Y1", "M1", "R1", 4),
        CrossTraffic("X2", "Y2", "M2", "R2", 4),
    )
    for cross in lot.cross:
        way = lot.path(cross.sender, cross.receiver)
        assert [link.b for link in way][:2] == [cross.marker, cross.bottleneck]
        assert [link.a for link in way if link.bottleneck] == [cross.bottleneck]
        assert sum(link.delay_ba for link in way) == 0.05
    main = lot.path("S", "D")
    assert [link.b for link in main] == ["R0", "R1", "R2", "R3", "D"]
    assert sum(link.delay_ba for link in main) == 0.2


def test_the_mss_follows_the_mtu() -> None:
    assert graph(chain={**CHAIN, "mtu": "1500 B"}).mss == 1460


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"bottleneck": "5 Mbit"}, "10 Mbit or 100 Mbit on a half-duplex link"),
        ({"access_duplex": "half", "access": "1 Gbit"}, "not 1 Gbit"),
        ({"mtu": "9000 B"}, "at most 1500 B"),
        ({"duplex": "full", "ring": 4}, "without duplex: half"),
        ({"duplex": "full", "ack_queue": "9 kB"}, "without duplex: half"),
        ({"ack_queue": "9 kB", "reverse": {"loss": 0.1}}, "combined with reverse"),
        ({"ring": 0}, "greater than or equal to 1"),
    ],
)
def test_what_no_shared_wire_is_is_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Topology.model_validate({"chain": {**CHAIN, "duplex": "half", **words}})
    assert said in str(caught.value)


def test_each_segment_is_half_duplex_by_itself() -> None:
    wire = graph(chain={**CHAIN, "duplex": "half", "ack_queue": "20 kB"})
    assert [link.ring for link in wire.links] == [0, 0, 16, 0]
    assert wire.bottleneck.queue == 20_000
    hubs = graph(chain={**CHAIN, "access_duplex": "half"})
    assert [link.ring > 0 for link in hubs.links] == [True, True, False, True]
    lot = graph(parking_lot={**LOT, "duplex": "half"})
    assert [link.ring > 0 for link in lot.links] == [link.bottleneck for link in lot.links]

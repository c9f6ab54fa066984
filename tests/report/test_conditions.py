"""Under which conditions runs were made, in words."""

from __future__ import annotations

import pytest

from tcpf_lab.base import shipped
from tcpf_lab.report.style import conditions, path_delays
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.topology import Chain, Dumbbell, Topology

PATH = {"access": "100 Mbit", "bottleneck": "10 Mbit", "delay": "200 ms"}


@pytest.mark.parametrize(
    "topology", [Chain(**PATH), Dumbbell(**PATH, pairs=1), Dumbbell(**PATH, pairs=30)]
)
def test_the_delay_is_that_of_one_path_however_many_there_are(topology: Chain) -> None:
    assert set(path_delays(topology.graph())) == {0.2}


def test_cross_traffic_has_a_delay_of_its_own() -> None:
    numbers = {"bottlenecks": 2, "cross_flows": 3, "cross_delay": "50 ms"}
    lot = Topology.model_validate({"parking_lot": {**PATH, **numbers}})
    assert path_delays(lot.graph()) == (0.2, 0.05, 0.05)


def test_of_unequal_delays_the_least_and_the_greatest_are_told() -> None:
    pairs = Dumbbell.model_validate({**PATH, "delay": "12 ms..26 ms", "pairs": 8})
    assert path_delays(pairs.graph()) == tuple(pytest.approx(0.012 + 0.002 * k) for k in range(8))
    smoke = load(shipped.directory("experiments") / "smoke.yaml")
    words = "topology={dumbbell: {access: 1 Gbit, bottleneck: 1 Mbit, delay: 1 ms..3 ms, pairs: 2}}"
    said = conditions([apply_overrides(smoke, [words])]).replace("\u00a0", " ")
    assert "1 Mbit/s, 1 ms to 3 ms, sysctl-2.2" in said


@pytest.mark.parametrize("kind", [Chain, Dumbbell])
def test_what_impairments_hold_back_is_part_of_the_delay(kind: type[Chain]) -> None:
    held = {"forward": {"delay": "30 ms", "jitter": "5 ms"}, "reverse": {"delay": "20 ms"}}
    pairs = {"pairs": 3} if kind is Dumbbell else {}
    assert path_delays(kind(**PATH, **held, **pairs).graph())[-1] == pytest.approx(0.25)
    assert path_delays(kind(**PATH, reverse={"loss": 0.1}, **pairs).graph())[-1] == 0.2


def test_a_path_that_loses_packets_besides_is_told_apart_from_one_that_does_not() -> None:
    plain = load(shipped.directory("experiments") / "smoke.yaml")
    impaired = apply_overrides(plain, ["topology.chain.reverse={loss: 0.02}"])
    said = conditions([plain]).replace("\u00a0", " ")
    assert said == "5 s after 2 s of warm-up, 10 Mbit/s, 200 ms, sysctl-2.2 SACK"
    assert conditions([impaired]).replace("\u00a0", " ") == said + " over an impaired path"
    both = conditions([plain, impaired]).replace("\u00a0", " ")
    assert both == f"{said} or sysctl-2.2 SACK over an impaired path"

"""Rules for buffers, with the numbers of the study's own setting: 1 Gbit/s, RTT 30 to 150 ms."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.papers.buffers import (
    bandwidth_delay_product,
    effective_rtt,
    long_flows_rule,
    small_buffer_packets,
)

SPREAD = np.linspace(0.03, 0.15, 100_001)


def test_effective_rtt_of_an_even_spread_is_its_harmonic_mean() -> None:
    assert effective_rtt(SPREAD.tolist()) == pytest.approx(0.12 / np.log(5), rel=1e-4)


def test_bdp_of_the_study() -> None:
    assert bandwidth_delay_product(1e9, effective_rtt(SPREAD.tolist())) == pytest.approx(
        9.32e6, rel=1e-3
    )
    assert bandwidth_delay_product(1e9, 0.09) == pytest.approx(11.25e6)


@pytest.mark.parametrize(("users", "kilobytes"), [(1000, 295), (2000, 208), (3000, 170)])
def test_rule_for_many_flows(users: int, kilobytes: float) -> None:
    size = long_flows_rule(1e9, effective_rtt(SPREAD.tolist()), users)
    assert size == pytest.approx(1e3 * kilobytes, rel=3e-3)


@pytest.mark.parametrize(("window", "packets"), [(8, 25.85), (64, 44.49), (1000, 69.13)])
def test_small_buffer_rule_by_hand(window: float, packets: float) -> None:
    assert small_buffer_packets(window) == pytest.approx(packets, abs=0.01)


def test_small_buffer_rule_grows_with_load_and_share() -> None:
    assert small_buffer_packets(64, load=0.9) > small_buffer_packets(64, load=0.8)
    assert small_buffer_packets(64, share=0.99) > small_buffer_packets(64, share=0.9)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="needs round-trip times"):
        effective_rtt([])
    with pytest.raises(ValueError, match="needs round-trip times"):
        effective_rtt([0.1, 0.0])
    with pytest.raises(ValueError, match="rate must be above 0"):
        bandwidth_delay_product(0, 0.1)
    with pytest.raises(ValueError, match="flows must be above 0"):
        long_flows_rule(1e9, 0.1, 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        small_buffer_packets(64, load=1)

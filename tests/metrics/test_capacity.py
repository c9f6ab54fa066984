"""What a changing link can carry, against a sum over its milliseconds."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.metrics.capacity import (
    backlogged_share,
    bits,
    last_drained_s,
    longest_drain_s,
    mean_rate,
)
from tcpf_lab.trace.passage import Transit

RATES = {"rate_bits_per_s": 8000, "rates": [[0, 8000], [1, 0], [3, 4000]]}
TRACE = {"rate_bits_per_s": 1, "trace": "1002"}
FRAME = 1514 * 8


def test_rates_are_summed_up_to_each_instant():
    carried = bits(RATES, np.array([0, 0.5, 1, 2, 3, 5]))
    assert carried.tolist() == [0, 4000, 8000, 8000, 8000, 16000]
    assert mean_rate(RATES, (0.5, 3.5)) == pytest.approx(2000)


def test_opportunities_are_summed_and_the_trace_repeats():
    carried = bits(TRACE, np.array([0, 0.0029, 0.003, 0.004, 0.011]))
    assert (carried / FRAME).tolist() == [1, 1, 3, 4, 9]
    assert mean_rate(TRACE, (1, 2)) == pytest.approx(750 * FRAME)


def test_one_rate_is_given_back_as_it_is():
    place = {"rate_bits_per_s": 10_000_001}
    assert mean_rate(place, (1, 2)) == 10_000_001
    assert longest_drain_s(place, 100) == 800 / 10_000_001


def test_the_longest_drain_spans_an_outage():
    # 100 bytes: just before the outage, and then at half the rate.
    assert longest_drain_s(RATES, 100) == pytest.approx(2.2, abs=0.002)
    assert longest_drain_s({**RATES, "rates": [[0, 8000], [1, 0]]}, 100) == 60


@pytest.mark.parametrize(("end", "last"), [(5, 4.8), (3.1, 0.95), (0.5, 0.4)])
def test_a_backlog_drains_before_the_end_at_the_rates_of_then(end: float, last: float):
    assert last_drained_s(RATES, 100, end) == pytest.approx(last, abs=0.002)


@pytest.mark.parametrize(("share", "settling"), [(1, 10), (1.1, 9)])
def test_what_leaves_while_packets_wait_is_held_against_the_capacity(share, settling):
    place = {"rates": [[0, 8e6], [1, 0], [3, 4e6]]}
    departures = np.concatenate([np.arange(1, 1001) / 1000, 3 + np.arange(1, 251) / 500, [-1e-9]])
    size = np.full(1251, 1000 * share)
    size[-1] = 4000  # is lost
    transit = Transit(
        arrival_ns=np.zeros(1251, np.int64),
        departure_ns=np.round(departures * 1e9).astype(np.int64),
        wire_length=np.round(size).astype(np.int64),
        ip_length=np.zeros(1251, np.int64),
        tos=np.zeros(1251, np.uint8),
        unmatched=0,
    )
    found = backlogged_share(place, transit, 0)
    assert found == (pytest.approx(share, rel=1e-6), 1249 - settling)

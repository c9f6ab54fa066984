"""Groups of flows in real guests: who gets what, and whether captures and queue agree."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.metrics.groups import QUANTILES, fair_from, read_groups
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import load

EXPERIMENT = """
name: groups
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 2 s
  duration: 4 s
  start_spread: 500 ms
  groups:
    ecn: {flows: 2, congestion: cubic, ecn: classic}
    late: {congestion: reno, ecn: "off", start: 3 s, start_spread: 0 s, rtt: 10 ms}
    down: {flows: 2, congestion: bbr, direction: down}
cases: {FQ-CoDel: {queue: {kind: tc, words: fq_codel limit 1000, limit: 1500 kB}}}
matrix: {seed: 1}
"""


@pytest.fixture
def files(guest_run, tmp_path):
    path = tmp_path / "groups.yaml"
    path.write_text(EXPERIMENT)
    return guest_run(load(path), seed="1")


@pytest.mark.uml
@pytest.mark.full
def test_groups_of_both_directions_are_told_apart_and_agree_with_the_kernel(files):
    found = read_json(files.metrics)
    assert found["validity"]["valid"], found["validity"]["reasons"]
    checks = {check["name"]: check["ok"] for check in found["validity"]["checks"]}
    assert checks["ce_matches_qdisc"] is True
    assert checks["opposite_loss_matches_qdisc"] is True
    ecn, late, down = found["groups"]
    assert ecn["ce_packets"] > 0
    assert ecn["ece_acks"] > 0
    assert late["ce_packets"] == down["ce_packets"] == 0
    assert late["active_s"] == 3
    assert 0.25 < late["share"] < 0.4, "fair queueing: one flow of three"
    assert down["share"] == 1
    for queue in found["queues"]:
        assert queue["utilisation"] > 0.9
    (join,) = found["changes"]
    assert (join["group"], join["change"], join["time_s"]) == ("late", "join", 3)
    assert join["fair_after_s"] is not None


@pytest.mark.uml
@pytest.mark.full
def test_series_of_groups_add_up_to_their_metrics(files):
    found, series = read_json(files.metrics), read_groups(files)
    window = (series.time_s > series.window_s[0]) & (series.time_s < series.window_s[1])
    acked = series.acked_bytes[:, window].sum(axis=1)
    goodput = [flow["goodput_bytes_per_s"] for flow in found["per_flow"]]
    assert np.allclose(acked / 4, goodput, rtol=0.02)
    assert series.delay_quantiles_s.shape == (3, QUANTILES)
    assert np.all(np.diff(series.delay_quantiles_s) >= 0)
    for group, quantiles in zip(found["groups"], series.delay_quantiles_s, strict=True):
        assert quantiles[-1] == pytest.approx(group["queueing_delay_s"]["max"])
        assert quantiles[QUANTILES // 2] == pytest.approx(group["queueing_delay_s"]["p50"], rel=0.1)


def test_flows_that_never_share_fairly_have_no_time():
    assert fair_from(np.array([[100] * 40, [10] * 40]), 0, 40) is None


def test_a_fair_second_after_the_next_change_does_not_count():
    shares = np.full((2, 60), 100)
    shares[1, :30] = 0
    assert fair_from(shares, 10, 60) == pytest.approx(2.7)
    assert fair_from(shares, 10, 36) is None

"""Groups of flows in real guests: who gets what, and whether captures and queue agree."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.counters import interfaces
from tcpf_lab.metrics.groups import QUANTILES, fair_from, read_groups
from tcpf_lab.metrics.probes import read_probes
from tcpf_lab.metrics.record import root_drops
from tcpf_lab.metrics.tcp_info import read_tcp_info
from tcpf_lab.plan.traffic import start_times
from tcpf_lab.report.frames.run import Run
from tcpf_lab.report.plots.kinds import KINDS, Wanted, draw
from tcpf_lab.report.plots.runs import read_run
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand

EXPERIMENT = """
name: groups
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 2 s
  duration: 4 s
  start_spread: 500 ms
  groups:
    ecn: {flows: 2, congestion: cubic, ecn: classic, ip: 6}
    late: {congestion: reno, ecn: "off", start: 3 s, start_spread: 0 s, rtt: 10 ms}
    down: {flows: 2, congestion: bbr, direction: down}
  probes:
    ping: {kind: icmp, interval: 50 ms, ip: 6}
    call: {kind: udp, interval: 20 ms, direction: down}
    page: {kind: request, response: 20 kB, think: 100 ms, ip: 6}
cases: {FQ-CoDel: {queue: {kind: fq_codel}}}
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
    assert checks["marks_match_qdisc"] is True
    assert checks["opposite_marks_match_qdisc"] is True
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
def test_routers_send_what_they_receive_and_nothing_else(files):
    drops = {"R1": root_drops(files, "R1-R2"), "R2": root_drops(files, "R2-R1")}
    for router in ("R0", "R1", "R2", "R3"):
        found = interfaces(files, f"dev-{router}.txt").values()
        came, left = (sum(each[f"{way}_packets"] for each in found) for way in ("rx", "tx"))
        assert came - left == drops.get(router, 0), "discovery, or a report of multicast groups"


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


@pytest.mark.uml
@pytest.mark.full
def test_probes_measure_what_they_feel(files):
    found = read_json(files.metrics)
    ping, call, page = (probe["load"] for probe in found["probes"])
    assert ping["sent"] in (59, 60), "one is at the edge, and ping prints three digits"
    assert 0.02 <= ping["p50_s"] < 0.06
    assert call["sent"] == 150
    assert call["loss_percent"] == 0
    assert 0 < call["p50_s"] < 0.04, "one way, without the base round-trip time"
    assert page["p50_s"] > 2 * 0.02, "a handshake, and one round trip at least"
    sent = read_probes(files)
    assert sent["call"][0].size == 300
    assert np.all(np.diff(sent["ping"][0]) > 0)


@pytest.mark.uml
@pytest.mark.full
def test_groups_of_a_run_are_drawn(files):
    run = read_run(files, load(files.spec))
    assert list(Run(files).groups["group"]) == ["ecn", "late", "down"]
    assert list(Run(files).probes["phase"].unique()) == ["load"]
    for kind in ("groups", "delay-cdf"):
        assert b"<svg" in draw(KINDS[kind], [run], Wanted(), ("svg",))["svg"]


SMALL = """
name: small
topology: {chain: {access: 100 Mbit, bottleneck: 2 Mbit, delay: 20 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 1 s
  duration: 3 s
  start_spread: 100 ms
  tcp_info: 100 ms
  groups:
    bulk: {flows: 2}
    stops: {start: 1200 ms, start_spread: 1 s, stop: 3 s, pacing: 500 kbit}
    ends: {flows: 2, volume: 20 kB, nodelay: true}
    none: {flows: 0, start: 2 s}
    back: {start: 2 s, direction: down}
    video: {chunk: 10 kB, every: 500 ms}
    web: {ip: 6, rate: 100 kbit, sysctls: {net.ipv4.tcp_notsent_lowat: 16384}}
  probes:
    call: {kind: udp, interval: 5 ms, size: 500 B, ip: 6}
    ping: {kind: icmp, interval: 20 ms, size: 1400 B}
cases: {TailDrop: {queue: {kind: bfifo, limit: 10 kB}}}
matrix: {seed: 1}
"""


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", ["bfifo, limit: 60 kB", "cake"])
def test_packets_of_several_segments_are_queued_whole_unless_the_queue_splits_them(
    guest_run, tmp_path, kind
):
    path = tmp_path / "offloads.yaml"
    text = EXPERIMENT.replace("mtu: 1500 B", "mtu: 1500 B, offloads: all").replace("fq_codel", kind)
    path.write_text(text.replace("classic", '"off"'))
    files = guest_run(load(path), seed="1")
    found = read_json(files.metrics)
    assert found["validity"]["valid"], found["validity"]["reasons"]
    transit = read_captured(files).transit
    _, together = np.unique(transit.departure_ns[~transit.lost], return_counts=True)
    # The bottleneck's burst is of two frames.
    assert (np.max(together) > 2) != (kind == "cake")


@pytest.mark.uml
@pytest.mark.full
def test_losses_of_probes_are_counted_and_flows_of_every_kind_are_valid(guest_run, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    files = guest_run(load(path), seed="1")
    found = read_json(files.metrics)
    assert found["validity"]["valid"], found["validity"]["reasons"]
    call, ping = (probe["load"] for probe in found["probes"])
    assert call["loss_percent"] > 0
    assert ping["loss_percent"] > 0
    rates = {group["name"]: group["throughput_bytes_per_s"] for group in found["groups"]}
    assert rates["stops"] < 500e3 / 8
    assert rates["web"] <= 1.1 * 100e3 / 8
    groups = {group["name"]: group for group in found["groups"]}
    (run,) = expand(load(files.spec))
    assert groups["stops"]["active_s"] == pytest.approx(3 - start_times(run)[2], abs=1e-6)
    assert groups["none"]["active_s"] == 0
    assert groups["ends"]["finished"] == 2
    assert 0 < groups["ends"]["completion_s"]["p50"] < groups["ends"]["completion_s"]["max"] < 4
    assert groups["bulk"]["finished"] is None
    assert found["changes"] == [], "nothing greedy joins or leaves beside the two flows of bulk"
    samples = read_tcp_info(files)
    assert set(np.unique(samples["flow"])) == set(range(8))
    assert set(np.diff(samples["time_ns"][samples["flow"] == 0])) == {100_000_000}
    run = read_run(files, load(files.spec))
    assert b"<svg" in draw(KINDS["cwnd"], [run], Wanted(), ("svg",))["svg"]
    path.write_text(SMALL.replace("  tcp_info: 100 ms\n", ""))
    other = guest_run(load(path), seed="1")
    assert other != files
    assert read_json(other.metrics) == found, "samples of TCP_INFO change no packet"


def test_flows_that_never_share_fairly_have_no_time():
    assert fair_from(np.array([[100] * 40, [10] * 40]), 0, 40) is None


def test_a_fair_second_after_the_next_change_does_not_count():
    shares = np.full((2, 60), 100)
    shares[1, :30] = 0
    assert fair_from(shares, 10, 60) == pytest.approx(2.7)
    assert fair_from(shares, 10, 36) is None

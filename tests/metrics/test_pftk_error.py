"""PFTK's prediction for flows of a run, against what can be reckoned by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from run_builder import build_run

from tcpf_lab.metrics import pftk
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.pftk import observe, pftk_error
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import follow
from tcpf_lab.trace.packet import Flows, Packets, find_flows, read_capture


def asked_for(run: RunFiles) -> RunFiles:
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"]["pftk"] = True
    run.manifest.write_text(json.dumps(manifest))
    return run


def test_run_by_hand_has_one_loss_and_its_timer(tmp_path: Path) -> None:
    run = asked_for(build_run(tmp_path / "run"))
    quiet, lossy = analyse(run)["pftk"]
    assert (quiet["p"], quiet["full"], quiet["approximate"]) == (0.0, None, None)
    assert quiet["sent_packets_per_s"] == quiet["goodput_packets_per_s"] == 10  # 20 in 2 s
    assert lossy["p"] == 1 / 41  # 40 at once, and the last of them again by the timer
    assert lossy["sent_packets_per_s"] == 20.5
    assert lossy["goodput_packets_per_s"] == pytest.approx(20, rel=1e-6)
    assert lossy["full"] == pftk.full(lossy["p"], lossy["rtt_s"], lossy["t0_s"])
    assert lossy["approximate"] == pftk.approximate(lossy["p"], lossy["rtt_s"], lossy["t0_s"])
    # The timer is at least the least one; it ran from the last ACK to 2.3 s at most.
    assert 0.2 <= lossy["t0_s"] < 1.3


def test_only_runs_that_ask_for_it_have_it(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    assert "pftk" not in analyse(run)
    record = read_record(asked_for(run))
    assert pftk_error(run, record).sections == {}  # without what captures hold


@pytest.mark.parametrize(("switch", "profile"), [("1", "classic"), ("0", "linux")])
def test_flows_are_followed_by_the_recovery_that_their_senders_have(
    tmp_path: Path, switch: str, profile: str
) -> None:
    run = asked_for(build_run(tmp_path / "run"))
    manifest = json.loads(run.manifest.read_text())
    manifest["expect"]["sysctl"]["S"]["net.ipv4.tcp_reno_recovery"] = switch
    run.manifest.write_text(json.dumps(manifest))
    record = read_captured(run)
    assert record.options.profile == profile
    assert (record.options.rto_min_ns, record.options.probes) == (record.rto_min_ns, record.probes)


@pytest.fixture(scope="module")
def captured() -> tuple[Packets, Flows, list[int]]:
    data = Path(__file__).parents[1] / "data" / "recorded-run" / "pcap"
    packets = read_capture(data / "S.pcap.zst").packets
    flows = find_flows(packets)
    chosen = [row for row in range(flows.sport.size) if int(flows.dport[row]) == 5001]
    assert len(chosen) > 1
    return packets, flows, chosen


def test_recorded_flows_are_predicted_from_what_their_packets_show(captured) -> None:
    packets, flows, chosen = captured
    start = int(packets["time_ns"][0])
    end = int(packets["time_ns"][-1])
    lossy = 0
    for row in chosen:
        followed = follow(packets, flows, row)
        seen = observe(followed, start, end)
        own = packets[flows.split(row)[0]]
        assert seen.sent == np.sum((own["payload"] > 0) & (own["time_ns"] < end))
        assert seen.p is not None
        assert seen.rtt_s is not None
        assert seen.t0_s is not None
        assert 0 < seen.rtt_s < seen.t0_s  # a timer is longer than what it times
        losses = seen.triple_duplicates + seen.timeout_episodes
        assert losses <= np.sum((followed.kind > 0) & followed.forward)
        lossy += losses > 0
    assert lossy


def test_a_window_without_packets_tells_nothing(captured) -> None:
    packets, flows, chosen = captured
    seen = observe(follow(packets, flows, chosen[0]), 0, 1)
    assert (seen.sent, seen.p, seen.rtt_s, seen.t0_s) == (0, None, None, None)

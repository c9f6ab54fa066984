"""The pure functions: limits, identities and what is undefined."""

from __future__ import annotations

import doctest
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from run_builder import build_run

from tcpf_lab.metrics import definitions, pftk
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.pftk import observe, pftk_error
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import follow
from tcpf_lab.trace.packet import Flows, Packets, find_flows, read_capture

shares = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1, max_size=50)


@given(shares)
def test_jain_index_is_one_over_one_plus_squared_variation(values: list[float]) -> None:
    assume(max(values) > 1e-6)
    variation = definitions.coefficient_of_variation(values)
    assert definitions.jain_index(values) == pytest.approx(1 / (1 + variation**2), rel=1e-9)


@given(shares, st.floats(1e-3, 1e3))
def test_fairness_does_not_depend_on_the_unit(values: list[float], unit: float) -> None:
    assume(max(values) > 1e-6)
    scaled = [value * unit for value in values]
    for measure in (
        definitions.jain_index,
        definitions.coefficient_of_variation,
        definitions.min_max_ratio,
    ):
        assert measure(scaled) == pytest.approx(measure(values), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 100])
def test_one_flow_that_has_all_is_one_over_n(n: int) -> None:
    assert definitions.jain_index([5.0] + [0.0] * (n - 1)) == pytest.approx(1 / n)


def test_variation_is_that_of_the_population() -> None:
    assert definitions.coefficient_of_variation([1, 3]) == 0.5  # the sample form gives 0.707


@pytest.mark.parametrize(
    "measure",
    [definitions.jain_index, definitions.coefficient_of_variation, definitions.min_max_ratio],
)
@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, float("nan")], [1.0, -1.0]])
def test_undefined_fairness_is_refused(measure, values: list[float]) -> None:
    with pytest.raises(ValueError):
        measure(values)


UNDEFINED = {
    "loss of nothing": lambda: definitions.loss_fraction([], []),
    "loss of unmarked packets": lambda: definitions.loss_fraction([1, 2], [True]),
    "goodput without time": lambda: definitions.goodput([0], [1], 5, 5),
    "goodput that falls": lambda: definitions.goodput([2], [1], 0, 5),
    "goodput of no flow": lambda: definitions.mean_goodput([]),
    "times without bytes": lambda: definitions.acknowledged_at([1, 2], [1], 3),
    "rate of no flow": lambda: definitions.per_flow_minute(1, 0, 60),
    "rate without time": lambda: definitions.per_flow_minute(1, 1, 0),
    "window backwards": lambda: definitions.count_between([1], 2, 1),
    "no capacity": lambda: definitions.utilisation(1, 0, 1),
    "backlog without time": lambda: definitions.mean_backlog([1], [1], 3, 3),
    "percentile of nothing": lambda: definitions.percentile([], 50),
    "percentile of zero": lambda: definitions.percentile([1.0], 0),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined_is_an_error_and_not_nan(name: str) -> None:
    with pytest.raises(ValueError):
        UNDEFINED[name]()


@given(st.lists(st.tuples(st.integers(1, 1500), st.booleans()), min_size=1))
def test_loss_lies_between_none_and_all(packets: list[tuple[int, bool]]) -> None:
    size, lost = zip(*packets, strict=True)
    fraction = definitions.loss_fraction(size, lost)
    assert 0 <= fraction <= 1
    assert fraction + definitions.loss_fraction(size, [not mark for mark in lost]) == pytest.approx(
        1
    )


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10_000)), min_size=1))
def test_mean_backlog_is_the_area_under_the_steps(steps: list[tuple[int, int]]) -> None:
    times = np.cumsum([gap for gap, _ in steps])
    sizes = [size for _, size in steps]
    end = int(times[-1]) + 7
    area = np.zeros(end)
    for time, size in zip(times, sizes, strict=True):
        area[int(time) :] = size
    assert definitions.mean_backlog(times, sizes, 0, end) == pytest.approx(area.mean())
    assert definitions.largest_backlog(times, sizes, 0, end) == area.max()
    half = end // 2
    assert definitions.mean_backlog(times, sizes, half, end) == pytest.approx(area[half:].mean())


@pytest.mark.parametrize("name", ["definitions", "summary"])
def test_examples_in_the_documentation_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"tcpf_lab.metrics.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


# PFTK's prediction for flows of a run, against what can be reckoned by hand.


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

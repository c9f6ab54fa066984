"""Scenarios from seeds; their outcomes compared, summed, printed and stored."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pcap_builder import Pcap, acknowledgement, conversation, segment
from typer.testing import CliRunner

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles, read_json, write_json
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Event
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.trace import analysis as seen
from tcpf_lab.trace.analysis import EVENT, FLOW, Analysis, CaptureInfo, Options, analyse
from tcpf_lab.trace.packet import Packets, read_capture
from tools.accuracy import __main__ as command
from tools.accuracy import agreement, document, matrix, run, scenario, spurious
from tools.accuracy.compare import Difference, Outcome, by_log, compare, first_difference
from tools.accuracy.scenario import Scenario, draw
from tools.accuracy.spurious import Spurious, judge, passed_before

MANY = [draw(seed) for seed in range(1, 301)]
SECOND = 1_000_000_000


def test_a_seed_is_always_the_same_scenario_and_another_one_another() -> None:
    assert draw(17) == draw(17)
    assert len({str(each.experiment) for each in MANY}) == len(MANY)
    assert {each.experiment.matrix.seed for each in MANY} == {(seed,) for seed in range(1, 301)}


def test_everything_that_is_to_vary_varies_within_its_bounds() -> None:
    settings = [each.settings() for each in MANY]
    for name, values in {
        "profile": {"sysctl-2.2", "modern"},
        "congestion": {"reno", "cubic", "bbr"},
        "cause": set(scenario.CAUSES),
        **{key: {True, False} for key in ("sack", "timestamps", "window_scaling", "quickack")},
    }.items():
        assert {each[name] for each in settings} == values, name
    for name, (low, high) in {
        "flows": scenario.FLOWS,
        "round_trip_s": scenario.ROUND_TRIP_S,
        "mss": scenario.MSS,
        "loss": scenario.LOSS,
    }.items():
        drawn = [each[name] for each in settings]
        assert low <= min(drawn) < low * 1.5, name
        assert high / 1.5 < max(drawn) <= high, name
    impaired = [side for each in settings for side in (each["forward"], each["reverse"]) if side]
    keys = {key for side in impaired for key in side}
    assert keys == {"loss", "loss_burst", "duplicate", "reorder", "delay", "jitter"}


def test_every_scenario_can_be_planned_and_lasts_as_long_as_asked() -> None:
    for each in MANY[:60]:
        assert compose(each.run).window == (2.0, 30.0)
        assert each.run.id == f"{each.cause}-flows{each.run.flows}-seed{each.seed}"
    assert compose(draw(1, seconds=4.5).run).window == (2.0, 4.5)


def test_the_bottleneck_is_as_fast_as_its_flows_get_through_at_the_loss_drawn() -> None:
    """At 1 % and 100 ms the formula of Padhye et al. gives 114.7 packets/s per flow."""
    assert scenario._packets_per_s(0.01, 0.1) == pytest.approx(114.71, abs=0.01)
    for each in MANY:
        chain = each.experiment.topology.builder
        packets = chain.bottleneck / 8 / (chain.mtu + 14)
        assert 9 <= packets <= 1501


# --- The first difference ----------------------------------------------------

ISN = 2**32 - 1001


def entries(*rows: tuple[int, float, int]) -> Any:
    """Make the kernel's entries: cause, second, relative byte."""
    made = np.zeros(len(rows), log.ENTRY)
    for each, (cause, at, byte) in zip(made, rows, strict=True):
        each["src"][10:], each["dst"][10:] = [255, 255, 10, 0, 0, 1], [255, 255, 10, 0, 0, 2]
        each["sport"], each["dport"], each["segments"] = 20000, 5001, 1
        each["cause"], each["marks"], each["time_ns"] = cause, log.SENT, round(at * SECOND)
        each["seq"] = (ISN + byte) % 2**32
    return made


def captured(*rows: tuple[int, float, int]) -> Analysis:
    """Make the analysis of a capture: kind, second, relative byte; records count from 0."""
    flow = np.zeros(1, FLOW)
    flow["src"][0, 10:], flow["dst"][0, 10:] = [255, 255, 10, 0, 0, 1], [255, 255, 10, 0, 0, 2]
    flow["sport"], flow["dport"], flow["isn"] = 20000, 5001, ISN
    made = np.zeros(len(rows), EVENT)
    for number, (kind, at, byte) in enumerate(rows):
        made[number] = (round(at * SECOND), 0, number, byte, 1000, kind, 3, 0, 0)
    info = CaptureInfo("made", "pcap", len(rows), 0, 0, 0, 0, "", (1,))
    return Analysis(info, flow, made, "sender", 0, 0)


def first(kernel: Any, capture: Analysis) -> str:
    return first_difference(capture, agreement.compare(capture, kernel), 0)


def test_a_timeout_that_the_capture_takes_for_something_else_is_named() -> None:
    kernel = entries((log.FAST, 1.0, 1), (log.RTO, 2.0, 2001), (log.RTO, 3.0, 3001))
    capture = captured((seen.FAST, 1.0, 1), (seen.UNKNOWN, 2.0, 2001), (seen.FAST, 3.0, 3001))
    assert first(kernel, capture) == (
        "at 2.000000 s, record 1, byte 2001: kernel rto, capture unknown (rule 3)"
    )


def test_a_timeout_that_only_one_side_knows_is_named() -> None:
    kernel, capture = entries((log.RTO, 2.0, 2001)), captured((seen.RTO, 3.0, 2001))
    assert first(kernel, capture) == "at 2.000000 s, byte 2001: kernel rto, capture no event"
    assert first(kernel[:0], capture) == (
        "at 3.000000 s, record 0, byte 2001: kernel not logged, capture rto (rule 3)"
    )


def test_a_flow_whose_timeouts_agree_has_no_first_difference() -> None:
    """One kind of recovery taken for another is no matter of timeouts."""
    kernel = entries((log.FAST, 1.0, 1), (log.RTO, 2.0, 2001))
    assert first(kernel, captured((seen.UNKNOWN, 1.0, 1), (seen.RTO, 2.0, 2001))) == ""


def test_flow_that_the_capture_lacks_has_the_timeouts_of_the_log() -> None:
    """Two connections follow each other on the first port; the second port is not captured."""
    kernel = entries((log.RTO, 2.0, 2001), (log.RTO, 3.0, 2001), (log.SYN_RTO, 4.0, 0))
    kernel["sport"][2] = 20001
    capture = captured((seen.RTO, 2.0, 2001))
    rows = [{"flow": 7, "source_port": 20000}, {"flow": 8, "source_port": 20001}]
    found = list(by_log(rows, capture, agreement.compare(capture, kernel), kernel))
    assert [(each.flow, each.capture, each.kernel) for each in found] == [(7, 1, 2), (8, 0, 1)]
    assert found[0].first == "at 3.000000 s, byte 2001: kernel rto, capture no event"


def test_connections_that_used_a_port_in_turn_are_one_flow_each_told_by_its_own_entries() -> None:
    """The first connection is exact; a timeout of the second is missed and named by its byte."""
    capture = captured((seen.RTO, 2.0, 2001), (seen.RTO, 12.0, 1))
    flows = np.repeat(capture.flows, 2)
    flows["isn"][1], flows["first_ns"][1] = 77, 10 * SECOND
    capture.events["flow"][1] = 1
    capture = replace(capture, flows=flows)
    kernel = entries((log.RTO, 2.0, 2001), (log.RTO, 12.0, 1), (log.RTO, 13.0, 1001))
    kernel["seq"][1:] = 77 + 1, 77 + 1001
    against = agreement.compare(capture, kernel)
    assert against.timeouts.tolist() == [[1, 1], [1, 2]]
    assert first_difference(capture, against, 0) == ""
    (found,) = by_log([{"flow": 7, "source_port": 20000}], capture, against, kernel)
    assert (found.flow, found.capture, found.kernel) == (7, 2, 3)
    assert found.first == "at 13.000000 s, byte 1001: kernel rto, capture no event"


# --- Spurious retransmissions ------------------------------------------------

START = 10**18
HANDSHAKE = "0.0 > SYN\n0.2 < SYN-ACK"


def sent(*rows: tuple[float, int, int, int], isn: int = ISN, into: Pcap | None = None) -> Pcap:
    """Make data packets: second, first byte, end, identification."""
    made = into or Pcap()
    for at, first, end, ip_id in rows:
        frame = segment(first, end - first, isn=isn, ip_id=ip_id)
        made.add(START + round(at * SECOND), frame)
    return made


FOUR = tuple((0.2, 1 + 960 * k, 961 + 960 * k, 1 + k) for k in range(4))
AGAIN = (0.85, 1, 961, 5)


def judged(
    tmp_path: Path, *passed: tuple[float, int, int, int], dsack: bool = False, end: float = 3.0
) -> Spurious:
    """Four segments, the first sent again by the timer, all acknowledged, then one more."""
    capture, _ = conversation(HANDSHAKE, isn=ISN)
    sent(*FOUR, AGAIN, into=capture)
    blocks = [(1, 961)] if dsack else []
    capture.add(START + round(1.05 * SECOND), acknowledgement(3841, isn=ISN, sack=blocks))
    sent((end, 3841, 4801, 6), into=capture)
    sender, behind = tmp_path / "S.pcap", tmp_path / "R1-out.pcap"
    capture.write(sender)
    sent(*((at + 0.01, *rest) for at, *rest in passed)).write(behind)  # type: ignore[misc]
    found = analyse(sender, options=Options(probes=False, at="sender"))
    assert [seen.KINDS[kind] for kind in found.events["kind"]] == ["rto"]
    return judge(found, sender, behind)


def test_a_spurious_retransmission_that_is_marked_is_right(tmp_path: Path) -> None:
    found = judged(tmp_path, *FOUR, AGAIN, dsack=True)
    assert found == Spurious(1, right={"dsack": 1}, wrong={}, missed={})
    assert found.count == 1


def test_a_spurious_retransmission_without_evidence_is_missed(tmp_path: Path) -> None:
    found = judged(tmp_path, *FOUR, AGAIN)
    assert found == Spurious(1, right={}, wrong={}, missed={"rto": 1})
    assert found.count == 1


def test_a_needed_retransmission_that_is_marked_is_wrong(tmp_path: Path) -> None:
    """The first copy was dropped; the second was doubled, and only the second answer came back."""
    found = judged(tmp_path, *FOUR[1:], AGAIN, dsack=True)
    assert found == Spurious(1, right={}, wrong={"dsack": 1}, missed={})
    assert found.count == 0


def test_a_needed_retransmission_that_is_not_marked_only_counts(tmp_path: Path) -> None:
    assert judged(tmp_path, *FOUR[1:], AGAIN) == Spurious(1, right={}, wrong={}, missed={})


def test_a_copy_that_passes_after_the_retransmission_was_sent_makes_it_spurious(
    tmp_path: Path,
) -> None:
    late = (0.9, *FOUR[0][1:])
    assert judged(tmp_path, *FOUR[1:], late, AGAIN).missed == {"rto": 1}


def test_the_last_second_of_a_capture_is_not_judged(tmp_path: Path) -> None:
    assert judged(tmp_path, *FOUR, AGAIN, end=1.84) == Spurious(0, {}, {}, {})
    assert judged(tmp_path, *FOUR, AGAIN, end=1.86).retransmissions == 1


def packets_of(capture: Pcap, path: Path) -> Packets:
    return read_capture(capture.write(path)).packets


def test_a_packet_is_covered_by_copies_that_are_cut_otherwise(tmp_path: Path) -> None:
    """Bytes 1 to 960 go in halves, then whole; of the second pair a half is dropped."""
    halves = ((0.1, 1, 481, 1), (0.1, 481, 961, 2), (0.1, 961, 1441, 3), (0.1, 1441, 1921, 4))
    whole = ((0.5, 1, 961, 5), (0.5, 961, 1921, 6), (0.5, 1, 1921, 7), (0.6, 961, 1921, 8))
    left = packets_of(sent(*halves, *whole), tmp_path / "S.pcap")
    passed = packets_of(sent(*halves[:3], *whole[:2]), tmp_path / "R1-out.pcap")
    covered = passed_before(left, passed)
    assert covered.tolist() == [False] * 4 + [True, False, True, True]


def test_connections_between_the_same_ports_hold_nothing_for_each_other(tmp_path: Path) -> None:
    """The second begins where the first one's numbers had been, its SYN sent twice."""
    capture, _ = conversation("0.0 > SYN", isn=7)
    sent((0.1, 1, 961, 1), (0.2, 961, 1921, 2), isn=7, into=capture)
    conversation("1.0 > SYN\n2.0 > SYN", isn=967, into=capture)
    sent((2.1, 1, 961, 3), (2.5, 1, 961, 4), isn=967, into=capture)
    left = packets_of(capture, tmp_path / "S.pcap")
    assert passed_before(left, left).tolist() == [False] * 6 + [True]


def test_two_connections_side_by_side_are_told_apart(tmp_path: Path) -> None:
    capture = sent((0.1, 1, 961, 1))
    capture.add(START + SECOND // 5, segment(1, sport=20001, isn=ISN, ip_id=1))
    capture.add(START + SECOND // 4, segment(1, isn=ISN, ip_id=2))
    left = packets_of(capture, tmp_path / "S.pcap")
    assert passed_before(left, left).tolist() == [False, False, True]
    assert passed_before(left, left[1:2]).tolist() == [False, False, False]
    assert passed_before(left[:0], left[:0]).size == 0


@pytest.mark.parametrize(
    ("forward", "known"),
    [
        (None, True),
        ({"duplicate": 0.01, "delay": 0.01, "jitter": 0.01, "reorder": 0.1}, True),
        ({"loss": 0.01}, False),
        ({"loss": 0.01, "loss_burst": 3.0}, False),
    ],
)
def test_what_passed_has_arrived_unless_data_is_lost_behind(forward: Any, known: bool) -> None:
    assert spurious.known(forward) is known


# --- Runs --------------------------------------------------------------------


@pytest.fixture
def recorded_scenario(recorded_experiment: Experiment) -> Scenario:
    """Give the recorded run's experiment as if a seed had drawn it."""
    experiment = expand(recorded_experiment)[0].experiment.on("native")
    return Scenario(1, experiment, 0.1, "red")


@pytest.fixture
def job(recorded_scenario: Scenario, recorded: Path, tmp_path: Path) -> run.Job:
    (made,) = run.prepare(
        [recorded_scenario], FakeTestbed(recorded), tmp_path / "results", keep_pcaps=False
    )
    return made


def run_files(job: run.Job) -> RunFiles:
    return job.task.files.run(job.task.run.id)


def keeping(job: run.Job) -> run.Job:
    return replace(job, task=replace(job.task, keep_pcaps=True))


def test_a_capture_is_held_against_the_kernels_counters_flow_by_flow(job: run.Job) -> None:
    outcome = run.carry_out(job)
    metrics = read_json(run_files(job).metrics)
    assert outcome.state == "compared", outcome.reasons
    assert outcome.timeouts_kernel == metrics["truth"]["timeouts_kernel"] > 0
    assert outcome.timeouts == metrics["truth"]["timeouts_pcap"]
    assert outcome.flows_exact == metrics["truth"]["flows_exact"]
    assert outcome.flows == len(metrics["per_flow"])
    assert outcome.flows_exact + len(outcome.differences) == outcome.flows
    assert outcome.retransmissions >= metrics["metrics"]["retransmissions"]


def test_marks_of_a_run_are_held_against_what_passed_its_bottleneck(job: run.Job) -> None:
    """Also by hand: packets of the same first byte of which more than one passed."""
    outcome = run.carry_out(keeping(job))
    assert outcome.spurious is not None
    passed = read_capture(run_files(job).capture("R1-out")).packets
    passed = passed[passed["payload"] > 0]
    copies = len(passed) - len(set(zip(passed["sport"], passed["seq"], strict=True)))
    assert outcome.spurious.retransmissions > 0
    assert outcome.spurious.count <= copies
    assert run.carry_out(keeping(job)) == outcome


def test_a_scenario_that_loses_data_behind_its_bottleneck_has_no_truth_about_marks(
    job: run.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.carry_out(keeping(job))
    settings = job.scenario.settings() | {"forward": {"loss": 0.01}}
    monkeypatch.setattr(Scenario, "settings", lambda _: settings)
    outcome = compare(run_files(job), job.scenario)
    assert (outcome.state, outcome.spurious) == ("compared", None)
    assert json.loads(run.to_json([outcome], 30.0))["scenarios"][0]["spurious"] is None


def test_captures_are_kept_on_request_only(job: run.Job) -> None:
    run.carry_out(job)
    assert not list(run_files(job).pcap.iterdir())
    job.outcome.unlink()
    run.carry_out(keeping(job))
    assert len(list(run_files(job).pcap.iterdir())) == 3


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the runs that are made."""
    made: list[str] = []
    original = runner.carry_out

    def counted(task: runner.Task) -> Event:
        made.append(task.run.id)
        return original(task)

    monkeypatch.setattr(runner, "carry_out", counted)
    return made


def test_what_was_done_is_not_done_again(job: run.Job, guests: list[str]) -> None:
    once = run.carry_out(job)
    assert run.carry_out(job) == once
    assert len(guests) == 1


def test_another_analysis_needs_no_other_run_where_the_captures_were_kept(
    job: run.Job, guests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = run.carry_out(keeping(job))
    monkeypatch.setattr(run.summary, "ANALYSIS", "another")
    assert run.carry_out(keeping(job)) == once
    assert len(guests) == 1
    for capture in run_files(job).pcap.iterdir():
        capture.unlink()
    job.outcome.unlink()
    assert run.carry_out(keeping(job)) == once
    assert len(guests) == 2


def test_a_testbed_that_did_not_do_what_was_asked_is_no_evidence(
    job: run.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.carry_out(keeping(job))
    metrics = read_json(run_files(job).metrics)
    for check in metrics["validity"]["checks"]:
        if check["name"] in ("no_unplanned_loss", "timeouts_match_kernel"):
            check["ok"] = False
    write_json(run_files(job).metrics, metrics)
    outcome = compare(run_files(job), job.scenario)
    assert outcome.state == "unusable"
    assert [reason.split(":")[0] for reason in outcome.reasons] == ["no_unplanned_loss"]


def test_a_log_with_gaps_is_no_evidence(job: run.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    run.carry_out(keeping(job))
    gaps = {"S": log.RetransmissionLog(np.zeros(0, log.ENTRY), 3)}
    monkeypatch.setattr(log, "read_logs", lambda _files: gaps)
    outcome = compare(run_files(job), job.scenario)
    assert (outcome.state, outcome.reasons) == (
        "unusable",
        ("the kernel's log lacks 3 entries",),
    )


def test_a_capture_without_a_flow_of_the_log_is_no_evidence(
    job: run.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that flow's entries are no timeouts, so that both sides count none."""
    run.carry_out(keeping(job))
    other = entries((log.FAST, 2.0, 1), (log.RECOVERY, 2.1, 1001))
    other["sport"] = 65000
    logs = {"S": log.RetransmissionLog(other, 0)}
    monkeypatch.setattr(log, "read_logs", lambda _files: logs)
    outcome = compare(run_files(job), job.scenario)
    assert (outcome.state, outcome.reasons) == (
        "unusable",
        ("the capture lacks flows with 2 entries of the kernel's log",),
    )


def test_with_a_log_every_packet_is_counted_by_cause_and_kind(
    job: run.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty log: nothing that the capture shows was logged, and no flow is exact."""
    before = run.carry_out(keeping(job))
    empty = {"S": log.RetransmissionLog(np.zeros(0, log.ENTRY), 0)}
    monkeypatch.setattr(log, "read_logs", lambda _files: empty)
    outcome = compare(run_files(job), job.scenario)
    assert sum(outcome.confusion["not_logged"].values()) >= before.retransmissions
    assert outcome.right == {}
    assert outcome.timeouts_kernel == 0
    assert outcome.timeouts >= before.timeouts > 0
    assert all("kernel not logged, capture" in each.first for each in outcome.differences)


@pytest.mark.parametrize(
    "fault", [RuntimeError("a fault"), RequestError("a fault")], ids=lambda e: type(e).__name__
)
def test_a_scenario_that_fails_costs_no_other_and_is_tried_again(
    job: run.Job, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(*_: object) -> Outcome:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(run, "compare", broken)
        outcome = run.carry_out(job)
    assert outcome.state == "failed"
    assert "a fault" in outcome.reasons[0]
    assert run.carry_out(job).state == "compared"


def test_a_testbed_that_is_not_ready_is_said_before_anything_is_run(
    recorded_scenario: Scenario,
    recorded: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = FakeTestbed(recorded)
    monkeypatch.setattr(type(bed), "check", lambda *_: ["tc is missing", "tc is missing"])
    with pytest.raises(TestbedError, match=re.escape("not ready:\n  - tc is missing")):
        run.prepare([recorded_scenario], bed, tmp_path, keep_pcaps=False)


def test_when_the_time_is_over_what_runs_is_awaited_and_no_other_is_begun(
    job: run.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker: the time is over while the fourth scenario is under way."""
    begun, go_on, looks = threading.Event(), threading.Event(), iter(range(100))

    def carry_out(job: run.Job) -> Outcome:
        if job.scenario.seed == 3:
            begun.set()
            go_on.wait(10)
        return outcome_of(job.scenario.seed)

    def clock() -> float:
        now = next(looks)
        if now == 3:
            assert begun.wait(10)
        return now

    monkeypatch.setattr(run, "carry_out", carry_out)
    jobs = [replace(job, scenario=replace(job.scenario, seed=seed)) for seed in range(20)]
    found = []
    with ThreadPoolExecutor(1) as executor:
        for outcome in run.run_all(jobs, executor, seconds=2.5, now=clock):
            found.append(outcome.seed)
            if len(found) == 3:
                threading.Timer(0.05, go_on.set).start()
    assert found == [0, 1, 2, 3]


# --- Adding up ---------------------------------------------------------------


def outcome_of(seed: int, **other: Any) -> Outcome:
    return replace(Outcome(seed, draw(seed).settings(), "compared"), **other)


FILES = Path("results/a.json"), Path("docs/a.md")
THREE = (
    outcome_of(
        1,
        flows=4,
        flows_exact=3,
        packets=1000,
        retransmissions=400,
        unknown=1,
        timeouts=102,
        timeouts_kernel=100,
        differences=(Difference(2, 7, 5, "at 1 s: kernel fast, capture rto"),),
        confusion={"rto": {"rto": 90, "unknown": 1}, "fast": {"fast": 9, "rto": 2}},
        right={"rto": {"rto": 90}, "fast": {"fast": 9}},
        spurious=Spurious(390, {"dsack": 6, "early_ack": 2}, {"dsack": 2}, {"rto": 1, "fast": 1}),
    ),
    outcome_of(
        2,
        flows=2,
        flows_exact=1,
        packets=500,
        retransmissions=100,
        timeouts=98,
        timeouts_kernel=100,
        differences=(Difference(0, 3, 5, ""),),
        confusion={"tlp": {"tlp": 4}, "rto": {"rto": 10}},
        right={"tlp": {"tlp": 4}, "rto": {"rto": 10}},
    ),
    replace(outcome_of(3), state="unusable", reasons=("captures_complete: 3 dropped",)),
)


def test_errors_of_single_flows_do_not_cancel() -> None:
    every = matrix.total("all", THREE)
    assert (every.scenarios, every.flows, every.flows_exact) == (2, 6, 4)
    assert (every.timeouts, every.timeouts_kernel, every.error_percent) == (200, 200, 0.0)
    assert (every.missed, every.invented) == (2, 2)
    assert every.unknown_percent == pytest.approx(0.2)


def test_shares_of_nothing_are_none() -> None:
    nothing = matrix.total("all", THREE[2:])
    assert (nothing.scenarios, nothing.error_percent, nothing.unknown_percent) == (0, None, None)
    assert matrix.marks(THREE[1:]) == []
    marks = spurious.add("all", [])
    assert (marks.precision_percent, marks.recall_percent) == (None, None)


def test_marks_are_added_by_evidence_and_kind_over_scenarios_whose_truth_is_known() -> None:
    other = replace(THREE[1], spurious=Spurious(10, {"dsack": 1}, {"ack_jump": 1}, {"rto": 4}))
    every, *groups = matrix.marks([THREE[0], other, outcome_of(4)])
    assert (every.name, every.scenarios) == ("all", 2)
    assert every.of.retransmissions == 400
    assert every.of.right == {"dsack": 7, "early_ack": 2}
    assert every.of.wrong == {"dsack": 2, "ack_jump": 1}
    assert every.of.missed == {"rto": 5, "fast": 1}
    assert every.precision_percent == pytest.approx(75.0)
    assert every.recall_percent == pytest.approx(60.0)
    assert sum(each.scenarios for each in groups) == 2 * len(matrix.MARK_GROUPS)
    assert matrix.not_judged([THREE[0], outcome_of(4), THREE[1], THREE[2]]) == [2, 4]


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        (None, "in order"),
        ({"loss": 0.1}, "in order"),
        ({"delay": 0.1, "jitter": 0.1}, "reordered"),
        ({"delay": 0.1, "reorder": 0.1, "duplicate": 0.1}, "duplicated"),
    ],
)
def test_marks_are_grouped_by_what_happens_to_data_behind(forward: Any, named: str) -> None:
    assert matrix.behind({"forward": forward}) == named


# --- Printing and storing -----------------------------------------------------


def test_the_document_matches_the_stored_results() -> None:
    root = Path(__file__).parents[1]
    stored = json.loads((root / "results" / "reference" / "accuracy.json").read_text("utf-8"))
    outcomes = [run.from_data(each) for each in stored["scenarios"]]
    files = Path("results/reference/accuracy.json"), Path("docs/reference/accuracy.md")
    made = document.markdown(outcomes, stored["seconds"], *files)
    assert made == (root / "docs" / "reference" / "accuracy.md").read_text("utf-8")


@pytest.mark.parametrize("text", ["", "a", "5..1", "1..", "-3", "0..100000"])
def test_what_is_no_range_of_seeds_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="seed"):
        command.seeds_of(text)


def test_the_command_writes_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "measure", lambda *_: list(THREE[:2]))
    written, text = tmp_path / "accuracy.json", tmp_path / "accuracy.md"
    app = command.typer.Typer()
    app.command()(command.main)
    words = ["--seeds", "1..2", "--output", str(written), "--markdown", str(text)]
    reply = CliRunner().invoke(app, words)
    assert reply.exit_code == 0, reply.output
    assert len(json.loads(written.read_text())["scenarios"]) == 2
    assert text.read_text() == document.markdown(THREE[:2], 30.0, written, text)
    assert "kernel fast, capture rto" in reply.output
    assert "80.000 %" in reply.output
    assert "Not counted: the path of 1 of the scenarios" in reply.output
    monkeypatch.setattr(command, "measure", lambda *_: list(THREE))
    reply = CliRunner().invoke(app, ["--seeds", "1..9", *words[2:]])
    assert reply.exit_code == 1
    assert "seed 3 unusable: captures_complete" in reply.output
    assert "6 scenarios not started" in reply.output
    assert CliRunner().invoke(app, ["--seeds", "x"]).exit_code == 2
    for option in ("--output", "--markdown"):
        assert CliRunner().invoke(app, [*words, option, f"{tmp_path}/missing/x"]).exit_code == 2
    assert not (tmp_path / "missing").exists()


@pytest.mark.uml
@pytest.mark.full
def test_a_drawn_scenario_runs_and_is_compared(uml: UmlTestbed, tmp_path: Path) -> None:
    """Seed 4 has a lossy path back; what the testbed did is checked, not how right we are."""
    jobs = run.prepare([draw(4, seconds=5.0)], uml, tmp_path, keep_pcaps=False)
    with ThreadPoolExecutor(1) as executor:
        (outcome,) = run.run_all(jobs, executor)
    assert outcome.state == "compared", outcome.reasons
    assert outcome.timeouts_kernel > 0
    assert outcome.flows == 14


# --- A scenario on the kernel ------------------------------------------------


@pytest.mark.uml
@pytest.mark.full
def test_a_small_scenario_is_run_and_held_against_the_kernels_log(
    uml: UmlTestbed, tmp_path: Path
) -> None:
    """The one with the fewest flows among those with classic senders, cut to twelve seconds."""
    classic = [each for each in MANY if each.settings()["profile"] == "sysctl-2.2"]
    fewest = min(classic, key=lambda each: (each.run.flows, each.seed))
    (job,) = run.prepare([draw(fewest.seed, 12.0)], uml, tmp_path / "results", keep_pcaps=False)
    outcome = run.carry_out(job)
    assert outcome.state == "compared", outcome.reasons
    assert outcome.flows == fewest.run.flows
    assert outcome.timeouts == outcome.timeouts_kernel
    assert outcome.flows_exact == outcome.flows, outcome.differences
    assert sum(sum(row.values()) for row in outcome.confusion.values()) >= outcome.retransmissions

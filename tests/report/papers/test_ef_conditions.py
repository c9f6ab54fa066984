"""Cells of experiments of TR2001-1 are told apart by what their files say, never by names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_tree import member

from tcpf_lab.papers.ef import study as s
from tcpf_lab.papers.ef.claims import claims_of
from tcpf_lab.papers.ef.page import build
from tcpf_lab.papers.ef.study import Conditions, settings_of
from tcpf_lab.papers.registry import pages_of
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import markdown
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.sweep import Run

SINGLE = """\
name: {name}
reference: {{paper: "001"}}
topology:
  dumbbell: {{pairs: {pairs}, access: 100 Mbit, bottleneck: 40 Mbit, delay: {delay}, mtu: 1500 B}}
tcp: {{profile: sysctl-2.2, sack: {sack}, mss: 496 B, quickack: true{more}}}
traffic: {{captures: false, start_spread: 2 s, warmup: 5 s, duration: 60 s}}
cases:
  Steady:
    queue: {{kind: prio, limit: 40 kB}}
    background: {{ef: {{kind: cbr, share: 0.3, dscp: EF}}}}
  Bursts:
    queue: {{kind: prio, limit: 40 kB}}
    background:
      udp: {{kind: onoff, on: 4 ms, share: 0.05, packet: 500 B}}
      gold: {{kind: onoff, on: 1 ms, share: 0.3, dscp: EF}}
  Plain:
    queue: {{kind: prio, limit: 40 kB}}
  Single:
    queue: {{kind: prio, limit: 40 kB}}
    background: {{ef: {{kind: onoff, on: 1 ms, share: 0.3, dscp: EF}}}}
matrix:
  case: all
  flows: {flows}
  seed: 1..2
  background.ef.on: [1 ms, 10 ms, 400 ms]
"""


def experiment(tmp_path: Path, found: Any, **words: Any) -> Member:
    usual = {"name": "mine", "pairs": 1, "delay": "8 ms", "sack": "false", "flows": 1}
    text = SINGLE.format(**{**usual, "more": ", recovery: reno", **words})
    return member(tmp_path, text, found)


def use(run: Run) -> Mapping[str, Any]:
    """Constant EF leaves 0.95 to TCP, bursts of 10 ms take most of it."""
    lost = {"1 ms": 0.1, "10 ms": 0.5, "400 ms": 0.2}
    on = dict(run.settings).get("background.ef.on", "")
    taken = lost[on] + 0.001 * run.seed if run.case_name == "Single" else 0.0
    return {
        "metrics": {"tcp_utilisation": 0.95 - taken, "goodput_min_max": 1.0},
        "per_flow": [{"flow": 0, "goodput_bytes_per_s": 2e6}],
    }


def test_conditions_are_those_of_the_file(tmp_path: Path) -> None:
    found = [one.conditions for one in settings_of(experiment(tmp_path, use))]
    single = [Conditions("Reno", 1, 8.0, "onoff", on, 0.3, 0.0) for on in (1.0, 10.0, 400.0)]
    assert found == [
        Conditions("Reno", 1, 8.0, "cbr", 0.0, 0.3, 0.0),
        Conditions("Reno", 1, 8.0, "onoff", 1.0, 0.3, 0.05),
        Conditions("Reno", 1, 8.0, "none", 0.0, 0.0, 0.0),
        *single,
    ]


@pytest.mark.parametrize(
    ("words", "tcp", "rtt_ms"),
    [
        ({"more": ""}, "NewReno", 8.0),
        ({"more": ", recovery: newreno"}, "NewReno", 8.0),
        ({"sack": "true", "more": ""}, "SACK", 8.0),
        ({"pairs": 8, "flows": 8, "delay": "12 ms..26 ms"}, "Reno", None),
        ({"pairs": 8, "flows": 8}, "Reno", 8.0),
    ],
)
def test_tcp_and_round_trips(
    tmp_path: Path, words: dict[str, Any], tcp: str, rtt_ms: float | None
) -> None:
    found = next(settings_of(experiment(tmp_path, use, **words))).conditions
    assert (found.tcp, found.rtt_ms) == (tcp, rtt_ms)


def test_a_fair_share_is_of_what_the_sources_leave_and_counts_frames(tmp_path: Path) -> None:
    settings = {one.conditions.udp: one for one in settings_of(experiment(tmp_path, use))}
    assert settings[0.05].fair == pytest.approx(0.65 * 40e6)
    assert settings[0.0].seconds == 60
    assert settings[0.05].weight == pytest.approx(550 / 496)
    assert settings[0.05].normalised() == {
        seed: pytest.approx((8 * 2e6 * 550 / 496 / 26e6,)) for seed in (1, 2)
    }


def test_numbers_come_from_the_runs(tmp_path: Path) -> None:
    study = s.study_of([experiment(tmp_path, use)])
    verdicts = {one.id: one.judgement.verdict for one in claims_of(study, "Reno")}
    assert verdicts["ef-conclusion-1"] is Verdict.HOLDS
    assert verdicts["ef-conclusion-2"] is Verdict.OPEN
    top = next(one for one in claims_of(study, "Reno") if one.id == "ef-conclusion-1").checks[0]
    assert top.number.startswith("0.502 ± 0.006")
    assert top.label == "maximum loss (at 10 ms)"


def test_of_cells_alike_the_one_with_most_runs_counts_and_predictions_are_of_all(
    tmp_path: Path,
) -> None:
    one_seed = experiment(tmp_path, lambda run: use(run) if run.seed == 1 else None, name="first")
    empty = experiment(tmp_path, lambda run: None, name="third")
    study = s.study_of([one_seed, experiment(tmp_path, use, name="second"), empty])
    assert len(study.settings) == 6
    assert len(study.every) == 18
    assert len(s.use(study, s.constant(s.alone("Reno")))) == 2


def test_the_page_belongs_to_experiments_of_the_paper(tmp_path: Path) -> None:
    one = experiment(tmp_path, use)
    (page,) = pages_of([one], "tcpf-lab run mine.yaml")
    assert page.name == "ef"
    text = markdown(page)
    assert "12 of 12 runs exist, of 6 settings." in text
    listed = [[word.strip() for word in row.split("|")[1:3]] for row in text.splitlines()]
    assert ["fig-ef-2a", "yes"] in listed
    assert ["fig-ef-3", "in part"] in listed
    assert "the experiments have no RTT 6 ms, RTT 10 ms, RTT 12 ms." in text
    assert ["fig-ef-10", "no"] in listed
    assert build([], "") is None


def test_an_experiment_of_no_paper_has_no_page(tmp_path: Path) -> None:
    text = SINGLE.replace('reference: {{paper: "001"}}\n', "").format(
        name="mine", pairs=1, delay="8 ms", sack="false", flows=1, more=""
    )
    assert list(pages_of([member(tmp_path, text, use)], "")) == []

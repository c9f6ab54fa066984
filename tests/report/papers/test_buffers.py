"""The page on router buffers, from runs whose numbers follow known curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_tree import Found, member

from tcpf_lab.papers.buffers import Grid, build, claims, grid_of, study_of
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import cells_of, drawn, markdown
from tcpf_lab.spec.sweep import Run

TEXT = """\
name: buffers_{name}
title: Router buffers
topology:
  dumbbell:
    {{access: {access}, bottleneck: {rate}, delay: 75 ms, mtu: 1500 B, pairs: 5}}
tcp: {{profile: sysctl-2.2, sack: true}}
traffic: {{start_spread: 1 s, warmup: 10 s, duration: 30 s}}
cases:
  TailDrop: {{queue: {{kind: bfifo, limit: 1 MB}}}}
matrix:
  case: all
  flows: [{users}]
  queue.limit: [{buffers}]
  seed: {seeds}
"""
FULL = {"name": "full", "access": "1 Gbit", "rate": "1 Gbit", "users": "1000, 2000, 3000"}
FULL |= {"buffers": "10 kB, 100 kB, 300 kB, 400 kB, 800 kB, 2 MB", "seeds": "1"}
TENTH = {
    **FULL,
    "name": "tenth",
    "access": "100 Mbit",
    "rate": "100 Mbit",
    "users": "100, 200, 300",
}
TENTH["buffers"] = "2 kB, 10 kB, 30 kB, 40 kB, 80 kB, 200 kB"
SIZES = {"100kB": 1.0, "500kB": 2.0, "1000kB": 3.0}


def as_published(run: Run) -> dict[str, Any]:
    """Numbers that follow the study's sentences, at either size."""
    scale = 1e9 / run.experiment.topology.graph().bottleneck.rate
    users, size = run.flows * scale, run.case.queue.limit * scale
    use = (0.8 + 0.2 * min(size, 400e3) / 400e3) * users / 3000
    speeds = {}
    for name, factor in SIZES.items():
        if users == 3000:
            speeds[name] = 1e6 * (1 + factor * max(0.0, size / 800e3 - 1))
        else:
            flat = {"100kB": 100e3, "500kB": 300e3, "1000kB": 800e3}[name]
            speeds[name] = 1e6 * factor * (0.9 + 0.1 * min(size, flat) / flat)
    return found(use, speeds)


def found(use: float, speeds: Mapping[str, float]) -> dict[str, Any]:
    return {
        "metrics": {"utilisation": use},
        "users": {
            "transfers": 5000,
            "completion_s": {"mean": 0.5},
            "throughput_by_size": {
                name: {"mean_bits_per_s": value, "n": 50} for name, value in speeds.items()
            },
        },
    }


def only(*wanted: tuple[int, int]) -> Found:
    """Runs of these users and buffers alone."""

    def numbers(run: Run) -> dict[str, Any] | None:
        place = run.flows, int(run.case.queue.limit)
        return as_published(run) if place in wanted else None

    return numbers


def grid(results: Path, values: Mapping[str, str], numbers: Found = as_published) -> Grid:
    made = member(results, TEXT.format(**values), numbers)
    return grid_of(study_of(made.experiment), cells_of(made.section))


def verdicts(of: Grid) -> dict[str, Verdict]:
    return {claim.id.removeprefix("buffers-"): claim.judgement.verdict for claim in claims(of)}


def test_every_sentence_holds_of_runs_that_follow_them(tmp_path: Path) -> None:
    found = verdicts(grid(tmp_path, FULL))
    assert set(found.values()) == {Verdict.HOLDS}
    assert len(found) == 10


def test_flat_curves_refute_what_grows(tmp_path: Path) -> None:
    flat = dict.fromkeys(SIZES, 1e6)
    found_flat = verdicts(grid(tmp_path, FULL, lambda _: found(0.5, flat)))
    refuted = {name for name, verdict in found_flat.items() if verdict is Verdict.REFUTED}
    assert refuted == {"2-users", "2-grows", "2-full", "3-size", "4-steep", "4-more"}


def test_use_that_grows_beyond_the_knee_refutes_it(tmp_path: Path) -> None:
    def growing(run: Run) -> dict[str, Any]:
        size = run.case.queue.limit
        return found(0.5 + size / 10e6, dict.fromkeys(SIZES, 1e5 + size))

    told = verdicts(grid(tmp_path, FULL, growing))
    for name in ("2-knee", "3-plateau", "4-flat"):
        assert told[name] is Verdict.REFUTED, name


def test_scaled_runs_decide_nothing_on_where_a_curve_turns(tmp_path: Path) -> None:
    scaled = grid(tmp_path, TENTH)
    told = verdicts(scaled)
    assert {name for name, verdict in told.items() if verdict is Verdict.OPEN} == {
        *("2-knee", "3-plateau", "4-flat", "4-alike", "4-steep", "4-more")
    }
    assert told["2-users"] is told["3-size"] is Verdict.HOLDS
    knee = next(claim for claim in claims(scaled) if claim.id == "buffers-2-knee")
    assert [check.measured.mean for check in knee.checks] == [pytest.approx(1.0)] * 3
    assert "no curve turns where it did" in knee.checks[0].undecidable


def test_some_points_alone_leave_most_open_and_are_drawn(tmp_path: Path) -> None:
    points = (1000, 400_000), (2000, 400_000), (3000, 400_000)
    some = member(tmp_path, TEXT.format(**FULL), only(*points))
    page = build([some], "tcpf-lab run buffers_full.yaml")
    assert page is not None
    text = markdown(page)
    assert "3 of 18 points have a run" in text
    assert "15 of 18 points have no run" in text
    assert "Runs that are missing are made by `tcpf-lab run buffers_full.yaml`." in text
    told = {claim.id: claim.judgement.verdict for claim in page.claims}
    assert set(told.values()) == {Verdict.OPEN}
    use = next(one for one in page.drawings if one.name == "fig-buffers-2")
    assert [point.x for point in use.points] == [400_000] * 3
    assert drawn(use, ["png"])["png"].startswith(b"\x89PNG")


def test_no_run_at_all_makes_a_page_without_figures(tmp_path: Path) -> None:
    page = build([member(tmp_path, TEXT.format(**FULL), lambda _: None)], "tcpf-lab run x.yaml")
    assert page is not None
    assert page.drawings == ()


def test_seeds_that_scatter_are_within_noise(tmp_path: Path) -> None:
    def noisy(run: Run) -> dict[str, Any]:
        use = 0.9 + 0.1 * (-1) ** run.seed + 1e-5 * run.flows
        return found(use, dict.fromkeys(SIZES, 1e6))

    told = verdicts(grid(tmp_path, {**FULL, "seeds": "1..4"}, noisy))
    assert told["2-full"] is Verdict.NOISE


def test_rules_of_the_studys_setting(tmp_path: Path) -> None:
    study = grid(tmp_path, FULL).study
    assert study.rtts == (0.075,) * 5
    assert study.product == pytest.approx(9.375e6)
    assert study.many_flows(1000) == pytest.approx(9.375e6 / 1000**0.5)
    low, high = study.small
    assert (low, high) == pytest.approx((25.85 * 1514, 69.13 * 1514), rel=1e-3)


def test_a_single_buffer_is_not_compared_with_itself(tmp_path: Path) -> None:
    alone = grid(tmp_path, {**FULL, "buffers": "400 kB"})
    found = {claim.id: claim for claim in claims(alone)}
    for name, needed in {
        "2-grows": "utilisation (N = 1000, below 400 kB)",
        "2-knee": "utilisation (N = 1000, beyond 400 kB)",
        "3-plateau": "throughput of 1000 kB (N = 1000, beyond 800 kB)",
        "4-flat": "throughput of 100 kB (N = 3000, another below 800 kB)",
        "4-steep": "throughput of 100 kB (N = 3000, beyond 800 kB)",
    }.items():
        claim = found[f"buffers-{name}"]
        assert claim.judgement.verdict is Verdict.OPEN, name
        assert needed in claim.missing, name
    assert "utilisation (N = 1000, 400 kB)" not in found["buffers-2-grows"].missing
    assert found["buffers-2-users"].judgement.verdict is Verdict.HOLDS


def test_growth_beyond_a_buffer_needs_a_larger_one(tmp_path: Path) -> None:
    found = {c.id: c for c in claims(grid(tmp_path, {**FULL, "buffers": "800 kB"}))}
    for name in ("4-steep", "4-more"):
        claim = found[f"buffers-{name}"]
        assert claim.judgement.verdict is Verdict.OPEN, name
        assert "throughput of 1000 kB (N = 3000, beyond 800 kB)" in claim.missing, name
    alike = found["buffers-4-alike"]
    assert alike.missing[0] == "throughput of 100 kB (N = 3000, below 800 kB)"
    assert len(found) == 10

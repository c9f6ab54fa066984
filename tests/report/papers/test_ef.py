"""The page on TR2001-1: every sentence can hold, can be refuted, and is open without runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ef_study import ON_TIMES, as_published, published, study

from tcpf_lab.papers.ef import study as s
from tcpf_lab.papers.ef.claims import claims_of, errors_of
from tcpf_lab.papers.ef.figures import (
    fairness_figures,
    histogram_figures,
    prediction_figure,
    throughput_figures,
)
from tcpf_lab.papers.ef.study import Conditions
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import Drawing, drawn
from tcpf_lab.report.claims.papers import PaperClaim

Change = Callable[[Conditions, dict[str, Any]], None]

SACK = tuple(f"ef-sack-{number}" for number in (1, 2, 3, 4))


def verdicts(of: s.Study) -> dict[str, Verdict]:
    return {claim.id: claim.judgement.verdict for claim in claims_of(of, "Reno")}


def changed(change: Change) -> s.Study:
    """What was published, but for a change of some runs."""

    def found(known: Conditions, seed: int) -> dict[str, Any]:
        made = as_published(known, seed)
        change(known, made)
        return made

    return study(found)


def claim(of: s.Study, name: str) -> PaperClaim:
    return next(one for one in claims_of(of, "Reno") if one.id == name)


def figures(of: s.Study) -> dict[str, Drawing]:
    every = (
        *throughput_figures(of),
        *fairness_figures(of),
        *histogram_figures(of),
        prediction_figure(of),
    )
    return {drawing.name: drawing for drawing in every}


def test_all_holds_where_the_numbers_are_such() -> None:
    found = verdicts(published())
    assert len(found) == 30
    assert set(found.values()) == {Verdict.HOLDS}, {k: str(v) for k, v in found.items()}


def test_nothing_is_judged_without_runs() -> None:
    found = verdicts(study(lambda known, seed: None))
    assert set(found.values()) == {Verdict.OPEN}
    assert set(verdicts(study(settings=())).values()) == {Verdict.OPEN}


def set_metric(name: str, value: float, which: Callable[[Conditions], bool]) -> Change:
    def change(known: Conditions, made: dict[str, Any]) -> None:
        if which(known):
            made["metrics"][name] = value

    return change


def even(known: Conditions, made: dict[str, Any]) -> None:
    for row in made["per_flow"]:
        row["goodput_bytes_per_s"] = 1e5


def predicted(known: Conditions, made: dict[str, Any]) -> None:
    for row in made["pftk"] or ():
        row |= {"full": row["goodput_packets_per_s"], "approximate": row["sent_packets_per_s"]}


@pytest.mark.parametrize(
    ("change", "refuted"),
    [
        (
            set_metric("tcp_utilisation", 0.9, lambda known: known.flows == 1),
            {
                *("ef-conclusion-1", "ef-2a-half", "ef-conclusion-2", "ef-short-scales"),
                *(*SACK[:2], "ef-shares-loss"),
            },
        ),
        (
            set_metric("tcp_utilisation", 0.7, lambda k: k.flows >= 8 and k.ef == "onoff"),
            {"ef-conclusion-3", "ef-4a-falls", SACK[2], "ef-shares-many"},
        ),
        (
            set_metric("timeouts_per_flow_minute", 5.0, lambda known: True),
            {"ef-2b-hump", "ef-4b-grows"},
        ),
        (
            set_metric("goodput_min_max", 0.8, lambda known: True),
            {
                *("ef-5-factor-equal", "ef-5-factor-unequal", "ef-conclusion-4"),
                *("ef-7a-falls", "ef-7a-slower", SACK[3], "ef-shares-fairness"),
            },
        ),
        (
            set_metric("goodput_min_max", 0.9, lambda k: k.rtt_ms is None and k.flows == 128),
            {"ef-7b-marginal"},
        ),
        (even, {"ef-6-spread", "ef-6-near", "ef-8a", "ef-8b", "ef-9a"}),
        (predicted, {"ef-10", "ef-10-readings"}),
    ],
)
def test_a_sentence_is_refuted_where_the_numbers_say_otherwise(
    change: Change, refuted: set[str]
) -> None:
    found = verdicts(changed(change))
    assert {name for name, verdict in found.items() if verdict is Verdict.REFUTED} == refuted


def test_a_flow_that_got_nothing_in_one_seed_of_three_is_noise() -> None:
    def found(known: Conditions, seed: int) -> dict[str, Any]:
        made = as_published(known, seed)
        made["metrics"]["goodput_min_max"] = 0.0 if seed == 1 else 0.3
        return made

    assert verdicts(study(found))["ef-5-factor-unequal"] is Verdict.NOISE


def test_a_difference_that_depends_on_the_seed_is_noise() -> None:
    def found(known: Conditions, seed: int) -> dict[str, Any]:
        made = as_published(known, seed)
        if known.ef == "onoff" and known.flows == 1:
            made["metrics"]["tcp_utilisation"] += 0.3 * (seed - 2)
        return made

    assert verdicts(study(found))["ef-conclusion-1"] is Verdict.NOISE


def test_a_claim_names_what_is_missing_and_the_others_are_judged() -> None:
    def found(known: Conditions, seed: int) -> dict[str, Any] | None:
        return None if known == s.constant(s.alone("Reno")) else as_published(known, seed)

    partial = study(found)
    assert claim(partial, "ef-conclusion-1").missing == (
        "Reno, 1 flow, RTT 8 ms, constant EF at 0.3",
    )
    found_verdicts = verdicts(partial)
    assert found_verdicts["ef-conclusion-1"] is Verdict.OPEN
    assert found_verdicts["ef-conclusion-3"] is Verdict.HOLDS
    drawing = figures(partial)["fig-ef-2a"]
    assert {point.series for point in drawing.points} == {"NewReno", "SACK"}
    assert drawing.missing == (
        "7 of 21 points, such as Reno, 1 flow, RTT 8 ms, EF in bursts of 0.4 ms, "
        "Reno, 1 flow, RTT 8 ms, EF in bursts of 1 ms",
    )


def test_what_no_experiment_has_is_told_from_what_was_not_run() -> None:
    like = s.alone("Reno")
    some = [replace(like, on_ms=on) for on in ON_TIMES]
    lacking = claim(study(settings=some), "ef-conclusion-1").missing
    assert lacking == ("Reno, 1 flow, RTT 8 ms, constant EF at 0.3 (in no experiment here)",)


def test_a_conclusion_has_the_numbers_of_the_runs() -> None:
    top, below, above = claim(published(), "ef-conclusion-1").checks
    assert top.label == "maximum loss (at 10 ms)"
    assert top.number == "0.490 ± 0.000 (3 seeds)"
    assert below.label == "loss at 10 ms minus at 0.4 ms"
    assert above.measured.mean == pytest.approx(0.49 * (1 - math.exp(-(math.log10(40) ** 2))))


def test_a_hump_needs_lengths_on_both_sides() -> None:
    like = s.alone("Reno")
    some = [s.constant(like), *(replace(like, on_ms=on) for on in (4.0, 10.0, 40.0))]
    found = claim(study(settings=some), "ef-conclusion-1")
    assert [check.verdict for check in found.checks] == [Verdict.HOLDS, *[Verdict.OPEN] * 2]
    assert found.missing == (
        "Reno, 1 flow, RTT 8 ms, EF in bursts of at most 1 ms",
        "Reno, 1 flow, RTT 8 ms, EF in bursts of at least 100 ms",
    )


def test_loss_is_of_the_same_seed_and_only_where_both_were_run() -> None:
    known = replace(s.alone("Reno"), on_ms=10.0)

    def found(asked: Conditions, seed: int) -> dict[str, Any] | None:
        if asked == known and seed == 3:
            return None
        use = 0.9 - 0.1 * seed if asked.ef == "cbr" else 0.5 - 0.1 * seed
        return {"metrics": {"tcp_utilisation": use}}

    few = study(found, [known, s.constant(known)])
    assert dict(s.loss(few, known)) == pytest.approx({1: 0.4, 2: 0.4})


def test_loss_of_what_was_left_is_by_the_bursts_of_the_run() -> None:
    known = replace(s.alone("Reno"), on_ms=400.0)

    def found(asked: Conditions, seed: int) -> dict[str, Any]:
        use = 1.0 if asked.ef == "cbr" else 0.9
        return {"metrics": {"tcp_utilisation_of_rest": use, "tcp_utilisation": 1.0}}

    few = study(found, [known, s.constant(known)])
    assert dict(s.loss_of_left(few, known)) == pytest.approx({1: 0.1, 2: 0.1, 3: 0.1})
    assert "fig-ef-2a-left" in figures(few)


def test_figures_of_loss_have_a_line_for_each_tcp_or_number_of_flows() -> None:
    found = figures(published())
    single = found["fig-ef-2a"]
    assert {(p.series, p.x) for p in single.points} == {(t, on) for t in s.TCPS for on in ON_TIMES}
    peak = next(p for p in single.points if (p.series, p.x) == ("Reno", 10.0))
    assert peak.values == pytest.approx((0.49, 0.49, 0.49))
    assert {p.series for p in found["fig-ef-3"].points} == {f"RTT {r} ms" for r in (6, 8, 10, 12)}
    assert {p.x for p in found["fig-ef-4a"].points} == {8, 16, 32, 64, 128}
    assert {p.series for p in found["fig-ef-4b"].points} == {
        f"bursts of {on:g} ms" for on in ON_TIMES
    }


def test_a_network_without_bursts_is_a_level_in_figure_5() -> None:
    points = figures(published())["fig-ef-5a"].points
    levels = {p.series for p in points if math.isnan(p.x)}
    assert levels == {"TCP-only", "TCP+UDP"}
    assert {p.series for p in points} - levels == {"TCP-only+EF", "TCP+UDP+EF"}


def test_a_histogram_counts_every_flow_once() -> None:
    points = figures(published())["fig-ef-6a"].points
    assert {(p.panel, p.series) for p in points} == {
        (panel, series) for panel in ("TCP-only", "TCP+UDP") for series in ("no EF", "with EF")
    }
    own = [p for p in points if (p.panel, p.series) == ("TCP-only", "with EF")]
    assert sum(p.values[0] for p in own) == pytest.approx(1)
    fair = next(p for p in own if p.x == 1.0)
    assert fair.values == (0.875,) * 3


def test_the_error_of_a_prediction_is_relative_to_what_was_seen() -> None:
    errors = errors_of(published(), "full formula, goodput", "Reno").by_seed
    assert set(errors) == {1, 2, 3}
    assert sorted(set(errors[1])) == pytest.approx([0.05, 0.5])
    points = figures(published())["fig-ef-10"].points
    at = {p.x: p.values for p in points if p.series == "full formula, goodput"}
    assert (at[0.04], at[0.06], at[0.5]) == ((0.0,) * 3, (0.1,) * 3, (1.0,) * 3)


@pytest.mark.parametrize("name", ["fig-ef-2a", "fig-ef-5b", "fig-ef-6a", "fig-ef-10"])
def test_every_kind_of_figure_can_be_drawn(name: str) -> None:
    content = drawn(figures(published())[name], ("svg",))["svg"].decode()
    assert "of TR2001-1" in content
    assert "n=3" in content

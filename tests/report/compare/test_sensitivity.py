"""Which parameter moves which metric: known effects are found, ranked and shown."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from table_builder import cell_result, without_runs

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.compare.published import comparison_json
from tcpf_lab.report.compare.sensitivity import (
    LOOKED_AT,
    Effect,
    Ranking,
    Sensitivity,
    ranked_effects,
    sensitivity,
    strength,
)
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.section import CellResult, Section, Source
from tcpf_lab.results.layout import ExperimentFiles

LOSS, GOODPUT = "loss_percent", "goodput_bytes_per_s"
SEEDS = (1, 2, 3, 4)
#: What a seed adds to every cell alike, and what is a run's own.
SHARED = (0.9, 1.0, 1.2, 0.95)
OWN = (1.0, 1.01, 0.99, 1.0)
CASES = ("TCPF+FRIO", "TB+RIO", "NoMark+RED")
A = CellKey("A", 100, "TB+RIO")


def cell(
    case: str, loss: float, settings: Mapping[str, str] | None = None, own: Iterable[float] = OWN
) -> CellResult:
    """A cell with this mean loss, more or less; every other metric is the same everywhere."""
    values = [loss * a * b for a, b in zip(SHARED, own, strict=True)]
    metrics = {name: [5.0 * a for a in SHARED] for name in LOOKED_AT} | {LOSS: values}
    found = cell_result(CellKey("A", 100, case), metrics, SEEDS)
    pairs = tuple((settings or {}).items())
    return replace(found, cell=replace(found.cell, settings=pairs))


def section(results: Iterable[CellResult], factor: str = "", level: str = "") -> Section:
    every = tuple(results)
    name = f"{factor}-{level}" if factor else "configA"
    files = ExperimentFiles(Path("results"), name, "uml")
    cells = [result.cell for result in every]
    return Section(Source(files, cells, "A", "60 s", factor=factor, level=level), every)


PLAIN = section(cell(case, 4.0, own=(1.0, 1.0, 1.0, 1.0)) for case in CASES)
LEVELS = [
    PLAIN,
    section([cell(case, 4.4) for case in CASES], "minimum RTO", "1 s"),
    section([cell(case, 2.0) for case in CASES], "packet size", "576 B"),
    section([cell(case, 5.0) for case in CASES], "packet size", "1500 B"),
    section([cell("TB+RIO", 4.0 * factor) for factor in (8.0,)], "token bucket", "continuous"),
]


def ranking(found: Sensitivity, metric: str, cell: CellKey | None = None) -> Ranking:
    (own,) = [one for one in found.rankings if (one.metric, one.cell) == (metric, cell)]
    return own


def effect(
    found: Sensitivity, level: str, cell: CellKey | None = None, kind: str = "level"
) -> Effect:
    (own,) = [
        one
        for one in found.effects
        if (one.metric, one.level, one.cell, one.kind) == (LOSS, level, cell, kind)
    ]
    return own


def shown(found: Sensitivity, *, full: bool = False) -> str:
    text = io.StringIO()
    console = Console(file=text, width=80)
    for part in ranked_effects(found, full):
        console.print(part)
    return text.getvalue()


def test_factors_are_ranked_by_their_strongest_level() -> None:
    own = ranking(sensitivity(LEVELS), LOSS).factors
    assert [(one.rank, one.factor, one.effect.level) for one in own] == [
        (1, "token bucket", "continuous"),
        (2, "packet size", "576 B"),
        (3, "minimum RTO", "1 s"),
    ]
    assert [one.effect.verdict for one in own] == ["moves"] * 3
    assert own[1].effect.ratio == pytest.approx(0.5, rel=0.01)
    assert all(one.line is None for one in own)


def test_a_factor_is_averaged_over_the_cells_that_it_touches() -> None:
    found = sensitivity(LEVELS)
    token, packet = effect(found, "continuous"), effect(found, "576 B")
    assert (token.cells, packet.cells, packet.pairs) == (1, 3, 4)
    assert effect(found, "continuous", A).ratio == token.ratio
    assert not [e for e in found.effects if e.level == "continuous" and e.cell not in (None, A)]


def test_what_is_the_same_everywhere_is_moved_by_nothing() -> None:
    for one in ranking(sensitivity(LEVELS), GOODPUT).factors:
        assert one.effect.interval == pytest.approx((1.0, 1.0))
        assert one.effect.verdict == "noise"


def test_a_level_that_changes_nothing_at_all_moves_nothing() -> None:
    """Logarithms of equal means, a seventh of each, do not add up to 0 exactly."""
    odd = [cell(f"case {k}", 4.1 / (3 + k)) for k in range(7)]
    (found,) = ranking(sensitivity([section(odd), section(odd, "f", "l")]), LOSS).factors
    assert (found.effect.ratio, found.effect.verdict) == (1.0, "noise")
    assert strength(found.effect) == (0.0, 0.0)


def test_what_leads_to_nothing_beyond_noise_is_stronger_than_any_ratio() -> None:
    none = section([cell("TB+RIO", 0.0)], "cure", "l")
    found = sensitivity([section([cell("TB+RIO", 4.0)]), section([cell("TB+RIO", 400.0)], "f", "l"),
                         none])  # fmt: skip
    first, second = ranking(found, LOSS).factors
    assert (first.factor, first.effect.ratio, first.effect.verdict) == ("cure", None, "moves")
    assert (second.factor, second.effect.verdict) == ("f", "moves")
    assert "cure" in shown(found).split("Probability of byte loss")[1]


def test_the_mean_over_cells_is_the_geometric_one() -> None:
    level = section([cell("TB+RIO", 8.0), cell("NoMark+RED", 2.0)], "f", "l")
    assert effect(sensitivity([PLAIN, level]), "l").ratio == pytest.approx(1.0, rel=0.01)
    level = section([cell("TB+RIO", 16.0), cell("NoMark+RED", 4.0)], "f", "l")
    assert effect(sensitivity([PLAIN, level]), "l").ratio == pytest.approx(2.0, rel=0.01)


def test_a_large_effect_that_may_be_noise_stands_behind_a_small_one_that_is_sure() -> None:
    wild = section([cell("TB+RIO", 12.0, own=(0.1, 3.0, 0.2, 0.7))], "wild", "l")
    found = sensitivity([*LEVELS[:2], wild])
    assert [one.factor for one in ranking(found, LOSS).factors] == ["minimum RTO", "wild"]
    assert effect(found, "l").verdict == "noise"


def test_a_cell_without_any_is_left_out_of_the_ratio_and_named() -> None:
    plain = section([cell("TB+RIO", 4.0), cell("NoMark+RED", 0.0)])
    level = section([cell("TB+RIO", 8.0), cell("NoMark+RED", 0.0)], "f", "l")
    found = sensitivity([plain, level])
    overall = effect(found, "l")
    assert (overall.cells, overall.ratio) == (1, pytest.approx(2.0, rel=0.01))
    only = effect(found, "l", A).difference
    assert only is not None
    assert overall.difference == pytest.approx(only / 2)
    assert overall.note == "1 of 2 cells have a mean of 0: not in the ratio"
    assert "loss: no ratio where a mean is 0: A 100 NoMark+RED" in found.notes


def factorial() -> Section:
    """Loss doubles over the thresholds' range and is a third without SACK; RED has no threshold."""
    sizes, sacks = {"100 kB": 0.0, "200 kB": 0.5, "300 kB": 1.0}, {"true": 1.0, "false": 1 / 3}
    swept = [
        cell(case, 4.0 * 2**place * share, {"queue.out_max": size, "tcp.sack": sack})
        for case in CASES[:2]
        for size, place in sizes.items()
        for sack, share in sacks.items()
    ]
    plain = [cell(CASES[2], 4.0 * share, {"tcp.sack": sack}) for sack, share in sacks.items()]
    return section([*swept, *plain])


def test_axes_are_compared_with_their_first_values_over_the_others() -> None:
    found = sensitivity([factorial()])
    assert [(one.name, one.against, one.levels) for one in found.factors] == [
        ("queue.out_max", "100 kB", ("200 kB", "300 kB")),
        ("tcp.sack", "true", ("false",)),
    ]
    assert [one.factor for one in ranking(found, LOSS).factors] == ["tcp.sack", "queue.out_max"]
    assert effect(found, "300 kB").ratio == pytest.approx(2.0)
    assert effect(found, "200 kB").ratio == pytest.approx(math.sqrt(2))
    assert effect(found, "false").ratio == pytest.approx(1 / 3)
    assert (effect(found, "300 kB").cells, effect(found, "false").cells) == (2, 3)


def test_an_axis_of_numbers_has_the_rise_of_a_straight_line_too() -> None:
    found = sensitivity([factorial()])
    line = effect(found, "300 kB", kind="line")
    assert (line.against, line.ratio) == ("100 kB", pytest.approx(2.0))
    by_name = {one.factor: one.line for one in ranking(found, LOSS).factors}
    assert by_name["queue.out_max"] == line
    assert by_name["tcp.sack"] is None, "two words make no line"


def test_an_axis_that_only_a_level_has_is_part_of_the_level() -> None:
    swept = [cell("TB+RIO", 4.0 * k, {"queue.out_max": f"{k}00 kB"}) for k in (2, 3)]
    found = sensitivity([PLAIN, section(swept, "OUT threshold", "swept")])
    (factor,) = found.factors
    assert factor.levels == ("swept, queue.out_max=200 kB", "swept, queue.out_max=300 kB")
    assert effect(found, factor.levels[0]).ratio == pytest.approx(2.0, rel=0.01)


def test_an_axis_of_all_experiments_is_averaged_over_and_ranked_itself() -> None:
    def at_both(loss: float) -> list[CellResult]:
        return [cell("TB+RIO", loss * k, {"tcp.sack": v}) for k, v in ((1, "true"), (2, "false"))]

    found = sensitivity([section(at_both(4.0)), section(at_both(20.0), "f", "l")])
    assert effect(found, "l").ratio == pytest.approx(5.0, rel=0.01)
    assert effect(found, "false").ratio == pytest.approx(2.0, rel=0.01)


def test_the_design_is_stated() -> None:
    assert sensitivity(LEVELS).design == (
        "one factor at a time: 4 levels of 3 factors, each against the experiment as it stands",
        "4 seeds per cell; runs of the same seed are compared with each other",
    )
    first, _ = sensitivity([factorial()]).design
    assert first == (
        "full factorial: queue.out_max (3 values), tcp.sack (2 values); each value against the "
        "first of its axis, as the mean over the others' values"
    )


def test_what_could_be_chance_is_counted() -> None:
    notes = sensitivity(LEVELS).notes
    assert notes[0] == (
        "4 of 16 overall effects are beyond noise; by chance alone about 0.8 would be"
    )


def test_nothing_that_varies_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LabError, match=r"nothing varies(?s:.*)--set queue.max=100kB"):
        sensitivity([PLAIN])


def test_levels_without_runs_are_an_error() -> None:
    level = section([without_runs(A)], "f", "l")
    with pytest.raises(LabError, match="no level has a usable run"):
        sensitivity([PLAIN, level])


def test_a_level_without_runs_is_left_out_and_counted() -> None:
    found = sensitivity([*LEVELS, section([without_runs(A)], "f", "l")])
    assert [(row.state, row.runs) for row in found.left_out] == [("missing", 2)]
    assert "f" not in [one.factor for one in ranking(found, LOSS).factors]


def test_one_seed_has_ratios_and_says_that_noise_is_not_seen() -> None:
    def first(one: CellResult) -> CellResult:
        values = {name: estimate.values[:1] for name, estimate in one.metrics.items()}
        return cell_result(CellKey("A", 100, one.cell.case), values, (1,))

    sections = [replace(s, results=tuple(map(first, s.results))) for s in LEVELS[:3]]
    found = sensitivity(sections)
    assert effect(found, "576 B").verdict == "open"
    assert "one pair of runs: no interval" in found.notes


def test_in_full_every_factor_of_a_cell_is_shown() -> None:
    found = sensitivity(LEVELS)
    counts = [shown(found, full=full).count("minimum RTO") for full in (False, True)]
    assert counts[1] > counts[0]


def test_the_json_has_everything_and_nothing_that_json_lacks() -> None:
    plain = comparison_json(sensitivity([factorial()]))
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert list(again) == [
        *("design", "conditions", "factors", "rankings", "effects", "left_out", "notes"),
    ]
    first = again["rankings"][0]["factors"][0]
    assert {"rank", "factor", "effect", "line"} == set(first)
    assert again["effects"][0]["cell"] is None
    assert again["effects"][1]["cell"] == {"config": "A", "flows": 100, "case": "TCPF+FRIO"}

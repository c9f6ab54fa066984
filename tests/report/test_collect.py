from __future__ import annotations

from collections.abc import Callable

import pytest

from tcpf_lab.report.section import Cell, Problem, collect
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import ExperimentFiles, read_json, write_json


def test_a_cell_has_the_mean_interval_and_published_value_of_every_metric(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    result = collect(files, cells)[0]
    assert (result.n, result.complete, result.valid_runs, result.used) == (3, 3, 3, 3)
    assert list(result.metrics) == list(METRICS)
    timeouts = result.metrics["timeouts"]
    assert timeouts.values == (1300, 1322, 1344)
    assert timeouts.mean == 1322
    # Standard deviation 22, three runs, Student's t of 97.5 % with two degrees of freedom.
    assert timeouts.ci95 == pytest.approx(4.302653 * 22 / 3**0.5, rel=1e-6)
    assert timeouts.published == 1322
    assert result.metrics["loss_percent"].published == 9.01
    assert result.metrics["timeouts_per_flow_minute"].published is None


def test_second_readings_are_those_that_every_run_has(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    for seed in (1, 2, 3):
        more = {"retransmitted_percent": 8.0 + seed}
        write_run("NoMark+RED", 100, seed, metrics=more | {"goodput_ip_bytes_per_s": None})
    metrics = collect(files, [red])[0].metrics
    assert list(metrics) == [*METRICS, "retransmitted_percent"]
    assert metrics["retransmitted_percent"].values == (9, 10, 11)
    assert metrics["retransmitted_percent"].published == 9.01


def test_a_case_of_our_own_has_no_published_value(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    mystery = collect(files, cells)[2]
    assert {estimate.published for estimate in mystery.metrics.values()} == {None}


def test_one_run_has_a_mean_but_no_interval(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 2)
    result = collect(files, [red])[0]
    assert (result.n, result.complete, result.valid_runs) == (3, 1, 1)
    assert result.metrics["timeouts"].mean == 1322
    assert result.metrics["timeouts"].ci95 is None
    assert [problem.state for problem in result.problems] == ["missing", "missing"]


def test_an_invalid_run_is_left_out_with_its_reasons(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 1, reasons=("offloads_off: tso is on", "drops differ"))
    write_run("NoMark+RED", 100, 2)
    write_run("NoMark+RED", 100, 3)
    result = collect(files, [red])[0]
    assert (result.complete, result.valid_runs, result.used) == (3, 2, 2)
    assert result.metrics["timeouts"].values == (1322, 1344)
    assert str(result.problems[0]) == (
        "nomark+red-flows100-seed1: invalid: offloads_off: tso is on; drops differ"
    )


def test_an_invalid_run_is_used_when_asked_for_and_still_named(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 1, reasons=("drops differ",))
    write_run("NoMark+RED", 100, 2)
    result = collect(files, [red], include_invalid=True)[0]
    assert (result.valid_runs, result.used) == (1, 2)
    assert result.metrics["timeouts"].values == (1300, 1322)
    assert result.problems[0] == Problem(red.runs[0], "invalid", ("drops differ",), used=True)


def test_a_stale_run_is_never_used(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed)
    result = collect(files, [red], include_invalid=True, stale={red.runs[2]: "kernel"})[0]
    assert (result.complete, result.used) == (2, 2)
    assert result.problems[0] == Problem(red.runs[2], "stale", ("kernel",))


def test_a_run_that_was_begun_has_failed(files: ExperimentFiles, red: Cell) -> None:
    files.partial(red.runs[0]).create()
    states = [problem.state for problem in collect(files, [red])[0].problems]
    assert states == ["failed", "missing", "missing"]


def test_a_number_that_an_invalid_run_lacks_hides_no_reason(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 1, reasons=("no flow connected",))
    path = files.run(red.runs[0]).metrics
    found = read_json(path)
    write_json(path, found | {"metrics": found["metrics"] | {"goodput_cov": None}})
    (problem, *_) = collect(files, [red], include_invalid=True)[0].problems
    assert (problem.state, problem.used) == ("invalid", False)
    assert problem.reasons[0] == "no flow connected"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "not metrics of format 2"),
        ('{"format": 99}', "has format 99, which a later tcpf-lab reads"),
        ('{"format": 2, "config": "B"}', "config is 'B', expected 'A'"),
        (
            '{"format": 2, "config": "A", "case": "NoMark+RED", "flows": 100}',
            "no validity verdict",
        ),
        (
            '{"format": 2, "config": "A", "case": "NoMark+RED", "flows": 100,'
            ' "validity": {"valid": true}, "metrics": {"timeouts": NaN}}',
            "damaged: metrics, validity",
        ),
        (
            '{"format": 2, "config": "A", "case": "NoMark+RED", "flows": 100, "per_flow": null}',
            "damaged: per_flow",
        ),
        (
            '{"format": 2, "config": "A", "case": "NoMark+RED", "flows": 100,'
            ' "metrics": {"timeouts": 1e308}}',
            "damaged: metrics",
        ),
    ],
)
def test_unusable_metrics_are_reported_and_left_out(
    files: ExperimentFiles, text: str, says: str, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 1)
    files.run(red.runs[0]).metrics.write_text(text)
    result = collect(files, [red])[0]
    assert result.used == 0
    assert result.problems[0].state == "unreadable"
    assert says in str(result.problems[0])


def test_a_complete_run_without_metrics_is_unreadable(
    files: ExperimentFiles, write_run: Callable[..., None], red: Cell
) -> None:
    write_run("NoMark+RED", 100, 1)
    files.run(red.runs[0]).metrics.unlink()
    result = collect(files, [red])[0]
    assert result.complete == 1
    assert str(result.problems[0]).endswith("unreadable: metrics.json: no such file")

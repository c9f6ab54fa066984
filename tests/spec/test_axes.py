"""Axes of the matrix: which runs they make, how those are called, and what may be asked of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.spec.load import SpecErrors, apply_overrides, dump, overlap, parse
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.queue import Rio
from tcpf_lab.spec.sweep import Run, expand, narrow, narrow_each, parse_only

RANGE = "queue.out_max=100kB..200kB:50kB"


def swept(experiment: Experiment, *settings: str) -> tuple[Run, ...]:
    small = ["matrix.flows=50", "matrix.seed=1"]
    return expand(apply_overrides(experiment, [*small, *settings]))


def ids(runs: tuple[Run, ...]) -> list[str]:
    return [run.id for run in runs]


def test_a_case_is_run_at_every_value_and_one_without_the_key_once(config_a: Experiment) -> None:
    runs = swept(config_a, RANGE, "matrix.case=[TB+RIO, NoMark+RED]")
    assert ids(runs) == [
        "tb+rio-queue.out_max=100kB-flows50-seed1",
        "tb+rio-queue.out_max=150kB-flows50-seed1",
        "tb+rio-queue.out_max=200kB-flows50-seed1",
        "nomark+red-flows50-seed1",
    ]
    maxima = [run.case.queue.out_max for run in runs if isinstance(run.case.queue, Rio)]
    assert maxima == [100_000, 150_000, 200_000]
    assert [run.settings for run in runs][2:] == [(("queue.out_max", "200 kB"),), ()]


def test_several_axes_are_crossed_the_last_one_fastest(config_a: Experiment) -> None:
    runs = swept(config_a, RANGE, "tcp.sack=[true, false]", "matrix.case=TB+RIO")
    values = [tuple(value for _, value in run.settings) for run in runs]
    assert values == [
        (size, sack) for size in ("100 kB", "150 kB", "200 kB") for sack in ("true", "false")
    ]
    assert [run.experiment.tcp.sack for run in runs] == [True, False] * 3


def test_numbers_of_flows_may_be_a_range_as_well(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, ["matrix.flows=10..50:20", "matrix.case=TB+RIO"])
    assert changed.matrix.flows == (10, 30, 50)
    assert parse(dump(changed), "x") == changed
    with pytest.raises(SpecError, match=r"matrix.flows: must be at least 1, not 0"):
        apply_overrides(config_a, ["matrix.flows=0..2"])
    with pytest.raises(SpecError, match=r"at 10 or 30"):
        apply_overrides(config_a, ["matrix.flows=10..25:20"])


def test_a_sweep_leaves_what_it_does_not_touch_as_it_is(config_a: Experiment) -> None:
    plain = {run.id: run for run in swept(config_a)}
    same = [run for run in swept(config_a, RANGE) if not run.settings]
    assert {run.case_name for run in same} == {"NoMark+TailDrop", "NoMark+RED"}
    for run in same:
        assert run == plain[run.id]
        assert dump(run.experiment) == dump(plain[run.id].experiment)


@pytest.mark.parametrize(
    "settings",
    [
        [RANGE],
        ["cases.*.queue.out_max=[0.1 MB, 200 kB]", "tcp.sack=[true, false]"],
        ["cases.NoMark+RED.queue.max=[100 kB, 150 kB]", "queue.out_probability=0.05..0.25:0.1"],
        ["traffic.generator=[native, iperf3]", "topology.chain.mtu=[576 B, 1 kB]"],
        ["marker.in=[AF21]", "queue.in=[18]"],
        ["tcp.initcwnd=1..4", "queue.many_flows=[true, false]", "queue.ewma=[5, 7]"],
        ["marker.profile=[paper, recommended]"],
    ],
)
def test_a_runs_own_file_gives_the_run_again(config_a: Experiment, settings: list[str]) -> None:
    runs = swept(config_a, *settings)
    assert len(set(ids(runs))) == len(runs)
    for run in runs:
        assert expand(parse(dump(run.experiment), "run.yaml")) == (run,)
        assert re.fullmatch(r"[A-Za-z0-9+=._-]+", run.id)


def test_an_experiment_with_axes_is_written_and_read_back(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, [RANGE, "tcp.sack=[true, false]"])
    assert "queue.out_max: [100 kB, 150 kB, 200 kB]" in dump(changed)
    assert parse(dump(changed), "x") == changed


def test_the_way_of_writing_makes_no_other_run(config_a: Experiment) -> None:
    one = swept(config_a, "queue.out_max=[0.1 MB]", "traffic.duration=[1 min]")
    other = swept(config_a, "traffic.duration=[60 s]", "cases.*.queue.out_max=[100 kB]")
    assert ids(one) == ids(other)
    assert [dump(run.experiment) for run in one] != []
    assert sorted(map(str, (run.settings for run in one))) == sorted(
        map(str, (run.settings for run in other))
    )


def test_a_case_named_in_the_key_has_the_short_key_in_its_runs(config_a: Experiment) -> None:
    settings = ["cases.TB+RIO.queue.out_max=[100 kB]", "cases.TCPF+RIO.queue.out_max=[150 kB]"]
    named = {run.id: run for run in swept(config_a, *settings)}
    short = {run.id: run for run in swept(config_a, "queue.out_max=[100 kB, 150 kB]")}
    both = set(named) & set(short) - {run.id for run in swept(config_a)}
    assert both == {
        "tb+rio-queue.out_max=100kB-flows50-seed1",
        "tcpf+rio-queue.out_max=150kB-flows50-seed1",
    }
    for name in both:
        assert named[name] == short[name]


def test_two_ways_to_write_one_code_point_are_one_value(config_a: Experiment) -> None:
    with pytest.raises(SpecError, match=r"marker.in\[1\]: 10 is the same as AF11"):
        swept(config_a, "marker.in=[AF11, 10]", "matrix.case=TB+RIO")


def test_one_value_on_the_matrix_is_an_axis_and_elsewhere_is_none(config_a: Experiment) -> None:
    assert ids(swept(config_a, "matrix.queue.out_max=100 kB", "matrix.case=TB+RIO")) == [
        "tb+rio-queue.out_max=100kB-flows50-seed1"
    ]
    assert ids(swept(config_a, "queue.out_max=100 kB", "matrix.case=TB+RIO")) == [
        "tb+rio-flows50-seed1"
    ]


def test_the_later_of_two_settings_wins_over_an_axis_too(config_a: Experiment) -> None:
    case = "matrix.case=TB+RIO"
    settled = swept(config_a, RANGE, "cases.*.queue.out_max=120 kB", case)
    assert ids(settled) == ["tb+rio-flows50-seed1"]
    again = swept(config_a, RANGE, "cases.*.queue.out_max=[120 kB]", case)
    assert ids(again) == ["tb+rio-queue.out_max=120kB-flows50-seed1"]
    with pytest.raises(SpecError, match=r"the axis queue.out_max"):
        swept(config_a, RANGE, "cases.TB+RIO.queue.out_max=120 kB")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("tcp.sak=[true]", r"matrix.tcp.sak\[0\]: unknown key; allowed: .*Did you mean 'sack'"),
        ("tcp.sack=[true, yes]", r"matrix.tcp.sack\[1\]: must be true or false, not 'yes'"),
        ("queue.out_max=5 kB..15 kB:10 kB", r"with queue.out_max=5 kB, cases.TCPF\+FRIO.queue."),
        ("cases.NoMark+RED.marker.tokens=[1 kB]", "marker: is a single value"),
        ("matrix.queue=3", "matrix.queue: unknown key; allowed: case, flows, seed"),
        ("queue.out_max=[]", "must not be empty"),
        ("name=[a, b]", "name: must be text, not a list"),
        (
            "queue.min=200 kB..300 kB:100 kB",
            "matrix.queue.min: must be less than max .*, not 200 kB",
        ),
    ],
)
def test_a_wrong_axis_is_named_in_the_error(
    settings: str, message: str, config_a: Experiment
) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        apply_overrides(config_a, [settings])
    problems = getattr(caught.value, "problems", (caught.value,))
    assert {problem.where for problem in problems} == {f"--set {settings}"}


def test_a_fault_of_many_values_is_told_three_times(config_a: Experiment) -> None:
    with pytest.raises(SpecErrors) as caught:
        apply_overrides(config_a, ["queue.out_max=1..900"])
    assert len(caught.value.problems) == 3


def narrowed(experiment: Experiment, only: dict[str, str]) -> list[str]:
    return ids(expand(apply_overrides(experiment, ["matrix.flows=50", RANGE]), only, seeds=1))


@pytest.mark.parametrize("value", ["150kB,200 kB", "0.15MB,200kB"])
@pytest.mark.parametrize("key", ["queue.out_max", "cases.*.queue.out_max"])
def test_only_takes_values_of_an_axis(config_a: Experiment, key: str, value: str) -> None:
    found = narrowed(config_a, {"case": "TB+RIO,NoMark+RED", key: value})
    assert found == [
        "tb+rio-queue.out_max=150kB-flows50-seed1",
        "tb+rio-queue.out_max=200kB-flows50-seed1",
    ]


def test_a_case_without_the_axis_goes_on_without_it(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, [RANGE])
    assert narrow(changed, {"case": "NoMark+RED"}) == narrow(config_a, {"case": "NoMark+RED"})


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"queue.out_max": "90 kB"}, "unknown queue.out_max '90 kB'; allowed: 100 kB, 150 kB"),
        ({"queue.max": "90 kB"}, "unknown key 'queue.max'; allowed: case, flows, seed, queue.out"),
        ({"queue.out_max": "100 kB", "case": "NoMark+RED"}, "no run matches"),
    ],
)
def test_a_value_that_no_run_has_is_refused(
    config_a: Experiment, only: dict[str, str], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        narrowed(config_a, only)


def test_of_several_experiments_those_without_the_axis_have_none(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, [RANGE])
    one, other = narrow_each([config_a, changed], {"queue.out_max": "150 kB"})
    assert one is None
    assert other is not None
    assert other.matrix.case == ("TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "TB+RIO", "NoMark+FRED")


def test_short_and_long_keys_overlap() -> None:
    assert overlap("queue.max=1 kB", "cases.NoMark+RED.queue.max=2 kB")
    assert overlap("marker.tokens=[1 kB, 2 kB]", "cases.*.marker.tokens=1 kB")
    assert not overlap("queue.max=1 kB", "queue.min=1 kB")


def test_an_axis_may_move_the_bounds_of_another(config_a: Experiment) -> None:
    """The first value would be refused with the file's other one; together they are allowed."""
    runs = swept(
        config_a,
        "cases.NoMark+RED.queue.max=[9 kB]",
        "cases.NoMark+RED.queue.min=[5 kB]",
    )
    red: Any = next(run for run in runs if run.case_name == "NoMark+RED").case.queue
    assert (red.min, red.max) == (5_000, 9_000)


# Sweep.


def test_the_matrix_expands_by_case_then_flows_then_seed(config_a: Experiment) -> None:
    runs = expand(config_a)
    assert len(runs) == 7 * 2 * 10
    assert [run.id for run in runs[:2]] == ["tcpf+frio-flows100-seed1", "tcpf+frio-flows100-seed2"]
    assert runs[-1].id == "nomark+red-flows50-seed10"
    assert len({run.id for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("TCPF(O)+RIO", "tcpf-o+rio"),
        ("NoMark+RED", "nomark+red"),
        ("No Mark + RED", "no-mark+red"),
        ("a_b--c", "a-b-c"),
    ],
)
def test_case_names_become_path_safe(name: str, slug: str) -> None:
    assert case_slug(name) == slug


@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9 _()+-]{0,59}\Z"))
def test_every_slug_is_path_safe_and_its_own_slug(name: str) -> None:
    slug = case_slug(name)
    assert re.fullmatch(r"[a-z0-9+-]+", slug)
    assert case_slug(slug) == slug


def test_a_run_dumped_and_expanded_is_the_same_run(config_a: Experiment) -> None:
    for run in expand(config_a)[::13]:
        assert expand(parse(dump(run.experiment), "run.yaml")) == (run,)


def test_a_run_does_not_depend_on_the_rest_of_the_matrix(config_a: Experiment) -> None:
    smaller = apply_overrides(config_a, ["matrix={case: NoMark+RED, flows: 50, seed: [7, 3]}"])
    every = {run.id: run for run in expand(config_a)}
    for run in expand(smaller):
        assert dump(run.experiment) == dump(every[run.id].experiment)


def test_only_restricts_to_lists_of_values(config_a: Experiment) -> None:
    runs = expand(config_a, {"case": "NoMark+RED", "seed": "2,1", "flows": "50"})
    assert [run.id for run in runs] == ["nomark+red-flows50-seed1", "nomark+red-flows50-seed2"]
    assert expand(config_a, {"case": "nomark+red", "seed": "1,2", "flows": "50"}) == runs


def test_seeds_takes_the_first_of_the_matrix(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, ["matrix.seed=[9, 4, 1]"])
    assert {run.seed for run in expand(changed, seeds=2)} == {9, 4}


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (
            {"case": "RED"},
            r"--only case=RED: unknown case 'RED'; allowed: TCPF\+FRIO, .*NoMark\+RED",
        ),
        ({"flows": "10"}, "--only flows=10: unknown flows '10'; allowed: 100, 50"),
        ({"seed": "1,11"}, "unknown seed '11'; allowed: 1, 2, 3"),
        ({"flow": "10"}, "unknown key 'flow'; allowed: case, flows, seed. Did you mean 'flows'"),
    ],
)
def test_a_value_outside_the_matrix_is_refused(
    only: dict[str, str], message: str, config_a: Experiment
) -> None:
    with pytest.raises(RequestError, match=message):
        expand(config_a, only)


@pytest.mark.parametrize("count", [0, -1, 11])
def test_more_seeds_than_there_are_is_refused(count: int, config_a: Experiment) -> None:
    with pytest.raises(RequestError, match=f"--seeds {count}: must be from 1 to 10"):
        expand(config_a, seeds=count)


def test_only_words_are_split_at_the_first_equals_sign() -> None:
    assert parse_only(["case=NoMark+RED", "seed=1,2"]) == {"case": "NoMark+RED", "seed": "1,2"}


@pytest.mark.parametrize("words", [["case"], ["=x"], ["case="], ["seed=1", "seed=2"]])
def test_malformed_only_words_are_refused(words: list[str]) -> None:
    with pytest.raises(RequestError, match="--only"):
        parse_only(words)

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpf_lab.base.errors import RequestError
from tcpf_lab.spec.load import apply_overrides, dump, parse
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.sweep import expand, parse_only


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

"""The pure functions: limits, identities and what is undefined."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tcpf_lab.metrics import definitions

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

"""Numbers as they are printed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpf_lab.report.table import fixed, ratios, significant, spread


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.98765, "0.988"),
        (22.22, "22.2"),
        (999.4, "999"),
        (999.6, "1000"),
        (1800.0, "1800"),
        (12345.6, "12346"),
        (0.0000123, "0.0000123"),
        (-30.04, "−30"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_three_digits_say_it_without_an_exponent(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_no_number_has_an_exponent_or_a_hyphen(value: float) -> None:
    text = significant(value)
    assert not set(text) - set("−0123456789.")
    assert float(text.replace("−", "-")) == pytest.approx(value, rel=0.0051, abs=1e-300)


def test_negative_numbers_have_a_minus_sign_and_zero_has_none() -> None:
    assert [fixed(value, 2) for value in (-0.333, -0.004, 0.0, -1.0)] == [
        *("−0.33", "0.00", "0.00", "−1.00"),
    ]


def test_a_spread_of_equal_numbers_is_one() -> None:
    assert spread([2.0, 1.0]) == "1 to 2"
    assert spread([1.001, 1.002]) == "1"


def test_a_ratio_that_is_not_1_is_not_printed_as_1() -> None:
    assert ratios(1.0, 0.999, 1.25) == ("1.000", "0.999", "1.250")
    assert ratios(1.0, 0.9998, 1.25) == ("1.0000", "0.9998", "1.2500")
    assert ratios(1.00031, 1.00012, 1.0005) == ("1.0003", "1.0001", "1.0005")
    assert ratios(1.0, 1.0) == ("1.000", "1.000")
    assert ratios(22.222, 1.5) == ("22.2", "1.500")

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpf_lab.base import units
from tcpf_lab.base.errors import LabError

READ: list[tuple[Callable[[object], float], dict[str, float]]] = [
    (
        units.parse_rate,  # in bits per second
        {"100 Mbit": 10**8, "10mbit": 10**7, "1.5 Gbit/s": 1.5e9, "56.6 kbit": 56_600, "1 BIT": 1},
    ),
    (
        units.parse_size,  # in bytes
        {"500 kB": 500_000, "1 MB": 10**6, "64 KiB": 65_536, "0.001 kB": 1, " 2GiB ": 2**31},
    ),
    (
        units.parse_duration,  # the nearest float
        {"200 ms": 0.2, "2 s": 2.0, "1 min": 60.0, "0 s": 0.0, "0.1s": 0.1, "3 us": 3e-6},
    ),
]


@pytest.mark.parametrize(("parse", "texts"), READ)
def test_a_quantity_is_read(parse: Callable[[object], float], texts: dict[str, float]) -> None:
    assert {text: parse(text) for text in texts} == texts


@settings(max_examples=50)
@given(st.integers(1, 10**12), st.integers(1, 2**32 - 1), st.integers(0, 10**15), st.floats(0, 1))
def test_what_is_written_is_read_back(rate: int, size: int, ns: int, probability: float) -> None:
    assert units.parse_rate(units.format_rate(rate)) == rate
    assert units.parse_size(units.format_size(size)) == size
    seconds = units.parse_duration(f"{ns // 1000}.{ns % 1000:03d} us")
    assert units.parse_duration(units.format_duration(seconds)) == seconds
    text = units.format_probability(probability)
    assert units.parse_probability(text) == probability
    assert "e" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (units.format_rate(10_000_000), "10 Mbit"),
        (units.format_rate(1_234_567), "1234.567 kbit"),
        (units.format_size(500_000), "500 kB"),
        (units.format_size(65_536), "65.536 kB"),
        (units.format_duration(0.2), "200 ms"),
        (units.format_duration(60.0), "60 s"),
        (units.format_duration(0.0), "0 s"),
        (units.format_duration(1e-9), "0.001 us"),
        (units.format_probability(1e-5), "0.00001"),
    ],
)
def test_values_are_written_in_the_largest_unit_that_reads_well(value: str, text: str) -> None:
    assert value == text


@pytest.mark.parametrize("number", [500_000, "500000", 1.5, -3])
def test_a_bare_number_is_refused_and_the_units_are_listed(number: object) -> None:
    with pytest.raises(units.UnitError, match="B, kB, MB, GB, KiB, MiB, GiB"):
        units.parse_size(number)


@pytest.mark.parametrize(
    "value",
    [None, True, [], {}, "", "kB", "1 kb", "1 KB", "1e3 kB", "1_0 B", "१ B", "0.5 B", "0 B"],
)
def test_what_is_not_a_size_is_refused(value: object) -> None:
    with pytest.raises(units.UnitError):
        units.parse_size(value)


@pytest.mark.parametrize("value", ["5 GB", "4294967296 B"])
def test_a_size_beyond_32_bits_is_refused_with_the_range(value: str) -> None:
    with pytest.raises(units.UnitError, match="from 1 B to 4294967295 B"):
        units.parse_size(value)


@pytest.mark.parametrize("value", ["10 MBps", "10 bps", "10 Mbps", "10 MB", "0 bit"])
def test_what_tc_might_take_for_bytes_per_second_is_refused(value: str) -> None:
    with pytest.raises(units.UnitError):
        units.parse_rate(value)


@pytest.mark.parametrize(
    "value", [-0.1, 1.01, float("nan"), float("inf"), True, None, "x", "1.2.3"]
)
def test_what_is_not_a_probability_is_refused(value: object) -> None:
    with pytest.raises(units.UnitError, match="a number from 0 to 1"):
        units.parse_probability(value)


def test_a_duration_that_text_cannot_hold_is_refused() -> None:
    with pytest.raises(units.UnitError, match="cannot be written"):
        units.format_duration(1 / 3)


def test_a_sum_of_durations_is_written_as_what_it_adds_up_to() -> None:
    assert units.format_duration(0.1 + 0.02) == "120 ms"
    assert units.format_duration(0.1 + 0.2) == "300 ms"


def test_a_unit_error_is_both_a_lab_error_and_a_value_error_and_can_be_pickled() -> None:
    with pytest.raises(units.UnitError) as caught:
        units.parse_size(1)
    assert isinstance(caught.value, LabError)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("quantity", "good", "bad"),
    [
        (
            units.RATE,
            ["100 Mbit", "10mbit", "1.5 Gbit/s", "1BIT"],
            ["10", "10 MB", "10 bps", "-1 bit"],
        ),
        (units.SIZE, ["500 kB", "1MB", "64 KiB"], ["500", "500 KB", "1 Mbit"]),
        (units.DURATION, ["200 ms", "1 min", "0 s"], ["1", "1 sec", "1 minute", "x s"]),
    ],
)
def test_the_pattern_of_the_schema_accepts_what_is_read(
    quantity: units.Quantity, good: list[str], bad: list[str]
) -> None:
    json.dumps(quantity.pattern)
    assert all(re.search(quantity.pattern, text, flags=re.ASCII) for text in good)
    assert not any(re.search(quantity.pattern, text, flags=re.ASCII) for text in bad)

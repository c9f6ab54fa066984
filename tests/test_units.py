from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpf_lab import units
from tcpf_lab.errors import LabError


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100 Mbit", 100_000_000),
        ("10mbit", 10_000_000),
        ("1.5 Gbit/s", 1_500_000_000),
        ("56.6 kbit", 56_600),
        ("1 BIT", 1),
    ],
)
def test_a_rate_is_read_in_bits_per_second(text: str, rate: int) -> None:
    assert units.parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500 kB", 500_000),
        ("1 MB", 1_000_000),
        ("64 KiB", 65_536),
        ("1500 B", 1500),
        ("0.001 kB", 1),
        (" 2GiB ", 2**31),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200 ms", 0.2), ("2 s", 2.0), ("1 min", 60.0), ("0 s", 0.0), ("0.1s", 0.1), ("3 us", 3e-6)],
)
def test_a_duration_is_the_float_nearest_to_its_decimal(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@given(st.integers(1, 10**12))
def test_rates_survive_writing_and_reading(rate: int) -> None:
    assert units.parse_rate(units.format_rate(rate)) == rate


@given(st.integers(1, 2**32 - 1))
def test_sizes_survive_writing_and_reading(size: int) -> None:
    assert units.parse_size(units.format_size(size)) == size


@given(st.integers(0, 10**15))
def test_durations_survive_writing_and_reading(nanoseconds: int) -> None:
    seconds = units.parse_duration(f"{nanoseconds // 1000}.{nanoseconds % 1000:03d} us")
    assert units.parse_duration(units.format_duration(seconds)) == seconds


@given(st.floats(0, 1))
def test_probabilities_survive_writing_and_reading(probability: float) -> None:
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
    with pytest.raises(units.UnitError) as caught:
        units.parse_size(number)
    assert "unit" in str(caught.value)
    assert "B, kB, MB, GB, KiB, MiB, GiB" in str(caught.value)


def test_the_message_of_a_bare_number_says_that_the_unit_is_missing() -> None:
    with pytest.raises(
        units.UnitError, match=r"^200 lacks a unit; .*\(units: us, ms, s, min, h\)$"
    ):
        units.parse_duration(200)


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

"""Values of axes: ranges counted exactly, and one way of writing each value."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpf_lab.base.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_size,
)
from tcpf_lab.spec.axis import MOST_VALUES, is_range, plain, shown, spread, word


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..5", (1, 2, 3, 4, 5)),
        ("3..3", (3,)),
        ("2..10:4", (2, 6, 10)),
        ("0.01..0.05:0.01", (0.01, 0.02, 0.03, 0.04, 0.05)),
        ("0.1..0.3:0.1", (0.1, 0.2, 0.3)),
        ("100kB..300kB:100kB", ("100 kB", "200 kB", "300 kB")),
        ("0.9 MB..1.1 MB:100 kB", ("900 kB", "1 MB", "1.1 MB")),
        ("64 KiB..128 KiB:32 KiB", ("65.536 kB", "98.304 kB", "131.072 kB")),
        ("200 ms..1 s:400 ms", ("200 ms", "600 ms", "1 s")),
        (" 1 mbit/s .. 2 Mbit : 500 kbit ", ("1 Mbit", "1.5 Mbit", "2 Mbit")),
    ],
)
def test_a_range_has_both_ends_and_every_step(text: str, values: tuple[object, ...]) -> None:
    assert spread(text) == values
    assert [type(value) for value in spread(text)] == [type(value) for value in values]


@settings(max_examples=25)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 300))
def test_steps_of_a_range_are_exact(first: int, step: int, steps: int) -> None:
    last = first + steps * step
    sizes = spread(f"{first} B..{last} B:{step} B")
    assert [parse_size(text) for text in sizes] == list(range(first, last + 1, step))
    times = spread(f"{first} us..{last} us:{step} us")
    exact = [Fraction(first + index * step, 10**6) for index in range(steps + 1)]
    assert [parse_duration(text) for text in times] == [float(value) for value in exact]


@settings(max_examples=25)
@given(st.integers(0, 999), st.integers(1, 999), st.integers(0, 300))
def test_decimal_steps_do_not_drift(first: int, step: int, steps: int) -> None:
    last = first + steps * step
    texts = [f"{number // 1000}.{number % 1000:03d}" for number in (first, last, step)]
    values = spread(f"{texts[0]}..{texts[1]}:{texts[2]}")
    assert values == tuple((first + index * step) / 1000 for index in range(steps + 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1..", "is not a range; write FIRST..LAST:STEP"),
        ("..3", "is not a range"),
        ("1...3", "'.3' is not a number"),
        ("a..b", "'a' is not a number"),
        ("1..2..3", "is not a range"),
        ("5..1", "runs downwards"),
        ("1..5:0", "must be more than 0"),
        ("1..10:4", "at 9 or 13"),
        ("1 s..2 s:300 ms", "at 1.9 s or 2.2 s"),
        ("1 kB..3 kB", "needs a step"),
        ("0.1..0.3", "needs a step"),
        ("1 kB..3 s:1 kB", "mixes duration and size"),
        ("100..300 kB:50 kB", "mixes plain number and size"),
        ("1 furlong..3 furlong:1 furlong", "'1 furlong' is not a number"),
        ("1..1001", f"has 1001 values; an axis has at most {MOST_VALUES}"),
        ("1 B..8 GB:1 B", "is out of range|has 8000000000 values"),
    ],
)
def test_a_range_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spread(text)


def test_a_range_may_have_a_thousand_values_and_a_list_no_more() -> None:
    assert len(spread("1..1000")) == MOST_VALUES
    with pytest.raises(ValueError, match="has 1001 values"):
        spread(list(range(1001)))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("0.1MB", "100 kB"),
        ("10mbit/s", "10 Mbit"),
        ("1 min", "60 s"),
        ("5", "5"),
        ("cubic", "cubic"),
        ("AF11", "AF11"),
        (True, True),
        (0.25, 0.25),
    ],
)
def test_a_value_is_kept_in_one_way_of_writing(written: object, kept: object) -> None:
    assert plain(written) == kept
    assert plain(plain(written)) == kept


@pytest.mark.parametrize("value", [None, {"kind": "red"}, [1, 2], "1..3", "9999 GB", "0.5 B"])
def test_what_is_no_single_value_is_refused(value: object) -> None:
    with pytest.raises(
        ValueError, match=r"a value of an axis|inside a list|out of range|whole number"
    ):
        plain(value)


@given(
    st.one_of(
        st.integers(1, 2**32 - 1).map(format_size),
        st.integers(1, 10**12).map(format_rate),
        st.integers(0, 10**9).map(lambda number: format_duration(number / 1000)),
        st.integers(-(10**9), 10**9),
        st.booleans(),
    )
)
def test_a_value_asked_for_as_it_is_shown_is_found(value: str | int | bool) -> None:
    assert word(shown(value)) == word(f" {shown(value)} ") == shown(value).replace(" ", "")
    assert not is_range(shown(value))


@pytest.mark.parametrize(
    ("asked", "shown_as"), [("0.15MB", "150 kB"), ("0.050", "0.05"), ("1.0", "1")]
)
def test_a_value_may_be_asked_for_in_another_way(asked: str, shown_as: str) -> None:
    assert word(asked) == word(shown_as)

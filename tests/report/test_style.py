from __future__ import annotations

import math
from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpf_lab.base import shipped
from tcpf_lab.report.style import (
    CASES,
    FALLBACK,
    case_styles,
    conditions,
    house_style,
    lightness,
    path_delays,
)
from tcpf_lab.report.table import fixed, ratios, significant, spread
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.topology import Chain, Dumbbell, Topology

#: Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB.
DEFICIENCIES = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(colour: str, deficiency: list[list[float]] | None = None) -> np.ndarray:
    """CIE L*a*b* of a colour as somebody with a deficiency sees it."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    if deficiency is not None:
        linear = np.clip(np.array(deficiency) @ linear, 0, 1)
    white = TO_XYZ @ np.ones(3)
    x, y, z = np.cbrt(TO_XYZ @ linear / white)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_the_seven_cases_of_the_papers_stand_in_their_order() -> None:
    assert list(CASES) == [
        "TCPF+FRIO",
        "TCPF+RIO",
        "TCPF(O)+RIO",
        "TB+RIO",
        "NoMark+FRED",
        "NoMark+TailDrop",
        "NoMark+RED",
    ]


def test_cases_get_lighter_by_clear_steps_so_that_greyscale_tells_them_apart() -> None:
    greys = [lightness(style.colour) for style in CASES.values()]
    assert min(light - dark for dark, light in pairwise(greys)) >= 8


def test_neighbours_differ_in_hatch_and_all_in_marker() -> None:
    styles = list(CASES.values())
    assert all(one.hatch != other.hatch for one, other in pairwise(styles))
    assert len({style.marker for style in (*styles, *FALLBACK)}) == len(styles) + len(FALLBACK)


@pytest.mark.parametrize("deficiency", [None, *DEFICIENCIES])
def test_cases_stay_apart_for_the_colour_blind(deficiency: str | None) -> None:
    matrix = DEFICIENCIES[deficiency] if deficiency else None
    seen = [lab(style.colour, matrix) for style in CASES.values()]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) >= 10


def test_unknown_cases_get_a_look_by_their_order_and_keep_known_ones() -> None:
    names = ["CoDel", "NoMark+RED", "PIE", *(f"extra{i}" for i in range(5))]
    styles = case_styles(names)
    assert list(styles) == names
    assert styles["NoMark+RED"] == CASES["NoMark+RED"]
    assert (styles["CoDel"].colour, styles["PIE"].colour) == (
        FALLBACK[0].colour,
        FALLBACK[1].colour,
    )
    assert [style.label for style in styles.values()] == names
    assert case_styles(names) == styles


def test_drawing_leaves_the_users_settings_alone() -> None:
    with mpl.rc_context({"font.size": 31, "axes.grid": False}):
        with house_style():
            assert mpl.rcParams["font.size"] == 9
            assert mpl.rcParams["axes.grid"]
        assert mpl.rcParams["font.size"] == 31
        assert not mpl.rcParams["axes.grid"]


# Under which conditions runs were made, in words.

PATH = {"access": "100 Mbit", "bottleneck": "10 Mbit", "delay": "200 ms"}


@pytest.mark.parametrize(
    "topology", [Chain(**PATH), Dumbbell(**PATH, pairs=1), Dumbbell(**PATH, pairs=30)]
)
def test_the_delay_is_that_of_one_path_however_many_there_are(topology: Chain) -> None:
    assert set(path_delays(topology.graph())) == {0.2}


def test_cross_traffic_has_a_delay_of_its_own() -> None:
    numbers = {"bottlenecks": 2, "cross_flows": 3, "cross_delay": "50 ms"}
    lot = Topology.model_validate({"parking_lot": {**PATH, **numbers}})
    assert path_delays(lot.graph()) == (0.2, 0.05, 0.05)


def test_of_unequal_delays_the_least_and_the_greatest_are_told() -> None:
    pairs = Dumbbell.model_validate({**PATH, "delay": "12 ms..26 ms", "pairs": 8})
    assert path_delays(pairs.graph()) == tuple(pytest.approx(0.012 + 0.002 * k) for k in range(8))
    smoke = load(shipped.directory("experiments") / "smoke.yaml")
    words = "topology={dumbbell: {access: 1 Gbit, bottleneck: 1 Mbit, delay: 1 ms..3 ms, pairs: 2}}"
    said = conditions([apply_overrides(smoke, [words])]).replace("\u00a0", " ")
    assert "1 Mbit/s, 1 ms to 3 ms, sysctl-2.2" in said


def test_of_what_changes_the_lowest_and_the_highest_are_told() -> None:
    smoke = load(shipped.directory("experiments") / "smoke.yaml")
    chain = "topology={chain: {access: 1 Gbit, delay: {0 s: 10 ms, 3 s: 50 ms}, bottleneck: %s}}"
    words = [
        conditions([apply_overrides(smoke, [chain % rate])]).replace("\u00a0", " ")
        for rate in ("{0 s: 20 Mbit, 2 s: 0 bit, 3 s: 1 Mbit}", "{trace: cellular.trace}")
    ]
    assert "0 to 20 Mbit/s, 10 ms to 50 ms," in words[0]
    assert "cellular.trace (mean 4.43 Mbit/s)," in words[1]


@pytest.mark.parametrize("kind", [Chain, Dumbbell])
def test_what_impairments_hold_back_is_part_of_the_delay(kind: type[Chain]) -> None:
    held = {"forward": {"delay": "30 ms", "jitter": "5 ms"}, "reverse": {"delay": "20 ms"}}
    pairs = {"pairs": 3} if kind is Dumbbell else {}
    assert path_delays(kind(**PATH, **held, **pairs).graph())[-1] == pytest.approx(0.25)
    assert path_delays(kind(**PATH, reverse={"loss": 0.1}, **pairs).graph())[-1] == 0.2


def test_a_path_that_loses_packets_besides_is_told_apart_from_one_that_does_not() -> None:
    plain = load(shipped.directory("experiments") / "smoke.yaml")
    impaired = apply_overrides(plain, ["topology.chain.reverse={loss: 0.02}"])
    said = conditions([plain]).replace("\u00a0", " ")
    assert said == "5 s after 2 s of warm-up, 10 Mbit/s, 200 ms, sysctl-2.2 SACK"
    assert conditions([impaired]).replace("\u00a0", " ") == said + " over an impaired path"
    both = conditions([plain, impaired]).replace("\u00a0", " ")
    assert both == f"{said} or sysctl-2.2 SACK over an impaired path"


# Numbers as they are printed.


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

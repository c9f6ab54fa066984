from __future__ import annotations

from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pytest

from tcpf_lab.report.style import (
    CASES,
    FALLBACK,
    case_styles,
    house_style,
    lightness,
)

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

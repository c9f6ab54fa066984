from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tcpf_lab.spec.queue import KINDS, Bfifo, Red

GOOD = {
    "kind": "red",
    "limit": "500 kB",
    "min": "10 kB",
    "max": "200 kB",
    "probability": 0.25,
}


def red(**changes: Any) -> Red:
    return Red.model_validate({**GOOD, **changes})


def test_red_is_handed_to_tc_in_bytes_with_burst_and_bandwidth() -> None:
    assert " ".join(red().tc(10_000_000)) == (
        "red limit 500000 min 10000 max 200000 avpkt 1000 "
        "burst 73 probability 0.25 bandwidth 10000000bit"
    )


def test_red_shows_limit_and_thresholds() -> None:
    sizes = {"limit": 500_000, "min": 10_000, "max": 200_000}
    assert red().shown() == {**sizes, "ewma": 9, "probability": 0.25}


def test_bfifo_is_handed_to_tc_in_bytes() -> None:
    queue = Bfifo.model_validate({"kind": "bfifo", "limit": "200 kB"})
    assert queue.tc(10_000_000) == ("bfifo", "limit", "200000")
    assert queue.shown() == {"limit": 200_000}


@pytest.mark.parametrize("top", ["200 kB", "30 kB"])
def test_the_default_burst_weighs_the_average_alike_in_every_configuration(top: str) -> None:
    assert red(max=top).wlog == 9


@pytest.mark.parametrize(
    ("changes", "wlog"),
    [
        ({"min": "50 kB", "max": "490 kB", "burst": 196}, 9),  # RIO's in-profile thresholds
        (
            {"max": "30 kB", "burst": 16},
            3,
        ),  # what tc would choose by itself: (2 min + max) / 3 avpkt
    ],
)
def test_the_weight_is_worked_out_as_tc_does(changes: dict[str, Any], wlog: int) -> None:
    assert red(**changes).wlog == wlog


def test_a_probability_of_one_is_not_handed_over_as_one_which_wraps_to_zero() -> None:
    words = red(probability=1).tc(10_000_000)
    handed = float(words[words.index("probability") + 1])
    assert 2**32 - 1 <= handed * 2**32 < 2**32


@pytest.mark.parametrize("probability", [1e-5, 0.005, 0.5])
def test_a_probability_is_handed_over_exactly_and_without_exponent(probability: float) -> None:
    words = red(probability=probability, max="11 kB").tc(10_000_000)
    word = words[words.index("probability") + 1]
    assert float(word) == probability
    assert "e" not in word


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min": "200 kB", "burst": 300}, "must be less than max"),
        ({"max": "501 kB"}, "must not be more than limit"),
        ({"probability": 0}, "must be more than 0"),
        ({"probability": 1e-7}, "too small for tc"),
        ({"burst": 9}, "must be at least 10"),
        ({"min": "1 kB"}, "must be more than avpkt"),
        ({"limit": "9 MB", "max": "5 MB"}, "too large for the kernel's fixed-point average"),
    ],
)
def test_what_tc_or_the_kernel_would_refuse_is_refused_first(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        red(**changes)


def test_every_kind_is_registered_under_its_own_name() -> None:
    for kind, model in KINDS.items():
        assert model.model_fields["kind"].annotation.__args__ == (kind,)
        assert model.__module__ == f"tcpf_lab.spec.queue.{kind}"

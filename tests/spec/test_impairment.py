from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tcpf_lab.spec.graph import Impairment


def impairment(**keys: Any) -> Impairment:
    return Impairment.model_validate(keys)


def test_every_key_becomes_words_of_netem() -> None:
    everything = impairment(
        loss=0.01, duplicate=0.005, reorder=0.02, delay="5 ms", jitter="1 ms"
    ).tc()
    assert " ".join(everything) == ("delay 5000us 1000us loss random 1% duplicate 0.5% reorder 2%")
    assert impairment(loss=0.0001).tc() == ("loss", "random", "0.01%")
    assert impairment(delay="5 ms").tc() == ("delay", "5000us")


def test_what_tc_must_show_is_what_was_asked_for() -> None:
    shown = impairment(loss=0.25, reorder=0.02, delay="5 ms").shown()
    assert shown == {
        "delay": {"delay": 0.005, "jitter": 0.0},
        "loss-random": {"loss": 0.25},
        "reorder": {"reorder": 0.02},
    }


@pytest.mark.parametrize(("loss", "burst"), [(0.01, 3.0), (0.25, 2.0), (0.5, 1.5)])
def test_losses_in_bursts_have_the_share_and_the_length_asked_for(
    loss: float, burst: float
) -> None:
    """Of a chain with two states the bad one holds p / (p + r) of the time, 1 / r at a time."""
    shown = impairment(loss=loss, loss_burst=burst).shown()["loss-gemodel"]
    assert shown["p"] / (shown["p"] + shown["r"]) == pytest.approx(loss)
    assert 1 / shown["r"] == pytest.approx(burst)
    words = impairment(loss=loss, loss_burst=burst).tc()
    assert words[:2] == ("loss", "gemodel")
    assert [float(word.rstrip("%")) / 100 for word in words[2:]] == [
        pytest.approx(shown["p"], abs=1e-9),
        pytest.approx(shown["r"], abs=1e-9),
    ]


def test_the_longest_time_that_a_packet_is_held_back_includes_jitter() -> None:
    assert impairment(delay="5 ms", jitter="2 ms").longest == pytest.approx(0.007)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "impairs nothing"),
        ({"loss_burst": 3}, "impairs nothing"),
        ({"duplicate": 1.5}, "not a probability"),
        ({"loss": 0.1, "loss_burst": 0.5}, "greater than or equal to 1"),
        ({"delay": "2 min"}, "must be at most 100 s"),
    ],
)
def test_nonsense_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        impairment(**keys)

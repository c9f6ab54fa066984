from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tcpf_lab.spec.marker import KINDS, Marker, NoMarker
from tcpf_lab.spec.words import format_dscp, parse_dscp


def marker(kind: str, **changes: Any) -> Marker:
    given = {"kind": kind, "interval": "400 ms", "tokens": "296 kB", **changes}
    return KINDS[kind].model_validate(given)


def test_the_tcp_friendly_marker_is_handed_to_tc_with_every_default() -> None:
    assert " ".join(marker("tcpf").tc()) == (
        "tcpf interval 400000us tokens 296000 in 10 out 12 flows 65536 "
        "profile recommended retransmits protect"
    )


def test_the_older_marker_is_the_one_that_does_not_protect_retransmissions() -> None:
    words = marker("tcpf", retransmits="plain", profile="paper").tc()
    assert words[-4:] == ("profile", "paper", "retransmits", "plain")


def test_the_token_bucket_is_handed_to_tc_with_every_default() -> None:
    assert " ".join(marker("token", interval="1.5 ms").tc()) == (
        "token interval 1500us tokens 296000 in 10 out 12 flows 65536 mode reset"
    )


def test_a_marker_shows_its_words_with_the_interval_in_microseconds() -> None:
    shown = marker("token", mode="flow", **{"in": "CS1", "out": 0}).shown()
    assert shown == {
        "interval": 400_000,
        "tokens": 296_000,
        "in": 8,
        "out": 0,
        "flows": 65536,
        "mode": "flow",
    }


def test_no_marker_has_neither_words_nor_modules() -> None:
    none = NoMarker.model_validate({"kind": "none"})
    assert (none.tc(), none.shown(), none.modules) == ((), {}, ())


@pytest.mark.parametrize("interval", ["0 s", "999 us", "4.001 s"])
def test_an_interval_that_the_kernel_cannot_keep_is_refused(interval: str) -> None:
    with pytest.raises(ValidationError, match="must be from 1 ms to 4 s"):
        marker("token", interval=interval)


@pytest.mark.parametrize(
    ("written", "number"), [("AF11", 10), ("af43", 38), ("CS0", 0), ("ef", 46), (63, 63), (0, 0)]
)
def test_a_code_point_is_a_name_in_any_case_or_a_number(written: str | int, number: int) -> None:
    assert parse_dscp(written) == number
    assert parse_dscp(format_dscp(number)) == number


@pytest.mark.parametrize("wrong", [64, -1, True, 10.0, "AF10", "10", "", None])
def test_what_is_no_code_point_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 63"):
        parse_dscp(wrong)

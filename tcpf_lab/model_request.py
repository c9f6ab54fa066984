"""What was asked of a model, read from words: those of the experiment files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcpf_lab.errors import RequestError
from tcpf_lab.models.rio_scenario import Scenario, spread
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.units import (
    UnitError,
    parse_duration,
    parse_probability,
    parse_rate,
    parse_size,
)

#: Names of the scenarios of Tables 1 to 3 of RR-4469; the first is the usual one.
SCENARIOS = ("fully_overlapped", "non_overlapped", "partially_overlapped")
#: The words of a scenario, with the values of the report's section 4.
DEFAULTS: Mapping[str, str] = {
    "flows": "100",
    "delay": "100 ms..298 ms",
    "bottleneck": "48 Mbit",
    "packet": "1000 B",
    "tokens": "20 kB",
    "interval": "500 ms",
    "in_min": "20 kB",
    "in_max": "100 kB",
    "in_probability": "0.01",
    "out_min": "20 kB",
    "out_max": "100 kB",
    "out_probability": "0.06",
    "rto_min": "1 s",
    "extra_rtt": "0 s",
}
_THRESHOLDS: Mapping[str, Mapping[str, str]] = {
    "fully_overlapped": {},
    "non_overlapped": {"in_min": "60 kB", "out_max": "60 kB"},
    "partially_overlapped": {"in_min": "60 kB"},
}
_MOST_FLOWS = 100_000
_PACKETS = ("packets", "packet", "pkt")


def scenario_of(words: Sequence[str], base: str = SCENARIOS[0]) -> Scenario:
    """Read a scenario.

    Parameters
    ----------
    words : sequence of str
        ``KEY=VALUE``, keys and values as experiment files have them: a rate, sizes, times,
        probabilities. A threshold and ``tokens`` may also be in packets, ``20 packets``.
    base : str
        The scenario that has all other values, of ``SCENARIOS``.

    Returns
    -------
    Scenario
        In packets and seconds.

    Raises
    ------
    RequestError
        If a key or value is wrong.
    """
    if base not in SCENARIOS:
        message = unknown("no such scenario", base, SCENARIOS)
        raise RequestError(message, where=f"--scenario {base}")
    given = {**DEFAULTS, **_THRESHOLDS[base], **_pairs(words)}
    packet = _read(given, "packet", parse_size)

    def packets(key: str) -> float:
        number, _, unit = given[key].strip().partition(" ")
        if unit.strip() in _PACKETS and number.isdecimal():
            return float(number)
        return float(_read(given, key, parse_size) / packet) if number != "0" else 0.0

    thresholds = {key: packets(key) for key in ("in_min", "in_max", "out_min", "out_max")}
    interval = _read(given, "interval", parse_duration)
    if interval <= 0:
        raise RequestError("it must be longer than 0 s", where="interval")
    bucket = packets("tokens")
    return Scenario(
        delay=_delays(given),
        capacity=_read(given, "bottleneck", parse_rate) / (8 * packet),
        token_rate=bucket / interval,
        bucket=bucket,
        **_whole(thresholds),
        in_probability=_read(given, "in_probability", parse_probability),
        out_probability=_read(given, "out_probability", parse_probability),
        rto_margin=_read(given, "rto_min", parse_duration),
        extra_rtt=_read(given, "extra_rtt", parse_duration),
    )


def target_of(text: str) -> tuple[str, float]:
    """Read ``p_in=0.006``: a quantity and its limit.

    Raises
    ------
    RequestError
        If it is not of that form.
    """
    name, equals, value = text.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = -1.0
    if not equals or not limit >= 0:
        raise RequestError(
            "not a quantity and its limit", where=f"--target {text}", hint="write p_in=0.006"
        )
    return name.strip(), limit


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise RequestError("not KEY=VALUE", where=word, hint="write out_probability=0.1")
        if key not in DEFAULTS:
            raise RequestError(unknown(f"unknown key '{key}'", key, DEFAULTS), where=word)
        pairs[key] = value
    return pairs


def _read(given: Mapping[str, str], key: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(given[key].strip())
    except UnitError as error:
        what, _, advice = error.message.partition("; ")
        raise RequestError(what, where=f"{key}={given[key]}", hint=advice) from None


def _whole(thresholds: Mapping[str, float]) -> dict[str, Any]:
    """Thresholds in whole packets."""
    for key, value in thresholds.items():
        if value != int(value):
            raise RequestError(
                f"{value:g} packets: the model counts the queue in whole packets",
                where=key,
                hint="choose a multiple of packet",
            )
    return {key: int(value) for key, value in thresholds.items()}


def _delays(given: Mapping[str, str]) -> tuple[float, ...]:
    """Read one delay for all flows, or two for the ends of a range, spread evenly."""
    text = given["flows"].strip()
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_FLOWS:
        message = f"write a whole number from 1 to {_MOST_FLOWS}"
        raise RequestError(message, where=f"flows={text}")
    first, dots, last = given["delay"].partition("..")
    ends = [_read({"delay": end}, "delay", parse_duration) for end in (first, last) if end.strip()]
    if not ends or (dots and len(ends) != 2):
        raise RequestError(
            "not a delay", where=f"delay={given['delay']}", hint="write 100 ms, or 100 ms..298 ms"
        )
    return spread(ends[0], ends[-1], int(text))

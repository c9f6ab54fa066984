"""Schedules and traces: what files say, and what cannot be read."""

from __future__ import annotations

import pytest

from tcpf_lab.base.shipped import directory
from tcpf_lab.base.units import UnitError
from tcpf_lab.spec.changing import Schedule, Trace, opportunities, parse_link_rate
from tcpf_lab.spec.graph import Impairment
from tcpf_lab.spec.load import dump, load
from tcpf_lab.spec.topology import Chain

FILE = """
name: changing
topology:
  chain:
    access: 100 Mbit
    bottleneck: {bottleneck}
    delay: {{0 s: 20 ms, 3 s: 80 ms}}
    forward: {{loss: {{0 s: 0, 2.5 s: 0.1}}, delay: 5 ms, jitter: 2 ms, in_order: true}}
tcp: {{profile: modern}}
cases: {{FIFO: {{queue: {{kind: bfifo, limit: 100 kB}}}}}}
matrix: {{flows: 1, seed: 1}}
"""


@pytest.mark.parametrize(
    "bottleneck",
    ["{0 s: 20 Mbit, 10 s: 0 bit, 11 s: 1 Mbit}", '"0 s: 20mbit,10s:0 kbit, 11s: 1Mbit"'],
)
def test_a_schedule_is_a_mapping_or_its_text(bottleneck, tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(FILE.format(bottleneck=bottleneck))
    experiment = load(path)
    chain = experiment.topology.chain
    assert chain.bottleneck == Schedule(((0.0, 20_000_000), (10.0, 0), (11.0, 1_000_000)))
    assert chain.delay.at(2.999) == 0.02
    assert chain.delay.at(3) == 0.08
    assert chain.forward.changes == (2.5,)
    assert chain.forward.at(2.5).loss == 0.1
    again = tmp_path / "again.yaml"
    again.write_text(dump(experiment))
    assert load(again) == experiment


def test_a_trace_is_written_with_its_opportunities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.trace").write_text("0\n1\n1\n5\n")
    path = tmp_path / "one.yaml"
    path.write_text(FILE.format(bottleneck="{trace: link.trace}"))
    experiment = load(path)
    # The last millisecond is the first of the next round.
    assert experiment.topology.chain.bottleneck == Trace("link.trace", "22000")
    assert experiment.graph.bottleneck.rate == round(4 * 1514 * 8 / 0.005)
    (tmp_path / "link.trace").unlink()
    path.write_text(dump(experiment))
    assert load(path) == experiment


def test_the_trace_that_comes_with_it_is_found_by_its_name():
    trace = parse_link_rate("trace: cellular.trace")
    lines = (directory("experiments") / "traces" / "cellular.trace").read_text().split()
    assert sum(opportunities(trace.digits)) == len(lines)
    assert len(trace.digits) == int(lines[-1])


def test_digits_are_of_base_36():
    assert opportunities("09az") == [0, 9, 10, 35]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("1\n2\n1\n", "line 3: 1 ms follows 2 ms"),
        ("1\n-2\n", "line 2: '-2'"),
        ("1\n\n2\n", "line 2: ''"),
        ("1.5\n", "line 1"),
        ("", "no opportunity"),
        ("0\n", "no opportunity"),
        ("5\n" * 36, "at most 35"),
        ("0\n" * 20 + "5\n" * 20, "at most 35"),
        ("9999999\n", "3600000"),
    ],
)
def test_a_malformed_trace_is_refused_with_its_line(content, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.trace").write_text(content)
    with pytest.raises(UnitError, match=problem):
        parse_link_rate({"trace": "bad.trace"})


@pytest.mark.parametrize(
    "value",
    [
        *({}, {"0 s": "1 Mbit", "1 s": "fast"}, {"trace": "x", "rate": "1 Mbit"}, "0 s 1 Mbit:"),
        *({"trace": "/nowhere/cellular.trace"}, {"trace": "x" * 300}, {"trace": ["a"]}),
        {"trace": "x", "opportunities": 64},
    ],
)
def test_what_is_no_schedule_is_refused(value):
    with pytest.raises(UnitError):
        parse_link_rate(value)


def test_each_instant_of_an_impairment_is_held_to_the_rules():
    with pytest.raises(ValueError, match="jitter"):
        Impairment(delay={"0 s": "5 ms", "1 s": "1 ms"}, jitter="2 ms")
    with pytest.raises(ValueError, match="less than 1"):
        Impairment(loss={"0 s": 0, "1 s": 1})


def test_a_half_duplex_link_does_not_change():
    with pytest.raises(ValueError, match="half-duplex"):
        Chain(
            access="10 Mbit",
            bottleneck={"0 s": "10 Mbit", "1 s": "0 bit"},
            delay="10 ms",
            duplex="half",
        )

"""The paper, sections 6.2.1: SACK with good RED parameters."""

from __future__ import annotations

import numpy as np

from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Check, Claim, Look, Source
from tcpf_lab.report.compare.bootstrap import Array, CellKey
from tcpf_lab.report.style import DRAWN


def _hundred(scheme: str, other: str) -> t.Pair:
    return CellKey("A", 100, scheme), CellKey("A", 100, other)


def _same_order(metric: str, scheme: str, other: str) -> Check:
    """Gains with 100 and with 50 flows within half an order of magnitude."""

    def quantity(look: Look) -> Array:
        hundred, fifty = (
            t.gain_of(look, (CellKey("A", flows, scheme), CellKey("A", flows, other)), metric)
            for flows in (100, 50)
        )
        return np.asarray(np.log10(hundred / fifty))

    label = f"A: {t.NAMES[metric]}, log10 of gain at 100 / at 50, {scheme} over {other}"
    return Check(label, quantity, -0.5, 0.5)


def percent_over(
    other: str, metric: str, configs: tuple[str, ...], low: float, high: float
) -> tuple[Check, ...]:
    """Ask by how many percent the new marker's cells exceed those of another case."""
    pairs = t.matchups(configs, t.NEW, [other])
    return tuple(t.change(metric, pair, low, high) for pair in pairs)


_GAINS = (
    t.all_metrics(
        Source("paper", "6.2.1", "The new marker improves every metric significantly."),
        "A",
        t.OTHERS,
    ),
    Claim(
        "paper-6.2.1-factor-22",
        t.paper("6.2.1", "From 911 timeouts to 41, a factor of 22."),
        "A, 100 flows: TB+RIO has at least 19.8 times the timeouts of TCPF+FRIO (nine tenths of "
        "what is said).",
        t.gains([t.TIMEOUTS], [_hundred(t.FRIO, t.TB)], t.ABOUT * 22),
    ),
    Claim(
        "paper-6.2.1-eliminated",
        t.paper("6.2.1", "With 50 flows timeouts all but vanish: from 491 to 2."),
        "A, 50 flows: RED has at least 100 times the timeouts of TCPF+FRIO.",
        t.gains([t.TIMEOUTS], [(CellKey("A", 50, t.FRIO), CellKey("A", 50, t.RED))], 100),
    ),
    Claim(
        "paper-6.2.1-loss-30-50",
        t.paper("6.2.1", "Loss falls by 30 to 50 %."),
        "A: TCPF+FRIO and TCPF+RIO lose 30 to 50 % less than RED, taken literally, with 100 and "
        "with 50 flows.",
        percent_over(t.RED, t.LOSS, ("A",), -50, -30),
    ),
    Claim(
        "paper-6.2.1-loss-30-50-token-bucket",
        t.paper("6.2.1", "Loss falls by 30 to 50 % (baseline not named)."),
        "A: TCPF+FRIO and TCPF+RIO lose 30 to 50 % less than TB+RIO, taken literally, with 100 and "
        "with 50 flows.",
        percent_over(t.TB, t.LOSS, ("A",), -50, -30),
    ),
    Claim(
        "paper-6.2.1-loss-30",
        t.paper("6.2.1", "Loss falls by 30 % or more."),
        "A: TCPF+FRIO and TCPF+RIO lose at least 30 % less than RED, with 100 and with 50 flows.",
        percent_over(t.RED, t.LOSS, ("A",), -100, -30),
    ),
    Claim(
        "paper-6.2.1-loss-example",
        t.paper("6.2.1", "For example, from 9 % to 4 % with 100 flows."),
        "A, 100 flows: TCPF+FRIO loses at least 50 % less than RED (nine tenths of what is said).",
        (t.change(t.LOSS, _hundred(t.FRIO, t.RED), -100, -t.ABOUT * 100 * 5 / 9),),
    ),
    Claim(
        "paper-6.2.1-goodput-higher",
        t.paper("6.2.1", "Goodput is always higher with the new marker."),
        "A: TCPF+FRIO and TCPF+RIO have more goodput than TB+RIO, FRED, tail drop and RED, with "
        "100 and with 50 flows.",
        tuple(t.better(t.GOODPUT, pair) for pair in t.matchups("A", t.NEW, t.OTHERS)),
    ),
    Claim(
        "paper-6.2.1-goodput-10-15",
        t.paper("6.2.1", "Goodput is always higher by about 10 to 15 %."),
        "A: TCPF+FRIO and TCPF+RIO have 10 to 15 % more goodput than RED, taken literally, with "
        "100 and with 50 flows.",
        percent_over(t.RED, t.GOODPUT, ("A",), 10, 15),
    ),
    Claim(
        "paper-6.2.1-goodput-10-15-token-bucket",
        t.paper("6.2.1", "Goodput is always higher by about 10 to 15 % (baseline not named)."),
        "A: TCPF+FRIO and TCPF+RIO have 10 to 15 % more goodput than TB+RIO, taken literally, with "
        "100 and with 50 flows.",
        percent_over(t.TB, t.GOODPUT, ("A",), 10, 15),
    ),
    Claim(
        "paper-6.2.1-goodput-10",
        t.paper("6.2.1", "Goodput is higher by 10 % or more."),
        "A: TCPF+FRIO and TCPF+RIO have at least 10 % more goodput than RED, with 100 and with "
        "50 flows.",
        percent_over(t.RED, t.GOODPUT, ("A",), 10, np.inf),
    ),
    Claim(
        "paper-6.2.1-goodput-example",
        t.paper("6.2.1", "For example, from 9.0 to 11.4 kB/s with 100 flows."),
        "A, 100 flows: TCPF+FRIO has at least 24 % more goodput than RED (nine tenths of what is "
        "said).",
        (t.change(t.GOODPUT, _hundred(t.FRIO, t.RED), t.ABOUT * 100 * (11.4 / 9.0 - 1)),),
    ),
    Claim(
        "paper-6.2.1-cov",
        t.paper("6.2.1", "The CoV is better: 0.06 against 0.38."),
        "A, 100 flows: the CoV of RED is at least 5.7 times that of TCPF+FRIO (nine tenths of "
        "what is said).",
        t.gains([t.COV], [_hundred(t.FRIO, t.RED)], t.ABOUT * 0.38 / 0.06),
    ),
    Claim(
        "paper-6.2.1-scalable",
        t.paper("6.2.1", "In orders of magnitude the gains with 100 and with 50 flows are alike."),
        "A: the gains of TCPF+FRIO and TCPF+RIO over TB+RIO and RED differ by less than half an "
        "order of magnitude between 100 and 50 flows, in all four metrics.",
        tuple(
            _same_order(metric, scheme, other)
            for metric in DRAWN
            for scheme in t.NEW
            for other in t.BASELINES
        ),
    ),
    Claim(
        "paper-6.2.1-rio-alone",
        t.paper("6.2.1", "With RIO alone the gain is substantial: 120 timeouts against 911."),
        "A: TB+RIO, FRED, tail drop and RED have at least 5 times the timeouts of TCPF+RIO, with "
        "100 and with 50 flows.",
        t.gains([t.TIMEOUTS], t.matchups("A", [t.RIO], t.OTHERS), 5),
    ),
)

_ASIDES = (
    Claim(
        "paper-6.2.1-fred-better-than-red",
        t.paper("6.2.1", "FRED performs better than RED: 1030 timeouts against 1322."),
        "A: FRED is better than RED in all four metrics, with 100 and with 50 flows.",
        t.better_everywhere("A", [t.FRED], [t.RED]),
    ),
    Claim(
        "paper-6.2.1-taildrop-fewer-timeouts",
        t.paper("6.2.1", "Tail drop does well against RED: 1140 timeouts against 1322."),
        "A: tail drop has fewer timeouts than RED, with 100 and with 50 flows.",
        tuple(t.better(t.TIMEOUTS, pair) for pair in t.matchups("A", [t.TAIL_DROP], [t.RED])),
    ),
    Claim(
        "paper-6.2.1-taildrop-better-than-red",
        t.paper("6.2.1", "Tail drop does well against RED (rows compared in full)."),
        "A: tail drop is better than RED in loss, goodput and CoV too, with 100 and with 50 flows.",
        tuple(
            t.better(metric, pair)
            for metric in (t.LOSS, t.GOODPUT, t.COV)
            for pair in t.matchups("A", [t.TAIL_DROP], [t.RED])
        ),
    ),
    Claim(
        "paper-6.2.1-token-bucket-marginal",
        t.paper("6.2.1", "The token bucket is a marginal improvement: 911 timeouts against 1140."),
        "A, 100 flows: tail drop has 1 to 1.5 times the timeouts of TB+RIO.",
        t.gains([t.TIMEOUTS], [_hundred(t.TB, t.TAIL_DROP)], 1, 1.5),
    ),
    Claim(
        "paper-6.2.1-token-bucket-marginal-rows",
        t.paper("6.2.1", "The token bucket does little better than the later rows."),
        "A: FRED, tail drop and RED have 1 to 1.5 times the timeouts of TB+RIO, with 100 and with "
        "50 flows.",
        t.gains([t.TIMEOUTS], t.matchups("A", [t.TB], [t.FRED, t.TAIL_DROP, t.RED]), 1, 1.5),
    ),
    Claim(
        "paper-6.2.1-old-marker",
        t.paper("6.2.1", "The old marker improves well on the token bucket: 390 against 911."),
        "A: TB+RIO has at least 2 times the timeouts of TCPF(O)+RIO, with 100 and with 50 flows.",
        t.gains([t.TIMEOUTS], t.matchups("A", [t.OLD], [t.TB]), 2),
    ),
    Claim(
        "paper-6.2.1-protected-retransmissions",
        t.paper("3, shown in 6.2.1", "Protecting retransmissions improves performance by much."),
        "A: TCPF(O)+RIO has at least 2 times the timeouts of TCPF+RIO, with 100 and with 50 flows.",
        t.gains([t.TIMEOUTS], t.matchups("A", [t.RIO], [t.OLD]), 2),
    ),
)

SECTION_6_2_1: tuple[Claim, ...] = (*_GAINS, *_ASIDES)

"""The paper, sections 6.2.2 to 6.2.4 and 7: Reno, mistuned parameters, summary."""

from __future__ import annotations

import numpy as np

from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Check, Claim, Look, Source
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.claims.thesis_reno import immune
from tcpf_lab.report.compare.statistics import Array, CellKey
from tcpf_lab.report.style import CASES, DRAWN


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


def _doubled(section: str, good: str, mistuned: str) -> Claim:
    return Claim(
        f"paper-{section}-timeouts-double",
        t.paper(section, "Mistuning almost doubles every count of timeouts."),
        f"Each of the seven cases has 1.5 to 2.5 times the timeouts in {mistuned} that it has in "
        f"{good}, with 100 and with 50 flows.",
        t.gains([t.TIMEOUTS], t.across(good, mistuned, tuple(CASES)), 1.5, 2.5),
    )


def _overshadowed(section: str, good: str, mistuned: str) -> Claim:
    return Claim(
        f"paper-{section}-gain-overshadows",
        t.paper(section, "The marker's gain overshadows what mistuning costs."),
        f"In {mistuned} the other four have more times the timeouts of TCPF+FRIO (of TCPF+RIO) "
        f"than these have of their own in {good}, with 100 and with 50 flows.",
        tuple(
            _overshadowing(pair, t.moved(pair, good)[0])
            for pair in t.matchups(mistuned, t.NEW, t.OTHERS)
        ),
    )


def _overshadowing(pair: t.Pair, tuned: CellKey) -> Check:
    ours, theirs = pair
    return t.greater(
        f"timeouts {theirs} / {ours} over {ours} / {tuned}",
        lambda look: t.gain_of(look, pair, t.TIMEOUTS),
        lambda look: t.gain_of(look, (tuned, ours), t.TIMEOUTS),
    )


SECTION_6_2_2: tuple[Claim, ...] = (
    t.all_metrics(
        Source("paper", "6.2.2", "Reno sees the same basic benefits."),
        "B",
        t.OTHERS,
    ),
    Claim(
        "paper-6.2.2-orders",
        t.paper("6.2.2", "From 1127 timeouts to 62, and from 610 to 8: orders of magnitude."),
        "B: TCPF+FRIO has a tenth or less of the timeouts of TB+RIO with 100 flows, and of RED "
        "with 50.",
        (
            t.gain(t.TIMEOUTS, (CellKey("B", 100, t.FRIO), CellKey("B", 100, t.TB)), 10),
            t.gain(t.TIMEOUTS, (CellKey("B", 50, t.FRIO), CellKey("B", 50, t.RED)), 10),
        ),
    ),
    Claim(
        "paper-6.2.2-similar-gains",
        t.paper("6.2.2", "The other metrics gain alike."),
        "The gains of TCPF+FRIO over TB+RIO and RED in loss, goodput and CoV, less 1, are in B "
        "within a factor of 2 of those in A, with 100 and with 50 flows.",
        tuple(
            t.excess_growth(metric, pair, t.moved(pair, "B"), 0.5, 2)
            for metric in (t.LOSS, t.GOODPUT, t.COV)
            for pair in t.matchups("A", [t.FRIO], t.BASELINES)
        ),
    ),
    Claim(
        "paper-6.2.2-sack-better",
        t.paper("6.2.2", "In absolute size the metrics of SACK are better than those of Reno."),
        "No case is better in B than in A, in any metric, with 100 or 50 flows (equal printed "
        "values pass).",
        t.gains(DRAWN, t.across("A", "B", tuple(CASES))),
    ),
)

SECTION_6_2_3: tuple[Claim, ...] = (
    _doubled("6.2.3", "A", "C"),
    t.all_metrics(
        Source("paper", "6.2.3", "The benefits are preserved with mistuned parameters."),
        "C",
        t.OTHERS,
    ),
    Claim(
        "paper-6.2.3-rows",
        t.paper("6.2.3", "92 and 152 timeouts with the new marker, 1200 and more without."),
        "C, 100 flows: TB+RIO, FRED, tail drop and RED have at least 11.7 times the timeouts of "
        "TCPF+FRIO and 7.1 times those of TCPF+RIO (nine tenths of what is said).",
        tuple(
            t.gain(
                t.TIMEOUTS,
                (CellKey("C", 100, scheme), CellKey("C", 100, other)),
                t.ABOUT * 1200 / said,
            )
            for scheme, said in ((t.FRIO, 92), (t.RIO, 152))
            for other in t.OTHERS
        ),
    ),
    _overshadowed("6.2.3", "A", "C"),
)

SECTION_6_2_4: tuple[Claim, ...] = (
    t.all_metrics(
        Source("paper", "6.2.4", "What was seen with mistuned parameters holds for Reno too."),
        "D",
        t.OTHERS,
    ),
    _doubled("6.2.4", "B", "D"),
    _overshadowed("6.2.4", "B", "D"),
    Claim(
        "paper-6.2.4-loss-17-20",
        t.paper("6.2.4", "Tail drop and RED lose as much as 17 to 20 % with 100 flows."),
        "D, 100 flows: tail drop loses at least 17 % and RED at least 20 %.",
        (
            t.level(t.LOSS, CellKey("D", 100, t.TAIL_DROP), 17),
            t.level(t.LOSS, CellKey("D", 100, t.RED), 20),
        ),
    ),
)

SECTION_7: tuple[Claim, ...] = (
    Claim(
        "paper-7-two-orders",
        t.paper("7", "Timeouts fall by up to two orders of magnitude."),
        "In at least one of the 8 blocks RED has 100 times the timeouts of TCPF+FRIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.FRIO], [t.RED]), 100),
        every=False,
    ),
    Claim(
        "paper-7-goodput-10-15",
        t.paper("7", "Goodput is consistently larger by 10 to 15 %."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO have 10 to 15 % more goodput than RED, "
        "taken literally.",
        percent_over(t.RED, t.GOODPUT, CONFIGS, 10, 15),
    ),
    Claim(
        "paper-7-goodput-10-15-token-bucket",
        t.paper("7", "Goodput is consistently larger by 10 to 15 % (baseline not named)."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO have 10 to 15 % more goodput than TB+RIO, "
        "taken literally.",
        percent_over(t.TB, t.GOODPUT, CONFIGS, 10, 15),
    ),
    Claim(
        "paper-7-goodput-10",
        t.paper("7", "Goodput is consistently larger by 10 % or more."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO have at least 10 % more goodput than RED.",
        percent_over(t.RED, t.GOODPUT, CONFIGS, 10, np.inf),
    ),
    Claim(
        "paper-7-loss-30-50",
        t.paper("7", "Loss falls by 30 to 50 % across all instances."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO lose 30 to 50 % less than RED, taken "
        "literally.",
        percent_over(t.RED, t.LOSS, CONFIGS, -50, -30),
    ),
    Claim(
        "paper-7-loss-30-50-token-bucket",
        t.paper("7", "Loss falls by 30 to 50 % across all instances (baseline not named)."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO lose 30 to 50 % less than TB+RIO, taken "
        "literally.",
        percent_over(t.TB, t.LOSS, CONFIGS, -50, -30),
    ),
    Claim(
        "paper-7-loss-30",
        t.paper("7", "Loss falls by 30 % or more across all instances."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO lose at least 30 % less than RED.",
        percent_over(t.RED, t.LOSS, CONFIGS, -100, -30),
    ),
    Claim(
        "paper-7-cov",
        t.paper("7", "Service is considerably more predictable."),
        "In each of the 8 blocks the CoV of TB+RIO, FRED, tail drop and RED is at least 1.5 times "
        "that of TCPF+FRIO and of TCPF+RIO.",
        t.gains([t.COV], t.matchups(CONFIGS, t.NEW, t.OTHERS), 1.5),
    ),
    Claim(
        "paper-7-masking",
        t.paper("7", "The marker masks what mistuned RED parameters do."),
        "TCPF+FRIO and TCPF+RIO mistuned are better than TB+RIO, FRED, tail drop and RED well "
        "tuned (C against A, D against B), in all four metrics, with 100 and with 50 flows.",
        immune(t.NEW, t.OTHERS),
    ),
    Claim(
        "paper-7-either-tcp",
        t.paper("7", "The improvements come with Reno and with SACK."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO are better than TB+RIO, FRED, tail drop "
        "and RED in all four metrics.",
        t.better_everywhere(CONFIGS, t.NEW, t.OTHERS),
    ),
    Claim(
        "paper-7-edge-only",
        t.paper("7", "What knows flows and TCP can stay at the edge of the network."),
        "In each of the 8 blocks TB+RIO, FRED, tail drop and RED have at least 5 times the "
        "timeouts of TCPF+RIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.RIO], t.OTHERS), 5),
    ),
)

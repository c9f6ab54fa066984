"""The thesis, sections 4.1 and 4.3: SACK, with good and with mistuned RED parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Check, Claim, Look, Source
from tcpf_lab.report.claims.published import THESIS_CASES
from tcpf_lab.report.compare.statistics import Array, CellKey
from tcpf_lab.report.style import DRAWN

#: "One and a half orders" begins half-way between one order and that.
_ONE_AND_A_HALF_ORDERS = 10**1.25


def _goodput_higher(section: str, config: str) -> Claim:
    pairs = t.matchups(config, t.NEW, t.BASELINES)
    return Claim(
        f"thesis-{section}-goodput-higher",
        t.thesis(section, "Goodput is always higher with the new marker."),
        f"In configuration {config} TCPF+FRIO and TCPF+RIO have more goodput than TB+RIO and RED, "
        "with 100 and with 50 flows.",
        tuple(t.better(t.GOODPUT, pair) for pair in pairs),
    )


def _gap_sizes() -> Iterator[Check]:
    """Gains in timeouts and CoV against gains in loss and goodput, configuration A."""
    for pair in t.matchups("A", [t.FRIO], t.BASELINES):
        for large in (t.TIMEOUTS, t.COV):
            for small in (t.LOSS, t.GOODPUT):
                yield _gap(pair, large, small)


def _gap(pair: t.Pair, large: str, small: str) -> Check:
    ours, theirs = pair
    return t.greater(
        f"A {ours.flows}: gain in {t.NAMES[large]} over gain in {t.NAMES[small]}, "
        f"{ours.case} against {theirs.case}",
        lambda look: t.gain_of(look, pair, large),
        lambda look: t.gain_of(look, pair, small),
    )


def _by_flows(scheme: str, other: str) -> tuple[t.Pair, t.Pair]:
    """The same two cases of configuration A with 50 and with 100 flows."""
    fifty, hundred = (
        (CellKey("A", flows, scheme), CellKey("A", flows, other)) for flows in (50, 100)
    )
    return fifty, hundred


def _per_flow(flows: int, case: str) -> Callable[[Look], Array]:
    return lambda look: look(CellKey("A", flows, case), t.TIMEOUTS) / flows


def _multiplexing(case: str) -> Check:
    label = f"A: timeouts per flow of {case}, 100 flows / 50 flows"
    return t.greater(label, _per_flow(100, case), _per_flow(50, case))


SECTION_4_1: tuple[Claim, ...] = (
    t.all_metrics(
        Source("thesis", "4.1", "The new marker improves every metric significantly with SACK."),
        "A",
        t.BASELINES,
    ),
    Claim(
        "thesis-4.1-two-orders",
        t.thesis("4.1", "From 911 timeouts to 41: almost two orders of magnitude."),
        "A, 100 flows: TB+RIO has at least 10^1.5 = 31.6 times the timeouts of TCPF+FRIO (from "
        "there on two orders are nearer than one).",
        t.gains(
            [t.TIMEOUTS],
            [(CellKey("A", 100, t.FRIO), CellKey("A", 100, t.TB))],
            t.ALMOST_TWO_ORDERS,
        ),
    ),
    Claim(
        "thesis-4.1-sack-has-timeouts",
        (
            *t.thesis("4.1", "Timeouts occur although SACK is meant to avoid them."),
            Source("paper", "6.2.1", "SACK alone does not end timeouts: 1322 with RED."),
        ),
        "A, 100 flows, RED: at least one timeout per flow in the run.",
        (t.level(t.TIMEOUTS, CellKey("A", 100, t.RED), 100),),
    ),
    Claim(
        "thesis-4.1-multiplexing",
        t.thesis("4.1", "SACK is vulnerable to timeouts when many flows share the link."),
        "A: RED and TB+RIO have more timeouts per flow with 100 flows than with 50.",
        tuple(map(_multiplexing, t.BASELINES)),
    ),
    Claim(
        "thesis-4.1-loss-half",
        t.thesis("4.1", "The new marker with FRIO loses half of what the token bucket loses."),
        "A, 100 and 50 flows: the loss of TCPF+FRIO is 0.4 to 0.6 of that of TB+RIO.",
        t.gains([t.LOSS], t.matchups("A", [t.FRIO], [t.TB]), 1 / 0.6, 1 / 0.4),
    ),
    _goodput_higher("4.1", "A"),
    Claim(
        "thesis-4.1-cov-orders",
        t.thesis("4.1", "The new marker with FRIO has a CoV 1.5 orders of magnitude lower."),
        "A, 100 and 50 flows: the CoV of TB+RIO is at least 10^1.25 = 17.8 times that of "
        "TCPF+FRIO (from there on 1.5 orders are nearer than one).",
        t.gains([t.COV], t.matchups("A", [t.FRIO], [t.TB]), _ONE_AND_A_HALF_ORDERS),
    ),
    Claim(
        "thesis-4.1-gap-sizes",
        t.thesis("4.1", "The gaps are enormous in timeouts and CoV, smaller in loss and goodput."),
        "A: the gain of TCPF+FRIO over TB+RIO and over RED is larger in timeouts and in CoV than "
        "in loss and in goodput.",
        tuple(_gap_sizes()),
    ),
    Claim(
        "thesis-4.1-gap-considerable",
        t.thesis("4.1", "In loss and goodput the gaps are considerable all the same."),
        "A: TB+RIO and RED lose at least 1.25 times what TCPF+FRIO loses, and it has at least "
        "1.05 times their goodput.",
        (
            *t.gains([t.LOSS], t.matchups("A", [t.FRIO], t.BASELINES), 1.25),
            *t.gains([t.GOODPUT], t.matchups("A", [t.FRIO], t.BASELINES), 1.05),
        ),
    ),
    Claim(
        "thesis-4.1-scalable-factor",
        t.thesis("4.1", "The enhancement grows with the number of flows (read as a factor)."),
        "A: the gain of TCPF+FRIO over TB+RIO and over RED is larger with 100 flows than with 50, "
        "in all four metrics.",
        tuple(
            t.gain_growth(metric, *_by_flows(t.FRIO, other), low=1, strict=True)
            for metric in DRAWN
            for other in t.BASELINES
        ),
    ),
    Claim(
        "thesis-4.1-scalable-amount",
        t.thesis("4.1", "The enhancement grows with the number of flows (read as an amount)."),
        "A: TCPF+FRIO lies farther below TB+RIO and RED with 100 flows than with 50, in timeouts, "
        "loss and CoV (goodput per flow halves when the flows double, so it is left out).",
        tuple(
            t.amount_growth(metric, *_by_flows(t.FRIO, other))
            for metric in (t.TIMEOUTS, t.LOSS, t.COV)
            for other in t.BASELINES
        ),
    ),
    Claim(
        "thesis-4.1-frio-better-than-rio",
        (
            *t.thesis("4.1", "FRIO enhances the results of the new marker."),
            Source("paper", "6.2.1", "FRIO gives better results than RIO."),
        ),
        "A: TCPF+FRIO is better than TCPF+RIO in all four metrics, with 100 and with 50 flows.",
        t.better_everywhere("A", [t.FRIO], [t.RIO]),
    ),
    Claim(
        "thesis-4.1-rio-alone",
        t.thesis("4.1", "With RIO, without state per flow, the marker improves things greatly."),
        "A, 100 and 50 flows: TB+RIO and RED have at least 5 times the timeouts of TCPF+RIO.",
        t.gains([t.TIMEOUTS], t.matchups("A", [t.RIO], t.BASELINES), 5),
    ),
)


def narrowing(metrics: tuple[str, ...], good: str, mistuned: str) -> tuple[Check, ...]:
    """Ask for FRIO's gain over RIO, less 1, to come nearer to 0 than the well tuned one."""
    return tuple(
        t.excess_growth(metric, pair, t.moved(pair, mistuned), -1, 1, strict=True)
        for metric in metrics
        for pair in t.matchups(good, [t.FRIO], [t.RIO])
    )


def gains_kept(good: str, mistuned: str) -> tuple[Check, ...]:
    """Ask for the gains of the marker with FRIO, less 1, to be half of the well tuned ones."""
    return tuple(
        t.excess_growth(metric, pair, t.moved(pair, mistuned), low=0.5)
        for metric in DRAWN
        for pair in t.matchups(good, [t.FRIO], t.BASELINES)
    )


SECTION_4_3: tuple[Claim, ...] = (
    t.all_metrics(
        Source("thesis", "4.3", "The gaps remain very large with mistuned parameters."),
        "C",
        t.BASELINES,
    ),
    Claim(
        "thesis-4.3-timeouts-percent",
        t.thesis("4.3", "Timeouts are 2000 % larger without marking, 1300 % with a token bucket."),
        "C, 100 flows: RED has at least 1800 % and TB+RIO at least 1170 % more timeouts than "
        "TCPF+FRIO (nine tenths of what is said).",
        tuple(
            t.change(
                t.TIMEOUTS,
                (CellKey("C", 100, other), CellKey("C", 100, t.FRIO)),
                low=t.ABOUT * percent,
            )
            for other, percent in ((t.RED, 2000), (t.TB, 1300))
        ),
    ),
    _goodput_higher("4.3", "C"),
    Claim(
        "thesis-4.3-cov-percent",
        t.thesis("4.3", "The CoV is 600 % larger with best effort."),
        "C, 100 flows: the CoV of RED is at least 540 % larger than that of TCPF+FRIO (nine "
        "tenths of what is said).",
        (
            t.change(
                t.COV, (CellKey("C", 100, t.RED), CellKey("C", 100, t.FRIO)), low=t.ABOUT * 600
            ),
        ),
    ),
    Claim(
        "thesis-4.3-gains-kept",
        t.thesis("4.3", "Mistuning does not affect the improvements significantly."),
        "The gain of TCPF+FRIO over TB+RIO and over RED, less 1, is in C at least half of that in "
        "A, in all four metrics, with 100 and with 50 flows.",
        gains_kept("A", "C"),
    ),
    Claim(
        "thesis-4.3-degradation",
        t.thesis("4.3", "Mistuning degrades performance."),
        "The four cases of the thesis are worse in C than in A, in all four metrics, with 100 and "
        "with 50 flows.",
        tuple(
            t.better(metric, pair) for metric in DRAWN for pair in t.across("A", "C", THESIS_CASES)
        ),
    ),
    Claim(
        "thesis-4.3-gap-narrows-timeouts",
        t.thesis("4.3", "Mistuning closes the gap between the marker with FRIO and with RIO."),
        "The gain of TCPF+FRIO over TCPF+RIO in timeouts is above 1 in A and nearer to 1 in C, "
        "with 100 and with 50 flows.",
        narrowing((t.TIMEOUTS,), "A", "C"),
    ),
    Claim(
        "thesis-4.3-gap-narrows-others",
        t.thesis("4.3", "Mistuning closes that gap in the other metrics too."),
        "The gain of TCPF+FRIO over TCPF+RIO in loss, goodput and CoV is above 1 in A and nearer "
        "to 1 in C, with 100 and with 50 flows.",
        narrowing((t.LOSS, t.GOODPUT, t.COV), "A", "C"),
    ),
)

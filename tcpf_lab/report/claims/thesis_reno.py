"""The thesis, sections 4.2 and 4.4: Reno, with good and with mistuned RED parameters."""

from __future__ import annotations

from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Check, Claim, Source
from tcpf_lab.report.claims.published import CONFIGS, THESIS_CASES
from tcpf_lab.report.claims.thesis_sack import gains_kept, narrowing
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.style import DRAWN

SECTION_4_2: tuple[Claim, ...] = (
    t.all_metrics(
        Source("thesis", "4.2", "The improvements with Reno are consistent with those of SACK."),
        "B",
        t.BASELINES,
    ),
    Claim(
        "thesis-4.2-factor-18",
        t.thesis("4.2", "From 1127 timeouts down to 62 in place of the token bucket."),
        "B, 100 flows: TB+RIO has at least 16.4 times the timeouts of TCPF+FRIO (nine tenths of "
        "1127 / 62).",
        t.gains(
            [t.TIMEOUTS],
            [(CellKey("B", 100, t.FRIO), CellKey("B", 100, t.TB))],
            t.ABOUT * 1127 / 62,
        ),
    ),
    Claim(
        "thesis-4.2-two-orders",
        t.thesis("4.2", "Close to two orders of magnitude against best effort: from 610 to 8."),
        "B, 50 flows: RED has at least 10^1.5 = 31.6 times the timeouts of TCPF+FRIO.",
        t.gains(
            [t.TIMEOUTS],
            [(CellKey("B", 50, t.FRIO), CellKey("B", 50, t.RED))],
            t.ALMOST_TWO_ORDERS,
        ),
    ),
    Claim(
        "thesis-4.2-reno-not-better",
        t.thesis("4.2", "All metrics degrade with Reno compared to SACK."),
        "The four cases of the thesis are not better in B than in A, in any metric, with 100 or "
        "50 flows (equal printed values pass).",
        t.gains(DRAWN, t.across("A", "B", THESIS_CASES)),
    ),
    Claim(
        "thesis-4.2-reno-gain-factor",
        t.thesis("4.2", "The marker improves Reno even more than SACK (read as a factor)."),
        "The gains of TCPF+FRIO and TCPF+RIO over TB+RIO and over RED are larger in B than in A, "
        "in all four metrics, with 100 and with 50 flows.",
        tuple(
            t.gain_growth(metric, pair, t.moved(pair, "B"), low=1, strict=True)
            for metric in DRAWN
            for pair in t.matchups("A", t.NEW, t.BASELINES)
        ),
    ),
    Claim(
        "thesis-4.2-reno-gain-amount",
        t.thesis("4.2", "The marker improves Reno even more than SACK (read as an amount)."),
        "TCPF+FRIO and TCPF+RIO lie farther from TB+RIO and from RED in B than in A, in all four "
        "metrics, with 100 and with 50 flows.",
        tuple(
            t.amount_growth(metric, pair, t.moved(pair, "B"))
            for metric in DRAWN
            for pair in t.matchups("A", t.NEW, t.BASELINES)
        ),
    ),
)

SECTION_4_4: tuple[Claim, ...] = (
    t.all_metrics(
        Source("thesis", "4.4", "Mistuned Reno sees consistent improvements in every metric."),
        "D",
        t.BASELINES,
    ),
    Claim(
        "thesis-4.4-gains-kept",
        t.thesis("4.4", "All ideas of before are supported: mistuning hardly affects the gains."),
        "The gain of TCPF+FRIO over TB+RIO and over RED, less 1, is in D at least half of that in "
        "B, in all four metrics, with 100 and with 50 flows.",
        gains_kept("B", "D"),
    ),
    Claim(
        "thesis-4.4-gap-narrows-timeouts",
        t.thesis("4.4", "All ideas of before are supported: the gap of FRIO and RIO closes."),
        "The gain of TCPF+FRIO over TCPF+RIO in timeouts is above 1 in B and nearer to 1 in D, "
        "with 100 and with 50 flows.",
        narrowing((t.TIMEOUTS,), "B", "D"),
    ),
    Claim(
        "thesis-4.4-reno-not-better",
        t.thesis("4.4", "Performance degrades compared to SACK with the same parameters."),
        "The four cases of the thesis are not better in D than in C, in any metric, with 100 or "
        "50 flows (equal printed values pass).",
        t.gains(DRAWN, t.across("C", "D", THESIS_CASES)),
    ),
    Claim(
        "thesis-4.4-degradation-minor",
        t.thesis("4.4", "What Reno loses against SACK, both mistuned, is minor."),
        "The four cases of the thesis are at most 1.25 times worse in D than in C, in all four "
        "metrics, with 100 and with 50 flows.",
        t.gains(DRAWN, t.across("C", "D", THESIS_CASES), low=0, high=1.25),
    ),
)


def immune(schemes: tuple[str, ...], others: tuple[str, ...]) -> tuple[Check, ...]:
    """Ask for the schemes to be better mistuned than the others well tuned, SACK and Reno."""
    return tuple(
        t.better(metric, (t.moved((ours, theirs), mistuned)[0], theirs))
        for good, mistuned in (("A", "C"), ("B", "D"))
        for metric in DRAWN
        for ours, theirs in t.matchups(good, schemes, others)
    )


SECTION_4_5: tuple[Claim, ...] = (
    Claim(
        "thesis-4.5-two-orders",
        t.thesis("4.5", "Timeouts fall by two orders of magnitude."),
        "In each of the 8 blocks RED has at least 10^1.5 = 31.6 times the timeouts of TCPF+FRIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.FRIO], [t.RED]), t.ALMOST_TWO_ORDERS),
    ),
    Claim(
        "thesis-4.5-goodput",
        t.thesis("4.5", "Consistently more net throughput."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO have more goodput than TB+RIO and RED "
        "(the means over flows: the tables do not show single flows).",
        tuple(t.better(t.GOODPUT, pair) for pair in t.matchups(CONFIGS, t.NEW, t.BASELINES)),
    ),
    Claim(
        "thesis-4.5-loss-halved",
        t.thesis("4.5", "Loss is halved."),
        "In each of the 8 blocks TCPF+FRIO loses at most 0.6 of what TB+RIO and RED lose.",
        t.gains([t.LOSS], t.matchups(CONFIGS, [t.FRIO], t.BASELINES), 1 / 0.6),
    ),
    Claim(
        "thesis-4.5-loss-halved-rio",
        t.thesis("4.5", "Loss is halved across all instances of the implementation."),
        "In each of the 8 blocks TCPF+RIO loses at most 0.6 of what TB+RIO and RED lose.",
        t.gains([t.LOSS], t.matchups(CONFIGS, [t.RIO], t.BASELINES), 1 / 0.6),
    ),
    Claim(
        "thesis-4.5-predictability",
        t.thesis("4.5", "Service is 200 % more predictable."),
        "In each of the 8 blocks the CoV of TB+RIO and of RED is at least 3 times that of "
        "TCPF+FRIO (predictability is 1 / CoV).",
        t.gains([t.COV], t.matchups(CONFIGS, [t.FRIO], t.BASELINES), 3),
    ),
    Claim(
        "thesis-4.5-immune",
        t.thesis("4.5", "The improvements are immune to mistuned parameters."),
        "TCPF+FRIO and TCPF+RIO mistuned are better than TB+RIO and RED well tuned (C against A, "
        "D against B), in all four metrics, with 100 and with 50 flows.",
        immune(t.NEW, t.BASELINES),
    ),
    Claim(
        "thesis-4.5-either-tcp",
        t.thesis("4.5", "The improvements do not depend on the version of TCP."),
        "In each of the 8 blocks TCPF+FRIO and TCPF+RIO are better than TB+RIO and RED in all "
        "four metrics.",
        t.better_everywhere(CONFIGS, t.NEW, t.BASELINES),
    ),
    Claim(
        "thesis-4.5-scalable",
        t.thesis("4.5", "The results scale to any number of flows."),
        "In each of the 8 blocks TB+RIO and RED have at least 10 times the timeouts of TCPF+FRIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.FRIO], t.BASELINES), 10),
    ),
    Claim(
        "thesis-4.5-no-core-state",
        t.thesis("4.5", "The improvements need no classification of flows in the core."),
        "In each of the 8 blocks TB+RIO and RED have at least 5 times the timeouts of TCPF+RIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.RIO], t.BASELINES), 5),
    ),
)

"""The thesis, section 4.5: what its author sums the results up to."""

from __future__ import annotations

from tcpf_lab.reference.published import CONFIGS
from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Check, Claim
from tcpf_lab.report.style import DRAWN


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

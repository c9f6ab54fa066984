"""What the published tables show without a sentence on it: orders of the rows, levels."""

from __future__ import annotations

from tcpf_lab.report.claims import terms as t
from tcpf_lab.report.claims.judge import Claim, Source
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.style import CASES


def _tables(sentence: str) -> tuple[Source, ...]:
    return (Source("tables", "4-7 of the paper", sentence),)


def _more_flows() -> tuple[t.Pair, ...]:
    return tuple(
        (CellKey(config, 50, case), CellKey(config, 100, case))
        for config in CONFIGS
        for case in CASES
    )


TABLES: tuple[Claim, ...] = (
    Claim(
        "tables-timeouts-order",
        _tables("The rows stand in the order of their timeouts."),
        "In each of the 8 blocks every row has more timeouts than the row above it.",
        t.ordered(t.TIMEOUTS, CONFIGS, tuple(CASES)),
    ),
    Claim(
        "tables-loss-order",
        _tables("The rows stand in the order of their loss."),
        "In each of the 8 blocks every row loses more than the row above it.",
        t.ordered(t.LOSS, CONFIGS, tuple(CASES)),
    ),
    Claim(
        "tables-goodput-order",
        _tables("Goodput falls from row to row, but tail drop has less of it than RED."),
        "In each of the 8 blocks: TCPF+FRIO > TCPF+RIO > TCPF(O)+RIO > TB+RIO > FRED > RED > "
        "tail drop.",
        t.ordered(t.GOODPUT, CONFIGS, (t.FRIO, t.RIO, t.OLD, t.TB, t.FRED, t.RED, t.TAIL_DROP)),
    ),
    Claim(
        "tables-cov-lowest",
        _tables("The new marker with FRIO is the fairest of all, then the new marker with RIO."),
        "In each of the 8 blocks TCPF+FRIO has the lowest CoV, and TCPF+RIO the lowest of the "
        "other six.",
        (
            *(t.better(t.COV, pair) for pair in t.matchups(CONFIGS, [t.FRIO], [t.RIO])),
            *(t.better(t.COV, pair) for pair in t.matchups(CONFIGS, [t.RIO], [t.OLD, *t.OTHERS])),
        ),
    ),
    Claim(
        "tables-cov-red-highest",
        _tables("RED is the least fair of all."),
        "In each of the 8 blocks RED has the highest CoV.",
        tuple(
            t.better(t.COV, pair)
            for pair in t.matchups(CONFIGS, [case for case in CASES if case != t.RED], [t.RED])
        ),
    ),
    Claim(
        "tables-cov-below-token-bucket",
        _tables("With 100 flows FRED and tail drop are fairer than the token bucket."),
        "With 100 flows FRED and tail drop have a lower CoV than TB+RIO in each configuration.",
        tuple(
            t.better(t.COV, (CellKey(config, 100, case), CellKey(config, 100, t.TB)))
            for config in CONFIGS
            for case in (t.FRED, t.TAIL_DROP)
        ),
    ),
    Claim(
        "tables-more-flows-worse",
        _tables("100 flows have more timeouts, loss and spread than 50."),
        "In every configuration and case timeouts, loss and CoV are higher at 100 flows than at "
        "50.",
        tuple(
            t.better(metric, pair)
            for metric in (t.TIMEOUTS, t.LOSS, t.COV)
            for pair in _more_flows()
        ),
    ),
    Claim(
        "tables-frio-tenfold",
        _tables("The new marker with FRIO has a tenth of the token bucket's timeouts or fewer."),
        "In each of the 8 blocks TB+RIO has at least 10 times the timeouts of TCPF+FRIO.",
        t.gains([t.TIMEOUTS], t.matchups(CONFIGS, [t.FRIO], [t.TB]), 10),
    ),
    Claim(
        "tables-old-marker-between",
        _tables("The old marker stands between the token bucket and the new marker."),
        "In each of the 8 blocks and every metric TCPF(O)+RIO is better than TB+RIO and worse "
        "than TCPF+RIO.",
        (
            *t.better_everywhere(CONFIGS, [t.OLD], [t.TB]),
            *t.better_everywhere(CONFIGS, [t.RIO], [t.OLD]),
        ),
    ),
)

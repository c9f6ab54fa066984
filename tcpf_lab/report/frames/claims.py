"""The papers' claims and numbers as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from tcpf_lab.reference.published import CONFIGS, FLOWS, published
from tcpf_lab.report.claims.judge import ClaimResult
from tcpf_lab.report.export.frame_columns import CLAIMS, PUBLISHED
from tcpf_lab.report.export.tidy import frame
from tcpf_lab.report.style import CASES, METRICS


def claims_table(claims: Iterable[ClaimResult]) -> pd.DataFrame:
    """Give a row per claim: what it says, and the verdicts on the papers' tables and on ours."""
    rows = [
        {
            "claim": claim.id,
            "source": "; ".join(f"{source.document} {source.section}" for source in claim.sources),
            "statement": claim.statement,
            "published_verdict": str(claim.published.verdict),
            "verdict": str(claim.ours.verdict),
            "holding": claim.ours.holding,
            "measured": claim.ours.measured,
            "checks": claim.ours.checks,
        }
        for claim in claims
    ]
    return frame(CLAIMS, rows)


def published_table(configs: Iterable[str] = CONFIGS) -> pd.DataFrame:
    """Give a row per published cell and metric of some configurations."""
    return frame(PUBLISHED, list(_published(set(configs))))


def _published(configs: set[str]) -> Iterator[dict[str, Any]]:
    for config in CONFIGS:
        for flows in FLOWS if config in configs else ():
            for case in CASES:
                for metric, value in (published(config, case, flows) or {}).items():
                    own = {"config": config, "case": case, "flows": flows, "metric": metric}
                    yield {**own, "unit": METRICS[metric].unit, "value": value}

"""The verdict of each claim, from numbers that are kept: no guest runs.

Chapter 4's are judged on the numbers of its 560 runs. Of the papers' pages the numbers of the runs
are not kept, only what each check came to: from that its verdict and its claim's follow. That the
numbers are what the runs give, and the thresholds those of the pages, ``test_oracle_runs.py``
tells.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from door import EXPECTED, REFERENCE, Hold, write_run

import tcpf_lab
from tcpf_lab.report.claims.judge import Bounded, Verdict, judgement_on, verdict_on  # not public

pytestmark = pytest.mark.oracle

RUNS = EXPECTED / "chapter4-runs.csv"
#: That of the lost testbed is in ``test_oracle_calibration.py``.
PAGES = sorted(set(REFERENCE.glob("*/*-claims.csv")) - set(REFERENCE.glob("lost_testbed/*")))
assert PAGES, f"no page with claims in {REFERENCE}"
#: Claims of which one check is enough; of all others every one must hold.
ONE_IS_ENOUGH = {"ef-5-factor-equal", "ef-5-factor-unequal"}
#: Claims that a network at a tenth of the scale does not decide, whatever its numbers.
UNDECIDABLE = {
    "buffers_tenth": {
        *("buffers-2-knee", "buffers-3-plateau", "buffers-4-steep", "buffers-4-flat"),
        *("buffers-4-alike", "buffers-4-more"),
    }
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_chapter_4(hold: Hold, tmp_path: Path) -> None:
    for row in rows(RUNS):
        about = {
            "config": row["config"],
            "case": row["case"],
            "flows": int(row["flows"]),
            "seed": int(row["seed"]),
        }
        metrics = {key: float(row[key]) for key in row if key not in (*about, "run", "experiment")}
        write_run(tmp_path / row["experiment"] / "uml" / row["run"], about, metrics)
    claims = tcpf_lab.load(tmp_path).claims
    columns = ["claim", "published_verdict", "verdict", "holding", "checks"]
    found = {row[0]: row[1:] for row in claims[columns].to_numpy().tolist()}
    hold("claims.json", found)


class Range(Bounded):
    """The range that a row of a page asks for."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.strict = low, high, False


@pytest.mark.parametrize("path", PAGES, ids=[path.parent.name for path in PAGES])
def test_page(path: Path) -> None:
    claims: dict[str, list[dict[str, str]]] = {}
    for row in rows(path):
        if row["claim"] not in UNDECIDABLE.get(path.parent.name, ()):
            claims.setdefault(row["claim"], []).append(row)
    for name, checks in claims.items():
        assert judged(name, checks) == [verdicts(row) for row in checks], name


def verdicts(row: dict[str, str]) -> tuple[str, str]:
    """Give the verdict on the claim, and on this check of it."""
    return plain(row["verdict"]), plain(row["check_verdict"])


def plain(verdict: str) -> str:
    return verdict.removesuffix(", one run")


def judged(name: str, checks: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Judge the numbers of a claim as the page did: each check, then all of them."""
    found = [verdict(row) for row in checks]
    whole = judgement_on(found, name not in ONE_IS_ENOUGH).verdict
    return [(str(whole), str(one)) for one in found]


def verdict(row: dict[str, str]) -> Verdict:
    if not row["mean"]:
        return Verdict.OPEN
    mean, half = float(row["mean"]), row["half_width_95"]
    spread = (mean - float(half), mean + float(half)) if half else None
    return verdict_on(Range(float(row["low"]), float(row["high"])), mean, spread)

"""The files of words: every sentence is judged, and says the numbers that the code judges by."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest
from run_tree import member

import tcpf_lab
from tcpf_lab.papers.ef import claims as ef
from tcpf_lab.papers.ef import study
from tcpf_lab.papers.index import DOCUMENT, REFERENCE, document, main
from tcpf_lab.papers.registry import pages_of
from tcpf_lab.papers.stored import as_text
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.claims.judge import Source, bounds_of
from tcpf_lab.report.claims.page import Claims, Page, Text
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim
from tcpf_lab.spec.load import dump, load

PAPERS = Path(tcpf_lab.__file__).parent / "papers"
EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def statements(name: str) -> dict[str, str]:
    data = tomllib.loads((PAPERS / name).read_text(encoding="utf-8"))
    return {row["id"]: row["statement"] for row in data["claim"]}


@pytest.mark.parametrize(
    ("name", "experiments"),
    [
        ("ef/claims.toml", ["ef_single", "ef_fairness"]),
        ("buffers.toml", ["buffers_full"]),
        ("rio/claims.toml", ["rio_overlap"]),
        ("tcpf.toml", ["parking_lot", "short_flows"]),
        ("coexistence.toml", ["coexistence"]),
        ("latency.toml", ["latency_under_load"]),
    ],
)
def test_pages_judge_every_sentence_of_a_file_in_its_words(
    tmp_path: Path, name: str, experiments: list[str]
) -> None:
    every = [load(EXPERIMENTS / f"{one}.yaml") for one in experiments]
    members = [member(tmp_path, dump(one), lambda _: None) for one in every]
    found = {c.id: c.statement for page in pages_of(members, "x") for c in page.claims}
    known = statements(name)
    # Those of Reno need both of its readings: test_reno.py has them.
    assert found == {one: said for one, said in known.items() if not one.startswith("reno-")}


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("ef/claims.toml", "ef-short-scales", f"up to {ef.SHORT:g} ms is above that from"),
        ("ef/claims.toml", "ef-short-scales", f"from {ef.LONG:g} ms"),
        ("ef/claims.toml", "ef-conclusion-3", "32, 64, 128 flows"),
        ("ef/claims.toml", "ef-conclusion-4", f"bursts of {study.ON_MS:g} ms"),
        ("ef/claims.toml", "ef-conclusion-4", f"up to {ef.SMALL:g} ms"),
        ("ef/claims.toml", "ef-conclusion-4", f"from {ef.BIG:g} ms on"),
        ("ef/claims.toml", "ef-6-near", f"{study.MANY} flows within {study.CLOSE}"),
        ("ef/claims.toml", "ef-7a-falls", f"{ef.FLOWS[0]} flows is above M with {ef.FLOWS[-1]}"),
        ("ef/claims.toml", "ef-10", f"off by at least {100 * ef.OFF:g} %"),
    ],
)
def test_a_statement_has_the_number_that_it_is_judged_by(name: str, claim: str, said: str) -> None:
    assert said in statements(name)[claim]


# The claims of stored pages as a document.

SOURCES = Path(tcpf_lab.__file__).parent.parent


def store(root: Path, experiment: str, holding: int, name: str = "ef") -> None:
    """Store a page on which so many claims hold."""
    check = PaperCheck("loss", Measured((1.0, 1.0, 1.0)))
    claims = tuple(
        PaperClaim(f"{name}-{n}", (Source("TR2001-1", "1", "It is so."),), "", (check,))
        for n in range(holding)
    )
    page = Page(name, f"Page {name}", (Claims(claims), Text("Rest")))
    path = root / experiment / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(page))


def test_the_document_has_the_claims_of_every_page_and_of_the_published_tables(
    tmp_path: Path,
) -> None:
    store(tmp_path, "ef", 3)
    store(tmp_path, "full", 1, "buffers")
    store(tmp_path, "tenth", 2, "buffers")
    text = document(tmp_path)
    titles = [line for line in text.splitlines() if line.startswith("## Page")]
    assert titles == ["## Page ef: `ef`", "## Page buffers: `full`", "## Page buffers: `tenth`"]
    assert "Of 3 claims: 3 hold." in text
    assert "Rest" not in text
    assert sum(f"| `{claim.id}` |" in text for claim in CLAIMS) == len(CLAIMS)


def test_equal_claims_of_two_experiments_stand_once(tmp_path: Path) -> None:
    store(tmp_path, "one", 2, "rio")
    store(tmp_path, "two", 2, "rio")
    assert "## Page rio: `one` and `two`" in document(tmp_path)


def test_without_a_page_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "claims.md"
    assert main([str(tmp_path / "empty"), str(target)]) == 1
    assert "no page with claims" in capsys.readouterr().err
    assert not target.exists()
    assert main(["a", "b", "c"]) == 2


def test_the_document_is_that_of_the_stored_pages() -> None:
    text = (SOURCES / DOCUMENT).read_text()
    assert document(SOURCES / REFERENCE) == text, "python -m tcpf_lab.papers.index"


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("buffers.toml", "buffers-2-knee", "at most {high:g} times that at 400 kB"),
        ("buffers.toml", "buffers-2-full", "at least {low:g}"),
        ("buffers.toml", "buffers-3-plateau", "within {percent:g} %"),
        ("buffers.toml", "buffers-4-flat", "at most {high:g} times"),
        ("buffers.toml", "buffers-4-alike", "at most {high:g} times"),
        ("buffers.toml", "buffers-4-steep", "at least {low:g} times"),
        ("rio/claims.toml", "rio-T", "within {percent:g} %"),
        ("rio/claims.toml", "rio-q", "within {percent:g} %"),
        ("rio/claims.toml", "rio-model", "within {percent:g} %"),
        ("rio/claims.toml", "rio-no-in-loss", "at most {high:.4f}"),
        ("rio/claims.toml", "rio-swings", "at least {low:g} packets"),
        ("tcpf.toml", "short-tb-p95", "at most {high:g} of that with"),
        ("tcpf.toml", "reno-gain-reno", "at least {low:g} times"),
    ],
)
def test_a_statement_has_the_bound_beside_it(name: str, claim: str, said: str) -> None:
    rows = tomllib.loads((PAPERS / name).read_text(encoding="utf-8"))["claim"]
    row = next(one for one in rows if one["id"] == claim)
    low, high, _ = bounds_of(row["each"] if "each" in row else row["checks"][0])
    percent = round(100 * (high - 1)) if high < 2 else math.nan
    assert said.format(low=low, high=high, percent=percent) in row["statement"]

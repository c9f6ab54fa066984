"""Which experiment gets which page."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_tree import member

from tcpf_lab.papers.registry import PAGES, pages_of
from tcpf_lab.spec.load import load

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("configA", set()),
        ("configB", {"reno"}),
        ("buffers_full", {"buffers"}),
        ("buffers_tenth", {"buffers"}),
        ("rio_overlap", {"rio"}),
        ("rio_readings", {"rio"}),
        ("short_flows", {"short-flows"}),
        ("parking_lot", {"parking-lot"}),
        ("aqm_bakeoff", {"queues"}),
    ],
)
def test_experiments_that_come_with_it_have_their_pages(name: str, pages: set[str]) -> None:
    experiment = load(EXPERIMENTS / f"{name}.yaml")
    assert {page for page, kind in PAGES.items() if kind.covers(experiment)} == pages


@pytest.mark.parametrize(
    "name", ["buffers_tenth", "rio_readings", "short_flows", "parking_lot", "aqm_bakeoff"]
)
def test_a_page_of_no_run_can_be_made(tmp_path: Path, name: str) -> None:
    text = (EXPERIMENTS / f"{name}.yaml").read_text()
    (page,) = pages_of([member(tmp_path, text, lambda _: None)], f"tcpf-lab run {name}.yaml")
    assert page.drawings == ()


def test_a_run_of_the_parking_lot_is_on_its_page(tmp_path: Path) -> None:
    text = (EXPERIMENTS / "parking_lot.yaml").read_text()
    made = member(
        tmp_path,
        text,
        lambda run: {"cross": [{"goodput_bytes_per_s": 1.0, "timeouts": run.seed}]},
    )
    (page,) = pages_of([made], "")
    assert [drawing.name for drawing in page.drawings] == ["fig-parking-lot"]
    assert {claim.judgement.verdict for claim in page.claims} == {"refuted"}  # all are alike


def test_b_by_itself_has_no_page_on_readings_of_reno(tmp_path: Path) -> None:
    text = (EXPERIMENTS / "configB.yaml").read_text()
    assert list(pages_of([member(tmp_path, text, lambda _: None)], "")) == []

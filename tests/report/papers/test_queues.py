"""The page on a comparison of queues: numbers, leaders, and a figure with thirteen of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from run_tree import Found, member

from tcpf_lab.papers.registry import PAGES
from tcpf_lab.papers.workloads import queues
from tcpf_lab.report.claims.page import Page, drawn, markdown
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import Run

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CASES = [f"Queue{number}" for number in range(13)]
TEXT = "\n".join(
    (
        "name: bake_off",
        "title: Thirteen queues",
        "topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 200 ms}}",
        "tcp: {profile: modern}",
        "traffic: {start_spread: 2 s, warmup: 5 s, duration: 30 s}",
        "cases:",
        *(f"  {case}: {{queue: {{kind: bfifo, limit: 100 kB}}}}" for case in CASES),
        "matrix: {case: all, flows: [10], seed: 1..3}",
    )
)


def found(run: Run) -> dict[str, Any]:
    """Queue k has k ms of delay and k per cent of loss, and as much more goodput."""
    number = int(run.case_name.removeprefix("Queue"))
    goodput = 100_000.0 + 1000 * number + 10 * run.seed
    return {
        "metrics": {
            "goodput_bytes_per_s": goodput,
            "queueing_delay_mean_s": 0.5e-3 * number,
            "queueing_delay_p95_s": 1e-3 * number + 1e-5 * run.seed,
            "packet_loss_percent": float(number),
            "goodput_jain": 0.9,
            "timeouts": 0 if number in (3, 4) else 7,
        },
        "per_flow": [{"flow": i, "goodput_bytes_per_s": goodput} for i in range(run.flows)],
    }


def page(results: Path, of: Found = found, text: str = TEXT) -> Page:
    made = queues([member(results, text, of)], "")
    assert made is not None
    return made


def test_table_has_every_queue(tmp_path: Path) -> None:
    text = markdown(page(tmp_path))
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in text.splitlines()]
    row = next(row for row in rows if row[0] == "Queue2")
    assert row == [
        *("Queue2", "8.162 ± 0.002", "0.900 ± 0.000", "1.0 ± 0.0", "2.0 ± <0.1", "2.00 ± 0.00"),
        *("0.900 ± 0.000", "0.100 ± 0.000", "7.0 ± 0.0", "3"),
    ]


def test_leaders_are_named_by_their_means_and_shared(tmp_path: Path) -> None:
    text = markdown(page(tmp_path))
    assert (
        "most goodput: Queue12; shortest 95th percentile of delay: Queue0; lowest loss: Queue0"
        in text
    )
    assert "fairest goodput: 13 queues tie; fewest timeouts: Queue3, Queue4." in text


def test_thirteen_queues_are_drawn(tmp_path: Path) -> None:
    (figure,) = page(tmp_path).drawings
    assert len(figure.points) == 13 * 3
    assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")


def test_one_more_queue_gets_a_figure_of_its_own(tmp_path: Path) -> None:
    more = TEXT.replace("matrix:", "  Queue13: {queue: {kind: bfifo, limit: 100 kB}}\nmatrix:")
    first, second = page(tmp_path, text=more).drawings
    assert (len(first.points), len(second.points)) == (13 * 3, 3)
    assert (first.name, second.name) == ("fig-queues-1-1", "fig-queues-1-2")


def test_a_queue_without_delays_is_left_out_of_the_figure(tmp_path: Path) -> None:
    def partly(run: Run) -> dict[str, Any]:
        made = found(run)
        if run.case_name == "Queue0":
            made["metrics"]["queueing_delay_p95_s"] = None
        return made

    made = page(tmp_path, partly)
    assert len(made.drawings[0].points) == 12 * 3
    assert "no queueing delay of Queue0" in markdown(made)


def test_no_run_makes_no_figure(tmp_path: Path) -> None:
    made = page(tmp_path, lambda _: None)
    assert made.drawings == ()
    assert "There is no valid run." in markdown(made)


def test_the_bake_off_gets_this_page_and_chapter_4_does_not() -> None:
    covers = PAGES["queues"].covers
    assert covers(load(EXPERIMENTS / "aqm_bakeoff.yaml"))
    assert not covers(load(EXPERIMENTS / "configA.yaml"))

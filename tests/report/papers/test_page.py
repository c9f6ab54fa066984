"""The files of a page: what it says, what it is made of, and what it says of what is missing."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from run_maker import make_runs
from run_tree import member
from run_tree import write as write_spec

from tcpf_lab.papers.figures import Lines
from tcpf_lab.papers.registry import PAGES as REGISTERED
from tcpf_lab.papers.registry import pages_of
from tcpf_lab.report.claims.judge import Source, Verdict
from tcpf_lab.report.claims.page import (
    Claims,
    Drawing,
    Drawn,
    Page,
    Point,
    Table,
    Text,
    markdown,
    pictures,
    write,
)
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim, counted, paired
from tcpf_lab.report.plots.canvas import sheet
from tcpf_lab.report.section import SUFFIXES
from tcpf_lab.report.style import house_style
from tcpf_lab.results.layout import ExperimentFiles, read_json, write_json
from tcpf_lab.run import runner
from tcpf_lab.run.runner import RunState, State
from tcpf_lab.spec.load import dump, load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.fake import FakeTestbed


def build() -> Figure:
    figure = sheet()
    figure.add_subplot().plot([1, 2], [3, 4])
    return figure


POINTS = (Point("Reno", 1.0, (0.25, 0.75)), Point("SACK", 1.0, (0.5,)))
CLAIM = PaperClaim(
    "ef-1",
    (Source("001", "3.1", "the loss is large"),),
    "loss at least 0.3",
    (
        PaperCheck("loss", Measured((0.4, 0.41, 0.42)), low=0.3),
        PaperCheck("with SACK", Measured((), ("SACK, 1 flow",)), low=0.3),
    ),
)
PAGE = Page(
    "ef",
    "Paper <b>",
    (
        Text("Every number is a mean.", "What it is"),
        Table("runs", ("tcp", "runs"), (("Reno", "3"),), "Runs."),
        Drawing("fig-ef-2a", "Figure 2(a)", "Loss.", POINTS, Drawn(build), ("SACK at 2 ms",)),
        Drawing("fig-ef-3", "Figure 3", "Loss.", (), Drawn(build), ("any run",)),
        Claims((CLAIM,), "tcpf-lab run ef.yaml"),
    ),
)


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path, "ef", "uml")


def test_the_page_says_what_was_made_and_what_not(files: ExperimentFiles) -> None:
    ((path, text),) = write(PAGE, files.root, ("md",), {})
    assert path == files.root / "ef.md"
    assert isinstance(text, str)
    assert "# Paper \\<b>" in text
    assert "![fig-ef-2a](figures/fig-ef-2a.png)" in text
    assert "Not all of it was measured: SACK at 2 ms." in text
    assert "fig-ef-3" not in text
    assert "Not made: any run." in text
    assert "Runs that are missing are made by `tcpf-lab run ef.yaml`." in text
    block = text[text.index("<!-- claims ef -->") : text.index("<!-- end of claims -->")]
    assert "| 1 of 1 checks hold, 1 not measured " in block
    assert "| loss: 0.41 ± 0.02 (3 seeds) " in block
    assert "| with SACK: missing: SACK, 1 flow " in block


def test_what_the_figures_and_sentences_are_made_of(files: ExperimentFiles) -> None:
    found = {path.name: str(text) for path, text in write(PAGE, files.root, ("csv",), {})}
    assert list(found) == ["ef.csv", "ef-runs.csv", "ef-claims.csv"]
    rows = list(csv.DictReader(found["ef.csv"].splitlines()))
    assert [(r["figure"], r["series"], r["mean"], r["seeds"]) for r in rows] == [
        ("fig-ef-2a", "Reno", "0.5", "2"),
        ("fig-ef-2a", "SACK", "0.5", "1"),
    ]
    assert rows[0]["values"] == "0.25 0.75"
    said = list(csv.DictReader(found["ef-claims.csv"].splitlines()))
    assert [row["check_verdict"] for row in said] == ["holds", "not decidable"]
    assert {row["verdict"] for row in said} == {"not decidable"}
    assert said[1]["missing"] == "SACK, 1 flow"


def test_figures_are_three_files_each_and_the_same_bytes_again(files: ExperimentFiles) -> None:
    once, again = (
        dict(write(PAGE, files.root, ("figures",), pictures([PAGE], SUFFIXES))) for _ in range(2)
    )
    names = [path.name for path in once]
    assert names == ["fig-ef-2a.png", "fig-ef-2a.pdf", "fig-ef-2a.svg"]
    assert once == again


def test_for_a_report_to_read_alone_figures_are_drawn_once_as_svg() -> None:
    found = pictures([PAGE], ("svg",))
    assert list(found) == ["fig-ef-2a"]
    assert list(found["fig-ef-2a"]) == ["svg"]
    assert pictures([PAGE], ()) == {}


# Lines and steps of a page: every panel shows all of what is drawn in it.


@pytest.mark.parametrize("steps", ["", "mid"])
@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_the_highest_panel_sets_the_axis_of_all(steps: str, order: tuple[str, str]) -> None:
    heights = {"low": 0.2, "high": 0.9}
    points = [
        Point("a", x, (heights[panel] * share,), panel)
        for panel in order
        for x, share in ((1.0, 0.5), (2.0, 1.0), (3.0, 0.1))
    ]
    with house_style():
        figure = Lines("T", "S", "x", "y", steps=steps).draw(points)
        figure.canvas.draw()
    drawn = [axes for axes in figure.axes if axes.lines]
    assert len(drawn) == 2
    for axes in drawn:
        assert axes.get_ylim()[0] <= 0
        assert axes.get_ylim()[1] > 0.9


# No page of a shipped experiment needs all of its runs, or all numbers of one.

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PAGES = {
    "aqm_bakeoff": "queues",
    "buffers_full": "buffers",
    "buffers_tenth": "buffers",
    "coexistence": "coexistence",
    "ef_count": "ef",
    "ef_fairness": "ef",
    "ef_flows": "ef",
    "ef_prediction": "ef",
    "ef_single": "ef",
    "latency_under_load": "latency",
    "parking_lot": "parking-lot",
    "rio_overlap": "rio",
    "rio_readings": "rio",
    "short_flows": "short-flows",
}


def every_other(run: Run) -> Mapping[str, Any] | None:
    return {} if run.seed % 2 and run.case_name != first_case(run) else None


def first_case(run: Run) -> str:
    return next(iter(run.experiment.cases))


def empty_sections(run: Run) -> Mapping[str, Any]:
    absent = ("users", "background", "pftk", "cross", "bottlenecks", "per_flow", "by_dscp")
    return dict.fromkeys(absent)


@pytest.mark.parametrize("found", [every_other, empty_sections])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_partial_runs_is_written(tmp_path: Path, name: str, found: Any) -> None:
    text = dump(load(EXPERIMENTS / f"{name}.yaml"))
    (page,) = pages_of([member(tmp_path, text, found)], f"tcpf-lab run {name}.yaml")
    assert page.name == PAGES[name]
    assert markdown(page)


@pytest.mark.parametrize("name", PAGES)
def test_without_a_run_nothing_is_judged(tmp_path: Path, name: str) -> None:
    experiment = load(EXPERIMENTS / f"{name}.yaml")
    (page,) = pages_of([member(tmp_path, dump(experiment), lambda _: None)], "tcpf-lab run x.yaml")
    assert {claim.judgement.verdict for claim in page.claims} <= {Verdict.OPEN}


# A sentence of a paper: every verdict is reached, and nothing is judged that was not measured.


def check(*values: float, low: float = -math.inf, high: float = math.inf) -> PaperCheck:
    return PaperCheck("loss", Measured(values), low, high)


def claim(*checks: PaperCheck, every: bool = True) -> PaperClaim:
    return PaperClaim("x-1", (Source("001", "3", "it is so"),), "loss at least 0.3", checks, every)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.5, 0.52, 0.51), Verdict.HOLDS),
        ((0.1, 0.12, 0.11), Verdict.REFUTED),
        ((0.2, 0.6, 0.3), Verdict.NOISE),
        ((0.31,), Verdict.HOLDS),
        ((0.29,), Verdict.REFUTED),
        ((), Verdict.OPEN),
        ((0.5, math.nan), Verdict.OPEN),
        ((math.inf,), Verdict.HOLDS),
        ((math.inf, 0.5, 0.6), Verdict.HOLDS),
        ((math.inf, 0.1, 0.2), Verdict.NOISE),
    ],
)
def test_an_interval_must_lie_on_one_side_of_the_bound(
    values: tuple[float, ...], verdict: Verdict
) -> None:
    assert check(*values, low=0.3).verdict == verdict


def test_the_number_has_students_interval_and_its_seeds() -> None:
    one = PaperCheck("loss", Measured((2.0, 4.0, 6.0)), low=1, unit="%", decimals=1)
    assert one.number == "4.0 ± 5.0 % (3 seeds)"
    assert PaperCheck("loss", Measured((2.0,)), low=1).number == "2.00 (1 seed)"


def test_negative_numbers_have_a_minus_sign_and_nothing_has_none() -> None:
    assert PaperCheck("loss", Measured((-0.0001,)), decimals=3).number == "0.000 (1 seed)"
    assert PaperCheck("loss", Measured((-0.5,)), decimals=1).number == "−0.5 (1 seed)"


def test_what_is_missing_is_said_and_not_judged() -> None:
    one = PaperCheck("loss", Measured((), ("CBR with 8 flows",)), low=1)
    assert (one.number, one.verdict) == ("missing: CBR with 8 flows", Verdict.OPEN)
    assert claim(check(1.0, low=0), one).missing == ("CBR with 8 flows",)


def test_a_number_is_worked_out_seed_by_seed_where_both_sides_were_run() -> None:
    difference = paired(lambda a, b: a - b, {1: 3.0, 2: 5.0, 4: 1.0}, {2: 4.0, 1: 1.0, 3: 9.0})
    assert difference.values == (2.0, 1.0)
    alone = paired(lambda a, b: a - b, {1: 3.0}, {2: 4.0})
    assert alone.mean is None
    assert alone.missing == ("no seed that all of it was run with",)
    assert paired(abs, {1: -1.0}, missing=("SACK",)) == Measured((), ("SACK",))


def test_a_claim_needs_all_of_its_checks_or_any() -> None:
    good, bad, none = check(1.0, low=0), check(-1.0, low=0), check(low=0)
    assert claim(good, bad).judgement.verdict == Verdict.REFUTED
    assert claim(good, none).judgement.verdict == Verdict.OPEN
    assert claim(good, bad, every=False).judgement.verdict == Verdict.HOLDS
    assert claim(bad, none, every=False).judgement.verdict == Verdict.OPEN
    assert claim(good, bad).judgement.holding == 1


def test_within_noise_says_how_many_seeds_would_decide() -> None:
    close, far = check(0.9, 1.3, low=1), check(0.9, 1.9, low=1)
    # Deviation 0.283, distance 0.1: the half width is 0.1003 with 33 seeds, 0.0987 with 34.
    assert (close.seeds_needed, far.seeds_needed) == (34, 15)
    assert far.verdict_text == "within noise, needs 15 seeds"
    assert check(0.9, 1.1, low=1).verdict_text == "within noise, needs over 1000 seeds"
    assert check(1.2, 1.21, low=1).seeds_needed is None
    assert check(math.inf, 0.1, low=1).seeds_needed is None
    # Mean 1.1, deviation 0.283: the distance is that to the nearer bound, 0.1 again.
    assert check(0.9, 1.3, low=0, high=1.2).seeds_needed == 34
    stored = Measured(summary=(1.1, close.measured.half or 0.0, 2))
    assert PaperCheck("loss", stored, low=1).seeds_needed == 34


def test_a_claim_within_noise_needs_the_seeds_of_the_checks_that_decide_it() -> None:
    far, close, below = check(0.9, 1.9, low=1), check(0.9, 1.3, low=1), check(0.1, 1.1, low=1)
    assert claim(far, close).seeds_needed == close.seeds_needed
    assert claim(far, below).seeds_needed == below.seeds_needed
    assert claim(far, below, close, every=False).seeds_needed == far.seeds_needed
    assert claim(far, check(math.inf, 0.1, low=1)).verdict_text == "within noise"
    assert claim(below, check(-math.inf, 2.0, low=1)).seeds_needed == below.seeds_needed
    assert claim(far, check(0.1, low=1)).seeds_needed is None


def test_verdicts_are_counted() -> None:
    two, one, none = check(1.0, 1.1, low=0), check(1.0, low=0), check(low=0)
    assert counted([claim(two), claim(none)]) == "Of 2 claims: 1 hold, 1 not decidable."
    assert counted([claim(two), claim(one), claim(none)]) == (
        "Of 3 claims: 2 hold, 1 not decidable. Verdicts that stand on one run: 1."
    )


def test_check_that_decides_nothing_shows_its_number() -> None:
    check = PaperCheck("x", Measured((2.0,)), low=1, undecidable="scaled")
    assert check.verdict is Verdict.OPEN
    assert check.verdict_text == "not decidable"
    assert check.number == "2.00 (1 seed)"


# Which experiment gets which page.

SHIPPED = Path(__file__).parents[3] / "experiments"


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
        ("coexistence", {"coexistence"}),
        ("latency_under_load", {"latency"}),
    ],
)
def test_experiments_that_come_with_it_have_their_pages(name: str, pages: set[str]) -> None:
    experiment = load(SHIPPED / f"{name}.yaml")
    assert {page for page, kind in REGISTERED.items() if kind.covers(experiment)} == pages


@pytest.mark.parametrize(
    "name", ["buffers_tenth", "rio_readings", "short_flows", "parking_lot", "aqm_bakeoff"]
)
def test_a_page_of_no_run_can_be_made(tmp_path: Path, name: str) -> None:
    text = (SHIPPED / f"{name}.yaml").read_text()
    (page,) = pages_of([member(tmp_path, text, lambda _: None)], f"tcpf-lab run {name}.yaml")
    assert page.drawings == ()


def test_a_run_of_the_parking_lot_is_on_its_page(tmp_path: Path) -> None:
    text = (SHIPPED / "parking_lot.yaml").read_text()
    made = member(
        tmp_path,
        text,
        lambda run: {"cross": [{"goodput_bytes_per_s": 1.0, "timeouts": run.seed}]},
    )
    (page,) = pages_of([made], "")
    assert [drawing.name for drawing in page.drawings] == ["fig-parking-lot"]
    assert {claim.judgement.verdict for claim in page.claims} == {"refuted"}  # all are alike


def test_b_by_itself_has_no_page_on_readings_of_reno(tmp_path: Path) -> None:
    text = (SHIPPED / "configB.yaml").read_text()
    assert list(pages_of([member(tmp_path, text, lambda _: None)], "")) == []


# `tcpf-lab report` of an experiment of a paper, on runs of the fake testbed or made up.

Lab = Callable[..., tuple[int, str, str]]


def test_the_report_has_the_papers_page_that_says_what_is_missing(
    lab: Lab, fake: FakeTestbed, spec: Path, tmp_path: Path
) -> None:
    lines = [line for line in spec.read_text().splitlines() if not line.startswith("reference:")]
    at = next(place for place, line in enumerate(lines) if line.startswith("name:"))
    lines.insert(at + 1, 'reference: {paper: "001"}')
    paper = tmp_path / "paper.yaml"
    paper.write_text("\n".join(lines) + "\n")
    make_runs(tmp_path / "results", fake, load(paper))
    status, said, error = lab("report", paper, "--testbed", "fake", "--format", "md,csv")
    assert (status, error) == (0, "")
    directory = tmp_path / "results" / load(paper).name / "fake"
    text = (directory / "ef.md").read_text()
    assert "30 not decidable" in text
    assert "Runs that are missing are made by `tcpf-lab run paper.yaml --testbed fake`." in text
    assert (directory / "ef-claims.csv").exists()
    assert "ef.md" in said


BUFFERS = """
name: small
reference: {paper: "003"}
topology:
  dumbbell: {access: 100 Mbit, bottleneck: 100 Mbit, delay: 75 ms, mtu: 1500 B, pairs: 2}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 1 s, warmup: 10 s, duration: 30 s}
cases:
  TailDrop: {queue: {kind: bfifo, limit: 1 MB}}
matrix: {case: all, flows: [100, 200, 300], queue.limit: [40 kB, 200 kB], seed: 1..2}
"""
MADE = {
    **dict.fromkeys(("tcpf_lab", "git_commit", "testbed_identity"), "0123456789ab"),
    "testbed": "fake",
    "clock": "virtual",
    "facts": {},
}


def made_up(results: Path, experiment: Experiment) -> None:
    """Write runs of users, of which one failed a check."""
    files = ExperimentFiles(results, experiment.name, "fake")
    for run in expand(experiment):
        use = 0.5 + 1e-6 * run.case.queue.limit + 1e-4 * run.flows + 1e-3 * run.seed
        speeds = {size: {"mean_bits_per_s": 1e6 * use} for size in ("100kB", "500kB", "1000kB")}
        found: dict[str, Any] = {"metrics": {"utilisation": use}, "analysis": "0"}
        found["users"] = {"throughput_by_size": speeds}
        if run.id.endswith("flows300-seed2") and run.case.queue.limit == 200_000:
            found["validity"] = {"valid": False, "reasons": ["a user was late"], "checks": []}
        write_spec(files, run, found, experiment.name)
        manifest = read_json(files.run(run.id).manifest)
        write_json(files.run(run.id).manifest, {**manifest, **MADE, "seed": run.seed})


def test_a_page_is_in_the_report_and_in_what_is_kept(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(BUFFERS)
    made_up(tmp_path / "results", load(path))
    monkeypatch.setattr(runner, "examine", lambda *_: RunState(State.COMPLETE))
    words = ("--testbed", "fake", "--format", "html", "--reference", "kept", "--json")
    status, said, error = lab("report", path, *words)
    assert (status, error) == (0, "")
    figure = "kept/figures/fig-buffers-2.png"
    root = "results/small/fake"
    assert {"kept/buffers.md", "kept/buffers-claims.csv", figure, f"{root}/report.html"} <= set(
        json.loads(said)["written"]
    )
    assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    kept = (tmp_path / "kept/buffers.md").read_text()
    row = "Stergiou et al., 4.1, Figure 2: Utilisation grows with the buffer"
    assert f"| buffers-2-grows | {row}" in kept
    assert "flows300, seed 2 (invalid: a user was late)." in kept
    page = (tmp_path / root / "report.html").read_text()
    assert "Utilisation grows with the buffer" in page
    assert "Not decidable: at a scaled size packets do not shrink" in page
    assert "flows300, seed 2 (invalid: a user was late)." in page
    assert "Link utilisation. N = 100: 0.552 at 40 kB, 0.712 at 200 kB" in page
    assert (tmp_path / "kept/small.pdf").read_bytes().startswith(b"%PDF")

"""The contents of a report, worked out from the runs of a whole experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from subject_builder import member, subject
from table_builder import known

from tcpf_lab.papers.thesis.page import build
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.contents.assemble import CHECKS, contents_of, figures_of
from tcpf_lab.report.contents.model import Contents
from tcpf_lab.report.contents.parameters import parameter_tables
from tcpf_lab.report.contents.results import result_parts, verdicts
from tcpf_lab.report.contents.subject import Subject
from tcpf_lab.report.contents.topology import MOST_HOSTS, described, draw_topology, places
from tcpf_lab.report.section import Problem
from tcpf_lab.report.table import Entry, Table
from tcpf_lab.results.command import lines
from tcpf_lab.results.layout import ExperimentFiles, write_json
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.load import apply_overrides
from tcpf_lab.spec.topology import Chain, Dumbbell, Topology

PATH = {"access": "100 Mbit", "bottleneck": "10 Mbit", "delay": "200 ms"}


def manifest(run: str, seed: int) -> dict[str, Any]:
    facts = {"kernel": "6.12", "modules": {f"sch_{run[:3]}": "a" * 64}, "programs": {"tc": "6.1"}}
    names = {
        "tcpf_lab": "0.1.0",
        "git_commit": "abcdef123456",
        "testbed": "uml",
        "clock": "virtual",
    }
    return {**names, "testbed_identity": "0123456789abcdef", "seed": seed, "facts": facts}


@pytest.fixture(scope="module")
def about(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Configurations A and B measured as published, which all tests that only read share."""
    return measured(tmp_path_factory.mktemp("about"))


@pytest.fixture(scope="module")
def whole(about: Subject) -> Contents:
    return contents_of(about)


def measured(root: Path) -> Subject:
    """Give configurations A and B measured as published, with what the runs left on the disk."""
    own = [member("A", seeds=(1, 2, 3)), member("B", seeds=(1, 2, 3))]
    placed = []
    for each in own:
        files = ExperimentFiles(root, each.experiment.name, "uml")
        source = replace(each.section.source, files=files)
        placed.append(replace(each, section=replace(each.section, source=source)))
        for cell in source.cells:
            for seed, run in enumerate(cell.runs, 1):
                files.run(run).create()
                write_json(files.run(run).manifest, manifest(run, seed))
                write_json(files.run(run).metrics, metrics_of(cell.case))
    return subject(*placed)


def metrics_of(case: str) -> dict[str, Any]:
    names = list(CHECKS)
    checks: list[dict[str, Any]] = [{"name": name, "ok": True, "detail": ""} for name in names]
    if case.startswith("NoMark"):
        checks[names.index("marker_in_force")]["ok"] = None
    truth = {"timeouts_pcap": 7, "timeouts_kernel": 7, "flows": 2, "flows_exact": 2}
    return {
        "analysis": "fedcba9876543210",
        "truth": truth,
        "validity": {"valid": True, "reasons": [], "checks": checks},
    }


def texts(table: Table) -> list[list[str]]:
    return [[entry.text for entry in row] for group in table.groups for row in group.rows]


def test_a_configurations_table_has_the_papers_numbers_beside_ours(about: Subject) -> None:
    part, _ = result_parts(about)
    (table,) = part.tables
    assert "Table 4 of the paper" in table.caption
    assert [group.heading for group in table.groups] == ["100 flows", "50 flows"]
    assert [column.kind for column in table.columns] == ["text", *["estimate"] * 4, "number"]
    first = table.groups[0].rows[0]
    timeouts = known(CellKey("A", 100, "TCPF+FRIO"))["timeouts"]
    told = f"3 runs: {', '.join([f'{timeouts:.1f}'] * 3)}; 1 times the published value"
    assert first[1] == Entry("41.0", timeouts, "0.0", f"{timeouts:g}", told)
    assert first[-1] == Entry("3/3", 3)
    assert len(texts(table)) == 14


def test_figures_of_a_collection_are_those_of_the_thesis(about: Subject) -> None:
    names = [figure.name for part in result_parts(about) for figure in part.figures]
    assert names[:2] == ["fig-4.1.1-timeouts", "fig-4.1.2-loss"]
    assert names[4] == "fig-4.2.1-timeouts"
    alone = replace(about, members=about.members[:1], collection=False)
    (part,) = result_parts(alone)
    assert [figure.name for figure in part.figures][:1] == ["fig-configA-timeouts"]
    assert "TCPF+FRIO with 100 flows: 41.0 ± 0.0, published 41" in part.figures[0].alternative


def test_tables_and_figures_are_numbered_as_they_are_read(whole: Contents) -> None:
    made = whole
    assert [figure.label for figure in made.figures] == [f"Figure {n}" for n in range(1, 10)]
    assert made.front is not None
    tables = [
        *(table for part in (made.front, *made.results) for table in part.tables),
        *made.parameters,
        *made.validity.tables,
    ]
    assert [table.label for table in tables] == [f"Table {n}" for n in range(1, len(tables) + 1)]


def test_a_report_on_published_configurations_opens_with_them(about: Subject) -> None:
    assert about.comparison is not None
    results = [result for section in about.sections for result in section.results]
    page = build(about.comparison, results, {})
    made = contents_of(replace(about, pages=(page,)))
    assert made.verdict == "Partly", "some claims are refuted by the published tables themselves"
    assert len(made.answer) == 3
    assert made.front is not None
    (timeouts,) = made.front.tables
    assert (timeouts.label, [column.heading for column in timeouts.columns]) == (
        "Table 1",
        ["case", "configuration A", "configuration B"],
    )
    assert made.front.figures == made.figures[:1]
    _, tables, conclusions, *own = made.results
    assert (*tables.paragraphs, *conclusions.paragraphs) == page.texts
    assert "28 of 28 cells" in tables.paragraphs[0]
    assert [part.name for part in own] == ["results-configA", "results-configB"]
    assert len(texts(conclusions.tables[0])) == 9


def test_every_figure_of_the_contents_has_a_picture(about: Subject, whole: Contents) -> None:
    made = whole
    drawn = figures_of(about, {f.name: "<svg/>" for f in made.figures})
    assert {figure.name for figure in made.figures} == set(drawn)


def test_parameters_that_differ_say_whose_they_are(about: Subject) -> None:
    common, profile, cases = parameter_tables(about)
    rows = {row[0]: row[1:] for row in texts(common)}
    assert rows["tcp.sack"][0] == "yes (A), no (B)"
    value, meaning = rows["topology.chain.bottleneck"]
    assert (value, meaning.split("; ")[0]) == (
        "10 Mbit",
        "Rate of the link R1 - R2, at most access",
    )
    assert ["tcp_frto", "0"] in [row[:2] for row in texts(profile)]
    assert "NewReno" in profile.note
    assert [group.heading for group in cases.groups] == [""], "A and B have the same cases"
    assert texts(cases)[0][0] == "TCPF+FRIO"
    assert "out_probability\u00a00.25" in texts(cases)[0][2]


def test_cases_that_differ_are_told_for_each_configuration() -> None:
    cases = parameter_tables(subject(member("A"), member("C")))[-1]
    assert [group.heading for group in cases.groups] == ["Configuration A", "Configuration C"]


def test_claims_are_shown_with_the_number_that_decides(about: Subject) -> None:
    shown = verdicts(about.comparison)
    assert about.comparison is not None
    whole = {claim.name: claim for claim in shown.claims}
    tenfold = whole["thesis-4.1-multiplexing"]
    assert (tenfold.published_verdict, tenfold.ours_verdict) == ("holds", "holds")
    assert tenfold.ours_count == "2 of 2"
    assert tenfold.telling.published == tenfold.telling.ours
    undecided = [c for c in about.comparison.claims if str(c.ours.verdict) == "not decidable"]
    assert len(shown.claims) + len(undecided) == len(about.comparison.claims)
    assert shown.summary[-1] == f"Not listed: {len(undecided)} claims that need other cells."
    assert any("intervals cover less than 95 %" in text for text in shown.summary), "three seeds"
    assert verdicts(None).claims == ()


def test_validity_counts_checks_and_timeouts(whole: Contents) -> None:
    validity = whole.validity
    assert validity.summary == (
        "Of 84 runs requested, 84 finished, 84 passed every check, and 84 are in the means.",
        "Timeouts are read from the captures: 588 in all runs, where the kernel counted "
        "588; 168 of 168 flows agree exactly.",
    )
    counts = {row[0]: row[2:] for row in texts(validity.tables[0])}
    assert counts["offloads_off"] == ["84", "0", "0"]
    assert counts["marker_in_force"] == ["48", "0", "36"]
    assert validity.left_out == ()


def test_timeouts_are_counted_over_what_was_compared(tmp_path: Path) -> None:
    about = measured(tmp_path)
    first = about.members[0].section
    path = first.source.files.run(first.source.cells[0].runs[0]).metrics
    found = json.loads(path.read_text())
    for changed, said in (
        ({"flows_exact": 0}, "588 in all runs, where the kernel counted 588; 166 of 168"),
        ({"flows_exact": None}, "588 in all runs, where the kernel counted 588; 166 of 166"),
        ({"timeouts_kernel": None, "flows_exact": None}, "581 in 83 of 84 runs, where the kernel"),
    ):
        write_json(path, {**found, "truth": {**found["truth"], **changed}})
        assert said in contents_of(about).validity.summary[1]
    manifest = first.source.files.run(first.source.cells[0].runs[0]).manifest
    hostile = '#read("/etc/passwd") <script>'
    manifest.write_text(manifest.read_text().replace('"6.12"', json.dumps(hostile)))
    facts = {fact.name: fact.values for fact in contents_of(about).reproduce.facts}
    assert set(facts["kernel"]) == {"6.12", hostile}


def test_runs_of_a_cell_with_the_same_problem_are_told_together(about: Subject) -> None:
    first, *others = about.members
    result = first.section.results[0]
    runs = [
        run.replace("seed1", f"seed{seed}") for run in result.cell.runs[:1] for seed in (4, 5, 6)
    ]
    invalid = Problem(result.cell.runs[0], "invalid", ("drops differ", "late"), used=True)
    problems = (*(Problem(run, "missing") for run in runs), invalid)
    results = (replace(result, problems=problems), *first.section.results[1:])
    changed = replace(first, section=replace(first.section, results=results))
    left_out = contents_of(replace(about, members=(changed, *others))).validity.left_out
    assert [(row.named, row.runs, row.state, row.reasons, row.used) for row in left_out] == [
        ("configA/tcpf+frio-flows100, seeds 4 to 6", 3, "missing", "", False),
        ("configA/tcpf+frio-flows100, seed 1", 1, "invalid", "drops differ; late", True),
    ]


def test_how_to_reproduce_names_commit_kernel_modules_and_seeds(
    about: Subject, whole: Contents
) -> None:
    made = whole.reproduce
    facts = {fact.name: fact for fact in made.facts}
    assert made.commands == tuple(map(lines, about.commands))
    assert facts["seeds"].values == ("1 to 3",)
    assert facts["commit"].values == ("abcdef123456",)
    assert facts["kernel"].values == ("6.12",)
    assert facts["module sch_tcp"].values == ("a" * 64,)
    assert facts["module sch_tcp"].code
    assert not facts["program tc"].code
    assert facts["identity of the analysis"].values == ("fedcba9876543210",)


def test_limitations_are_those_that_apply(about: Subject, whole: Contents) -> None:
    headings = [limit.heading for limit in whole.limitations]
    assert headings[0] == "The clock is virtual."
    assert "NewReno, not Reno." in headings
    assert "3 seeds." in headings
    assert "Reno by a patch." not in headings
    alone = contents_of(replace(about, members=about.members[:1], comparison=None)).limitations
    assert "NewReno, not Reno." not in [limit.heading for limit in alone]
    assert "Unpublished choices." not in [limit.heading for limit in alone]


def test_the_same_subject_gives_the_same_contents(about: Subject) -> None:
    assert contents_of(about) == contents_of(about)
    assert isinstance(contents_of(about), Contents)


def words_of(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter() if text.tag.endswith("}text")]


def test_a_chain_is_drawn_with_its_rates_and_its_delay() -> None:
    words = words_of(draw_topology(Chain(**PATH).graph()))
    assert [word for word in words if word in ("S", "R0", "R1", "R2", "D")] == [
        *("S", "R0", "R1", "R2", "D")
    ]
    assert words.count("100 Mbit/s") == 3
    assert words.count("10 Mbit/s") == 1
    assert "← 200 ms" in words


@pytest.mark.parametrize(("pairs", "drawn"), [(2, 2), (4, 4), (5, 4), (100, 4)])
def test_many_hosts_are_drawn_as_a_few_and_a_number(pairs: int, drawn: int) -> None:
    words = words_of(draw_topology(Dumbbell(**PATH, pairs=pairs).graph()))
    assert sum(word.startswith("S") for word in words) == drawn
    assert f"S{pairs - 1}" in words
    assert words.count(f"… {pairs - drawn} more") == (2 if pairs > MOST_HOSTS else 0)


def lot(bottlenecks: int) -> Graph:
    numbers = {"bottlenecks": bottlenecks, "cross_flows": 3, "cross_delay": "50 ms"}
    return Topology.model_validate({"parking_lot": {**PATH, **numbers}}).graph()


def test_cross_traffic_joins_from_above_and_leaves_below_the_router_behind() -> None:
    graph = lot(3)
    place = places(graph)
    for k in (1, 2, 3):
        x, m, r, y = (place[name] for name in (f"X{k}", f"M{k}", f"R{k}", f"Y{k}"))
        assert x.y < m.y < r.y == place["S"].y < y.y
        assert x.x == m.x == r.x < y.x == place[f"R{k + 1}"].x
    assert len(set(place.values())) == len(graph.nodes)
    assert "X2 to Y2 over R2" in described(graph)
    assert words_of(draw_topology(graph)).count("queue under test") == 3


def test_unequal_delays_are_written_at_each_host() -> None:
    pairs = Topology.model_validate({"dumbbell": {**PATH, "delay": "10 ms..30 ms", "pairs": 3}})
    words = words_of(draw_topology(pairs.graph()))
    assert {"← 10 ms", "← 20 ms", "← 30 ms"} <= set(words)
    assert words.count("100 Mbit/s") == 3  # once for the senders, between routers, for receivers


def test_a_drawing_keeps_inside_its_frame() -> None:
    for graph in (Chain(**PATH).graph(), Dumbbell(**PATH, pairs=30).graph(), lot(3)):
        svg = ET.fromstring(draw_topology(graph))
        _, _, width, height = map(float, svg.attrib["viewBox"].split())
        for text in (item for item in svg.iter() if item.tag.endswith("}text")):
            half = 3.2 * len(text.text or "")
            assert half <= float(text.attrib["x"]) <= width - half
            assert 9 <= float(text.attrib["y"]) <= height - 2


Lab = Callable[..., tuple[int, str, str]]


def test_a_run_ends_with_figures_and_the_path_of_its_pdf(
    lab: Lab, spec: Path, tmp_path: Path
) -> None:
    status, output, _ = lab("run", spec, "--testbed", "fake", "--seeds", "1")
    root = Path("results/tiny/fake")
    assert status == 0
    assert output.split()[-1] == str(root / "report.pdf")
    assert (tmp_path / root / "report.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / root / "figures" / "fig-tiny-timeouts.pdf").stat().st_size > 1000


def test_only_the_formats_asked_for_are_written(lab: Lab, spec: Path, ran: Path) -> None:
    words = ("--testbed", "fake", "--json")
    said = json.loads(lab("report", spec, *words, "--format", "html")[1])
    assert [Path(path).name for path in said["written"]] == ["report.html"]
    assert [path.name for path in ran.glob("*.*") if path.is_file()] == ["report.html"]
    assert list(ran.glob("figures/*")) == []
    said = json.loads(lab("report", spec, *words, "--format", "csv,parquet")[1])
    names = {Path(path).name for path in said["written"]}
    assert {"table.csv", "runs.csv", "runs.parquet"} <= names
    assert not any(name.endswith((".md", ".png")) for name in names)


def test_a_reproduction_of_a_hostile_title_needs_no_other_format_and_names_no_place(
    quick: Lab, spec: Path, tmp_path: Path
) -> None:
    title = '#read("/etc/passwd") {{ 7*7 }} <script>x</script> $x^$ \\u{23} ../../etc/passwd'
    path = tmp_path / "hostile.yaml"
    path.write_text(f"title: {json.dumps(title)}\n{spec.read_text()}")
    assert quick("run", path, "--testbed", "fake", "--seeds", "1")[0] == 0
    kept = tmp_path / "kept"
    asked = ("hostile.yaml", "--testbed", "fake", "--seeds", "1")
    assert quick("report", *asked, "--format", "table", "--reference", kept)[0] == 0
    assert {path.name for path in kept.glob("tiny*")} == {"tiny", "tiny.html", "tiny.pdf"}
    assert (kept / "tiny.pdf").read_bytes().startswith(b"%PDF")
    for path in (kept / "tiny.html", kept / "manifest.json"):
        text = path.read_text(encoding="utf-8")
        assert "--reference kept" in text
        assert str(tmp_path) not in text
    manifest = json.loads((kept / "manifest.json").read_text())
    assert manifest["commands"][0] == f"tcpf-lab run {' '.join(asked)}"
    (made,) = manifest["experiments"]
    assert made["seeds"] == [1]
    assert made["facts"] == {"recorded": "recorded-run"}


def test_a_sweep_in_a_collection_has_its_lines_in_the_report(
    quick: Lab, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "all.yaml").write_text(f"name: all\nexperiments: [{spec}]\n")
    words = ("--testbed", "fake", "--seeds", "1", "--set", "traffic.socket_buffer=[1 MB, 2 MB]")
    assert quick("run", "all.yaml", *words)[0] == 0
    assert quick("report", "all.yaml", *words, "--format", "html")[0] == 0
    page = (tmp_path / "results/all/fake/report.html").read_text(encoding="utf-8")
    assert page.count("Lines are means") == 4
    assert 'aria-label="Line chart of number of timeouts.' in page


def test_an_unknown_format_is_answered_with_those_there_are(lab: Lab, spec: Path) -> None:
    status, _, complaints = lab("report", spec, "--format", "pfd")
    assert status == 2
    assert "--format pfd: unknown format 'pfd'" in complaints
    assert "Did you mean 'pdf'?" in complaints


def test_whose_recovery_it_was_is_said_of_each_experiment(about: Subject) -> None:
    plain = about.members[1]

    def with_tcp(settings: list[str]) -> Subject:
        changed = apply_overrides(plain.experiment, settings)
        return replace(about, members=(replace(plain, experiment=changed),))

    classic = with_tcp(["tcp.recovery=reno"])
    headings = [limit.heading for limit in contents_of(classic).limitations]
    assert "Reno by a patch." in headings
    assert "NewReno, not Reno." not in headings
    assert "1990" in parameter_tables(classic)[1].note
    both = with_tcp(["tcp.recovery=[newreno, reno]"])
    headings = [limit.heading for limit in contents_of(both).limitations]
    assert {"Reno by a patch.", "NewReno, not Reno."} <= set(headings)

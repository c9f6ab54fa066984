"""A collection's report: the published numbers of tables and figures."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError
from tcpf_lab.report import document
from tcpf_lab.report.document import Report, numbered, reproduction, write_document, write_report
from tcpf_lab.report.frames.results import kept_cells, reproductions
from tcpf_lab.report.section import Cell, Section, Source, gather
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import ExperimentFiles, write_json

PAPER = ("TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "NoMark+RED")
Build = Callable[..., Source]


def builder(root: Path) -> Build:
    def build_source(
        config: str, cases: tuple[str, ...] = PAPER, seeds: int = 2, base: float = 100.0
    ) -> Source:
        """Write runs of which case k has ``base`` times k + 1 timeouts."""
        name = f"config{config}" if len(config) == 1 else config
        files = ExperimentFiles(root / "results", name, "uml")
        cells = []
        for place, case in enumerate(cases):
            ids = tuple(f"{case.lower()}-flows100-seed{seed + 1}" for seed in range(seeds))
            for seed, run_id in enumerate(ids):
                run = files.run(run_id)
                run.create()
                run.spec.write_text("name: x\n")
                write_json(run.manifest, made_with(seed + 1))
                write_json(run.metrics, found(config, case, base * (place + 1) + seed))
            cells.append(Cell(config, case, 100, ids))
        return Source(files, cells, f"Configuration {config}", "60 s")

    return build_source


def found(config: str, case: str, timeouts: float) -> dict[str, object]:
    values = {"timeouts": timeouts, "timeouts_per_flow_minute": timeouts / 100}
    values |= {"loss_percent": 5.0, "goodput_bytes_per_s": 1e4, "goodput_cov": 0.1}
    verdict = {"valid": True, "reasons": [], "checks": []}
    head = {"format": 2, "config": config, "case": case, "flows": 100, "analysis": "abc"}
    return {**head, "metrics": values, "validity": verdict}


def made_with(seed: int) -> dict[str, object]:
    modules = {"sch_rio": "11"} if seed == 1 else {"sch_rio": "11", "act_tcpf": "22"}
    facts = {"kernel": "6.12", "modules": modules, "memory_mb": 256 * seed}
    head = {"tcpf_lab": "0.1", "git_commit": "abc", "clock": "virtual", "testbed": "uml"}
    return {**head, "testbed_identity": "k", "window_s": [10.0, 70.0], "seed": seed, "facts": facts}


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return builder(tmp_path)


@pytest.fixture
def chapter(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path / "results", "chapter4", "uml")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two configurations; drawing takes a while, so all tests that only read share it."""
    root = tmp_path_factory.mktemp("both")
    files = ExperimentFiles(root / "results", "chapter4", "uml")
    sources = [builder(root)(config) for config in "AC"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "DRAWN", ("timeouts", "loss_percent"))
        return write_report(files, sources, "Chapter 4", collection=True)


def directory(report: Report) -> Path:
    return next(path for path in report.written if path.name == "table.csv").parent


def test_a_configuration_is_a_table_of_thesis_and_paper_and_numbered_figures(
    both: Report,
) -> None:
    names = [str(path.relative_to(directory(both))) for path in both.written]
    figures = [
        f"figures/fig-4.{row}.{number}-{slug}.{suffix}"
        for row in (1, 3)
        for number, slug in enumerate(("timeouts", "loss"), 1)
        for suffix in ("png", "pdf", "svg")
    ]
    assert [name for name in names if name.startswith("figures")] == figures
    tables = ["table-4.1.md", "table-4.md", "table-4.3.md", "table-6.md", "table.csv"]
    assert [name for name in names if name not in figures] == tables


def test_the_thesis_has_four_of_the_cases_and_the_paper_all(both: Report) -> None:
    thesis, paper = ((directory(both) / f"table-{n}.md").read_text() for n in ("4.1", "4"))
    assert thesis.startswith("# Table 4.1. Configuration A\n")
    assert paper.startswith("# Table 4. Configuration A\n")
    assert "| TCPF(O)+RIO |" in paper
    assert "TCPF(O)" not in thesis
    assert " 100 ± 6 (41) |" in paper
    assert " 100 ± 6 (41) |" in thesis


def test_all_cells_are_rows_of_one_table_for_programs(both: Report) -> None:
    rows = list(csv.DictReader((directory(both) / "table.csv").open()))
    assert [(row["config"], row["case"]) for row in rows] == [
        (config, case) for config in "AC" for case in PAPER
    ]
    assert rows[1]["timeouts_mean"] == "200.5"


def test_a_run_left_out_is_named_with_its_experiment(
    build: Build, chapter: ExperimentFiles
) -> None:
    one, other = build("A"), build("B")
    other.files.run(other.cells[0].runs[1]).spec.unlink()
    report = write_report(chapter, [one, other], "Both", collection=True, formats=("md",))
    assert [str(problem) for problem in report.left_out] == [
        "configB/tcpf+frio-flows100-seed2: missing"
    ]


def test_an_experiment_without_published_numbers_keeps_its_own_name(
    build: Build, chapter: ExperimentFiles
) -> None:
    source = build("mine", ("Fast",))
    report = write_report(chapter, [source], "Mine", collection=True, formats=("md", "svg"))
    assert [path.name for path in report.written] == ["table-mine.md"]
    assert "fig-mine-timeouts" in report.drawings


def test_a_configuration_without_runs_is_a_table_that_says_so_and_no_figure(
    build: Build, chapter: ExperimentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = build("A"), build("B")
    for cell in other.cells:
        for run in cell.runs:
            other.files.run(run).spec.unlink()
    monkeypatch.setattr(document, "DRAWN", ("timeouts",))
    report = write_report(chapter, [one, other], "Both", collection=True, formats=("md", "svg"))
    assert "table-4.2.md" in {path.name for path in report.written}
    assert list(report.drawings) == ["fig-4.1.1-timeouts"]


def test_a_reproduction_is_a_table_figures_and_how_it_was_made(
    both: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "DRAWN", ("timeouts",))
    root, commands = tmp_path / "reference", ["tcpf-lab run chapter4.yaml"]
    made = list(reproduction(both.sections, root, commands))
    assert made == list(reproduction(both.sections, root, commands))
    for path, content in made:
        write_document(path, content)
    names = [str(path.relative_to(root)) for path, _ in made]
    assert names[:3] == [f"configA/{n}" for n in ("table.csv", "table.md", "manifest.json")]
    assert "configC/fig-4.3.1-timeouts.png" in names
    assert len(names) == 2 * (3 + 1)
    manifest = json.loads((tmp_path / "reference/configA/manifest.json").read_text())
    assert manifest["commands"] == ["tcpf-lab run chapter4.yaml"]
    assert (manifest["seeds"], manifest["flows"], manifest["cases"]) == ([1, 2], [100], list(PAPER))
    assert manifest["runs"] == {"requested": 8, "used": 8, "valid": 8}
    assert (manifest["git_commit"], manifest["analysis"]) == ("abc", "abc")
    assert manifest["window_s"] == [10.0, 70.0]
    assert manifest["facts"]["modules"] == {"sch_rio": "11", "act_tcpf": "22"}
    assert manifest["facts"]["memory_mb"] == [256, 512], "what differs is listed"


def swept(source: Source, key: str = "queue.max") -> Source:
    """The same runs as those of an axis: each case at two values."""
    cells = [
        Cell(cell.config, cell.case, cell.flows, (run,), cell.published, ((key, size),))
        for cell in source.cells
        for run, size in zip(cell.runs, ("100 kB", "200 kB"), strict=True)
    ]
    return replace(source, cells=cells)


def test_a_sweep_in_a_collection_has_lines_and_no_number_of_the_papers(
    build: Build, chapter: ExperimentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw(files: ExperimentFiles, section: Section, suffixes: Sequence[str]):
        drawn.append(section.source.files.experiment)
        return iter(())

    monkeypatch.setattr(document, "draw_sweep", draw)
    report = write_report(
        chapter, [build("A"), swept(build("C"))], "Both", collection=True, formats=("md", "svg")
    )
    assert drawn == ["configC"]
    names = [path.name for path in report.written]
    assert names == ["table-4.1.md", "table-4.md", "table-configC.md"]
    assert all(name.startswith("fig-4.1.") for name in report.drawings)


def test_of_two_experiments_with_one_configuration_the_first_has_its_numbers(
    build: Build, chapter: ExperimentFiles
) -> None:
    again = build("A")
    other = replace(again, files=ExperimentFiles(again.files.results, "mine", "uml"))
    shutil.copytree(again.files.root, other.files.root)
    report = write_report(chapter, [again, other], "Both", collection=True, formats=("md",))
    names = [path.name for path in report.written]
    assert names == ["table-4.1.md", "table-4.md", "table-mine.md"]
    assert [numbered(section, report.sections) for section in report.sections] == [True, False]


def test_a_reproduction_has_figures_of_the_papers_cases_only(build: Build, tmp_path: Path) -> None:
    sections = gather([swept(build("A")), build("B", ("NoMark+FRED",))])
    names = [str(path.relative_to(tmp_path)) for path, _ in reproduction(sections, tmp_path, [])]
    assert names == ["configA/table.md", "configB/table.md", "tables.csv", "manifest.json"]


def test_a_collection_that_is_not_all_published_has_one_table_and_one_manifest(
    build: Build, tmp_path: Path
) -> None:
    sections = gather([swept(build("A")), build("B", ("NoMark+FRED",))])
    for path, content in reproduction(sections, tmp_path, ["tcpf-lab run mine.yaml"]):
        write_document(path, content)
    with (tmp_path / "tables.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["experiment", "config", "case", "flows", "queue.max"]
    assert {(row["experiment"], row["queue.max"]) for row in rows} == {
        *(("configA", "100 kB"), ("configA", "200 kB"), ("configB", ""))
    }
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["commands"] == ["tcpf-lab run mine.yaml"]
    assert [one["experiment"] for one in manifest["experiments"]] == ["configA", "configB"]
    (folder,) = reproductions(tmp_path)
    cells = kept_cells([folder])
    assert set(cells["experiment"]) == {"configA", "configB"}
    assert len(cells) == len(rows) * len(METRICS)


def test_nothing_usable_in_a_collection_names_its_own_command(
    build: Build, chapter: ExperimentFiles
) -> None:
    source = build("A", ("NoMark+RED",), seeds=0)
    with pytest.raises(LabError, match="no run was requested") as caught:
        write_report(chapter, [source], "Both", again="tcpf-lab run chapter4.yaml", collection=True)
    assert caught.value.hint == "`tcpf-lab run chapter4.yaml`"

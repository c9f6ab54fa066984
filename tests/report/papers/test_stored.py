"""Stored pages: drawn again without a run, with the numbers that git has."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.figures import Bars, Lines
from tcpf_lab.papers.stored import FORMAT, as_text, is_stored, read_page
from tcpf_lab.report.claims.judge import Source
from tcpf_lab.report.claims.page import Claims, Drawing, Page, Point, Table, Text, markdown
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim
from tcpf_lab.results.layout import read_json
from tcpf_lab.run.reporting import stored_pages

REFERENCE = Path(tcpf_lab.__file__).parents[1] / "results" / "reference"
STORED = [path for path in stored_pages(str(REFERENCE)) if is_stored(path)]
#: Twelve figures take a second.
SLOW = {"ef"}

#: The command line in this process: status, output, complaints.
Lab = Callable[..., tuple[int, str, str]]

LINES = Lines("T", "S", "x", "y", ticks=(1.0, 2.0), mark=1.0, unit="ms")
BARS = Bars("T", "S", (("Loss (%)", ("one", "two")),), ("TB+RIO",))
PAGE = Page(
    "made-up",
    "Paper <b>",
    (
        Text("Every number is a mean.", "What it is"),
        Table("runs", ("tcp", "runs"), (("Reno", "−3"), ("SACK", "±")), "Runs.", left=2),
        Drawing(
            "fig-a",
            "Figure a",
            "Loss.",
            (Point("Reno", 1.0, (0.25, 0.75)), Point("level", math.nan, (0.5,), "p")),
            LINES,
            ("SACK",),
            "y",
        ),
        Drawing("fig-b", "Figure b", "", (Point("TB+RIO", 1.0, (3.0,), "Loss (%)"),), BARS),
        Claims(
            (
                PaperClaim(
                    "c-1",
                    (Source("001", "3.1", "it is large"),),
                    "at least 0.3",
                    (
                        PaperCheck("loss", Measured((0.4, math.inf)), low=0.3),
                        PaperCheck("with SACK", Measured((), ("SACK",)), high=2, strict=True),
                    ),
                    every=False,
                    note="a note",
                ),
            ),
            "tcpf-lab run ef.yaml",
        ),
    ),
    opening=True,
)


def test_a_page_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "made-up.json"
    path.write_text(as_text(PAGE), encoding="utf-8")
    assert read_page(path) == PAGE
    assert as_text(read_page(path)) == as_text(PAGE)
    assert json.loads(path.read_text())["format"] == FORMAT


def changed(*keys: Any, to: Any) -> Any:
    """Give the JSON of the page with another value at a place."""
    content = json.loads(as_text(PAGE))
    at = content
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = to
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is not a stored page"),
        ({"format": 1}, "is not a stored page"),
        (changed("format", to=2), "is a page of format 2, not 1"),
        (changed("page", to=3), "is a damaged page: TypeError"),
        (changed("page", "title", to=3), "is a damaged page: TypeError title of Page"),
        (changed("page", "name", to="../x"), "is a damaged page: ValueError"),
        (changed("page", "blocks", 0, "is", to="Popen"), "is a damaged page: KeyError"),
        (changed("page", "blocks", 0, "more", to=1), "is a damaged page: TypeError"),
        (changed("page", "blocks", 2, "name", to="a/b"), "is a damaged page: ValueError"),
        (changed("page", "blocks", 2, "frame", to={"is": "Text", "text": ""}), "frame of Drawing"),
        (changed("page", "blocks", 2, "frame", "ticks", to=["a"]), "ticks of Lines"),
        (changed("page", "blocks", 2, "points", "rows", 0, to=["a"]), "is a damaged page"),
    ],
)
def test_another_file_is_refused_with_a_line(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "made-up.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RequestError, match=message) as found:
        read_page(path)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value).partition("\n  try: ")[0]


def test_every_page_is_stored() -> None:
    names = {path.relative_to(REFERENCE).as_posix() for path in STORED}
    pages = {
        path for path in REFERENCE.glob("*/*-claims.csv") if path.parent.name != "lost_testbed"
    }
    assert len(pages) >= 8
    for path in pages:
        assert path.relative_to(REFERENCE).as_posix().replace("-claims.csv", ".json") in names
    assert "published.json" in names


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.parent.name, marks=[pytest.mark.full] * (path.stem in SLOW))
        for path in STORED
    ],
)
def test_a_stored_page_is_drawn_again_without_a_run(lab: Lab, path: Path, tmp_path: Path) -> None:
    """Its tables are those that git has, byte for byte, and all of its figures come out."""
    status, out, err = lab("report", str(path), "--results", str(tmp_path))
    assert status == 0, err
    page, root = read_page(path), tmp_path / "pages" / path.parent.name
    assert (root / f"{page.name}.md").read_text() == markdown(page)
    beside = [*path.parent.glob(f"{page.name}.csv"), *path.parent.glob(f"{page.name}-claims.csv")]
    assert beside
    for table in beside:
        assert (root / table.name).read_bytes() == table.read_bytes(), table.name
    drawn = {one.stem for one in (root / "figures").glob("*.png")}
    assert drawn == {drawing.name for drawing in page.drawings}
    assert str(root / f"{page.name}.md") in out
    assert as_text(page) == path.read_text(encoding="utf-8")


def test_a_report_to_read_is_made_of_a_stored_page(lab: Lab, tmp_path: Path) -> None:
    path = REFERENCE / "parking_lot" / "parking-lot.json"
    words = ("--results", str(tmp_path), "--format", "html,pdf", "--json")
    status, out, err = lab("report", str(path), *words)
    assert status == 0, err
    page, pdf = map(Path, json.loads(out)["written"])
    text = page.read_text()
    assert "One to three bottlenecks" in text
    for heading in ("Parameters", "Validity of the runs", "Limitations", "Runs left out"):
        assert heading not in text  # of runs, which are not there
    assert str(REFERENCE) not in text
    assert pdf.read_bytes().startswith(b"%PDF")


DRAWN = {"is": "Drawing", "name": "fig-x", "title": "X", "caption": "X."}
POINT = {"is": "Point", "series": "TB+RIO", "x": 1.0}


@pytest.mark.parametrize(
    "block",
    [
        {"is": "Table", "name": "x", "columns": ["a"], "rows": [["1", "2"]], "caption": "X."},
        {"is": "Claims", "claims": [{"is": "PaperClaim", "id": "x", "sources": [], "checks": []}]},
        {**DRAWN, "points": [{**POINT, "values": []}], "frame": {"is": "Bars", "panels": []}},
        {**DRAWN, "points": [{**POINT, "values": [1.0]}], "frame": {"is": "Scatter"}},
    ],
)
def test_a_page_that_does_not_go_together_is_one_message(
    lab: Lab, tmp_path: Path, block: dict[str, object]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps({"format": FORMAT, "page": {"name": "x", "title": "X", "blocks": [block]}})
    )
    status, _, err = lab("report", str(path), "--results", str(tmp_path), "--format", "md,csv,html")
    assert status == 2
    assert "x.json: is a damaged page" in err


def test_an_experiment_in_json_is_no_page(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({"name": "tiny"}))
    status, _, err = lab("report", str(path))
    assert status == 2
    assert "topology" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "seed=1"), "--only: chooses among the runs"),
        (("--seeds", "2"), "--seeds: chooses among the runs"),
        (("--format", "parquet"), "unknown format of a page 'parquet'"),
        (("--reference", "kept"), "--reference: stores pages of runs"),
    ],
)
def test_what_is_of_runs_is_refused(lab: Lab, words: tuple[str, ...], message: str) -> None:
    status, _, err = lab("report", str(REFERENCE / "reno" / "reno.json"), *words)
    assert status == 2
    assert message in err


def test_a_directory_without_a_stored_page_names_the_one_above(lab: Lab) -> None:
    status, _, err = lab("report", str(REFERENCE / "configA"))
    assert status == 2
    assert "configA: has no stored page" in err
    assert err.rstrip().endswith("report " + str(REFERENCE) + "`")


def test_a_directory_is_all_that_is_stored_in_it() -> None:
    found = stored_pages(str(REFERENCE))
    assert REFERENCE / "lost_testbed" / "calibration.json.zst" in found
    assert set(STORED) < set(found)
    assert stored_pages(str(REFERENCE / "configA")) == ()
    assert stored_pages("smoke.yaml") == ()


def test_a_collections_manifest_says_how_each_experiment_was_made() -> None:
    for path in REFERENCE.glob("*/tables.csv"):
        manifest = read_json(path.with_name("manifest.json"))
        assert manifest["commands"][0].startswith("tcpf-lab run ")
        rows = path.read_text(encoding="utf-8").splitlines()[1:]
        named = {one["experiment"] for one in manifest["experiments"]}
        assert named == {row.split(",")[0] for row in rows}, path


def test_a_stored_calibration_is_reported_from_its_record(lab: Lab, tmp_path: Path) -> None:
    words = ("--results", str(tmp_path), "--format", "md,csv")
    status, _, err = lab("report", str(REFERENCE / "lost_testbed"), *words)
    assert status == 0, err
    made = tmp_path / "pages" / "lost_testbed"
    assert (made / "calibration.md").is_file()
    tables = sorted((REFERENCE / "lost_testbed").glob("*.csv"))
    assert [(made / one.name).read_bytes() == one.read_bytes() for one in tables] == [True] * 12

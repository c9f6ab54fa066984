from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from table_builder import cell_result

from tcpf_lab.metrics.capture import describe
from tcpf_lab.report.captures import capture_tables
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.results_table import csv_table, markdown_table, printed, terminal_table
from tcpf_lab.report.section import Cell, CellResult, Estimate, collect
from tcpf_lab.report.style import CASES, METRICS
from tcpf_lab.report.table import TerminalTable, plain, table_of
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.trace.analysis import analyse

GOLDEN = Path(__file__).parent.parent / "golden" / "report"


@pytest.fixture
def results(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> list[CellResult]:
    """One cell whole, one with an invalid run, one with a single run, one with none."""
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed)
        reasons = ("pcap loss 1203, qdisc 1211",) if seed == 2 else ()
        write_run("NoMark+RED", 50, seed, reasons)
    write_run("Mystery", 100, 1)
    return collect(files, cells)


def test_tables_are_the_golden_ones(
    results: list[CellResult], request: pytest.FixtureRequest
) -> None:
    markdown = markdown_table(results, "Configuration A", "60 s, 10 Mbit/s, 200 ms")
    for name, text in (("table.csv", csv_table(results)), ("table.md", markdown)):
        if request.config.getoption("--update-golden"):
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_csv_leaves_empty_what_does_not_exist(results: list[CellResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(results))))
    one_run, no_run = rows[2], rows[3]
    assert (one_run["valid_runs"], one_run["timeouts_mean"], one_run["timeouts_ci95"]) == (
        "1",
        "3",
        "",
    )
    assert {no_run[f"{name}_mean"] for name in METRICS} == {""}
    assert {row["timeouts_per_flow_minute_published"] for row in rows} == {""}
    assert "nan" not in csv_table(results).lower()


def test_csv_numbers_have_six_digits_and_no_exponent(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    metrics = {"goodput_bytes_per_s": 1234567.0, "goodput_cov": 0.000012345678}
    write_run("NoMark+RED", 100, 1, metrics=metrics)
    row = next(csv.DictReader(io.StringIO(csv_table(collect(files, cells[:1])))))
    assert row["goodput_bytes_per_s_mean"] == "1234570"
    assert row["goodput_cov_mean"] == "0.0000123457"


def test_invalid_runs_in_the_means_are_named_as_such(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1, reasons=("a | b",))
    text = markdown_table(collect(files, cells[:1], include_invalid=True), "A", "60 s")
    assert "Runs that failed a check are part of the means" in text
    used = text.split("## Runs used although invalid")[1]
    assert "- nomark+red-flows100-seed1: invalid: a | b" in used
    assert "0/3" in text


def test_flow_counts_keep_the_order_of_the_matrix(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    text = markdown_table(collect(files, cells[::-1]), "A", "60 s")
    assert text.index("## 50 flows") < text.index("## 100 flows")


def test_a_case_name_cannot_break_the_markdown_table(files: ExperimentFiles) -> None:
    result = collect(files, [Cell("A", "a|b", 2, ("x",))])
    lines = markdown_table(result, "A", "60 s").splitlines()
    assert lines[8].startswith("| a\\|b |")


def test_markdown_shows_texts_of_elsewhere_as_they_are(
    files: ExperimentFiles, write_run: Callable[..., None]
) -> None:
    hostile = "<script>x</script> [a](http://b) `c` d\\|e <1"
    write_run("NoMark+RED", 100, 1, reasons=(hostile,))
    result = collect(files, [Cell("A", "NoMark+RED", 100, ("nomark+red-flows100-seed1",))])
    lines = markdown_table(result, hostile, "60 s").splitlines()
    shown = r"\<script>x\</script> \[a](http://b) \`c\` d\\|e <1"
    assert lines[0] == f"# {shown}"
    assert lines[-1] == f"- nomark+red-flows100-seed1: invalid: {shown}"


@pytest.mark.parametrize(
    ("metric", "mean", "ci95", "published", "says"),
    [
        ("timeouts", 1532.2, 21.4, 1322.0, ("1532 ± 21", "(1322)")),
        ("timeouts", 2.25, 1.04, 2.0, ("2.2 ± 1.0", "(2)")),
        ("loss_percent", 9.148, 0.123, 9.01, ("9.15 ± 0.12", "(9.01)")),
        ("goodput_bytes_per_s", 11650.4, 0.2, None, ("11650 ± <1", "")),
        ("goodput_cov", 0.0941, None, 0.38, ("0.094", "(0.38)")),
        ("goodput_cov", 0.0, 0.0, None, ("0.000 ± 0.000", "")),
        ("goodput_cov", None, None, 0.38, ("–", "(0.38)")),
    ],
)
def test_an_entry_reads_mean_interval_and_published_value(
    metric: str,
    mean: float | None,
    ci95: float | None,
    published: float | None,
    says: tuple[str, str],
) -> None:
    found = printed(Estimate((), mean, ci95, published), METRICS[metric])
    assert str(found) == says[0]
    assert found.in_line == " ".join(filter(None, says))


def test_terminal_table_of_all_cases_fits_80_columns_uncut(
    files: ExperimentFiles, write_run: Callable[..., None]
) -> None:
    wide = {"timeouts": 1234.0, "goodput_bytes_per_s": 24321.0, "goodput_cov": 0.123}
    cells = []
    for flows in (100, 50):
        for seed in (1, 2):
            change = {name: value * (1 + 0.1 * seed) for name, value in wide.items()}
            write_run("NoMark+RED", flows, seed, metrics=change)
        runs = tuple(f"nomark+red-flows{flows}-seed{seed}" for seed in (1, 2))
        cells += [
            Cell("A", case, flows, runs if case == "NoMark+RED" else ("x",)) for case in CASES
        ]
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(terminal_table(collect(files, cells), "Configuration A"))
    text = console.export_text()
    assert "…" not in text
    assert text.count("NoMark+TailDrop") == 2
    assert text.count("(1322)") == 1
    assert "2/2" in text


@pytest.fixture
def swept() -> list[CellResult]:
    """A case at two values of an axis, and one that has no such key."""
    cells = []
    for case, value in (("TB+RIO", "100 kB"), ("TB+RIO", "150 kB"), ("NoMark+RED", "")):
        found = cell_result(CellKey("A", case=case, flows=100), {}, (1, 2))
        pairs = (("queue.out_max", value),) if value else ()
        cells.append(replace(found, cell=replace(found.cell, settings=pairs)))
    return cells


def test_an_axis_is_a_column_of_the_tables(swept: list[CellResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(swept))))
    assert [row["queue.out_max"] for row in rows] == ["100 kB", "150 kB", ""]
    assert list(rows[0])[:5] == ["config", "case", "flows", "queue.out_max", "n"]
    text = markdown_table(swept, "A", "60 s")
    lines = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("|")]
    assert [[cell.strip() for cell in line] for line in lines if "--" not in line[0]] == [
        ["case", "queue.out_max"],
        ["TB+RIO", "100 kB"],
        ["TB+RIO", "150 kB"],
        ["NoMark+RED", ""],
    ]


def test_a_terminal_has_a_row_per_value_under_the_case(swept: list[CellResult]) -> None:
    text = io.StringIO()
    Console(file=text, width=80).print(terminal_table(swept, "A"))
    rows = [line.rstrip() for line in text.getvalue().splitlines()]
    heads = [row[:17].rstrip() for row in rows if row[:17].strip()]
    start = next(i for i, head in enumerate(heads) if head.strip() == "100 flows")
    assert [head.strip() for head in heads[start + 1 : start + 5]] == [
        *("TB+RIO", "100 kB", "150 kB", "NoMark+RED"),
    ]
    assert max(map(len, rows)) <= 80


def test_nothing_published_stands_beside_a_value_of_an_axis(swept: list[CellResult]) -> None:
    assert swept[0].cell.known == {}
    assert swept[2].cell.known["timeouts"] == 1322


SENDERS = Path(__file__).parent.parent / "data" / "senders"


def reasons() -> TerminalTable:
    long = "a reason of several words, and /a/path/that/is/rather/long.yaml"
    rows = [("FAULT", "kernel", long, long), ("ok", "guest", "512 MB", "")]
    return plain(table_of("", "", ("", "checked", "found", "fix"), rows))


def tables_of_every_kind(swept: list[CellResult]) -> Iterator[TerminalTable]:
    yield reasons()
    yield terminal_table(swept, "A title that is longer than its table is wide").__rich__()
    found = analyse(SENDERS / "modern.pcap.zst")
    parts = capture_tables(describe(found, range(found.flows.size)))
    yield from (part for part in parts if isinstance(part, TerminalTable))


def shown(part: RenderableType, width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(part)
    return text.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_value_of_a_table_is_cut_or_left_out(swept: list[CellResult], width: int) -> None:
    for table in tables_of_every_kind(swept):
        text = shown(table, width)
        assert max(map(len, text.splitlines())) <= width
        rows = [row for group in table.groups for row in group.rows]
        words = " ".join(entry.__rich__().plain for row in rows for entry in row).split()
        found = Counter(text.split())
        # A longer word, such as a path, may be broken.
        assert not Counter(word for word in words if len(word) <= 16) - found
        joined = re.sub(r"\s", "", text)
        assert width < 200 or all(word in joined for word in words)


def test_columns_without_room_stand_below_and_then_rows_become_records() -> None:
    rows = [("smoke", "uml", "12"), ("ef", "vm", "")]
    table = plain(table_of("", "", ("experiment", "testbed", "complete"), rows))
    assert [line.split() for line in shown(table, 20).splitlines()] == [
        *(["experiment", "testbed"], ["smoke", "uml"], ["ef", "vm"], []),
        *(["experiment", "complete"], ["smoke", "12"], ["ef"]),
    ]
    assert shown(table, 18).splitlines() == [
        *("experiment: smoke", "testbed: uml", "complete: 12", ""),
        *("experiment: ef", "testbed: vm"),
    ]

"""A small results tree, made by the tests, and the cells that ask for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tcpf_lab.report.section import Cell, Source
from tcpf_lab.results.layout import ExperimentFiles, write_json

#: timeouts, loss in percent, goodput in bytes/s, its CoV of each run; three runs per cell.
RUNS = {
    ("NoMark+RED", 100): [
        (1300, 9.0, 11600.0, 0.09),
        (1322, 9.1, 11620.0, 0.10),
        (1344, 9.2, 11640.0, 0.11),
    ],
    ("NoMark+RED", 50): [
        (480, 5.0, 23000.0, 0.05),
        (500, 5.2, 23010.0, 0.06),
        (520, 5.4, 23020.0, 0.07),
    ],
    ("Mystery", 100): [(3, 1.0, 12000.0, 0.01), (2, 1.0, 12000.0, 0.01), (4, 1.0, 12000.1, 0.01)],
    ("Mystery", 50): [(0, 0.0, 24000.0, 0.0), (0, 0.0, 24000.0, 0.0), (0, 0.0, 24000.0, 0.0)],
}


def run_id(case: str, flows: int, seed: int) -> str:
    return f"{case.lower()}-flows{flows}-seed{seed}"


def found_metrics(
    case: str, flows: int, seed: int, reasons: tuple[str, ...], metrics: dict[str, object]
) -> dict[str, object]:
    timeouts, loss, goodput, cov = RUNS[case, flows][seed - 1]
    values = {
        "timeouts": timeouts,
        "timeouts_per_flow_minute": timeouts / flows,
        "loss_percent": loss,
        "goodput_bytes_per_s": goodput,
        "goodput_cov": cov,
        "utilisation": 0.97,
    }
    return {
        "format": 2,
        "config": "A",
        "case": case,
        "flows": flows,
        "metrics": {**values, **metrics},
        "validity": {"valid": not reasons, "reasons": list(reasons), "checks": []},
    }


@pytest.fixture
def files(tmp_path: Path) -> ExperimentFiles:
    return ExperimentFiles(tmp_path / "results", "configA", "uml")


@pytest.fixture
def cells() -> list[Cell]:
    return [
        Cell("A", case, flows, tuple(run_id(case, flows, seed) for seed in (1, 2, 3)))
        for case, flows in RUNS
    ]


@pytest.fixture
def source(files: ExperimentFiles, cells: list[Cell]) -> Source:
    """The runs of a whole experiment."""
    return Source(files, cells, "Configuration A", "60 s, 10 Mbit/s, 200 ms")


@pytest.fixture
def red(cells: list[Cell]) -> Cell:
    """The cell of NoMark+RED with 100 flows."""
    return cells[0]


@pytest.fixture
def write_run(files: ExperimentFiles) -> Callable[..., None]:
    def write(
        case: str,
        flows: int,
        seed: int,
        reasons: tuple[str, ...] = (),
        metrics: dict[str, object] | None = None,
    ) -> None:
        """Write a complete run with the numbers of ``RUNS``, changed by ``metrics``."""
        run = files.run(run_id(case, flows, seed))
        run.create()
        run.spec.write_text("name: configA\n")
        write_json(run.metrics, found_metrics(case, flows, seed, reasons, metrics or {}))

    return write


@pytest.fixture
def write_all(write_run: Callable[..., None]) -> Callable[[], None]:
    def write() -> None:
        for case, flows in RUNS:
            for seed in (1, 2, 3):
                write_run(case, flows, seed)

    return write

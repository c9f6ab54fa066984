"""Runs on disk with numbers that a test makes up, as a page of a report reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.section import Cell, Source, gather
from tcpf_lab.results.layout import FORMAT, ExperimentFiles, write_json
from tcpf_lab.spec.load import dump, parse
from tcpf_lab.spec.sweep import Run, expand

#: What a run found, as parts of ``metrics.json``; None where there is no run.
Found = Callable[[Run], Mapping[str, Any] | None]

#: The metrics that every table has.
USUAL = {
    "timeouts": 3,
    "timeouts_per_flow_minute": 0.5,
    "loss_percent": 1.0,
    "packet_loss_percent": 1.0,
    "goodput_bytes_per_s": 12000.0,
    "goodput_cov": 0.1,
    "utilisation": 0.9,
}

#: What pages read of a manifest: a window of 60.5 s, whose last 0.5 s are not judged.
MANIFEST = {
    "window_s": [20.0, 80.5],
    "expect": {
        "qdisc": {"kind": "rio", "options": {"limit": 100_000}},
        "bottleneck": {"rate_bits_per_s": 48_000_000},
    },
}


def member(results: Path, text: str, found: Found) -> Member:
    """Write the runs of an experiment for which there are numbers, and read them back."""
    experiment = parse(text, "made-up.yaml")
    config = experiment.reference.config if experiment.reference else None
    files = ExperimentFiles(results, experiment.name, "uml")
    cells: dict[tuple[Any, ...], list[str]] = {}
    for run in expand(experiment):
        cells.setdefault((run.case_name, run.flows, run.settings), []).append(run.id)
        made = found(run)
        if made is not None:
            write(files, run, made, config or experiment.name)
    source = Source(
        files,
        [
            Cell(config or experiment.name, case, flows, tuple(ids), config is not None, settings)
            for (case, flows, settings), ids in cells.items()
        ],
        experiment.title,
        "",
    )
    (section,) = gather([source])
    return Member(experiment, section)


def write(files: ExperimentFiles, run: Run, made: Mapping[str, Any], config: str) -> None:
    """Write a run's spec and its ``metrics.json``."""
    directory = files.run(run.id)
    directory.create()
    directory.spec.write_text(dump(run.experiment), encoding="utf-8")
    content = {
        "format": FORMAT,
        "config": config,
        "case": run.case_name,
        "flows": run.flows,
        "seed": run.seed,
        "per_flow": [],
        "window_s": MANIFEST["window_s"],
        "validity": {"valid": True, "reasons": [], "checks": []},
        **made,
        "metrics": {**USUAL, **made.get("metrics", {})},
    }
    write_json(directory.metrics, content)
    write_json(directory.manifest, {"format": FORMAT, "testbed": "uml", **MANIFEST})

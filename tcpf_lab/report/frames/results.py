"""Stored reproductions (``results/reference``): their means."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.claims.judge import ClaimResult
from tcpf_lab.report.claims.published import CONFIGS, FLOWS, published
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.export.tidy import axis_column, base_value, frame, in_base_units
from tcpf_lab.report.section import Cell, Section, Source, gather
from tcpf_lab.report.style import CASES, METRICS
from tcpf_lab.results.layout import PARTIAL, ExperimentFiles, RunFiles, read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import case_slug
from tcpf_lab.spec.sweep import expand

_TABLE, _MANIFEST = "table.csv", "manifest.json"
#: A collection's, with the experiment in front.
_TABLES = "tables.csv"


def reproductions(path: Path) -> list[Path]:
    """Give the directories of stored experiments: this one, or a collection's, or those in it."""
    if all((path / name).is_file() for name in (_TABLES, _MANIFEST)):
        return [path]
    candidates = (path, *sorted(path.glob("*/")))
    return [folder for folder in candidates if _is_stored(folder)]


def _is_stored(folder: Path) -> bool:
    has_both = all((folder / name).is_file() for name in (_TABLE, _MANIFEST))
    return has_both and not (folder / "run.yaml").exists()


def kept_cells(folders: list[Path]) -> pd.DataFrame:
    """Read the tables of stored experiments, a row per cell and metric.

    Raises
    ------
    RequestError
        If a table is not one.
    """
    rows = [row for folder in folders for row in _rows(folder)]
    settings = {key for row in rows for key in row} - set(LAYOUTS["cells"].names)
    axes = [axis_column(key, [row[key] for row in rows if key in row]) for key in sorted(settings)]
    return frame(LAYOUTS["cells"].with_axes(axes), [in_base_units(row, axes) for row in rows])


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    manifest = read_json(folder / _MANIFEST)
    path = folder / (_TABLES if (folder / _TABLES).is_file() else _TABLE)
    with path.open(encoding="utf-8", newline="") as file:
        for number, line in enumerate(csv.DictReader(file), 2):
            try:
                yield from _cell(line, _of_experiment(manifest, line))
            except (KeyError, ValueError, TypeError) as error:
                reason = f"not a line of such a table: {type(error).__name__} {error}"
                raise RequestError(reason, where=f"{path}:{number}") from None


def _of_experiment(manifest: Mapping[str, Any], line: Mapping[str, str]) -> Mapping[str, Any]:
    """Give the part of a manifest that is of a line's experiment."""
    if "experiment" not in line:
        return manifest
    found = (one for one in manifest["experiments"] if one["experiment"] == line["experiment"])
    own: Mapping[str, Any] | None = next(found, None)
    if own is None:
        raise KeyError(line["experiment"])
    return own


def _cell(line: Mapping[str, str], manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    columns = list(line)
    axes = columns[columns.index("flows") + 1 : columns.index("n")]
    for metric, style in METRICS.items():
        mean, known = _number(line[f"{metric}_mean"]), _number(line[f"{metric}_published"])
        yield {
            "experiment": manifest["experiment"],
            "testbed": manifest["testbed"],
            "config": line["config"],
            "factor": "",
            "level": "",
            "case": line["case"],
            "flows": int(line["flows"]),
            **{key: line[key] for key in axes if line[key]},
            "metric": metric,
            "unit": style.unit,
            "mean": mean,
            "ci95": _number(line[f"{metric}_ci95"]),
            "published": known,
            "ratio": mean / known if known and mean is not None else None,
            "n": int(line["n"]),
            "valid_runs": int(line["valid_runs"]),
            "used": int(line["valid_runs"]),  # the table does not separate them
        }


def _number(text: str) -> float | None:
    return float(text) if text else None


def sections_below(path: Path, include_invalid: bool = False) -> tuple[Section, ...]:
    """Give every experiment that has runs at or below a directory.

    Parameters
    ----------
    path : Path
        A run's directory, one that holds runs, or one that holds such directories.
    include_invalid : bool
        Let runs that failed a check into the means.

    Returns
    -------
    tuple of Section
        One per experiment and testbed, in the order of their paths. Whether a run was made from
        today's spec, kernel and analysis is unknown: there is no spec.

    Raises
    ------
    RequestError
        If there is no run.
    """
    found: dict[Path, list[RunFiles]] = {}
    for run in _runs(path.resolve()):
        found.setdefault(run.root.parent, []).append(run)
    if not found:
        raise RequestError(
            "no run in this directory",
            where=str(path),
            hint="name a run, an experiment's directory, or an experiment file",
        )
    return gather((_source(folder, runs) for folder, runs in found.items()), include_invalid)


def _runs(path: Path) -> Iterator[RunFiles]:
    candidates = (path,) if (path / "run.yaml").exists() else sorted(path.glob("*/"))
    for folder in candidates:
        if folder.name.endswith(PARTIAL):
            continue
        if (folder / "run.yaml").exists():
            yield RunFiles(folder)
        elif folder != path and folder.is_dir():
            yield from _runs(folder)


def _source(folder: Path, runs: Sequence[RunFiles]) -> Source:
    files = ExperimentFiles(folder.parent.parent, folder.parent.name, folder.name)
    seeds: dict[Cell, list[tuple[int, str]]] = {}
    for run in runs:
        cell, seed = _place(run, files.experiment)
        seeds.setdefault(cell, []).append((seed, run.root.name))
    cells = [
        replace(cell, runs=tuple(name for _, name in sorted(found)))
        for cell, found in sorted(seeds.items(), key=lambda item: _order(item[0]))
    ]
    return Source(files, cells, files.experiment, "", tuple(dict.fromkeys(c.case for c in cells)))


def _place(run: RunFiles, experiment: str) -> tuple[Cell, int]:
    """Give the cell that a run belongs to, without its runs, and the run's seed."""
    manifest = read_json(run.manifest)
    try:
        config, case = str(manifest["config"]), str(manifest["case"])
        flows, seed = int(manifest["flows"]), int(manifest["seed"])
    except (KeyError, TypeError, ValueError) as error:
        reason = f"not a run's manifest: {type(error).__name__} {error}"
        raise RequestError(reason, where=str(run.manifest)) from None
    as_published = config in CONFIGS and config != experiment
    settings = _settings(run, f"{case_slug(case)}-flows{flows}-seed{seed}")
    return Cell(config, case, flows, (), as_published, settings), seed


def _settings(run: RunFiles, plain_id: str) -> tuple[tuple[str, str], ...]:
    """Read the values of the matrix's own axes; a run that has any is not called ``plain_id``."""
    if run.root.name == plain_id:
        return ()
    (made,) = expand(load(run.spec))
    return made.settings


def _order(cell: Cell) -> tuple[object, ...]:
    """Cases as the papers have them, all others after these; axes upwards, most flows first."""
    place = list(CASES).index(cell.case) if cell.case in CASES else len(CASES)
    return cell.config, place, cell.case, tuple(map(_step, cell.settings)), -cell.flows


def _step(setting: tuple[str, str]) -> tuple[object, ...]:
    """Numbers by their size, all words after them."""
    key, text = setting
    value, _ = base_value(text)
    return (key, 1, 0.0, text) if isinstance(value, str) else (key, 0, value, text)


def claims_table(claims: Iterable[ClaimResult]) -> pd.DataFrame:
    """Give a row per claim: its sentence, and the verdicts on the papers' tables and on ours."""
    rows = [
        {
            "claim": claim.id,
            "source": "; ".join(f"{source.document} {source.section}" for source in claim.sources),
            "statement": claim.statement,
            "published_verdict": str(claim.published.verdict),
            "verdict": str(claim.ours.verdict),
            "holding": claim.ours.holding,
            "measured": claim.ours.measured,
            "checks": claim.ours.checks,
        }
        for claim in claims
    ]
    return frame(LAYOUTS["claims"], rows)


def published_table(configs: Iterable[str] = CONFIGS) -> pd.DataFrame:
    """Give a row per published cell and metric of some configurations."""
    return frame(LAYOUTS["published"], list(_published(set(configs))))


def _published(configs: set[str]) -> Iterator[dict[str, Any]]:
    for config in CONFIGS:
        for flows in FLOWS if config in configs else ():
            for case in CASES:
                for metric, value in (published(config, case, flows) or {}).items():
                    own = {"config": config, "case": case, "flows": flows, "metric": metric}
                    yield {**own, "unit": METRICS[metric].unit, "value": value}

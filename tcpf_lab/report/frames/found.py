"""The runs that are found in a directory, whatever experiment they were made for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tcpf_lab.errors import RequestError
from tcpf_lab.reference.published import CONFIGS
from tcpf_lab.report.collect import Cell
from tcpf_lab.report.export.axes import base_value
from tcpf_lab.report.section import Section, Source, gather
from tcpf_lab.report.style import CASES
from tcpf_lab.results import PARTIAL, ExperimentFiles, RunFiles, read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import case_slug
from tcpf_lab.spec.sweep import expand


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
        today's spec, kernel and analysis is not asked: there is no spec to tell by.

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

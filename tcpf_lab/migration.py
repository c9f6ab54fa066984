"""Runs of earlier versions of the layout, brought to the present one on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab import checksums, formats
from tcpf_lab.errors import RequestError
from tcpf_lab.formats import FORMAT, version_of
from tcpf_lab.results import ExperimentFiles, RunFiles, read_json, write_json, write_text


def migrate(results: Path, *, dry_run: bool = False) -> Iterator[Path]:
    """Bring every complete run of a results directory to the present version of the layout.

    A run's manifest is written last: one that was interrupted is taken up again.

    Yields
    ------
    Path
        Every run that was of an earlier version.

    Raises
    ------
    RequestError
        If there is no such directory, a record is damaged or of a later version, or runs are being
        made there.
    """
    if not results.is_dir():
        raise RequestError("no such results directory", where=str(results))
    for directory in sorted(path for path in results.glob("*/*") if path.is_dir()):
        files = ExperimentFiles(results, directory.parent.name, directory.name)
        runs = [run for run in files.runs() if _version(run) < FORMAT]
        if runs and not dry_run:
            with files.locked():
                for run in runs:
                    _migrate(run)
                    yield run.root
        else:
            yield from (run.root for run in runs)


def _version(run: RunFiles) -> int:
    """Give the version of a run, that of its older record; the present one if it has none."""
    found = (_version_on_disk(path) for path in (run.manifest, run.metrics) if path.exists())
    return min((version for version in found if version is not None), default=FORMAT)


def _version_on_disk(path: Path) -> int | None:
    read_json(path)  # damaged, or too new
    return version_of(path.name, json.loads(path.read_text(encoding="utf-8")))


def _migrate(run: RunFiles) -> None:
    version = _version(run)
    run.checksums.unlink(missing_ok=True)  # a run without them is taken as it is
    for beginning in formats.renames(version):
        for old in sorted(run.stats.glob(f"{beginning}*.json")):
            if made := formats.renewed(version, old.name, read_json(old)):
                name, text = made
                write_text(old.with_name(name), text)
                old.unlink()
    for path in (run.metrics, run.manifest):
        if path.exists():
            write_json(path, read_json(path))
    checksums.write(run)

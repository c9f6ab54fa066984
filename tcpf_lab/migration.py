"""Runs of earlier versions of the layout, brought to the present one on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab import checksums, formats, making
from tcpf_lab.command import again
from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.formats import FORMAT, version_of
from tcpf_lab.results import ExperimentFiles, RunFiles, read_json, write_json, write_text


def migrate(results: Path, *, dry_run: bool = False) -> Iterator[Path | LabError]:
    """Bring every complete run of a results directory to the present version of the layout.

    A run's manifest and what it is held against are written last: a run that was interrupted is
    taken up again.

    Yields
    ------
    Path or LabError
        Every run that was of an earlier version; or why it stays so, as it is damaged or of a later
        version, which does not stop the others.

    Raises
    ------
    RequestError
        If there is no such directory, or runs are being made there.
    """
    if not results.is_dir():
        raise RequestError("no such results directory", where=str(results))
    for directory in sorted(path for path in results.glob("*/*") if path.is_dir()):
        files = ExperimentFiles(results, directory.parent.name, directory.name)
        for run in files.runs():
            try:
                if not _is_older(run):
                    continue
                if not dry_run:
                    with files.locked():
                        _migrate(run)
            except LabError as error:
                error.where = error.where or str(run.root)
                yield error
            else:
                yield run.root


def _is_older(run: RunFiles) -> bool:
    """Tell whether a run is of an earlier version, or its migration was interrupted at the end."""
    return _unfinished(run).exists() or _version(run) < FORMAT


def _unfinished(run: RunFiles) -> Path:
    """There while a run is migrated."""
    return run.root / ".migrating"


def _version(run: RunFiles) -> int:
    """Give the version of a run, that of its older record; the present one if it has none."""
    found = (_version_on_disk(path) for path in (run.manifest, run.metrics) if path.exists())
    return min((version for version in found if version is not None), default=FORMAT)


def _version_on_disk(path: Path) -> int | None:
    read_json(path)  # damaged, or too new
    return version_of(path.name, json.loads(path.read_text(encoding="utf-8")))


def _migrate(run: RunFiles) -> None:
    """Rename counters, write records anew, and what all of them are held against."""
    version, unfinished = _version(run), _unfinished(run)
    if not unfinished.exists() and (damaged := checksums.damaged(run, captures=True)):
        raise RequestError(
            f"damaged: {', '.join(damaged)}",
            where=str(run.root),
            hint=f"not what SHA256SUMS says; `{again(run)}` makes the run again",
        )
    making.write(unfinished, b"")
    for beginning in formats.renames(version):
        for old in sorted(run.stats.glob(f"{beginning}*.json")):
            if made := _renewed(version, run, old):
                name, text = made
                write_text(old.with_name(name), text)
                old.unlink()
    for path in (run.metrics, run.manifest):
        if path.exists():
            write_json(path, read_json(path))
    run.checksums.unlink(missing_ok=True)
    checksums.write(run)
    unfinished.unlink()


def _renewed(version: int, run: RunFiles, old: Path) -> tuple[str, str] | None:
    try:
        return formats.renewed(version, old.name, read_json(old))
    except (AttributeError, KeyError, TypeError) as error:
        raise RequestError(
            f"not counters of that version: {type(error).__name__} {error}",
            where=str(old),
            hint=f"the run is damaged: `{again(run)}` makes it again",
        ) from None

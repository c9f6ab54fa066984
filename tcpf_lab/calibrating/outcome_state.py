"""Whether what was concluded is of the file and the points as they are now."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tcpf_lab.calibrating.ledger import CalibrationFiles, read_ledger, space_of
from tcpf_lab.calibrating.target import cells_of
from tcpf_lab.command import command
from tcpf_lab.errors import LabError
from tcpf_lab.results import as_json
from tcpf_lab.spec.calibrated import Subject, read_subject
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.model import to_data

#: What an outcome is of, by the names of its digests, as a sentence says it of a file.
_PARTS = {
    "calibration": "{} says something else by now than when this outcome was written",
    "experiments": "The experiments of {} are others by now than those of this outcome",
    "published": "The published numbers of {} are others by now than those of this outcome",
}


def digests(subject: Subject) -> dict[str, str]:
    """Identify what is concluded from, whatever the files are called and how they are laid out.

    Returns
    -------
    dict
        SHA-256 of the ``calibration`` (what it sets aside from defaults, without its title), of its
        ``experiments`` as they are run, and of the ``published`` numbers.
    """
    cells = cells_of(subject, subject.experiments)
    known = [[str(value) for value in row] for row in cells.published.tolist()]
    parts: dict[str, Any] = {
        "calibration": subject.calibration.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"title"}
        ),
        "experiments": [to_data(experiment) for experiment in subject.experiments],
        "published": [cells.metrics, [asdict(name) for name in cells.names], known],
    }
    return {key: hashlib.sha256(as_json(part).encode()).hexdigest() for key, part in parts.items()}


def behind(
    calibration: Calibration, source: Path, files: CalibrationFiles, told: Mapping[str, Any]
) -> Iterator[str]:
    """Yield in sentences what has changed since ``calibration.json`` was written.

    Parameters
    ----------
    calibration : Calibration
        What its file says now.
    source : Path
        That file.
    files : CalibrationFiles
        Where the points are.
    told : mapping
        The outcome.
    """
    again = f"`{command('calibrate', *files.words(source), '--only-report')}`"
    try:
        subject = read_subject(calibration, source)
        ids = {point.id for point in read_ledger(files.ledger, subject, space_of(subject)).points}
        sentences = list(_changed(calibration, source, told, subject))
    except LabError as error:
        if "digests" in told:
            reason = str(error).splitlines()[0]
            yield f"{source.name} cannot be carried out any more ({reason})."
            return
        ids, sentences = _ids(files.ledger), list(_changed_of_older(calibration, source, told))
    for sentence in sentences:
        yield f"{sentence}: {again}."
    more = ids - {one["id"] for one in told["points"]}
    if more:
        yield f"{len(more)} points of {files.ledger.name} are not part of this outcome: {again}."


def _changed(
    calibration: Calibration, source: Path, told: Mapping[str, Any], subject: Subject
) -> Iterator[str]:
    """Yield what is of another state, as the file's digests have it; older files have none."""
    if "digests" not in told:
        yield from _changed_of_older(calibration, source, told)
        return
    now = digests(subject)
    for part, sentence in _PARTS.items():
        if now[part] != told["digests"].get(part):
            yield sentence.format(source.name)


def _changed_of_older(
    calibration: Calibration, source: Path, told: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what an outcome without digests tells to be another."""
    if [one["name"] for one in told["unknowns"]] != list(calibration.unknowns):
        yield f"{source.name} has other unknowns by now than this outcome"
    if dict(calibration.tolerance) != told.get("tolerance"):
        yield f"{source.name} has other tolerances by now than this outcome"


def _ids(ledger: Path) -> set[str]:
    """Give the ids of a ledger of any unknowns; none where it is missing or damaged."""
    try:
        with ledger.open(encoding="utf-8", newline="") as file:
            return {row["id"] for row in csv.DictReader(file) if row.get("id")}
    except (OSError, UnicodeDecodeError, csv.Error):
        return set()

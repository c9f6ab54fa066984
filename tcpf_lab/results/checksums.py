"""Checksums of a run's files, in ``SHA256SUMS``: damage is reported, not analysed.

``sha256sum --check SHA256SUMS`` in the run's directory reads the file too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tcpf_lab.results.layout import RunFiles, open_regular, write_text

#: A run without its log is still that run.
_LOG = "log/"
_CAPTURES = "pcap/"


def write(run: RunFiles) -> None:
    """Record the content of every file of a run that is whole.

    Raises
    ------
    LabError
        If the record cannot be written.
    """
    _write(run, _hashes(run, run.own()))


def forget_derived(run: RunFiles) -> None:
    """Take out of the record what an analysis is about to derive anew: it may be interrupted.

    Raises
    ------
    LabError
        If the record cannot be written.
    """
    known = _read(run)
    remaining = _not_derived(run, known)
    if remaining != known:
        _write(run, remaining)


def renew(run: RunFiles) -> None:
    """Record anew what an analysis has derived; nothing for a run that never had a record.

    Raises
    ------
    LabError
        If the record cannot be written.
    """
    known = _read(run)
    if known:
        derived = _hashes(run, (path for path in run.derived if path.exists()))
        _write(run, _not_derived(run, known) | derived)


def damaged(run: RunFiles, *, captures: bool, derived: bool = True) -> list[str]:
    """Name the files of a run that are not what they were.

    Parameters
    ----------
    run : RunFiles
        A complete run; one without a record has nothing to be held against.
    captures : bool
        Look at the captures too, which takes the longest by far.
    derived : bool
        Look at what an analysis makes anew, too.

    Returns
    -------
    list of str
        Names in the run's directory, also of files that the record does not know: it may be cut.
        A log that was taken away is none, nor a capture that was unpacked.
    """
    made_anew = {_name(run, path) for path in run.derived}
    known = _read(run)
    wrong = [
        name
        for name, digest in known.items()
        if (derived or name not in made_anew)
        and (captures or not name.startswith(_CAPTURES))
        and not _holds(run.root, name, digest)
    ]
    unknown = _own_files(run) - known.keys() - made_anew if known else set()
    return [*wrong, *sorted(unknown)]


def _own_files(run: RunFiles) -> set[str]:
    """Name what makes a run; logs and captures may be tidied up or unpacked."""
    counters = run.stats.iterdir() if run.stats.is_dir() else ()
    own = (run.manifest, run.spec, run.plan, *counters)
    return {_name(run, path) for path in own if path.is_file()}


def _holds(root: Path, name: str, digest: str) -> bool:
    path = root / name
    try:
        return _sha256(path) == digest
    except FileNotFoundError:
        unpacked = name.startswith(_CAPTURES) and path.with_suffix("").exists()
        return name.startswith(_LOG) or unpacked
    except (OSError, ValueError):  # a damaged record may name anything
        return False


def _not_derived(run: RunFiles, known: dict[str, str]) -> dict[str, str]:
    derived = {_name(run, path) for path in run.derived}
    return {name: digest for name, digest in known.items() if name not in derived}


def _hashes(run: RunFiles, paths: Iterable[Path]) -> dict[str, str]:
    return {_name(run, path): _sha256(path) for path in paths}


def _name(run: RunFiles, path: Path) -> str:
    return path.relative_to(run.root).as_posix()


def _sha256(path: Path) -> str:
    with open_regular(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read(run: RunFiles) -> dict[str, str]:
    """Give digests by name; a record that is damaged itself fits no file."""
    try:
        with open_regular(run.checksums) as handle:
            text = handle.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    except OSError:
        text = ""
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines if name} or {run.checksums.name: ""}


def _write(run: RunFiles, hashes: dict[str, str]) -> None:
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    write_text(run.checksums, lines)

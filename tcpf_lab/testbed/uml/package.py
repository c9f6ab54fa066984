"""A built kernel as a package: what a machine without compiler and sources needs to run it.

A package is known by the hash of its content.  Those received are kept apart from kernels that were
built: they have no tree, so no module can be built against them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tcpf_lab.results import storage
from tcpf_lab.results.storage import ArchiveError
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml.kernel import KERNEL, LOG, Kernel
from tcpf_lab.testbed.uml.recipe import MODULES, PLUGINS

_RECEIVING = ".receiving-"


@dataclass(frozen=True)
class Package:
    """Kernel, guest programs, modules and ``tc`` plugins in one."""

    digest: str  #: of the content, not of the packed bytes
    packed: bytes


def pack(kernel: Kernel) -> Package:
    """Pack a kernel that was built here."""
    names = _names(kernel.directory)
    return Package(_digest(kernel.directory, names), storage.pack(kernel.directory, names))


def received_directory() -> Path:
    """Return the directory of received packages: beside the built kernels."""
    return uml_kernel.cache_directory().with_name("received")


def received(digest: str, cache: Path | None = None) -> Path | None:
    """Return the directory of a package that was received whole; None if there is none."""
    entry = (cache or received_directory()) / digest
    whole = entry.is_dir() and _digest(entry, _names(entry)) == digest
    return entry if whole else None


def receive(package: Package, cache: Path | None = None) -> Path:
    """Keep a package, unless it is there; another process may do the same at the same time.

    Raises
    ------
    ArchiveError
        If the content does not match its digest.
    OSError
        If it cannot be written.
    """
    root = cache or received_directory()
    uml_kernel.make_cache(root)
    with tempfile.TemporaryDirectory(prefix=_RECEIVING, dir=root, ignore_cleanup_errors=True) as at:
        fresh = Path(at) / "package"
        fresh.mkdir()
        storage.unpack(package.packed, fresh)
        if _digest(fresh, _names(fresh)) != package.digest:
            raise ArchiveError("the received kernel package is corrupted", where=str(root))
        return _put(fresh, root / package.digest)


def at(kernel: Kernel, entry: Path) -> Kernel:
    """Return ``kernel``, which was built elsewhere, as it is in the directory of its package."""
    return replace(kernel, path=entry / KERNEL)


def _put(fresh: Path, entry: Path) -> Path:
    try:
        fresh.rename(entry)
    except OSError:  # there is one, and not an empty one
        if received(entry.name, entry.parent) is None:
            entry.rename(fresh.with_name("damaged"))
            fresh.rename(entry)
    return entry


def _names(entry: Path) -> list[Path]:
    """List what belongs to a package: neither the tree nor the log of the build."""
    parts = (MODULES, PLUGINS)
    return [
        path
        for path in storage.contents(entry)
        if path.parts[0] in parts or (len(path.parts) == 1 and (entry / path).is_file())
        if path.name != LOG
    ]


def _digest(entry: Path, names: list[Path]) -> str:
    """Hash names, contents, and which of the files can be run."""
    digest = hashlib.sha256()
    for name in names:
        path = entry / name
        content = path.read_bytes() if path.is_file() else b""
        run = path.is_file() and os.access(path, os.X_OK)
        digest.update(f"{name}\0{run:d}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()[:32]

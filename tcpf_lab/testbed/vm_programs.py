"""Programs that the guests need and the machine may lack: a tree over its root, if so.

An sshd is not installed for the guests' sake: it would be started here, for everyone to reach.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed import vm_packages
from tcpf_lab.testbed.workshop import Progress

SSHD, BUSYBOX = Path("/usr/sbin/sshd"), "busybox"
NEEDED_BYTES = 100_000_000
#: The same where nothing is missing.
NOTHING = "none"
_INTERPRETED = b"/ld-linux"


def _has_sshd() -> bool:
    return SSHD.exists()


def _has_busybox() -> bool:
    """Whether there is one that needs no libraries, which a guest has not got at first."""
    path = shutil.which(BUSYBOX)
    return path is not None and _INTERPRETED not in Path(path).read_bytes()[:4096]


#: Debian package -> whether this machine has what the guests need of it.
PACKAGES: dict[str, Callable[[], bool]] = {
    "openssh-server": _has_sshd,
    "busybox-static": _has_busybox,
}


def fetch(progress: Progress, cache: Path) -> Path:
    """Return the tree of programs that this machine lacks, downloaded if the cache has it not.

    Raises
    ------
    TestbedError, KernelBuildError
        If the programs cannot be had.
    """
    missing = [package for package, has in PACKAGES.items() if not has()]
    entry = cache / "programs" / ("+".join(missing) or NOTHING)
    if not missing:
        entry.mkdir(parents=True, exist_ok=True)
    elif not (entry / vm_packages.FACTS).exists():
        vm_packages.require_tools()
        packages = vm_packages.with_missing(missing)
        vm_packages.obtain(entry, packages, NEEDED_BYTES, progress)
    return entry


def busybox(tree: Path) -> bytes:
    """Return the program from the tree, or else the machine's.

    Raises
    ------
    TestbedError
        If there is none.
    """
    path = shutil.which(BUSYBOX, path=str(tree / "usr/bin")) or shutil.which(BUSYBOX)
    if path is None:
        raise TestbedError(
            f"there is no '{BUSYBOX}'", where=str(tree), hint="remove that directory, then again"
        )
    return Path(path).read_bytes()

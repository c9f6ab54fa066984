"""Packages of the distribution, downloaded and unpacked into trees for the guests.

Nothing is installed on the machine.  A tree is laid over the machine's root; it is made beside its
place and renamed when whole.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tcpf_lab.errors import TestbedError
from tcpf_lab.results import write_json
from tcpf_lab.testbed.workshop import Progress, Workshop

#: Program -> Debian package; every Debian has the first two.
TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg", "depmod": "kmod"}
TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
FACTS = "packages.json"
#: Directories that are links in a root where everything is below /usr.
_MERGED = ("bin", "sbin", "lib")


def require_tools() -> None:
    """Name the tools for packages that are missing.

    Raises
    ------
    TestbedError
        If any is.
    """
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=TOOL_PATH)]
    if missing:
        raise TestbedError(
            f"what the guests need comes from Debian's archive, and {', '.join(missing)} "
            "is not installed",
            hint=f"on Debian: sudo apt-get install {' '.join(TOOLS[tool] for tool in missing)}",
        )


def dependencies(package: str) -> list[str]:
    """Return what a package depends on, as ``apt`` knows it now."""
    return re.findall(r"^\s*Depends: (\S+)$", _ask("apt-cache", "depends", package), re.MULTILINE)


def with_missing(packages: Sequence[str]) -> list[str]:
    """Return the packages and all that they need and this machine has not got."""
    reply = _ask("apt-get", "-s", "-q", "--no-install-recommends", "install", *packages)
    # With one that would only be renewed, the version that is here stands before the new one.
    needed = re.findall(r"^Inst (\S+) \(", reply, re.MULTILINE)
    return [*packages, *(package for package in needed if package not in packages)]


def obtain(
    entry: Path,
    packages: Sequence[str],
    needed_bytes: int,
    progress: Progress,
    finish: Callable[[Workshop, Path], None] = lambda _shop, _tree: None,
) -> None:
    """Download packages and unpack them into the tree ``entry``.

    Parameters
    ----------
    entry : Path
        The tree; its file ``packages.json`` is there when it is whole.
    packages : sequence of str
        Names, as ``apt`` knows them.
    needed_bytes : int
        Most that the tree occupies while it is made.
    progress : callable
        Told phases and shares.
    finish : callable, optional
        What is still to be done with the tree.

    Raises
    ------
    TestbedError, KernelBuildError
        If there is no room, or a step fails.
    """
    work = entry.with_name(f".making-{entry.name}")
    shutil.rmtree(work, ignore_errors=True)
    (work / "tree/usr").mkdir(parents=True)
    free = shutil.disk_usage(work).free
    # Stays after a failure: the error points to it.
    log = entry.with_name(f"fetch-{entry.name}.log")
    log.unlink(missing_ok=True)
    try:
        if free < needed_bytes:
            raise TestbedError(
                f"{needed_bytes / 1e9:.1f} GB are needed, there are {free / 1e9:.1f} GB free",
                where=str(entry.parent),
                hint="make room, or set XDG_CACHE_HOME to a directory on a larger disk",
            )
        shop = Workshop(work, log, progress, _environment())
        _unpack(shop, packages)
        finish(shop, work / "tree")
        write_json(work / "tree" / FACTS, {"packages": list(packages)})
        shutil.rmtree(entry, ignore_errors=True)
        (work / "tree").rename(entry)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    log.unlink()


def _unpack(shop: Workshop, packages: Sequence[str]) -> None:
    shop.progress(f"download {packages[0]}", 0.0)
    # Otherwise, for root, it complains of a directory that its own user cannot write to.
    shop.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages])
    tree = shop.tree / "tree"
    for package in sorted(shop.tree.glob("*.deb")):
        shop.progress(f"unpack {package.name.partition('_')[0]}", 0.5)
        shop.run(["dpkg-deb", "-x", package.name, tree.name])
        package.unlink()
    for name in _MERGED:
        if (tree / name).is_dir():  # it would hide the link
            shop.run(["cp", "-a", "-l", f"tree/{name}", "tree/usr/"])
            shutil.rmtree(tree / name)


def _environment() -> dict[str, str]:
    proxies = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {"PATH": TOOL_PATH, "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C"} | proxies


def _ask(*command: str) -> str:
    reply = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    return reply.stdout

"""The source of a version of Linux: the distribution's package, installed or fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.base.errors import KernelBuildError
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.workshop import Progress, Workshop, one_at_a_time, require_room

#: Where Debian's packages put them, and where those that are fetched are kept.
INSTALLED = Path("/usr/src")
#: Suites of Debian's archive, the first that has the package is taken: small ones first.
SUITES = ("trixie-backports", "bookworm", "trixie", "forky", "sid")
#: Bytes of the lists, the package and the tarball in it.
NEEDED_BYTES = 800_000_000


def build(
    version: str = "",
    tarball: Path | None = None,
    progress: Progress = lambda _phase, _share: None,
    variant: str = "standard",
) -> uml_kernel.Kernel:
    """Build the kernel of a version, whose source is fetched if need be; see `uml_kernel.build`.

    Parameters
    ----------
    version : str, optional
        Of Linux, ``7.3``; by default the tarball's, or else the one that experiments run on.
    tarball : Path, optional
        Its source; by default the package's.
    progress : callable, optional
        Told phases and shares.
    variant : str, optional
        One of `uml_recipe.VARIANTS`.
    """
    if tarball is not None and not version:
        _, found = uml_recipe.source_version(tarball)
        version = ".".join(found.split(".")[:2])
    recipe = uml_recipe.load(variant=variant, version=version)
    source = tarball or obtain(recipe.version, progress)
    return uml_kernel.build(source, None, progress, recipe)


def package(version: str) -> str:
    """Name the package that has the source of a version."""
    return f"linux-source-{version}"


def find(version: str, cache: Path | None = None) -> Path | None:
    """Return the tarball of a version that is installed, or was fetched before, if any."""
    name = f"{package(version)}.tar.xz"
    places = (INSTALLED, cache or cache_directory())
    return next((place / name for place in places if (place / name).is_file()), None)


def cache_directory() -> Path:
    """Return the directory of fetched sources."""
    return uml_kernel.cache_directory().with_name("source")


def obtain(version: str, progress: Progress, cache: Path | None = None) -> Path:
    """Return the tarball of a version, which is fetched if need be.

    ``apt`` has a configuration, lists and a cache of its own; nothing of the system's is changed.

    Parameters
    ----------
    version : str
        Of Linux, ``7.3``.
    progress : callable
        Told phases and shares.
    cache : Path, optional
        By default `cache_directory`.

    Raises
    ------
    KernelBuildError
        If no suite of Debian's archive has it, the archive cannot be reached, or there is no room.
    """
    root = cache or cache_directory()
    if tarball := find(version, root):
        return tarball
    uml_kernel.make_cache(root)
    with (
        one_at_a_time(root, progress),
        tempfile.TemporaryDirectory(
            prefix=".fetching-", dir=root, ignore_cleanup_errors=True
        ) as at,
    ):
        if tarball := find(version, root):
            return tarball
        require_room(root, NEEDED_BYTES, KernelBuildError, "the source of a kernel needs {}")
        found = _fetched(version, Path(at), progress)
        return found.rename(root / found.name)


def _fetched(version: str, work: Path, progress: Progress) -> Path:
    """Fetch the package into ``work`` and unpack it there."""
    archive, key = _archive()
    log = work.with_name("fetch.log")
    log.unlink(missing_ok=True)
    shop = Workshop(work, log, progress, _environment())
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    progress("fetch", 0.0)
    for number, suite in enumerate(SUITES):
        line = f"deb [signed-by={key}] {archive} {suite} main\n"
        (work / "sources.list").write_text(line, encoding="utf-8")
        shop.run(_apt(work, "update"))
        reply = subprocess.run(
            _apt(work, "download", "--print-uris", package(version)),
            env=_environment(),
            capture_output=True,
            check=False,
        )
        progress("fetch", 0.1 * (number + 1) / len(SUITES))
        if reply.returncode == 0:
            break
    else:
        raise KernelBuildError(
            f"no suite of the Debian archive has {package(version)}",
            where=archive,
            hint="give --source TARBALL of it, as from kernel.org",
        )
    shop.run(_apt(work, "download", package(version)))
    (deb,) = work.glob("*.deb")
    progress("fetch", 0.9)
    shop.run(["dpkg-deb", "-x", deb.name, "tree"])
    progress("fetch", 1.0)
    log.unlink()
    return work / "tree/usr/src" / f"{package(version)}.tar.xz"


def _apt(work: Path, *words: str) -> list[str]:
    options = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *words]


def _archive() -> tuple[str, str]:
    """Return address and key of the Debian archive that the system gets its packages from."""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        raise KernelBuildError(
            "sources of kernels are fetched with apt-get and dpkg-deb, which are missing",
            hint="give --source TARBALL",
        )
    for release, address, key in _targets():
        # Not one of updates alone.
        if release.isalpha():
            return address, key if key.startswith("/") else _KEY
    raise KernelBuildError(
        "the system has no Debian archive among its package sources",
        where="apt-get indextargets",
        hint="give --source TARBALL",
    )


_KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _targets() -> Iterator[tuple[str, str, str]]:
    """Yield release, address and key (or nothing) of each index of Debian's main component."""
    wanted = ("Created-By: Packages", "Origin: Debian", "Component: main")
    reply = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI) $(SIGNED_BY)", *wanted],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in reply.stdout.splitlines():
        release, address, key = line.split(maxsplit=2)
        yield release, address, key


def _environment() -> dict[str, str]:
    proxies = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {"PATH": os.environ.get("PATH", ""), "HOME": "/", "LC_ALL": "C"} | proxies

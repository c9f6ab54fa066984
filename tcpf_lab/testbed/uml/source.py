"""Building a kernel by version or by name; the source of a version is fetched if need be."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tcpf_lab.base.errors import KernelAbsentError, KernelBuildError, NoRoomError, RequestError
from tcpf_lab.results.command import command
from tcpf_lab.testbed.uml import boot, registered
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml.recipe import INSTALLED, package
from tcpf_lab.testbed.workshop import Progress, Workshop, last_lines, one_at_a_time, require_room

#: Suites of Debian's archive, of which the one with the latest point release is taken.
SUITES = ("trixie-backports", "bookworm", "trixie", "forky", "sid")
_FETCHING = ".fetching-"
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
        Of Linux, ``7.3``, or the name of a registered kernel; by default the tarball's version, or
        else the one that experiments run on.
    tarball : Path, optional
        Its source; by default the package's.
    progress : callable, optional
        Called with phases and shares.
    variant : str, optional
        One of `uml_recipe.VARIANTS`.
    """
    if registered.is_name(version):
        if tarball is not None:
            raise RequestError(
                f"the source of '{version}' is registered",
                where="--source",
                hint=f"`{command('kernel', 'add', version, '--source', tarball)}`",
            )
        return build_registered(registered.get(version), progress, variant)
    if tarball is not None and not version:
        _, found = uml_recipe.source_version(tarball)
        version = uml_recipe.series_of(found)
    recipe = uml_recipe.load(variant=variant, version=version)
    source = tarball or obtain(recipe.version, progress)
    return uml_kernel.build(source, None, progress, recipe)


def build_registered(
    what: registered.Registration, progress: Progress, variant: str = "standard", revision: str = ""
) -> uml_kernel.Kernel:
    """Build a registered kernel as its source is now, unless it is there; boot it once.

    Of a git tree, `make` compiles only what has changed since the last build of the name.

    Parameters
    ----------
    what : Registration
        The kernel; it need not be on file.
    progress : callable
        Called with phases and shares.
    variant : str, optional
        One of `uml_recipe.VARIANTS`.
    revision : str, optional
        Of a git tree: take this one, not what is checked out.

    Raises
    ------
    KernelBuildError
        If a patch does not apply, something does not compile, or the kernel does not boot.
    """
    order = registered.look(what, variant, revision, progress)
    kernel = uml_kernel.entry_of(order) or build_order(order)
    if variant == "standard" and not revision:
        return registered.remember(what.name, order, kernel)
    return kernel


def build_order(order: uml_kernel.Order) -> uml_kernel.Kernel:
    """Build what `registered.look` has seen, and boot it once."""
    return uml_kernel.build_order(dataclasses.replace(order, check=boot.check))


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
        Called with phases and shares.
    cache : Path, optional
        By default `cache_directory`.

    Raises
    ------
    KernelAbsentError
        If no suite of Debian's archive has it, or the archive cannot be reached.
    NoRoomError
        If the disk is full.
    """
    root = cache or cache_directory()
    if tarball := find(version, root):
        return tarball
    uml_kernel.make_cache(root)
    with one_at_a_time(root, progress):
        if tarball := find(version, root):
            return tarball
        for leftover in root.glob(_FETCHING + "*"):  # of one that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        require_room(root, NEEDED_BYTES, NoRoomError, "the source of a kernel needs {}")
        with tempfile.TemporaryDirectory(
            prefix=_FETCHING, dir=root, ignore_cleanup_errors=True
        ) as at:
            try:
                found = _fetched(version, Path(at), progress)
            except KernelBuildError as error:
                if isinstance(error, NoRoomError):
                    raise
                raise KernelAbsentError(error.message, where=error.where, hint=error.hint) from None
            return found.rename(root / found.name)


def _fetched(version: str, work: Path, progress: Progress) -> Path:
    """Fetch the package into ``work`` and unpack it there."""
    archive = _archive()
    log = work.with_name("fetch.log")
    log.unlink(missing_ok=True)
    shop = Workshop(work, log, progress, _environment())
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    lines = (f"deb [signed-by={_KEY}] {archive} {suite} main\n" for suite in SUITES)
    (work / "sources.list").write_text("".join(lines), encoding="utf-8")
    (work / "preferences").write_text(_BY_VERSION, encoding="utf-8")
    progress("fetch", 0.0)
    try:
        shop.run(_apt(work, "update"))
    except KernelBuildError as error:
        if isinstance(error, NoRoomError):
            raise
        # A suite is missing or away: another may have it.
    progress("fetch", 0.1)
    wanted = _apt(work, "download", "--print-uris", package(version))
    reply = subprocess.run(wanted, env=_environment(), capture_output=True, check=False)
    if reply.returncode:
        faults = [line for line in last_lines(log) if line.startswith(("E: ", "W: "))]
        raise KernelBuildError(
            f"no suite of the Debian archive has {package(version)}"
            + "".join(f"\n    {line}" for line in faults),
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


#: Otherwise those of backports come last.
_BY_VERSION = "Package: *\nPin: release *\nPin-Priority: 500\n"


def _apt(work: Path, *words: str) -> list[str]:
    options = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": work / "preferences",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::status": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    return ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *words]


def _archive() -> str:
    """Return the address of the Debian archive that the system gets its packages from."""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        raise KernelBuildError(
            "sources of kernels are fetched with apt-get and dpkg-deb, which are missing",
            hint="give --source TARBALL",
        )
    wanted = ("Created-By: Packages", "Origin: Debian", "Component: main")
    reply = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", *wanted],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in reply.stdout.splitlines():
        release, address = line.split(maxsplit=1)
        # Not one of updates alone.
        if release.isalpha():
            return address
    raise KernelBuildError(
        "the system knows no Debian archive",
        where="apt-get indextargets",
        hint="run apt-get update, or give --source TARBALL",
    )


_KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _environment() -> dict[str, str]:
    proxies = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {"PATH": os.environ.get("PATH", ""), "HOME": "/", "LC_ALL": "C"} | proxies

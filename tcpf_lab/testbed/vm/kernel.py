"""Kernels of the distribution for the guests: packages from its archive, unpacked in the cache.

An entry, named after the release, is a tree that a guest lays over the machine's root: modules, and
what building modules needs.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.base import is_of
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.workshop import Progress, Workshop, require_room

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
            "the virtual machines are made of Debian packages; missing programs: "
            f"{', '.join(missing)}",
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
        Called with phases and shares.
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
    # Stays after a failure: the error points to it.
    log = entry.with_name(f"fetch-{entry.name}.log")
    log.unlink(missing_ok=True)
    try:
        require_room(entry.parent, needed_bytes, TestbedError, "{} are needed")
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


#: What `--kernel` may be; the first is the default.
SERIES = ("6.12", "6.1")
ARCHITECTURE = "amd64"
#: Most that an entry occupies while it is made.
NEEDED_BYTES = 800_000_000
#: Of the header of a PC's kernel image: its mark, and where it tells the place of its version.
_MAGIC, _MAGIC_AT, _TEXT_AT, _SECTOR = b"HdrS", 0x202, 0x20E, 0x200
_OPEN: dict[str, Callable[[bytes], bytes]] = {".ko": bytes, ".xz": lzma.decompress}


@dataclass(frozen=True)
class GuestKernel:
    """A kernel that has been unpacked."""

    directory: Path
    release: str  #: as `uname -r` gives it

    @property
    def image(self) -> Path:
        """What the emulator boots."""
        return self.directory / "boot" / f"vmlinuz-{self.release}"

    @property
    def build(self) -> str | None:
        """Which build of the release it is, as `uname -v` gives it; None if the image is silent.

        An image for the PC has a text of release, builder and build, and says where, relative to
        the end of its boot sector.
        """
        content = self.image.read_bytes()
        if content[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] != _MAGIC:
            return None
        place = _SECTOR + int.from_bytes(content[_TEXT_AT : _TEXT_AT + 2], "little")
        text = content[place : content.find(b"\0", place)].decode("ascii", "replace")
        return text.partition(") ")[2] or None

    @property
    def modules(self) -> Path:
        """Directory of its modules."""
        return self.directory / "usr/lib/modules" / self.release

    def module_files(self, *names: str) -> list[Path]:
        """Return the files of modules and of those that they need, in the order to load them.

        Those that are part of the kernel have no file.

        Raises
        ------
        TestbedError
            If the kernel has no such module.
        """
        needs = self._needs()
        listed = (self.modules / "modules.builtin").read_text().split()
        needs |= {module_name(Path(file)): [] for file in listed}
        found: dict[Path, None] = {}
        for name in names:
            if name not in needs:
                raise TestbedError(f"Linux {self.release} has no module '{name}'")
            found |= dict.fromkeys(reversed(needs[name]))
        return list(found)

    def _needs(self) -> dict[str, list[Path]]:
        """Return every module's file, then those it needs; what comes later is loaded earlier."""
        needs = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            own, _, others = line.partition(":")
            files = [self.modules / word for word in (own, *others.split())]
            needs[module_name(files[0])] = files
        return needs


def module_name(file: Path) -> str:
    """Return the name that the kernel has for a module's file."""
    return file.name.partition(".")[0].replace("-", "_")


def module_content(file: Path) -> bytes:
    """Return a module as the kernel loads it."""
    if file.suffix not in _OPEN:
        raise TestbedError("unknown compression of a kernel module", where=str(file))
    return _OPEN[file.suffix](file.read_bytes())


def cache_directory() -> Path:
    """Return the directory of the VM testbed: ``$XDG_CACHE_HOME/tcpf-lab/vm``."""
    return kernel.cache_directory().with_name("vm")


def check_series(series: str) -> None:
    """Refuse an unknown series of kernels.

    Raises
    ------
    RequestError
        Listing the allowed ones.
    """
    if series not in SERIES:
        raise RequestError(f"unknown kernel '{series}'; allowed: {', '.join(SERIES)}")


def find(series: str, cache: Path | None = None) -> GuestKernel | None:
    """Return the kernel of a series that was unpacked last, if there is one."""
    entries = (cache or cache_directory()).glob(f"kernels/[!.]*/{FACTS}")
    for facts in sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True):
        if is_of(facts.parent.name, series):
            return GuestKernel(facts.parent, facts.parent.name)
    return None


def fetch(series: str, progress: Progress, cache: Path | None = None) -> GuestKernel:
    """Return a kernel of the series, downloaded if the cache has none.

    Raises
    ------
    RequestError
        If there is no such series.
    TestbedError, KernelBuildError
        If the distribution has no such kernel, or downloading or unpacking fails.
    """
    check_series(series)
    if found := find(series, cache):
        return found
    require_tools()
    release = _release(series)
    entry = (cache or cache_directory()) / "kernels" / release
    packages = [f"linux-image-{release}", *_headers(release)]
    list_modules = partial(_list_modules, release)
    obtain(entry, packages, NEEDED_BYTES, progress, list_modules)
    return GuestKernel(entry, release)


def _release(series: str) -> str:
    """Return the present release of a series, ``6.12.117+deb12-amd64``."""
    metapackages = (f"linux-image-{series}-{ARCHITECTURE}", f"linux-image-{ARCHITECTURE}")
    offered = []
    for metapackage in metapackages:
        for package in dependencies(metapackage):
            release = package.removeprefix("linux-image-")
            if is_of(release, series):
                return release
            offered.append(release)
    known = f", only {', '.join(offered)}" if offered else ""
    raise TestbedError(
        f"apt offers no Linux {series} for {ARCHITECTURE}{known}",
        where=" ".join(metapackages),
        hint="sudo apt-get update (Debian 12 has 6.1, and 6.12 in its updates; Debian 13 has 6.12)",
    )


def _headers(release: str) -> Iterator[str]:
    """Yield the packages that building modules needs, beside a compiler."""
    package = f"linux-headers-{release}"
    yield package
    for needed in dependencies(package):
        if needed.startswith(("linux-headers-", "linux-kbuild-")):
            yield needed


def _list_modules(release: str, shop: Workshop, tree: Path) -> None:
    shop.progress("list modules", 0.8)
    # depmod looks in /lib, wherever that leads.
    (tree / "lib").symlink_to("usr/lib")
    shop.run(["depmod", "-b", str(tree), release])
    (tree / "lib").unlink()
    shop.progress("list modules", 1.0)

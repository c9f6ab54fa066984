"""Kernels of the distribution for the guests: packages from its archive, unpacked in the cache.

An entry, named after the release, is a tree that a guest lays over the machine's root: modules, and
what building modules needs.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcpf_lab.errors import RequestError, TestbedError
from tcpf_lab.testbed import uml_kernel, vm_packages
from tcpf_lab.testbed.workshop import Progress, Workshop

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
        raise TestbedError("a module is compressed in an unknown way", where=str(file))
    return _OPEN[file.suffix](file.read_bytes())


def cache_directory() -> Path:
    """Return where everything of the VM testbed is kept: ``$XDG_CACHE_HOME/tcpf-lab/vm``."""
    return uml_kernel.cache_directory().with_name("vm")


def check_series(series: str) -> None:
    """Refuse a series of kernels that the testbed has not got.

    Raises
    ------
    RequestError
        Listing the allowed ones.
    """
    if series not in SERIES:
        raise RequestError(f"unknown kernel '{series}'; allowed: {', '.join(SERIES)}")


def find(series: str, cache: Path | None = None) -> GuestKernel | None:
    """Return the kernel of a series that was unpacked last, if there is one."""
    entries = (cache or cache_directory()).glob(f"kernels/[!.]*/{vm_packages.FACTS}")
    for facts in sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True):
        if _is_of(facts.parent.name, series):
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
    vm_packages.require_tools()
    release = _release(series)
    entry = (cache or cache_directory()) / "kernels" / release
    packages = [f"linux-image-{release}", *_headers(release)]
    list_modules = partial(_list_modules, release)
    vm_packages.obtain(entry, packages, NEEDED_BYTES, progress, list_modules)
    return GuestKernel(entry, release)


def _is_of(release: str, series: str) -> bool:
    return release.startswith((f"{series}.", f"{series}-"))


def _release(series: str) -> str:
    """Return the present release of a series, ``6.12.117+deb12-amd64``."""
    metapackages = (f"linux-image-{series}-{ARCHITECTURE}", f"linux-image-{ARCHITECTURE}")
    offered = []
    for metapackage in metapackages:
        for package in vm_packages.dependencies(metapackage):
            release = package.removeprefix("linux-image-")
            if _is_of(release, series):
                return release
            offered.append(release)
    known = f"; it has {', '.join(offered)}" if offered else ""
    raise TestbedError(
        f"apt knows no Linux {series} for {ARCHITECTURE}{known}",
        where=" ".join(metapackages),
        hint="sudo apt-get update (6.1 is Debian 12's own kernel, 6.12 is in its updates and "
        "Debian 13's own)",
    )


def _headers(release: str) -> Iterator[str]:
    """Yield the packages that building modules needs, beside a compiler."""
    package = f"linux-headers-{release}"
    yield package
    for needed in vm_packages.dependencies(package):
        if needed.startswith(("linux-headers-", "linux-kbuild-")):
            yield needed


def _list_modules(release: str, shop: Workshop, tree: Path) -> None:
    shop.progress("list modules", 0.8)
    # depmod looks in /lib, wherever that leads.
    (tree / "lib").symlink_to("usr/lib")
    shop.run(["depmod", "-b", str(tree), release])
    (tree / "lib").unlink()
    shop.progress("list modules", 1.0)

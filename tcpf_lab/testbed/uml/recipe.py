"""What the virtual-time kernel is made from, and the hash that identifies the result."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, RequestError
from tcpf_lab.results.layout import write_json

#: Where Debian's package puts the source.
DEFAULT_SOURCE = Path("/usr/src/linux-source-6.12.tar.xz")
SOURCE_PACKAGE = "linux-source-6.12"
#: Sources, below the ``kernel`` directory, of the programs that make traffic, here or on a host.
TRAFFIC_PROGRAMS = {
    "tcpf-traffic": ("traffic/tcpf-traffic.c", "traffic/instant.c", "traffic/instant.h"),
    "tcpf-source": (
        "traffic/tcpf-source.c",
        "traffic/instant.c",
        "traffic/instant.h",
        "traffic/stream.h",
    ),
    "tcpf-users": (
        "traffic/tcpf-users.c",
        "traffic/instant.c",
        "traffic/instant.h",
        "traffic/stream.h",
    ),
}
#: Guest programs built along with the kernel.
PROGRAMS = {
    **TRAFFIC_PROGRAMS,
    "tcpf-guest": (
        "uml/guest.c",
        "uml/guest_plan.c",
        "uml/guest_program.c",
        "uml/guest_node.c",
        "uml/guest_module.c",
        "uml/guest.h",
    ),
}
#: Directories that kbuild makes modules in.
KBUILD_PARTS = ("sched", "drivers")
#: Those, that of the plugins by which ``tc`` and ``ip`` know their words, and the headers of both.
MODULE_PARTS = (*KBUILD_PARTS, "tc", "include")
#: Variant -> fragments on top of ``allnoconfig``, the later ones overriding the earlier, and
#: directories of patches.
VARIANTS = {
    "standard": (("uml/config",), ("uml/patches",)),
    "kasan": (("uml/config", "uml/config.kasan"), ("uml/patches", "uml/patches/kasan")),
    "unlogged": (("uml/config", "uml/config.unlogged"), ("uml/patches",)),
}
#: Variant -> one with the same patches.  Where neither has been built, both are, in one source
#: tree: for the second little is compiled again.
BUILT_WITH = {"unlogged": "standard"}
#: Static: in a guest every page that a dynamic linker touches costs 20 us.  Without contraction a
#: sum of products, and so a random draw, is the same on every processor.
PROGRAM_FLAGS = (
    *("-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread", "-static"),
)
#: Names, dates and paths that a kernel build would otherwise put into its result.
MAKE_ENVIRONMENT = {
    "LC_ALL": "C",
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    "KBUILD_BUILD_USER": "tcpf-lab",
    "KBUILD_BUILD_HOST": "tcpf-lab",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
}
MAKE = ("make", "ARCH=um")
#: Raised when the way of building or the layout of a cache entry changes.
BUILD_FORMAT = 1


@dataclass(frozen=True)
class Recipe:
    """The project's own part: version, configuration, patches, guest programs, modules."""

    root: Path
    variant: str = "standard"

    @cached_property
    def version(self) -> str:
        """Kernel version, e.g. ``6.12``; of which point releases are accepted."""
        return (self.root / "uml/version").read_text(encoding="ascii").strip()

    @property
    def configs(self) -> tuple[Path, ...]:
        """Fragments on top of ``allnoconfig``."""
        fragments, _ = VARIANTS[self.variant]
        return tuple(self.root / name for name in fragments)

    @property
    def config(self) -> str:
        """All fragments as one, each option once, with its last value."""
        options: dict[str, str] = {}
        for fragment in self.configs:
            for line in map(str.strip, fragment.read_text(encoding="ascii").splitlines()):
                if line and not line.startswith("#"):
                    options[line.partition("=")[0]] = line
        return "".join(f"{line}\n" for line in options.values())

    @cached_property
    def patches(self) -> tuple[Path, ...]:
        """Patches in the order of their numbers, those of the variant last."""
        _, directories = VARIANTS[self.variant]
        found = (sorted((self.root / name).glob("[0-9]*.patch")) for name in directories)
        return tuple(itertools.chain.from_iterable(found))

    @property
    def programs(self) -> dict[str, tuple[Path, ...]]:
        """Source files of each guest program, headers among them."""
        return {
            name: tuple(self.root / source for source in sources)
            for name, sources in PROGRAMS.items()
        }

    @property
    def program_files(self) -> tuple[Path, ...]:
        """All source files of the guest programs."""
        return tuple(file for sources in self.programs.values() for file in sources)

    @property
    def module_files(self) -> tuple[Path, ...]:
        """Sources of the modules and of the ``tc`` plugins, and what tells how to build them."""
        sources = (
            path
            for part in MODULE_PARTS
            for path in (self.root / part).rglob("*")
            if path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile")
        )
        return tuple(sorted(path for path in sources if not path.name.endswith(".mod.c")))

    @cached_property
    def kernel_digest(self) -> str:
        """Hash of what the kernel is made from: version, fragment, patches, way of building."""
        parts = {
            "format": BUILD_FORMAT,
            "version": self.version,
            "make": [*MAKE, MAKE_ENVIRONMENT],
            "files": self._hashes(*self.configs, *self.patches),
        }
        return _digest(parts)

    @cached_property
    def digest(self) -> str:
        """Hash of everything: the kernel, the guest programs, modules and plugins."""
        parts = {
            "kernel": self.kernel_digest,
            "flags": PROGRAM_FLAGS,
            "files": self._hashes(*self.program_files, *self.module_files),
        }
        return _digest(parts)

    def _hashes(self, *files: Path) -> dict[str, str]:
        return {str(file.relative_to(self.root)): sha256_of(file) for file in files}


def load(root: Path | None = None, variant: str = "standard") -> Recipe:
    """Read the recipe in ``root`` (default: the project's ``kernel`` directory).

    Raises
    ------
    RequestError
        If there is no such variant.
    KernelBuildError
        If a file is missing.
    """
    if variant not in VARIANTS:
        raise RequestError(f"unknown variant '{variant}'; allowed: {', '.join(VARIANTS)}")
    recipe = Recipe(root or shipped.directory("kernel"), variant)
    makefiles = (*(f"{part}/Kbuild" for part in KBUILD_PARTS), "tc/Makefile")
    others = (recipe.root / name for name in ("uml/version", *makefiles))
    for needed in (*others, *recipe.configs, *recipe.program_files):
        if not needed.is_file():
            raise KernelBuildError(
                "no such file; the kernel directory is incomplete",
                where=str(needed),
                hint="git checkout -- kernel, or install tcpf-lab again",
            )
    return recipe


def key(digest: str, source_sha256: str, compiler: str) -> str:
    """Return the name of what a digest becomes with a source and a compiler (16 hex digits)."""
    return _digest({"recipe": digest, "source": source_sha256, "compiler": compiler})[:16]


def compiler_version() -> str:
    """Return what the C compiler calls itself, ``none`` if there is none."""
    try:
        reply = subprocess.run(
            ["gcc", "--version"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return reply.stdout.partition("\n")[0]


def source_version(source: Path) -> tuple[str, str]:
    """Return a source tarball's top directory and its kernel version (``6.12.117``).

    Raises
    ------
    KernelBuildError
        If the file is missing, not a tarball or not a kernel source.
    """
    if not source.is_file():
        raise KernelBuildError(
            "no kernel source there",
            where=str(source),
            hint=f"sudo apt-get install {SOURCE_PACKAGE}, or give --source TARBALL",
        )
    try:
        with tarfile.open(source, mode="r|*") as archive:
            for member in archive:
                top, _, name = member.name.removeprefix("./").partition("/")
                handle = archive.extractfile(member) if name == "Makefile" else None
                if handle:
                    return top, _makefile_version(handle.read().decode("utf-8", "replace"), source)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise KernelBuildError(f"cannot be read as a tarball: {error}", where=str(source)) from None
    raise KernelBuildError("not a kernel source: no Makefile in it", where=str(source))


def check_version(found: str, recipe: Recipe, source: Path) -> None:
    """Refuse a source of another version than the recipe's."""
    if found != recipe.version and not found.startswith(recipe.version + "."):
        raise KernelBuildError(
            f"source of another version: it is Linux {found}, "
            f"configuration and patches are for {recipe.version}",
            where=str(source),
            hint=f"sudo apt-get install {SOURCE_PACKAGE}, or give --source TARBALL of "
            f"linux-{recipe.version}.x",
        )


def source_sha256(source: Path, cache: Path) -> str:
    """Hash a source tarball, or recall the hash from the last time (same size and time)."""
    info = source.stat()
    seen = {"path": str(source.resolve()), "size": info.st_size, "mtime_ns": info.st_mtime_ns}
    memory = cache / "source.json"
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if isinstance(known, dict) and known.get("file") == seen:
        return str(known["sha256"])
    digest = sha256_of(source)
    write_json(memory, {"file": seen, "sha256": digest})
    return digest


def sha256_of(path: Path) -> str:
    """Hash a file's content."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _makefile_version(text: str, source: Path) -> str:
    lines = (line.partition("=") for line in text.splitlines()[:8])
    values = {name.strip(): value.strip() for name, _, value in lines}
    numbers = [values.get(word, "") for word in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if not all(number.isdigit() for number in numbers):
        raise KernelBuildError("not a kernel source: no version in its Makefile", where=str(source))
    return ".".join(numbers)


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

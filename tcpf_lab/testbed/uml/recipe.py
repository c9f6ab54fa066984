"""How the virtual-time kernel is made, from what, and the hash that identifies the result.

The steps of a build - unpack, patch, configure, compile, keep what modules need - work in a build
directory of their own and know nothing about the cache.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelAbsentError, KernelBuildError, RequestError
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.workshop import Workshop, last_lines

#: Where Debian's packages put sources.
INSTALLED = Path("/usr/src")


def package(version: str) -> str:
    """Name Debian's package that has the source of a version."""
    return f"linux-source-{version}"


DEFAULT_SOURCE = INSTALLED / f"{package('6.12')}.tar.xz"
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
    "tcpf-probe": (
        "traffic/tcpf-probe.c",
        "traffic/probe_datagram.c",
        "traffic/probe_exchange.c",
        "traffic/instant.c",
        "traffic/instant.h",
        "traffic/probe.h",
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
#: Patches for all versions, in directories below it those for one and the later ones.
PATCHES = "uml/patches"
#: Variant -> fragments on top of ``allnoconfig``, the later ones overriding the earlier, and
#: directories of patches.
VARIANTS = {
    "standard": (("uml/config",), (PATCHES,)),
    "kasan": (("uml/config", "uml/config.kasan"), (PATCHES, f"{PATCHES}/kasan")),
    "unlogged": (("uml/config", "uml/config.unlogged"), (PATCHES,)),
}
#: Variant -> one with the same patches.  Where neither has been built, both are, in one source
#: tree: for the second little is compiled again.
BUILT_WITH = {"unlogged": "standard"}
#: Options of registered kernels: `boot` shows the messages of one that hangs before its console.
OF_REGISTERED = ("CONFIG_EARLY_PRINTK=y",)
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
class Added:
    """The user's part of a registered kernel: patches after the project's, configuration."""

    source: str  #: ``git`` or ``tarball``
    patches: tuple[Path, ...] = ()
    config: tuple[str, ...] = ()  #: lines, each an option


@dataclass(frozen=True)
class Recipe:
    """The project's own part: version, configuration, patches, guest programs, modules."""

    root: Path
    variant: str = "standard"
    version: str = ""  #: of Linux, ``6.12``, of which point releases are accepted
    added: Added | None = None  #: what a registered kernel has beyond that

    @cached_property
    def series(self) -> str:
        """Which patches and options, beside those of all versions: ``6.12``, or a later Linux's."""
        known = all_series(self.root)
        earlier = [each for each in known if in_numbers(each) <= in_numbers(self.version)]
        return earlier[-1] if earlier else ""

    @property
    def configs(self) -> tuple[Path, ...]:
        """Fragments on top of ``allnoconfig``."""
        fragments, _ = VARIANTS[self.variant]
        found = [self.root / name for name in fragments]
        own = self.root / f"uml/config.{self.series}"
        return (*found, own) if own.is_file() else tuple(found)

    @property
    def config(self) -> str:
        """All fragments as one, each option once, with its last value."""
        options: dict[str, str] = {}
        for fragment in self.configs:
            for line in map(str.strip, fragment.read_text(encoding="ascii").splitlines()):
                if line and not line.startswith("#"):
                    options[line.partition("=")[0]] = line
        for line in (*OF_REGISTERED, *self.added.config) if self.added else ():
            options[line.partition("=")[0]] = line
        return "".join(f"{line}\n" for line in options.values())

    @cached_property
    def patches(self) -> tuple[Path, ...]:
        """Patches by number, that of the series after that of all; those of the variant last."""
        _, directories = VARIANTS[self.variant]
        found = [sorted((self.root / name).glob("[0-9]*.patch")) for name in directories]
        if self.series:
            found[0] += (self.root / PATCHES / self.series).glob("[0-9]*.patch")
            found[0].sort(key=lambda patch: (patch.name, len(patch.parts)))
        return (*itertools.chain.from_iterable(found), *(self.added.patches if self.added else ()))

    @property
    def patch_names(self) -> tuple[str, ...]:
        """Names of the patches; of those for a version or variant with their directory."""
        return tuple(map(self.name_of, self.patches))

    def name_of(self, patch: Path) -> str:
        """Name a patch: the project's below their directory, the user's by their path."""
        own = self.root / PATCHES
        return str(patch.relative_to(own) if patch.is_relative_to(own) else patch)

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
        """Sources and makefiles of the modules and of the ``tc`` plugins."""
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
        added = self.added
        own = self.patches[: -len(added.patches)] if added and added.patches else self.patches
        parts = {
            "format": BUILD_FORMAT,
            "version": self.version,
            "make": [*MAKE, MAKE_ENVIRONMENT],
            "files": self._hashes(*self.configs, *own),
        }
        if added:
            patches = [sha256_of(patch) for patch in added.patches]
            parts["added"] = [added.source, OF_REGISTERED, added.config, patches]
        return _digest(parts)

    @cached_property
    def digest(self) -> str:
        """Hash of everything: the kernel, the guest programs, modules and plugins."""
        return _digest({"kernel": self.kernel_digest, **self._guest})

    @cached_property
    def guest_digest(self) -> str:
        """Hash of what guest programs, modules and plugins are made from, but for the kernel."""
        return _digest(self._guest)

    @property
    def _guest(self) -> dict[str, object]:
        files = self._hashes(*self.program_files, *self.module_files)
        return {"flags": PROGRAM_FLAGS, "files": files}

    def _hashes(self, *files: Path) -> dict[str, str]:
        return {str(file.relative_to(self.root)): sha256_of(file) for file in files}


def load(
    root: Path | None = None,
    variant: str = "standard",
    version: str = "",
    added: Added | None = None,
) -> Recipe:
    """Read the recipe in ``root`` (default: the project's ``kernel`` directory).

    Parameters
    ----------
    root : Path, optional
        A ``kernel`` directory.
    variant : str, optional
        One of `VARIANTS`.
    version : str, optional
        Of Linux, ``7.3``; by default that of ``uml/version``.
    added : Added, optional
        What the user adds.

    Raises
    ------
    RequestError
        If there is no such variant, or the version is no version or too early.
    KernelBuildError
        If a file is missing.
    """
    if variant not in VARIANTS:
        raise RequestError(f"unknown variant '{variant}'; allowed: {', '.join(VARIANTS)}")
    root = root or shipped.directory("kernel")
    recipe = Recipe(root, variant, version or _default_version(root), added)
    known = all_series(root)
    if known and not recipe.series:
        raise RequestError(
            f"Linux {version} is too early: patches are for {known[0]} and later",
            hint=f"build {' or '.join(known)}",
        )
    makefiles = (*(f"{part}/Kbuild" for part in KBUILD_PARTS), "tc/Makefile")
    others = (recipe.root / name for name in makefiles)
    for needed in (*others, *recipe.configs, *recipe.program_files):
        if not needed.is_file():
            raise _incomplete(needed)
    return recipe


def all_series(root: Path) -> list[str]:
    """Name the versions of Linux that have patches of their own, the earliest first."""
    known = (path.name for path in (root / PATCHES).glob("[0-9]*") if path.is_dir())
    return sorted(known, key=in_numbers)


def _default_version(root: Path) -> str:
    path = root / "uml/version"
    if not path.is_file():
        raise _incomplete(path)
    return path.read_text(encoding="ascii").strip()


def _incomplete(missing: Path) -> KernelBuildError:
    return KernelBuildError(
        "no such file; the kernel directory is incomplete",
        where=str(missing),
        hint="`git checkout -- kernel`, or reinstall tcpf-lab",
    )


def series_of(version: str) -> str:
    """Give the first two numbers of a version: 6.12 of 6.12.117."""
    return ".".join(version.split(".")[:2])


def in_numbers(version: str) -> tuple[int, ...]:
    """Give a version as numbers, by which versions are in order: 6.2 is before 6.12.

    Raises
    ------
    RequestError
        If it is not two numbers or more.
    """
    if not re.fullmatch(r"\d+(\.\d+)+", version):
        raise RequestError(f"not a version of Linux: '{version}'; write two numbers: 6.12")
    return tuple(map(int, version.split(".")))


def key(digest: str, source_sha256: str, compiler: str) -> str:
    """Return the name of what a digest becomes with a source and a compiler (16 hex digits)."""
    return _digest({"recipe": digest, "source": source_sha256, "compiler": compiler})[:16]


def compiler_version() -> str:
    """Return the version line of the C compiler, ``none`` if there is none."""
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
            "no such kernel source",
            where=str(source),
            hint=f"sudo apt-get install {package('6.12')}, or give --source TARBALL",
        )
    try:
        with tarfile.open(source, mode="r|*") as archive:
            for member in archive:
                top, _, name = member.name.removeprefix("./").partition("/")
                handle = archive.extractfile(member) if name == "Makefile" else None
                if handle:
                    return top, makefile_version(handle.read().decode("utf-8", "replace"), source)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise KernelBuildError(f"not a readable tarball: {error}", where=str(source)) from None
    raise KernelBuildError("not a kernel source: no Makefile in it", where=str(source))


def check_version(found: str, recipe: Recipe, source: Path) -> None:
    """Refuse a source of another version than the recipe's."""
    if found != recipe.version and not found.startswith(recipe.version + "."):
        raise KernelBuildError(
            f"wrong kernel version: the source is Linux {found}, "
            f"configuration and patches are for {recipe.version}",
            where=str(source),
            hint=f"give --source TARBALL of linux-{recipe.version}.x, or name the version: "
            f"`{command('kernel', 'build', series_of(found))}`",
        )


def source_sha256(source: Path, cache: Path) -> str:
    """Hash a source tarball, or return the stored hash if size and time are the same."""
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


def makefile_version(text: str, source: Path) -> str:
    """Return the version in the text of a kernel's Makefile: ``6.12.117``."""
    lines = (line.partition("=") for line in text.splitlines()[:8])
    values = {name.strip(): value.strip() for name, _, value in lines}
    numbers = [values.get(word, "") for word in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if not all(number.isdigit() for number in numbers):
        raise KernelBuildError("not a kernel source: no version in its Makefile", where=str(source))
    return ".".join(numbers)


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


#: Program that must be there -> Debian package that has it.
TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "tar": "tar",
    "patch": "patch",
}
HEADERS_PACKAGE = "libc6-dev"
_HEADERS = "#include <sys/ptrace.h>\n#include <asm/ptrace.h>\n"
#: Parts of the source that this configuration never reads: three quarters of its 1.7 GB.
LEFT_OUT = (
    "Documentation/*/*",
    "arch/[!ux]*/*.[chS]",
    "arch/[!ux]*/boot/*",
    "drivers/gpu/*.[ch]",
    "drivers/infiniband/*.[ch]",
    "drivers/media/*.[ch]",
    "drivers/net/ethernet/*.[ch]",
    "drivers/net/wireless/*.[ch]",
    "drivers/scsi/*.[ch]",
    "drivers/staging/*.[ch]",
    "sound/*.[ch]",
    "tools/[pt]*",
)
DECOMPRESS = {".xz": "--xz", ".gz": "--gzip", ".bz2": "--bzip2"}
#: Steps that make announces for this configuration; only the progress bar depends on it.
EXPECTED_STEPS = 1110
_STEP = re.compile(r"  [A-Z][A-Z0-9_+]+ +\S")
#: What `make M=dir modules` reads of a built tree.
MODULE_FILES = ("Makefile", ".config", "Module.symvers", "System.map")
MODULE_TREES = ("include", "scripts", "arch/um", "arch/x86", "tools/include")
_OBJECTS = (".o", ".a", ".cmd", ".d", ".ko", ".mod", ".order")


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages that a build needs and that are missing."""
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not _headers_found():
        missing.append(HEADERS_PACKAGE)
    return tuple(missing)


def require_tools() -> None:
    """Raise if packages for a build are missing, naming all."""
    missing = missing_packages()
    if missing:
        raise KernelAbsentError(
            f"missing packages for a kernel build: {', '.join(missing)}",
            hint=f"sudo apt-get install {' '.join(missing)}",
        )


def _headers_found() -> bool:
    command = ["gcc", "-E", "-x", "c", "-o", os.devnull, "-"]
    try:
        reply = subprocess.run(command, input=_HEADERS.encode(), capture_output=True, check=False)
    except OSError:
        return False
    return reply.returncode == 0


def build_environment() -> dict[str, str]:
    """Return an environment without variables of the user that would change the build."""
    inherited = {n: os.environ[n] for n in ("PATH", "HOME", "TMPDIR") if n in os.environ}
    return {**inherited, **MAKE_ENVIRONMENT}


@dataclass(frozen=True)
class Tarball:
    """The source of a kernel as it is distributed."""

    place: Path
    top: str  #: name of its top directory
    version: str  #: of Linux, ``7.3.4``
    digest: str  #: sha256

    #: Nothing of a build stays.
    workplace: None = None

    @property
    def name(self) -> str:
        """File name."""
        return self.place.name

    @property
    def origin(self) -> dict[str, object]:
        """What a run's manifest says of the source."""
        return {"source": self.name, "sha256": self.digest}

    @property
    def described(self) -> str:
        """One phrase for a person."""
        return self.name

    @contextmanager
    def filled(self, recipe: Recipe, shop: Workshop) -> Iterator[str]:
        """Unpack and patch, unless another variant has done so."""
        if not any(shop.tree.iterdir()):
            unpack(self.place, self.top, shop)
            apply_patches(recipe, shop)
        yield ""


def unpack(source: Path, top: str, shop: Workshop) -> None:
    """Unpack the needed part of ``source``, whose top directory is ``top``, into the tree."""
    flag = DECOMPRESS.get(source.suffix)
    if flag is None:
        raise KernelBuildError(
            f"unknown compression '{source.suffix}'; allowed: {', '.join(DECOMPRESS)}",
            where=str(source),
        )
    patterns = [f"--exclude={top}/{part}" for part in LEFT_OUT]
    command = ["tar", "-x", flag, "--strip-components=1", *patterns]
    shop.run_fed(command, _blocks(source, shop))


def _blocks(source: Path, shop: Workshop) -> Iterator[bytes]:
    size = max(source.stat().st_size, 1)
    done = 0
    with source.open("rb") as archive:
        while block := archive.read(1 << 20):
            yield block
            done += len(block)
            shop.progress("unpack", done / size)


def apply_patches(recipe: Recipe, shop: Workshop) -> None:
    """Apply every patch without fuzz."""
    for number, patch in enumerate(recipe.patches):
        shop.progress("patch", number / len(recipe.patches))
        try:
            shop.run(["patch", "-p1", "--fuzz=0", "--forward", f"--input={patch.resolve()}"])
        except KernelBuildError as error:
            raise patch_refused(patch, recipe, last_lines(shop.log), error.where) from None
    shop.progress("patch", 1.0)


#: Of what `git apply` and `patch` say, what is no reason.
_NO_REASON = re.compile(r"^(patching file |Hunk #\d+ succeeded|error: patch failed: )")


def patch_refused(patch: Path, recipe: Recipe, said: Sequence[str], where: str) -> KernelBuildError:
    """Return the error of a patch that does not apply, with files and hunks of the program's."""
    failed = [line.removeprefix("error: ") for line in said if line.startswith("error: patch f")]
    reasons = failed or [line for line in said if line and not _NO_REASON.match(line)]
    listed = "".join(f"\n    {line}" for line in reasons[:_SHOWN])
    own = patch in (recipe.added.patches if recipe.added else ())
    if own:
        whose, hint = "patch", "rebase it: patches apply without fuzz, after those of tcpf-lab"
    else:
        whose, tested = "tcpf-lab's patch", ", ".join(all_series(recipe.root))
        hint = f"Linux {tested} are tested: build one of these, or rebase the source on one"
    return KernelBuildError(
        f"{whose} {recipe.name_of(patch)} does not apply to this Linux {recipe.version}:{listed}",
        where=where,
        hint=hint,
    )


def configure(recipe: Recipe, shop: Workshop, of_source: str = "") -> None:
    """Make ``.config`` from ``allnoconfig`` and the fragments; check that it took every line.

    Parameters
    ----------
    recipe : Recipe
        What has the fragments.
    shop : Workshop
        The tree.
    of_source : str, optional
        What a configuration reads of the source: if all is as it was when ``.config`` was made, it
        stays.
    """
    note = shop.tree.with_name("configured")
    config = shop.tree / ".config"
    how = [BUILD_FORMAT, MAKE, MAKE_ENVIRONMENT, compiler_version(), recipe.config, of_source]

    def state() -> str:
        return _digest([*how, sha256_of(config)])

    known = note.read_text(encoding="ascii") if config.exists() and note.exists() else ""
    if of_source and known and known == state():
        return
    note.unlink(missing_ok=True)
    shop.progress("configure", 0.0)
    fragment = shop.log.with_name("fragment")
    fragment.write_text(recipe.config, encoding="ascii")
    shop.run([*MAKE, f"KCONFIG_ALLCONFIG={fragment.resolve()}", "allnoconfig"])
    dropped = unsatisfied(fragment, config)
    if dropped:
        added = recipe.added.config if recipe.added else ()
        own = all(line in added for line in dropped)
        raise KernelBuildError(
            f"the kernel configuration drops {', '.join(dropped)}",
            where="--config" if own else ", ".join(map(str, recipe.configs)),
            hint="check the option's 'depends on' in its Kconfig file, or remove the line",
        )
    if of_source:
        note.write_text(state(), encoding="ascii")
    shop.progress("configure", 1.0)


def unsatisfied(fragment: Path, config: Path) -> tuple[str, ...]:
    """Return the lines of ``fragment`` that ``config`` does not honour."""
    taken = set(config.read_text(encoding="ascii").splitlines())
    set_names = {line.partition("=")[0] for line in taken if not line.startswith("#")}

    def honoured(line: str) -> bool:
        name, _, value = line.partition("=")
        return name not in set_names if value == "n" else line in taken

    lines = map(str.strip, fragment.read_text(encoding="ascii").splitlines())
    return tuple(line for line in lines if line and line[0] != "#" and not honoured(line))


def compile_kernel(shop: Workshop, jobs: int) -> None:
    """Build ``linux`` and the symbol table that modules are linked against."""
    steps = 0

    def line_read(line: str) -> None:
        nonlocal steps
        steps += bool(_STEP.match(line))
        shop.progress("compile", min(steps / EXPECTED_STEPS, 0.99))

    try:
        shop.run_counting([*MAKE, f"-j{jobs}", "linux", "modules"], line_read)
    except KernelBuildError as error:
        faults = _compiler_errors(shop.log, str(shop.tree.resolve()))
        if not faults:
            raise
        listed = "".join(f"\n    {fault}" for fault in faults[:_SHOWN])
        raise KernelBuildError(
            f"the kernel does not compile:{listed}", where=error.where, hint=error.hint
        ) from None
    shop.progress("compile", 1.0)


#: What a compiler, a linker, kconfig or make's own pass call the reason that nothing is built.
_DECISIVE = re.compile(
    r"^(\S+?:\d+:(\d+:)? (fatal )?error: .*|ERROR: modpost: .*|\S*ld: .*"
    r"|.*undefined reference to .*|\S+?:\d+: (syntax error|unknown .*|\*\*\* .*))$"
)


def _compiler_errors(log: Path, tree: str) -> list[str]:
    output = log.read_text(encoding="utf-8", errors="replace").rpartition("\n$ ")[2]
    found = (line.replace(f"{tree}/", "") for line in output.splitlines())
    full = "No space left"  # which has an error of its own
    return list(dict.fromkeys(line for line in found if _DECISIVE.match(line) and full not in line))


def compile_programs(recipe: Recipe, target: Path, shop: Workshop) -> None:
    """Compile the guest programs into ``target``."""
    for number, (name, files) in enumerate(recipe.programs.items()):
        shop.progress("programs", number / len(recipe.programs))
        sources = [str(file.resolve()) for file in files if file.suffix == ".c"]
        shop.run(["gcc", *PROGRAM_FLAGS, "-o", str(target / name), *sources])
    shop.progress("programs", 1.0)


def keep_for_modules(tree: Path, target: Path) -> None:
    """Copy what out-of-tree modules are built against into ``target``."""
    for name in _kept_for_modules(tree):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, target / name, follow_symlinks=False)


def _kept_for_modules(tree: Path) -> Iterator[str]:
    yield from MODULE_FILES
    for top in MODULE_TREES:
        kept = _no_object if top in ("include", "scripts") else _header_or_makefile
        for at, directories, files in os.walk(tree / top):
            links = [name for name in directories if Path(at, name).is_symlink()]
            for name in (*links, *filter(kept, files)):
                yield os.path.relpath(f"{at}/{name}", tree)


#: Of the tree for modules, the addresses of symbols: no module is built from them.
SYMBOLS = "System.map"


def interface(tree: Path) -> str:
    """Hash what modules are built from."""
    kept = {name: tree / name for name in _kept_for_modules(tree) if name != SYMBOLS}
    return _digest({name: sha256_of(path) for name, path in kept.items() if path.is_file()})


def _no_object(name: str) -> bool:
    return not name.endswith(_OBJECTS)


def _header_or_makefile(name: str) -> bool:
    return name.startswith("Make") or name.endswith(".h")


#: Directories of a cache entry.
MODULES = "modules"
PLUGINS = "tc"
#: What a compiler, the linker or kbuild's last pass call a fault.
_FAULT = re.compile(r"^(\S+?:\d+:(\d+:)? (fatal )?(error|warning): .*|ERROR: modpost: .*)$")
#: Faults that an error shows; one mistake often brings many.
_SHOWN = 8


def compile_modules(
    recipe: Recipe, tree: Path, result: Path, shop: Workshop, make: Sequence[str] = MAKE
) -> None:
    """Build all modules against ``tree`` and all plugins, and put them into ``result``.

    ``make`` begins the command of kbuild; another one is for kernels of other machines.

    Raises
    ------
    KernelBuildError
        Naming file and line of what does not compile.
    """
    copy = shop.log.with_name("modules")
    shutil.rmtree(copy, ignore_errors=True)
    for part in MODULE_PARTS:
        ignore = shutil.ignore_patterns("*.o", "*.ko", "*.so", "*.mod*", ".*.cmd")
        shutil.copytree(recipe.root / part, copy / part, ignore=ignore)
    shop.progress("modules", 0.0)
    # Paths in messages of a module must not depend on where it was built.
    nowhere = f"KCFLAGS=-ffile-prefix-map={copy}/=kernel/"
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    for part in KBUILD_PARTS:
        there = f"M={copy / part}"
        _make([*make, jobs, "-C", str(tree), there, nowhere, "modules"], recipe, copy, shop)
    built = (module for part in KBUILD_PARTS for module in (copy / part).glob("*.ko"))
    _collect(built, result / MODULES)
    shop.progress("modules", 0.5)
    plugins = copy / "plugins"
    _make(["make", "-C", str(copy / "tc"), f"O={plugins}"], recipe, copy, shop)
    _collect(plugins.glob("*.so"), result / PLUGINS)
    shop.progress("modules", 1.0)


def hashes(directory: Path) -> dict[str, str]:
    """Return the content hash of every module or plugin in ``directory`` by its bare name."""
    return {path.stem: sha256_of(path) for path in sorted(directory.glob("*.[ks]o"))}


def plugin_of(module: str) -> str:
    """Name the plugin that belongs to a module: ``q_rio`` to ``sch_rio``, ``link_csma`` to csma."""
    kind, _, name = module.partition("_")
    return {"sch": "q", "act": "m"}[kind] + f"_{name}" if name else f"link_{module}"


def _make(command: list[str], recipe: Recipe, copy: Path, shop: Workshop) -> None:
    try:
        shop.run(command)
    except KernelBuildError as error:
        faults = _faults(shop.log, str(copy), str(recipe.root))
        if not faults:
            raise
        listed = "".join(f"\n    {fault}" for fault in faults[:_SHOWN])
        raise KernelBuildError(
            f"a module or tc plugin does not compile:{listed}", where=error.where, hint=error.hint
        ) from None


def _faults(log: Path, copy: str, original: str) -> list[str]:
    """Return errors and warnings of the last command, with paths of the sources, not the copy."""
    output = log.read_text(encoding="utf-8", errors="replace").rpartition("\n$ ")[2]
    found = (line for line in output.splitlines() if _FAULT.match(line))
    plain = (re.sub(r"/\w+/\.\./", "/", line.replace(copy, original)) for line in found)
    return list(dict.fromkeys(plain))


def _collect(products: Iterable[Path], target: Path) -> None:
    target.mkdir()
    for product in products:
        shutil.copyfile(product, target / product.name)

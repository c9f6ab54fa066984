"""The steps of a kernel build: unpack, patch, configure, compile, keep what modules need.

Each step works in a build directory of its own and knows nothing about the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tcpf_lab.base.errors import KernelBuildError
from tcpf_lab.testbed.uml.recipe import (
    KBUILD_PARTS,
    MAKE,
    MAKE_ENVIRONMENT,
    MODULE_PARTS,
    PROGRAM_FLAGS,
    Recipe,
    sha256_of,
)
from tcpf_lab.testbed.workshop import Workshop

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
    """Return the Debian packages of everything that a build lacks."""
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not _headers_found():
        missing.append(HEADERS_PACKAGE)
    return tuple(missing)


def require_tools() -> None:
    """Refuse to begin, naming all missing packages at once."""
    missing = missing_packages()
    if missing:
        raise KernelBuildError(
            f"a kernel build needs packages that are not installed: {', '.join(missing)}",
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
    """Return an environment in which nothing of the user's changes what is built."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, **MAKE_ENVIRONMENT}


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
    """Apply every patch exactly: no fuzz, so that none lands beside its place."""
    for number, patch in enumerate(recipe.patches):
        shop.progress("patch", number / len(recipe.patches))
        shop.run(["patch", "-p1", "--fuzz=0", "--forward", f"--input={patch.resolve()}"])
    shop.progress("patch", 1.0)


def configure(recipe: Recipe, shop: Workshop) -> None:
    """Make ``.config`` from ``allnoconfig`` and the fragments; check that it took every line."""
    shop.progress("configure", 0.0)
    fragment = shop.log.with_name("fragment")
    fragment.write_text(recipe.config, encoding="ascii")
    shop.run([*MAKE, f"KCONFIG_ALLCONFIG={fragment.resolve()}", "allnoconfig"])
    dropped = unsatisfied(fragment, shop.tree / ".config")
    if dropped:
        raise KernelBuildError(
            f"the kernel's configuration did not take {', '.join(dropped)}",
            where=", ".join(map(str, recipe.configs)),
            hint="see what each depends on ('depends on' in a Kconfig file), or remove the line",
        )
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

    shop.run_counting([*MAKE, f"-j{jobs}", "linux", "modules"], line_read)
    shop.progress("compile", 1.0)


def compile_programs(recipe: Recipe, target: Path, shop: Workshop) -> None:
    """Compile the guest programs into ``target``."""
    for number, (name, files) in enumerate(recipe.programs.items()):
        shop.progress("programs", number / len(recipe.programs))
        sources = [str(file.resolve()) for file in files if file.suffix == ".c"]
        shop.run(["gcc", *PROGRAM_FLAGS, "-o", str(target / name), *sources])
    shop.progress("programs", 1.0)


def keep_for_modules(tree: Path, target: Path) -> None:
    """Copy what out-of-tree modules are built against into ``target``."""
    target.mkdir(parents=True)
    for name in MODULE_FILES:
        shutil.copy2(tree / name, target / name)
    for name in MODULE_TREES:
        everything = name in ("include", "scripts")
        ignore = _objects if everything else _neither_header_nor_makefile
        shutil.copytree(tree / name, target / name, symlinks=True, ignore=ignore)


def _objects(_directory: str, names: list[str]) -> set[str]:
    return {name for name in names if name.endswith(_OBJECTS)}


def _neither_header_nor_makefile(directory: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if not Path(directory, name).is_dir() and not name.startswith("Make") and name[-2:] != ".h"
    }


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
    """Find what the last command complained of, with paths of the sources, not of the copy."""
    said = log.read_text(encoding="utf-8", errors="replace").rpartition("\n$ ")[2]
    found = (line for line in said.splitlines() if _FAULT.match(line))
    plain = (re.sub(r"/\w+/\.\./", "/", line.replace(copy, original)) for line in found)
    return list(dict.fromkeys(plain))


def _collect(products: Iterable[Path], target: Path) -> None:
    target.mkdir()
    for product in products:
        shutil.copyfile(product, target / product.name)

"""Build the kernel modules under test, and the plugins by which ``tc`` knows their words.

They are built in a copy of their sources, so that a checkout stays clean and a read-only
installation will do.  A module takes seconds: what it needs of the kernel was kept in the tree.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tcpf_lab.errors import KernelBuildError
from tcpf_lab.testbed.uml_recipe import KBUILD_PARTS, MAKE, MODULE_PARTS, Recipe, sha256_of
from tcpf_lab.testbed.workshop import Workshop

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

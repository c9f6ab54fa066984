"""Modules for hosts whose kernel's packages are unpacked on this machine: built here.

An emulated machine takes minutes for what takes seconds here.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tcpf_lab.command import command
from tcpf_lab.errors import KernelBuildError
from tcpf_lab.testbed import ssh_files, ssh_modules, uml_make, uml_modules, uml_recipe
from tcpf_lab.testbed.workshop import Progress, Workshop

#: The Makefile of a distribution's headers leads to those that all its flavours share.
_INCLUDE = re.compile(r"^include\s+(/usr/src/\S+/Makefile)\s*$", re.MULTILINE)


def build(root: Path, kernel: tuple[str, str, str], progress: Progress) -> None:
    """Build modules and plugins for a kernel, unless they are kept here already.

    Parameters
    ----------
    root : Path
        Where the packages of the kernel's headers are unpacked.
    kernel : tuple of (str, str, str)
        What ``uname -r``, ``uname -v`` and ``uname -m`` will print there.
    progress : callable
        Told how far it is.

    Raises
    ------
    KernelBuildError
        If headers are missing, or something does not compile.
    """
    recipe = uml_recipe.load()
    kept = ssh_modules.cache() / ssh_modules.key(ssh_modules.sources(), *kernel)
    if kept.is_dir():
        return
    tree = root / "usr/src" / f"linux-headers-{kernel[0]}"
    make = ("make", "-f", str(_shared(root, tree)))
    with tempfile.TemporaryDirectory() as directory:
        place, result = Path(directory), Path(directory) / "result"
        result.mkdir()
        environment = uml_make.build_environment()
        shop = Workshop(place, place / "build.log", progress, environment)
        uml_modules.compile_modules(recipe, tree, result, shop, make)
        products = ssh_files.tree(result / uml_modules.MODULES, (".",))
        products |= ssh_files.tree(result, (uml_modules.PLUGINS,))
        ssh_modules.keep(products, kept)


def _shared(root: Path, tree: Path) -> Path:
    """Give the Makefile that the headers' own one includes by a path of another machine."""
    own = tree / "Makefile"
    found = _INCLUDE.search(own.read_text()) if own.is_file() else None
    if found is None:
        raise KernelBuildError(
            "no headers of that kernel",
            where=str(tree),
            hint=f"`{command('vm', 'up')}` fetches them",
        )
    return root / found[1].removeprefix("/")

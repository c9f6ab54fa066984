"""Kernels that the user has named: a tarball or a git tree, patches and configuration of his own.

Each is a small file in the user's configuration, ``$XDG_CONFIG_HOME/tcpf-lab/kernels/NAME.toml``.
What is built from them is in the cache with the others.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, LabError, RequestError
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_text
from tcpf_lab.spec.model import KERNEL_NAME
from tcpf_lab.spec.words import closest
from tcpf_lab.testbed.uml import gittree
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml.kernel import Kernel, Order
from tcpf_lab.testbed.workshop import Progress, one_at_a_time

_OPTION = re.compile(r'CONFIG_[A-Z0-9_]+=(y|n|-?\d+|0x[0-9a-fA-F]+|"[^"\n]*")')
_UNSET = re.compile(r"# (CONFIG_[A-Z0-9_]+) is not set")
_SUFFIX = ".toml"


@dataclass(frozen=True)
class Registration:
    """What the user has said of a kernel."""

    name: str
    source: Path  #: a tarball, or the top of a git tree
    patches: tuple[Path, ...] = ()
    config: tuple[str, ...] = ()  #: lines, and paths of files with lines

    @property
    def bench(self) -> Path:
        """Directory in the cache in which a git tree is built again and again."""
        return _bench(self.name)

    def lines(self) -> tuple[str, ...]:
        """Give the lines of the configuration, those of files among them.

        Raises
        ------
        RequestError
            If a line is not an option, or a file cannot be read.
        """
        found = []
        for words in self.config:
            if _option_like(words):
                found += [(line, "--config") for line in words.splitlines()]
            else:
                found += [(line, words) for line in _read(Path(words)).splitlines()]
        return tuple(line for text, where in found if (line := _option(text.strip(), where)))


def _bench(name: str) -> Path:
    return uml_kernel.cache_directory().with_name("trees") / name


def directory() -> Path:
    """Return the directory of registrations."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        root = Path(base) if base.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        message = "HOME is not set, and this user has no home directory"
        raise RequestError(message, hint="set XDG_CONFIG_HOME to a directory") from None
    return root / "tcpf-lab" / "kernels"


def is_name(word: str) -> bool:
    """Tell whether a word names a registered kernel, not a version."""
    return re.fullmatch(KERNEL_NAME, word) is not None


def names() -> list[str]:
    """List the registered names."""
    return sorted(path.stem for path in directory().glob(f"*{_SUFFIX}") if is_name(path.stem))


def get(name: str) -> Registration:
    """Return what is registered.

    Raises
    ------
    RequestError
        If there is no kernel of that name, or its file is damaged.
    """
    path = directory() / (name + _SUFFIX)
    if not is_name(name) or not path.is_file():
        known = names()
        meant = closest(name, known)
        have = f"; registered: {', '.join(known)}" if known else ""
        raise RequestError(
            f"no kernel '{name}' is registered{have}"
            + (f". Did you mean '{meant}'?" if meant else ""),
            hint=f"`{command('kernel', 'add', name, '--source', Path('GIT-TREE'))}`, "
            "or a version such as '6.12'",
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        patches = tuple(map(Path, values["patches"]))
        return Registration(name, Path(values["source"]), patches, tuple(values["config"]))
    except (ValueError, KeyError, TypeError, OSError) as error:
        hint = f"`{command('kernel', 'remove', name)}`, and add it again"
        raise RequestError(f"not a registration: {error!r}", where=str(path), hint=hint) from None


def add(
    name: str, source: Path, patches: Sequence[Path] = (), config: Sequence[str] = ()
) -> tuple[Registration, str]:
    """Register a kernel, in the place of one of the same name; return it and its version.

    Raises
    ------
    RequestError
        If the name, a file or a line of the configuration is not what it should be, or the version
        is too early.
    KernelBuildError
        If the source is not a kernel's.
    """
    if not is_name(name) or re.match(r"[vV]\d", name):
        raise RequestError(
            f"'{name}' cannot name a kernel",
            where="NAME",
            hint="a letter, then up to 31 letters, digits or any of _+-: it must not look like "
            "a version",
        )
    paths = [path if _option_like(path) else str(Path(path).resolve()) for path in config]
    whole = Registration(
        name, source.resolve(), tuple(path.resolve() for path in patches), tuple(paths)
    )
    version = look(whole).source.version
    values = {
        "source": str(whole.source),
        "patches": [str(patch) for patch in whole.patches],
        "config": list(whole.config),
    }
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    text = "".join(lines)
    try:
        tomllib.loads(text.encode().decode())
    except ValueError:
        raise RequestError("a path or line is not plain text in UTF-8", where="NAME") from None
    directory().mkdir(parents=True, exist_ok=True)
    write_text(directory() / (name + _SUFFIX), text)
    return whole, version


def remove(name: str, progress: Progress = lambda _phase, _share: None) -> None:
    """Forget a registered kernel, and what is kept for building it again.

    What was built of it stays in the cache, as any other kernel.
    """
    path = directory() / (name + _SUFFIX)
    if not is_name(name) or not path.exists():
        get(name)  # which says so
    path.unlink()
    bench = _bench(name)
    if bench.exists():
        uml_kernel.make_cache(uml_kernel.cache_directory())
        with one_at_a_time(uml_kernel.cache_directory(), progress):
            for each in bench.parent.glob(f"{name}*"):
                if each.name.removeprefix(name) in ("", *(f".{v}" for v in uml_recipe.VARIANTS)):
                    shutil.rmtree(each)


def prune(progress: Progress = lambda _phase, _share: None) -> list[Path]:
    """Remove from the cache the kernels that nothing names, and directories of builds.

    What stays is the kernel of each version as `tcpf_lab` is now, and of each registered name as
    its source is now, in all variants.

    Returns
    -------
    list of Path
        The directories that were removed. No run may be under way on them.

    Raises
    ------
    LabError
        If the source of a registered kernel cannot be read; nothing is removed then.
    """
    cache = uml_kernel.cache_directory()
    with uml_kernel.at_work(cache, progress):
        kept = {kernel.directory for kernel in uml_kernel.present()}
        for name in names():
            order = look(get(name))
            kept.add(_bench(name))
            for variant in uml_recipe.VARIANTS:
                kept.add(replace(order, recipe=replace(order.recipe, variant=variant)).entry)
        removed = [
            path
            for path in (*cache.glob("[!.]*"), *_bench("").glob("*"))
            if path.is_dir() and not path.is_symlink()
            if path not in kept and path.with_suffix("") not in kept
        ]
        for path in removed:
            (path / uml_kernel.FACTS).unlink(missing_ok=True)  # first: half an entry is none
            shutil.rmtree(path)
        for link in cache.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink()
    return removed


def look(
    what: Registration,
    variant: str = "standard",
    revision: str = "",
    progress: Progress = lambda _phase, _share: None,
) -> Order:
    """Say what would be built from a registered kernel as its source is now.

    Parameters
    ----------
    what : Registration
        The kernel; it need not be on file.
    variant : str, optional
        One of `uml_recipe.VARIANTS`.
    revision : str, optional
        Of a git tree: take this one, not what is checked out.
    progress : callable, optional
        Of the build.

    Raises
    ------
    LabError
        If a file is missing, the source is not a kernel's, or its version is too early.
    """
    for patch in what.patches:
        _read(patch)
    cache = uml_kernel.cache_directory()
    source: gittree.Snapshot | uml_recipe.Tarball
    if what.source.is_dir():
        bench = what.bench if variant == "standard" else Path(f"{what.bench}.{variant}")
        uml_kernel.make_cache(bench)
        source = gittree.snapshot(what.source, bench, revision)
    elif what.source.is_file():
        top, version = uml_recipe.source_version(what.source)
        uml_kernel.make_cache(what.bench)
        digest = uml_recipe.source_sha256(what.source, what.bench)
        source = uml_recipe.Tarball(what.source, top, version, digest)
    else:
        raise RequestError(
            "neither a git tree nor a tarball", where=str(what.source), hint="--source PATH"
        )
    series = uml_recipe.series_of(source.version)
    kind = "git" if what.source.is_dir() else "tarball"
    added = uml_recipe.Added(kind, what.patches, what.lines())
    try:
        recipe = uml_recipe.load(variant=variant, version=series, added=added)
    except RequestError as error:
        raise RequestError(error.message, where=str(what.source), hint=error.hint) from None
    return Order(recipe, source, uml_recipe.compiler_version(), cache, progress)


#: Kernels as this process has found or built them: all runs of one command are on the same.
_found: dict[str, Kernel] = {}


def remember(name: str, order: Order, kernel: Kernel) -> Kernel:
    """Let `require` give this kernel from now on."""
    # Two commits may have the same tree, and so the same kernel.
    return use(name, replace(kernel, origin=order.source.origin))


def use(name: str, kernel: Kernel) -> Kernel:
    """Let `require` give this kernel in this process, whether the name is registered or not."""
    _found[name] = kernel
    return kernel


def require(kernel: str, variant: str = "standard") -> Kernel:
    """Return the kernel of a name or a version.

    Raises
    ------
    RequestError
        If no such name is registered.
    KernelBuildError
        If it is not built, or its source has changed since.
    """
    if not is_name(kernel):
        return uml_kernel.require(variant, kernel)
    if kernel not in _found or variant != "standard":
        order = look(get(kernel), variant)
        built = uml_kernel.entry_of(order)
        if built is None:
            words = ("kernel", "build", kernel)
            options = () if variant == "standard" else ("--variant", variant)
            raise KernelBuildError(
                f"kernel '{kernel}' is not built as its source is now ({order.source.described})",
                hint=f"`{command(*words, *options)}`",
            )
        if variant != "standard":
            return built
        remember(kernel, order, built)
    return _found[kernel]


def at_hand() -> str | None:
    """Return a kernel to take when another cannot be had: a registered one, or a built version."""
    known = listed()
    for each in sorted(known, key=lambda each: not each["built"]):
        if "problem" not in each:
            return str(each["name"])
    return next(iter(uml_kernel.built_versions()), None)


def versions() -> list[dict[str, Any]]:
    """Describe the versions of Linux that are tested, as `listed` the registered kernels."""
    rows = []
    for name in uml_recipe.all_series(shipped.directory("kernel")):
        built = uml_kernel.find(recipe=uml_recipe.load(version=name))
        row = {"name": name, "version": built.version if built else None, "source": "package"}
        rows.append({**row, "built": built is not None, "path": str(built.path) if built else None})
    return rows


def listed() -> list[dict[str, Any]]:
    """Describe every registered kernel: version, source, whether it is built as it is now."""
    return [_described(name) for name in names()]


def _described(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "version": None, "source": None, "built": False}
    try:
        what = get(name)
        row |= {"source": str(what.source)}
        row |= {"patches": list(map(str, what.patches)), "config": list(what.config)}
        order = look(what)
        built = uml_kernel.entry_of(order)
        row |= {"version": order.source.version, "built": built is not None}
        row |= {"path": str(built.path) if built else None, "origin": order.source.origin}
    except LabError as error:
        row["problem"] = str(error)
    return row


def _option_like(words: str) -> bool:
    return words.startswith(("CONFIG_", "#"))


def _option(line: str, where: str) -> str:
    """Give a line of configuration in the form of the project's own; empty if it says nothing."""
    if unset := _UNSET.fullmatch(line):
        return f"{unset[1]}=n"
    if not line or line.startswith("#"):
        return ""
    if not _OPTION.fullmatch(line):
        raise RequestError(
            f"not an option of the kernel: '{line}'",
            where=where,
            hint="CONFIG_NAME=y, =n, a number or a text in quotes; guests load no modules but "
            "those of tcpf-lab, so m is not allowed",
        )
    return line


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RequestError(f"cannot be read: {error.strerror}", where=str(path)) from None

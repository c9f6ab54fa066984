"""The virtual-time kernel: find it in the user's cache, or build it there.

A build is identified by the hash of everything that goes into it (`uml_recipe`).  It is made in a
temporary directory beside its final place and renamed when it is whole, so an entry in the cache is
never half a kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from tcpf_lab.base.errors import KernelBuildError, NoRoomError, RequestError
from tcpf_lab.base.making import is_disk_full
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import as_json, read_json, write_json
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml.recipe import BUILT_WITH, DEFAULT_SOURCE, Recipe, Tarball
from tcpf_lab.testbed.workshop import Progress, Workshop, one_at_a_time, require_room

#: Disk space of a build while it runs (source 0.5 GB, objects 0.3 GB), with a margin.
NEEDED_BYTES = 1_200_000_000
KERNEL = "linux"
FACTS = "kernel.json"
TREE = "tree"
LOG = "build.log"
FAILED_LOG = "failed-build.log"
TEMPORARY = ".building-"
#: Keys of the facts of every entry.
_NEEDED = {
    *("recipe", "kernel_key", "variant", "version", "sha256", "patches"),
    *("programs", "modules", "plugins", "digest"),
}


class Source(Protocol):
    """What a kernel is made from."""

    @property
    def name(self) -> str:
        """File name, or ``git``."""

    @property
    def version(self) -> str:
        """Of Linux, ``7.3.4``."""

    @property
    def digest(self) -> str:
        """Hash of the content."""

    @property
    def origin(self) -> dict[str, object]:
        """What a run's manifest says of it."""

    @property
    def described(self) -> str:
        """One phrase for a person."""

    @property
    def workplace(self) -> Path | None:
        """Directory of the source and of objects that stay from build to build, if any."""

    def filled(self, recipe: Recipe, shop: Workshop) -> AbstractContextManager[str]:
        """Put the source, patched, into the workshop's tree, to be compiled within.

        Gives what a configuration reads of it; empty: the tree has to be configured.
        """


@dataclass(frozen=True)
class Order:
    """What is to be built, from what, and where it is stored."""

    recipe: Recipe
    source: Source
    compiler: str
    root: Path  #: the cache
    progress: Progress
    check: Callable[[Kernel], None] | None = None  #: of the new kernel, before others see it

    @cached_property
    def entry(self) -> Path:
        """Directory of the finished kernel, programs and modules."""
        return self.root / uml_recipe.key(self.recipe.digest, self.source.digest, self.compiler)

    @cached_property
    def kernel_key(self) -> str:
        """Identify the kernel alone: equal for entries that differ in programs and modules."""
        return uml_recipe.key(self.recipe.kernel_digest, self.source.digest, self.compiler)


def make(order: Order, lock: int, before: Order | None = None) -> None:
    """Build what was ordered.

    Parameters
    ----------
    order : Order
        What is to be built.
    lock : int
        A descriptor that every program started inherits.
    before : Order, optional
        A variant with the same patches, to be built first and in the same source tree.
    """
    work = order.entry.with_name(TEMPORARY + order.entry.name)
    shutil.rmtree(work, ignore_errors=True)
    log = work / LOG
    try:
        work.mkdir()
        tree = order.source.workplace or work / "source"
        tree.mkdir(parents=True, exist_ok=True)
        environment = uml_recipe.build_environment()
        shop = Workshop(tree, log, order.progress, environment, keep_open=(lock,))
        for each in (before, order) if before else (order,):
            _make_one(each, shop, work / each.recipe.variant)
    except KernelBuildError as error:
        raise _with_log_saved(error, log, order.root) from None
    finally:
        order.progress("clean", 0.0)
        shutil.rmtree(work, ignore_errors=True)
    order.progress("clean", 1.0)


def _make_one(order: Order, shop: Workshop, result: Path) -> None:
    started = time.monotonic()
    result.mkdir()
    interface = _fill(order, shop, result)
    shutil.copyfile(shop.log, result / LOG)
    _write_facts(order, result, interface, time.monotonic() - started)
    if order.check:
        order.progress("boot", 0.0)
        order.check(_kernel(result))
    shutil.rmtree(order.entry, ignore_errors=True)
    result.rename(order.entry)


def _fill(order: Order, shop: Workshop, result: Path) -> str:
    """Put kernel, module tree, programs and modules into ``result``.

    Returns
    -------
    str
        Hash of what modules are built from, for a source that stays from build to build.
    """
    if twin := twin_of(order):
        for name in (KERNEL, TREE):
            _link(twin / name, result / name)
        interface = str(read_facts(twin / FACTS).get("interface", ""))
    else:
        _compile_kernel(order, shop)
        shutil.copy2(shop.tree / KERNEL, result / KERNEL)
        interface = uml_recipe.interface(shop.tree) if order.source.workplace else ""
    like = _same_guest(order, interface)
    if like and not twin:
        _link(like / TREE, result / TREE)
        (result / TREE / uml_recipe.SYMBOLS).unlink()
        shutil.copy2(shop.tree / uml_recipe.SYMBOLS, result / TREE)
    elif not twin:
        uml_recipe.keep_for_modules(shop.tree, result / TREE)
    if like:
        for name in (*order.recipe.programs, uml_recipe.MODULES, uml_recipe.PLUGINS):
            _link(like / name, result / name)
    else:
        uml_recipe.compile_programs(order.recipe, result, shop)
        uml_recipe.compile_modules(order.recipe, result / TREE, result, shop)
    return interface


def _same_guest(order: Order, interface: str) -> Path | None:
    """Find an entry whose programs and modules are those of ``order``.

    They are where modules are built from the same files, but for the addresses of symbols.
    """
    for facts in order.root.glob(f"[!.]*/{FACTS}") if interface else ():
        known = read_facts(facts)
        same = known.get("interface") == interface and known.get("guest") == _guest(order)
        if same and not damage(facts.parent):
            return facts.parent
    return None


def _guest(order: Order) -> str:
    return uml_recipe.key(order.recipe.guest_digest, "", order.compiler)


def _compile_kernel(order: Order, shop: Workshop) -> None:
    require_room(order.root, NEEDED_BYTES, NoRoomError, "a kernel build needs {}")
    with order.source.filled(order.recipe, shop) as of_source:
        uml_recipe.configure(order.recipe, shop, of_source)
        uml_recipe.compile_kernel(shop, len(os.sched_getaffinity(0)))


def read_facts(path: Path) -> dict[str, Any]:
    """Read the facts of a cache entry; empty if the file is damaged."""
    try:
        facts = read_json(path)
    except RequestError:
        return {}
    return facts if isinstance(facts, dict) else {}


def twin_of(order: Order) -> Path | None:
    """Find an entry with the same kernel; programs or modules are of another version."""
    for facts in order.root.glob(f"[!.]*/{FACTS}"):
        entry = facts.parent
        same = read_facts(facts).get("kernel_key") == order.kernel_key
        if same and not {FACTS, KERNEL} & set(damage(entry)):
            return entry
    return None


def damage(entry: Path) -> tuple[str, ...]:
    """Name the files of an entry that are missing or not what was built.

    The tree for modules is not looked at: it is many files, and what is built in it is.
    """
    facts = read_facts(entry / FACTS)
    if not _sound(facts):
        return (FACTS,)
    expected = {
        KERNEL: facts["sha256"],
        **{f"{uml_recipe.MODULES}/{name}.ko": d for name, d in facts["modules"].items()},
        **{f"{uml_recipe.PLUGINS}/{name}.so": d for name, d in facts["plugins"].items()},
        **facts["programs"],
    }
    return tuple(name for name, digest in expected.items() if _content(entry / name) != digest)


def _sound(facts: dict[str, Any]) -> bool:
    """Return whether an entry's facts are complete and match their digest."""
    return set(facts) >= _NEEDED and facts["digest"] == _digest(facts)


def _content(path: Path) -> str | None:
    """Hash a file, or return its cached hash while its stat is the same; None if unreadable."""
    try:
        seen = path.stat()
        return _hashed(path, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _hashed(path: Path, *_seen: int) -> str:
    return uml_recipe.sha256_of(path)


def with_digest(facts: dict[str, Any]) -> dict[str, Any]:
    """Return an entry's facts with their digest, which reveals damage."""
    return {**facts, "digest": _digest(facts)}


def _digest(facts: dict[str, Any]) -> str:
    """Hash an entry's facts without the digest itself."""
    text = as_json({name: value for name, value in facts.items() if name != "digest"})
    return hashlib.sha256(text.encode()).hexdigest()


def _link(source: Path, target: Path) -> None:
    """Hard-link files: a link takes no space and outlives the original."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    else:
        target.hardlink_to(source)


def _write_facts(order: Order, result: Path, interface: str, seconds: float) -> None:
    facts = {
        "recipe": order.recipe.digest,
        "kernel_key": order.kernel_key,
        "variant": order.recipe.variant,
        "modules": uml_recipe.hashes(result / uml_recipe.MODULES),
        "plugins": uml_recipe.hashes(result / uml_recipe.PLUGINS),
        "version": order.source.version,
        "sha256": uml_recipe.sha256_of(result / KERNEL),
        "programs": {name: uml_recipe.sha256_of(result / name) for name in order.recipe.programs},
        "patches": list(order.recipe.patch_names),
        "compiler": order.compiler,
        "source": order.source.name,
        "origin": order.source.origin,
        "build_seconds": round(seconds, 1),
    }
    if interface:
        facts |= {"guest": _guest(order), "interface": interface}
    if order.recipe.added:
        facts["config"] = list(order.recipe.added.config)
    write_json(result / FACTS, with_digest(facts))


def _with_log_saved(error: KernelBuildError, log: Path, root: Path) -> KernelBuildError:
    """Save the log of a failed build, and let the error point to the copy."""
    saved = root / FAILED_LOG
    if not log.exists():
        return error
    shutil.copyfile(log, saved)
    where, hint = (text.replace(str(log), str(saved)) for text in (error.where, error.hint))
    return type(error)(error.message, where=where, hint=hint)


_ELSEWHERE = "set XDG_CACHE_HOME to a writable directory"
#: Link to the last kernel built or requested; a variant's name is appended.
_CURRENT = "current"


@dataclass(frozen=True)
class Kernel:
    """A kernel that has been built, with the guest programs and the modules beside it."""

    path: Path  #: the executable ``linux``
    key: str  #: name of the cache entry: hash of all inputs
    kernel_key: str  #: hash of the inputs of the kernel alone
    variant: str  #: ``standard``, or one of the others in ``uml_recipe.VARIANTS``
    version: str  #: of the source, ``6.12.117``
    sha256: str  #: of the executable
    patches: tuple[str, ...]  #: file names of the project's patches in it
    programs: dict[str, str]  #: of the guest: name -> content hash, ``tcpf-traffic``
    modules: dict[str, str]  #: name -> content hash, ``sch_rio``
    plugins: dict[str, str]  #: of ``tc``: name -> content hash, ``q_rio``
    origin: dict[str, Any] = field(default_factory=dict)  #: of the source, for manifests
    config: tuple[str, ...] = ()  #: lines that the user has added

    @property
    def directory(self) -> Path:
        """The cache entry; ``tcpf-traffic`` and ``tcpf-guest`` are in it too."""
        return self.path.parent

    @property
    def tree(self) -> Path:
        """What `make ARCH=um M=dir modules` needs of the kernel's source."""
        return self.directory / TREE


def cache_directory() -> Path:
    """Return the directory of built kernels: ``$XDG_CACHE_HOME/tcpf-lab/kernel``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        message = "HOME is not set, and this user has no home directory"
        raise KernelBuildError(message, hint=_ELSEWHERE) from None
    return root / "tcpf-lab" / "kernel"


def make_cache(directory: Path) -> None:
    """Make a directory of the cache, but not a missing home directory.

    Raises
    ------
    KernelBuildError
        If it would be in a home that does not exist, or cannot be made.
    """
    home = os.environ.get("HOME", "")
    if home and directory.is_relative_to(home) and not Path(home).is_dir():
        raise KernelBuildError("the home directory does not exist", where=home, hint=_ELSEWHERE)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(str(directory), "created", error) from error


def find(cache: Path | None = None, recipe: Recipe | None = None) -> Kernel | None:
    """Return the kernel last built or requested from the present recipe, if any.

    Damaged kernels do not count.
    """
    for entry in _entries(cache, recipe):
        if not damage(entry):
            return _kernel(entry)
    return None


def present() -> Iterator[Kernel]:
    """Find the kernels of versions, in all variants, that are built from the present recipe."""
    facts = (read_facts(path) for path in cache_directory().glob(f"[!.]*/{FACTS}"))
    kinds = {
        (uml_recipe.series_of(each["version"]), each["variant"])
        for each in facts
        if _sound(each) and each["variant"] in uml_recipe.VARIANTS
    }
    for version, variant in kinds:
        if kernel := find(recipe=uml_recipe.load(variant=variant, version=version)):
            yield kernel


def built_versions() -> list[str]:
    """List the versions of Linux, as 7.3, whose kernels are built from the present recipe."""
    found = (kernel.version for kernel in present() if kernel.variant == "standard")
    return sorted(map(uml_recipe.series_of, found), key=uml_recipe.in_numbers)


def any_built() -> Kernel | None:
    """Return some kernel that has been built, if there is one."""
    entries = (path.parent for path in sorted(cache_directory().glob(f"[!.]*/{FACTS}")))
    return next((_kernel(entry) for entry in entries if not damage(entry)), None)


def damaged(cache: Path | None = None, recipe: Recipe | None = None) -> list[str]:
    """Return for each damaged kernel of the present recipe which files differ."""
    found = ((entry, damage(entry)) for entry in _entries(cache, recipe))
    return [f"{entry}: damaged: {', '.join(names)}" for entry, names in found if names]


def _entries(cache: Path | None, recipe: Recipe | None) -> list[Path]:
    """Give the entries of a recipe, the last one used first."""
    root = cache or cache_directory()
    wanted = (recipe or uml_recipe.load()).digest
    entries = [
        facts
        for facts in root.glob(f"[!.]*/{FACTS}")
        if not facts.parent.is_symlink()  # the links to the last one
    ]
    used = sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    return [facts.parent for facts in used if read_facts(facts).get("recipe") == wanted]


def require(variant: str = "standard", version: str = "") -> Kernel:
    """Return the kernel of that variant and version.

    Raises
    ------
    RequestError
        If there is no such variant, or the version is too early.
    KernelBuildError
        If it has not been built from the present recipe.
    """
    recipe = uml_recipe.load(variant=variant, version=version)
    kernel = find(recipe=recipe)
    if kernel is None:
        words = ("kernel", "build", *([version] if version else []))
        raise KernelBuildError(
            f"the {variant} kernel of Linux {recipe.version} is not built",
            hint=f"`{command(*words, *([] if variant == 'standard' else ['--variant', variant]))}`",
        )
    return kernel


def build(
    source: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    recipe: Recipe | None = None,
) -> Kernel:
    """Build kernel, guest programs and modules, unless the cache has them already.

    Parameters
    ----------
    source : Path, optional
        Kernel source tarball; by default that of the distribution's package.
    cache : Path, optional
        Directory of kernels; by default `cache_directory`.
    progress : callable, optional
        Called with a phase (``wait``, ``unpack``, ``patch``, ``configure``, ``compile``,
        ``programs``, ``modules``, ``clean``) and the share of it that is done, 0 to 1.
    recipe : Recipe, optional
        What to build; by default the project's own.

    Raises
    ------
    KernelBuildError
        If a tool or the source is missing, the source has another version, the disk is too small,
        or a step fails.
    """
    tarball = source or DEFAULT_SOURCE
    what = recipe or uml_recipe.load()
    root = cache or cache_directory()
    report = progress or (lambda _phase, _share: None)
    uml_recipe.require_tools()
    top, version = uml_recipe.source_version(tarball)
    uml_recipe.check_version(version, what, tarball)
    with at_work(root, report) as lock:
        # With the lock: two that wrote the hash down would collide.
        sha256 = uml_recipe.source_sha256(tarball, root)
        compiler = uml_recipe.compiler_version()
        order = Order(what, Tarball(tarball, top, version, sha256), compiler, root, report)
        if damage(order.entry):
            first = _to_build_first(order)
            make(order, lock, first)
            if first:
                _select(first.entry, first.recipe.variant)
        _select(order.entry, what.variant)
    return _kernel(order.entry)


def build_order(order: Order) -> Kernel:
    """Build what was ordered, unless another process has done so meanwhile."""
    uml_recipe.require_tools()
    with at_work(order.root, order.progress) as lock:
        if damage(order.entry):
            make(order, lock)
    return _kernel(order.entry)


def entry_of(order: Order) -> Kernel | None:
    """Return what was ordered, if it is there and not damaged."""
    return None if damage(order.entry) else _kernel(order.entry)


@contextmanager
def at_work(root: Path, report: Progress) -> Iterator[int]:
    """Be the only one who builds in a cache, and begin without leftovers."""
    with _disk_errors(root):
        make_cache(root)
        with one_at_a_time(root, report) as lock:
            for leftover in root.glob(TEMPORARY + "*"):
                shutil.rmtree(leftover, ignore_errors=True)
            yield lock


def status(cache: Path | None = None) -> dict[str, Any]:
    """Describe the present kernel, or what a build lacks."""
    kernel = find(cache)
    root = cache or cache_directory()
    return {
        "built": kernel is not None,
        "path": str(kernel.path) if kernel else None,
        "version": kernel.version if kernel else None,
        "patches": list(kernel.patches) if kernel else None,
        "modules": sorted(kernel.modules) if kernel else None,
        "plugins": sorted(kernel.plugins) if kernel else None,
        "cache": str(root),
        "missing_packages": list(uml_recipe.missing_packages()),
        "source": str(DEFAULT_SOURCE) if DEFAULT_SOURCE.exists() else None,
    }


def _to_build_first(order: Order) -> Order | None:
    """Return the order of the variant that shares its source tree, if neither is there."""
    variant = BUILT_WITH.get(order.recipe.variant)
    if variant is None or twin_of(order):
        return None
    first = dataclasses.replace(
        order, recipe=uml_recipe.load(order.recipe.root, variant, order.recipe.version)
    )
    return None if twin_of(first) else first


def _kernel(entry: Path) -> Kernel:
    facts = read_facts(entry / FACTS)
    same = ("kernel_key", "variant", "version", "sha256", "programs", "modules", "plugins")
    values = {name: facts[name] for name in same}
    added = {"origin": facts.get("origin", {}), "config": tuple(facts.get("config", ()))}
    return Kernel(entry / KERNEL, entry.name, patches=tuple(facts["patches"]), **values, **added)


def _select(entry: Path, variant: str) -> None:
    """Make ``entry`` the one that `find` prefers and that the link ``current`` leads to."""
    (entry / FACTS).touch()
    link = entry.with_name(_CURRENT if variant == "standard" else f"{_CURRENT}-{variant}")
    temporary = entry.with_name(f"{link.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(entry.name)
    temporary.replace(link)


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """Turn what the file system refuses into an error that names the directory."""
    try:
        yield
    except OSError as error:
        raise _refused(str(error.filename or root), "used", error) from error


def _refused(where: str, what: str, error: OSError) -> KernelBuildError:
    if is_disk_full(error):
        hint = "free disk space, then build again"
        return NoRoomError("the disk is full", where=where, hint=hint)
    return KernelBuildError(f"cannot be {what}: {error.strerror}", where=where, hint=_ELSEWHERE)

"""Make one entry of the kernel cache: in a temporary directory, renamed when it is whole."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tcpf_lab.errors import KernelBuildError, RequestError
from tcpf_lab.results import as_json, read_json, write_json
from tcpf_lab.testbed import uml_make, uml_modules, uml_recipe
from tcpf_lab.testbed.uml_recipe import Recipe
from tcpf_lab.testbed.workshop import Progress, Workshop

#: Most that a build occupies while it runs (source 0.5 GB, objects 0.3 GB), and room to spare.
NEEDED_BYTES = 1_200_000_000
KERNEL = "linux"
FACTS = "kernel.json"
TREE = "tree"
LOG = "build.log"
FAILED_LOG = "failed-build.log"
TEMPORARY = ".building-"
#: What every entry says of itself.
_NEEDED = {
    *("recipe", "kernel_key", "variant", "version", "sha256", "patches"),
    *("programs", "modules", "plugins", "digest"),
}


@dataclass(frozen=True)
class Order:
    """What is to be built, from what, and where it will be kept."""

    recipe: Recipe
    source: Path
    top: str  #: name of the source's top directory
    version: str  #: of the source
    source_sha256: str
    compiler: str
    root: Path  #: the cache
    progress: Progress

    @cached_property
    def entry(self) -> Path:
        """Directory of the finished kernel, programs and modules."""
        return self.root / uml_recipe.key(self.recipe.digest, self.source_sha256, self.compiler)

    @cached_property
    def kernel_key(self) -> str:
        """Identify the kernel alone: equal for entries that differ in programs and modules."""
        return uml_recipe.key(self.recipe.kernel_digest, self.source_sha256, self.compiler)


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
        (work / "source").mkdir(parents=True)
        environment = uml_make.build_environment()
        shop = Workshop(work / "source", log, order.progress, environment, keep_open=(lock,))
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
    _fill(order, shop, result)
    shutil.copyfile(shop.log, result / LOG)
    _write_facts(order, result, time.monotonic() - started)
    shutil.rmtree(order.entry, ignore_errors=True)
    result.rename(order.entry)


def _fill(order: Order, shop: Workshop, result: Path) -> None:
    """Put kernel, module tree, programs and modules into ``result``."""
    twin = twin_of(order)
    if twin:
        for name in (KERNEL, TREE):
            _link(twin / name, result / name)
    else:
        _build_kernel(order, shop, result)
    uml_make.compile_programs(order.recipe, result, shop)
    uml_modules.compile_modules(order.recipe, result / TREE, result, shop)


def _build_kernel(order: Order, shop: Workshop, result: Path) -> None:
    _require_room(order.root)
    if not any(shop.tree.iterdir()):
        uml_make.unpack(order.source, order.top, shop)
        uml_make.apply_patches(order.recipe, shop)
    uml_make.configure(order.recipe, shop)
    uml_make.compile_kernel(shop, len(os.sched_getaffinity(0)))
    shutil.copy2(shop.tree / KERNEL, result / KERNEL)
    uml_make.keep_for_modules(shop.tree, result / TREE)


def read_facts(path: Path) -> dict[str, Any]:
    """Read what an entry of the cache says of itself; nothing if it is damaged."""
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
        **{f"{uml_modules.MODULES}/{name}.ko": d for name, d in facts["modules"].items()},
        **{f"{uml_modules.PLUGINS}/{name}.so": d for name, d in facts["plugins"].items()},
        **facts["programs"],
    }
    return tuple(name for name, digest in expected.items() if _content(entry / name) != digest)


def _sound(facts: dict[str, Any]) -> bool:
    """Whether an entry's record of itself is what was written, as far as it can tell."""
    return set(facts) >= _NEEDED and facts["digest"] == _digest(facts)


def _content(path: Path) -> str | None:
    """Hash a file, or recall its hash as long as it looks the same; None if it cannot be read."""
    try:
        seen = path.stat()
        return _hashed(path, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _hashed(path: Path, *_seen: int) -> str:
    return uml_recipe.sha256_of(path)


def with_digest(facts: dict[str, Any]) -> dict[str, Any]:
    """Give what an entry says of itself with the hash of that, by which damage is seen."""
    return {**facts, "digest": _digest(facts)}


def _digest(facts: dict[str, Any]) -> str:
    """Hash what an entry says of itself, without this hash."""
    text = as_json({name: value for name, value in facts.items() if name != "digest"})
    return hashlib.sha256(text.encode()).hexdigest()


def _link(source: Path, target: Path) -> None:
    """Give files a second name: it takes no room and outlives the first."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    else:
        target.hardlink_to(source)


def _write_facts(order: Order, result: Path, seconds: float) -> None:
    facts = {
        "recipe": order.recipe.digest,
        "kernel_key": order.kernel_key,
        "variant": order.recipe.variant,
        "modules": uml_modules.hashes(result / uml_modules.MODULES),
        "plugins": uml_modules.hashes(result / uml_modules.PLUGINS),
        "version": order.version,
        "sha256": uml_recipe.sha256_of(result / KERNEL),
        "programs": {name: uml_recipe.sha256_of(result / name) for name in order.recipe.programs},
        "patches": [patch.name for patch in order.recipe.patches],
        "compiler": order.compiler,
        "source": order.source.name,
        "build_seconds": round(seconds, 1),
    }
    write_json(result / FACTS, with_digest(facts))


def _require_room(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise KernelBuildError(
            f"a kernel build needs {NEEDED_BYTES / 1e9:.1f} GB, there are {free / 1e9:.1f} GB free",
            where=str(directory),
            hint="make room, or set XDG_CACHE_HOME to a directory on a larger disk",
        )


def _with_log_saved(error: KernelBuildError, log: Path, root: Path) -> KernelBuildError:
    """Keep the log of a build that failed, and let the error point to it."""
    saved = root / FAILED_LOG
    if not log.exists():
        return error
    shutil.copyfile(log, saved)
    where, hint = (text.replace(str(log), str(saved)) for text in (error.where, error.hint))
    return KernelBuildError(error.message, where=where, hint=hint)

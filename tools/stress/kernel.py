"""The kernel of the SMP stress: found in the user's cache, or built there.

The source, the tools and the steps are those of the virtual-time kernel; machine and configuration
differ.  An entry of the cache is made beside its place and renamed when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.base.errors import KernelBuildError
from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.workshop import Progress, Workshop

KERNEL_SOURCES = Path(__file__).parents[2] / "kernel"
#: The program in the guest, and what its kernel is configured with.
GUEST_SOURCES = Path(__file__).with_name("smp")
FRAGMENT = GUEST_SOURCES / "config"
MAKE = ("make", "ARCH=x86_64")
#: What shares data with queues and markers is watched by KCSAN along with them; the rest of the
#: kernel is not: it would take most of an emulated processor's time, and nearly every watchpoint.
WATCHED = "act_api sch_api gen_stats gen_estimator"
#: But a barrier counts wherever it is.
BARRIERS = "net/% net kernel kernel/sched kernel/locking kernel/rcu kernel/time mm lib"
#: kbuild's variables; a command line's come before those of any directory.
INSTRUMENT = (
    f"KCSAN_SANITIZE=$(if $(filter {WATCHED},$(target-stem)),y,n)",
    f"KCSAN_INSTRUMENT_BARRIERS=$(if $(filter {BARRIERS},$(obj)),y)",
)
#: Beyond what a module tree holds anyway: kbuild runs it on every object of a module.
OBJTOOL = "tools/objtool/objtool"
#: Mainline's own modules, to compare ours with.
MAINLINE = ("sch_red", "act_gact")
#: Header that must be there -> Debian package that has it.
HEADERS = {"/usr/include/gelf.h": "libelf-dev"}
#: Steps that make announces; only the progress depends on it.
EXPECTED_STEPS = 1403
#: Most that a build occupies while it runs.
NEEDED_BYTES = 1_500_000_000
FACTS = "kernel.json"
FORMAT = 1


@dataclass(frozen=True)
class SmpKernel:
    """A kernel that has been built."""

    directory: Path

    @property
    def image(self) -> Path:
        """What the emulator boots."""
        return self.directory / "bzImage"

    @property
    def tree(self) -> Path:
        """What `make ARCH=x86_64 -C tree M=dir modules` needs."""
        return self.directory / "tree"

    @property
    def mainline(self) -> Path:
        """Directory of `MAINLINE` modules."""
        return self.directory / "mainline"


def cache_directory() -> Path:
    """Return where these kernels are kept, beside the virtual-time kernels."""
    return kernel.cache_directory().with_name("smp")


def find(cache: Path | None = None) -> SmpKernel | None:
    """Return the kernel that `build` would give without building, if there is one."""
    root = cache or cache_directory()
    if not uml_recipe.DEFAULT_SOURCE.exists() or not root.exists():
        return None
    entry = root / _key(uml_recipe.source_sha256(uml_recipe.DEFAULT_SOURCE, root))
    return SmpKernel(entry) if (entry / FACTS).exists() else None


def build(progress: Progress, cache: Path | None = None) -> SmpKernel:
    """Build the kernel, unless the cache has it already.

    Raises
    ------
    KernelBuildError
        If a package, the source or room on the disk is missing, or a step fails.
    """
    if found := find(cache):
        return found
    _require_packages()
    source = uml_recipe.DEFAULT_SOURCE
    recipe = uml_recipe.load()
    top, version = uml_recipe.source_version(source)
    uml_recipe.check_version(version, recipe, source)
    root = cache or cache_directory()
    kernel.make_cache(root)
    entry = root / _key(uml_recipe.source_sha256(source, root))
    with _lock(root, progress) as lock:
        if not (entry / FACTS).exists():
            _make(entry, source, top, lock, progress)
    return SmpKernel(entry)


def _key(source_sha256: str) -> str:
    parts = [
        FORMAT,
        MAKE,
        INSTRUMENT,
        uml_recipe.MAKE_ENVIRONMENT,
        uml_recipe.sha256_of(FRAGMENT),
        source_sha256,
        uml_recipe.compiler_version(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _require_packages() -> None:
    uml_recipe.require_tools()
    missing = [package for header, package in HEADERS.items() if not Path(header).exists()]
    if missing:
        raise KernelBuildError(
            f"missing packages for the kernel of the stress tests: {', '.join(missing)}",
            hint=f"sudo apt-get install {' '.join(missing)}",
        )


def _make(entry: Path, source: Path, top: str, lock: int, progress: Progress) -> None:
    free = shutil.disk_usage(entry.parent).free
    if free < NEEDED_BYTES:
        raise KernelBuildError(
            f"a kernel build needs {NEEDED_BYTES / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
            where=str(entry.parent),
            hint="free disk space, or set XDG_CACHE_HOME to a directory on a larger disk",
        )
    work = entry.with_name(f".building-{entry.name}")
    shutil.rmtree(work, ignore_errors=True)
    (work / "source").mkdir(parents=True)
    # Stays after a failure: the error points into it.
    log = entry.with_name(f"build-{entry.name}.log")
    log.unlink(missing_ok=True)
    shop = Workshop(
        work / "source", log, progress, uml_recipe.build_environment(), keep_open=(lock,)
    )
    try:
        uml_recipe.unpack(source, top, shop)
        _configure(shop)
        _compile(shop)
        _keep(shop.tree, work / "result")
        (work / "result").rename(entry)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _configure(shop: Workshop) -> None:
    shop.run([*MAKE, f"KCONFIG_ALLCONFIG={FRAGMENT.resolve()}", "allnoconfig"])
    dropped = uml_recipe.unsatisfied(FRAGMENT, shop.tree / ".config")
    if dropped:
        raise KernelBuildError(
            f"the kernel configuration drops {', '.join(dropped)}",
            where=str(FRAGMENT),
            hint="see what each depends on ('depends on' in a Kconfig file), or remove the line",
        )


def _compile(shop: Workshop) -> None:
    steps = 0

    def line_read(line: str) -> None:
        nonlocal steps
        steps += line.startswith("  ")
        shop.progress("compile", min(steps / EXPECTED_STEPS, 0.99))

    jobs = len(os.sched_getaffinity(0))
    shop.run_counting([*MAKE, *INSTRUMENT, f"-j{jobs}", "bzImage", "modules"], line_read)
    shop.progress("compile", 1.0)


def _keep(tree: Path, result: Path) -> None:
    uml_recipe.keep_for_modules(tree, result / "tree")
    (result / "tree" / OBJTOOL).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(tree / OBJTOOL, result / "tree" / OBJTOOL)
    shutil.copy2(tree / "arch/x86/boot/bzImage", result / "bzImage")
    (result / "mainline").mkdir()
    for name in MAINLINE:
        shutil.copy2(tree / f"net/sched/{name}.ko", result / "mainline")
    write_json(result / FACTS, {"fragment": uml_recipe.sha256_of(FRAGMENT)})


@contextmanager
def _lock(root: Path, progress: Progress) -> Iterator[int]:
    """Let one build at a time work in ``root``; the lock ends with the last process that has it."""
    with (root / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("wait", 0.0)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()

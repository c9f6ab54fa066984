"""What is built for hosts, there or here: kernel modules, plugins of ``tc``, traffic programs.

Modules belong to one kernel: they are kept by the hash of their sources and the kernel's release
and build, on the host and here, so that each is built once.  A host's are used only if they are, to
the byte, those that are kept here.  Modules that DKMS has installed are used if they are of the
same sources: where a kernel takes signed modules only, those are.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tcpf_lab
from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, TestbedError
from tcpf_lab.results.command import command
from tcpf_lab.testbed.ssh import files, hosts
from tcpf_lab.testbed.ssh.hosts import Host, Reply, run
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml.recipe import KBUILD_PARTS, MODULE_PARTS, PROGRAM_FLAGS, TRAFFIC_PROGRAMS
from tcpf_lab.testbed.workshop import Progress, Workshop

PLUGINS = "tc"
_KBUILD = tuple(f"{part}/" for part in KBUILD_PARTS)
_PARTS = " ".join(KBUILD_PARTS)
_BUILT = (".o", ".ko", ".so", ".mod", ".cmd", ".d", ".symvers", ".order", ".mod.c")
#: A compiler may be silent for so long on an emulated machine, s.
BUILD_SILENCE_S = 600.0
_NO_HEADERS = 3
_BUILD = files.script("build")
_DKMS = files.script("dkms")


@dataclass(frozen=True)
class Products:
    """What a host has been given for one kernel."""

    plugins: str  #: directory on the host
    modules: str | None  #: directory on the host; None: DKMS has installed them
    hashes: dict[str, str]  #: name -> SHA-256, of modules and plugins


def sources(root: Path | None = None) -> dict[str, bytes]:
    """Read the sources of modules and plugins."""
    return files.tree(root or shipped.directory("kernel"), MODULE_PARTS, _BUILT)


def source_hash(code: Mapping[str, bytes]) -> str:
    """Identify sources by names and contents."""
    return hashlib.sha256(files.pack(code)).hexdigest()


def key(code: Mapping[str, bytes], release: str, build: str, machine: str) -> str:
    """Name what these sources become on a kernel (16 hex digits).

    ``uname -r``, ``-v`` and ``-m`` identify a kernel: two builds of one release, as of a
    configuration that was changed meanwhile, may not take each other's modules.
    """
    words = f"{source_hash(code)} {release} {build} {machine}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def cache() -> Path:
    """Return the local directory of what was built for hosts."""
    return uml_kernel.cache_directory().parent / hosts.BUILT


def missing(names: Iterable[str], code: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the modules among ``names`` that there is no source of."""
    there = {Path(name).stem for name in code if name.startswith(_KBUILD) and name.endswith(".c")}
    return tuple(name for name in names if name not in there)


def provide_modules(
    host: Host, names: tuple[str, ...], kernel: tuple[str, str, str], state: str, testbed: str
) -> Products:
    """See to it that ``host`` has modules and plugins for its kernel.

    Parameters
    ----------
    host : Host
        Where they are needed.
    names : tuple of str
        The modules that will be loaded.
    kernel : tuple of (str, str, str)
        What ``uname -r``, ``uname -v`` and ``uname -m`` print.
    state : str
        The state directory on the host.
    testbed : str
        The testbed's name, for messages.

    Raises
    ------
    TestbedError
        If they cannot be built or sent.
    """
    code = sources()
    installed = _dkms(host, names, code)
    name = key(code, *kernel) + ("-plugins" if installed else "")
    there, here = f"{state}/modules/{name}", cache() / name
    if not here.is_dir():
        keep(_build(host, code, there, testbed, modules=not installed), here)
    products = files.tree(here, (".",))
    files.put_tree(host, products, there)
    return Products(f"{there}/{PLUGINS}", None if installed else there, _hashes(products))


def _hashes(products: Mapping[str, bytes]) -> dict[str, str]:
    return {
        Path(name).stem: hashlib.sha256(content).hexdigest()
        for name, content in sorted(products.items())
        if name.endswith((".ko", ".so"))
    }


def _dkms(host: Host, names: tuple[str, ...], code: Mapping[str, bytes]) -> bool:
    """Return whether DKMS has installed modules of these sources."""
    reply = run(host, ("sh", "-c", _DKMS, "sh", tcpf_lab.__version__, _PARTS, *names))
    ours = [
        f"{hashlib.sha256(content).hexdigest()}  {name}"
        for name, content in sorted(code.items())
        if name.startswith((*_KBUILD, "include/")) and name.endswith((".c", ".h"))
    ]
    return sorted(reply.text.splitlines()) == sorted(ours)


def _build(
    host: Host, code: Mapping[str, bytes], there: str, testbed: str, *, modules: bool
) -> dict[str, bytes]:
    """Build on the host, and bring what has become of it here."""
    workshop = f"{there}.build"
    files.put_tree(host, code, workshop)
    try:
        what = "modules" if modules else "plugins"
        reply = run(
            host, ("sh", "-c", _BUILD, "sh", workshop, what, _PARTS), silence=BUILD_SILENCE_S
        )
        if reply.status == _NO_HEADERS:
            raise TestbedError(
                "modules cannot be built: no kernel headers, /lib/modules/$(uname -r)/build",
                where=f"host {host.name}",
                hint="on the host: apt-get install linux-headers-$(uname -r) gcc make",
            )
        if reply.status != 0:
            what = "modules and plugins"
            hint = "on the host: apt-get install linux-headers-$(uname -r) gcc make libc6-dev"
            raise _not_built(host, testbed, what, reply, hint)
        with tempfile.TemporaryDirectory() as directory:
            files.fetch(host, f"{workshop}/out", Path(directory))
            return files.tree(Path(directory), (".",))
    finally:
        run(host, ("rm", "-rf", workshop))


def _not_built(host: Host, testbed: str, what: str, reply: Reply, hint: str) -> TestbedError:
    where, output = f"host {host.name}", f"{reply.text}\n{reply.errors}"
    fault = hosts.failed(where, testbed, f"the build of {what}", reply.status, output)
    return TestbedError(fault.message, where=where, hint=hint)


def keep(products: Mapping[str, bytes], directory: Path) -> None:
    """Write a directory that is there whole or not at all."""
    uml_kernel.make_cache(directory.parent)
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        whole = Path(temporary) / "whole"
        for name, content in products.items():
            path = whole / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not directory.exists():
            whole.rename(directory)


#: The Makefile of a distribution's headers leads to those that all its flavours share.
_INCLUDE = re.compile(r"^include\s+(/usr/src/\S+/Makefile)\s*$", re.MULTILINE)


def build_modules(root: Path, kernel: tuple[str, str, str], progress: Progress) -> None:
    """Build modules and plugins for a kernel, unless the cache has them.

    Parameters
    ----------
    root : Path
        Where the packages of the kernel's headers are unpacked.
    kernel : tuple of (str, str, str)
        What ``uname -r``, ``uname -v`` and ``uname -m`` will print there.
    progress : callable
        Called with the progress.

    Raises
    ------
    KernelBuildError
        If headers are missing, or something does not compile.
    """
    recipe = uml_recipe.load()
    entry = cache() / key(sources(), *kernel)
    if entry.is_dir():
        return
    tree = root / "usr/src" / f"linux-headers-{kernel[0]}"
    # BTF of modules takes `pahole`, which the unpacked headers come without, and nobody reads it.
    make = ("make", "-f", str(_shared(root, tree)), "CONFIG_DEBUG_INFO_BTF_MODULES=")
    with tempfile.TemporaryDirectory() as directory:
        place, result = Path(directory), Path(directory) / "result"
        result.mkdir()
        environment = uml_recipe.build_environment()
        shop = Workshop(place, place / "build.log", progress, environment)
        uml_recipe.compile_modules(recipe, tree, result, shop, make)
        products = files.tree(result / uml_recipe.MODULES, (".",))
        products |= files.tree(result, (uml_recipe.PLUGINS,))
        keep(products, entry)


def _shared(root: Path, tree: Path) -> Path:
    """Give the Makefile that the headers' own one includes by a path of another machine."""
    own = tree / "Makefile"
    found = _INCLUDE.search(own.read_text()) if own.is_file() else None
    if found is None:
        raise KernelBuildError(
            "no headers for this kernel",
            where=str(tree),
            hint=f"`{command('vm', 'up')}` downloads them",
        )
    return root / found[1].removeprefix("/")


def program_sources() -> dict[str, bytes]:
    """Read the sources of all of them, by name below ``kernel``."""
    names = (name for code in TRAFFIC_PROGRAMS.values() for name in code)
    return files.tree(shipped.directory("kernel"), dict.fromkeys(names))


def program_hash() -> str:
    """Identify the sources by names and contents."""
    return source_hash(program_sources())


def provide_programs(host: Host, machine: str, state: str, testbed: str, *, build: bool) -> str:
    """Give ``host`` the programs, built there or here; return their directory.

    Parameters
    ----------
    host : Host
        Where they are needed.
    machine : str
        What ``uname -m`` prints there.
    state : str
        The state directory on the host.
    testbed : str
        The testbed's name, for messages.
    build : bool
        Whether the host's own compiler makes them.

    Raises
    ------
    TestbedError
        If they cannot be built or sent.
    """
    code = program_sources()
    how = "host" if build else f"here {' '.join(PROGRAM_FLAGS)}"
    words = f"{source_hash(code)} {how} {machine}"
    name = hashlib.sha256(words.encode()).hexdigest()[:16]
    directory = f"{state}/programs/{name}"
    if not build:
        for program, content in _compiled_here(host, machine, name).items():
            files.put(host, content, f"{directory}/{program}", "0755")
    elif run(host, ("test", "-d", directory)).status != 0:
        _compile_there(host, code, directory, testbed)
    return directory


def _compile_there(host: Host, code: Mapping[str, bytes], directory: str, testbed: str) -> None:
    workshop = f"{directory}.build"
    files.put_tree(host, code, workshop)
    flags = tuple(flag for flag in PROGRAM_FLAGS if flag != "-static")
    commands = [("gcc", *flags, "-o", f"out/{name}", *parts) for name, parts in _units().items()]
    each = map(" ".join, commands)
    script = " && ".join(
        ('cd "$1"', "rm -rf out", "mkdir out", *each, 'mv out "$2"', 'rm -rf "$1"')
    )
    reply = run(host, ("sh", "-c", script, "sh", workshop, directory), silence=BUILD_SILENCE_S)
    if reply.status != 0:
        run(host, ("rm", "-rf", workshop))
        hint = (
            "on the host: apt-get install gcc libc6-dev; or set `programs: push` in the inventory"
        )
        raise _not_built(host, testbed, "the traffic programs", reply, hint)


def _compiled_here(host: Host, machine: str, name: str) -> dict[str, bytes]:
    if machine != os.uname().machine:
        raise TestbedError(
            f"programs built here for {os.uname().machine} do not run on {machine}",
            where=f"host {host.name}",
            hint="set `programs: build` in the inventory",
        )
    entry = cache() / name
    if not entry.is_dir():
        root = shipped.directory("kernel")
        keep({each: _compile(root, each) for each in TRAFFIC_PROGRAMS}, entry)
    return {each: (entry / each).read_bytes() for each in TRAFFIC_PROGRAMS}


def _compile(root: Path, program: str) -> bytes:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise KernelBuildError("gcc is not installed", hint="apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / program
        units = [str(root / name) for name in _units()[program]]
        command = [compiler, *PROGRAM_FLAGS, "-o", str(result), *units]
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
        if reply.returncode != 0:
            lines = hosts.tail(reply.stderr)
            raise KernelBuildError(f"{program} does not compile:{lines}", where=units[0])
        return result.read_bytes()


def _units() -> dict[str, tuple[str, ...]]:
    """Name what the compiler is given for each program: no headers."""
    return {
        program: tuple(name for name in code if name.endswith(".c"))
        for program, code in TRAFFIC_PROGRAMS.items()
    }

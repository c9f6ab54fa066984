"""The project's kernel modules and plugins of ``tc`` for hosts: built there, or here before.

Modules belong to one kernel: they are kept by the hash of their sources and the kernel's release
and build, on the host and here, so that each is built once.  A host's are used only if they are, to
the byte, those that are kept here.  Modules that DKMS has installed are used if they are of the
same sources: where a kernel takes signed modules only, those are.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tcpf_lab
from tcpf_lab.base import shipped
from tcpf_lab.base.errors import KernelBuildError, TestbedError
from tcpf_lab.results.command import command
from tcpf_lab.testbed.ssh import files, hosts
from tcpf_lab.testbed.ssh import files as ssh_files
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml import steps
from tcpf_lab.testbed.uml.recipe import KBUILD_PARTS, MODULE_PARTS
from tcpf_lab.testbed.workshop import Progress, Workshop

PLUGINS = "tc"
_KBUILD = tuple(f"{part}/" for part in KBUILD_PARTS)
_BUILT = (".o", ".ko", ".so", ".mod", ".cmd", ".d", ".symvers", ".order", ".mod.c")
#: A compiler may be silent for so long on an emulated machine, s.
BUILD_SILENCE_S = 600.0
_NO_HEADERS = 3
#: Builds in the directory $1, which holds the sources; $2 says whether modules are wanted too.
_BUILD = (
    f"""
set -e
tree="/lib/modules/$(uname -r)/build"
cd "$1"
mkdir out
if [ "$2" = modules ]; then
    [ -e "$tree/Makefile" ] || exit {_NO_HEADERS}
    for part in {" ".join(KBUILD_PARTS)}; do
        make -C "$tree" -j"$(nproc)" M="$1/$part" KCFLAGS="-ffile-prefix-map=$1/=kernel/" modules
        cp "$part"/*.ko out/
    done
fi
make -C tc O="$1/out/{PLUGINS}"
"""
    + 'rm -f "out/tc/"*.d\n'
)
#: Prints the hash of what DKMS has installed for the running kernel; nothing if it has not.
_DKMS = f"""
PATH="$PATH:/usr/sbin:/sbin"
source="/usr/src/tcpf-lab-$1"; shift
for name; do modinfo -n "$name" 2>/dev/null | grep -q /updates/ || exit 0; done
cd "$source" 2>/dev/null || exit 0
find {" ".join(KBUILD_PARTS)} include -type f -name '*.[ch]' -exec sha256sum {{}} +
"""


@dataclass(frozen=True)
class Products:
    """What a host has been given for one kernel."""

    plugins: str  #: directory on the host
    modules: str | None  #: directory on the host; None: DKMS has installed them
    hashes: dict[str, str]  #: name -> SHA-256, of modules and plugins


def sources(root: Path | None = None) -> dict[str, bytes]:
    """Read the sources of modules and plugins."""
    return ssh_files.tree(root or shipped.directory("kernel"), MODULE_PARTS, _BUILT)


def source_hash(files: Mapping[str, bytes]) -> str:
    """Identify sources by names and contents."""
    return hashlib.sha256(ssh_files.pack(files)).hexdigest()


def key(files: Mapping[str, bytes], release: str, build: str, machine: str) -> str:
    """Name what these sources become on a kernel (16 hex digits).

    A kernel is told by ``uname -r``, ``-v`` and ``-m``: two builds of one release, as of a
    configuration that was changed meanwhile, may not take each other's modules.
    """
    words = f"{source_hash(files)} {release} {build} {machine}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def cache() -> Path:
    """Return where products for other kernels are kept on this machine."""
    return uml_kernel.cache_directory().parent / hosts.BUILT


def missing(names: Iterable[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the modules among ``names`` that there is no source of."""
    there = {Path(name).stem for name in files if name.startswith(_KBUILD) and name.endswith(".c")}
    return tuple(name for name in names if name not in there)


def provide(
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
    files = sources()
    installed = _dkms(host, names, files)
    name = key(files, *kernel) + ("-plugins" if installed else "")
    there, here = f"{state}/modules/{name}", cache() / name
    if not here.is_dir():
        keep(_build(host, files, there, testbed, modules=not installed), here)
    products = ssh_files.tree(here, (".",))
    ssh_files.put_tree(host, products, there)
    return Products(f"{there}/{PLUGINS}", None if installed else there, _hashes(products))


def _hashes(products: Mapping[str, bytes]) -> dict[str, str]:
    return {
        Path(name).stem: hashlib.sha256(content).hexdigest()
        for name, content in sorted(products.items())
        if name.endswith((".ko", ".so"))
    }


def _dkms(host: Host, names: tuple[str, ...], files: Mapping[str, bytes]) -> bool:
    """Tell whether DKMS has installed modules of these very sources."""
    reply = run(host, ("sh", "-c", _DKMS, "sh", tcpf_lab.__version__, *names))
    ours = [
        f"{hashlib.sha256(content).hexdigest()}  {name}"
        for name, content in sorted(files.items())
        if name.startswith((*_KBUILD, "include/")) and name.endswith((".c", ".h"))
    ]
    return sorted(reply.text.splitlines()) == sorted(ours)


def _build(
    host: Host, files: Mapping[str, bytes], there: str, testbed: str, *, modules: bool
) -> dict[str, bytes]:
    """Build on the host, and bring what has become of it here."""
    workshop = f"{there}.build"
    ssh_files.put_tree(host, files, workshop)
    try:
        what = "modules" if modules else "plugins"
        reply = run(host, ("sh", "-c", _BUILD, "sh", workshop, what), silence=BUILD_SILENCE_S)
        if reply.status != 0:
            raise _not_built(host, reply.status, f"{reply.text}\n{reply.errors}", testbed)
        with tempfile.TemporaryDirectory() as directory:
            ssh_files.fetch(host, f"{workshop}/out", Path(directory))
            return ssh_files.tree(Path(directory), (".",))
    finally:
        run(host, ("rm", "-rf", workshop))


def _not_built(host: Host, status: int, said: str, testbed: str) -> TestbedError:
    where = f"host {host.name}"
    if status == _NO_HEADERS:
        return TestbedError(
            "modules cannot be built: /lib/modules/$(uname -r)/build is not there",
            where=where,
            hint="on the host: apt-get install linux-headers-$(uname -r) gcc make",
        )
    fault = hosts.failed(where, testbed, "the build of modules and plugins", status, said)
    hint = "on the host: apt-get install linux-headers-$(uname -r) gcc make libc6-dev"
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
    kept = cache() / key(sources(), *kernel)
    if kept.is_dir():
        return
    tree = root / "usr/src" / f"linux-headers-{kernel[0]}"
    make = ("make", "-f", str(_shared(root, tree)))
    with tempfile.TemporaryDirectory() as directory:
        place, result = Path(directory), Path(directory) / "result"
        result.mkdir()
        environment = steps.build_environment()
        shop = Workshop(place, place / "build.log", progress, environment)
        steps.compile_modules(recipe, tree, result, shop, make)
        products = files.tree(result / steps.MODULES, (".",))
        products |= files.tree(result, (steps.PLUGINS,))
        keep(products, kept)


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

"""What a guest's kernel finds when it starts: the archive with its first programs and keys."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.vm import kernel
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm.kernel import GuestKernel
from tcpf_lab.testbed.vm.layout import PLACE, ROLES, Guest, inittab, setup
from tcpf_lab.testbed.workshop import Progress

_DIRECTORY, _FILE, _PROGRAM, _LINK = 0o040755, 0o100600, 0o100755, 0o120777
_END = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """A file of the archive; its directories need not be named."""

    content: bytes
    mode: int = _PROGRAM


def program(content: bytes) -> Entry:
    """Return a file that everyone may read and run."""
    return Entry(content)


def private(content: bytes) -> Entry:
    """Return a file for its owner alone, as keys must be."""
    return Entry(content, _FILE)


def link(target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(target.encode(), _LINK)


def cpio(entries: Mapping[str, Entry], directories: tuple[str, ...] = ()) -> bytes:
    """Return an archive in cpio's ``newc`` format, which a kernel unpacks into its first root.

    The same entries give the same bytes.

    Parameters
    ----------
    entries : mapping
        Name, without a slash in front, to what is there.
    directories : tuple of str
        Directories that are to exist even if they are empty.
    """
    parents = {str(parent) for name in entries for parent in PurePosixPath(name).parents}
    every = {name: Entry(b"", _DIRECTORY) for name in sorted((parents | {*directories}) - {"."})}
    every |= entries
    blocks = [_block(number, name, entry) for number, (name, entry) in enumerate(every.items(), 1)]
    return b"".join((*blocks, _block(0, _END, Entry(b"", 0))))


def _block(number: int, name: str, entry: Entry) -> bytes:
    links, no_time, no_owner, device = 1, 0, (0, 0), (0, 0, 0, 0)
    size = len(entry.content)
    words = (number, entry.mode, *no_owner, links, no_time, size, *device, len(name) + 1, 0)
    header = b"070701" + "".join(f"{word:08x}" for word in words).encode()
    return _padded(header + name.encode() + b"\0") + _padded(entry.content)


def _padded(block: bytes) -> bytes:
    return block + bytes(-len(block) % 4)


SSHD, BUSYBOX = Path("/usr/sbin/sshd"), "busybox"
NEEDED_BYTES = 100_000_000
#: The same where nothing is missing.
NOTHING = "none"
_INTERPRETED = b"/ld-linux"


def _has_sshd() -> bool:
    return SSHD.exists()


def _has_busybox() -> bool:
    """Whether there is one that needs no libraries, which a guest has not got at first."""
    path = shutil.which(BUSYBOX)
    return path is not None and _INTERPRETED not in Path(path).read_bytes()[:4096]


#: Debian package -> whether this machine has what the guests need of it.
PACKAGES: dict[str, Callable[[], bool]] = {
    "openssh-server": _has_sshd,
    "busybox-static": _has_busybox,
}


def fetch(progress: Progress, cache: Path) -> Path:
    """Return the tree of programs that this machine lacks, downloaded if the cache has it not.

    Raises
    ------
    TestbedError, KernelBuildError
        If the programs cannot be had.
    """
    missing = [package for package, has in PACKAGES.items() if not has()]
    entry = cache / "programs" / ("+".join(missing) or NOTHING)
    if not missing:
        entry.mkdir(parents=True, exist_ok=True)
    elif not (entry / kernel.FACTS).exists():
        kernel.require_tools()
        packages = kernel.with_missing(missing)
        kernel.obtain(entry, packages, NEEDED_BYTES, progress)
    return entry


def busybox(tree: Path) -> bytes:
    """Return the program from the tree, or else the machine's.

    Raises
    ------
    TestbedError
        If there is none.
    """
    path = shutil.which(BUSYBOX, path=str(tree / "usr/bin")) or shutil.which(BUSYBOX)
    if path is None:
        raise TestbedError(
            f"no '{BUSYBOX}'", where=str(tree), hint="delete that directory, then run again"
        )
    return Path(path).read_bytes()


#: Without which a guest has no root, and its roles no interfaces.
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_net", "veth")
SCRIPTS = ("connect", "role")
#: Name of the key that all roles accept.
CLIENT = "identity"


@dataclass(frozen=True)
class Layers:
    """The trees that the guests have over the machine's root."""

    kernel: GuestKernel
    programs: Path  #: those that the machine lacks


def make_keys(directory: Path) -> None:
    """Make a host key for every role and one to log in with; only the user can read them.

    Raises
    ------
    TestbedError
        If ``ssh-keygen`` fails.
    """
    for name in (CLIENT, *ROLES):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"tcpf-lab-vm-{name}"]
        reply = subprocess.run(
            [*words, "-f", str(directory / name)], capture_output=True, text=True, check=False
        )
        if reply.returncode:
            raise TestbedError(
                f"'ssh-keygen' ended with status {reply.returncode}: {reply.stderr.strip()}",
                where=str(directory),
            )


def public_key(directory: Path, name: str) -> str:
    """Return the public half of a key that `make_keys` made, without its comment."""
    return " ".join((directory / f"{name}.pub").read_text().split()[:2])


def common(layers: Layers) -> dict[str, Entry]:
    """Return what all guests have: busybox, scripts and modules."""
    sources = shipped.directory("kernel") / "vm"
    files = {"init": program((sources / "init").read_bytes())}
    own = {"busybox": program(busybox(layers.programs))}
    own |= {name: program((sources / name).read_bytes()) for name in SCRIPTS}
    own["sshd_config"] = private((sources / "sshd_config").read_bytes())
    for number, path in enumerate(layers.kernel.module_files(*MODULES)):
        name = f"modules/{number:02}-{vm_kernel.module_name(path)}.ko"
        own[name] = private(vm_kernel.module_content(path))
    return files | _placed(own)


def archive(guest: Guest, common_files: Mapping[str, Entry], keys: Path) -> bytes:
    """Return the whole archive of a guest.

    Parameters
    ----------
    guest : Guest
        Whose roles, interfaces and clock it is to have.
    common_files : mapping
        What `common` gave.
    keys : Path
        Directory where `make_keys` made keys.
    """
    own = {"setup": setup(guest), "inittab": inittab(guest)}
    own["keys/authorized"] = f"{public_key(keys, CLIENT)}\n"
    own |= {f"keys/{role}": (keys / role).read_text() for role in guest.roles}
    hidden = {name: private(text.encode()) for name, text in own.items()}
    return cpio({**common_files, **_placed(hidden)})


def _placed(files: Mapping[str, Entry]) -> dict[str, Entry]:
    return {f"{PLACE.removeprefix('/')}/{name}": entry for name, entry in files.items()}

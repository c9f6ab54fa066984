"""The guest's root: an archive in the ``newc`` format, which the kernel unpacks into memory."""

from __future__ import annotations

import shutil
from pathlib import Path

from stress.modules import libraries
from tcpf_lab.errors import TestbedError

#: Programs of the host that the guest runs.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2"}
_DIRECTORY, _FILE, _LINK = 0o040755, 0o100755, 0o120777
_END = "TRAILER!!!"


def write(target: Path, files: dict[str, Path], texts: dict[str, str]) -> None:
    """Write the archive.

    Parameters
    ----------
    target : Path
        The archive.
    files : dict
        Name in the guest, without a slash in front, to file of the host.
    texts : dict
        Name in the guest to content.
    """
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents |= {name: text.encode() for name, text in texts.items()}
    parents = {str(parent) for name in contents for parent in Path(name).parents} - {"."}
    # The last is where `ip netns` keeps its names.
    directories = sorted(parents | {"dev", "proc", "sys", "run", "tmp", "var"})
    with target.open("wb") as archive:
        number = 1
        for name in directories:
            archive.write(_entry(number, name, _DIRECTORY, b""))
            number += 1
        archive.write(_entry(number, "var/run", _LINK, b"../run"))
        for name, content in contents.items():
            number += 1
            archive.write(_entry(number, name, _FILE, content))
        archive.write(_entry(0, _END, 0, b""))


def programs() -> dict[str, Path]:
    """Return ``ip``, ``tc`` and their libraries by their name in the guest."""
    files: dict[str, Path] = {}
    for name, package in PROGRAMS.items():
        found = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if found is None:
            raise TestbedError(f"'{name}' is not installed", hint=f"sudo apt-get install {package}")
        files[f"bin/{name}"] = Path(found)
        # The loader looks in the same places here and there.
        files |= {str(library).lstrip("/"): library for library in libraries(Path(found))}
    return files


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    links, no_time, no_owner = 1, 0, (0, 0)
    device = (0, 0, 0, 0)
    words = (number, mode, *no_owner, links, no_time, len(content), *device, len(name) + 1, 0)
    header = b"070701" + "".join(f"{word:08x}" for word in words).encode()
    return _padded(header + name.encode() + b"\0") + _padded(content)


def _padded(block: bytes) -> bytes:
    return block + bytes(-len(block) % 4)

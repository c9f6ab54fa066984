"""The guest's root: an archive that its kernel unpacks into memory."""

from __future__ import annotations

import shutil
from pathlib import Path

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.vm import root
from tools.stress.modules import libraries

#: Programs of the host that the guest runs.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2"}


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
    entries = {name: root.program(content) for name, content in contents.items()}
    # Where `ip netns` keeps its names.
    entries["var/run"] = root.link("../run")
    target.write_bytes(root.cpio(entries, ("dev", "proc", "sys", "run", "tmp")))


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

"""Files to and from hosts: sent only if they differ, and never taken for whole unchecked."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.ssh.hosts import BROKEN, SILENCE_S, Host, Reply, lost, run

_SCRIPTS = Path(__file__).with_name("scripts")


def script(name: str) -> str:
    """Return a shell script for hosts, without its leading comments."""
    lines = (_SCRIPTS / f"{name}.sh").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


_PUT = script("put")
_UNPACK = script("unpack")
_STATE = script("state")
#: Exit status of the last script if the directory is not safe.
_NOT_OURS = 66
_SUMS_IF_ANY = '[ ! -d "$1" ] || { cd "$1" && find . -type f -exec sha256sum {} +; }'
_SUMS = 'cd "$1" && find . -type f -exec sha256sum {} +'


def put(host: Host, content: bytes, path: str, mode: str = "0644") -> bool:
    """Send ``host`` a file unless it has it; return whether it was sent.

    Raises
    ------
    TestbedError
        If it cannot be written there, or arrives damaged.
    """
    digest = hashlib.sha256(content).hexdigest()
    there = run(host, ("sh", "-c", '[ ! -f "$1" ] || sha256sum < "$1"', "sh", path))
    if there.text.split()[:1] == [digest]:
        return False
    _written(host, path, run(host, ("sh", "-c", _PUT, "sh", path, digest, mode), content))
    return True


def put_tree(host: Host, files: Mapping[str, bytes], path: str) -> bool:
    """Send ``host`` a directory of exactly these files unless it has it; return whether it did.

    The directory appears complete or not at all.

    Raises
    ------
    TestbedError
        If it cannot be written there, or arrives damaged.
    """
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    there = run(host, ("sh", "-c", _SUMS_IF_ANY, "sh", path))
    if there.status == 0 and sums == _read_sums(host, there):
        return False
    archive = pack(files)
    digest = hashlib.sha256(archive).hexdigest()
    _written(host, path, run(host, ("sh", "-c", _UNPACK, "sh", path, digest), archive))
    return True


def refuse_state(host: Host, path: str) -> None:
    """Make the state directory if it is missing; refuse one that other users can write to.

    Raises
    ------
    TestbedError
        If it belongs to another user, or if others can write to it or its parent and there is no
        sticky bit; or if it cannot be made.
    """
    reply = run(host, ("sh", "-c", _STATE, "sh", path))
    if reply.status not in (0, _NOT_OURS):
        _written(host, path, reply)
    if reply.status == _NOT_OURS:
        raise TestbedError(
            f"the state directory {path} is not safe: {reply.text.strip()}",
            where=f"host {host.name}",
            hint="root runs files from it: check them, then `chown root` and `chmod go-w`, or set "
            "another `state_directory` in the inventory",
        )


def _written(host: Host, path: str, reply: Reply) -> None:
    if reply.status != 0:
        raise TestbedError(
            f"{path} cannot be written: {reply.errors or f'status {reply.status}'}",
            where=f"host {host.name}",
            hint="check whether the disk is full or read-only, or set another `state_directory` in "
            "the inventory",
        )


def pack(files: Mapping[str, bytes]) -> bytes:
    """Make a tar archive that depends on nothing but names and contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(files[name]), 0o644
            archive.addfile(info, io.BytesIO(files[name]))
    return buffer.getvalue()


def unpack(archive: bytes) -> dict[str, bytes]:
    """Give the files of a tar archive by name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            handle = tar.extractfile(member)
            if handle:
                found[str(PurePosixPath(member.name))] = handle.read()
    return found


def tree(root: Path, parts: Iterable[str], suffixes: Iterable[str] = ()) -> dict[str, bytes]:
    """Read the files below ``root`` in ``parts``, leaving out what a build has left there.

    Parameters
    ----------
    root : Path
        Names of files are relative to it.
    parts : iterable of str
        Directories or files below it.
    suffixes : iterable of str
        Endings of names that are left out.
    """
    left_out = tuple(suffixes)
    every = (path for part in parts for path in (root / part, *sorted((root / part).rglob("*"))))
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in every
        if path.is_file() and not (left_out and path.name.endswith(left_out))
    }


def fetch(host: Host, directory: str, target: Path) -> int:
    """Copy all files below ``directory`` of ``host`` into ``target``; return how many.

    Raises
    ------
    TestbedError
        If one is missing, does not have its checksum, or is not allowed to be called so.
    """
    sums = _checksums(host, directory)
    if not sums:
        return 0
    found: dict[str, str] = {}
    try:
        process = host.start(("tar", "-C", directory, "-cf", "-", "."), SILENCE_S)
        with tarfile.open(fileobj=process.output, mode="r|") as archive:
            for member in archive:
                if member.isfile():
                    name = _inside(host, member.name)
                    found[name] = _copy(archive, member, target / name)
        process.close()
    except tarfile.TarError as error:
        raise lost(host.name, f"while files were fetched from {directory}", error) from None
    except BROKEN as error:
        raise lost(host.name, f"while files were fetched from {directory}", error) from None
    wrong = sorted(name for name, digest in sums.items() if found.get(name) != digest)
    if wrong:
        raise TestbedError(
            f"files missing or changed in transfer: {', '.join(wrong[:4])}",
            where=f"host {host.name}",
            hint="run again; a program may still have been writing to them",
        )
    return len(sums)


def _checksums(host: Host, directory: str) -> dict[str, str]:
    reply = run(host, ("sh", "-c", _SUMS, "sh", directory))
    if reply.status != 0:
        raise TestbedError(
            f"the files in {directory} cannot be read: {reply.errors}",
            where=f"host {host.name}",
            hint="`clean` or a lost connection may have undone the run; run again",
        )
    return _read_sums(host, reply)


def _read_sums(host: Host, reply: Reply) -> dict[str, str]:
    lines = [line.partition("  ") for line in reply.text.splitlines()]
    odd = [digest for digest, gap, name in lines if not gap or digest.startswith("\\")]
    if odd:  # a name with a line break, which none of ours has
        raise TestbedError(f"unexpected file name {odd[0]!r}", where=f"host {host.name}")
    return {_inside(host, name): digest for digest, _, name in lines}


def _inside(host: Host, name: str) -> str:
    """Refuse a name that would lead out of the run's directory: a host is not trusted with that."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise TestbedError(f"unexpected file name {name!r}", where=f"host {host.name}")
    return str(path)


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> str:
    source = archive.extractfile(member)
    assert source is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    with target.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()

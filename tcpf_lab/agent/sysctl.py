"""Kernel parameters, in the namespace of the calling thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.agent.errors import AgentError

ROOT = Path("/proc/sys")
_PART = re.compile(r"[\w-][\w.@-]*", re.ASCII)
#: Below ``net``, with a directory for each interface.
_PER_DEVICE = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh")


def path(key: str) -> Path:
    """Say which file is the parameter ``key``, such as ``net.ipv4.tcp_sack``.

    A name with slashes, as ``sysctl`` takes it too, may have dots in its parts.

    Raises
    ------
    AgentError
        If it cannot be the name of one.
    """
    parts = key.split("/" if "/" in key else ".")
    if len(parts) < 2 or not all(map(_PART.fullmatch, parts)):
        raise AgentError(f"{key!r} is not the name of a kernel parameter")
    return ROOT.joinpath(*parts)


def read(key: str) -> str:
    """Read a parameter, without the line's end.

    Raises
    ------
    AgentError
        If there is none of that name.
    """
    try:
        return path(key).read_text().rstrip("\n")
    except OSError as error:
        raise AgentError(f"cannot read {key}: {error.strerror}") from None


def write(key: str, value: str) -> None:
    """Set a parameter.

    Raises
    ------
    AgentError
        If there is none of that name, or the kernel refuses the value.
    """
    try:
        path(key).write_text(value + "\n")
    except OSError as error:
        raise AgentError(f"cannot set {key} to {value!r}: {error.strerror}") from None


def lines(keys: list[str]) -> str:
    """Give ``key = value`` lines, as ``sysctl`` prints them, with single blanks."""
    return "".join(f"{key} = {read(key).replace(chr(9), ' ')}\n" for key in keys)


def of_device(name: str) -> dict[str, str]:
    """Read all parameters of one interface, by their paths below ``/proc/sys/net``."""
    found = {}
    for directory in _PER_DEVICE:
        for file in _files(ROOT / "net" / directory / name):
            try:
                found[f"{directory}/{file.name}"] = file.read_text()
            except OSError:  # not set, such as stable_secret, or only to be written
                continue
    return found


def restore_device(name: str, before: dict[str, str]) -> None:
    """Write those parameters of an interface that are not as they were.

    Some only tell a state, such as an interface's MTU; the kernel refuses these, or has set them
    already.
    """
    now = of_device(name)
    for key, value in before.items():
        directory, _, parameter = key.rpartition("/")
        if now.get(key, value) == value:
            continue
        try:
            (ROOT / "net" / directory / name / parameter).write_text(value)
        except OSError:
            continue


def _files(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(directory.iterdir())
    except OSError:  # without IPv6, say
        return

"""Files that stand beside the package in a checkout and inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from tcpf_lab.base.errors import RequestError

_PACKAGE = Path(__file__).resolve().parents[1]


def directory(name: str) -> Path:
    """Return the directory ``experiments``, ``kernel`` or ``testbeds``, wherever it is installed.

    Raises
    ------
    RequestError
        If the installation has none.
    """
    for parent in (_PACKAGE / "shipped", _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise RequestError(
        f"this installation lacks the directory '{name}'",
        where=str(_PACKAGE),
        hint="reinstall tcpf-lab, or run it from a checkout",
    )

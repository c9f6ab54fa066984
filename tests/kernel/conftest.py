"""The algorithm headers in user space: built once for all workers, driven through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import make
from run_maker import locked


@pytest.fixture(scope="session")
def products(shared: Path) -> Path:
    """Return the directory that all workers of this session build in."""
    directory = shared / "kernel-tests"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def drive(products: Path) -> Callable[[str], ctypes.CDLL]:
    """Return a function that loads ``drive_NAME.so``."""

    def load(name: str) -> ctypes.CDLL:
        library = products / f"drive_{name}.so"
        with locked(products):
            made = make(products, str(library))
        assert made.returncode == 0, made.stdout
        return ctypes.CDLL(str(library))

    return load

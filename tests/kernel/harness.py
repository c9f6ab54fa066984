"""``kernel/tests``: make, and one build at a time in what the workers of a session share."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tcpf_lab

KERNEL_TESTS = Path(tcpf_lab.__file__).parent.parent / "kernel" / "tests"


def make(
    products: Path, *targets: str, sources: Path = KERNEL_TESTS
) -> subprocess.CompletedProcess[str]:
    """Run make in ``sources``; what it says comes in one text, in its order."""
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(sources), f"O={products}", *targets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def locked(products: Path) -> Iterator[None]:
    """Keep the other workers of this test session out of ``products``."""
    with (products / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

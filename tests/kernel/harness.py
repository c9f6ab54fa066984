"""``kernel/tests``, by make."""

from __future__ import annotations

import subprocess
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

"""Crates that ``trace/`` is linked with may be given away with it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import tcpf_lab

MANIFEST = Path(tcpf_lab.__file__).parents[1] / "trace/Cargo.toml"
ALLOWED = {
    *("MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0"),
    *("Unlicense", "0BSD", "CC0-1.0", "BSL-1.0", "bzip2-1.0.6", "Apache-2.0 WITH LLVM-exception"),
}


def allowed(expression: str) -> bool:
    """Whether an SPDX expression leaves a choice that is allowed; brackets are taken for AND."""
    every = re.split(r" AND |[()]", expression.replace("/", " OR "))
    parts = (part.strip() for part in every)
    return all(not part or any(one in ALLOWED for one in part.split(" OR ")) for part in parts)


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [("MIT OR GPL-2.0", True), ("(MIT OR Apache-2.0) AND Unicode-3.0", True), ("GPL-3.0", False)],
)
def test_licence_expressions(expression: str, verdict: bool) -> None:
    assert allowed(expression) is verdict


def test_licence_of_every_crate_is_allowed() -> None:
    words = ["metadata", "--locked", "--offline", "--format-version", "1"]
    platform = ["--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path", str(MANIFEST)]
    told = subprocess.run(["cargo", *words, *platform], capture_output=True, text=True, check=True)
    crates = {one["name"]: one["license"] or "" for one in json.loads(told.stdout)["packages"]}
    assert {name: text for name, text in crates.items() if not text or not allowed(text)} == {}

"""Build ``tcpf_lab._trace`` with maturin: for the wheel, or for a checkout."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Options of ``maturin build``, such as those of `./lab wheels` for other machines.
OPTIONS = "TCPF_LAB_MATURIN"
MODULE = "_trace.abi3.so"


class TraceModule(BuildHookInterface[Any]):
    """The wheel has the tag of maturin's, which knows what the module is linked with."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Build the module."""
        root = Path(self.root)
        with TemporaryDirectory() as made:
            command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--strip"]
            options = shlex.split(os.environ.get(OPTIONS, ""))
            manifest = root / "trace/python/Cargo.toml"
            subprocess.run(
                [*command, *options, "--manifest-path", str(manifest), "--out", made], check=True
            )
            (wheel,) = Path(made).glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                (name,) = (one for one in packed.namelist() if one.endswith(MODULE))
                module = root / "tcpf_lab" / MODULE
                # Not written over: a process may have it mapped.
                module.unlink(missing_ok=True)
                module.write_bytes(packed.read(name))
        build_data["pure_python"] = False
        build_data["tag"] = wheel.stem.split("-", 2)[2]
        build_data["artifacts"].append(f"/tcpf_lab/{MODULE}")

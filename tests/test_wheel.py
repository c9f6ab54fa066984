"""The wheel works without the checkout.

It is installed into an environment that has nothing but the locked dependencies: those of the
environment that runs the tests, lent by a ``.pth`` file.  What that proves: everything of the
project that a run needs is in the wheel.  What it does not prove: that an index has the
dependencies; `requirements.txt` with its hashes is for that, and every dependency must be in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.testbed.uml import kernel

pytestmark = pytest.mark.full

ROOT = Path(tcpf_lab.__file__).resolve().parent.parent
#: What building a kernel module or a `tc` plugin leaves beside the sources.
PRODUCTS = (
    "a.o",
    "a.ko",
    "a.so",
    ".a.o.cmd",
    "a.mod",
    "a.mod.c",
    "Module.symvers",
    "modules.order",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the project in which a module build has left its products."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("tcpf_lab", "experiments", "kernel", "testbeds"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copytree(ROOT / "trace", copy / "trace", ignore=shutil.ignore_patterns("target"))
    for name in PRODUCTS:
        (copy / "kernel/uml" / name).write_text("left over")
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target)]
    # Crates that are compiled already need not be so again.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "trace/target")}
    subprocess.run([*command, str(copy)], check=True, capture_output=True, env=environment)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment and return that environment's ``bin``."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)], check=True
    )
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def environment() -> dict[str, str]:
    kept = ("HOME", "PATH", "XDG_CACHE_HOME", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


def test_wheel_carries_experiments_published_numbers_and_kernel_sources(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for directory, suffixes in (
        ("experiments", {".yaml", ".json"}),
        ("testbeds", {".yaml", ".json"}),
        ("kernel/uml", {".c", ".patch", ""}),
        ("kernel/traffic", {".c"}),
    ):
        wanted = {
            f"tcpf_lab/shipped/{path.relative_to(ROOT)}"
            for path in (ROOT / directory).rglob("*")
            if path.is_file() and path.suffix in suffixes
        }
        assert wanted
        assert wanted <= names
    for suffix in ("csv", "j2", "sh", "toml", "txt"):
        data = (ROOT / "tcpf_lab").rglob(f"*.{suffix}")
        assert {str(path.relative_to(ROOT)) for path in data} <= names
    assert "tcpf_lab/shipped/kernel/COPYING" in names


def test_wheel_carries_no_build_products_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if Path(name).name in PRODUCTS] == []
    assert [name for name in names if name.endswith(".pyc") or "tests/test_" in name] == []


def test_every_dependency_of_the_wheel_is_locked_with_hashes(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    requirements = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    needed = {re.split(r"[^A-Za-z0-9.-]", r)[0].lower().replace(".", "-") for r in requirements}
    locked = (ROOT / "requirements.txt").read_text()
    assert needed
    for package in needed:
        assert re.search(rf"^{package}==\S+ \\\n +--hash=sha256:", locked, re.MULTILINE), package
    assert "://" not in re.sub(r"#.*", "", locked), "the lock names an index"


def test_installed_package_is_the_wheels_own(installed: Path, tmp_path: Path) -> None:
    reply = subprocess.run(
        [installed / "python", "-c", "import tcpf_lab; print(tcpf_lab.__file__)"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(reply.stdout.strip()).is_relative_to(installed.parent)


@pytest.mark.uml
def test_wheel_runs_an_experiment_in_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    assert kernel.find(), "run `tcpf-lab kernel build` first"
    command = [installed / "tcpf-lab", "run", "smoke.yaml", "--results", "out", "--jobs", "1"]
    reply = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert reply.returncode == 0, reply.stdout + reply.stderr
    metrics = list(tmp_path.glob("out/smoke/uml/*/metrics.json"))
    assert metrics
    for path in metrics:
        assert json.loads(path.read_text())["validity"]["valid"], path.read_text()
    assert (tmp_path / "out/smoke/uml/table.csv").exists()

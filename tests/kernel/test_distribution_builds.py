"""The modules compile for the kernels of the distribution, the way DKMS does it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import tcpf_lab

ROOT = Path(tcpf_lab.__file__).parent.parent
KERNEL = ROOT / "kernel"
#: Version -> Debian package with the headers of its latest kernel.
KERNELS = {"6.1": "linux-headers-amd64", "6.12": "linux-headers-6.12-amd64"}
#: What DKMS puts into the environment of ``dkms.conf``, and what is read of it here.
READ_CONF = """
dkms_tree=$1 kernel_source_dir=$2
. "$1/dkms.conf"
echo "$PACKAGE_NAME $PACKAGE_VERSION"
echo "${MAKE[0]}"
echo "${CLEAN}"
for number in "${!BUILT_MODULE_NAME[@]}"; do
    name=${BUILT_MODULE_NAME[$number]}
    echo "$name ${BUILT_MODULE_LOCATION[$number]}/$name.ko ${DEST_MODULE_LOCATION[$number]}"
done
"""


def headers(version: str) -> Path:
    """Return the directory that modules for the distribution's kernel are built against."""
    directories = sorted(Path("/usr/src").glob(f"linux-headers-{version}.*[0-9+a-z]-amd64"))
    plain = [path for path in directories if not re.search(r"-(cloud|rt)-", path.name)]
    assert plain, f"no headers of Linux {version}: apt-get install {KERNELS[version]}"
    return plain[-1]


def read_conf(tree: Path, source: Path) -> list[str]:
    """Return package and version, the lines that make and clean, and a line for each module."""
    shutil.copy(KERNEL / "dkms.conf", tree)
    command = ["bash", "-c", READ_CONF, "dkms", str(tree), str(source)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stderr == ""
    return said.stdout.splitlines()


def sources() -> set[str]:
    """Name the modules that Kbuild makes."""
    lines = [line for file in KERNEL.glob("*/Kbuild") for line in file.read_text().splitlines()]
    made = " ".join(line.partition("=")[2] for line in lines if line.startswith("obj-m"))
    return {name.removesuffix(".o") for name in made.split()}


def test_dkms_has_this_version_and_every_module(tmp_path: Path) -> None:
    package, _, _, *modules = read_conf(tmp_path, tmp_path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert package == f"{project['name']} {project['version']}"
    assert {module.split()[0] for module in modules} == sources()
    places = {module.split()[1].split("/")[0]: module.split()[2] for module in modules}
    assert places == {"sched": "/updates/net/sched", "drivers": "/updates/drivers/net"}


@pytest.mark.nightly
@pytest.mark.parametrize("version", KERNELS)
def test_modules_compile_without_a_warning(version: str, tmp_path: Path) -> None:
    source = headers(version)
    package, make, clean, *modules = read_conf(tmp_path, source)
    build = tmp_path / package.replace(" ", "/") / "build"
    products = shutil.ignore_patterns("*.o", "*.ko", "*.so", "*.mod*", ".*")
    shutil.copytree(KERNEL, build, ignore=products)
    made = subprocess.run(["bash", "-c", make], capture_output=True, text=True, check=False)
    said = made.stdout + made.stderr
    assert made.returncode == 0, said
    assert [line for line in said.splitlines() if "warning:" in line] == []
    for module in modules:
        file = build / module.split()[1]
        magic = subprocess.run(["strings", file], capture_output=True, text=True, check=True)
        assert f"vermagic={source.name.removeprefix('linux-headers-')} " in magic.stdout
    subprocess.run(["bash", "-c", clean], capture_output=True, check=True)
    assert list(build.rglob("*.ko")) == []

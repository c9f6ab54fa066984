"""What checkpatch and sparse find in the modules, and what the manual pages leave out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import KERNEL_TESTS

from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.testbed.uml.recipe import KBUILD_PARTS, MAKE, MODULE_PARTS

KERNEL = KERNEL_TESTS.parent
COMPAT = KERNEL / "include/compat.h"
#: The kernel's own names (`Qdisc`).  compat.h may ask for the version besides.
ACCEPTED = "CAMELCASE"


@pytest.mark.full
@pytest.mark.uml
def test_checkpatch_finds_nothing(uml: UmlTestbed) -> None:
    if not shutil.which("perl"):
        pytest.skip("no perl: apt-get install perl")
    sources = {file for part in MODULE_PARTS for file in (KERNEL / part).rglob("*.[ch]")}
    found = ""
    for files, accepted in (
        (sorted(sources - {COMPAT}), ACCEPTED),
        ([COMPAT], f"{ACCEPTED},LINUX_VERSION_CODE"),
    ):
        command = [uml.kernel.tree / "scripts/checkpatch.pl", "--no-tree", "--strict", "--terse"]
        command += ["--no-summary", "--show-types", "--ignore", accepted, "--file", *files]
        found += subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    assert found == ""


@pytest.mark.full
@pytest.mark.uml
@pytest.mark.parametrize("part", KBUILD_PARTS)
def test_sparse_finds_nothing(part: str, uml: UmlTestbed, tmp_path: Path) -> None:
    if not shutil.which("sparse"):
        pytest.skip("no sparse: apt-get install sparse")
    for name in (part, "include"):
        products = shutil.ignore_patterns("*.o", "*.ko", "*.mod*", ".*.cmd")
        shutil.copytree(KERNEL / name, tmp_path / name, ignore=products)
    command = [*MAKE, "-C", str(uml.kernel.tree), f"M={tmp_path / part}", "C=2", "modules"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "  CHECK  " in made.stdout
    assert made.stderr == ""


#: Page -> the sources of the plugin that parses its parameters.
PAGES = {
    "tc-rio": ("precedence.h", "q_rio.c"),
    "tc-frio": ("precedence.h", "q_frio.c"),
    "tc-tcpf": ("marker.h", "m_tcpf.c"),
    "tc-token": ("marker.h", "m_token.c"),
    "tc-delivery": ("q_delivery.c",),
    "ip-link-csma": ("link_csma.c",),
}
#: A word and its netlink attribute, or the other way round.
_WORD = re.compile(r'"(\w+)", (?:TCA|CSMA)_|_\w+\] = "(\w+)"')


@pytest.mark.parametrize(("page", "sources"), PAGES.items())
def test_manual_page_has_every_parameter(page: str, sources: tuple[str, ...]) -> None:
    plugin = "".join((KERNEL / "tc" / name).read_text() for name in sources)
    words = {first or second for first, second in _WORD.findall(plugin.partition("reasons[]")[0])}
    _, _, behind = (KERNEL / f"man/{page}.8").read_text().partition("\n.SH PARAMETERS\n")
    described = behind.partition("\n.SH ")[0]
    tags = " ".join(re.findall(r"^\.TP\n\.BR? (.*)$", described, re.MULTILINE))
    assert words
    assert words <= set(re.findall(r"\w+", tags))

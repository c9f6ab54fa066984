"""The modules in a kernel that looks for faults: memory, locks, lists, leaks, arithmetic."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import tc_cases
from run_maker import locked
from tc_cases import Case, judge

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe
from tcpf_lab.testbed.uml.guest import UmlTestbed

pytestmark = [pytest.mark.uml, pytest.mark.nightly]

FAULTY = Path(__file__).with_name("faulty") / "faulty.c"
#: Fault of the module `faulty` -> what the kernel says of it.
FAULTS = {
    "use_after_free": "KASAN: slab-use-after-free in faulty_init",
    "out_of_bounds": "KASAN: slab-out-of-bounds in faulty_init",
    "vmalloc_out_of_bounds": "KASAN: vmalloc-out-of-bounds in faulty_init",
    "shift": "UBSAN: shift-out-of-bounds",
    "sleeps_under_lock": "BUG: scheduling while atomic",
    "lock_order": "possible circular locking dependency",
    "rcu_unprotected": "suspicious RCU usage",
    "list_corruption": "list_debug.c",
}
#: A little of everything: both qdiscs and markers in each way that they work.
EXPERIMENT = shipped.directory("experiments") / "configA.yaml"
SETTINGS = (
    *("matrix.flows=20", "matrix.seed=1", "traffic.start_spread=500 ms"),
    *("traffic.warmup=1 s", "traffic.duration=8 s"),
)
CASES = ("TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "TB+RIO")


@pytest.fixture(scope="session")
def kasan() -> UmlTestbed:
    kernel = uml_kernel.find(recipe=recipe.load(variant="kasan"))
    if kernel is None:
        pytest.skip("not built: `tcpf-lab kernel build --variant kasan`")
    return UmlTestbed(kernel, watchdog_base=300.0)


@pytest.fixture(scope="session")
def faulty(kasan: UmlTestbed, products: Path) -> Path:
    """Build a module for each fault; return their directory."""
    directory = products / "faulty"
    names = [*FAULTS, "leak"]
    with locked(products):
        if not directory.exists():
            directory.mkdir()
            for name in names:
                shutil.copy(FAULTY, directory / f"{name}.c")
            flags = "".join(f"CFLAGS_{name}.o := -DFAULT={name}\n" for name in names)
            made = "obj-m := " + " ".join(f"{name}.o" for name in names)
            (directory / "Kbuild").write_text(f"{flags}{made}\n")
            command = ["make", "-C", str(kasan.kernel.tree), "ARCH=um", f"M={directory}", "modules"]
            subprocess.run(command, check=True, capture_output=True)
    return directory


def case_of(name: str, command: str, *setup: str) -> Case:
    return Case(name, {"id": name, "setup": list(setup), "cmdUnderTest": command, "teardown": []})


@pytest.mark.parametrize(("fault", "said"), FAULTS.items(), ids=FAULTS)
def test_fault_in_a_module_ends_in_an_error_that_tells_of_it(
    kasan: UmlTestbed, faulty: Path, fault: str, said: str, tmp_path: Path
) -> None:
    case = case_of(fault, f"module load {faulty / f'{fault}.ko'}")
    with pytest.raises(TestbedError, match=r"kernel reports \d+ fault"):
        tc_cases.carry_out(kasan, [case], tmp_path / "run")
    assert said in (tmp_path / "run/log/console.txt").read_text()


def test_memory_that_is_never_freed_is_found(
    kasan: UmlTestbed, faulty: Path, tmp_path: Path
) -> None:
    case = case_of("leak", "leaks", f"module load {faulty / 'leak.ko'}")
    outcomes = tc_cases.carry_out(kasan, [case], tmp_path / "run")
    with pytest.raises(AssertionError, match="unreferenced object"):
        judge(case, outcomes["leak"])


def reaches_the_kernel(case: Case) -> bool:
    """Leave out what tc itself refuses: no module sees anything of it."""
    categories = set(case.content["category"])
    return "refuse" not in categories or bool(categories & {"netlink", "create"})


def without_verification(case: Case) -> Case:
    """Leave out what shows that a refused request has changed nothing: that is tested elsewhere."""
    if "refuse" not in case.content["category"]:
        return case
    kept = {key: part for key, part in case.content.items() if key[:5] not in ("verif", "match")}
    return Case(case.file, kept)


def test_no_case_makes_the_kernel_report_anything(kasan: UmlTestbed, tmp_path: Path) -> None:
    cases = [without_verification(case) for case in tc_cases.load() if reaches_the_kernel(case)]
    unload = [f"module unload {name}" for name in kasan.kernel.modules]
    cases.append(case_of("leaks", "leaks", *unload))
    outcomes = tc_cases.carry_out(kasan, cases, tmp_path / "run")
    for case in cases:
        judge(case, outcomes[case.id])


@pytest.mark.parametrize("case", CASES)
def test_no_experiment_makes_the_kernel_report_anything(
    kasan: UmlTestbed, case: str, tmp_path: Path
) -> None:
    experiment = apply_overrides(load(EXPERIMENT), SETTINGS)
    (run,) = expand(experiment, {"case": case})
    files = RunFiles(tmp_path / "run")
    files.create()
    kasan.execute(compose(run), files, seed=1)

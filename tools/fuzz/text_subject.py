"""What is fuzzed of the files that a user brings: each as one function of its bytes.

A message to the user is an answer; whatever else is raised is what is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tcpf_lab.base.errors import SpecError
from tcpf_lab.plan.compose import compose
from tcpf_lab.spec import load
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.uml import guest_plan
from tools.fuzz.text_seeds import inventories, specs

#: What gives the inputs that a target begins with, by name.
SEEDS = {"spec": specs, "inventory": inventories}
#: An experiment with more flows or runs than that is not planned: it takes its time.
_FEW_FLOWS, _FEW_RUNS = 200, 500


def spec(data: bytes) -> str:
    """Read a file of experiments; an experiment is written again, and its first run planned.

    Raises
    ------
    AssertionError
        If an error is without a line, or what is written is not what was read.
    """
    found = _read(data, load.load_any)
    if isinstance(found, Collection | Calibration | str):
        return found if isinstance(found, str) else type(found).__name__.lower()
    assert isinstance(found, Experiment)
    text = load.dump(found)
    assert load.parse(text, "written") == found, "what is written is not what was read"
    matrix = found.matrix
    flows = matrix.flows or [sum(group.flows for group in (found.traffic.groups or {}).values())]
    if len(flows) * len(matrix.seed) > _FEW_RUNS or min(flows) > _FEW_FLOWS:
        return "large experiment"
    runs = expand(found)
    names = {run.id for run in runs}
    assert len(names) == len(runs), "two runs have one name"
    assert all("/" not in name and len(name) < 230 for name in names), "no name of a directory"
    fewest = min(runs, key=lambda run: run.flows)
    guest_plan.render(compose(fewest))
    return "experiment"


def inventory(data: bytes) -> str:
    """Read an inventory.

    Raises
    ------
    AssertionError
        If an error is without a line.
    """
    found = _read(data, lambda path: load.load_as(path, Inventory))
    return found if isinstance(found, str) else "inventory"


def _read(data: bytes, read: Callable[[Path], object]) -> object:
    """Give what was read, or that it was refused: with a line, if it has any."""
    memory = os.memfd_create("file")
    try:
        os.write(memory, data)
        path = Path(f"/proc/self/fd/{memory}")
        return read(path)
    except SpecError as error:
        for problem in load.each(error):
            place, _, line = problem.where.rpartition(":")
            told = place == str(path) and line.isdecimal()
            assert told or "larger than" in problem.message, f"no line: {problem.where}"
        str(error).encode()
        return "refused"
    finally:
        os.close(memory)

"""What a packet costs: the harness measures what it says, and the targets hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from run_maker import locked

from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.bench import bench_cost

PACKETS = 20_000
#: Bytes: where the harness has its thresholds.
MIN, MAX = 10_000, 200_000


@pytest.fixture(scope="session")
def program(uml: UmlTestbed, products: Path) -> Path:
    directory = products / "cost"
    with locked(products):
        if not (directory / "cost").exists():
            bench_cost.build(directory, uml.kernel.tree)
    return directory / "cost"


def load(program: Path, kind: str, flows: int, packets: int = PACKETS) -> dict[str, Any]:
    words = [str(program), kind, str(flows), str(PACKETS), str(packets)]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", ["red", "rio", "frio"])
def test_queues_drop_one_in_twenty_between_their_thresholds(program, kind):
    result = load(program, kind, 256)
    assert 0.045 < result["dropped"] / PACKETS < 0.055
    assert 0.48 < result["in"] / PACKETS < 0.52
    assert MIN < result["backlog"] < MAX


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", [*bench_cost.PER_PACKET, *bench_cost.PER_TICK])
def test_every_kind_that_is_measured_runs(program, kind):
    result = load(program, kind, 16, 100)
    assert result["in"] > 0


@pytest.mark.uml
@pytest.mark.full
def test_rio_and_frio_cost_little_more_than_mainline_red(program):
    """Instructions per packet: a queue that few know is compared with one that all know."""
    assert shutil.which("valgrind")
    red = bench_cost.count(program, "red", 256, PACKETS)
    rio = bench_cost.count(program, "rio", 256, PACKETS)
    frio = [bench_cost.count(program, "frio", flows, PACKETS) for flows in (1, 65536)]
    assert rio <= 1.3 * red
    assert max(frio) <= 2 * red
    assert max(frio) <= 1.2 * min(frio)

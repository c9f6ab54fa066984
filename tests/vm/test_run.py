"""Experiments on the hosts of the guests, as a user makes them: run, analysed, and nothing left."""

from __future__ import annotations

import json
import time
from pathlib import Path

import guest_hosts
import host_picture
import kills
import pytest
from guest_hosts import ROOT, Hosts

from tcpf_lab.results.layout import PARTIAL, ExperimentFiles, RunFiles
from tcpf_lab.testbed.vm import layout

pytestmark = pytest.mark.nightly
RESULT = ROOT / "results" / "vm" / "runs.json"
#: A run of a minute and a half, and its analysis, s.
PATIENCE_S = 900.0


def made(hosts: Hosts, directory: Path, spec: str, *words: str) -> tuple[RunFiles, float]:
    """Make one run and check all that must hold of it; return it, and the time it took, s."""
    before = host_picture.take(hosts)
    began = time.monotonic()
    process = hosts.lab("run", spec, "--testbed", "vm", *words, directory=directory)
    said = process.communicate(timeout=PATIENCE_S)[0]
    took = time.monotonic() - began
    files = ExperimentFiles(directory / "results", Path(spec).stem, layout.NAME)
    assert not list(files.root.glob(f"*{PARTIAL}")), said
    (run,) = files.runs()
    assert host_picture.until_same(hosts, before, kills.UNDONE_S) == []
    return run, took


def note(name: str, run: RunFiles, took: float) -> None:
    """Add a run to the figures of this session."""
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    metrics = json.loads(run.metrics.read_text())
    found[name] = {
        "took_s": round(took, 1),
        "valid": metrics["validity"]["valid"],
        "reasons": metrics["validity"]["reasons"],
        "drift_error_ppm": guest_hosts.drifts(run),
        "metrics": metrics["metrics"],
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{name}: {took:.0f} s, valid: {metrics['validity']['valid']}")


def test_quick_trial_is_made_and_analysed(hosts: Hosts, tmp_path: Path) -> None:
    """Whether rates and instants were kept depends on the machine, and is not asked of it here."""
    run, took = made(hosts, tmp_path, "smoke.yaml", "--only", "case=NoMark+RED")
    guest_hosts.check_whole(run)
    note("smoke", run, took)


def test_half_duplex_bottleneck_is_a_wire_of_the_routers_kernel(
    hosts: Hosts, tmp_path: Path
) -> None:
    """Two flows of our generator are little enough for an emulated processor to be on time."""
    settings = (
        *("traffic.generator=native", "matrix.flows=2", "topology.chain.duplex=half"),
        *("traffic.start_spread=200 ms", "traffic.warmup=1 s", "traffic.duration=4 s"),
    )
    words = [word for setting in settings for word in ("--set", setting)]
    run, took = made(hosts, tmp_path, "smoke.yaml", "--only", "case=NoMark+RED", *words)
    metrics = guest_hosts.check_whole(run, "native")
    note("half duplex", run, took)
    assert metrics["validity"]["valid"], metrics["validity"]["reasons"]
    assert sum(metrics["wires"][0]["collisions"]) > 0


def test_a_hundred_flows_are_valid(hosts: Hosts, tmp_path: Path) -> None:
    """As published, at 10 Mbit/s and 200 ms, over a switched network.

    Of our generator: two hundred processes of iperf3 are more than an emulated processor carries.
    """
    words = ("--only", "case=NoMark+RED", "--only", "flows=100", "--seeds", "1")
    words = (*words, "--set", "traffic.generator=native")
    run, took = made(hosts, tmp_path, "rio_as_red.yaml", *words)
    metrics = guest_hosts.check_whole(run, "native")
    note("a hundred flows", run, took)
    assert metrics["flows"] == 100
    assert metrics["validity"]["valid"], metrics["validity"]["reasons"]

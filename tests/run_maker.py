"""Runs of the fake testbed, complete and without a report."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tcpf_lab.runner import run_all
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.base import Testbed


def make_runs(results: Path, testbed: Testbed, experiment: Experiment) -> None:
    """Make every run of an experiment; a report would take longer than they do."""
    runs = expand(experiment.on(testbed.generator))
    with ThreadPoolExecutor(1) as executor:
        events = list(run_all(runs, testbed, results, executor, keep_pcaps=True))
    assert {event.kind for event in events} == {"finished"}

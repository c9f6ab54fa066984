"""Complete runs without a report, in directories that the workers of a session may share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.run.runner import Task, carry_out, run_all
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.base import Testbed


def make_runs(results: Path, testbed: Testbed, experiment: Experiment) -> None:
    """Make every run of an experiment; a report would take longer than they do."""
    runs = expand(experiment.on(testbed.generator))
    with ThreadPoolExecutor(1) as executor:
        events = list(run_all(runs, testbed, results, executor, keep_pcaps=True))
    assert {event.kind for event in events} == {"finished"}


def make_run(results: Path, testbed: Testbed, run: Run, *, keep_pcaps: bool = True) -> RunFiles:
    """Make one run of an experiment in this process; give its files."""
    files = ExperimentFiles(results, run.experiment.name, testbed.name)
    event = carry_out(Task(run, testbed, files, keep_pcaps=keep_pcaps, commit="test"))
    assert (event.kind, event.detail) == ("finished", ""), event.detail
    return files.run(run.id)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the other workers of this test session out of ``directory``."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

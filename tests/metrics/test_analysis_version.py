"""Numbers of the analysis change only together with its version, `summary.ANALYSIS`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpf_lab
from tcpf_lab.metrics import summary
from tcpf_lab.results.layout import read_json

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "analysis.json"
#: Seen at the senders: 4 flows over 10 s with loss, reordering and duplication in both directions.
SENDERS = sorted((HERE.parent / "data" / "senders").glob("*.pcap.zst"))


def of_run(root: Path) -> dict[str, Any]:
    """Give the numbers of a run, and a hash of each of its series."""
    metrics = read_json(root / "metrics.json")
    with np.load(root / "series.npz") as series:
        hashes = {name: hashlib.sha256(series[name].tobytes()).hexdigest() for name in series.files}
    return {name: metrics[name] for name in metrics if name != "analysis"} | {"series": hashes}


def of_capture(path: Path) -> dict[str, Any]:
    """Give the rows of the flows of a capture, and how often each rule named each cause."""
    found = tcpf_lab.analyze(path)
    events = found.events.to_dict("records")
    causes = Counter(f"{e['kind']}, rule {e['rule']}, {e['spurious'] or '-'}" for e in events)
    each = [[e["flow"], e["record"], e["rule"], e["backoff"], e["spurious"]] for e in events]
    return {
        "causes": dict(sorted(causes.items())),
        "events": hashlib.sha256(json.dumps(each).encode()).hexdigest(),
        "flows": found.flows.drop(columns="capture").to_dict("records"),
    }


def of_senders() -> dict[str, Any]:
    return {path.name.partition(".")[0]: of_capture(path) for path in SENDERS}


def as_text(numbers: dict[str, Any]) -> str:
    """Write a line for each entry of the second level: what changed is seen in a diff."""
    rows = (
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        + "\n  }"
        for name, part in numbers.items()
    )
    return "{\n" + ",\n".join(rows) + "\n}\n"


def test_numbers_and_version_change_together(made: Path, request: pytest.FixtureRequest) -> None:
    run = made / "tiny" / "fake" / "nomark+red-flows3-seed1"
    numbers = {"version": {"analysis": summary.ANALYSIS}, "run": of_run(run), **of_senders()}
    golden = json.loads(GOLDEN.read_text())
    same_version = golden["version"] == numbers["version"]
    changed = [name for name in numbers if name != "version" and numbers[name] != golden.get(name)]
    assert not (changed and same_version), (
        f"numbers of {', '.join(changed)} changed: raise ANALYSIS in tcpf_lab/metrics/summary.py, "
        "then run this test with --update-golden and review the diff"
    )
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(as_text(numbers))
    else:
        assert same_version, "ANALYSIS was raised: run this test with --update-golden"


def test_comments_docstrings_and_names_of_modules_leave_runs_complete(
    made: Path, tmp_path: Path
) -> None:
    """What identifies a run is the same to a copy of the package that was edited all over."""
    package = Path(tcpf_lab.__file__).parent
    copy = tmp_path / "tcpf_lab"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("kernel", "experiments", "testbeds"):
        (tmp_path / part).symlink_to(package.parent / part)
    (copy / "trace" / "follow.py").rename(copy / "trace" / "why.py")
    for source in copy.rglob("*.py"):
        text = re.sub(r"\btrace\.follow\b", "trace.why", source.read_text())
        text = re.sub(r'\A"""', '"""Edited. ', text)
        source.write_text(f"{text}# A comment.\n")
    code = """
import sys
from pathlib import Path
import tcpf_lab
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.run.runner import examine
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.fake import FakeTestbed
here, results, recorded = map(Path, sys.argv[1:])
assert Path(tcpf_lab.__file__).is_relative_to(here)
fake = FakeTestbed(recorded)
experiment = load(recorded / "experiment.yaml").on(fake.generator)
files = ExperimentFiles(results, experiment.name, fake.name)
print([examine(run, files, fake.identity).state.value for run in expand(experiment)])
"""
    recorded = HERE.parent / "data" / "recorded-run"
    reply = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(made), str(recorded)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.stdout == f"{['complete'] * 3}\n", reply.stderr

"""The lost testbed: concluded anew from its recorded numbers, and its page from the outcome."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard
from door import REFERENCE, Hold, readable, tcpf_lab
from recorded_calibration import conclude

pytestmark = pytest.mark.oracle

KEPT = REFERENCE / "lost_testbed"
#: What the fit of the emulator leaves to the machine's floating point.
RELATIVE = 1e-4


def test_outcome(hold: Hold, tmp_path: Path) -> None:
    found = conclude("lost_testbed.yaml", KEPT / "calibration.json.zst", tmp_path)
    hold("calibration.json.zst", dict(lines(found)), relative=RELATIVE)


def lines(found: dict[str, Any]) -> Any:
    """Give what is concluded; what is merely passed on is in the record already."""
    for one in found["points"]:
        del one["measured"], one["values"]
    for one in found["settings"]:
        del one["mean"], one["half"], one["values"], one["runs"]
    for one in found["claims"]:
        del one["statement"]
    passed_on = {
        *("cells", "table", "published", "title", "validity", "runs", "format", "digests", "seen"),
        *("name", "testbed", "fit", "test", "metrics", "experiments", "tolerance", "seeds"),
        "notes",  # sentences
    }
    yield from readable({key: value for key, value in found.items() if key not in passed_on})


def test_page(tmp_path: Path) -> None:
    """The kept tables are what the kept outcome gives, byte for byte."""
    home = tmp_path / "lost_testbed" / "calibration"
    home.mkdir(parents=True)
    for name in ("cost.json", "variants.json.zst"):
        shutil.copy(KEPT / name, home)
    outcome = zstandard.decompress((KEPT / "calibration.json.zst").read_bytes())
    (home / "calibration.json").write_bytes(outcome)
    answer = tcpf_lab("report", "lost_testbed.yaml", "--format", "csv", "--results", tmp_path)
    assert answer.status == 0, answer.err
    kept = sorted(KEPT.glob("*.csv"))
    assert kept
    for path in kept:
        assert (home / path.name).read_bytes() == path.read_bytes(), path.name

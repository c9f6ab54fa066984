"""What ``tcpf-lab analyze --json --events`` says of captures, and where it refuses one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hostile
import pytest
from door import ROOT, Hold, readable, tcpf_lab

pytestmark = pytest.mark.oracle

CORPUS = ROOT / "tests" / "trace" / "corpus"
DATA = ROOT / "tests" / "data"


#: Where a capture is damaged; the words around it are no oracle.
PLACE = re.compile(r"packet (\d+) at byte (\d+)")


def analysed(path: Path) -> dict[str, Any]:
    """Give everything that is said of a capture, by the lines of the oracle; no path is in it."""
    answer = tcpf_lab("analyze", "--json", "--events", path.name)
    place = PLACE.search(answer.err)
    lines: dict[str, Any] = {"status": [answer.status, place[0] if place else ""]}
    for capture in json.loads(answer.out)["captures"] if answer.out else ():
        events = capture.pop("event_list")
        lines |= readable(capture)
        for event in events:
            del event["explanation"]
        lines["columns of events"] = list(events[0]) if events else []
        lines["events"] = [list(event.values()) for event in events]
    return lines


def test_recorded_captures(hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for path in (*sorted(CORPUS.iterdir()), *sorted(DATA.glob("*/pcap/*"))):
        monkeypatch.chdir(path.parent)
        name = path.relative_to(ROOT)
        found |= {f"{name}: {key}": value for key, value in analysed(path).items()}
    hold("captures.json.zst", found)


def test_hostile_captures(hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, data in hostile.captures():
        path = tmp_path / name
        path.write_bytes(data)
        found |= {f"{name}: {key}": value for key, value in analysed(path).items()}
    hold("hostile.json.zst", found)

"""What ``tc`` would have shown at the window's ends of a recorded run, reckoned from captures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tcpf_lab.trace.packet import read_capture

#: Of the recorded experiment, seconds after the epoch.
WINDOW = {"start": 1.0, "end": 5.0}
DEVICE = "R1-R2"


def without_captures(recorded: Path, place: Path) -> Path:
    """Copy a recording as it would be without captures, with the readings at the window's ends."""
    shutil.copytree(recorded, place)
    epoch = json.loads((place / "stats" / "epoch.json").read_text())["epoch_ns"]
    came, left = (
        read_capture(place / "pcap" / f"R1-{side}.pcap.zst").packets for side in ("in", "out")
    )
    shown = json.loads((place / "stats" / "qdisc-R1.json").read_text())
    (root,) = [q for q in shown if q.get("dev") == DEVICE and q.get("root")]
    for label, seconds in WINDOW.items():
        at = epoch + round(1e9 * seconds)
        gone = left["time_ns"] < at
        waiting = min(int((came["time_ns"] < at).sum() - gone.sum()), 5)
        reading = {
            **{name: root[name] for name in ("kind", "handle", "root", "options")},
            "bytes": int(left["wire_length"][gone].sum()),
            "packets": int(gone.sum()),
            "drops": root["drops"] if label == "end" else 0,
            "qlen": waiting,
        }
        path = place / "stats" / f"qdisc-window-{label}-R1.json"
        path.write_text(json.dumps([reading]))
    for path in (place / "pcap").iterdir():
        path.unlink()
    return place
